//! The server from outside: real requests over loopback, a real store in a temporary directory, a receiver that does
//! what a test says.

#![allow(clippy::unwrap_used)] // Helpers of tests fail as tests do.

mod admin;
mod apply;
mod config;
mod connections;
mod custom_headers;
mod dead_letters;
mod delivery;
mod departures;
mod domains;
mod double_members;
mod edge;
mod endpoint_limits;
mod endpoint_test;
mod explanation;
mod filter_test;
mod filters;
mod golden;
mod guard;
mod history;
mod input_schemas;
mod lifecycle;
mod limits;
mod metrics;
mod origin_groups;
mod origins;
mod profile;
mod protocol;
mod publish;
mod rates;
mod schemas;
mod secrets;
mod signatures;
mod signing;
mod support;
mod tls;
mod to_groups;
mod tokens;
mod validation;
mod waits;
mod wire;
