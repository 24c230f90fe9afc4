//! What this process has counted: one set of counters for each topic and each subscription (ED-297 to ED-303).
//!
//! They are made when a topic or a subscription is, and handed to whoever counts, so that counting takes no look-up, no
//! lock that anybody waits for, and no memory. They outlive the engine when the store is opened again, and begin at zero
//! with the process. What has to hold over restarts is kept by the view, and balances (ED-304).
//!
//! Counts are of events, not of requests (ED-299). Labels are bounded: names of what is declared, and closed sets of
//! reasons; a subscription that is gone keeps its counters while there is room for them.

mod histogram;
mod tally;
mod topic;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::DropReason;

pub use self::histogram::{Histogram, HistogramSnapshot};
pub use self::tally::{AttemptError, Tally};
pub use self::topic::TopicMetrics;

/// Subscriptions that are gone and whose counters are kept.
const GONE_MAX: usize = 1_000;
/// Milliseconds.
const PROCESSING_BOUNDS: [f64; 12] = [
    5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0,
];
/// Seconds: from what nobody notices to the schedule's end.
const LATENCY_BOUNDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0, 21_600.0, 86_400.0,
];
/// Attempts.
const ATTEMPTS_BOUNDS: [f64; 6] = [1.0, 2.0, 3.0, 5.0, 10.0, 30.0];

/// Events.
const BATCH_BOUNDS: [f64; 11] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0,
];

/// The counters of one process.
#[derive(Debug, Default)]
pub struct Metrics {
    topics: Mutex<BTreeMap<TopicId, Arc<TopicMetrics>>>,
    subscriptions: Mutex<BTreeMap<SubscriptionId, Arc<SubscriptionMetrics>>>,
    /// Requests that named no topic there is.
    pub nowhere: Tally<(&'static str, &'static str)>,
}

/// What a subscription is called where it is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriptionNames {
    /// What it is made for: a topic, a domain, or a domain topic.
    pub topic: String,
    /// Its own name.
    pub subscription: String,
    /// Whether it is made for all of a domain.
    pub is_of_domain: bool,
}

/// The counters of one subscription.
#[derive(Debug)]
pub struct SubscriptionMetrics {
    /// Which one.
    pub id: SubscriptionId,
    /// Its topic's.
    pub topic: Arc<TopicMetrics>,
    /// What it is called.
    pub names: SubscriptionNames,
    /// The subscription is gone.
    is_gone: AtomicBool,
    /// Events that its filter wanted.
    matched: AtomicU64,
    /// The last event that was counted as wanted: events are offered again after the store was opened again.
    matched_to: AtomicU64,
    /// Advanced filters that were evaluated for it (ED-119).
    evaluated: AtomicU64,
    /// Events that its endpoint accepted.
    delivered: AtomicU64,
    /// Attempts that failed.
    pub failed: Tally<AttemptError>,
    /// Events that were dropped.
    pub dropped: Tally<&'static str>,
    /// Events that were written to the dead-letter store.
    pub dead_lettered: Tally<&'static str>,
    /// From the start of an attempt to the head of its answer, of those that succeeded. Milliseconds (ED-300).
    pub processing: Histogram,
    /// From publishing to delivery. Seconds.
    pub latency: Histogram,
    /// Attempts that a delivered event took.
    pub attempts: Histogram,
    /// Events of each request that was answered, or timed out, where events travel together.
    pub batches: Histogram,
    /// The oldest event that was owed when somebody looked, and when it was accepted.
    oldest: Mutex<Option<(u64, Timestamp)>>,
}

impl Metrics {
    /// The counters of a topic.
    #[must_use]
    pub fn topic(&self, id: TopicId, name: &str) -> Arc<TopicMetrics> {
        let mut topics = lock(&self.topics);
        let topic = topics
            .entry(id)
            .or_insert_with(|| Arc::new(TopicMetrics::new(name)));
        Arc::clone(topic)
    }

    /// The topic is gone: its counters go with it.
    pub fn forget_topic(&self, id: TopicId) {
        lock(&self.topics).remove(&id);
    }

    /// The counters of a subscription.
    #[must_use]
    pub fn subscription(
        &self,
        id: SubscriptionId,
        topic: &Arc<TopicMetrics>,
        names: SubscriptionNames,
    ) -> Arc<SubscriptionMetrics> {
        let mut subscriptions = lock(&self.subscriptions);
        let subscription = subscriptions
            .entry(id)
            .or_insert_with(|| Arc::new(SubscriptionMetrics::new(id, Arc::clone(topic), names)));
        Arc::clone(subscription)
    }

    /// Events of a topic before `head` were offered; to every subscription, unless some are behind.
    pub(crate) fn offered(&self, topic: TopicId, first: u64, head: u64, is_anybody_behind: bool) {
        let topic = lock(&self.topics).get(&topic).cloned();
        if let Some(topic) = topic {
            topic.offered(first, head, is_anybody_behind);
        }
    }

    /// The subscription is gone, with `owed` events that were owed to it. Its counters stay while there is room, so that
    /// these are not lost between two looks.
    pub fn forget_subscription(&self, id: SubscriptionId, owed: u64) {
        let mut subscriptions = lock(&self.subscriptions);
        let Some(subscription) = subscriptions.get(&id) else {
            return;
        };
        subscription.is_gone.store(true, Ordering::Relaxed);
        if owed > 0 {
            let reason = DropReason::SubscriptionDeleted.as_str();
            subscription.dropped.add(reason, owed);
        }
        let gone = subscriptions.values().filter(|one| one.is_gone());
        if gone.count() > GONE_MAX {
            let oldest = subscriptions.values().find(|one| one.is_gone());
            if let Some(oldest) = oldest.map(|one| one.id) {
                subscriptions.remove(&oldest);
            }
        }
    }

    /// When the oldest event that is owed to a subscription was accepted: read if it was another one at the last look.
    pub(crate) fn oldest_of(
        &self,
        id: SubscriptionId,
        seq: u64,
        read: impl FnOnce() -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let subscription = lock(&self.subscriptions).get(&id).cloned()?;
        let known = *lock(&subscription.oldest);
        if let Some((_, published)) = known.filter(|known| known.0 == seq) {
            return Some(published);
        }
        let published = read()?;
        *lock(&subscription.oldest) = Some((seq, published));
        Some(published)
    }

    /// The topics, by id.
    #[must_use]
    pub fn topics(&self) -> Vec<Arc<TopicMetrics>> {
        lock(&self.topics).values().cloned().collect()
    }

    /// The subscriptions, by id; those that are gone among them.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Arc<SubscriptionMetrics>> {
        lock(&self.subscriptions).values().cloned().collect()
    }
}

impl SubscriptionMetrics {
    fn new(id: SubscriptionId, topic: Arc<TopicMetrics>, names: SubscriptionNames) -> Self {
        Self {
            id,
            topic,
            names,
            is_gone: AtomicBool::new(false),
            matched: AtomicU64::new(0),
            matched_to: AtomicU64::new(0),
            evaluated: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            failed: Tally::default(),
            dropped: Tally::default(),
            dead_lettered: Tally::default(),
            processing: Histogram::new(&PROCESSING_BOUNDS),
            latency: Histogram::new(&LATENCY_BOUNDS),
            attempts: Histogram::new(&ATTEMPTS_BOUNDS),
            batches: Histogram::new(&BATCH_BOUNDS),
            oldest: Mutex::default(),
        }
    }

    /// A purge passed over events before `to` that it had not been offered yet.
    pub(crate) fn note_skipped(&self, to: u64) {
        self.topic.skip(to);
    }

    /// Whether the subscription is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Events that its filter wanted.
    #[must_use]
    pub fn matched(&self) -> u64 {
        self.matched.load(Ordering::Relaxed)
    }

    /// Advanced filters that were evaluated for it; an event that the index of filters sends away evaluates none.
    #[must_use]
    pub fn evaluated(&self) -> u64 {
        self.evaluated.load(Ordering::Relaxed)
    }

    /// So many advanced filters were evaluated for an event.
    pub(crate) fn note_evaluated(&self, count: usize) {
        self.evaluated.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Events that its endpoint accepted.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Its filter wants the event at `seq`. Called by one thread, in the order of the events.
    pub(crate) fn note_match(&self, seq: u64) {
        if seq > self.matched_to.load(Ordering::Relaxed) {
            self.matched_to.store(seq, Ordering::Relaxed);
            self.matched.fetch_add(1, Ordering::Relaxed);
            self.topic.note_match(seq);
        }
    }

    /// An event is delivered again, because somebody asked for it.
    pub(crate) fn note_resent(&self) {
        self.matched.fetch_add(1, Ordering::Relaxed);
    }

    /// An attempt succeeded after this time.
    pub(crate) fn note_delivered(
        &self,
        since_published: Duration,
        processing: Duration,
        attempts: u16,
    ) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.processing.observe(processing.as_secs_f64() * 1_000.0);
        self.latency.observe(since_published.as_secs_f64());
        self.attempts.observe(f64::from(attempts));
    }

    /// An event of a batch that succeeded was delivered.
    pub(crate) fn note_delivered_in_batch(&self, since_published: Duration, attempts: u16) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.latency.observe(since_published.as_secs_f64());
        self.attempts.observe(f64::from(attempts));
    }

    /// A request with several events succeeded after this time: it is one attempt (ED-300).
    pub(crate) fn note_processing(&self, processing: Duration) {
        self.processing.observe(processing.as_secs_f64() * 1_000.0);
    }

    /// A request with so many events was answered, or timed out.
    pub(crate) fn note_batch(&self, events: usize) {
        self.batches.observe(events as f64);
    }

    /// An attempt failed.
    pub(crate) fn note_failed(&self, outcome: Outcome, status: u16) {
        let error = AttemptError::new(outcome, status);
        self.failed.add_or(error, AttemptError::Other, 1);
    }

    /// An event was dropped.
    pub(crate) fn note_dropped(&self, reason: DropReason) {
        self.dropped.add(reason.as_str(), 1);
    }

    /// An operator dropped so many events.
    pub(crate) fn note_purged(&self, count: u64) {
        if count > 0 {
            self.dropped.add(DropReason::Purged.as_str(), count);
        }
    }

    /// An event was written to the dead-letter store.
    pub(crate) fn note_dead_lettered(&self, reason: DeadLetterReason) {
        self.dead_lettered.add(reason.as_str(), 1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_offered_again_is_counted_once() {
        let metrics = Metrics::default().subscription(
            SubscriptionId(1),
            &Arc::default(),
            SubscriptionNames::default(),
        );
        for seq in [1, 3, 2, 3, 4] {
            metrics.note_match(seq);
        }
        assert_eq!(metrics.matched(), 3);
    }

    #[test]
    fn what_was_owed_to_a_deleted_subscription_is_counted_as_dropped() {
        let metrics = Metrics::default();
        for id in 0..2_000 {
            let _ = metrics.subscription(
                SubscriptionId(id),
                &Arc::default(),
                SubscriptionNames::default(),
            );
            metrics.forget_subscription(SubscriptionId(id), u64::from(id));
        }
        let left = metrics.subscriptions();
        assert_eq!(left.len(), GONE_MAX);
        let newest = left.last().unwrap();
        assert!(newest.is_gone());
        assert_eq!(newest.dropped.counts(), [("SubscriptionDeleted", 1_999)]);
    }
}
