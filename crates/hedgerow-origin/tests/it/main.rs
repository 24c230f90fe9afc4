//! The rules of origin groups beyond the tables of `cases/`.

#![allow(clippy::unwrap_used, clippy::unchecked_time_subtraction)] // A test stops at once.

mod health;
mod node;
mod node_memory;
mod route_settings;
mod routes;
mod selection;
mod selection_properties;
mod settings;
mod sharing;
mod window;
mod world;
