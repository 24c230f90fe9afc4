//! A dead letter that is read again is the event that was to be delivered (ED-265): delivered once more, its body is the same.

use hedgerow_core::event::{Data, Event};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::spec::{DeliverySchema, InputSchema};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::dead_letter::{
    DeadLetter, DeadLetterArray, ExtraMembers, RecordFormat, read,
};
use hedgerow_dialect::delivery::body;

const TOPIC: &str = "/topics/orders";
const LETTER: DeadLetter<'_> = DeadLetter {
    reason: DeadLetterReason::TimeToLiveExceeded,
    attempts: 3,
    last_outcome: Some(Outcome::Busy),
    publish_time: "2030-01-02T03:04:05.0060000Z",
    last_attempt_time: Some("2030-01-02T03:04:05.0070000Z"),
    last_status: Some(503),
};

fn grid_event(data: Data<'static>) -> Event<'static> {
    Event {
        id: "a \"1\"".into(),
        source: None,
        event_type: "Orders.Created".into(),
        subject: Some("/orders/ü".into()),
        time: Some("2030-01-02T03:04:05.1234567+02:00".into()),
        data_version: Some("1.0".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data,
    }
}

fn cloud_event(extensions: &[(&'static str, &'static str)], data: Data<'static>) -> Event<'static> {
    let extension = |(name, json): &(&'static str, &'static str)| ((*name).into(), (*json).into());
    Event {
        source: Some("/mine".into()),
        subject: None,
        time: None,
        data_version: None,
        data_content_type: Some("application/json".into()),
        data_schema: Some("https://schemas.example/1".into()),
        extensions: extensions.iter().map(extension).collect(),
        ..grid_event(data)
    }
}

/// Writes a record and reads it again.
fn again(
    event: &Event<'_>,
    input: InputSchema,
    schema: DeliverySchema,
    extra: ExtraMembers,
    judge: impl Fn(&read::ReadLetter<'_>),
) {
    let format = RecordFormat {
        schema,
        topic_path: TOPIC,
        extra,
    };
    let mut array = DeadLetterArray::default();
    assert!(array.add(event, &LETTER, &format, usize::MAX));
    assert!(array.add(event, &LETTER, &format, usize::MAX));
    let bytes = array.finish();
    let records = read::records(&bytes).unwrap();
    assert_eq!(records.len(), 2);
    for record in records {
        judge(&read::record(record, input, TOPIC, extra).unwrap());
    }
}

/// Every pair of ED-130, and the odd ones of each: `data` of any kind and none, escapes, extensions that had to get out of the way.
#[test]
fn what_is_read_is_delivered_as_before() {
    use DeliverySchema as Out;
    use InputSchema as In;
    let json =
        || Data::Json("{ \"a\": 1.10, \"a\":12345678901234567890,\"z\":\"\\u00fc\" }".into());
    let mut without_version = grid_event(json());
    without_version.data_version = Some("".into());
    without_version.subject = Some("".into());
    let extensions = [
        ("tenant", "\"a\""),
        ("deliveryattempts", "7"),
        ("origdeliveryattempts", "true"),
        ("origin", "\"kept\""),
    ];
    let rows = [
        (
            In::EventGridSchema,
            Out::EventGridSchema,
            grid_event(json()),
        ),
        (
            In::EventGridSchema,
            Out::EventGridSchema,
            grid_event(Data::None),
        ),
        (
            In::EventGridSchema,
            Out::EventGridSchema,
            without_version.clone(),
        ),
        (
            In::EventGridSchema,
            Out::CloudEventSchemaV1_0,
            grid_event(json()),
        ),
        (
            In::EventGridSchema,
            Out::CloudEventSchemaV1_0,
            grid_event(Data::None),
        ),
        (
            In::EventGridSchema,
            Out::CloudEventSchemaV1_0,
            without_version,
        ),
        (
            In::CloudEventSchemaV1_0,
            Out::CloudEventSchemaV1_0,
            cloud_event(&extensions, json()),
        ),
        (
            In::CloudEventSchemaV1_0,
            Out::CloudEventSchemaV1_0,
            cloud_event(&[], Data::None),
        ),
        (
            In::CloudEventSchemaV1_0,
            Out::CloudEventSchemaV1_0,
            cloud_event(&[], Data::Text("a \"text\"\n".into())),
        ),
        (
            In::CloudEventSchemaV1_0,
            Out::CloudEventSchemaV1_0,
            cloud_event(&[], Data::Binary(vec![0, 1, 255].into())),
        ),
        (
            In::CustomEventSchema,
            Out::CustomInputSchema,
            grid_event(json()),
        ),
        (
            In::CustomEventSchema,
            Out::EventGridSchema,
            grid_event(json()),
        ),
        (
            In::CustomEventSchema,
            Out::CloudEventSchemaV1_0,
            grid_event(json()),
        ),
    ];
    for (number, (input, schema, event)) in rows.into_iter().enumerate() {
        for extra in [ExtraMembers::ALL, ExtraMembers::NONE] {
            let before = body(schema, &event, TOPIC, Timestamp::ZERO);
            again(&event, input, schema, extra, |letter| {
                let after = body(schema, &letter.event, TOPIC, Timestamp::ZERO);
                let [before, after] = [&before, &after].map(|body| String::from_utf8_lossy(body));
                assert_eq!(after, before, "row {number}");
                assert_eq!(letter.reason, "TimeToLiveExceeded");
            });
        }
    }
}

/// What says whose a record is: its topic, but where the publisher gave a source of its own.
#[test]
fn the_topic_is_told_where_the_record_says_it() {
    let json = || Data::Json("1".into());
    for (input, schema, event, topic) in [
        (
            InputSchema::EventGridSchema,
            DeliverySchema::EventGridSchema,
            grid_event(json()),
            Some(TOPIC),
        ),
        (
            InputSchema::EventGridSchema,
            DeliverySchema::CloudEventSchemaV1_0,
            grid_event(json()),
            Some(TOPIC),
        ),
        (
            InputSchema::CloudEventSchemaV1_0,
            DeliverySchema::CloudEventSchemaV1_0,
            cloud_event(&[], json()),
            None,
        ),
    ] {
        again(&event, input, schema, ExtraMembers::ALL, |letter| {
            assert_eq!(letter.topic.as_deref(), topic);
        });
    }
}

#[test]
fn what_is_none_of_ours_is_refused() {
    for blob in ["{}", "[", "\u{feff}[]", "null", "[1"] {
        read::records(blob.as_bytes()).unwrap_err();
    }
    for record in [
        "[1]",
        "[{}]",
        r#"[{"deadLetterReason":"x"}]"#,
        r#"[{"deadLetterReason":1,"id":"1"}]"#,
        r#"[{"deadletterreason":"x","id":"1","source":"s","type":7}]"#,
    ] {
        let records = read::records(record.as_bytes()).unwrap();
        let input = InputSchema::EventGridSchema;
        read::record(records[0], input, TOPIC, ExtraMembers::ALL).unwrap_err();
    }
    assert!(read::records(b"[]").unwrap().is_empty());
}
