//! What happened to origin groups, for people: the newest changes of each, what was counted, and log records. The prober tells
//! it; nothing here waits, and all of it is gone with the process.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_delivery::metrics::{Histogram, HistogramSnapshot};
use hedgerow_origin::node::Event;
use hedgerow_origin::outcome::{Met, Observation, Reason};
use hedgerow_origin::settings::Group;
use hedgerow_origin::window::State;
use hedgerow_prober::service::{AbortedProbe, Observer, Probed};
use serde::Serialize;
use tokio::time::Instant;

/// Changes of a group that are kept: the story of an incident, and no more than fits on two screens.
const RECENT_MAX: usize = 50;
/// Between two log records of one origin and reason. Source: HP-209.
const REPEATS_EVERY: Duration = Duration::from_secs(60);
/// Origins and reasons whose repeats are counted at a time; of one more every failure is logged.
const REPEATED_MAX: usize = 65_536;
/// Upper bounds of the time that a probe takes, in seconds: `probe.timeout_s` is at most the last.
const PROBE_SECONDS: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
];
/// The result of a probe that is a success.
const SUCCESS: &str = "success";

/// Something that changed in a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recent {
    /// Counts the changes of all groups since the process began; those that follow one have higher numbers.
    pub number: u64,
    /// When, since 1970 in milliseconds.
    pub at_ms: u64,
    /// What it is about; the group where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum What {
    /// An origin's state is another (HP-067).
    State {
        /// Before.
        from: State,
        /// Now.
        to: State,
        /// k.
        successes: u8,
        /// s.
        samples: u8,
        /// n.
        sample_size: u8,
        /// x.
        required: u8,
        /// Why the newest sample failed, if it did.
        reason: Option<Reason>,
        /// The status of the newest answer, if one came.
        status: Option<u16>,
    },
    /// All enabled origins are unhealthy now (HP-095).
    AllUnhealthyEntered,
    /// They no longer are.
    AllUnhealthyLeft,
    /// An origin asked not to be used (HP-198).
    DrainingBegan,
    /// It no longer does.
    DrainingEnded,
    /// An origin was disabled by somebody.
    Disabled,
    /// It was enabled again.
    Enabled,
    /// An origin was added to the group.
    Added,
    /// It was taken out.
    Removed,
    /// The group's settings are others.
    Reconfigured,
}

/// What was counted of one origin in one group.
#[derive(Debug, Clone, Default)]
pub struct OriginCounts {
    /// Probes by result: `success`, or the reason of the failure.
    pub probes: BTreeMap<&'static str, u64>,
    /// Probes that were no samples (HP-049).
    pub aborted: u64,
    /// Changes of the state.
    pub changes: BTreeMap<(&'static str, &'static str), u64>,
    /// How long it had which state.
    pub in_state: BTreeMap<&'static str, Duration>,
    /// How long its probes took.
    pub seconds: Option<HistogramSnapshot>,
}

struct OriginStory {
    counts: OriginCounts,
    seconds: Histogram,
    state: State,
    since: Instant,
    last_status: Option<u16>,
}

impl OriginStory {
    fn new() -> Self {
        Self {
            counts: OriginCounts::default(),
            seconds: Histogram::new(PROBE_SECONDS),
            state: State::Unknown,
            since: Instant::now(),
            last_status: None,
        }
    }

    /// Adds up the time since it was last added up.
    fn pass(&mut self) {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.since);
        *self.counts.in_state.entry(self.state.as_str()).or_default() += passed;
        self.since = now;
    }
}

#[derive(Default)]
struct GroupStory {
    settings: Option<Group>,
    recent: VecDeque<Recent>,
    origins: BTreeMap<String, OriginStory>,
    all_unhealthy_entered: u64,
    is_all_unhealthy: bool,
}

/// Failures of one origin for one reason since the last log record.
struct Repeats {
    logged: Instant,
    count: u64,
}

#[derive(Default)]
struct Stories {
    groups: BTreeMap<String, GroupStory>,
    repeated: HashMap<(String, Reason), Repeats>,
    numbered: u64,
    budget_delay: Duration,
    delayed: u64,
}

/// What was counted of a group.
#[derive(Debug, Clone, Default)]
pub struct GroupCounts {
    /// By origin, those that are declared.
    pub origins: BTreeMap<String, OriginCounts>,
    /// How often all enabled origins became unhealthy.
    pub all_unhealthy_entered: u64,
    /// Whether they are now.
    pub is_all_unhealthy: bool,
}

/// What was counted of all groups.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// By group.
    pub groups: BTreeMap<String, GroupCounts>,
    /// How long probes waited for the budget, in all (HP-190).
    pub budget_delay: Duration,
    /// How many probes did.
    pub delayed: u64,
}

/// What happened. Shared by the prober, which tells it, and whoever shows it.
pub struct Story {
    region: String,
    /// Held for moments, and never across an await.
    stories: Mutex<Stories>,
    /// Says the server's time in milliseconds since 1970.
    time: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Story {
    pub fn new(region: String, time: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            region,
            stories: Mutex::default(),
            time: Box::new(time),
        }
    }

    /// The newest changes of a group, the oldest first, behind the one with this number.
    pub fn recent(&self, group: &str, after: u64) -> Vec<Recent> {
        let stories = self.lock();
        let recent = stories.groups.get(group).map(|group| &group.recent);
        let recent = recent.into_iter().flatten();
        recent.filter(|one| one.number > after).cloned().collect()
    }

    /// What was counted until now.
    pub fn counts(&self) -> Counts {
        let mut stories = self.lock();
        let (budget_delay, delayed) = (stories.budget_delay, stories.delayed);
        let groups = stories.groups.iter_mut().map(|(name, group)| {
            let origins = group.origins.iter_mut().map(|(name, origin)| {
                origin.pass();
                let mut counts = origin.counts.clone();
                counts.seconds = Some(origin.seconds.snapshot());
                (name.clone(), counts)
            });
            let counts = GroupCounts {
                origins: origins.collect(),
                all_unhealthy_entered: group.all_unhealthy_entered,
                is_all_unhealthy: group.is_all_unhealthy,
            };
            (name.clone(), counts)
        });
        Counts {
            groups: groups.collect(),
            budget_delay,
            delayed,
        }
    }

    /// A group was declared, or declared anew; says what is other than before.
    pub fn declared(&self, name: &str, group: &Group) {
        let at_ms = (self.time)();
        let mut stories = self.lock();
        let story = stories.groups.entry(name.to_owned()).or_default();
        let before = story.settings.replace(group.clone());
        let origins = &group.settings().origins;
        story
            .origins
            .retain(|name, _| origins.iter().any(|origin| origin.name == *name));
        for origin in origins {
            let story = story.origins.entry(origin.name.clone());
            story.or_insert_with(OriginStory::new);
        }
        let Some(before) = before else { return };
        let mut changes: Vec<(Option<String>, What)> = Vec::new();
        let former = &before.settings().origins;
        for origin in origins {
            let known = former.iter().find(|known| known.name == origin.name);
            let what = match known {
                None => What::Added,
                Some(known) if known.enabled && !origin.enabled => What::Disabled,
                Some(known) if !known.enabled && origin.enabled => What::Enabled,
                Some(_) => continue,
            };
            changes.push((Some(origin.name.clone()), what));
        }
        for origin in former {
            if !origins.iter().any(|known| known.name == origin.name) {
                changes.push((Some(origin.name.clone()), What::Removed));
            }
        }
        if changes.is_empty() {
            changes.push((None, What::Reconfigured));
        }
        for (origin, what) in changes {
            tracing::info!(
                group = name,
                origin = origin.as_deref().unwrap_or_default(),
                change = what.as_str(),
                "origin group changed"
            );
            stories.add(name, at_ms, origin, what);
        }
    }

    /// A group is gone.
    pub fn forget(&self, name: &str) {
        let mut stories = self.lock();
        stories.groups.remove(name);
        let old = Instant::now().checked_sub(REPEATS_EVERY);
        stories
            .repeated
            .retain(|_, repeats| old.is_none_or(|old| repeats.logged > old));
    }

    /// A poisoned lock is used as it is: counts are whole at every moment.
    fn lock(&self) -> MutexGuard<'_, Stories> {
        self.stories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// HP-209: one record a minute for each origin and reason, with how many others there were.
    fn log_failure(&self, probed: &Probed<'_>, reason: Reason, stories: &mut Stories) {
        let url = probed.target.url();
        let now = Instant::now();
        let key = (url, reason);
        let Some(suppressed) = note_repeat(&mut stories.repeated, &key, now) else {
            return;
        };
        let Observation {
            elapsed_us, parts, ..
        } = *probed.observation;
        let of = probed
            .fed
            .iter()
            .map(|fed| format!("{}/{}", fed.group, fed.origin));
        let of: Vec<_> = of.collect();
        tracing::warn!(
            probe = probed.id,
            method = probed.target.method.as_str(),
            result = reason.as_str(),
            status = status_of(probed.observation),
            url = key.0,
            origin = of.join(","),
            address = probed.peer.map(|peer: SocketAddr| peer.to_string()),
            node = self.region,
            latency_us = parts.total_us.unwrap_or(elapsed_us),
            dns_us = parts.dns_us,
            connect_us = parts.connect_us,
            tls_us = parts.tls_us,
            first_byte_us = parts.first_byte_us,
            suppressed,
            "a probe failed"
        );
    }
}

impl Stories {
    fn add(&mut self, group: &str, at_ms: u64, origin: Option<String>, what: What) {
        self.numbered += 1;
        let Some(story) = self.groups.get_mut(group) else {
            return;
        };
        if story.recent.len() >= RECENT_MAX {
            story.recent.pop_front();
        }
        story.recent.push_back(Recent {
            number: self.numbered,
            at_ms,
            origin,
            what,
        });
    }
}

impl What {
    /// Its name in the interface.
    const fn as_str(&self) -> &'static str {
        match self {
            Self::State { .. } => "state",
            Self::AllUnhealthyEntered => "all_unhealthy_entered",
            Self::AllUnhealthyLeft => "all_unhealthy_left",
            Self::DrainingBegan => "draining_began",
            Self::DrainingEnded => "draining_ended",
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Reconfigured => "reconfigured",
        }
    }
}

/// Whether a failure is logged now: then how many others there were since it was logged last.
fn note_repeat(
    repeated: &mut HashMap<(String, Reason), Repeats>,
    key: &(String, Reason),
    now: Instant,
) -> Option<u64> {
    match repeated.get_mut(key) {
        Some(repeats) if now.saturating_duration_since(repeats.logged) < REPEATS_EVERY => {
            repeats.count += 1;
            None
        }
        Some(repeats) => {
            repeats.logged = now;
            Some(std::mem::take(&mut repeats.count))
        }
        None => {
            if repeated.len() < REPEATED_MAX {
                let repeats = Repeats {
                    logged: now,
                    count: 0,
                };
                repeated.insert(key.clone(), repeats);
            }
            Some(0)
        }
    }
}

fn status_of(observation: &Observation) -> Option<u16> {
    match observation.met {
        Met::Response(response) => Some(response.status),
        Met::Failure(_) => None,
    }
}

impl Observer for Story {
    fn probed(&self, probed: &Probed<'_>) {
        let mut stories = self.lock();
        if !probed.delayed.is_zero() {
            stories.budget_delay += probed.delayed;
            stories.delayed += 1;
        }
        let mut failed = None;
        for fed in probed.fed {
            let group = stories.groups.get_mut(fed.group);
            let Some(origin) = group.and_then(|group| group.origins.get_mut(fed.origin)) else {
                continue;
            };
            let result = match fed.newest {
                Some(Err(reason)) => {
                    failed = Some(reason);
                    reason.as_str()
                }
                Some(Ok(_)) => SUCCESS,
                None => continue,
            };
            *origin.counts.probes.entry(result).or_default() += 1;
            origin.last_status = status_of(probed.observation);
            let micros = probed.observation.elapsed_us;
            origin.seconds.observe(micros as f64 / 1e6);
        }
        if let Some(reason) = failed {
            self.log_failure(probed, reason, &mut stories);
        }
    }

    fn aborted(&self, aborted: &AbortedProbe<'_>) {
        let mut stories = self.lock();
        for fed in aborted.fed {
            let group = stories.groups.get_mut(fed.group);
            if let Some(origin) = group.and_then(|group| group.origins.get_mut(fed.origin)) {
                origin.counts.aborted += 1;
            }
        }
        drop(stories);
        tracing::debug!(
            probe = aborted.id,
            url = aborted.target.url(),
            why = aborted.why,
            "a probe was no sample"
        );
    }

    fn happened(&self, event: &Event, now: Duration) {
        let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut stories = self.lock();
        match event {
            Event::Changed {
                group,
                origin,
                change,
            } => {
                let (from, to) = (change.from, change.to);
                let story = stories.groups.get_mut(group);
                let story = story.and_then(|story| story.origins.get_mut(origin));
                let status = story.and_then(|story| {
                    story.pass();
                    story.state = to;
                    let key = (from.as_str(), to.as_str());
                    *story.counts.changes.entry(key).or_default() += 1;
                    story.last_status
                });
                tracing::info!(
                    group,
                    origin,
                    from = from.as_str(),
                    to = to.as_str(),
                    successes = change.successes,
                    samples = change.samples,
                    sample_size = change.sample_size,
                    required = change.required,
                    reason = change.last_reason.map(Reason::as_str),
                    "the state of an origin changed"
                );
                let what = What::State {
                    from,
                    to,
                    successes: change.successes,
                    samples: change.samples,
                    sample_size: change.sample_size,
                    required: change.required,
                    reason: change.last_reason,
                    status,
                };
                stories.add(group, at_ms, Some(origin.clone()), what);
            }
            Event::GroupAllUnhealthy { group, is_entered } => {
                if let Some(story) = stories.groups.get_mut(group) {
                    story.is_all_unhealthy = *is_entered;
                    story.all_unhealthy_entered += u64::from(*is_entered);
                }
                let what = if *is_entered {
                    tracing::warn!(
                        group,
                        "group_all_unhealthy: all enabled origins are unhealthy"
                    );
                    What::AllUnhealthyEntered
                } else {
                    tracing::info!(group, "group_all_unhealthy is over");
                    What::AllUnhealthyLeft
                };
                stories.add(group, at_ms, None, what);
            }
            Event::Draining {
                group,
                origin,
                is_draining,
            } => {
                tracing::info!(group, origin, is_draining, "an origin asked for its drain");
                let what = if *is_draining {
                    What::DrainingBegan
                } else {
                    What::DrainingEnded
                };
                stories.add(group, at_ms, Some(origin.clone()), what);
            }
            Event::StreamEnded(_) | Event::Idle { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-209: one record a minute for each origin and reason, with the number of the others.
    #[test]
    fn repeats_are_logged_once_a_minute() {
        let mut repeated = HashMap::new();
        let began = Instant::now();
        let url = "http://a.example:80/".to_owned();
        let (first, other) = ((url.clone(), Reason::Timeout), (url, Reason::DnsError));
        for (second, key, expect) in [
            (0, &first, Some(0)),
            (5, &first, None),
            (5, &other, Some(0)),
            (59, &first, None),
            (60, &first, Some(2)),
            (61, &first, None),
            (200, &first, Some(1)),
            (200, &other, Some(0)),
        ] {
            let now = began + Duration::from_secs(second);
            let logged = note_repeat(&mut repeated, key, now);
            assert_eq!(logged, expect, "{second} {key:?}");
        }
    }
}
