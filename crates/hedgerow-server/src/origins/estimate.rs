//! How many probes the origins of a group get (HP-085), and what is said of many (HP-088).

use std::time::Duration;

use hedgerow_core::spec::Warning;
use hedgerow_origin::settings::{Group, OriginSettings, Protocol};
use hedgerow_origin::target::{ProbeTarget, key_of_host};
use hedgerow_origin::volume::{Advice, Estimate, Load, Nodes, estimate};
use serde::Serialize;

/// A group that may probe the same origins.
#[derive(Debug, Clone, Copy)]
pub struct GroupLoad<'g> {
    /// The group.
    pub group: &'g Group,
    /// L: how much less it is probed, since nobody uses it (HP-082).
    pub idle_level: u32,
}

/// Probes to one origin of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OriginEstimate {
    /// The origin's name.
    pub name: String,
    /// How many, from whom, and what lowers it.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// The estimate for each enabled origin of a group, beside the other groups of the node: `nodes` of them, called `region`,
/// probe alike.
#[must_use]
pub fn estimate_of<'g>(
    group: GroupLoad<'g>,
    others: &[GroupLoad<'g>],
    nodes: u32,
    region: &str,
) -> Vec<OriginEstimate> {
    let nodes = [Nodes {
        label: region.to_owned(),
        count: nodes,
        unused_for: Duration::ZERO,
    }];
    let origins = group.group.settings().origins.iter();
    let enabled = origins.filter(|origin| origin.enabled);
    let estimates = enabled.map(|origin| {
        let protocol = group.group.settings().probe.protocol;
        let mut targets: Vec<ProbeTarget> = Vec::new();
        let mut loads = Vec::new();
        let mut has_get = false;
        let all = std::iter::once(&group).chain(others);
        for member in all.filter(|member| member.group.settings().probe.enabled) {
            let settings = member.group.settings();
            let same = settings.origins.iter();
            let same = same.filter(|other| other.enabled);
            for other in
                same.filter(|other| is_same(origin, protocol, other, settings.probe.protocol))
            {
                let target = ProbeTarget::of(member.group, other);
                has_get |= target.method == hedgerow_origin::settings::Method::Get;
                let stream = targets.iter().position(|known| *known == target);
                let stream = stream.unwrap_or_else(|| {
                    targets.push(target);
                    targets.len() - 1
                });
                let idle = settings.idle;
                loads.push(Load {
                    stream,
                    interval: member.group.interval(),
                    idle,
                    is_single_origin: member.group.is_single_origin(),
                    unused_for: Some(Duration::from_secs(
                        u64::from(idle.after_s) * u64::from(member.idle_level),
                    )),
                });
            }
        }
        OriginEstimate {
            name: origin.name.clone(),
            estimate: estimate(&loads, &nodes, has_get),
        }
    });
    estimates.collect()
}

/// Whether two origins of groups are one: the same host, at the same ports, or at the one that both are probed at.
fn is_same(
    origin: &OriginSettings,
    protocol: Protocol,
    other: &OriginSettings,
    of_other: Protocol,
) -> bool {
    let port = |of: &OriginSettings, protocol| match protocol {
        Protocol::Http => of.http_port,
        Protocol::Https => of.https_port,
    };
    let has_same_ports =
        (origin.http_port, origin.https_port) == (other.http_port, other.https_port);
    key_of_host(&origin.host) == key_of_host(&other.host)
        && (has_same_ports || port(origin, protocol) == port(other, of_other))
}

/// Where and what of the origins that get many probes.
#[must_use]
pub fn warnings(estimates: &[OriginEstimate]) -> Vec<Warning> {
    let many = estimates
        .iter()
        .filter(|one| !one.estimate.advice.is_empty());
    let warning = many.map(|one| {
        let advice = one.estimate.advice.iter().map(|advice| match advice {
            Advice::LongerInterval => "a longer probe.interval_s",
            Advice::Head => "HEAD as probe.method",
            Advice::FewerNodes => "fewer nodes that serve the group",
            Advice::SharedTarget => {
                "one target for all groups (the same protocol, path, method and host header)"
            }
        });
        let advice: Vec<_> = advice.collect();
        let probes = one.estimate.probes_per_minute;
        let message = format!(
            "gets {probes:.0} probes a minute, more than 60; what lowers it: {}",
            advice.join(", ")
        );
        Warning {
            field: format!("origins.{}", one.name),
            message,
        }
    });
    warning.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn group(interval: u32, more: &Value, ports: &[u32]) -> Group {
        let origins: Vec<_> = ports
            .iter()
            .map(|port| json!({"name": format!("o{port}"), "host": "a.example", "http_port": port}))
            .collect();
        let mut probe = json!({"interval_s": interval, "timeout_s": 5});
        let more = more.as_object().unwrap().clone();
        probe.as_object_mut().unwrap().extend(more);
        Group::read(&json!({"probe": probe, "origins": origins})).unwrap()
    }

    fn loaded(group: &Group) -> GroupLoad<'_> {
        GroupLoad {
            group,
            idle_level: 0,
        }
    }

    /// HP-085, HP-076: groups on one target make no more probes than one; another target to the same origin adds to it.
    #[test]
    fn streams_of_one_origin_add_up() {
        let first = group(30, &json!({}), &[80, 81]);
        let per_minute = |others: &[GroupLoad<'_>], nodes| {
            let estimates = estimate_of(loaded(&first), others, nodes, "west");
            let all = estimates.iter().map(|one| one.estimate.probes_per_minute);
            all.collect::<Vec<_>>()
        };
        assert_eq!(per_minute(&[], 1), [2.0, 2.0]);
        let shared = group(30, &json!({}), &[80, 82]);
        assert_eq!(per_minute(&[loaded(&shared)], 1), [2.0, 2.0]);
        let other = group(10, &json!({"path": "/other"}), &[80, 82]);
        assert_eq!(per_minute(&[loaded(&other)], 1), [8.0, 2.0]);
        assert_eq!(per_minute(&[loaded(&other)], 3), [24.0, 6.0]);
        // One that nobody uses is probed less.
        let idle = GroupLoad {
            group: &other,
            idle_level: 1,
        };
        assert_eq!(per_minute(&[idle], 1), [5.0, 2.0]);
    }

    /// HP-088: above 60 probes a minute, the reply says what lowers it.
    #[test]
    fn many_probes_are_warned_of() {
        let busy = group(5, &json!({"method": "GET"}), &[80, 81]);
        let warned = |nodes| warnings(&estimate_of(loaded(&busy), &[], nodes, ""));
        assert!(warned(5).is_empty());
        let warned = warned(6);
        assert_eq!(warned.len(), 2);
        let expect = "gets 72 probes a minute, more than 60; what lowers it: a longer probe.interval_s, HEAD as \
                      probe.method, fewer nodes that serve the group";
        assert_eq!(warned[0].field, "origins.o80");
        assert_eq!(warned[0].message, expect);
    }
}
