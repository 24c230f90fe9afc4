//! What is counted of the edge's requests, and what stands in the log about them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hedgerow_edge::Edge;
use hedgerow_edge::observer::{Exchange, Observer};

/// Routes and groups that have series of their own; what is of others is counted under none.
const SERIES_MAX: usize = 2_000;

/// Requests that ended alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alike {
    /// Their route; empty for none.
    pub route: String,
    /// Their status.
    pub status: u16,
    /// Why, where it was not an origin that said so; else empty.
    pub reason: &'static str,
}

/// What was counted.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Requests.
    pub requests: BTreeMap<Alike, u64>,
    /// Requests that went to another origin, by group.
    pub retries: BTreeMap<String, u64>,
}

/// Counts, and logs.
#[derive(Default)]
pub struct Told {
    counts: Mutex<Counts>,
    edge: OnceLock<Edge>,
}

impl Told {
    /// This is the edge that it is told of.
    pub fn serve(&self, edge: Edge) {
        // There is one edge.
        let _ = self.edge.set(edge);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    /// Requests that run, and idle connections to origins; `None` without an edge.
    pub fn now(&self) -> Option<(usize, usize)> {
        let edge = self.edge.get()?;
        Some((edge.requests(), edge.idle_connections()))
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Told {
    fn ended(&self, exchange: &Exchange<'_>) {
        tracing::debug!(
            target: "hedgerow::edge",
            route = exchange.route,
            origin = exchange.origin,
            method = exchange.method,
            status = exchange.status,
            reason = exchange.reason,
            attempts = exchange.attempts,
            reference = exchange.reference,
            client = %exchange.client,
            elapsed_ms = exchange.elapsed.as_millis() as u64,
            "a request at the edge"
        );
        let mut counts = self.lock();
        let is_known = counts.requests.len() < SERIES_MAX;
        let route = exchange.route.filter(|_| is_known).unwrap_or_default();
        let alike = Alike {
            route: route.to_owned(),
            status: exchange.status,
            reason: exchange.reason.unwrap_or_default(),
        };
        *counts.requests.entry(alike).or_default() += 1;
    }

    fn retried(&self, group: &str) {
        let mut counts = self.lock();
        if let Some(count) = counts.retries.get_mut(group) {
            *count += 1;
        } else if counts.retries.len() < SERIES_MAX {
            counts.retries.insert(group.to_owned(), 1);
        }
    }
}
