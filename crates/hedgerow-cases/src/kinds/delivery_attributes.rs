//! `delivery_attributes`: custom delivery properties, as declared and as an event is sent with them (ED-143 to ED-150,
//! ED-274, ED-276).

use std::collections::BTreeMap;

use hedgerow_core::spec::{AttributeRules, DeliveryAttribute, EndpointType};
use hedgerow_dialect::delivery::CustomHeaders;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::filter::read_event;
use crate::read_values::{expand, expand_text};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    mappings: Value,
    destination: Option<String>,
    #[serde(default)]
    bearer: bool,
    schema: Option<String>,
    event: Option<Box<RawValue>>,
    event_text: Option<String>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let kind = input.destination.as_deref().unwrap_or("WebHook");
    let rules = AttributeRules {
        endpoint_type: EndpointType::named(kind).ok_or_else(|| format!("unknown kind {kind}"))?,
        has_bearer_token: input.bearer,
    };
    let mappings = expand(input.mappings)?;
    let list = mappings.as_array().ok_or("mappings are a list")?;
    let checked = DeliveryAttribute::check_list(list, "deliveryAttributeMappings", rules);
    let attributes = match checked {
        Ok(attributes) => attributes,
        Err(error) => {
            let field = error.field;
            let refused = json!({ "accepted": false, "status": 400, "field": field });
            return Ok(Run::result(refused));
        }
    };
    let mut result = json!({ "accepted": true });
    let given = input.event.as_deref().map(expand_text).transpose()?;
    let text = given.or(input.event_text);
    if let Some(text) = text {
        let is_cloud = match input.schema.as_deref() {
            None | Some("EventGridSchema") => false,
            Some("CloudEventSchemaV1_0") => true,
            Some(other) => return Err(format!("unknown schema {other}")),
        };
        result["headers"] = headers(&attributes, &text, is_cloud)?.into();
    }
    Ok(Run::result(result))
}

fn headers(
    attributes: &[DeliveryAttribute],
    event: &str,
    is_cloud: bool,
) -> Result<Map<String, Value>, String> {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(event).map_err(|error| error.to_string())?;
    let (event, topic) = read_event(members, is_cloud)?;
    let resolved = CustomHeaders::new(attributes).resolve(&event, &topic, |_, _| ());
    let headers = resolved.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into();
        (name.to_string(), value)
    });
    Ok(headers.collect())
}
