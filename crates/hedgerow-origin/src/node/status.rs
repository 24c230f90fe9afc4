//! What people see of a group on this node (HP-065, HP-106, HP-207).

use std::time::Duration;

use serde::Serialize;

use super::Node;
use super::origin::PERCENTAGE_SPAN;
use crate::outcome::{Observation, Parts, Reason, millis};
use crate::window::State;

/// A group as this node sees it. Times are of the clock that gives *now*, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupStatus {
    /// How a request would be served now: a [`Mode`](crate::snapshot::Mode).
    pub mode: &'static str,
    /// All enabled origins are unhealthy (HP-095).
    pub all_unhealthy: bool,
    /// Health changes no routing: one origin is enabled (HP-104).
    pub single_origin: bool,
    /// L (HP-082).
    pub idle_level: u32,
    /// Of the group itself; a shared stream may be faster.
    pub effective_interval_s: f64,
    /// (n − x + 1)·I + T with the effective interval.
    pub worst_detection_s: f64,
    /// x·I + T with the effective interval.
    pub worst_recovery_s: f64,
    /// The origins, in the order of the configuration.
    pub origins: Vec<OriginStatus>,
}

/// An origin of a group as this node sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(clippy::struct_excessive_bools)] // Each is shown by itself.
pub struct OriginStatus {
    /// Its name.
    pub name: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its state by its samples.
    pub state: State,
    /// The state may turn with few more samples.
    pub provisional: bool,
    /// Since when it has that state.
    pub since_ms: u64,
    /// Whether requests go to it now.
    pub kept: bool,
    /// The expected part of the requests, as "1/3"; none if it is not kept.
    pub share: Option<String>,
    /// It changes too often, and is held out (HP-195).
    pub held_out: bool,
    /// It asked not to be used (HP-198).
    pub draining: bool,
    /// k.
    pub successes: u8,
    /// s.
    pub samples: u8,
    /// n.
    pub sample_size: u8,
    /// x.
    pub required: u8,
    /// Its latency by HP-055.
    pub latency_us: Option<u64>,
    /// Why the newest sample failed, if it did.
    pub last_reason: Option<Reason>,
    /// The status of the newest sample, if one came.
    pub last_status: Option<u16>,
    /// The parts of the newest sample.
    pub last_parts: Parts,
    /// When it came.
    pub last_at_ms: Option<u64>,
    /// Good samples of the last minute, in per cent (HP-106).
    pub health_percentage_1m: Option<f64>,
    /// Good samples of the last five minutes, in per cent.
    pub health_percentage_5m: Option<f64>,
    /// What is probed; none while it is not probed.
    pub probe: Option<String>,
    /// The effective interval of its stream.
    pub effective_interval_s: Option<f64>,
    /// When the next probe is due.
    pub next_due_ms: Option<u64>,
    /// The groups on its stream.
    pub groups: Vec<String>,
    /// Ticks of its stream that were skipped (HP-027).
    pub skipped_ticks: u64,
    /// Probes of its stream that were no samples (HP-049).
    pub probe_aborted: u64,
}

impl Node {
    /// What people see of a group.
    #[must_use]
    pub fn status(&self, name: &str, now: Duration) -> Option<GroupStatus> {
        let entry = self.groups.get(name)?;
        let (group, snapshot) = (&entry.group, &entry.snapshot);
        let interval = entry.interval();
        let thresholds = group.thresholds();
        let shares = snapshot.shares();
        let kept = snapshot.kept();
        let origins = entry.origins.iter().zip(&group.settings().origins);
        let origins = origins.enumerate().map(|(place, (origin, settings))| {
            let judgement = origin.health.judgement();
            // What selections see: with probes off, it is healthy without samples (HP-102).
            let seen = snapshot.origins().get(place);
            let newest = origin.window.newest();
            let stream = origin.stream.and_then(|id| self.streams.get(&id));
            let share = shares.iter().find(|(kept, ..)| *kept == place);
            let mut groups: Vec<String> = stream
                .iter()
                .flat_map(|stream| &stream.members)
                .map(|(name, _)| name.to_string())
                .collect();
            groups.dedup();
            OriginStatus {
                name: origin.name.clone(),
                enabled: settings.enabled,
                state: seen.map_or_else(|| origin.health.state(), |seen| seen.state),
                provisional: judgement.is_provisional && group.settings().probe.enabled,
                since_ms: millis(origin.health.since()),
                kept: kept.is_ok_and(|kept| kept.places.contains(place)),
                share: share.map(|(_, of, sum)| match sum {
                    1 => of.to_string(),
                    sum => format!("{of}/{sum}"),
                }),
                held_out: origin.health.is_held_out(&origin.terms, now),
                draining: origin.is_draining,
                successes: judgement.successes,
                samples: judgement.samples,
                sample_size: thresholds.sample_size(),
                required: thresholds.required(),
                latency_us: judgement.latency_us,
                last_reason: judgement.newest.and_then(Result::err),
                last_status: newest.and_then(Observation::status),
                last_parts: newest.map(|newest| newest.parts).unwrap_or_default(),
                last_at_ms: newest.map(|newest| millis(newest.at)),
                health_percentage_1m: origin.percentage(Duration::from_secs(60), now),
                health_percentage_5m: origin.percentage(PERCENTAGE_SPAN, now),
                probe: stream.map(|stream| stream.target.to_string()),
                effective_interval_s: stream.map(|stream| stream.schedule.interval().as_secs_f64()),
                next_due_ms: stream.map(|stream| millis(stream.schedule.due())),
                groups,
                skipped_ticks: stream.map_or(0, |stream| stream.schedule.skipped()),
                probe_aborted: stream.map_or(0, |stream| stream.aborted),
            }
        });
        Some(GroupStatus {
            mode: kept.map_or("none", |kept| kept.mode.as_str()),
            all_unhealthy: snapshot.is_all_unhealthy(),
            single_origin: group.is_single_origin(),
            idle_level: entry.level,
            effective_interval_s: interval.as_secs_f64(),
            worst_detection_s: thresholds
                .worst_detection(interval, group.timeout())
                .as_secs_f64(),
            worst_recovery_s: thresholds
                .worst_recovery(interval, group.timeout())
                .as_secs_f64(),
            origins: origins.collect(),
        })
    }
}
