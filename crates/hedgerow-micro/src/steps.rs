//! The steps: each is what the server does with an event at one place, called as the server calls it.

use std::hint::black_box;

use bytes::Bytes;
use hedgerow_core::position::Position;
use hedgerow_core::spec::DeliverySchema;
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::delivery::{self, BatchBody, Content, DeliveryHeaders, ResolvedHeaders};
use hedgerow_dialect::event_grid::{PublishError, Report, topic_path};
use hedgerow_dialect::publish;
use hedgerow_store::record::{PackedEvents, Record, decode_record, encode_record, unpack_event};

use crate::inputs::{Inputs, STORE_ID, SUBSCRIPTION, TOPIC, TOPIC_NAME};

/// A step.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Does it once.
    pub run: fn(&mut Inputs),
}

const fn step(name: &'static str, about: &'static str, run: fn(&mut Inputs)) -> Step {
    Step { name, about, run }
}

/// All of them, in the order in which an event meets them.
pub const STEPS: [Step; 15] = [
    step(
        "decode-1",
        "a publish request with one event of 1 KiB is read and checked",
        |inputs| decode(inputs, &inputs.one),
    ),
    step("decode-100", "the same with 100 events", |inputs| {
        decode(inputs, &inputs.hundred);
    }),
    step(
        "pack-1",
        "one event is put into its stored form",
        |inputs| {
            black_box(PackedEvents::pack(&inputs.events[..1]));
        },
    ),
    step("pack-100", "the same with 100 events", |inputs| {
        black_box(PackedEvents::pack(&inputs.events));
    }),
    step(
        "encode-events",
        "one event is written as a record of the log",
        |inputs| encode(inputs, |inputs| &inputs.records.events),
    ),
    step(
        "encode-started",
        "the starts of 32 attempts are written as a record",
        |inputs| encode(inputs, |inputs| &inputs.records.started),
    ),
    step(
        "encode-settled",
        "32 deliveries are written as a record",
        |inputs| encode(inputs, |inputs| &inputs.records.settled),
    ),
    step("decode-settled", "that record is read again", |inputs| {
        black_box(decode_record(&inputs.settled_frame).is_ok());
    }),
    step(
        "match-types",
        "3 of 100 subscriptions are found by the event type",
        |inputs| inputs.by_type.ask(),
    ),
    step(
        "match-advanced",
        "the same, by one advanced filter",
        |inputs| inputs.by_advanced_filter.ask(),
    ),
    step(
        "unpack",
        "an event is read from its stored form",
        |inputs| {
            black_box(unpack_event(&inputs.stored).is_ok());
        },
    ),
    step(
        "request",
        "the body and the headers of a delivery are made",
        |inputs| request(inputs, DeliverySchema::EventGridSchema),
    ),
    step(
        "request-cloud-event",
        "the same as a CloudEvent",
        |inputs| request(inputs, DeliverySchema::CloudEventSchemaV1_0),
    ),
    step(
        "batch-100",
        "100 events are read from their stored form and written into one body",
        batch,
    ),
    step(
        "refusal",
        "a publish request that is no JSON is refused, and the answer made",
        refuse,
    ),
];

fn read<'b>(inputs: &'b Inputs, body: &'b [u8]) -> Result<publish::Published<'b>, PublishError> {
    publish::decode(body, &inputs.request, &mut || {
        unreachable!("events have ids")
    })
}

fn decode(inputs: &Inputs, body: &[u8]) {
    assert!(black_box(read(inputs, body)).is_ok(), "it is valid");
}

fn encode(inputs: &mut Inputs, record: impl Fn(&Inputs) -> &Record) {
    let mut buffer = std::mem::take(&mut inputs.buffer);
    buffer.clear();
    encode_record(record(inputs), &mut buffer);
    inputs.buffer = black_box(buffer);
}

fn request(inputs: &mut Inputs, schema: DeliverySchema) {
    let event = unpack_event(&inputs.stored).expect("it was packed here");
    let position = Position {
        topic: TOPIC,
        seq: 1,
    };
    let body = delivery::body(
        schema,
        &event,
        &topic_path(TOPIC_NAME),
        Timestamp::from_millis(1),
    );
    let headers = delivery::headers(&DeliveryHeaders {
        schema,
        subscription_name: "billing",
        upper_case_name: true,
        attempts_made: 0,
        origin: None,
        content: Content::One {
            system_id: &delivery::system_id(&STORE_ID, SUBSCRIPTION, position),
            data_version: event.data_version.as_deref(),
        },
        traceparent: None,
        custom: &ResolvedHeaders::none(),
        is_signed: false,
    });
    let mut request = http::Request::new(Bytes::from(body));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = inputs.path.clone().into();
    *request.headers_mut() = headers;
    black_box(request);
}

fn batch(inputs: &mut Inputs) {
    let path = topic_path(TOPIC_NAME);
    let mut body = BatchBody::begin(DeliverySchema::EventGridSchema, &path, inputs.batch_bytes);
    for stored in &inputs.stored_hundred {
        let event = unpack_event(stored).expect("it was packed here");
        body.push(&event, Timestamp::from_millis(1));
    }
    let body = black_box(body.finish());
    // Whoever makes batches knows how long the one before was.
    inputs.batch_bytes = body.len();
}

fn refuse(inputs: &mut Inputs) {
    let refused = read(inputs, b"[{\"id\": \"1\",").err();
    let body = refused.expect("it is no JSON").to_body(&Report {
        request_id: "0b1e1c3f-6a0c-4b5e-8a41-6f1f7f8b6c11",
        number: 1,
        time: Timestamp::from_millis(1),
    });
    black_box(body);
}
