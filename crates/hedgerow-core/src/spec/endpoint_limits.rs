//! How much one subscription asks of its endpoint at most, as declared: beside what is learnt about the endpoint itself, which
//! all subscriptions behind it share (design D7).

use std::num::NonZeroU32;

use serde_json::{Map, Value, json};

use super::SpecError;
use super::fields::Fields;
use crate::limits;

/// What a subscription asks of its endpoint at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndpointLimits {
    /// Requests at a time.
    pub max_concurrency: Option<NonZeroU32>,
    /// Requests that begin in any second.
    pub max_requests_per_second: Option<NonZeroU32>,
}

const CONCURRENCY: &str = "maxConcurrency";
const RATE: &str = "maxRequestsPerSecond";

impl EndpointLimits {
    /// Checks the members of a webhook's properties.
    pub(super) fn check(properties: &mut Fields<'_>) -> Result<Self, SpecError> {
        let concurrency = properties.integer(CONCURRENCY, &limits::MAX_CONCURRENCY)?;
        let rate = properties.integer(RATE, &limits::MAX_REQUESTS_PER_SECOND)?;
        Ok(Self {
            max_concurrency: concurrency.and_then(NonZeroU32::new),
            max_requests_per_second: rate.and_then(NonZeroU32::new),
        })
    }

    /// Writes the members that are declared.
    pub(super) fn add_to(self, properties: &mut Map<String, Value>) {
        let declared = [
            (CONCURRENCY, self.max_concurrency),
            (RATE, self.max_requests_per_second),
        ];
        for (name, limit) in declared {
            if let Some(limit) = limit {
                properties.insert(name.to_owned(), json!(limit));
            }
        }
    }
}
