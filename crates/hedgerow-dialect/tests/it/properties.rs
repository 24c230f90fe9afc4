//! What holds for any input: decoding never panics, and data comes out byte for byte as it went in.

use std::sync::LazyLock;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::spec::{DeliverySchema, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::delivery;
use hedgerow_dialect::event_grid::PublishError;
use hedgerow_dialect::publish::{Request, decode};
use http::HeaderMap;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

fn read(body: &[u8]) -> Result<Vec<Event<'_>>, PublishError> {
    static TOPIC: LazyLock<(HeaderMap, TopicSpec)> = LazyLock::new(Default::default);
    let request = Request {
        headers: &TOPIC.0,
        topic: &TOPIC.1,
        topic_path: "/t",
        domain: None,
    };
    decode(body, &request, &mut String::new).map(|published| published.events)
}

fn encode(event: &Event<'_>, topic_path: &str) -> Vec<u8> {
    delivery::body(
        DeliverySchema::EventGridSchema,
        event,
        topic_path,
        Timestamp::ZERO,
    )
}

pub fn space() -> impl Strategy<Value = &'static str> + Clone {
    prop_oneof![Just(""), Just(" "), Just("\n\t"), Just("\r\n ")]
}

/// JSON texts as no serializer writes them: odd spacing, escapes, numbers and duplicate names.
pub fn any_json() -> impl Strategy<Value = String> {
    let text = "[a-z\u{e9}\u{1f33f} ]{0,8}".prop_map(|text| format!("\"{text}\""));
    let leaf = prop_oneof![
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
        prop_oneof![Just("true"), Just("false"), Just("null")].prop_map(str::to_owned),
        prop_oneof![Just(r#""\u00e9\/\"\\""#), Just(r#""\ud83c\udf3f""#)].prop_map(str::to_owned),
        text.clone(),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        let spaced = (space(), inner, space())
            .prop_map(|(a, value, b)| format!("{a}{value}{b}"))
            .boxed();
        let list = proptest::collection::vec(spaced.clone(), 0..5);
        let member = (text.clone(), space(), spaced)
            .prop_map(|(name, space, value)| format!("{name}{space}:{value}"));
        let object = proptest::collection::vec(member, 0..5);
        prop_oneof![
            list.prop_map(|list| format!("[{}]", list.join(","))),
            object.prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

#[derive(serde::Deserialize)]
struct Delivered<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

proptest! {
    #[test]
    fn data_stays_byte_for_byte(data in any_json(), before in space(), after in space()) {
        let body = format!(
            r#"[{{"id":"1","data":{before}{data}{after},"subject":"s","eventType":"t",
            "eventTime":"2030-01-02T03:04:05Z"}}]"#
        );
        let events = read(body.as_bytes()).unwrap();
        prop_assert_eq!(&events[0].data, &Data::Json(data.as_str().into()));
        let delivered = encode(&events[0], "/t");
        let [delivered]: [Delivered<'_>; 1] = serde_json::from_slice(&delivered).unwrap();
        prop_assert_eq!(delivered.data.get(), data.as_str());
        let delivered = delivery::body(DeliverySchema::CloudEventSchemaV1_0, &events[0], "/t", Timestamp::ZERO);
        let delivered: Delivered<'_> = serde_json::from_slice(&delivered).unwrap();
        prop_assert_eq!(delivered.data.get(), data.as_str());
    }

    #[test]
    fn texts_survive(id in ".+", subject in ".+", event_type in ".+", version in ".*") {
        let published = serde_json::json!([{
            "id": id, "subject": subject, "eventType": event_type, "dataVersion": version,
            "eventTime": "2030-01-02T03:04:05Z",
        }]);
        let body = published.to_string();
        let delivered = encode(&read(body.as_bytes()).unwrap()[0], "/t");
        let delivered: Value = serde_json::from_slice(&delivered).unwrap();
        for name in ["id", "subject", "eventType", "dataVersion", "eventTime"] {
            prop_assert_eq!(&delivered[0][name], &published[0][name]);
        }
    }

    #[test]
    fn no_body_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&body);
    }

    /// A valid body with one byte changed, which reaches further in.
    #[test]
    fn no_damaged_body_makes_it_panic(data in any_json(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut body = format!(
            r#"[{{"id":"1","data":{data},"subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z"}},5]"#
        ).into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        if let Ok(events) = read(&body) {
            for event in events {
                let _: Value = serde_json::from_slice(&encode(&event, "/t")).unwrap_or_default();
            }
        }
    }
}

/// Deep nesting is only data; it must not cost stack.
#[test]
fn deep_nesting_is_no_danger() {
    let depth = 500_000;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let rest = r#""subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z""#;
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    let read_all = move || {
        let as_data = format!(r#"[{{"id":"1",{rest},"data":{deep}}}]"#);
        let events = read(as_data.as_bytes()).unwrap();
        assert!(encode(&events[0], "/t").len() > 2 * depth);
        for refused in [
            format!(r#"[{{"id":{deep},{rest}}}]"#),
            format!(r#"[{{"id":"1",{rest},"odd":{deep}}}]"#),
            deep.clone(),
            "[".repeat(depth),
            format!(
                r#"[{{"id":"1",{rest},"data":{}"#,
                "{\"a\":".repeat(depth / 2)
            ),
        ] {
            assert!(read(refused.as_bytes()).is_err());
        }
    };
    thread.spawn(read_all).unwrap().join().unwrap();
}

/// One valid event after many invalid ones, and the message names the place (ED-041).
#[test]
fn faults_name_their_place() {
    let good = r#"{"id":"1","subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z"}"#;
    let body = format!(r#"[{good},{{"id":1}},{good},null,"x",true,[1],-5,1.5,{{}}]"#);
    let error = read(body.as_bytes()).unwrap_err();
    let places: Vec<_> = error
        .details
        .iter()
        .map(|detail| detail.index.unwrap())
        .collect();
    assert_eq!(places, [1, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(
        error.details[0].message,
        "Event at index 1: \"id\" must be a string."
    );
    assert!(
        error.message.starts_with("8 of 10 events"),
        "{}",
        error.message
    );
}
