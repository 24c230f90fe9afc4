//! The array of a dead-letter blob: the order of its members, and its bounds (ED-246, ED-254, ED-320).

use hedgerow_core::event::{DOMAIN_TOPIC, Data, Event};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::spec::DeliverySchema;
use hedgerow_dialect::dead_letter::{DeadLetter, DeadLetterArray, ExtraMembers, RecordFormat};
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

const FORMAT: RecordFormat<'_> = RecordFormat {
    schema: DeliverySchema::EventGridSchema,
    topic_path: "/t",
    extra: ExtraMembers::ALL,
};

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
    assert!(array.add(&event("{ \"a\" : 1.10 }"), &LETTER, &FORMAT, usize::MAX));
    let never = DeadLetter {
        reason: DeadLetterReason::TimeToLiveExceeded,
        attempts: 0,
        last_outcome: None,
        last_attempt_time: None,
        last_status: None,
        ..LETTER
    };
    assert!(array.add(&event("1e400"), &never, &FORMAT, usize::MAX));
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
        assert!(array.add(&event("1"), &LETTER, &FORMAT, 1));
        array.finish().len()
    };
    let two = 2 * alone - 1;
    for (bytes_max, fits) in [(two - 1, false), (two, true)] {
        let mut array = DeadLetterArray::default();
        assert!(array.add(&event("1"), &LETTER, &FORMAT, bytes_max));
        assert_eq!(array.add(&event("1"), &LETTER, &FORMAT, bytes_max), fits);
        let bytes = array.finish();
        assert!(bytes.len() <= bytes_max);
        serde_json::from_slice::<Value>(&bytes).unwrap();
    }
}

fn cloud_event(extensions: &[(&'static str, &'static str)]) -> Event<'static> {
    let extension = |(name, json): &(&'static str, &'static str)| ((*name).into(), (*json).into());
    Event {
        id: "1".into(),
        source: Some("/s".into()),
        event_type: "t".into(),
        subject: None,
        time: None,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: extensions.iter().map(extension).collect(),
        data: Data::Text("a,b".into()),
    }
}

fn cloud_record(extensions: &[(&'static str, &'static str)], extra: ExtraMembers) -> String {
    let format = RecordFormat {
        schema: DeliverySchema::CloudEventSchemaV1_0,
        extra,
        ..FORMAT
    };
    let mut array = DeadLetterArray::default();
    assert!(array.add(&cloud_event(extensions), &LETTER, &format, usize::MAX));
    String::from_utf8(array.finish()).unwrap()
}

/// ED-255, ED-317: each of the two members that the vendor's page does not have can be left out by itself.
#[test]
fn a_cloud_events_record_has_the_members_that_are_wanted() {
    let page = concat!(
        r#"[{"specversion":"1.0","id":"1","source":"/s","type":"t","deadletterreason":"MaxDeliveryAttemptsExceeded","#,
        r#""deliveryattempts":1,"lastdeliveryoutcome":"NotFound","publishtime":"2030-01-02T03:04:05.0060000Z","#,
    );
    let time = r#""lastdeliveryattempttime":"2030-01-02T03:04:05.0070000Z","#;
    let status = r#""lasthttpstatuscode":404,"#;
    for (last_http_status, last_attempt_time) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let extra = ExtraMembers {
            last_http_status,
            last_attempt_time,
            domain_topic: true,
        };
        let time = if last_attempt_time { time } else { "" };
        let status = if last_http_status { status } else { "" };
        let expected = format!("{page}{time}{status}\"data\":\"a,b\"}}]");
        assert_eq!(cloud_record(&[], extra), expected);
    }
}

/// ED-073, ED-255, ED-317: what only a header named of a domain's event stands beside it, and nothing that its attributes tell.
#[test]
fn a_domain_topic_that_no_attribute_tells_is_a_member() {
    let known = (DOMAIN_TOPIC, r#""Foo""#);
    let mine = ("hedgerowdomaintopic", r#""mine""#);
    let read = |extensions: &[_], extra| -> serde_json::Value {
        let record = cloud_record(extensions, extra);
        serde_json::from_str(&record).unwrap()
    };
    let rows: [(&[_], _, Option<&str>); 6] = [
        (&[known], ExtraMembers::ALL, Some("Foo")),
        (&[known], ExtraMembers::NONE, None),
        (&[], ExtraMembers::ALL, None),
        (
            &[("domaintopic", r#""Foo""#), known],
            ExtraMembers::ALL,
            None,
        ),
        (
            &[("domaintopic", r#""Bar""#), known],
            ExtraMembers::ALL,
            Some("Foo"),
        ),
        (&[mine, known], ExtraMembers::NONE, Some("mine")),
    ];
    for (extensions, extra, told) in rows {
        let record = &read(extensions, extra)[0];
        let shown = record.get("hedgerowdomaintopic");
        assert_eq!(shown.and_then(|shown| shown.as_str()), told, "{record}");
    }
    let record = &read(&[mine, known], ExtraMembers::ALL)[0];
    assert_eq!(record["hedgerowdomaintopic"], "Foo");
    assert_eq!(record["orighedgerowdomaintopic"], "mine");
}

/// ED-259, ED-317: what is called as a member that records have keeps its value under another name, which is free.
#[test]
fn extensions_make_room_for_added_members() {
    let extensions = [
        ("publishtime", r#""x""#),
        ("origpublishtime", "5"),
        ("origtenant", "true"),
        ("origdeadletterreason", r#""y""#),
        ("lasthttpstatuscode", "7"),
        ("lastdeliveryattempttime", r#""z""#),
        (":traceparent", r#""never shown""#),
    ];
    let read = |extra| -> Value {
        let record = cloud_record(&extensions, extra);
        assert!(!record.contains("never shown"), "{record}");
        serde_json::from_str::<Value>(&record).unwrap()[0].take()
    };
    let all = read(ExtraMembers::ALL);
    assert_eq!(all["publishtime"], "2030-01-02T03:04:05.0060000Z");
    assert_eq!(all["origpublishtime"], "x");
    assert_eq!(all["origorigpublishtime"], 5);
    assert_eq!(all["origtenant"], true);
    assert_eq!(all["origdeadletterreason"], "y", "nothing takes its name");
    assert_eq!(all["lasthttpstatuscode"], 404);
    assert_eq!(all["origlasthttpstatuscode"], 7);
    assert_eq!(all["origlastdeliveryattempttime"], "z");
    let page = read(ExtraMembers::NONE);
    assert_eq!(page["lasthttpstatuscode"], 7);
    assert_eq!(page["lastdeliveryattempttime"], "z");
    assert_eq!(page.get("origlasthttpstatuscode"), None);
}
