//! Touches the world: reads the clocks, draws chance, sends HTTP requests to addresses it has judged, and keeps dead
//! letters.
//!
//! This crate decides nothing about events. What an answer means, when the next attempt is and how many may run at once
//! is decided elsewhere; here one call is one request on the wire, and it ends when its caller drops it.
//!
//! | module | does |
//! | --- | --- |
//! | [`clock`] | reads both kinds of time |
//! | [`chance`] | draws random numbers, keys and ids |
//! | [`dead_letter`] | keeps dead letters as blobs, in a directory or another object store |
//! | [`http`] | opens guarded connections, keeps them, and sends requests over them |

pub mod chance;
pub mod clock;
pub mod dead_letter;
pub mod http;
pub mod old_files;
