//! Details of bodies, headers and ids that no table has.

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::spec::DeliverySchema::{
    self, CloudEventSchemaV1_0, CustomInputSchema, EventGridSchema,
};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::delivery::{
    Content, DeliveryHeaders, ResolvedHeaders, body, headers, system_id,
};
use hedgerow_dialect::event_grid::topic_path;

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

/// 2030-01-02T03:04:05.006Z
const PUBLISHED: Timestamp = Timestamp::from_millis(1_893_553_445_006);

fn text(schema: DeliverySchema, event: &Event<'_>) -> String {
    String::from_utf8(body(schema, event, &topic_path("orders"), PUBLISHED)).unwrap()
}

/// ED-133: names, order, and the time as it was sent.
#[test]
fn an_event_grid_body_is_an_array_with_the_members_in_order() {
    let expected = concat!(
        r#"[{"id":"1","eventTime":"2030-01-02T03:04:05.1234567+02:00","eventType":"t","#,
        r#""dataVersion":"","metadataVersion":"1","topic":"/subscriptions/hedgerow/resourceGroups/"#,
        r#"hedgerow/providers/Microsoft.EventGrid/topics/orders","subject":"s","#,
        r#""data":{ "a" : 1.10 }}]"#,
    );
    assert_eq!(text(EventGridSchema, &event()), expected);
    let timeless = Event {
        time: None,
        ..event()
    };
    let expected = expected.replace("05.1234567+02:00", "05.0060000Z");
    assert_eq!(text(EventGridSchema, &timeless), expected, "ED-052");
}

/// ED-131, ED-134, ED-135: one object, converted.
#[test]
fn a_converted_cloud_event_is_an_object() {
    let expected = concat!(
        r#"{"specversion":"1.0","id":"1","source":"/subscriptions/hedgerow/resourceGroups/hedgerow/providers/"#,
        r#"Microsoft.EventGrid/topics/orders","type":"t","subject":"s","time":"2030-01-02T03:04:05.1234567+02:00","#,
        r##""datacontenttype":"application/json","dataschema":"#1.0","data":{ "a" : 1.10 }}"##,
    );
    let versioned = Event {
        data_version: Some("1.0".into()),
        ..event()
    };
    assert_eq!(text(CloudEventSchemaV1_0, &versioned), expected);
    let odd = Event {
        subject: Some("".into()),
        time: None,
        data: Data::None,
        ..event()
    };
    let written = text(CloudEventSchemaV1_0, &odd);
    let published = r#""time":"2030-01-02T03:04:05.0060000Z""#;
    assert!(written.contains(published), "ED-052: {written}");
    for absent in ["subject", "dataschema", "datacontenttype", "data"] {
        assert!(!written.contains(&format!("\"{absent}\"")), "{written}");
    }
}

/// ED-137: everything of a `CloudEvent` goes on as it was; what is only known about it does not.
#[test]
fn a_cloud_event_passes_unchanged() {
    let published = Event {
        source: Some("/s".into()),
        data_version: None,
        data_content_type: Some("text/plain".into()),
        data_schema: Some("urn:x".into()),
        extensions: vec![
            ("n".into(), "5".into()),
            (":traceparent".into(), r#""00""#.into()),
            ("traceparent".into(), r#""01""#.into()),
        ],
        data: Data::Binary(Cow::Borrowed(&[0, 1])),
        ..event()
    };
    let expected = concat!(
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"s","#,
        r#""time":"2030-01-02T03:04:05.1234567+02:00","datacontenttype":"text/plain","dataschema":"urn:x","#,
        r#""n":5,"traceparent":"01","data_base64":"AAE="}"#,
    );
    assert_eq!(text(CloudEventSchemaV1_0, &published), expected);
}

/// ED-136: the original, byte for byte, in an array.
#[test]
fn a_custom_body_is_the_published_event() {
    let published = Event {
        data: Data::Json(r#"{ "kind":"t" ,"n":1.10,"z":0,"a":0,"a":1}"#.into()),
        ..event()
    };
    let expected = r#"[{ "kind":"t" ,"n":1.10,"z":0,"a":0,"a":1}]"#;
    assert_eq!(text(CustomInputSchema, &published), expected);
}

#[test]
fn a_body_is_allocated_once() {
    let odd = Event {
        id: "\u{0}\u{1f}\u{8}\u{c}\r\n\t\"\\/\u{7f}é🌿".into(),
        data_version: Some("\"".into()),
        ..event()
    };
    for schema in DeliverySchema::ALL {
        let body = body(schema, &odd, "/t", PUBLISHED);
        assert_eq!(body.len(), body.capacity(), "{schema:?}");
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        match schema {
            EventGridSchema => assert_eq!(read[0]["id"], odd.id.as_ref()),
            CloudEventSchemaV1_0 => assert_eq!(read["id"], odd.id.as_ref()),
            CustomInputSchema => assert_eq!(read[0]["a"], 1.1),
        }
    }
}

static NO_HEADERS: ResolvedHeaders = ResolvedHeaders::none();

fn delivery(schema: DeliverySchema, content: Content<'_>) -> DeliveryHeaders<'_> {
    DeliveryHeaders {
        schema,
        subscription_name: "s-1",
        upper_case_name: true,
        attempts_made: 0,
        origin: Some("grid.example"),
        content,
        traceparent: None,
        custom: &NO_HEADERS,
        is_signed: false,
    }
}

/// What no header can carry must not keep an event from being delivered.
#[test]
fn an_unusable_data_version_is_left_out() {
    let headers_with = |data_version: &str| {
        let sent = Content::One {
            system_id: "id",
            data_version: Some(data_version),
        };
        headers(&delivery(EventGridSchema, sent))
    };
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

/// Section 3.3, ED-125, ED-138: every header there is, for each schema, and no other.
#[test]
fn each_schema_has_its_headers() {
    let sent = Content::One {
        system_id: "the-id",
        data_version: Some("2.0"),
    };
    let version = concat!("hedgerow/", env!("CARGO_PKG_VERSION"));
    let json = "application/json; charset=utf-8";
    let cloud = "application/cloudevents+json; charset=utf-8";
    let same = [
        ("accept", "*/*"),
        ("user-agent", version),
        ("aeg-event-type", "Notification"),
        ("aeg-subscription-name", "S-1"),
        ("aeg-delivery-count", "0"),
        ("aeg-output-event-id", "the-id"),
        ("traceparent", "00-1"),
    ];
    let rows: [(DeliverySchema, &[(&str, &str)]); 3] = [
        (
            EventGridSchema,
            &[
                ("content-type", json),
                ("aeg-metadata-version", "1"),
                ("aeg-data-version", "2.0"),
            ],
        ),
        (
            CloudEventSchemaV1_0,
            &[
                ("content-type", cloud),
                ("aeg-metadata-version", "1.0"),
                ("webhook-request-origin", "grid.example"),
            ],
        ),
        (
            CustomInputSchema,
            &[("content-type", json), ("aeg-metadata-version", "1")],
        ),
    ];
    for (schema, own) in rows {
        let made = headers(&DeliveryHeaders {
            traceparent: Some("00-1"),
            custom: &NO_HEADERS,
            ..delivery(schema, sent)
        });
        let mut made: Vec<_> = made
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        let mut expected: Vec<_> = same.iter().chain(own).copied().collect();
        made.sort_unstable();
        expected.sort_unstable();
        assert_eq!(made, expected, "{schema:?}");
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
