//! Changes an origin group in part: a merge patch (RFC 7396) of its settings, with what groups need beside it.
//!
//! | in the patch | does |
//! | --- | --- |
//! | `origins` as a list | takes the place of all origins |
//! | `origins` as an object | is by name: changes one, `null` takes it out, a new name adds one |
//! | a name of the vendor's | is the setting's own name (HP-116) |
//! | `unhealthy_threshold`, without x | x follows from it (HP-113), whatever it was |
//! | `profile` | the settings that it stands for are as if they had not been given (HP-114) |

use hedgerow_origin::settings::{GroupSettings, VENDOR_NAMES};
use serde_json::{Map, Value, json};

use super::merge::merge;

const REQUIRED: &str = "successful_samples_required";

/// The settings with a patch over them, to be read as a group.
pub fn patched(present: &GroupSettings, mut patch: Value) -> Value {
    // Plain values with text keys always serialize.
    let mut group = serde_json::to_value(present).unwrap_or_default();
    if let Some(members) = patch.as_object_mut() {
        with_own_names(members);
    }
    if patch.get("profile").is_some_and(Value::is_string) {
        let of_profile = json!({
            "probe": {"interval_s": null, "timeout_s": null},
            "load_balancing": {"sample_size": null, REQUIRED: null},
            "unhealthy_threshold": null,
        });
        merge(&mut group, of_profile);
    }
    if let Some(given) = patch.get_mut("origins")
        && let Value::Object(by_name) = given
    {
        *given = origins(&group["origins"], std::mem::take(by_name));
    }
    let names_required = patch
        .pointer("/load_balancing")
        .and_then(|members| members.get(REQUIRED))
        .is_some_and(|value| !value.is_null());
    merge(&mut group, patch);
    let has_threshold = group
        .get("unhealthy_threshold")
        .is_some_and(|value| !value.is_null());
    if has_threshold && !names_required {
        let members = group
            .get_mut("load_balancing")
            .and_then(Value::as_object_mut);
        members.map(|members| members.remove(REQUIRED));
    }
    group
}

/// Moves what has a name of the vendor's to its own place, unless that is given too: then it is refused, or the same.
fn with_own_names(patch: &mut Map<String, Value>) {
    let mut found: Vec<(&str, &str, Value)> = Vec::new();
    for section in ["", "probe", "load_balancing"] {
        let members = match section {
            "" => Some(&mut *patch),
            section => patch.get_mut(section).and_then(Value::as_object_mut),
        };
        let Some(members) = members else { continue };
        for (vendors, place, name) in VENDOR_NAMES {
            let is_it = |member: &String| member.eq_ignore_ascii_case(vendors) && member != name;
            let given: Vec<_> = members
                .keys()
                .filter(|member| is_it(member))
                .cloned()
                .collect();
            for member in given {
                if let Some(value) = members.remove(&member) {
                    found.push((place, name, value));
                }
            }
        }
    }
    for (place, name, value) in found {
        let members = match place {
            "" => Some(&mut *patch),
            place => {
                let section = patch.entry(place).or_insert_with(|| json!({}));
                section.as_object_mut()
            }
        };
        if let Some(members) = members {
            match members.get(name) {
                // The reader says that they differ.
                Some(other) if *other != value => {
                    let vendors = VENDOR_NAMES.into_iter().find(|(.., own)| *own == name);
                    let vendors = vendors.map_or(name, |(vendors, ..)| vendors);
                    members.insert(vendors.to_owned(), value);
                }
                _ => drop(members.insert(name.to_owned(), value)),
            }
        }
    }
}

/// The list of origins with changes by name; new ones come last, in the order in which they stand.
fn origins(present: &Value, mut by_name: Map<String, Value>) -> Value {
    let mut list = Vec::new();
    for origin in present.as_array().into_iter().flatten() {
        let mut origin = origin.clone();
        let name = origin["name"].as_str().unwrap_or_default().to_owned();
        match by_name.remove(&name) {
            None => list.push(origin),
            Some(Value::Null) => {}
            Some(patch) => {
                merge(&mut origin, patch);
                list.push(origin);
            }
        }
    }
    for (name, patch) in by_name {
        if patch.is_null() {
            continue;
        }
        let mut origin = json!({ "name": name });
        merge(&mut origin, patch);
        list.push(origin);
    }
    Value::Array(list)
}

#[cfg(test)]
mod tests {
    use hedgerow_origin::settings::{Code, Group};

    use super::*;

    fn group(declared: Value) -> Group {
        let mut group = json!({"origins": [
            {"name": "a", "host": "a.example"}, {"name": "b", "host": "b.example", "weight": 7},
        ]});
        merge(&mut group, declared);
        Group::read(&group).unwrap()
    }

    fn changed(declared: Value, patch: Value) -> Result<Value, Vec<Code>> {
        let group = group(declared);
        let read = Group::read(&patched(group.settings(), patch));
        let read = read.map_err(|refusal| refusal.codes())?;
        Ok(serde_json::to_value(&read).unwrap())
    }

    /// Origins are changed by name, or all of them.
    #[test]
    fn origins_change_by_name() {
        let names = |group: &Value| -> Vec<(String, bool, u64)> {
            let origins = group["origins"].as_array().unwrap().iter();
            origins
                .map(|one| {
                    let name = one["name"].as_str().unwrap().to_owned();
                    let enabled = one["enabled"].as_bool().unwrap();
                    (name, enabled, one["weight"].as_u64().unwrap())
                })
                .collect()
        };
        let row = |name: &str, enabled, weight| (name.to_owned(), enabled, weight);
        for (patch, expect) in [
            (json!({}), vec![row("a", true, 50), row("b", true, 7)]),
            (
                json!({"b": {"enabled": false}}),
                vec![row("a", true, 50), row("b", false, 7)],
            ),
            (
                json!({"a": null, "c": {"host": "c.example", "weight": 1}, "d": null}),
                vec![row("b", true, 7), row("c", true, 1)],
            ),
            (
                json!([{"name": "x", "host": "x.example"}]),
                vec![row("x", true, 50)],
            ),
        ] {
            let group = changed(json!({}), json!({"origins": patch})).unwrap();
            assert_eq!(names(&group), expect, "{patch}");
        }
        let none = json!({"origins": {"a": null, "b": null}});
        assert_eq!(
            changed(json!({}), none),
            Err(vec![Code::OriginCountOutOfRange])
        );
    }

    /// HP-113, HP-114, HP-116: what follows from others follows anew, and the vendor's names are names.
    #[test]
    fn what_follows_is_not_held_against_the_change() {
        let rows = [
            (json!({}), json!({"unhealthy_threshold": 4}), (4, 1)),
            (json!({}), json!({"UnhealthyThreshold": 5}), (5, 1)),
            (
                json!({"unhealthy_threshold": 4}),
                json!({"SampleSize": 10}),
                (10, 7),
            ),
            (
                json!({"unhealthy_threshold": 4}),
                json!({"unhealthy_threshold": null}),
                (4, 1),
            ),
            (
                json!({}),
                json!({"profile": "slow_start_container"}),
                (5, 2),
            ),
            (
                json!({}),
                json!({"load_balancing": {"samplesize": 9, REQUIRED: 8}}),
                (9, 8),
            ),
            (
                json!({"unhealthy_threshold": 2}),
                json!({"probe": {"path": "/x"}}),
                (4, 3),
            ),
        ];
        for (declared, patch, (n, x)) in rows {
            let group = changed(declared.clone(), patch.clone()).unwrap();
            let load_balancing = &group["load_balancing"];
            let found = (&load_balancing["sample_size"], &load_balancing[REQUIRED]);
            assert_eq!(found, (&json!(n), &json!(x)), "{declared} {patch}");
        }
        let group = changed(
            json!({}),
            json!({"interval": 60, "probe": {"ProbeTimeout": 9}}),
        );
        assert_eq!(group.unwrap()["probe"]["interval_s"], 60);
        for (patch, code) in [
            (
                json!({"Interval": 60, "probe": {"interval_s": 50}}),
                Code::SettingGivenTwice,
            ),
            (
                json!({"unhealthy_threshold": 4, "load_balancing": {REQUIRED: 3}}),
                Code::ThresholdConflict,
            ),
            (json!({"wieght": 1}), Code::UnknownSetting),
        ] {
            assert_eq!(
                changed(json!({}), patch.clone()),
                Err(vec![code]),
                "{patch}"
            );
        }
    }
}
