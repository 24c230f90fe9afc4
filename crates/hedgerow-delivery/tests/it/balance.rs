//! ED-304, checked at the end of every world: what the log says of each subscription adds up, and the view says the same.
//!
//! The log is read anew, record by record, without the view: a delivery begins with its first STARTED or a DEAD without
//! attempt, or a RESENT, and ends with SETTLED, a DEAD that is final, or a PURGED.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hedgerow_core::position::SubscriptionId;
use hedgerow_store::Group;
use hedgerow_store::record::{DeadThen, Record, Started};
use hedgerow_store::view::View;

/// What became of the deliveries of one subscription, from the records alone.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ledger {
    matched: u64,
    delivered: u64,
    dead_lettered: u64,
    dropped: u64,
    open: BTreeSet<u64>,
}

impl Ledger {
    fn begin(&mut self, seq: u64) {
        if self.open.insert(seq) {
            self.matched += 1;
        }
    }
}

/// Fails unless matched = delivered + dead-lettered + dropped + pending for every subscription, by the records of the log
/// and by the view over it.
pub fn assert_balanced(view: &View, groups: &[Arc<Group>]) {
    let ledgers = read(groups);
    let nothing = Ledger::default();
    for subscription in view.catalog().subscriptions() {
        let id = subscription.id;
        let (counters, pending) = view.counters(id);
        let ends = counters.delivered + counters.dead_lettered + counters.dropped;
        let name = subscription.name.as_str();
        assert_eq!(
            counters.matched,
            ends + counters.given_up + pending,
            "ED-304: matched = delivered + dead-lettered + dropped + pending for {name}: {counters:?}"
        );
        let ledger = ledgers.get(&id).unwrap_or(&nothing);
        // Operators may give up what is owed; the records above do not tell of that.
        if counters.given_up == 0 {
            let by_view = Ledger {
                matched: counters.matched,
                delivered: counters.delivered,
                dead_lettered: counters.dead_lettered,
                dropped: counters.dropped,
                open: view.open_seqs(id).into_iter().collect(),
            };
            assert_eq!(
                &by_view, ledger,
                "the view and the log disagree about {name}"
            );
        }
    }
}

fn read(groups: &[Arc<Group>]) -> BTreeMap<SubscriptionId, Ledger> {
    let mut ledgers: BTreeMap<SubscriptionId, Ledger> = BTreeMap::new();
    for record in groups.iter().flat_map(|group| &group.records) {
        match record {
            Record::Started(Started {
                subscription,
                deliveries,
            }) => {
                let ledger = ledgers.entry(*subscription).or_default();
                for delivery in deliveries {
                    if delivery.replaces_due.is_none() {
                        ledger.begin(delivery.seq);
                    }
                }
            }
            Record::Settled(settled) => {
                let ledger = ledgers.entry(settled.subscription).or_default();
                for (seq, _) in &settled.deliveries {
                    // A late success and a success on time may both be written: the first one counts.
                    if ledger.open.remove(seq) {
                        ledger.delivered += 1;
                    }
                }
            }
            Record::Dead(dead) => {
                let ledger = ledgers.entry(dead.subscription).or_default();
                if dead.due.is_none() {
                    ledger.begin(dead.seq);
                }
                let ends = match dead.then {
                    DeadThen::WriteDue(..) => continue,
                    DeadThen::Written => &mut ledger.dead_lettered,
                    DeadThen::Dropped(_) => &mut ledger.dropped,
                };
                if ledger.open.remove(&dead.seq) {
                    *ends += 1;
                }
            }
            Record::Purged(purged) => {
                let ledger = ledgers.entry(purged.subscription).or_default();
                ledger.matched += purged.unbegun;
                ledger.dropped += purged.unbegun;
                for (seq, _) in &purged.deliveries {
                    if ledger.open.remove(seq) {
                        ledger.dropped += 1;
                    }
                }
            }
            Record::Resent(resent) => {
                let ledger = ledgers.entry(resent.subscription).or_default();
                ledger.begin(resent.seq);
            }
            Record::Begun(begun) => {
                let ledger = ledgers.entry(begun.subscription).or_default();
                begun.events.iter().for_each(|(seq, _)| ledger.begin(*seq));
            }
            _ => {}
        }
    }
    ledgers
}
