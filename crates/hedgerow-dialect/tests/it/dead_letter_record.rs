//! Dead-letter records and the names of their blobs (ED-249, ED-254 to ED-259).

use hedgerow_core::dead_letter::blob_name;
use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::{DeadLetter, DeadLetterArray};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::cases::{Case, Run, members, run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record<'a> {
    schema: String,
    #[serde(borrow)]
    event: &'a RawValue,
    #[allow(dead_code)] // Only of schemas that are skipped.
    envelope: Option<Value>,
    reason: String,
    attempts: u16,
    last_outcome: String,
    publish_time: String,
    last_attempt_time: Option<String>,
    last_status: Option<u16>,
    #[serde(default)]
    settings: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Blob {
    subscription: String,
    container: String,
    write_time: String,
    uuid: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Delivered<'a> {
    id: String,
    event_time: String,
    event_type: String,
    data_version: String,
    metadata_version: String,
    topic: String,
    subject: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[test]
fn dead_letter_record_cases() {
    run("dead_letter_record", &[], check);
}

fn check(case: &Case) -> Run {
    if !case.expect.contains_key("blob") {
        return check_record(case, &case.input());
    }
    let blob: Blob = case.input();
    let name = blob_name(&blob.subscription, timestamp(&blob.write_time), &blob.uuid);
    let blob = format!("{}/{name}", blob.container);
    Run::Result(members(json!({ "blob": blob })))
}

fn check_record(case: &Case, record: &Record<'_>) -> Run {
    match record.schema.as_str() {
        "EventGridSchema" => {}
        "CloudEventSchemaV1_0" => return Run::Skipped("needs CloudEvents (ED-255)"),
        "CustomInputSchema" => return Run::Skipped("needs custom schemas (ED-256)"),
        other => panic!("{}: unknown schema {other}", case.id),
    }
    if record.publish_time.contains(".1234567") {
        return Run::Skipped("server time has milliseconds (design D4)");
    }
    let is_strict = record.settings.get("profile") == Some(&json!("strict"));
    assert!(
        is_strict || record.settings.is_empty(),
        "{}: unknown settings",
        case.id
    );
    let event: Delivered<'_> = serde_json::from_str(record.event.get()).unwrap();
    assert_eq!(event.metadata_version, "1");
    let stored = Event {
        id: event.id.into(),
        source: None,
        event_type: event.event_type.into(),
        subject: Some(event.subject.into()),
        time: Some(event.event_time.into()),
        data_version: Some(event.data_version.into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: event
            .data
            .map_or(Data::None, |data| Data::Json(data.get().into())),
    };
    let attempted = record.last_attempt_time.as_deref().map(timestamp);
    let attempted = attempted.map(|time| time.to_string());
    let letter = DeadLetter {
        reason: reason(&record.reason),
        attempts: record.attempts,
        last_outcome: Some(outcome(&record.last_outcome)),
        publish_time: &timestamp(&record.publish_time).to_string(),
        last_attempt_time: attempted.as_deref(),
        last_status: record.last_status.filter(|_| !is_strict),
    };
    let mut array = DeadLetterArray::default();
    assert!(array.add(&stored, &event.topic, &letter, 0));
    let written: Value = serde_json::from_slice(&array.finish()).unwrap();
    assert_eq!(written.as_array().map(Vec::len), Some(1));
    Run::Result(members(json!({ "record": written[0] })))
}

fn timestamp(text: &str) -> Timestamp {
    let time: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_millis(time.as_millisecond().try_into().unwrap())
}

fn reason(name: &str) -> DeadLetterReason {
    let found = DeadLetterReason::ALL
        .into_iter()
        .find(|reason| reason.as_str() == name);
    found.unwrap_or_else(|| panic!("unknown reason {name}"))
}

fn outcome(name: &str) -> Outcome {
    let found = Outcome::ALL
        .into_iter()
        .find(|outcome| outcome.as_str() == name);
    found.unwrap_or_else(|| panic!("unknown outcome {name}"))
}

fn event(data: &str) -> Event<'_> {
    Event {
        id: "1".into(),
        source: None,
        event_type: "t".into(),
        subject: Some("s\"".into()),
        time: Some("2030-01-02T03:04:05.1234567+02:00".into()),
        data_version: Some("".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Json(data.into()),
    }
}

const LETTER: DeadLetter<'_> = DeadLetter {
    reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
    attempts: 1,
    last_outcome: Some(Outcome::NotFound),
    publish_time: "2030-01-02T03:04:05.0060000Z",
    last_attempt_time: Some("2030-01-02T03:04:05.0070000Z"),
    last_status: Some(404),
};

/// ED-254, ED-320: the order of the vendor's sample; `data` byte for byte.
#[test]
fn members_come_in_order_and_data_as_delivered() {
    let mut array = DeadLetterArray::default();
    assert!(array.add(&event("{ \"a\" : 1.10 }"), "/t", &LETTER, usize::MAX));
    let never = DeadLetter {
        reason: DeadLetterReason::TimeToLiveExceeded,
        attempts: 0,
        last_outcome: None,
        last_attempt_time: None,
        last_status: None,
        ..LETTER
    };
    assert!(array.add(&event("1e400"), "/t", &never, usize::MAX));
    assert_eq!(array.count(), 2);
    let expected = concat!(
        r#"[{"id":"1","eventTime":"2030-01-02T03:04:05.1234567+02:00","eventType":"t","dataVersion":"","#,
        r#""metadataVersion":"1","topic":"/t","subject":"s\"","deadLetterReason":"MaxDeliveryAttemptsExceeded","#,
        r#""deliveryAttempts":1,"lastDeliveryOutcome":"NotFound","publishTime":"2030-01-02T03:04:05.0060000Z","#,
        r#""lastDeliveryAttemptTime":"2030-01-02T03:04:05.0070000Z","lastHttpStatusCode":404,"data":{ "a" : 1.10 }},"#,
        r#"{"id":"1","eventTime":"2030-01-02T03:04:05.1234567+02:00","eventType":"t","dataVersion":"","#,
        r#""metadataVersion":"1","topic":"/t","subject":"s\"","deadLetterReason":"TimeToLiveExceeded","#,
        r#""deliveryAttempts":0,"publishTime":"2030-01-02T03:04:05.0060000Z","data":1e400}]"#,
    );
    assert_eq!(String::from_utf8(array.finish()).unwrap(), expected);
}

/// ED-246: a blob ends before the record that would make it too long, but one that is alone.
#[test]
fn an_array_has_bounds() {
    let alone = {
        let mut array = DeadLetterArray::default();
        assert!(array.add(&event("1"), "/t", &LETTER, 1));
        array.finish().len()
    };
    let two = 2 * alone - 1;
    for (bytes_max, fits) in [(two - 1, false), (two, true)] {
        let mut array = DeadLetterArray::default();
        assert!(array.add(&event("1"), "/t", &LETTER, bytes_max));
        assert_eq!(array.add(&event("1"), "/t", &LETTER, bytes_max), fits);
        let bytes = array.finish();
        assert!(bytes.len() <= bytes_max);
        serde_json::from_slice::<Value>(&bytes).unwrap();
    }
}
