//! Changes a declaration in part: a merge patch (RFC 7396) of what is declared, in which what the API shows and does not take is
//! left out. So an answer can be sent back as it came, without the secrets that it does not show.

use serde_json::{Map, Value};

/// Members of answers that are no part of a declaration.
const READ_ONLY: [&str; 13] = [
    "name",
    "id",
    "topic",
    "createdTime",
    "isPaused",
    "provisioningState",
    "status",
    "warnings",
    "allowedRequestsPerMinute",
    "validation",
    "origins",
    "update",
    "ended",
];

/// What is declared with a patch over it. A destination of another type takes the place of the present one.
pub fn patched(mut present: Value, mut patch: Value) -> Value {
    if let Some(members) = patch.as_object_mut() {
        remove_read_only(members);
    }
    let kind = |of: &Value| of.pointer("/destination/endpointType").cloned();
    let new_kind = kind(&patch);
    if new_kind.is_some() && new_kind != kind(&present) {
        present["destination"] = Value::Null;
    }
    merge(&mut present, patch);
    present
}

/// Whether a patch has a member at this path, such as `retryPolicy.maxDeliveryAttempts`.
pub fn names(patch: &Value, field: &str) -> bool {
    let mut member = Some(patch);
    for name in field.split('.') {
        let (name, place) = name.split_once('[').unwrap_or((name, ""));
        member = member.and_then(|member| member.get(name));
        if !place.is_empty() {
            // A list is patched whole.
            break;
        }
    }
    member.is_some()
}

/// Takes out what the API shows and does not take.
pub fn remove_read_only(members: &mut Map<String, Value>) {
    for name in READ_ONLY {
        members.remove(name);
    }
    let destination = members.get_mut("destination");
    let properties = destination.and_then(|destination| destination.get_mut("properties"));
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        properties.remove("endpointBaseUrl");
        properties.remove("basePath");
    }
}

/// RFC 7396: members are merged, `null` removes one, everything else takes the place of what was there.
pub fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(members) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            members.remove(&name);
        } else {
            merge(members.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The cases of RFC 7396, appendix A, that have an object for a target.
    #[test]
    fn patches_merge_as_the_rfc_says() {
        for (target, patch, expect) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (
                json!({"a":{"b":"c"}}),
                json!({"a":{"b":"d","c":null}}),
                json!({"a":{"b":"d"}}),
            ),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (
                json!({}),
                json!({"a":{"bb":{"ccc":null}}}),
                json!({"a":{"bb":{}}}),
            ),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, patch.clone());
            assert_eq!(merged, expect, "{target} {patch}");
        }
    }

    #[test]
    fn paths_are_looked_up() {
        let patch = json!({"retryPolicy": {"maxDeliveryAttempts": null}});
        assert!(names(&patch, "retryPolicy.maxDeliveryAttempts"));
        assert!(names(&patch, "retryPolicy"));
        assert!(!names(&patch, "retryPolicy.eventTimeToLiveInMinutes"));
        assert!(!names(&patch, "filter.includedEventTypes"));
        assert!(!names(&patch, "filter.advancedFilters[0].key"));
        let patch = json!({"filter": {"advancedFilters": [{}, {}]}});
        assert!(names(&patch, "filter.advancedFilters[1].key"));
    }

    /// AZ-072: what an answer shows can be sent back, and the stored URL stays.
    #[test]
    fn an_answer_sent_back_changes_nothing() {
        let present = json!({
            "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": "https://a.example/?s"}},
            "labels": ["a"],
        });
        let shown = json!({
            "name": "billing", "id": 1, "status": {"pending": 1}, "provisioningState": "Succeeded",
            "destination": {"endpointType": "WebHook", "properties": {"endpointBaseUrl": "https://a.example/"}},
            "labels": ["a"],
        });
        assert_eq!(patched(present.clone(), shown), present);
        let other =
            json!({"destination": {"endpointType": "EventHub", "properties": {"resourceId": "x"}}});
        let replaced = patched(present, other.clone());
        assert_eq!(
            replaced["destination"], other["destination"],
            "nothing of the old one stays"
        );
    }
}
