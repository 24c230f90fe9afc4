//! The rules of origin groups (HP-001 to HP-204): what a group may be, what a probe's outcome means, when an origin is
//! healthy and how fast it is, how often it is probed, and which origin a request goes to. The edge listener,
//! subscriptions that deliver to a group, and the publisher use the same functions.
//!
//! Everything here is a value, a function or a small state machine that receives *now* and *chance* as arguments. It does no
//! input or output, reads no clock, draws no chance, spawns nothing and logs nothing, and it panics nowhere.
//!
//! *Now* is a [`Duration`](std::time::Duration) since a moment of the caller's choice, the same for all calls: 1970 where
//! windows outlive the process, any other where they do not. Latencies are whole microseconds.
//!
//! | module | decides |
//! | --- | --- |
//! | [`settings`] | which groups are accepted (HP-001 to HP-005, HP-113 to HP-116) |
//! | [`threshold`] | how many failures make an origin unhealthy, and how long that takes at worst (HP-065, HP-113) |
//! | [`statuses`] | the statuses that a group expects (HP-040) |
//! | [`outcome`] | what a probe met, and whether that is a success (HP-040 to HP-049) |
//! | [`window`] | the newest samples of an origin: its health and its latency (HP-055, HP-060 to HP-066) |
//! | [`health`] | its state in a group over time: changes, grace, ramp, flap damping (HP-067, HP-115, HP-194, HP-195) |
//! | [`passive`] | what real requests say of an origin (HP-192, HP-193) |
//! | [`interval`] | how often a group probes (HP-082, HP-083, HP-103) |
//! | [`target`] | what exactly is probed (HP-013 to HP-015, HP-070) |
//! | [`streams`] | which groups share probes (HP-070 to HP-074) |
//! | [`schedule`] | when a stream probes (HP-080, HP-081, HP-084, HP-117) |
//! | [`budget`] | how many probes a node sends (HP-190, HP-191) |
//! | [`node`] | all of it for the groups of one node: which probe is due, what a sample changes, what selections see |
//! | [`response`] | what the bytes that a probe reads are (HP-042 to HP-048) |
//! | [`volume`] | how many probes an origin gets (HP-085, HP-088) |
//! | [`snapshot`] | which origins may be chosen now (HP-063, HP-090 to HP-094, HP-104, HP-120 to HP-126) |
//! | [`selector`] | which of them is (HP-127, HP-128, HP-142 to HP-144, HP-173, HP-196, HP-200, HP-204) |
//! | [`route`] | which route a request takes (HP-150 to HP-155) |
//! | [`limits`] | every bound |

#![forbid(unsafe_code)]

pub mod budget;
pub mod health;
pub mod interval;
pub mod limits;
pub mod node;
pub mod outcome;
pub mod passive;
pub mod response;
pub mod route;
pub mod schedule;
pub mod selector;
pub mod settings;
pub mod snapshot;
pub mod statuses;
pub mod streams;
pub mod target;
pub mod threshold;
pub mod volume;
pub mod window;
