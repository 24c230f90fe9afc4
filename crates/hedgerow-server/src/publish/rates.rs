//! How fast each topic is published to (ED-061): the buckets of those that are, and the refusal.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hedgerow_core::position::TopicId;
use hedgerow_core::rate::{Cost, PublishRate, RateLimit, RateLimits, TooFast};
use tokio::time::Instant;

use crate::error::Refusal;

/// Buckets at which those that are full are forgotten: a few for each topic that is published to at a time.
const SWEPT_AT: usize = 1_024;

/// What is used up of the limits of all topics.
pub struct PublishRates {
    limits: RateLimits,
    buckets: Mutex<Buckets>,
}

#[derive(Default)]
struct Buckets {
    of: HashMap<TopicId, PublishRate>,
    /// How many there may be before the full ones are looked for again.
    swept_at: usize,
}

impl PublishRates {
    /// `None` where nothing is limited: then nothing is asked for an event.
    pub fn new(limits: RateLimits) -> Option<Self> {
        (!limits.are_off()).then(|| Self {
            limits,
            buckets: Mutex::default(),
        })
    }

    /// Takes what a request to a topic costs.
    pub fn take(&self, topic: TopicId, cost: Cost) -> Result<(), Refusal> {
        let now = Instant::now().into_std();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = buckets
            .of
            .entry(topic)
            .or_default()
            .take(&self.limits, cost, now);
        if buckets.of.len() > buckets.swept_at.max(SWEPT_AT) {
            buckets.of.retain(|_, rate| !rate.is_unused(now));
            buckets.swept_at = buckets.of.len() * 2;
        }
        drop(buckets);
        taken.map_err(|TooFast { limit, wait }| {
            let (setting, rate) = match limit {
                RateLimit::Events => {
                    let per_second = self.limits.events_per_second;
                    (
                        "events_per_second",
                        format!("{per_second} events of up to 64 KB"),
                    )
                }
                RateLimit::Bytes => {
                    let per_second = self.limits.bytes_per_second;
                    ("bytes_per_second", format!("{per_second} bytes"))
                }
            };
            Refusal::too_fast(&rate, setting, wait)
        })
    }
}
