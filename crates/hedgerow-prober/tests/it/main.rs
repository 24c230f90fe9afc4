//! The prober on real sockets, against servers that behave and servers that do not.

#![allow(clippy::unwrap_used)] // Helpers of tests fail as tests do.

mod counts;
mod failures;
mod latency;
mod network;
mod recovery;
mod requests;
mod server;
mod tls;
