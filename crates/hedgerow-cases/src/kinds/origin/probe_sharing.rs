//! `probe_sharing`: which groups share probes, and how each judges them (HP-030, HP-070 to HP-074).

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_origin::health::{Health, Terms};
use hedgerow_origin::settings::{Group, GroupSettings, Method, OriginSettings, Protocol};
use hedgerow_origin::streams::{Member, Stream, streams};
use hedgerow_origin::window::Window;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{failure, success};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    groups: Vec<Declared>,
    outcomes: Option<Vec<Outcome>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    name: String,
    protocol: Option<String>,
    path: Option<String>,
    method: Option<String>,
    interval_s: Option<u32>,
    timeout_s: Option<u32>,
    #[serde(default)]
    idle_s: u64,
    #[serde(default = "yes")]
    probes_enabled: bool,
    sample_size: Option<u32>,
    successful_samples_required: Option<u32>,
    origins: Vec<Origin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    host: String,
    host_header: Option<String>,
    http_port: Option<u32>,
    https_port: Option<u32>,
    #[serde(default = "yes")]
    enabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    ok: bool,
    #[serde(default)]
    latency_ms: u64,
}

const fn yes() -> bool {
    true
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let groups: Vec<Group> = input
        .groups
        .iter()
        .map(declared)
        .collect::<Result<_, String>>()?;
    let members: Vec<Member<'_>> = groups
        .iter()
        .zip(&input.groups)
        .map(|(group, declared)| Member {
            group,
            unused_for: Duration::from_secs(declared.idle_s),
        })
        .collect();
    let named = |stream: &Stream| {
        let mut names: Vec<&str> = stream
            .members
            .iter()
            .map(|(group, _)| input.groups[*group].name.as_str())
            .collect();
        names.dedup();
        json!({
            "method": stream.target.method.as_str(),
            "url": stream.target.url(),
            "host_header": stream.target.host_header,
            "interval_s": stream.shared.interval.as_secs_f64(),
            "timeout_s": stream.shared.demands.timeout.as_secs_f64(),
            "groups": names,
        })
    };
    let streams = streams(&members);
    let listed: Vec<Value> = streams.iter().map(named).collect();
    let mut result = json!({ "streams": listed });
    if let Some(outcomes) = &input.outcomes {
        let is_shared = |stream: &&Stream| stream.members.len() == groups.len();
        let shared = streams.iter().find(is_shared);
        let shared = shared.ok_or("no stream is shared by all groups")?;
        result["states"] = states(&input, &groups, shared, outcomes);
    }
    Ok(Run::result(result))
}

fn declared(declared: &Declared) -> Result<Group, String> {
    let mut settings = GroupSettings::default();
    let probe = &mut settings.probe;
    probe.enabled = declared.probes_enabled;
    probe.protocol = match declared.protocol.as_deref() {
        None => probe.protocol,
        Some("http") => Protocol::Http,
        Some("https") => Protocol::Https,
        Some(other) => return Err(format!("unknown protocol {other}")),
    };
    probe.method = match declared.method.as_deref() {
        None => probe.method,
        Some("HEAD") => Method::Head,
        Some("GET") => Method::Get,
        Some(other) => return Err(format!("unknown method {other}")),
    };
    probe.interval_s = declared.interval_s.unwrap_or(probe.interval_s);
    probe.timeout_s = declared.timeout_s.unwrap_or(probe.timeout_s);
    if let Some(path) = &declared.path {
        probe.path.clone_from(path);
    }
    let load_balancing = &mut settings.load_balancing;
    load_balancing.sample_size = declared.sample_size.unwrap_or(load_balancing.sample_size);
    load_balancing.successful_samples_required = declared.successful_samples_required;
    for (origin, number) in declared.origins.iter().zip(1..) {
        let mut read = OriginSettings::new(format!("origin-{number}"), &origin.host);
        read.enabled = origin.enabled;
        read.http_port = origin.http_port.unwrap_or(read.http_port);
        read.https_port = origin.https_port.unwrap_or(read.https_port);
        if let Some(host_header) = &origin.host_header {
            read.host_header.clone_from(host_header);
        }
        settings.origins.push(read);
    }
    Group::new(settings).map_err(|refusal| format!("{}: {refusal}", declared.name))
}

/// The state of the shared origin in each group after each outcome.
fn states(input: &Input, groups: &[Group], stream: &Stream, outcomes: &[Outcome]) -> Value {
    let mut states: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, place) in &stream.members {
        let (name, group) = (input.groups[*group].name.as_str(), &groups[*group]);
        let terms = Terms::of(group, &group.settings().origins[*place]);
        let mut window = Window::new(group.thresholds());
        let mut health = Health::new(Duration::ZERO);
        for outcome in outcomes {
            window.push(if outcome.ok {
                success(outcome.latency_ms * 1_000)
            } else {
                failure()
            });
            health.judge(&window, &terms, Duration::ZERO);
            states
                .entry(name)
                .or_default()
                .push(health.state().as_str());
        }
    }
    json!(states)
}
