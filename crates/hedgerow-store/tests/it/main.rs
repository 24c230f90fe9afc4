//! Tests of the store.

// The helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod breakable;
mod catalog_files;
mod check;
mod conformance;
mod grid;
mod history;
mod history_ids;
mod log_basic;
mod log_clean;
mod log_damage;
mod log_fence;
mod log_index;
mod log_model;
mod log_power;
mod log_threads;
mod origins;
mod provisioning;
mod stat;
mod support;
mod view_fold;
mod view_log;
mod view_lsm;
mod view_table;
mod watched;
