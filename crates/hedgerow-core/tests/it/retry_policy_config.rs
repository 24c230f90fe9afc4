//! Which retry policies and retry settings are accepted (ED-176, ED-184, ED-193, ED-197, ED-200, ED-201,
//! ED-245, ED-247).

use hedgerow_core::retry::SlotMode;
use hedgerow_core::spec::SubscriptionSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cases::{Case, Run, members, run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(rename = "retryPolicy")]
    retry_policy: Option<Value>,
    destination: Option<Value>,
    #[serde(rename = "endpointType")]
    endpoint_type: Option<String>,
    #[serde(default)]
    settings: Map<String, Value>,
}

#[test]
fn retry_policy_config_cases() {
    run("retry_policy_config", &[], check);
}

fn check(case: &Case) -> Run {
    let input: Input = case.input();
    if input.destination.is_some() || input.endpoint_type.is_some() {
        return Run::Skipped("needs batching or other destinations (ED-212, ED-213, ED-285)");
    }
    let mut declared = json!({
        "destination": {
            "endpointType": "WebHook",
            "properties": { "endpointUrl": "https://example.com/hook" },
        },
    });
    if let Some(policy) = input.retry_policy {
        declared["retryPolicy"] = policy;
    }
    for (name, value) in input.settings {
        match name.as_str() {
            "retry.finalStatuses" => declared["retry"]["finalStatuses"] = value,
            "retry.retriableStatuses" => declared["retry"]["retriableStatuses"] = value,
            "responseTimeoutSeconds" => declared["responseTimeoutSeconds"] = value,
            "retry.slotMode" => return Run::Result(slot_mode(&value)),
            "deadLetter.delay" => declared["deadLetter"]["delay"] = value,
            "deadLetter.maxUnavailable" => declared["deadLetter"]["maxUnavailable"] = value,
            "probation.threshold" => return Run::Skipped("needs probation (ED-226)"),
            "sas.clockSkew" => return Run::Skipped("needs shared access signatures (ED-021)"),
            _ => panic!("{}: unknown setting {name}", case.id),
        }
    }
    Run::Result(match SubscriptionSpec::check(&declared) {
        Ok(checked) => {
            let policy = checked.spec.retry_policy;
            members(json!({
                "accepted": true,
                "maxDeliveryAttempts": policy.max_delivery_attempts,
                "eventTimeToLiveInMinutes": policy.event_time_to_live.as_secs() / 60,
                "warning": !checked.warnings.is_empty(),
            }))
        }
        Err(error) => {
            let is_policy = error.field.starts_with("retryPolicy.");
            let prefix = if is_policy { "" } else { "settings." };
            refused(&format!("{prefix}{}", error.field))
        }
    })
}

/// A setting of the server, not of a subscription.
fn slot_mode(value: &Value) -> std::collections::BTreeMap<String, Value> {
    match value.as_str().unwrap().parse::<SlotMode>() {
        Ok(_) => members(json!({ "accepted": true })),
        Err(_) => refused("settings.retry.slotMode"),
    }
}

fn refused(field: &str) -> std::collections::BTreeMap<String, Value> {
    members(json!({ "accepted": false, "status": 400, "field": field }))
}
