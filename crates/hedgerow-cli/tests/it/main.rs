//! The built binary from outside: processes, signals, files, and what they print.

#![allow(clippy::unwrap_used)] // Helpers of tests fail as tests do.

mod apply;
mod commands;
mod dev;
mod dev_story;
mod domains;
mod events;
mod explain;
mod kit;
mod origin_groups;
mod serve;
mod store;
mod subscriptions;
mod tls;
mod topics;
