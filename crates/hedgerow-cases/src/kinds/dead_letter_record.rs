//! `dead_letter_record`: dead-letter records and the names of their blobs (ED-249, ED-254 to ED-259).

use hedgerow_core::dead_letter::blob_name;
use hedgerow_core::event::{Data, Event};
use hedgerow_dialect::event_grid::{DeadLetter, DeadLetterArray};
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
    match record.schema.as_str() {
        "EventGridSchema" => {}
        "CloudEventSchemaV1_0" => return Ok(Run::LeftOut("needs CloudEvents (ED-255)")),
        "CustomInputSchema" => return Ok(Run::LeftOut("needs custom schemas (ED-256)")),
        other => return Err(format!("unknown schema {other}")),
    }
    if record.publish_time.contains(".1234567") {
        return Ok(Run::LeftOut("server time has milliseconds (design D4)"));
    }
    let is_strict = record.settings.get("profile") == Some(&json!("strict"));
    if !is_strict && !record.settings.is_empty() {
        return Err("unknown settings".to_owned());
    }
    let event: Delivered<'_> =
        serde_json::from_str(record.event.get()).map_err(|error| error.to_string())?;
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
    let attempted = record
        .last_attempt_time
        .as_deref()
        .map(timestamp)
        .transpose()?;
    let attempted = attempted.map(|time| time.to_string());
    let letter = DeadLetter {
        reason: reason(&record.reason)?,
        attempts: record.attempts,
        last_outcome: Some(outcome(&record.last_outcome)?),
        publish_time: &timestamp(&record.publish_time)?.to_string(),
        last_attempt_time: attempted.as_deref(),
        last_status: record.last_status.filter(|_| !is_strict),
    };
    let mut array = DeadLetterArray::default();
    assert!(array.add(&stored, &event.topic, &letter, 0));
    let written: Value =
        serde_json::from_slice(&array.finish()).map_err(|error| error.to_string())?;
    assert_eq!(written.as_array().map(Vec::len), Some(1));
    Ok(Run::result(json!({ "record": written[0] })))
}
