//! Makes batches: reads the events of deliveries that may travel together, and writes them into one body until it is full. The
//! engine starts it, or does not; what is left over makes the next one, or goes back in line.
//!
//! The engine holds positions and knows nothing of bytes (design D6), so it cannot know how many events fit into a body. This
//! task does, and the engine records which deliveries start before the request's first byte goes out, as for a single one.

use std::collections::VecDeque;
use std::sync::Arc;

use hedgerow_core::batch::{BatchLimits, Filling, Offer};
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::retry::DeliveryKey;
use hedgerow_dialect::delivery::{self, BatchBody, CommonText, Content, ResolvedHeaders};
use hedgerow_dialect::event_grid::path_of;
use hedgerow_store::record::unpack_event;
use hedgerow_store::{Store, StoreError, StoredEvent};
use tokio::sync::mpsc;

use crate::attempt::{self, Context, Job, Report, ReportKind};
use crate::plan::Plan;

/// Bytes of events that are read ahead for one batch at most: what does not fit is read for nothing.
const READ_BYTES_MAX: usize = 256 * 1024;

/// The next event is read together with the one before if no more than so many lie between them.
const NEAR: u64 = 16;

/// No further batch is begun once all of a task together have so many bytes: they wait in memory for the engine's word.
const AHEAD_BYTES_MAX: usize = 1024 * 1024;

/// What is to be gathered.
pub(crate) struct Gather {
    pub(crate) subscription: SubscriptionId,
    pub(crate) topic: TopicId,
    /// Which of the subscription's.
    pub(crate) token: u64,
    pub(crate) plan: Arc<Plan>,
    pub(crate) limits: BatchLimits,
    /// The deliveries that may travel together, the first one in order first.
    pub(crate) seqs: Vec<u64>,
    /// Whether they stand in the line of one key: then none may pass another (FC-12).
    pub(crate) is_line: bool,
    /// Bytes of the body that was made last.
    pub(crate) capacity: usize,
    /// How many batches are made of them at most.
    pub(crate) batches_max: usize,
}

/// A batch that may be sent.
pub(crate) struct Gathered {
    pub(crate) token: u64,
    pub(crate) batch: Batch,
    /// No other one comes of the same task.
    pub(crate) is_last: bool,
}

/// Events in one body. Dropped, it is not sent.
pub(crate) struct Batch {
    events: VecDeque<(u64, StoredEvent)>,
    body: Vec<u8>,
    data_version: CommonText,
    trace: CommonText,
    /// The custom headers, the same for all.
    custom: ResolvedHeaders,
}

impl Batch {
    /// The deliveries in it, in the order in which they were given.
    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.events.iter().map(|(seq, _)| *seq).collect()
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.body.len()
    }
}

/// Makes the batches, one behind the other.
pub(crate) async fn run(context: Arc<Context>, mut gather: Gather, reports: mpsc::Sender<Report>) {
    let mut shelf = VecDeque::new();
    let mut bytes = 0;
    for number in 1.. {
        let key = DeliveryKey {
            subscription: gather.subscription,
            seq: gather.seqs[0],
        };
        let token = gather.token;
        let (kind, is_last) = match form(&context.store, &gather, &mut shelf).await {
            Ok(batch) => {
                let made = batch.seqs();
                gather.leave_out(&made);
                gather.capacity = batch.body.len();
                bytes += batch.body.len();
                // A batch that would not be full can wait for those to come, as if it had not been thought of yet.
                let is_last = number >= gather.batches_max
                    || bytes >= AHEAD_BYTES_MAX
                    || gather.seqs.len() < made.len();
                let gathered = Gathered {
                    token,
                    batch,
                    is_last,
                };
                (ReportKind::Gathered(gathered), is_last)
            }
            Err((seq, error)) => (ReportKind::NotGathered { token, seq, error }, true),
        };
        // The engine may be gone, and then nobody is left to tell.
        let told = reports.send(Report { key, kind }).await;
        if is_last || told.is_err() {
            return;
        }
    }
}

impl Gather {
    /// Takes out what was made into a batch, which is given in the same order.
    fn leave_out(&mut self, taken: &[u64]) {
        let mut taken = taken.iter().peekable();
        self.seqs.retain(|seq| taken.next_if_eq(&seq).is_none());
    }
}

/// Sends a batch whose start is recorded.
pub(crate) async fn send(
    context: Arc<Context>,
    job: Job,
    batch: Batch,
    reports: mpsc::Sender<Report>,
) {
    let mut events = batch.events;
    let Some((seq, first)) = events.pop_front() else {
        return;
    };
    debug_assert_eq!(seq, job.key.seq, "a batch is known by its first event");
    let sent = Content::Batch {
        events: 1 + events.len(),
        data_version: batch.data_version.get(),
    };
    let trace = batch.trace.get().and_then(attempt::next_trace);
    let trace = trace.as_deref();
    let id = || {
        let seqs = events.iter().map(|(seq, _)| *seq);
        let seqs = std::iter::once(seq).chain(seqs).collect();
        let subscription = job.key.subscription;
        message_id(&context.store_id, subscription, job.topic, seqs)
    };
    let request = attempt::post(&context, &job, batch.body, sent, &batch.custom, trace, id);
    let others = events.into();
    attempt::exchange(&context, job, first, others, request, reports).await;
}

/// What signatures name a batch by: it follows from its events, in whatever order they travel.
fn message_id(
    store_id: &[u8; 16],
    subscription: SubscriptionId,
    topic: TopicId,
    mut seqs: Vec<u64>,
) -> String {
    seqs.sort_unstable();
    delivery::batch_id(seqs.into_iter().map(|seq| {
        let position = Position { topic, seq };
        delivery::system_id(store_id, subscription, position)
    }))
}

/// Fills a body, in the order in which the deliveries are given, until the next one does not fit.
async fn form(
    store: &Arc<dyn Store>,
    gather: &Gather,
    shelf: &mut VecDeque<(u64, StoredEvent)>,
) -> Result<Batch, (u64, StoreError)> {
    let schema = gather.plan.delivery_schema;
    let topic_path = &gather.plan.topic_path;
    let mut body = BatchBody::begin(schema, topic_path, gather.capacity);
    let mut filling = Filling::new(gather.limits);
    let mut formed = Batch {
        events: VecDeque::with_capacity(gather.seqs.len().min(READ_AHEAD_MAX)),
        body: Vec::new(),
        data_version: CommonText::default(),
        trace: CommonText::default(),
        custom: ResolvedHeaders::none(),
    };
    for (at, seq) in gather.seqs.iter().copied().enumerate() {
        let left = gather
            .limits
            .preferred_bytes
            .saturating_sub(filling.bytes());
        let event = next_event(store, gather, at, left, shelf).await;
        let event = event.map_err(|error| (seq, error))?;
        let unpacked = unpack_event(&event.bytes).map_err(|error| (seq, error))?;
        let bytes = body.push(&unpacked, event.published);
        let path = path_of(topic_path, &unpacked);
        let custom = attempt::resolved_headers(&gather.plan, &unpacked, &path);
        match filling.offer(custom.clone(), bytes) {
            Offer::Joins => formed.custom = custom,
            Offer::PassedOver if !gather.is_line => {
                body.undo();
                continue;
            }
            Offer::PassedOver | Offer::Full => {
                body.undo();
                drop(path);
                drop(unpacked);
                // It is the first of the next one.
                shelf.push_front((seq, event));
                break;
            }
        }
        let version = unpacked.data_version.as_deref();
        formed.data_version.note(version.unwrap_or_default());
        let trace = attempt::trace(&unpacked, Some);
        formed.trace.note(trace.as_deref().unwrap_or_default());
        drop(path);
        drop(unpacked);
        formed.events.push_back((seq, event));
        if filling.is_full() {
            break;
        }
    }
    formed.body = body.finish();
    Ok(formed)
}

/// Deliveries for which room is made at once.
const READ_AHEAD_MAX: usize = 1_024;

/// The event of the delivery at `at`, from what was read before if it is there. Events that follow each other are read together.
async fn next_event(
    store: &Arc<dyn Store>,
    gather: &Gather,
    at: usize,
    bytes_left: usize,
    shelf: &mut VecDeque<(u64, StoredEvent)>,
) -> Result<StoredEvent, StoreError> {
    let seq = gather.seqs[at];
    while shelf.front().is_some_and(|(of, _)| *of < seq) {
        shelf.pop_front();
    }
    if shelf.front().is_none_or(|(of, _)| *of != seq) {
        let position = Position {
            topic: gather.topic,
            seq,
        };
        let next = gather.seqs.get(at + 1);
        let is_near = next.is_some_and(|next| next.abs_diff(seq) <= NEAR);
        // Alone it is read alone.
        let bytes = if is_near {
            bytes_left.min(READ_BYTES_MAX)
        } else {
            0
        };
        *shelf = read_row(store, position, bytes).await?.into();
    }
    match shelf.pop_front() {
        Some((of, event)) if of == seq => Ok(event),
        _ => {
            attempt::read(
                store,
                Position {
                    topic: gather.topic,
                    seq,
                },
            )
            .await
        }
    }
}

/// Reads events from a position on, from memory if they are recent.
async fn read_row(
    store: &Arc<dyn Store>,
    from: Position,
    bytes_max: usize,
) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
    if bytes_max == 0 {
        let event = attempt::read(store, from).await?;
        return Ok(vec![(from.seq, event)]);
    }
    let recent = store.read_recent_from(from, bytes_max);
    if !recent.is_empty() {
        return Ok(recent);
    }
    let store = Arc::clone(store);
    tokio::task::spawn_blocking(move || store.read_from(from, bytes_max))
        .await
        .unwrap_or(Err(StoreError::Closed))
}

/// How many deliveries may be worth reading for a batch: no more of the smallest events fit.
pub(crate) fn worth_reading(plan: &Plan, limits: &BatchLimits) -> usize {
    let least = delivery::event_bytes_min(plan.delivery_schema) + ",".len();
    limits.events_max.min(1 + limits.preferred_bytes / least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FC-13: a receiver knows a batch again by its id, also if another retry brought its events in another order.
    #[test]
    fn the_id_of_a_batch_does_not_depend_on_the_order() {
        let id = |subscription, topic, seqs: &[u64]| {
            let (subscription, topic) = (SubscriptionId(subscription), TopicId(topic));
            message_id(&[7; 16], subscription, topic, seqs.to_vec())
        };
        assert_eq!(id(1, 1, &[3, 1, 2]), id(1, 1, &[1, 2, 3]));
        for other in [
            id(1, 1, &[1, 2]),
            id(1, 1, &[1, 2, 4]),
            id(2, 1, &[1, 2, 3]),
            id(1, 2, &[1, 2, 3]),
        ] {
            assert_ne!(other, id(1, 1, &[1, 2, 3]));
        }
    }
}
