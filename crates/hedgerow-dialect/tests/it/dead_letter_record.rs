//! The array of a dead-letter blob: the order of its members, and its bounds (ED-246, ED-254, ED-320).

use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_dialect::event_grid::{DeadLetter, DeadLetterArray};
use serde_json::Value;

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
