//! The notice that a subscription was deleted (section 3.7): an event for the endpoint, of which nobody awaits more than an answer.

use hedgerow_core::time::Timestamp;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use crate::handshake::event_grid;

const TYPE: &str = "Microsoft.EventGrid.SubscriptionDeletedEvent";
const DATA_VERSION: &str = "1";

/// What a notice says.
#[derive(Debug, Clone, Copy)]
pub struct DeletionNotice<'a> {
    /// Its id, a new one each time.
    pub id: &'a str,
    /// The resource path of what the subscription was made for.
    pub source_path: &'a str,
    /// The subscription's name.
    pub name: &'a str,
    /// When it is sent.
    pub time: Timestamp,
}

/// The full path of a subscription: that of what it is made for, and its own name behind it.
#[must_use]
pub fn subscription_path(source_path: &str, name: &str) -> String {
    format!("{source_path}/providers/Microsoft.EventGrid/eventSubscriptions/{name}")
}

/// The body of the request: an array with the event (ED-171).
#[must_use]
pub fn body(notice: &DeletionNotice<'_>) -> Vec<u8> {
    let path = subscription_path(notice.source_path, notice.name);
    let event = json!([{
        "id": notice.id,
        "topic": notice.source_path,
        "subject": "",
        "data": { "eventSubscriptionId": path },
        "eventType": TYPE,
        "eventTime": notice.time.to_string(),
        "metadataVersion": "1",
        "dataVersion": DATA_VERSION,
    }]);
    event.to_string().into_bytes()
}

/// The headers of the request: those of a handshake, with another event type.
#[must_use]
pub fn headers(notice: &DeletionNotice<'_>, upper_case_name: bool) -> HeaderMap {
    let mut headers = event_grid::headers(notice.id, notice.name, upper_case_name);
    let mut set = |name, value| {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    };
    set("aeg-event-type", "SubscriptionDeletion");
    set("aeg-data-version", DATA_VERSION);
    headers
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// ED-171 and the table of section 3.3.
    #[test]
    fn a_notice_names_the_subscription_by_its_full_path() {
        let source_path = "/subscriptions/s/providers/Microsoft.EventGrid/topics/orders";
        let notice = DeletionNotice {
            id: "n-1",
            source_path,
            name: "billing",
            time: Timestamp::from_millis(1_893_553_445_000),
        };
        let sent: Value = serde_json::from_slice(&body(&notice)).unwrap();
        let path =
            format!("{source_path}/providers/Microsoft.EventGrid/eventSubscriptions/billing");
        let expected = json!([{
            "id": "n-1",
            "topic": source_path,
            "subject": "",
            "data": { "eventSubscriptionId": path },
            "eventType": "Microsoft.EventGrid.SubscriptionDeletedEvent",
            "eventTime": "2030-01-02T03:04:05.0000000Z",
            "metadataVersion": "1",
            "dataVersion": "1",
        }]);
        assert_eq!(sent, expected);
        let headers = headers(&notice, true);
        for (name, value) in [
            ("aeg-event-type", "SubscriptionDeletion"),
            ("aeg-subscription-name", "BILLING"),
            ("aeg-delivery-count", "0"),
            ("aeg-data-version", "1"),
            ("aeg-metadata-version", "1"),
            ("aeg-output-event-id", "n-1"),
            ("content-type", "application/json; charset=utf-8"),
        ] {
            let found: Vec<_> = headers.get_all(name).iter().collect();
            assert_eq!(found, [value], "{name}");
        }
    }
}
