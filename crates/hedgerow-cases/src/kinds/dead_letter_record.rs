//! `dead_letter_record`: dead-letter records and the names of their blobs (ED-249, ED-254 to ED-259).

use std::borrow::Cow;
use std::collections::BTreeMap;

use hedgerow_core::dead_letter::blob_name;
use hedgerow_core::event::{Data, Event};
use hedgerow_core::spec::DeliverySchema;
use hedgerow_core::time::SpelledTime;
use hedgerow_dialect::dead_letter::{DeadLetter, DeadLetterArray, ExtraMembers, RecordFormat};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::read_values::{outcome, reason, timestamp};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record<'a> {
    schema: String,
    #[serde(borrow)]
    event: &'a RawValue,
    #[serde(borrow, default)]
    envelope: Option<&'a RawValue>,
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

/// The Event Grid members of an event.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Envelope<'a> {
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

pub fn judge(case: &Case) -> Result<Run, String> {
    if !case.expect.contains_key("blob") {
        return judge_record(&case.input()?);
    }
    let blob: Blob = case.input()?;
    let name = blob_name(&blob.subscription, timestamp(&blob.write_time)?, &blob.uuid);
    let blob = format!("{}/{name}", blob.container);
    Ok(Run::result(json!({ "blob": blob })))
}

fn judge_record(record: &Record<'_>) -> Result<Run, String> {
    let schema = DeliverySchema::named(&record.schema)
        .ok_or_else(|| format!("unknown schema {}", record.schema))?;
    let is_strict = record.settings.get("profile") == Some(&json!("strict"));
    if !is_strict && !record.settings.is_empty() {
        return Err("unknown settings".to_owned());
    }
    let (event, topic_path) = match (schema, record.envelope) {
        (DeliverySchema::CloudEventSchemaV1_0, None) => (cloud_event(record.event)?, String::new()),
        (DeliverySchema::EventGridSchema, None) => enveloped(record.event, None)?,
        (DeliverySchema::CustomInputSchema, Some(envelope)) => {
            enveloped(envelope, Some(record.event))?
        }
        _ => return Err("an envelope belongs to a custom schema".to_owned()),
    };
    let attempted = record.last_attempt_time.as_deref().map(spelled);
    let attempted = attempted.transpose()?;
    let letter = DeadLetter {
        reason: reason(&record.reason)?,
        attempts: record.attempts,
        last_outcome: Some(outcome(&record.last_outcome)?),
        publish_time: &spelled(&record.publish_time)?,
        last_attempt_time: attempted.as_deref(),
        last_status: record.last_status,
    };
    let format = RecordFormat {
        schema,
        topic_path: &topic_path,
        extra: if is_strict {
            ExtraMembers::NONE
        } else {
            ExtraMembers::ALL
        },
    };
    let mut array = DeadLetterArray::default();
    assert!(array.add(&event, &letter, &format, 0));
    let written: Value =
        serde_json::from_slice(&array.finish()).map_err(|error| error.to_string())?;
    assert_eq!(written.as_array().map(Vec::len), Some(1));
    Ok(Run::result(json!({ "record": written[0] })))
}

/// As the server spells its times, to more digits than they have (design D4).
fn spelled(text: &str) -> Result<String, String> {
    let time: jiff::Timestamp = text.parse().map_err(|error| format!("{text}: {error}"))?;
    let spelled = SpelledTime {
        seconds: time.as_second(),
        ticks: time.subsec_nanosecond().unsigned_abs() / 100,
    };
    Ok(spelled.to_string())
}

/// An event as it is stored, and the path of its topic. `original`: what it was published as, if that is another schema.
fn enveloped<'a>(
    json: &'a RawValue,
    original: Option<&'a RawValue>,
) -> Result<(Event<'a>, String), String> {
    let event: Envelope<'_> =
        serde_json::from_str(json.get()).map_err(|error| error.to_string())?;
    assert_eq!(event.metadata_version, "1");
    let data = original.or(event.data);
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
        data: data.map_or(Data::None, |data| Data::Json(data.get().into())),
    };
    Ok((stored, event.topic))
}

/// A `CloudEvent` as it is stored.
fn cloud_event(json: &RawValue) -> Result<Event<'_>, String> {
    let mut members: BTreeMap<String, &RawValue> =
        serde_json::from_str(json.get()).map_err(|error| error.to_string())?;
    let mut text = |name: &str| -> Result<Option<Cow<'_, str>>, String> {
        let value = members.remove(name).map(RawValue::get);
        let text: Option<Option<String>> = value
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| error.to_string())?;
        Ok(text.flatten().map(Cow::Owned))
    };
    let required = |name: &str, text: Option<Cow<'static, str>>| text.ok_or(format!("no {name}"));
    assert_eq!(text("specversion")?.as_deref(), Some("1.0"));
    let id = required("id", text("id")?)?;
    let source = text("source")?;
    let event_type = required("type", text("type")?)?;
    let subject = text("subject")?;
    let time = text("time")?;
    let data_content_type = text("datacontenttype")?;
    let data_schema = text("dataschema")?;
    let data = members.remove("data");
    let extension = |(name, value): (String, &'_ RawValue)| {
        (Cow::Owned(name), Cow::Owned(value.get().to_owned()))
    };
    Ok(Event {
        id,
        source,
        event_type,
        subject,
        time,
        data_version: None,
        data_content_type,
        data_schema,
        extensions: members.into_iter().map(extension).collect(),
        data: data.map_or(Data::None, |data| Data::Json(data.get().into())),
    })
}
