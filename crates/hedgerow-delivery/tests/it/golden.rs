//! The records of the vendor's page (ED-320): its three events, one attempt each, a receiver that answers 404, in the form
//! that is written by default and in the one with the page's members only (ED-317).

use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::spec::{TopicSpec, parse};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::dead_letter::ExtraMembers;
use serde_json::{Value, json};

use crate::world::{Meet, World, settings};

/// The record of an event that was published to a topic with this input schema, and when it was published.
async fn record(
    extra: ExtraMembers,
    topic: Value,
    delivery_schema: &str,
    event: &Event<'_>,
) -> (String, Timestamp) {
    let mut settings = settings();
    settings.dead_letter_members = extra;
    let world = World::with_settings(settings, |_, _| Meet::status(404));
    let spec = TopicSpec::check(&topic).unwrap().spec;
    let topic = world.topic_with("orders", spec).await;
    let declared = json!({
        "deadLetterDestination": { "endpointType": "LocalDirectory", "properties": { "path": "late" } },
        "retryPolicy": { "maxDeliveryAttempts": 1 },
        "eventDeliverySchema": delivery_schema,
    });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    let published = world.publish_event(topic, event).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    let blobs = world.letters.blobs();
    assert_eq!((blobs.len(), world.seen().len()), (1, 1));
    assert!(published <= world.seen()[0].time);
    world.assert_balanced("orders", "the-sub").await;
    let text = String::from_utf8(blobs[0].1.bytes.clone()).unwrap();
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    (inner.unwrap().to_owned(), published)
}

fn parsed(record: &str) -> Value {
    parse(record.as_bytes(), hedgerow_core::limits::SPEC_BYTES_MAX).unwrap()
}

const TOPIC: &str =
    "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.EventGrid/topics/orders";
const DATA: &str = r#"{ "prop1":"my property","prop2":5 }"#;

/// ED-320, ED-254.
#[tokio::test(start_paused = true)]
async fn event_grid_schema() {
    let event = Event {
        id: "93902694-901e-008f-6f95-7153a806873c".into(),
        source: None,
        event_type: "Microsoft.Storage.BlobCreated".into(),
        subject: Some("/blobServices/default/containers/c/blobs/b".into()),
        time: Some("2020-08-13T17:18:13.1647262Z".into()),
        data_version: Some("".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Json(DATA.into()),
    };
    for extra in [ExtraMembers::ALL, ExtraMembers::NONE] {
        let (text, published) = record(extra, json!({}), "EventGridSchema", &event).await;
        let mut expected = json!({
            "id": "93902694-901e-008f-6f95-7153a806873c",
            "eventTime": "2020-08-13T17:18:13.1647262Z",
            "eventType": "Microsoft.Storage.BlobCreated",
            "dataVersion": "",
            "metadataVersion": "1",
            "topic": TOPIC,
            "subject": "/blobServices/default/containers/c/blobs/b",
            "deadLetterReason": "MaxDeliveryAttemptsExceeded",
            "deliveryAttempts": 1,
            "lastDeliveryOutcome": "NotFound",
            "publishTime": published.to_string(),
            "lastDeliveryAttemptTime": published.to_string(),
            "data": { "prop1": "my property", "prop2": 5 },
        });
        if extra.last_http_status {
            expected["lastHttpStatusCode"] = json!(404);
        }
        assert_eq!(parsed(&text), expected);
        assert!(text.contains(&format!("\"data\":{DATA}")), "{text}");
    }
}

/// ED-320, ED-255.
#[tokio::test(start_paused = true)]
async fn cloud_events_schema() {
    let event = Event {
        id: "caee971c-3ca0-4254-8f99-1395b394588e".into(),
        source: Some("mysource".into()),
        event_type: "fooEventType".into(),
        subject: Some("mySubject".into()),
        time: None,
        data_version: None,
        data_content_type: Some("application/json".into()),
        data_schema: None,
        extensions: vec![("dataversion".into(), r#""1.0""#.into())],
        data: Data::Json(DATA.into()),
    };
    let topic = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    for extra in [ExtraMembers::ALL, ExtraMembers::NONE] {
        let recorded = record(extra, topic.clone(), "CloudEventSchemaV1_0", &event);
        let (text, published) = recorded.await;
        let mut expected = json!({
            "specversion": "1.0",
            "id": "caee971c-3ca0-4254-8f99-1395b394588e",
            "source": "mysource",
            "type": "fooEventType",
            "subject": "mySubject",
            "datacontenttype": "application/json",
            "dataversion": "1.0",
            "deadletterreason": "MaxDeliveryAttemptsExceeded",
            "deliveryattempts": 1,
            "lastdeliveryoutcome": "NotFound",
            "publishtime": published.to_string(),
            "data": { "prop1": "my property", "prop2": 5 },
        });
        if extra.last_http_status {
            expected["lasthttpstatuscode"] = json!(404);
            expected["lastdeliveryattempttime"] = json!(published.to_string());
        }
        assert_eq!(parsed(&text), expected);
    }
}

/// ED-320, ED-256: the envelope that the mapping's defaults make, and the whole event in `data`.
#[tokio::test(start_paused = true)]
async fn custom_schema() {
    let original = r#"{"prop1":"my property","prop2":5,"myEventType":"fooEventType"}"#;
    let event = Event {
        id: "7c9e6679-7425-40de-944b-e07fc1f90ae7".into(),
        source: None,
        event_type: "myEventType".into(),
        subject: Some("subjectDefault".into()),
        time: None,
        data_version: Some("1.0".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Json(original.into()),
    };
    let topic = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": {
            "inputSchemaMappingType": "Json",
            "properties": {
                "eventType": { "defaultValue": "myEventType" },
                "subject": { "defaultValue": "subjectDefault" },
                "dataVersion": { "defaultValue": "1.0" },
            },
        },
    });
    for extra in [ExtraMembers::ALL, ExtraMembers::NONE] {
        let recorded = record(extra, topic.clone(), "CustomInputSchema", &event);
        let (text, published) = recorded.await;
        let mut expected = json!({
            "id": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "eventTime": published.to_string(),
            "eventType": "myEventType",
            "dataVersion": "1.0",
            "metadataVersion": "1",
            "topic": TOPIC,
            "subject": "subjectDefault",
            "deadLetterReason": "MaxDeliveryAttemptsExceeded",
            "deliveryAttempts": 1,
            "lastDeliveryOutcome": "NotFound",
            "publishTime": published.to_string(),
            "lastDeliveryAttemptTime": published.to_string(),
            "data": { "prop1": "my property", "prop2": 5, "myEventType": "fooEventType" },
        });
        if extra.last_http_status {
            expected["lastHttpStatusCode"] = json!(404);
        }
        assert_eq!(parsed(&text), expected);
        assert!(text.ends_with(&format!("\"data\":{original}}}")), "{text}");
    }
}

/// ED-141: the trace of the publisher goes on, each attempt is a span of its own.
#[tokio::test(start_paused = true)]
async fn attempts_are_spans_of_the_publishers_trace() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let incoming = |parent: &str| format!("\"00-{TRACE}-{parent}-01\"");
    let event = Event {
        extensions: vec![
            ("traceparent".into(), "\"no trace\"".into()),
            (":traceparent".into(), incoming("b7ad6b7169203331").into()),
        ],
        source: Some("/s".into()),
        ..crate::world::event("e1")
    };
    let world = World::new(|_, attempt| Meet::status(if attempt == 0 { 503 } else { 200 }));
    let spec = TopicSpec::check(&json!({ "inputSchema": "CloudEventSchemaV1_0" }));
    let topic = world.topic_with("orders", spec.unwrap().spec).await;
    let declared = json!({ "eventDeliverySchema": "CloudEventSchemaV1_0" });
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    world.publish_event(topic, &event).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let seen = world.seen();
    let spans: Vec<_> = seen
        .iter()
        .map(|seen| {
            let rest = seen.headers["traceparent"].strip_prefix(&format!("00-{TRACE}-"));
            rest.unwrap().strip_suffix("-01").unwrap()
        })
        .collect();
    assert_eq!(spans.len(), 2);
    assert_ne!(spans[0], spans[1]);
    assert!(!spans.contains(&"b7ad6b7169203331"));
    assert!(
        seen[0].body.contains(r#""traceparent":"no trace""#),
        "ED-137"
    );
    assert!(!seen[0].body.contains(":traceparent"));
}
