//! What the edge tells of each request: for the log and for metrics.

use std::net::IpAddr;
use std::time::Duration;

/// A request that was answered, or ended otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'e> {
    /// The route, if one was found.
    pub route: Option<&'e str>,
    /// Its group.
    pub group: Option<&'e str>,
    /// The origin of the last attempt.
    pub origin: Option<&'e str>,
    /// The method.
    pub method: &'e str,
    /// The status that the client got; 499 if it went away before (HP-175).
    pub status: u16,
    /// Why, where it was not the origin that said so.
    pub reason: Option<&'static str>,
    /// How many origins were asked.
    pub attempts: u32,
    /// The reference that the origin and the client have too (HP-160).
    pub reference: &'e str,
    /// Who asked (HP-163).
    pub client: IpAddr,
    /// From the end of the request's head to the end of the answer.
    pub elapsed: Duration,
}

/// Who is told. Nothing here may wait.
pub trait Observer: Send + Sync + 'static {
    /// A request has ended.
    fn ended(&self, exchange: &Exchange<'_>);
    /// A request to a group goes to another origin (HP-172).
    fn retried(&self, group: &str);
}

/// Nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn ended(&self, _: &Exchange<'_>) {}
    fn retried(&self, _: &str) {}
}
