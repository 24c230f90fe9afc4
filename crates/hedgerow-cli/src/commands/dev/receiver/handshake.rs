//! How the receiver shows that it wants events: it answers both handshakes, whatever it was told to answer to events
//! (ED-152 to ED-170).
//!
//! | handshake | request | answer |
//! | --- | --- | --- |
//! | Event Grid | `POST` with `aeg-event-type: SubscriptionValidation` and an event with `data.validationCode` | 200, `{"validationResponse": code}` |
//! | CloudEvents | `OPTIONS` with `WebHook-Request-Origin` | 200, `WebHook-Allowed-Origin` with that origin |

use http::{HeaderMap, HeaderValue, Response};
use serde_json::{Value, json};

/// Whether a `POST` is the handshake and no event.
pub fn is_validation(headers: &HeaderMap) -> bool {
    let kind = headers.get("aeg-event-type");
    kind.is_some_and(|kind| kind.as_bytes() == b"SubscriptionValidation")
}

/// The answer to the handshake of Event Grid; `None` if there is no code in it.
pub fn echo_code(body: &[u8]) -> Option<Value> {
    let events: Value = serde_json::from_slice(body).ok()?;
    let code = events.pointer("/0/data/validationCode")?.as_str()?;
    Some(json!({ "validationResponse": code }))
}

/// Allows the origin that asks in the handshake of CloudEvents, at any rate.
pub fn allow<B>(request: &HeaderMap, mut answer: Response<B>) -> Response<B> {
    if let Some(origin) = request.get("webhook-request-origin") {
        let headers = answer.headers_mut();
        headers.insert("webhook-allowed-origin", origin.clone());
        headers.insert("webhook-allowed-rate", HeaderValue::from_static("*"));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_echoed() {
        let body =
            br#"[{"id":"1","data":{"validationCode":"512d38b6","validationUrl":"https://x/"}}]"#;
        assert_eq!(
            echo_code(body),
            Some(json!({"validationResponse": "512d38b6"}))
        );
        for body in [
            &b"[]"[..],
            b"{}",
            b"",
            br#"[{"data":{"validationCode":1}}]"#,
        ] {
            assert_eq!(echo_code(body), None);
        }
    }

    #[test]
    fn origins_are_allowed() {
        let mut asked = HeaderMap::new();
        let plain = allow(&asked, Response::new(()));
        assert!(plain.headers().is_empty());
        asked.insert(
            "webhook-request-origin",
            HeaderValue::from_static("grid.example"),
        );
        let answer = allow(&asked, Response::new(()));
        assert_eq!(answer.headers()["webhook-allowed-origin"], "grid.example");
        assert_eq!(answer.headers()["webhook-allowed-rate"], "*");
    }
}
