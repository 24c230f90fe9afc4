//! The only place where an error becomes a status and a code.
//!
//! The publish route answers in the vendor's shape ([`Refusal`]), the admin API in ours ([`ApiError`]). Codes are stable and
//! never reused.

mod api;
mod refusal;

use std::time::Duration;

pub use self::api::ApiError;
pub use self::refusal::{PUBLISH_METHODS, Refusal};

/// How long clients wait for what is over in a moment.
const SOON: Duration = Duration::from_secs(1);

/// A text of the request, short enough to repeat.
fn shorten(text: &str) -> &str {
    hedgerow_core::text::beginning(text, hedgerow_core::limits::NAME_IN_MESSAGE_BYTES_MAX)
}
