//! Details of bodies, headers and ids that no table has.

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_dialect::event_grid::{
    DeliveryHeaders, delivery_headers, encode, system_id, topic_path,
};

fn event() -> Event<'static> {
    Event {
        id: "1".into(),
        source: None,
        event_type: "t".into(),
        subject: Some("s".into()),
        time: Some("2030-01-02T03:04:05.1234567+02:00".into()),
        data_version: Some("".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Json(Cow::Borrowed("{ \"a\" : 1.10 }")),
    }
}

/// ED-133: names, order, and the time as it was sent.
#[test]
fn a_body_is_an_array_with_the_members_in_order() {
    let body = encode(&event(), &topic_path("orders"));
    let expected = concat!(
        r#"[{"id":"1","eventTime":"2030-01-02T03:04:05.1234567+02:00","eventType":"t","#,
        r#""dataVersion":"","metadataVersion":"1","topic":"/subscriptions/hedgerow/resourceGroups/"#,
        r#"hedgerow/providers/Microsoft.EventGrid/topics/orders","subject":"s","#,
        r#""data":{ "a" : 1.10 }}]"#,
    );
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn a_body_is_allocated_once() {
    let odd = Event {
        id: "\u{0}\u{1f}\u{8}\u{c}\r\n\t\"\\/\u{7f}é🌿".into(),
        ..event()
    };
    let body = encode(&odd, "/t");
    assert_eq!(body.len(), body.capacity());
    let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(read[0]["id"], odd.id.as_ref());
}

fn headers_with(data_version: &str) -> http::HeaderMap {
    delivery_headers(&DeliveryHeaders {
        subscription_name: "s-1",
        upper_case_name: true,
        attempts_made: 0,
        data_version,
        system_id: "id",
    })
}

/// What no header can carry must not keep an event from being delivered.
#[test]
fn an_unusable_data_version_is_left_out() {
    for unusable in ["a\r\nb: c", "\u{0}", "\u{7f}", &"x".repeat(4_097)] {
        assert!(
            !headers_with(unusable).contains_key("aeg-data-version"),
            "{unusable:?}"
        );
    }
    for usable in ["", "1.0", "é", &"x".repeat(4_096)] {
        let headers = headers_with(usable);
        assert_eq!(headers["aeg-data-version"].as_bytes(), usable.as_bytes());
    }
}

/// Section 3.3: constant for an event and a subscription, different for each subscription. It must not change with a new
/// version either: receivers remember it.
#[test]
fn system_ids_are_stable_and_different() {
    let id = |store: u8, subscription, topic, seq| {
        let position = Position {
            topic: TopicId(topic),
            seq,
        };
        system_id(&[store; 16], SubscriptionId(subscription), position)
    };
    assert_eq!(id(1, 2, 3, 4), "06ec11ba-eda7-8261-9133-fabbeb3e3751");
    let others = [
        id(2, 2, 3, 4),
        id(1, 3, 3, 4),
        id(1, 2, 4, 4),
        id(1, 2, 3, 5),
    ];
    for other in others {
        assert_ne!(other, id(1, 2, 3, 4));
        assert!(
            matches!(other.as_bytes()[14], b'8'),
            "the version of {other}"
        );
        assert!(
            matches!(other.as_bytes()[19], b'8'..=b'9' | b'a'..=b'b'),
            "the variant of {other}"
        );
    }
}
