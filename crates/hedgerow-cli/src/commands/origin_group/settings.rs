//! The options of `create` and `update`, under the names of the vendor's command line where it has them, and the body that
//! they make.

use clap::{ArgAction, Args};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// What a group is. What is not given keeps its value, or its default.
#[derive(Debug, Args)]
pub(super) struct Settings {
    /// An origin: `NAME=HOST`, with `:PORT` for the port of its probes, and further settings behind commas, such as
    /// `a=10.0.0.1:8080,weight=10,priority=2`. Several times for several.
    #[arg(long, value_name = "ORIGIN", action = ArgAction::Append, value_parser = origin)]
    origin: Vec<(String, Value, Option<u16>)>,
    /// Whether there are probes; there are, unless this says otherwise.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    enable_health_probe: Option<bool>,
    /// How probes are sent: `http` (by default) or `https`.
    #[arg(long, value_name = "PROTOCOL")]
    probe_protocol: Option<String>,
    /// The path of probes, with a query if one is wanted; `/` by default.
    #[arg(long, value_name = "PATH")]
    probe_path: Option<String>,
    /// The method of probes: `HEAD` (by default) or `GET`.
    #[arg(long, value_name = "METHOD")]
    probe_request_type: Option<String>,
    /// Seconds between probes, 5 to 255; 30 by default.
    #[arg(long, value_name = "SECONDS")]
    probe_interval_in_seconds: Option<u32>,
    /// Seconds that a probe may take, 1 to 60; 5 by default.
    #[arg(long, value_name = "SECONDS")]
    probe_timeout_in_seconds: Option<u32>,
    /// How many of the newest probes are looked at, 1 to 255; 4 by default.
    #[arg(long, value_name = "COUNT")]
    sample_size: Option<u32>,
    /// How many of them have to be good; 3 by default.
    #[arg(long, value_name = "COUNT")]
    successful_samples_required: Option<u32>,
    /// After how many failures in a row an origin is unhealthy: another way to say the two above.
    #[arg(long, value_name = "COUNT")]
    unhealthy_threshold: Option<u32>,
    /// How much slower than the fastest an origin may be to get requests, in milliseconds; 50 by default.
    #[arg(long, value_name = "MILLISECONDS")]
    additional_latency_in_milliseconds: Option<u32>,
    /// Other defaults in one word: `slow_start_container`.
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// What happens while all origins are unhealthy: `all` (by default), `top_priority` or `none`.
    #[arg(long, value_name = "WHOM")]
    fail_open: Option<String>,
    /// Whether later requests of a session go to the same origin.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    session_affinity: Option<bool>,
    /// Any other setting: its path and its value in JSON, such as `ramp_s=60` or `probe.expected_statuses=[200,204]`.
    #[arg(long, value_name = "SETTING", action = ArgAction::Append, value_parser = setting)]
    set: Vec<(String, Value)>,
    /// Judges it, says how many probes there will be, and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// What only a group that is there can be changed in.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names)] // They are the names of options.
pub(super) struct Changes {
    /// Takes an origin out of the group.
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    remove_origin: Vec<String>,
    /// Lets an origin be used again.
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    enable_origin: Vec<String>,
    /// Keeps requests and probes from an origin.
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    disable_origin: Vec<String>,
}

impl Settings {
    /// The body of a new group, with a list of origins, or of a change, with origins by name.
    pub fn body(&self, is_new: bool) -> Result<Value, Failure> {
        let mut body = Value::Object(Map::new());
        let texts = [
            ("probe.protocol", &self.probe_protocol),
            ("probe.path", &self.probe_path),
            ("probe.method", &self.probe_request_type),
            ("profile", &self.profile),
            ("fail_open", &self.fail_open),
        ];
        let numbers = [
            ("probe.interval_s", self.probe_interval_in_seconds),
            ("probe.timeout_s", self.probe_timeout_in_seconds),
            ("load_balancing.sample_size", self.sample_size),
            (
                "load_balancing.successful_samples_required",
                self.successful_samples_required,
            ),
            (
                "load_balancing.additional_latency_ms",
                self.additional_latency_in_milliseconds,
            ),
            ("unhealthy_threshold", self.unhealthy_threshold),
        ];
        let flags = [
            ("probe.enabled", self.enable_health_probe),
            ("session_affinity", self.session_affinity),
        ];
        let given = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, json!(text.as_ref()?))))
            .chain(
                numbers
                    .into_iter()
                    .filter_map(|(name, number)| Some((name, json!(number?)))),
            )
            .chain(
                flags
                    .into_iter()
                    .filter_map(|(name, flag)| Some((name, json!(flag?)))),
            );
        for (name, value) in given {
            put(&mut body, name, value)?;
        }
        for (name, value) in &self.set {
            put(&mut body, name, value.clone())?;
        }
        let is_https = body.pointer("/probe/protocol") == Some(&json!("https"));
        let origins = self.origin.iter().map(|(name, origin, port)| {
            let mut origin = origin.clone();
            if let Some(port) = port {
                let place = if is_https { "https_port" } else { "http_port" };
                origin[place] = json!(port);
            }
            (name.clone(), origin)
        });
        if is_new {
            let list = origins.map(|(name, mut origin)| {
                origin["name"] = json!(name);
                origin
            });
            body["origins"] = list.collect();
        } else if !self.origin.is_empty() {
            body["origins"] = Value::Object(origins.collect());
        }
        Ok(body)
    }
}

impl Changes {
    /// Adds them to a change.
    pub fn add_to(&self, body: &mut Value) {
        let enabled = |is_enabled: bool| json!({ "enabled": is_enabled });
        let changes = self
            .remove_origin
            .iter()
            .map(|name| (name, Value::Null))
            .chain(self.enable_origin.iter().map(|name| (name, enabled(true))))
            .chain(
                self.disable_origin
                    .iter()
                    .map(|name| (name, enabled(false))),
            );
        for (name, change) in changes {
            let origins = &mut body["origins"];
            match (origins.get_mut(name), change) {
                (Some(Value::Object(origin)), Value::Object(more)) => origin.extend(more),
                (_, change) => origins[name.as_str()] = change,
            }
        }
    }
}

/// Puts a value at a path of members.
fn put(body: &mut Value, path: &str, value: Value) -> Result<(), Failure> {
    let (of, name) = path.rsplit_once('.').unwrap_or(("", path));
    let in_the_middle = || {
        Failure::new(format!(
            "--set {path}: there is a value in the middle of the path"
        ))
    };
    let mut place = body;
    for member in of.split('.').filter(|member| !member.is_empty()) {
        let members = place.as_object_mut().ok_or_else(in_the_middle)?;
        place = members
            .entry(member)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    let members = place.as_object_mut().ok_or_else(in_the_middle)?;
    members.insert(name.to_owned(), value);
    Ok(())
}

/// `ramp_s=60`.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (path, value) = text.split_once('=').ok_or("write it as SETTING=VALUE")?;
    // What is no JSON is a text: quotes are hard to write in a shell.
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok((path.to_owned(), value))
}

/// `a=10.0.0.1:8080,weight=10`: the name, its settings, and the port of its probes.
fn origin(text: &str) -> Result<(String, Value, Option<u16>), String> {
    let (name, rest) = text
        .split_once('=')
        .ok_or("write it as NAME=HOST, such as a=10.0.0.1:8080")?;
    let mut parts = rest.split(',');
    let place = parts.next().unwrap_or_default();
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let port = port.parse().map_err(|_| format!("{port} is no port"))?;
            (host, Some(port))
        }
        _ => (place, None),
    };
    let mut origin = json!({});
    if !host.is_empty() {
        origin["host"] = json!(host);
    }
    for part in parts {
        let (member, value) = setting(part)?;
        origin[member] = value;
    }
    Ok((name.to_owned(), origin, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_taken_apart() {
        for (text, expect) in [
            ("a=a.example", (json!({"host": "a.example"}), None)),
            ("a=10.0.0.1:8080", (json!({"host": "10.0.0.1"}), Some(8080))),
            ("a=[::1]:8080", (json!({"host": "[::1]"}), Some(8080))),
            ("a=::1", (json!({"host": "::1"}), None)),
            (
                "a=a.example,weight=10,host_header=b.example,enabled=false",
                (
                    json!({"host": "a.example", "weight": 10, "host_header": "b.example", "enabled": false}),
                    None,
                ),
            ),
            ("a=,weight=10", (json!({"weight": 10}), None)),
        ] {
            let (name, origin, port) = origin(text).unwrap();
            assert_eq!((name.as_str(), (origin, port)), ("a", expect), "{text}");
        }
        for text in ["a", "a=b:x", "a=b,weight"] {
            origin(text).unwrap_err();
        }
    }

    #[test]
    fn settings_have_paths() {
        let mut body = json!({});
        for text in [
            "ramp_s=60",
            "probe.method=GET",
            "probe.headers.X-Team=\"blue\"",
            "probe.expected_statuses=[204]",
        ] {
            let (path, value) = setting(text).unwrap();
            put(&mut body, &path, value).unwrap();
        }
        let expect = json!({
            "ramp_s": 60,
            "probe": {"method": "GET", "headers": {"X-Team": "blue"}, "expected_statuses": [204]},
        });
        assert_eq!(body, expect);
        assert!(put(&mut body, "ramp_s.x", json!(1)).is_err());
        let changes = Changes {
            remove_origin: vec!["a".to_owned()],
            enable_origin: vec!["b".to_owned()],
            disable_origin: vec!["c".to_owned()],
        };
        let mut body = json!({"origins": {"b": {"weight": 1}}});
        changes.add_to(&mut body);
        let expect =
            json!({"a": null, "b": {"weight": 1, "enabled": true}, "c": {"enabled": false}});
        assert_eq!(body["origins"], expect);
    }
}
