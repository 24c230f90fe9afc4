//! `retry_policy_config`: which retry policies and retry settings are accepted (ED-176, ED-184, ED-193, ED-197, ED-200, ED-201,
//! ED-212, ED-213, ED-245, ED-247).

use hedgerow_core::limits;
use hedgerow_core::retry::SlotMode;
use hedgerow_core::spec::SubscriptionSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(rename = "retryPolicy")]
    retry_policy: Option<Value>,
    destination: Option<Map<String, Value>>,
    #[serde(rename = "endpointType")]
    endpoint_type: Option<String>,
    #[serde(default)]
    settings: Map<String, Value>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    if input.endpoint_type.is_some() {
        return Ok(Run::LeftOut("needs other destinations (ED-223, ED-285)"));
    }
    let mut declared = json!({
        "destination": {
            "endpointType": "WebHook",
            "properties": { "endpointUrl": "https://example.com/hook" },
        },
    });
    for (name, value) in input.destination.into_iter().flatten() {
        declared["destination"]["properties"][name] = value;
    }
    if let Some(policy) = input.retry_policy {
        declared["retryPolicy"] = policy;
    }
    for (name, value) in input.settings {
        match name.as_str() {
            "retry.finalStatuses" => declared["retry"]["finalStatuses"] = value,
            "retry.retriableStatuses" => declared["retry"]["retriableStatuses"] = value,
            "responseTimeoutSeconds" => declared["responseTimeoutSeconds"] = value,
            "retry.slotMode" => return Ok(Run::result(slot_mode(&value))),
            "deadLetter.delay" => declared["deadLetter"]["delay"] = value,
            "deadLetter.maxUnavailable" => declared["deadLetter"]["maxUnavailable"] = value,
            "probation.threshold" => declared["probation"]["threshold"] = value,
            "sas.clockSkew" => return Ok(Run::result(clock_skew(&value))),
            _ => return Err(format!("unknown setting {name}")),
        }
    }
    let result = match SubscriptionSpec::check(&declared) {
        Ok(checked) => {
            let policy = checked.spec.retry_policy;
            json!({
                "accepted": true,
                "maxDeliveryAttempts": policy.max_delivery_attempts,
                "eventTimeToLiveInMinutes": policy.event_time_to_live.as_secs() / 60,
                "warning": !checked.warnings.is_empty(),
            })
        }
        Err(error) => {
            let field = error
                .field
                .replace("destination.properties.", "destination.");
            let is_named = ["retryPolicy.", "destination."];
            let is_named = is_named.iter().any(|of| field.starts_with(of));
            let prefix = if is_named { "" } else { "settings." };
            refused(&format!("{prefix}{field}"))
        }
    };
    Ok(Run::result(result))
}

/// A setting of the server, not of a subscription.
fn slot_mode(value: &Value) -> Value {
    match value.as_str().map(str::parse::<SlotMode>) {
        Some(Ok(_)) => json!({ "accepted": true }),
        _ => refused("settings.retry.slotMode"),
    }
}

/// The same; seconds.
fn clock_skew(value: &Value) -> Value {
    let seconds = value.as_u64().and_then(|value| u32::try_from(value).ok());
    if seconds.is_some_and(|seconds| limits::SAS_CLOCK_SKEW_SECONDS.contains(&seconds)) {
        return json!({ "accepted": true });
    }
    refused("settings.sas.clockSkew")
}

fn refused(field: &str) -> Value {
    json!({ "accepted": false, "status": 400, "field": field })
}
