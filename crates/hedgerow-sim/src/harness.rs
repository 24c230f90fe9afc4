//! What the tools share that drive the real binary from outside: the server as a process, a small HTTP client, the admin
//! API.

pub mod api;
pub mod http;
pub mod process;
