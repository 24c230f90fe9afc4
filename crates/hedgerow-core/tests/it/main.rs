//! The rules of the core against the tables in `cases/`, and properties.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // A test stops at once, and a runner prints its counts.

mod cases;
mod filter;
mod outcome;
mod properties;
mod retry_policy_config;
mod timeline;
