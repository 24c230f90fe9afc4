//! How many probes an origin gets, before anybody turns it on (HP-085, HP-088).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::interval::IdleSettings;
use crate::limits;

/// A group that probes the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Which stream it feeds from: groups with equal numbers share one (HP-070).
    pub stream: usize,
    /// I.
    pub interval: Duration,
    /// When it is probed less.
    pub idle: IdleSettings,
    /// Whether the origin is the only enabled one of the group (HP-103).
    pub is_single_origin: bool,
    /// How long the group has not been used, where that is the same on all nodes.
    pub unused_for: Option<Duration>,
}

/// Nodes that probe alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// A free text, such as their region.
    pub label: String,
    /// How many they are.
    pub count: u32,
    /// How long they have not used the groups.
    pub unused_for: Duration,
}

/// What nodes that probe alike contribute.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// Their label.
    pub label: String,
    /// How many they are.
    pub count: u32,
    /// The idle level of the group that probes most, 0 when there is none (HP-082).
    pub idle_level: u32,
    /// Probes a minute of each.
    pub per_node_per_minute: f64,
}

/// What lowers the volume (HP-088).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// `probe.interval_s` can be longer.
    LongerInterval,
    /// `HEAD` costs the origin less than `GET`.
    Head,
    /// Fewer nodes can serve the group.
    FewerNodes,
    /// The groups can probe one target: the same protocol, path, method and host header.
    SharedTarget,
}

/// Probes to one origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// What each kind of node contributes, in the order given.
    pub nodes: Vec<Share>,
    /// The sum.
    pub probes_per_minute: f64,
    /// The sum of a day.
    pub probes_per_day: f64,
    /// What lowers it, if the sum is above 60 a minute; empty if it is not.
    pub advice: Vec<Advice>,
}

/// Σ over nodes Σ over streams of 60 / effective interval (HP-085). `has_get` says whether any of the groups probes with
/// `GET`.
#[must_use]
pub fn estimate(loads: &[Load], nodes: &[Nodes], has_get: bool) -> Estimate {
    let shares: Vec<Share> = nodes.iter().map(|nodes| share(loads, nodes)).collect();
    let probes_per_minute = shares
        .iter()
        .map(|share| f64::from(share.count) * share.per_node_per_minute)
        .sum();
    let is_much = probes_per_minute > limits::VOLUME_WARNED_PER_MINUTE;
    let nodes_in_all: u64 = nodes.iter().map(|nodes| u64::from(nodes.count)).sum();
    let shortest = loads.iter().map(|load| load.interval).min();
    let longest_possible = Duration::from_secs((*limits::INTERVAL_S.end()).into());
    let first_stream = loads.first().map(|load| load.stream);
    let advice = [
        (
            Advice::LongerInterval,
            shortest.is_some_and(|interval| interval < longest_possible),
        ),
        (Advice::Head, has_get),
        (Advice::FewerNodes, nodes_in_all > 1),
        (
            Advice::SharedTarget,
            loads.iter().any(|load| Some(load.stream) != first_stream),
        ),
    ];
    Estimate {
        nodes: shares,
        probes_per_minute,
        probes_per_day: probes_per_minute * 24.0 * 60.0,
        advice: advice
            .into_iter()
            .filter_map(|(advice, applies)| (is_much && applies).then_some(advice))
            .collect(),
    }
}

fn share(loads: &[Load], nodes: &Nodes) -> Share {
    // The lowest effective interval of each stream, with the idle level that it has.
    let mut streams: BTreeMap<usize, (Duration, u32)> = BTreeMap::new();
    for load in loads {
        let level = load.idle.level(load.unused_for.unwrap_or(nodes.unused_for));
        let interval = load
            .idle
            .effective_interval(load.interval, level, load.is_single_origin);
        let lowest = streams.entry(load.stream).or_insert((interval, level));
        *lowest = (*lowest).min((interval, level));
    }
    let rates = streams.values().map(|(interval, _)| match interval {
        interval if interval.is_zero() => 0.0,
        interval => 60.0 / interval.as_secs_f64(),
    });
    Share {
        label: nodes.label.clone(),
        count: nodes.count,
        idle_level: streams.values().min().map_or(0, |(_, level)| *level),
        per_node_per_minute: rates.sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(stream: usize, seconds: u64) -> Load {
        Load {
            stream,
            interval: Duration::from_secs(seconds),
            idle: IdleSettings::default(),
            is_single_origin: false,
            unused_for: None,
        }
    }

    fn nodes(count: u32) -> Nodes {
        Nodes {
            label: "west".to_owned(),
            count,
            unused_for: Duration::ZERO,
        }
    }

    /// HP-088: above 60 probes a minute it says what helps, and nothing that would not.
    #[test]
    fn much_volume_comes_with_advice() {
        let rows: [(&[Load], u32, bool, &[Advice]); 5] = [
            (&[load(0, 30)], 30, true, &[]),
            (
                &[load(0, 30)],
                31,
                false,
                &[Advice::LongerInterval, Advice::FewerNodes],
            ),
            (
                &[load(0, 255)],
                256,
                true,
                &[Advice::Head, Advice::FewerNodes],
            ),
            (
                &[load(0, 5), load(1, 5)],
                3,
                false,
                &[
                    Advice::LongerInterval,
                    Advice::FewerNodes,
                    Advice::SharedTarget,
                ],
            ),
            (&[], 1_000, false, &[]),
        ];
        for (loads, count, has_get, expect) in rows {
            let estimate = estimate(loads, &[nodes(count)], has_get);
            assert_eq!(estimate.advice, expect, "{loads:?}");
        }
    }

    /// HP-088: each kind of node is listed with its label, its idle level and its share.
    #[test]
    fn each_node_is_listed() {
        let idle = Nodes {
            label: "east".to_owned(),
            count: 2,
            unused_for: Duration::from_secs(900),
        };
        let estimate = estimate(&[load(0, 30)], &[nodes(1), idle], false);
        let listed: Vec<_> = estimate
            .nodes
            .iter()
            .map(|share| (share.label.as_str(), share.idle_level))
            .collect();
        assert_eq!(listed, [("west", 0), ("east", 3)]);
        assert!((estimate.probes_per_minute - 2.5).abs() < 1e-9);
    }
}
