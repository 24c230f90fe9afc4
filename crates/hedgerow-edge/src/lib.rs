//! The edge listener's data path (HP-140 to HP-188): reads requests strictly, finds their route, chooses an origin of its group,
//! and forwards both ways.
//!
//! Requests of HTTP/1 are read by [`guard`] and written anew for the origin, so that there is no second reader whose opinion
//! could differ; hyper speaks HTTP/2 to clients, rustls TLS. One task serves a connection of HTTP/1 and moves the origin's
//! connection too: nothing is spawned for a request.
//!
//! | module | decides or does |
//! | --- | --- |
//! | [`guard`] | reads requests, and refuses what is not strictly one (HP-168, HP-183) |
//! | [`response`] | reads the responses of origins, as strictly |
//! | [`forward`] | the head that an origin gets (HP-160 to HP-165) |
//! | [`names`] | which header fields mean something |
//! | [`profile`] | under which names the edge says things (HP-161) |
//! | [`client`] | who the client is (HP-163) |
//! | [`affinity`] | the cookie of a session (HP-141 to HP-146) |
//! | [`budget`] | how many retries a group may have (HP-174) |
//! | [`edge`] | what all connections share, and where one begins |
//! | `http1`, `http2` | a client's connection |
//! | `decide` | whose a request is, its route, and what the edge answers itself |
//! | `attempts` | which origins a request is sent to (HP-172 to HP-174) |
//! | `exchange`, `upstream` | one exchange with an origin |
//! | `reply`, `answer` | what clients get: an origin's response, or the edge's own (HP-166, HP-175 to HP-177) |
//! | `tunnel` | what is no longer HTTP (HP-181) |
//! | `pool` | connections to origins (HP-171, HP-186, HP-188) |
//! | `routing` | routes in force, and the groups they name |
//! | [`observer`] | what is told of each request |
//! | [`options`] | what may be set |
//! | [`stream`] | what a client's connection has to be able to do |
//! | [`limits`] | every bound that is no setting |

#![forbid(unsafe_code)]

pub mod affinity;
mod answer;
mod attempts;
pub mod budget;
pub mod client;
mod decide;
pub mod edge;
mod exchange;
pub mod forward;
pub mod guard;
mod http1;
mod http2;
pub mod limits;
pub mod names;
pub mod observer;
pub mod options;
mod pool;
pub mod profile;
mod reply;
pub mod response;
mod routing;
pub mod stream;
mod tunnel;
mod upstream;

pub use self::edge::Edge;
pub use self::options::EdgeOptions;
