//! Whether every event that is still needed for a subscription is there: in the log, or kept.

use std::collections::BTreeMap;

use hedgerow_core::position::TopicId;
use roaring::RoaringTreemap;

use super::report::CheckReport;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::inspect::Inspected;
use crate::view::View;

/// Compares what the view needs at the end of the log with what there is. The view is folded up to there.
pub(super) fn check(
    disk: &dyn Disk,
    mut view: View,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let log = Inspected::look(disk)?;
    log.for_each_group(view.mark(), |group| view.fold(group))?;
    let there = events_of(&log);
    let nothing = RoaringTreemap::new();
    for (topic, next_seq) in view.next_seqs() {
        let there = there.get(&topic).unwrap_or(&nothing);
        for (subscription, needed) in view.kept(topic, 1..=next_seq.saturating_sub(1)) {
            let missing = needed - there;
            let Some(first) = missing.min() else { continue };
            let declared = view.catalog().subscription(subscription);
            let name = declared.map_or("", |one| one.name.as_str());
            let what = format!(
                "subscription {name} (number {}) needs {} events of topic number {} that are not there, from event \
                 {first} on",
                subscription.0,
                missing.len(),
                topic.0
            );
            report.problem("log, kept", None, what);
        }
    }
    Ok(())
}

/// The events there are, by topic.
fn events_of(log: &Inspected) -> BTreeMap<TopicId, RoaringTreemap> {
    let mut there: BTreeMap<TopicId, RoaringTreemap> = BTreeMap::new();
    for segment in &log.segments {
        for (topic, range) in &segment.content().topics {
            let seqs = there.entry(*topic).or_default();
            seqs.insert_range(range.first_seq..=range.last_seq);
        }
    }
    for file in &log.kept {
        for (topic, kept) in &file.topics {
            *there.entry(*topic).or_default() |= &kept.seqs;
        }
    }
    there
}
