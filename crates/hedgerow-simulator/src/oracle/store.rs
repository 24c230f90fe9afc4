//! The store after it was opened: everything that was durable is there, and the view says what the model says.

use std::sync::Arc;

use hedgerow_core::position::Mark;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::log::RecoveredLog;
use hedgerow_store::record::{IN_FLIGHT, Owed};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::{FIRST_IN_FLIGHT, View};

use super::{Oracle, hash_of};
use crate::model::State;

/// Bytes of log that are looked at together.
const LOOK_BYTES: usize = 1 << 20;

impl Oracle {
    /// The secrets of the store's catalog are read with this.
    pub fn take_secrets(&mut self, secrets: &Arc<Secrets>) {
        self.secrets = Some(Arc::clone(secrets));
    }

    /// The log was opened: it has all that was durable, and perhaps more that nobody was told of.
    pub fn reopened(&mut self, log: &RecoveredLog) -> Result<(), StoreError> {
        self.tally.openings += 1;
        let mut from = log.oldest();
        if from > self.last_mark {
            self.fail(format!(
                "the log begins at {from}, behind {}",
                self.last_mark
            ));
            return Ok(());
        }
        let mut last = Mark::ZERO;
        loop {
            let groups = log.groups(from, LOOK_BYTES)?;
            for group in &groups {
                match self.groups.get(&group.number) {
                    Some(known) if *known == hash_of(group) => {}
                    Some(_) => self.fail(format!("group {} is not what it was", group.number)),
                    None if group.number == self.last_group + 1 => self.adopt(group),
                    None => self.fail(format!("group {} comes from nowhere", group.number)),
                }
                from = group.end;
                last = group.end;
            }
            if groups.is_empty() {
                break;
            }
        }
        if self.last_mark > last.max(log.oldest()) {
            self.fail(format!(
                "what was durable is lost: the log ends at {last}, and group {} ended at {}",
                self.last_group, self.last_mark
            ));
        }
        self.live = self.durable.clone();
        self.live.restart();
        self.durable.restart();
        let missing = self.accepted.iter().find(|(id, appended)| {
            let places = self.places.get(*id);
            places.is_none_or(|places| !places.contains(&appended.first))
        });
        if let Some((id, _)) = missing {
            let message = format!("{id} was accepted and is lost");
            self.fail(message);
        }
        Ok(())
    }

    /// The view is what the durable records say.
    pub fn compare(&mut self, view: &View) -> Result<(), StoreError> {
        let mut wrong = Vec::new();
        for (id, known) in &self.durable.subscriptions {
            let (counters, open) = view.counters(*id);
            let found = (
                counters.matched,
                counters.delivered,
                counters.dead_lettered,
                counters.dropped,
            );
            let counts = known.counts;
            let expected = (
                counts.matched,
                counts.delivered,
                counts.dead_lettered,
                counts.dropped,
            );
            if found != expected {
                wrong.push(format!(
                    "{}: counters {found:?}, not {expected:?}",
                    known.name
                ));
            }
            let ends = counters.delivered + counters.dead_lettered + counters.dropped;
            if counters.matched != ends + counters.given_up + open {
                wrong.push(format!(
                    "ED-304: {}: {counters:?} and {open} open do not balance",
                    known.name
                ));
            }
            let rows = view.due(*id, FIRST_IN_FLIGHT, Timestamp::MAX, usize::MAX)?;
            let found: Vec<_> = rows
                .iter()
                .map(|row| (row.seq, row.due, matches!(row.owed, Owed::DeadLetter(_))))
                .collect();
            let mut expected: Vec<_> = known
                .deliveries
                .iter()
                .filter_map(|(seq, delivery)| match delivery.state {
                    State::Waiting(due) => Some((*seq, due, false)),
                    State::Flying => Some((*seq, IN_FLIGHT, false)),
                    State::Letter(due) => Some((*seq, due, true)),
                    _ => None,
                })
                .collect();
            expected.sort_by_key(|(seq, due, _)| (*due, *seq));
            if found != expected {
                wrong.push(format!("{}: rows {found:?}, not {expected:?}", known.name));
            }
        }
        for (id, gone) in &self.durable.gone {
            let rows = view.due(*id, FIRST_IN_FLIGHT, Timestamp::MAX, usize::MAX)?;
            if !rows.is_empty() {
                wrong.push(format!("{} is gone, and is owed {rows:?}", gone.name));
            }
        }
        for wrong in wrong {
            self.fail(format!("the view disagrees with the log: {wrong}"));
        }
        Ok(())
    }
}
