//! Handshakes: what asks an endpoint whether it wants deliveries, and what its answer says (sections 3.5 and 3.6).
//!
//! | module | for subscriptions that deliver |
//! | --- | --- |
//! | [`event_grid`] | Event Grid or custom schema: a validation event is posted |
//! | [`cloud_events`] | CloudEvents: an `OPTIONS` request is sent |

pub mod cloud_events;
pub mod event_grid;

use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

/// The value of `aeg-event-type` on both.
const EVENT_TYPE: &str = "SubscriptionValidation";

/// The headers that both have. `None` for the name if no header can carry it, which no valid name is.
fn common_headers(subscription_name: &str, upper_case_name: bool) -> HeaderMap {
    let name = if upper_case_name {
        subscription_name.to_ascii_uppercase()
    } else {
        subscription_name.to_owned()
    };
    let mut headers = HeaderMap::with_capacity(10);
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("hedgerow/", env!("CARGO_PKG_VERSION"))),
    );
    headers.insert(
        HeaderName::from_static("aeg-event-type"),
        HeaderValue::from_static(EVENT_TYPE),
    );
    insert(&mut headers, "aeg-subscription-name", &name);
    headers
}

/// Adds a header if a header can carry the value.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
