//! Touches the world: reads the clocks, draws chance, and sends HTTP requests to addresses it has judged.
//!
//! This crate decides nothing about events. What an answer means, when the next attempt is and how many may run at once
//! is decided elsewhere; here one call is one request on the wire, and it ends when its caller drops it.
//!
//! | module | does |
//! | --- | --- |
//! | [`clock`] | reads both kinds of time |
//! | [`chance`] | draws random numbers, keys and ids |
//! | [`http`] | opens guarded connections, keeps them, and sends requests over them |

pub mod chance;
pub mod clock;
pub mod http;
