//! Publish requests of any kind: nothing makes the decoders panic, and what is accepted round-trips.

use std::borrow::Cow;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::spec::{DeliverySchema, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::delivery;
use hedgerow_dialect::publish::{Request, decode};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::properties::{any_json, space};

const CLOUD: DeliverySchema = DeliverySchema::CloudEventSchemaV1_0;
const SINGLE: &str = "application/cloudevents+json";

fn topics() -> [TopicSpec; 3] {
    let custom = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "properties": {
            "id": { "sourceField": "a" },
            "eventTime": { "sourceField": "b" },
            "eventType": { "sourceField": "a.b.c", "defaultValue": "t" },
            "subject": { "sourceField": "b.a", "defaultValue": "s" },
        }},
    });
    let cloud = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    [json!({}), cloud, custom].map(|topic| TopicSpec::check(&topic).unwrap().spec)
}

fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

/// Reads a request, and checks what holds for whatever is accepted.
fn check(topic: &TopicSpec, headers: &HeaderMap, body: &[u8], domain: Option<&str>) -> usize {
    let request = Request {
        headers,
        topic,
        topic_path: "/t",
        domain,
    };
    let Ok(published) = decode(body, &request, &mut || "new".to_owned()) else {
        return 0;
    };
    for event in &published.events {
        let name = event.domain_topic();
        assert_eq!(name.is_some(), domain.is_some());
        assert!(name.is_none_or(|name| name.parse::<DomainTopicName>().is_ok()));
        assert!(!event.id.is_empty());
        round_trip(event);
    }
    published.events.len()
}

/// As a `CloudEvent` it is taken again, and is the same then.
fn round_trip(event: &Event<'_>) {
    let sent = delivery::body(CLOUD, event, "/t", Timestamp::ZERO);
    let [_, cloud, _] = topics();
    let headers = headers(&[("content-type", SINGLE.as_bytes())]);
    let request = Request {
        headers: &headers,
        topic: &cloud,
        topic_path: "/t",
        domain: None,
    };
    let published = decode(&sent, &request, &mut String::new).unwrap();
    let [again] = published.events.as_slice() else {
        panic!("one event is one event")
    };
    assert_eq!(
        (&again.id, &again.event_type),
        (&event.id, &event.event_type)
    );
    assert_eq!(delivery::body(CLOUD, again, "/t", Timestamp::ZERO), sent);
    match (&event.data, &again.data) {
        (Data::Text(text), Data::Json(json)) => {
            assert_eq!(&serde_json::from_str::<Cow<'_, str>>(json).unwrap(), text);
        }
        (data, again) => assert_eq!(data, again),
    }
    if event.source.is_some() {
        assert_eq!(again.extensions, event.extensions);
        assert_eq!(again.source, event.source);
        assert_eq!(again.time, event.time);
    }
}

/// Values of headers, often of escapes.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let odd = vec(
        prop_oneof![
            Just(b"%C3%A9".to_vec()),
            Just(b"%".to_vec()),
            Just(b"\"".to_vec()),
            Just(b"\\".to_vec()),
            Just(b"%0A%00".to_vec()),
            Just("é".as_bytes().to_vec()),
            (0x20_u8..0x7f).prop_map(|byte| vec![byte]),
            (0x80_u8..=0xff).prop_map(|byte| vec![byte]),
        ],
        0..6,
    );
    odd.prop_map(|parts| parts.concat())
}

fn any_content_type() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        SINGLE,
        "application/cloudevents-batch+json; charset=utf-8",
        "application/cloudevents+json; charset=latin1",
        "application/cloudevents",
        "application/json",
        "application/x+json",
        "text/plain",
        "text/plain; charset=latin1",
        "image/png",
        "",
        ";",
    ])
}

/// Objects with members that mean something to one schema or another, and any values.
fn any_event() -> impl Strategy<Value = String> {
    let name = proptest::sample::select(vec![
        "id",
        "source",
        "type",
        "specversion",
        "subject",
        "time",
        "data",
        "data_base64",
        "datacontenttype",
        "dataschema",
        "eventType",
        "eventTime",
        "Subject",
        "topic",
        "a",
        "b",
        "ext",
        "domaintopic",
        "Odd",
        "\\ud800",
    ]);
    let value = prop_oneof![
        3 => any_json(),
        2 => Just(r#""1.0""#.to_owned()),
        2 => Just(r#""2030-01-02T03:04:05Z""#.to_owned()),
        1 => Just(r#""AAE=""#.to_owned()),
        1 => Just("null".to_owned()),
        1 => Just(r#"{"b":{"c":"x"},"a":"y"}"#.to_owned()),
    ];
    let member = (space(), name, value)
        .prop_map(|(space, name, value)| format!("{space}\"{name}\"{space}:{space}{value}{space}"));
    let valid = r#""specversion":"1.0","id":"1","source":"/s","type":"t""#;
    let grid = r#""id":"1","subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z""#;
    (
        proptest::sample::select(vec!["", valid, grid]),
        vec(member, 0..6),
    )
        .prop_map(|(first, more)| {
            let members: Vec<_> = Some(first.to_owned())
                .filter(|first| !first.is_empty())
                .into_iter()
                .chain(more)
                .collect();
            format!("{{{}}}", members.join(","))
        })
}

proptest! {
    #[test]
    fn any_request_is_answered(
        events in vec(any_event(), 0..4),
        is_alone: bool,
        content_type in any_content_type(),
        is_domain: bool,
        damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut body = match events.as_slice() {
            [event] if is_alone => event.clone().into_bytes(),
            events => format!("[{}]", events.join(",")).into_bytes(),
        };
        if let Some((at, byte)) = damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let headers = headers(&[("content-type", content_type.as_bytes())]);
        for topic in topics() {
            check(&topic, &headers, &body, is_domain.then_some("/d"));
        }
    }

    #[test]
    fn any_headers_are_answered(
        id in any_value(),
        subject in any_value(),
        extension in any_value(),
        odd in "ce-[a-z0-9_-]{0,6}",
        content_type in any_content_type(),
        body in vec(any::<u8>(), 0..40),
    ) {
        let pairs: [(&str, &[u8]); 7] = [
            ("ce-specversion", b"1.0"),
            ("ce-source", b"/s"),
            ("ce-type", b"t"),
            ("ce-id", &id),
            ("ce-subject", &subject),
            (&odd, &extension),
            ("content-type", content_type.as_bytes()),
        ];
        let [_, cloud, _] = topics();
        check(&cloud, &headers(&pairs), &body, None);
        check(&cloud, &headers(&pairs[..6]), &body, None);
    }

    /// What is valid is accepted, whatever its data and extensions are.
    #[test]
    fn valid_cloud_events_are_taken(
        data in any_json(),
        text in "[a-z\u{e9}\u{1f33f}%\\\\\" ]{1,8}",
        number: i64,
        before in space(),
    ) {
        let text = json!(text);
        let body = format!(
            r#"{before}{{"specversion":"1.0","id":{text},"data":{before}{data},"source":{text},
            "type":{text},"subject":{before}{text},"ext":{text},"n":{number},"flag":true}}{before}"#
        );
        let [_, cloud, _] = topics();
        let headers = headers(&[("content-type", SINGLE.as_bytes())]);
        prop_assert_eq!(check(&cloud, &headers, body.as_bytes(), None), 1);
    }

    /// The whole original is the data, byte for byte (ED-055).
    #[test]
    fn custom_events_stay_whole(members in vec(any_json(), 0..4), before in space()) {
        let members = members.iter().enumerate();
        let members: Vec<_> = members.map(|(n, value)| format!("\"m{n}\":{before}{value}")).collect();
        let original = format!("{{{before}{}{before}}}", members.join(","));
        let body = format!("[{before}{original}{before}]");
        let [_, _, custom] = topics();
        let headers = HeaderMap::new();
        let request = Request { headers: &headers, topic: &custom, topic_path: "/t", domain: None };
        let published = decode(body.as_bytes(), &request, &mut || "new".to_owned()).unwrap();
        let sent = delivery::body(
            DeliverySchema::CustomInputSchema, &published.events[0], "/t", Timestamp::ZERO,
        );
        prop_assert_eq!(sent, format!("[{original}]").into_bytes());
    }
}
