//! What the dialects spell, and properties; their tables are run by hedgerow-cases.

#![allow(clippy::unwrap_used)] // A test stops at once.

mod dead_letter_read;
mod dead_letter_record;
mod encode;
mod properties;
mod requests;
