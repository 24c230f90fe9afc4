//! The handshake of CloudEvents webhooks: an `OPTIONS` request, which is answered with headers or by a call of its callback
//! (ED-164 to ED-169).

use std::num::NonZeroU32;

use hedgerow_core::limits;
use hedgerow_core::validation::{AllowedRate, Consent};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::{common_headers, insert};

const ALLOWED_ORIGIN: HeaderName = HeaderName::from_static("webhook-allowed-origin");
const ALLOWED_RATE: HeaderName = HeaderName::from_static("webhook-allowed-rate");

/// The headers of the request (ED-165).
#[must_use]
pub fn headers(
    origin: &str,
    callback: &str,
    subscription_name: &str,
    upper_case_name: bool,
) -> HeaderMap {
    let mut headers = common_headers(subscription_name, upper_case_name);
    insert(&mut headers, "webhook-request-origin", origin);
    insert(&mut headers, "webhook-request-callback", callback);
    headers
}

/// What an answer says: consent stands in a header, and never in the status alone (ED-166 to ED-168).
#[must_use]
pub fn judge(status: u16, headers: &HeaderMap, origin: &str) -> Consent {
    let expected = format!("expected was 2xx and the header WebHook-Allowed-Origin: {origin}");
    if !(200..300).contains(&status) {
        return Consent::Refused(format!(
            "the endpoint answered OPTIONS with status {status}; {expected}"
        ));
    }
    let mut allowed = headers.get_all(ALLOWED_ORIGIN).iter().peekable();
    if allowed.peek().is_none() {
        return Consent::ByHand(format!(
            "the endpoint answered OPTIONS with status {status} and no header WebHook-Allowed-Origin; {expected}"
        ));
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).trim().to_owned();
    let is_us = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(origin);
    let allowed: Vec<_> = allowed.map(text).collect();
    if allowed.iter().any(is_us) {
        return Consent::Given(allowed_rate(headers));
    }
    let found: String = allowed
        .join(", ")
        .chars()
        .take(limits::NAME_IN_MESSAGE_BYTES_MAX)
        .collect();
    Consent::Refused(format!(
        "the endpoint answered OPTIONS with status {status} and allows {found:?}; {expected}"
    ))
}

/// What `WebHook-Allowed-Rate` says, of an answer or of a call of the callback (ED-167, ED-168).
#[must_use]
pub fn allowed_rate(headers: &HeaderMap) -> AllowedRate {
    let Some(value) = headers.get(ALLOWED_RATE) else {
        return AllowedRate::Unlimited;
    };
    match value.as_bytes().trim_ascii() {
        b"*" => AllowedRate::Unlimited,
        digits if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            // One that does not fit is higher than anything that is sent.
            let rate = std::str::from_utf8(digits)
                .map_or(u32::MAX, |text| text.parse().unwrap_or(u32::MAX));
            NonZeroU32::new(rate).map_or(AllowedRate::Unreadable, AllowedRate::PerMinute)
        }
        _ => AllowedRate::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "events.example.com";

    fn answer(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        headers.iter().map(pair).collect()
    }

    /// ED-164, ED-165.
    #[test]
    fn the_request_names_origin_and_callback() {
        let headers = headers(
            ORIGIN,
            "https://events.example.com/validate/7.abc",
            "billing",
            false,
        );
        for (name, value) in [
            ("webhook-request-origin", ORIGIN),
            (
                "webhook-request-callback",
                "https://events.example.com/validate/7.abc",
            ),
            ("aeg-event-type", "SubscriptionValidation"),
            ("aeg-subscription-name", "billing"),
            ("accept", "*/*"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
        assert!(!headers.contains_key("webhook-request-rate"), "ED-165");
    }

    /// Status, headers, what is found.
    type Row = (u16, &'static [(&'static str, &'static str)], &'static str);

    /// ED-166, ED-168; FC-14 f to h.
    #[test]
    fn consent_is_a_header_and_a_2xx() {
        let rows: &[Row] = &[
            (200, &[("webhook-allowed-origin", "*")], "given"),
            (204, &[("webhook-allowed-origin", ORIGIN)], "given"),
            (
                200,
                &[("webhook-allowed-origin", " Events.EXAMPLE.com ")],
                "given",
            ),
            (299, &[("webhook-allowed-origin", "*")], "given"),
            (
                200,
                &[
                    ("webhook-allowed-origin", "other.example"),
                    ("webhook-allowed-origin", ORIGIN),
                ],
                "given",
            ),
            (200, &[], "by hand"),
            (200, &[("webhook-allowed-rate", "*")], "by hand"),
            (200, &[("allow", "POST, OPTIONS")], "by hand"),
            (200, &[("access-control-allow-origin", "*")], "by hand"),
            (
                200,
                &[("webhook-allowed-origin", "other.example")],
                "refused",
            ),
            (
                200,
                &[("webhook-allowed-origin", "sub.events.example.com")],
                "refused",
            ),
            (200, &[("webhook-allowed-origin", "")], "refused"),
            (405, &[], "refused"),
            (405, &[("webhook-allowed-origin", "*")], "refused"),
            (199, &[("webhook-allowed-origin", "*")], "refused"),
            (300, &[("webhook-allowed-origin", "*")], "refused"),
            (500, &[("webhook-allowed-origin", "*")], "refused"),
        ];
        for (status, headers, expect) in rows {
            let headers: HeaderMap = headers
                .iter()
                .map(|(name, value)| {
                    (
                        name.parse::<HeaderName>().unwrap(),
                        value.parse::<HeaderValue>().unwrap(),
                    )
                })
                .collect();
            let found = match judge(*status, &headers, ORIGIN) {
                Consent::Given(_) => "given",
                Consent::ByHand(text) => {
                    assert!(text.contains("expected"), "{text}");
                    "by hand"
                }
                Consent::Refused(text) => {
                    assert!(
                        text.contains(&status.to_string()) && text.contains(ORIGIN),
                        "{text}"
                    );
                    "refused"
                }
            };
            assert_eq!(found, *expect, "{status} {headers:?}");
        }
    }

    /// ED-167.
    #[test]
    fn the_rate_is_a_positive_integer_or_a_star() {
        let rate = |rate| AllowedRate::PerMinute(NonZeroU32::new(rate).unwrap());
        assert_eq!(allowed_rate(&HeaderMap::new()), AllowedRate::Unlimited);
        for (value, expect) in [
            ("*", AllowedRate::Unlimited),
            (" * ", AllowedRate::Unlimited),
            ("120", rate(120)),
            ("1", rate(1)),
            ("007", rate(7)),
            ("99999999999999999999", rate(u32::MAX)),
            ("0", AllowedRate::Unreadable),
            ("-1", AllowedRate::Unreadable),
            ("+1", AllowedRate::Unreadable),
            ("1.5", AllowedRate::Unreadable),
            ("100/m", AllowedRate::Unreadable),
            ("", AllowedRate::Unreadable),
        ] {
            let headers = answer(&[("webhook-allowed-rate", value)]);
            assert_eq!(allowed_rate(&headers), expect, "{value:?}");
        }
    }
}
