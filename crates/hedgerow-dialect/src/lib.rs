//! Spells events: from what a vendor's clients publish to the inner [`Event`](hedgerow_core::event::Event), and from
//! there to what a vendor's receivers expect. Pure text work: no input or output, no clock, no decision about delivery.
//!
//! One module per dialect, each with the same files: `decode` (headers and body to events), `encode` (events to headers
//! and body), `error` (the vendor's error body).
//!
//! | module | dialect |
//! | --- | --- |
//! | [`event_grid`] | the Event Grid schema over HTTP |
//! | [`cloud_events`] | `CloudEvents` 1.0 over HTTP |
//! | [`custom`] | objects of any schema, with a mapping |
//!
//! What comes in depends on a topic's input schema: [`publish`] reads a request, and [`sas`] judges shared access signatures.
//! What goes out depends on a subscription's delivery schema: [`delivery`] is a delivery's body and headers, [`dead_letter`]
//! the content of a dead-letter blob, [`deletion`] the notice that a subscription is gone, [`handshake`] what asks an endpoint first whether it wants deliveries.

pub mod cloud_events;
pub mod custom;
pub mod dead_letter;
pub mod deletion;
pub mod delivery;
mod escapes;
pub mod event_grid;
pub mod handshake;
mod object;
pub mod publish;
pub mod sas;
mod time;
