//! What fills the disk, and for whom it is kept: by segment, by topic and by subscription. Changes nothing.
//!
//! What an event costs is counted as the average of its topic's events in its segment. Segments are forgotten whole,
//! oldest first: a subscription that needs one event of the oldest keeps all of them.

mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_core::position::{SubscriptionId, TopicId};
use roaring::RoaringTreemap;

pub use self::report::{SegmentStat, StatReport, SubscriptionStat, TopicStat};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::inspect::Inspected;
use crate::secrets::Secrets;
use crate::view::table::{MemoryTable, OpenTable, Table};
use crate::view::{View, ViewOptions};

/// Looks at a store that nobody uses, with the table under its view and the key of its secrets.
///
/// # Errors
/// If there is no store or a server uses it, and whatever would keep it from being opened.
pub fn stat(
    disk: &dyn Disk,
    secrets: &Arc<Secrets>,
    open_table: OpenTable<'_>,
) -> Result<StatReport, StoreError> {
    let log = Inspected::open(disk)?;
    let view = open_view(disk, secrets, open_table()?, &log)?;
    let mut report = StatReport {
        oldest: log.oldest(),
        end: log.end,
        ..StatReport::default()
    };
    let mut topics: BTreeMap<TopicId, TopicStat> = BTreeMap::new();
    let mut subscriptions: BTreeMap<SubscriptionId, SubscriptionStat> = BTreeMap::new();
    for segment in &log.segments {
        let content = segment.content();
        let mut stat = SegmentStat {
            number: segment.number,
            file_bytes: segment.capacity.into(),
            used_bytes: content.end.into(),
            ..SegmentStat::default()
        };
        for (topic, range) in &content.topics {
            let share = Share {
                bytes: range.bytes,
                count: range.count(),
            };
            let kept = view.kept(*topic, range.first_seq..=range.last_seq);
            let kept = Kept::new(kept);
            let topic_stat = topics.entry(*topic).or_insert_with(|| TopicStat {
                id: topic.0,
                name: name_of(&view, *topic),
                ..TopicStat::default()
            });
            let needed_bytes = share.bytes_of(kept.by_anybody.len());
            topic_stat.events += share.count;
            topic_stat.bytes += share.bytes;
            topic_stat.needed_bytes += needed_bytes;
            stat.events += share.count;
            stat.event_bytes += share.bytes;
            stat.needed_bytes += needed_bytes;
            for (id, events) in &kept.by {
                let entry = subscriptions
                    .entry(*id)
                    .or_insert_with(|| subscription_stat(&view, *id, segment.number));
                entry.events += events.len();
                entry.bytes += share.bytes_of(events.len());
                entry.only_bytes += share.bytes_of(events.difference_len(&kept.by_many));
            }
        }
        report.segments.push(stat);
    }
    for file in &log.kept {
        report.kept_files += 1;
        report.kept_bytes += file.len_bytes;
        for (topic, events) in &file.topics {
            let (Some(first), Some(last)) = (events.seqs.min(), events.seqs.max()) else {
                continue;
            };
            let share = Share {
                bytes: events.bytes,
                count: events.seqs.len(),
            };
            let mut kept = view.kept(*topic, first..=last);
            for (_, seqs) in &mut kept {
                *seqs &= &events.seqs;
            }
            let kept = Kept::new(kept);
            let topic_stat = topics.entry(*topic).or_insert_with(|| TopicStat {
                id: topic.0,
                name: name_of(&view, *topic),
                ..TopicStat::default()
            });
            topic_stat.events += share.count;
            topic_stat.bytes += share.bytes;
            topic_stat.needed_bytes += share.bytes_of(kept.by_anybody.len());
            for (id, events) in &kept.by {
                let entry = subscriptions
                    .entry(*id)
                    .or_insert_with(|| subscription_stat(&view, *id, 0));
                entry.events += events.len();
                entry.bytes += share.bytes_of(events.len());
                entry.only_bytes += share.bytes_of(events.difference_len(&kept.by_many));
            }
        }
    }
    report.topics = topics.into_values().collect();
    report
        .topics
        .sort_by_key(|topic| std::cmp::Reverse(topic.bytes));
    report.subscriptions = subscriptions.into_values().collect();
    report
        .subscriptions
        .sort_by_key(|one| std::cmp::Reverse((one.only_bytes, one.bytes)));
    Ok(report)
}

/// One topic's events in one segment.
struct Share {
    bytes: u64,
    count: u64,
}

impl Share {
    /// What so many of them cost.
    fn bytes_of(&self, count: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(count) / u128::from(self.count.max(1));
        u64::try_from(bytes).expect("a part is no more than the whole")
    }
}

/// Which events of one topic in one segment are needed.
struct Kept {
    by: Vec<(SubscriptionId, RoaringTreemap)>,
    by_anybody: RoaringTreemap,
    /// Needed for more than one subscription.
    by_many: RoaringTreemap,
}

impl Kept {
    fn new(by: Vec<(SubscriptionId, RoaringTreemap)>) -> Self {
        let (mut by_anybody, mut by_many) = (RoaringTreemap::new(), RoaringTreemap::new());
        for (_, events) in &by {
            by_many |= &by_anybody & events;
            by_anybody |= events;
        }
        Self {
            by,
            by_anybody,
            by_many,
        }
    }
}

/// The view at the end of the log, in memory.
fn open_view(
    disk: &dyn Disk,
    secrets: &Arc<Secrets>,
    table: Option<Arc<dyn Table>>,
    log: &Inspected,
) -> Result<View, StoreError> {
    let table = table.unwrap_or_else(|| Arc::<MemoryTable>::default());
    let options = ViewOptions {
        store_id: log.store_id,
        terminal_records_max: u64::MAX,
    };
    let mut view = View::open(table, disk, Arc::clone(secrets), options)?;
    view.check_between(log.oldest(), log.end)?;
    log.for_each_group(view.mark(), |group| view.fold(group))?;
    Ok(view)
}

fn name_of(view: &View, topic: TopicId) -> Option<String> {
    let topic = view.catalog().topic(topic)?;
    Some(topic.name.as_str().to_owned())
}

fn subscription_stat(view: &View, id: SubscriptionId, oldest_segment: u32) -> SubscriptionStat {
    let declared = view.catalog().subscription(id);
    SubscriptionStat {
        id: id.0,
        name: declared.map(|one| one.name.as_str().to_owned()),
        topic: declared.and_then(|one| name_of(view, one.topic)),
        oldest_segment,
        ..SubscriptionStat::default()
    }
}
