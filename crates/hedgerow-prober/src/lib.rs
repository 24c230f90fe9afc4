//! Probes the origins of a node's groups, and shows selections what it found: the thin shell around
//! [`Node`](hedgerow_origin::node::Node), which decides when a probe is sent and what it means.
//!
//! | module | does |
//! | --- | --- |
//! | [`probe`] | sends one probe and says what it met (HP-010 to HP-053) |
//! | [`failure`] | the failure code of an error of the network (HP-043) |
//! | [`service`] | a task that owns the node: sends probes when they are due, publishes what changed |
//! | [`live`] | what requests see of a group: its origins now, without waiting for anybody (HP-130) |
//!
//! Sockets, name look-ups and clocks are those of hedgerow-io: the same addresses are refused, and the same certificates
//! trusted, as for requests (HP-024, HP-028).

pub mod failure;
pub mod live;
pub mod probe;
pub mod service;

pub use live::{Current, LiveGroup, Reader};
pub use service::{Observer, Options, Prober, ProberHandle};
