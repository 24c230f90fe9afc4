//! The dialects against the tables in `cases/`, and properties.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // A test stops at once, and a runner prints its counts.

#[allow(dead_code)] // Shared with the core's tests, which use more of it.
#[path = "../../../hedgerow-core/tests/it/cases.rs"]
mod cases;
mod convert;
mod dead_letter_record;
mod delivery_headers;
mod encode;
mod properties;
mod publish_validation;
