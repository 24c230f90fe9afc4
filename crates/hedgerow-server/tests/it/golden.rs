//! The vendor's sample dead letters, published over HTTP (ED-320): one attempt, a receiver that answers 404; by default and
//! with the members of the vendor's page only (ED-317).

use hedgerow_dialect::dead_letter::ExtraMembers;
use http::Request;
use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, files, subscription, webhook};

/// Publishes to a topic and gives the record of the one event, as text.
async fn record(extra: ExtraMembers, topic: Value, delivery: &str, sent: (&str, &str)) -> String {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("deadletter")).unwrap();
    let directory = root.path().to_owned();
    let server = TestServer::start_with(|config| {
        config.dead_letter.directory = Some(directory);
        config.engine.dead_letter_members = extra;
    })
    .await;
    let mut receiver = Receiver::start().await;
    let key = server.topic_with("orders", topic).await;
    let mut declared = webhook(&receiver.url());
    declared["eventDeliverySchema"] = json!(delivery);
    declared["retryPolicy"] = json!({ "maxDeliveryAttempts": 1 });
    declared["deadLetter"] = json!({ "delay": 0 });
    declared["deadLetterDestination"] =
        json!({ "endpointType": "LocalDirectory", "properties": { "path": "deadletter" } });
    let path = subscription("orders", "the-sub");
    let made = server.admin("PUT", &path, declared).await;
    assert_eq!(made.status, 201, "{}", made.text());
    receiver.answer(404);
    let (content_type, body) = sent;
    let request = Request::post("/orders/api/events")
        .header("aeg-sas-key", key)
        .header("content-type", content_type);
    let answer = server.send(request, body.to_owned()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    receiver.next().await;
    server
        .wait_for("orders", "the-sub", |status| status["deadLettered"] == 1)
        .await;
    server.stop_and_wait().await;
    let [file] = files(root.path()).try_into().unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let record = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    record.unwrap().to_owned()
}

/// The record as JSON with its times taken out, each checked: published not after attempted (ED-320), in the form of ED-257.
fn without_times(record: &str, published: &str, attempted: &str) -> Value {
    let mut record: Value = serde_json::from_str(record).unwrap();
    let members = record.as_object_mut().unwrap();
    let published = members.remove(published).unwrap();
    let published = published.as_str().unwrap();
    assert_eq!(
        (published.len(), &published[27..]),
        (28, "Z"),
        "{published}"
    );
    if let Some(attempted) = members.remove(attempted) {
        assert!(published <= attempted.as_str().unwrap(), "{attempted}");
    }
    record
}

const TOPIC: &str =
    "/subscriptions/hedgerow/resourceGroups/hedgerow/providers/Microsoft.EventGrid/topics/orders";

/// ED-320, ED-254.
#[tokio::test]
async fn a_dead_letter_in_event_grid_schema() {
    let event = r#"[{"id":"93902694-901e-008f-6f95-7153a806873c","eventTime":"2020-08-13T17:18:13.1647262Z",
        "eventType":"Microsoft.Storage.BlobCreated","dataVersion":"","metadataVersion":"1",
        "subject":"/blobServices/default/containers/c/blobs/b","data":{"prop1":"my property","prop2":5}}]"#;
    for extra in [ExtraMembers::ALL, ExtraMembers::NONE] {
        let sent = ("application/json", event);
        let record = record(extra, json!({}), "EventGridSchema", sent).await;
        assert!(record.contains("lastDeliveryAttemptTime"), "{record}");
        let mut expected = json!({
            "id": "93902694-901e-008f-6f95-7153a806873c", "eventTime": "2020-08-13T17:18:13.1647262Z",
            "eventType": "Microsoft.Storage.BlobCreated", "dataVersion": "", "metadataVersion": "1",
            "topic": TOPIC, "subject": "/blobServices/default/containers/c/blobs/b",
            "data": { "prop1": "my property", "prop2": 5 },
            "deadLetterReason": "MaxDeliveryAttemptsExceeded", "deliveryAttempts": 1,
            "lastDeliveryOutcome": "NotFound",
        });
        if extra.last_http_status {
            expected["lastHttpStatusCode"] = json!(404);
        }
        let found = without_times(&record, "publishTime", "lastDeliveryAttemptTime");
        assert_eq!(found, expected);
    }
}

/// ED-320, ED-255.
#[tokio::test]
async fn a_dead_letter_in_cloud_events_schema() {
    let event = r#"{"specversion":"1.0","id":"caee971c-3ca0-4254-8f99-1395b394588e","source":"mysource",
        "dataversion":"1.0","subject":"mySubject","type":"fooEventType","datacontenttype":"application/json",
        "data":{"prop1":"my property","prop2":5}}"#;
    let topic = json!({ "inputSchema": "CloudEventSchemaV1_0" });
    for extra in [ExtraMembers::ALL, ExtraMembers::NONE] {
        let sent = ("application/cloudevents+json; charset=utf-8", event);
        let record = record(extra, topic.clone(), "CloudEventSchemaV1_0", sent).await;
        let tells_time = record.contains("lastdeliveryattempttime");
        assert_eq!(tells_time, extra.last_attempt_time, "{record}");
        let mut expected = json!({
            "specversion": "1.0", "id": "caee971c-3ca0-4254-8f99-1395b394588e", "source": "mysource",
            "dataversion": "1.0", "subject": "mySubject", "type": "fooEventType",
            "datacontenttype": "application/json", "data": { "prop1": "my property", "prop2": 5 },
            "deadletterreason": "MaxDeliveryAttemptsExceeded", "deliveryattempts": 1,
            "lastdeliveryoutcome": "NotFound",
        });
        if extra.last_http_status {
            expected["lasthttpstatuscode"] = json!(404);
        }
        let found = without_times(&record, "publishtime", "lastdeliveryattempttime");
        assert_eq!(found, expected);
    }
}

/// ED-320, ED-256: the envelope of the mapping's defaults, `eventTime` as `publishTime`, the whole event in `data`.
#[tokio::test]
async fn a_dead_letter_in_custom_schema() {
    let event = r#"{"prop1":"my property","prop2":5,"myEventType":"fooEventType"}"#;
    let topic = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "inputSchemaMappingType": "Json", "properties": {
            "eventType": { "defaultValue": "myEventType" },
            "subject": { "defaultValue": "subjectDefault" },
            "dataVersion": { "defaultValue": "1.0" },
        }},
    });
    for extra in [ExtraMembers::ALL, ExtraMembers::NONE] {
        let body = format!("[{event}]");
        let sent = ("application/json", body.as_str());
        let record = record(extra, topic.clone(), "CustomInputSchema", sent).await;
        assert!(record.ends_with(&format!("\"data\":{event}}}")), "{record}");
        let whole: Value = serde_json::from_str(&record).unwrap();
        assert_eq!(whole["eventTime"], whole["publishTime"]);
        let mut found = without_times(&record, "publishTime", "lastDeliveryAttemptTime");
        let members = found.as_object_mut().unwrap();
        members.remove("eventTime");
        let id = members.remove("id").unwrap();
        assert_eq!(id.as_str().map(str::len), Some(36), "generated: {id}");
        let mut expected = json!({
            "eventType": "myEventType", "subject": "subjectDefault", "dataVersion": "1.0",
            "metadataVersion": "1", "topic": TOPIC,
            "data": { "prop1": "my property", "prop2": 5, "myEventType": "fooEventType" },
            "deadLetterReason": "MaxDeliveryAttemptsExceeded", "deliveryAttempts": 1,
            "lastDeliveryOutcome": "NotFound",
        });
        if extra.last_http_status {
            expected["lastHttpStatusCode"] = json!(404);
        }
        assert_eq!(found, expected);
    }
}
