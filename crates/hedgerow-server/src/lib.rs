//! Listens: the publish route, the admin API and `/healthz` on one address; reads the configuration and wires everything.
//!
//! | module | does |
//! | --- | --- |
//! | [`config`] | file and environment to a checked [`Config`] |
//! | [`server`] | binds, opens the grid, serves, stops |
//! | [`handle`] | what the process that runs the server asks of it without HTTP |
//! | `listener` | accepts connections, so many at a time, and ends them in order |
//! | `connections` | who is connected: room for each kind of request |
//! | `tls` | the certificate, and how it is exchanged for a new one |
//! | `service` | one request: guards, then the publish route or the admin API |
//! | `guard` | refuses foreign hosts and origins (design D11) |
//! | `access` | what a token may do: rights, and the topics they hold for |
//! | `tokens` | who bears which token |
//! | `auth` | the first token, and how keys are compared |
//! | `body` | reads a request's body within bounds of size and time |
//! | `public_url` | where publishers reach the server, and which topic a host name means |
//! | `publish` | the publish route, one module a dialect |
//! | `admin` | the admin API, one module a noun |
//! | `origins` | origin groups: follows what is declared, probes it, and keeps what people want to see of it |
//! | `metrics` | what is counted, in `OpenMetrics` |
//! | [`apply`] | declares many things at once, or nothing |
//! | `error` | the only place where an error becomes a status and a code |
//! | `state` | what all requests share |
//! | [`store`] | what is asked of a data directory that no server uses |
//! | `descriptors` | raises the limit of open files and shares it out |
//!
//! Rules are not decided here but in `hedgerow-core`; nothing here delivers, that is `hedgerow-delivery`.

mod access;
mod admin;
pub mod apply;
mod auth;
mod body;
mod callback;
pub mod config;
mod connections;
mod descriptors;
pub mod edge;
mod error;
mod framing;
mod guard;
pub mod handle;
mod listener;
pub mod local_dead_letters;
mod metrics;
mod origins;
mod public_url;
mod publish;
pub mod server;
mod service;
mod state;
pub mod store;
mod tls;
mod tokens;
mod unreadable;

pub use crate::config::{Config, ConfigError, LogFormat};
pub use crate::guard::DevGuard;
pub use crate::handle::{
    AttemptFeed, HandleError, ServerHandle, ServerTime, SubscriptionEntry, TopicEntry,
};
pub use crate::public_url::PublicUrl;
pub use crate::server::{Server, ServerError, ServerOptions};
pub use crate::tls::{TlsConfig, TlsError, TlsVersion};
pub use hedgerow_delivery::command::{HoldInfo, HoldState};
pub use hedgerow_delivery::note::{AttemptNote, NoteNext};
pub use hedgerow_store::catalog::TopicKeys;
