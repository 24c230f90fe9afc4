//! How every subscription is doing, in numbers (ED-303). They are asked for page by page, so that deliveries go on in between,
//! and copy nothing that was declared.

use std::sync::Arc;

use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::spec::EndpointLimits;
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::Provisioning;
use hedgerow_store::view::Counters;

use crate::command::{Command, CommandError, EngineHandle, HoldState};
use crate::metrics::SubscriptionNames;

/// How a subscription is doing, in numbers (ED-303).
#[derive(Debug, Clone)]
pub struct SubscriptionGauges {
    /// Which one.
    pub subscription: SubscriptionId,
    /// Of which topic.
    pub topic: TopicId,
    /// What it is called, if it was never active since the server started: others stand with what is
    /// counted of it.
    pub names: Option<SubscriptionNames>,
    /// How far the handshake with its endpoint has come; `None` if it gets events.
    pub inactive: Option<Provisioning>,
    /// The strongest of what holds it.
    pub hold: HoldState,
    /// Deliveries that wait for the end of it.
    pub held: u64,
    /// How much there is to do for it.
    pub load: Load,
    /// What it asks of its endpoint at most.
    pub limits: EndpointLimits,
    /// How many attempts run at its endpoint, and how many may; nothing if it does not deliver yet.
    pub endpoint: Option<EndpointCredits>,
    /// The oldest event that is owed to it: its number, and when it was accepted, if that is known.
    pub oldest: Option<(u64, Option<Timestamp>)>,
    /// Dead letters that wait to be written: at least so many.
    pub pending_dead_letters: u64,
}

/// How many attempts run at an endpoint, of all subscriptions behind it, and how many may (design D7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndpointCredits {
    /// Attempts that have not been open for a second.
    pub open: u32,
    /// How many of them may run.
    pub limit: u32,
    /// Attempts that have been open for a second, and those of subscriptions that had such ones.
    pub slow_open: u32,
    /// How many of these may run when another one starts.
    pub slow_limit: u32,
}

/// How much there is to do for a subscription. Counts of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// What became of its deliveries. `counters.matched` counts those that were begun.
    pub counters: Counters,
    /// Deliveries that are owed: begun and not settled, and those that wait for their first attempt.
    pub pending: u64,
    /// Those of them that were never attempted and wait in memory.
    pub waiting: u64,
    /// Attempts that run.
    pub in_flight: u64,
    /// Events of the topic that were not offered to it yet.
    pub behind: u64,
}

impl Load {
    /// Those that are owed, and of which no attempt runs.
    #[must_use]
    pub const fn owed(&self) -> u64 {
        self.pending.saturating_sub(self.in_flight)
    }
}

/// Some subscriptions' numbers, by id.
#[derive(Debug, Clone, Default)]
pub struct GaugesPage {
    /// The numbers.
    pub gauges: Vec<SubscriptionGauges>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<GaugesFrom>,
}

/// Where a page of numbers begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaugesFrom {
    /// Behind this subscription.
    pub after: SubscriptionId,
    /// Rows of the due index that may still be looked at for dead letters.
    pub rows_left: usize,
}

impl EngineHandle {
    /// How every subscription is doing, a page after the other: deliveries go on in between. Times of the oldest events are
    /// read on a thread for that, once for each event.
    ///
    /// # Errors
    /// [`CommandError::Unavailable`] while there is no engine.
    pub async fn gauges(&self) -> Result<Vec<SubscriptionGauges>, CommandError> {
        let mut gauges = Vec::new();
        let mut from = None;
        loop {
            let page = self.ask(|answer| Command::Gauges { from, answer }).await?;
            gauges.extend(page.gauges);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let (store, metrics) = (Arc::clone(&self.store), Arc::clone(&self.metrics));
        let read = move || {
            for one in &mut gauges {
                if let Some((seq, None)) = one.oldest {
                    let (topic, id) = (one.topic, one.subscription);
                    let read = || {
                        let position = Position { topic, seq };
                        let event = store
                            .read_recent(position)
                            .or_else(|| store.read(position).ok());
                        event.map(|event| event.published)
                    };
                    one.oldest = Some((seq, metrics.oldest_of(id, seq, read)));
                }
            }
            gauges
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| CommandError::Unavailable)
    }
}
