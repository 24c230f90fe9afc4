//! What goes onto the wire when events are delivered over HTTP: body and headers, for each delivery schema (sections 3.2,
//! 3.3).

mod batch;
mod body;
mod custom;
mod headers;
mod signature;
mod trace;

pub use batch::{BatchBody, CommonText, event_bytes_min};
pub use body::{Form, body, form};
pub use custom::{CustomHeaders, ResolvedHeaders, Unusable};
pub use headers::{Content, DeliveryHeaders, headers, system_id};
pub use signature::{Signer, batch_id};
pub use trace::next_traceparent;
