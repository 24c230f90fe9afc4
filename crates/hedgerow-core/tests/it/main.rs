//! Properties of the rules of the core; their tables are run by hedgerow-cases.

#![allow(clippy::unwrap_used)] // A test stops at once.

mod filter_index;
mod properties;
mod rate;
mod topic_spec;
mod turns;
