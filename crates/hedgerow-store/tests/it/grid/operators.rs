//! What operators do to deliveries: a purge, which drops bit by bit what was pending, and resends of events that are settled.

use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, Subscription};
use hedgerow_store::record::{Begun, Owed, Progress, Purged, Read, Record, Resent};
use hedgerow_store::{Store, StoreError};

use super::{Grid, SUBSCRIPTIONS};

/// Events of which some are begun without attempts at a time.
const BEGUN_AMONG: u64 = 5;

/// How far behind the cursor an event may lie that is sent again: most of the log behind it is forgotten.
const RESENT_BEHIND_MAX: u64 = 60;

impl Grid {
    /// Up to which event a purge of the subscription is under way.
    pub fn purging_to(&self, id: SubscriptionId) -> Option<u64> {
        let found = self.view.catalog().subscription(id);
        found.and_then(Subscription::purging_to)
    }

    /// Begins a purge. A READ record that was queued before comes after it at times.
    pub fn purge(&mut self, (id, topic): (SubscriptionId, TopicId)) {
        self.purges += 1;
        let queued = self.random.one_in(2).then(|| self.read_record(topic));
        let head = self.view.next_seq(topic);
        let from_seq = self.view.cursor(id);
        self.declare(&Change::SubscriptionPurged {
            id,
            from_seq,
            at: self.later(0),
        });
        if let Some(read) = queued {
            self.journal(Record::Read(read));
        }
        let unbegun = self.random.below(head - from_seq + 1);
        self.drop_purged(id, unbegun, Vec::new());
        assert_eq!(self.view.cursor(id), head, "everything before is passed");
    }

    /// Drops some of what a purge has to drop, or says that it is over.
    pub fn go_on_purging(&mut self, id: SubscriptionId, to_seq: u64) {
        let rows = self.waiting(id).into_iter();
        let rows = rows.filter(|row| row.seq < to_seq && matches!(row.owed, Owed::Attempt(_)));
        let mut rows: Vec<_> = rows.map(|row| (row.seq, row.due)).collect();
        if rows.is_empty() {
            self.declare(&Change::SubscriptionPurgeEnded { id });
        } else {
            rows.truncate(1 + self.random.below(4) as usize);
            self.drop_purged(id, 0, rows);
        }
    }

    /// Begins some of the next events of a subscription without attempts; it does not want the others.
    pub fn begin_unattempted(&mut self, (id, topic): (SubscriptionId, TopicId)) {
        let before = self.view.counters(id);
        let mut events = Vec::new();
        let from = self.view.cursor(id);
        for seq in from..self.view.next_seq(topic).min(from + BEGUN_AMONG) {
            if self.random.one_in(3) {
                events.push((seq, self.later(0)));
            }
        }
        let count = events.len() as u64;
        self.journal(Record::Begun(Begun {
            subscription: id,
            events: events.clone(),
        }));
        self.commit();
        let (counters, pending) = self.view.counters(id);
        assert_eq!(
            (counters.matched, pending),
            (before.0.matched + count, before.1 + count)
        );
        if let Some((last, published)) = events.last() {
            assert_eq!(self.view.cursor(id), last + 1);
            let owed = self.view.owed(id, *published, *last).unwrap();
            assert_eq!(owed, Some(Begun::owed(*published)));
        }
    }

    fn drop_purged(
        &mut self,
        subscription: SubscriptionId,
        unbegun: u64,
        deliveries: Vec<(u64, Timestamp)>,
    ) {
        let count = unbegun + deliveries.len() as u64;
        let before = self.view.counters(subscription).0.dropped;
        self.journal(Record::Purged(Purged {
            subscription,
            unbegun,
            deliveries,
        }));
        self.commit();
        let dropped = self.view.counters(subscription).0.dropped;
        assert_eq!(dropped, before + count, "each is dropped once");
    }

    pub fn read_record(&self, topic: TopicId) -> Read {
        let head = self.newest.get(&topic).copied().unwrap_or(0) + 1;
        let laggards = SUBSCRIPTIONS
            .iter()
            .filter(|(_, of)| *of == topic)
            .map(|(id, _)| (*id, self.view.cursor(*id)))
            .filter(|(_, cursor)| *cursor < head);
        Read {
            topic,
            read_to: head,
            laggards: laggards.collect(),
        }
    }

    /// Sends a settled event again, if the log still has it. It is pinned first, and then no cleaning takes it.
    pub fn resend(&mut self, (id, topic): (SubscriptionId, TopicId)) {
        let cursor = self.view.cursor(id);
        let back = 1 + self.random.below(RESENT_BEHIND_MAX);
        let Some(seq) = cursor.checked_sub(back).filter(|seq| *seq > 0) else {
            return;
        };
        let position = Position { topic, seq };
        match self.log.read(position) {
            Ok(_) if self.view.is_open(id, seq) => return,
            Ok(_) => {}
            Err(StoreError::Forgotten { .. }) => return,
            Err(error) => panic!("{error}"),
        }
        self.view.pin(position);
        if self.random.one_in(2) {
            self.checkpoint();
        }
        self.log.read(position).unwrap();
        let before = self.view.counters(id);
        let now = self.later(0);
        let resent = Resent {
            subscription: id,
            seq,
            due: now,
            progress: Progress {
                published: now,
                attempts: 0,
                first_attempt: now,
                last_attempt: now,
                last_outcome: Outcome::Delivering,
                last_status: 0,
                crashes: 0,
                crash_epoch: 0,
            },
        };
        // A second one, which was queued before the first was durable, changes nothing.
        for _ in 0..=self.random.below(2) {
            self.journal(Record::Resent(resent));
        }
        self.commit();
        self.view.unpin(position);
        let (counters, pending) = self.view.counters(id);
        assert_eq!(
            (counters.matched, pending),
            (before.0.matched + 1, before.1 + 1),
            "it is owed once more"
        );
        self.resends += 1;
    }
}
