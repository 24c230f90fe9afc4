//! `volume_estimate`: how many probes an origin gets (HP-085).

use std::time::Duration;

use hedgerow_origin::interval::IdleSettings;
use hedgerow_origin::volume::{Load, Nodes, estimate};
use serde::Deserialize;
use serde_json::json;

use super::rounded;
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    groups: Vec<Group>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(default = "thirty")]
    interval_s: u64,
    /// Equal names share one; a group without a name has its own.
    stream: Option<String>,
    #[serde(default = "two")]
    enabled_origins: usize,
    idle_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    idle_s: u64,
}

const fn thirty() -> u64 {
    30
}

const fn two() -> usize {
    2
}

const fn one() -> u32 {
    1
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let groups = &input.groups;
    let stream = |index: usize| {
        let name = groups[index].stream.as_ref();
        let named = name.and_then(|name| {
            let mut groups = groups.iter();
            groups.position(|group| group.stream.as_ref() == Some(name))
        });
        named.unwrap_or(index)
    };
    let loads: Vec<Load> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| Load {
            stream: stream(index),
            interval: Duration::from_secs(group.interval_s),
            idle: IdleSettings::default(),
            is_single_origin: group.enabled_origins == 1,
            unused_for: group.idle_s.map(Duration::from_secs),
        })
        .collect();
    let nodes: Vec<Nodes> = input
        .nodes
        .iter()
        .map(|node| Nodes {
            label: String::new(),
            count: node.count,
            unused_for: Duration::from_secs(node.idle_s),
        })
        .collect();
    let estimate = estimate(&loads, &nodes, false);
    let shares = estimate.nodes.iter();
    let per_node: Vec<f64> = shares
        .map(|share| rounded(share.per_node_per_minute))
        .collect();
    Ok(Run::result(json!({
        "per_node_per_minute": per_node,
        "probes_per_minute": rounded(estimate.probes_per_minute),
        "probes_per_day": rounded(estimate.probes_per_day),
    })))
}
