//! How a group is doing, for people: a few lines, a table of its origins, and what changed lately.

use std::time::Duration;

use hedgerow_core::name::OriginGroupName;
use hedgerow_core::time::Timestamp;
use http::Method;
use serde_json::{Value, json};

use super::path;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format, printable};

/// How often changes are asked for: a change is seen well before anybody wonders.
const ASK_EVERY: Duration = Duration::from_millis(500);

const ORIGINS: [Column; 10] = [
    ("ORIGIN", "/origin"),
    ("STATE", "/state"),
    ("SINCE", "/since"),
    ("SHARE", "/share"),
    ("GOOD", "/good"),
    ("LATENCY", "/latency"),
    ("1 MIN", "/minute"),
    ("5 MIN", "/minutes"),
    ("LAST PROBE", "/last"),
    ("NEXT", "/next"),
];

/// Shows a group. Gives the number of the newest change.
pub async fn show(client: &Client, name: &OriginGroupName, format: Format) -> Result<u64, Failure> {
    let group = client.admin(Method::GET, &path(name), None).await?.body;
    let status = format!("{}/status", path(name));
    let told = client.admin(Method::GET, &status, None).await?.body;
    let newest = newest_of(&told, 0);
    if format == Format::Json {
        output::json(&json!({ "group": group, "status": told }));
        return Ok(newest);
    }
    output::line(&printable(&headline(&told)));
    for line in settings(&group, &told) {
        output::line(&printable(&line));
    }
    output::line("");
    let now = Timestamp::from_millis(now_ms());
    let origins = told["status"]["origins"].as_array();
    let rows: Vec<Value> = origins
        .into_iter()
        .flatten()
        .map(|origin| row(origin, now))
        .collect();
    for line in output::table(&rows, &ORIGINS) {
        output::line(&line);
    }
    let recent = told["recent"]
        .as_array()
        .filter(|recent| !recent.is_empty());
    if let Some(recent) = recent {
        output::line("");
        for change in recent {
            output::line(&printable(&change_line(change)));
        }
    }
    Ok(newest)
}

/// Prints each change as it happens, until nobody reads any more or the server does not answer.
pub async fn follow(
    client: &Client,
    name: &OriginGroupName,
    mut newest: u64,
    format: Format,
) -> Result<(), Failure> {
    loop {
        let path = format!("{}/status?after={newest}", path(name));
        let told = client.admin(Method::GET, &path, None).await?.body;
        for change in told["recent"].as_array().into_iter().flatten() {
            let line = match format {
                Format::Json => change.to_string(),
                Format::Table => printable(&change_line(change)),
            };
            if output::try_line(&line).is_err() {
                return Ok(());
            }
        }
        newest = newest_of(&told, newest);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn newest_of(told: &Value, newest: u64) -> u64 {
    let last = told["recent"].as_array().and_then(|recent| recent.last());
    last.and_then(|last| last["number"].as_u64())
        .unwrap_or(newest)
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// What the group does with requests now.
fn headline(told: &Value) -> String {
    let name = told["name"].as_str().unwrap_or_default();
    let status = &told["status"];
    let origins = status["origins"].as_array();
    let enabled = origins
        .into_iter()
        .flatten()
        .filter(|origin| origin["enabled"] == true);
    let (mut all, mut healthy) = (0, 0);
    for origin in enabled {
        all += 1;
        healthy += usize::from(origin["state"] == "healthy");
    }
    let open = told["fail_open"].as_str().unwrap_or_default();
    let what = match (status["mode"].as_str(), status["all_unhealthy"] == true) {
        (None, _) => "not looked at yet".to_owned(),
        (_, true) => match open {
            "none" => "all unhealthy, and nothing is sent".to_owned(),
            "top_priority" => "all unhealthy, failing open to the first priority".to_owned(),
            _ => "all unhealthy, failing open".to_owned(),
        },
        (Some("single"), _) => "one origin, which gets everything whatever its health".to_owned(),
        (Some("unknown_tier"), _) => "no origin is known to be healthy yet".to_owned(),
        (Some("none"), _) => "no origin can be used".to_owned(),
        (Some(_), false) => format!("{healthy} of {all} origins healthy"),
    };
    format!("origin group {name}: {what}")
}

fn settings(group: &Value, told: &Value) -> Vec<String> {
    let text = |pointer: &str| match group.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    };
    let seconds = |name: &str| {
        let seconds = told["status"][name].as_f64();
        seconds.map_or("-".to_owned(), |seconds| format!("{seconds} s"))
    };
    let mut lines = Vec::new();
    if group.pointer("/probe/enabled") == Some(&Value::Bool(false)) {
        lines.push("  probes     none".to_owned());
    } else {
        lines.push(format!(
            "  probes     {} {} over {}, every {} s, at most {} s; {} of {} have to be good",
            text("/probe/method"),
            text("/probe/path"),
            text("/probe/protocol"),
            text("/probe/interval_s"),
            text("/probe/timeout_s"),
            text("/load_balancing/successful_samples_required"),
            text("/load_balancing/sample_size"),
        ));
        lines.push(format!(
            "  detection  {} at worst until a failing origin is out, {} until one that is well is back",
            seconds("worst_detection_s"),
            seconds("worst_recovery_s"),
        ));
    }
    let level = told["status"]["idle_level"].as_u64().unwrap_or(0);
    if level > 0 {
        let every = seconds("effective_interval_s");
        lines.push(format!(
            "  idle       nobody uses it: probes every {every} only"
        ));
    }
    let users = told["used_by"].as_array().into_iter().flatten();
    let users: Vec<_> = users.filter_map(Value::as_str).collect();
    if !users.is_empty() {
        lines.push(format!("  used by    {}", users.join(", ")));
    }
    lines
}

fn row(origin: &Value, now: Timestamp) -> Value {
    let is = |name: &str| origin[name] == true;
    let state = origin["state"].as_str().unwrap_or_default();
    // Of one that is disabled nothing else matters.
    let is_enabled = is("enabled");
    let mut words = vec![if is_enabled { state } else { "disabled" }];
    let marks = [
        ("provisional", "provisional"),
        ("held_out", "held out"),
        ("draining", "draining"),
    ];
    words.extend(
        marks
            .into_iter()
            .filter(|(name, _)| is_enabled && is(name))
            .map(|(_, word)| word),
    );
    let percentage = |name: &str| {
        let part = origin[name].as_f64();
        part.map_or(Value::Null, |part| json!(format!("{part:.0} %")))
    };
    let latency = origin["latency_us"].as_u64();
    let last = match (
        origin["last_reason"].as_str(),
        origin["last_status"].as_u64(),
    ) {
        (Some("status"), Some(status)) => json!(format!("status {status}")),
        (Some(reason), _) => json!(reason),
        (None, Some(status)) => json!(status.to_string()),
        (None, None) => Value::Null,
    };
    let next = origin["next_due_ms"].as_u64();
    let until = |ms: u64| {
        let left = Duration::from_millis(ms.saturating_sub(now.as_millis()));
        format!("in {} s", left.as_secs())
    };
    json!({
        "origin": origin["name"],
        "state": words.join(", "),
        "since": origin["since_ms"].as_u64().map(time),
        "share": origin["share"],
        "good": format!("{} of {}", origin["successes"], origin["samples"]),
        "latency": latency.map(milliseconds),
        "minute": percentage("health_percentage_1m"),
        "minutes": percentage("health_percentage_5m"),
        "last": last,
        "next": next.map(until),
    })
}

/// To the second, as people compare it with a clock.
fn time(ms: u64) -> String {
    let seconds = Timestamp::from_millis(ms / 1_000 * 1_000);
    let text = seconds.to_string();
    let clock = text
        .split_once('T')
        .map_or(text.as_str(), |(_, clock)| clock);
    clock
        .split(['.', 'Z'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

pub fn milliseconds(micros: u64) -> String {
    format!("{:.1} ms", micros as f64 / 1_000.0)
}

/// A change in a line.
fn change_line(change: &Value) -> String {
    let text = |name: &str| change[name].as_str().unwrap_or_default();
    let at = Timestamp::from_millis(change["at_ms"].as_u64().unwrap_or(0));
    let what = match text("change") {
        "state" => {
            let reason = match (text("reason"), change["status"].as_u64()) {
                ("", _) => String::new(),
                ("status", Some(status)) => format!(": status {status}"),
                (reason, _) => format!(": {reason}"),
            };
            format!(
                "{} -> {}{reason} ({} of {} good, {} of {} needed)",
                text("from"),
                text("to"),
                change["successes"],
                change["samples"],
                change["required"],
                change["sample_size"],
            )
        }
        "all_unhealthy_entered" => "all unhealthy".to_owned(),
        "all_unhealthy_left" => "no longer all unhealthy".to_owned(),
        "draining_began" => "asked not to be used".to_owned(),
        "draining_ended" => "may be used again, by its own word".to_owned(),
        "disabled" => "disabled".to_owned(),
        "enabled" => "enabled".to_owned(),
        "added" => "added".to_owned(),
        "removed" => "removed".to_owned(),
        "reconfigured" => "settings changed".to_owned(),
        other => other.to_owned(),
    };
    match text("origin") {
        "" => format!("{at}  {what}"),
        origin => format!("{at}  {origin}: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FC-23, FC-24: in words, with the reason and the status.
    #[test]
    fn changes_read_as_sentences() {
        for (change, expect) in [
            (
                json!({"origin": "b", "change": "state", "from": "healthy", "to": "unhealthy", "reason": "status",
                       "status": 302, "successes": 1, "samples": 4, "sample_size": 4, "required": 3}),
                "b: healthy -> unhealthy: status 302 (1 of 4 good, 3 of 4 needed)",
            ),
            (
                json!({"origin": "b", "change": "state", "from": "healthy", "to": "unhealthy",
                       "reason": "connect_refused", "status": null, "successes": 1, "samples": 4, "sample_size": 4,
                       "required": 3}),
                "b: healthy -> unhealthy: connect_refused (1 of 4 good, 3 of 4 needed)",
            ),
            (json!({"change": "all_unhealthy_entered"}), "all unhealthy"),
            (json!({"origin": "c", "change": "disabled"}), "c: disabled"),
        ] {
            let line = change_line(&change);
            assert_eq!(line.split_once("  ").unwrap().1, expect);
        }
    }

    #[test]
    fn of_a_disabled_origin_nothing_else_matters() {
        let origin = |enabled: bool| {
            let origin =
                json!({"name": "a", "enabled": enabled, "state": "unknown", "provisional": true});
            row(&origin, Timestamp::from_millis(0))["state"].clone()
        };
        assert_eq!(origin(true), "unknown, provisional");
        assert_eq!(origin(false), "disabled");
    }

    /// FC-23: what happens to requests is said, and how many are healthy otherwise.
    #[test]
    fn the_headline_says_what_happens() {
        let told = |mode: &str, all: bool, open: &str| {
            json!({"name": "shop", "fail_open": open, "status": {"mode": mode, "all_unhealthy": all, "origins": [
                {"enabled": true, "state": "healthy"}, {"enabled": true, "state": "unhealthy"},
                {"enabled": false, "state": "unknown"},
            ]}})
        };
        for (told, expect) in [
            (told("normal", false, "all"), "1 of 2 origins healthy"),
            (
                told("fail_open", true, "all"),
                "all unhealthy, failing open",
            ),
            (
                told("none", true, "none"),
                "all unhealthy, and nothing is sent",
            ),
            (json!({"name": "shop", "status": null}), "not looked at yet"),
        ] {
            assert_eq!(headline(&told), format!("origin group shop: {expect}"));
        }
    }
}
