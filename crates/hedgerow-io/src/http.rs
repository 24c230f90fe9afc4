//! Sends HTTP/1.1 requests to other people's servers, safely.
//!
//! Every outbound connection is opened by one [`GuardedConnector`], which judges each address it is about to connect to
//! and the one it is connected to ([`address`]; design D11). A [`Client`] keeps idle connections and puts each request on
//! the wire once (design D10): no redirect is followed, no proxy is taken from the environment, nothing is sent again.
//!
//! How long an exchange may take, how many may run at once and what an answer means is decided by the caller.

pub mod address;
pub mod answer;
mod channel;
pub mod client;
pub mod connect;
pub mod guarded;
pub mod network;
pub mod objects;
pub mod options;
mod pool;
mod resolve;
pub mod scripted;
pub mod target;
pub mod trust;
pub mod watch;

pub use address::{AddressGuard, Denied, Rule, UrlDenied};
pub use answer::{Answer, AnswerBody, BodyError, Excerpt};
pub use client::{Client, SendError};
pub use connect::{Connect, ConnectError, Connecting, Connection};
pub use guarded::{ConnectorOptions, GuardedConnector};
pub use network::{Network, NetworkError};
pub use objects::ObjectHttp;
pub use options::ClientOptions;
pub use pool::Connections;
pub use resolve::Lookup;
pub use target::{Scheme, Target, TargetError};
pub use trust::{ExtraRoots, TlsDemands};
pub use watch::{Mark, Timings, Watch};
