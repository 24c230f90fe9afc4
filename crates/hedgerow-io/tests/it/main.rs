//! Tests of the crate's promises: against servers on loopback that misbehave, and on a paused clock.

#![allow(clippy::unwrap_used)] // Helpers of tests fail as tests do.

mod address;
mod dead_letter;
mod guarded;
mod loopback;
mod misbehaving;
mod names;
mod objects;
mod paused;
mod server;
mod watched;
