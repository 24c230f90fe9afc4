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
//! | [`limits`] | every bound that is no setting |

#![forbid(unsafe_code)]

pub mod affinity;
pub mod budget;
pub mod client;
pub mod forward;
pub mod guard;
pub mod limits;
pub mod names;
pub mod profile;
pub mod response;
