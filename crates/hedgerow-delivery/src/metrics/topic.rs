//! What is counted of a topic; events that nobody wanted among it, once all were asked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::lock;
use super::tally::Tally;

/// Matches of one topic that wait for subscriptions that are behind. Beyond, these are not waited for.
const MATCHES_MAX: usize = 65_536;

/// The counters of one topic.
#[derive(Debug, Default)]
pub struct TopicMetrics {
    /// Its name.
    pub name: String,
    /// Events that were accepted.
    pub published: AtomicU64,
    /// From the request to its answer, summed over the requests that were accepted. Microseconds.
    pub publish_micros: AtomicU64,
    /// Events that were refused, by the type of the error and its code.
    pub publish_failed: Tally<(&'static str, &'static str)>,
    /// Events that no subscription wanted.
    pub unmatched: AtomicU64,
    matches: Mutex<Matches>,
}

/// Which of the newest events somebody wanted.
#[derive(Debug, Default)]
struct Matches {
    /// Events before were counted; 0 before the first one.
    counted_to: u64,
    /// Of events from there on, in no order, and more than once if several wanted one.
    seqs: Vec<u64>,
}

impl TopicMetrics {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// A request was accepted, with so many events.
    pub fn accepted(&self, events: u32, took: Duration) {
        self.published
            .fetch_add(u64::from(events), Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.publish_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn note_match(&self, seq: u64) {
        let mut matches = lock(&self.matches);
        if seq >= matches.counted_to {
            matches.seqs.push(seq);
        }
    }

    /// Events before `to` will never be offered to everybody: whether nobody wanted them stays unknown.
    pub(super) fn skip(&self, to: u64) {
        let mut matches = lock(&self.matches);
        if matches.counted_to < to {
            matches.counted_to = to;
            matches.seqs.retain(|seq| *seq >= to);
        }
    }

    /// Counts the events before `head` that nobody wanted, once nobody is behind who might.
    pub(super) fn offered(&self, first: u64, head: u64, is_anybody_behind: bool) {
        let mut matches = lock(&self.matches);
        if matches.counted_to == 0 {
            matches.counted_to = first;
        }
        if is_anybody_behind && matches.seqs.len() < MATCHES_MAX {
            return;
        }
        let counted_to = matches.counted_to;
        matches.seqs.sort_unstable();
        matches.seqs.dedup();
        let wanted = matches
            .seqs
            .iter()
            .filter(|seq| (counted_to..head).contains(*seq));
        let wanted = wanted.count() as u64;
        let unmatched = head.saturating_sub(counted_to).saturating_sub(wanted);
        self.unmatched.fetch_add(unmatched, Ordering::Relaxed);
        matches.seqs.clear();
        matches.counted_to = head.max(counted_to);
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::position::{SubscriptionId, TopicId};

    use super::*;
    use crate::metrics::{Metrics, SubscriptionNames};

    /// An event counts once everybody was asked; who is far behind is not waited for without end.
    #[test]
    fn events_that_nobody_wants_are_counted_when_all_were_asked() {
        let metrics = Metrics::default();
        let topic = metrics.topic(TopicId(1), "t");
        let one = metrics.subscription(SubscriptionId(1), &topic, SubscriptionNames::default());
        let two = metrics.subscription(SubscriptionId(2), &topic, SubscriptionNames::default());
        let unmatched = || topic.unmatched.load(Ordering::Relaxed);
        one.note_match(11);
        two.note_match(11);
        two.note_match(12);
        metrics.offered(TopicId(1), 10, 14, false);
        assert_eq!(unmatched(), 2);
        one.note_match(14);
        metrics.offered(TopicId(1), 14, 16, true);
        assert_eq!(unmatched(), 2, "two is behind");
        two.note_match(15);
        metrics.offered(TopicId(1), 16, 17, false);
        assert_eq!(unmatched(), 3);
        for seq in 17..17 + MATCHES_MAX as u64 {
            one.note_match(seq);
        }
        metrics.offered(TopicId(1), 17, 18 + MATCHES_MAX as u64, true);
        assert_eq!(unmatched(), 4);
    }

    /// While a backlog is caught up and nothing new is published, what is remembered is bounded too.
    #[test]
    fn what_a_backlog_matches_is_not_remembered_without_end() {
        let metrics = Metrics::default();
        let topic = metrics.topic(TopicId(1), "t");
        let one = metrics.subscription(SubscriptionId(1), &topic, SubscriptionNames::default());
        let head = 10 * MATCHES_MAX as u64;
        for seq in 1..head {
            one.note_match(seq);
            if seq % 1_000 == 0 {
                metrics.offered(TopicId(1), head, head, true);
            }
            assert!(lock(&topic.matches).seqs.len() <= MATCHES_MAX + 1_000);
        }
        metrics.offered(TopicId(1), head, head, false);
        assert!(lock(&topic.matches).seqs.is_empty());
        assert_eq!(topic.unmatched.load(Ordering::Relaxed), 0);
        // New events are counted from the reader's place on.
        one.note_match(head);
        metrics.offered(TopicId(1), head, head + 3, false);
        assert_eq!(topic.unmatched.load(Ordering::Relaxed), 2);
    }
}
