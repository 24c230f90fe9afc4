//! The rules of origin groups beyond the tables of `cases/`.

#![allow(clippy::unwrap_used)] // A test stops at once.

mod health;
mod routes;
mod selection;
mod selection_properties;
mod settings;
mod sharing;
mod window;
