//! Says in plain words what to do about an endpoint that has not consented yet.

use serde_json::Value;

use crate::output;

/// What to do about an endpoint that has not consented, if there is something to do.
pub fn advice(subscription: &Value) -> Option<String> {
    let update = subscription.get("update");
    let newest = update.unwrap_or(subscription);
    let told = |name: &str| {
        let text = newest.pointer(&format!("/validation/{name}"));
        output::printable(text.and_then(Value::as_str).unwrap_or_default())
    };
    let what = match update {
        Some(_) => "the update of its endpoint",
        None => "the event subscription",
    };
    let todo = match newest.get("provisioningState")?.as_str()? {
        "Creating" => {
            return Some(format!(
                "{what} is not in force yet: its endpoint is being asked whether it wants events. Show it again in a moment."
            ));
        }
        "AwaitingManualAction" => format!(
            "Look up the validation URL in what the endpoint received (data.validationUrl, or the header \
             WebHook-Request-Callback) and open it before {}; or let the endpoint answer as expected, and declare it again.",
            told("until")
        ),
        "Failed" => {
            "Correct the endpoint, and declare it again; --output json shows what it answered."
                .to_owned()
        }
        _ => return None,
    };
    Some(format!(
        "{what} is not in force: {}. {todo}",
        told("message")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_to_be_done_about_an_endpoint_is_told() {
        let validation = json!({ "message": "it said nothing", "until": "2030-01-02T03:09:05Z" });
        let waits =
            json!({ "provisioningState": "AwaitingManualAction", "validation": validation });
        let rows = [
            (json!({ "provisioningState": "Succeeded" }), None),
            (
                json!({ "provisioningState": "Creating" }),
                Some("is being asked"),
            ),
            (
                waits.clone(),
                Some("the event subscription is not in force: it said nothing. Look up"),
            ),
            (waits.clone(), Some("before 2030-01-02T03:09:05Z")),
            (
                json!({ "provisioningState": "Succeeded", "update": waits }),
                Some("the update of its endpoint is not in force: it said nothing."),
            ),
            (
                json!({ "provisioningState": "Failed", "validation": validation }),
                Some("Correct the endpoint"),
            ),
        ];
        for (subscription, part) in rows {
            let found = advice(&subscription);
            match part {
                None => assert_eq!(found, None),
                Some(part) => assert!(
                    found.as_ref().is_some_and(|text| text.contains(part)),
                    "{found:?}"
                ),
            }
        }
    }
}
