//! `filter`: whether a filter wants an event, and which clause says no (ED-083 to ED-115).

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_core::event::{Data, Event};
use hedgerow_core::filter::{Filter, FilterEvent, FilterIndex, FilterRules};
use hedgerow_core::spec::FilterSpec;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default)]
    schema: Option<String>,
    event: Option<Box<RawValue>>,
    event_text: Option<String>,
    filter: Value,
    #[serde(default)]
    settings: Settings,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    #[serde(rename = "filter.numberNotInRangeMatchesMissing")]
    number_not_in_range_matches_missing: bool,
    #[serde(rename = "filter.pathsThroughArrays")]
    paths_through_arrays: bool,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let raw = input.event.as_ref().map(|raw| raw.get());
    let text = raw.or(input.event_text.as_deref()).ok_or("no event")?;
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let is_cloud = match input.schema.as_deref() {
        None | Some("EventGridSchema") => false,
        Some("CloudEventSchemaV1_0") => true,
        Some(other) => return Err(format!("unknown schema {other}")),
    };
    let (event, topic) = read_event(members, is_cloud)?;
    let event = FilterEvent::new(&event, &topic);
    let rules = FilterRules {
        number_not_in_range_matches_missing: input.settings.number_not_in_range_matches_missing,
        paths_through_arrays: input.settings.paths_through_arrays,
    };
    let spec = FilterSpec::check(&input.filter, "").map_err(|error| error.to_string())?;
    let filter = Filter::new(&spec, rules);
    let matched = filter.matches(&event);
    // The engine asks by the index.
    let mut index = FilterIndex::new(rules);
    index.insert(1, 0..u64::MAX, filter);
    let mut by_index = false;
    index.ask(
        7,
        &event,
        |_| true,
        |answer| by_index = answer.result.is_ok(),
    );
    if by_index != matched.is_ok() {
        return Err(format!("the index says {by_index}, the filter {matched:?}"));
    }
    Ok(Run::result(json!({
        "matched": matched.is_ok(),
        "failed": matched.err().map(|clause| clause.to_string()),
    })))
}

/// The event of a case, which has only the members that matter, and its topic.
pub(super) fn read_event(
    mut members: BTreeMap<String, &RawValue>,
    is_cloud: bool,
) -> Result<(Event<'_>, String), String> {
    let mut text = |name: &str| match members.remove(name) {
        None => Ok(None),
        Some(raw) => serde_json::from_str::<String>(raw.get())
            .map(|text| Some(Cow::Owned(text)))
            .map_err(|error| format!("{name}: {error}")),
    };
    let id = text("id")?.unwrap_or_default();
    let subject = text("subject")?;
    let (event_type, time) = if is_cloud {
        (text("type")?, text("time")?)
    } else {
        (text("eventType")?, text("eventTime")?)
    };
    let topic = if is_cloud { None } else { text("topic")? };
    let fixed = if is_cloud {
        ("specversion", "1.0")
    } else {
        ("metadataVersion", "1")
    };
    if text(fixed.0)?.is_some_and(|value| value != fixed.1) {
        return Err(format!("{} is always {}", fixed.0, fixed.1));
    }
    let mut only = |when: bool, name: &str| if when { text(name) } else { Ok(None) };
    let source = only(is_cloud, "source")?.or(is_cloud.then_some(Cow::Borrowed("")));
    let data_version = only(!is_cloud, "dataVersion")?;
    let data_content_type = only(is_cloud, "datacontenttype")?;
    let data_schema = only(is_cloud, "dataschema")?;
    let base64 = only(is_cloud, "data_base64")?;
    let data = match (members.remove("data"), base64) {
        (Some(raw), _) => Data::Json(Cow::Borrowed(raw.get())),
        (None, Some(text)) => {
            let bytes = STANDARD.decode(&*text).map_err(|error| error.to_string())?;
            Data::Binary(Cow::Owned(bytes))
        }
        (None, None) => Data::None,
    };
    let extensions = members.into_iter();
    let extensions: Vec<_> = extensions
        .map(|(name, raw)| (Cow::Owned(name), Cow::Borrowed(raw.get())))
        .collect();
    if let Some((name, _)) = extensions.first().filter(|_| !is_cloud) {
        return Err(format!("unknown member {name}"));
    }
    let event = Event {
        id,
        source,
        event_type: event_type.unwrap_or_default(),
        subject,
        time,
        data_version,
        data_content_type,
        data_schema,
        extensions,
        data,
    };
    Ok((event, topic.unwrap_or_default().into_owned()))
}
