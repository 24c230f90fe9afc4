//! The groups of one node: a machine that says which probe is due, takes what it met, and gives selections what they see.
//!
//! ```text
//!  set, remove, used, met, drained --.                    .--> poll: a probe to send
//!                                    |--> Node (streams) -|--> events: changes, for the log and metrics
//!  finished (an observation) --------'                    '--> snapshots: of the groups that changed
//! ```
//!
//! One loop owns it: it hands in what happened, sends the probes that [`Node::poll`] names until there is none, publishes
//! [`Node::snapshots`], and comes back at [`Node::wake_at`], or when something happens. Calls that come too early change
//! nothing.
//!
//! | file | has |
//! | --- | --- |
//! | `membership.rs` | groups that come, change and go, and their streams (HP-006, HP-007, HP-031, HP-070 to HP-075) |
//! | `origin.rs` | an origin in a group: its window, its health, what real requests say |
//! | `status.rs` | what people see of it (HP-106, HP-207) |

mod membership;
mod origin;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::origin::Origin;
pub use self::status::{GroupStatus, OriginStatus};
use crate::budget::{Budget, Delayed};
use crate::health::Change;
use crate::outcome::{Demands, Met, Observation, Reason};
use crate::schedule::{Chance, Progress, Schedule};
use crate::settings::Group;
use crate::snapshot::{Choosing, Snapshot};
use crate::streams::Shared;
use crate::target::ProbeTarget;
use crate::window::Window;

/// A stream of probes; no other has its number, ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u64);

/// A probe to send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its stream; none of it is sent again before [`Node::finished`] or [`Node::aborted`].
    pub stream: StreamId,
    /// What is probed.
    pub target: Arc<ProbeTarget>,
    /// What is looked at, so that each group on the stream can judge it (HP-072).
    pub demands: Demands,
    /// How long it has waited for the budget (HP-190).
    pub delayed: Duration,
}

/// Something that happened, for the log and for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An origin's state changed (HP-067).
    Changed {
        /// The group's name.
        group: String,
        /// The origin's name.
        origin: String,
        /// What changed.
        change: Change,
    },
    /// All enabled origins of a group are unhealthy, or no longer (HP-095).
    GroupAllUnhealthy {
        /// The group's name.
        group: String,
        /// Whether they are now.
        is_entered: bool,
    },
    /// An origin asked not to be used, or no longer does (HP-198).
    Draining {
        /// The group's name.
        group: String,
        /// The origin's name.
        origin: String,
        /// Whether it does now.
        is_draining: bool,
    },
    /// A stream ended: a probe of it that is in flight is to be dropped (HP-006).
    StreamEnded(StreamId),
    /// A group's idle level is another (HP-082). New groups have 0.
    Idle {
        /// The group's name.
        group: String,
        /// L.
        level: u32,
    },
}

/// An origin that feeds from a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed<'n> {
    /// The group's name.
    pub group: &'n str,
    /// The origin's name.
    pub origin: &'n str,
    /// How the group judges the newest sample of its window.
    pub newest: Option<Result<u64, Reason>>,
}

/// What outlives a restart: the newest samples of each probe target (HP-197).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Saved {
    streams: Vec<(ProbeTarget, Window)>,
}

#[derive(Debug)]
struct GroupEntry {
    name: Arc<str>,
    group: Arc<Group>,
    /// When this node last used it; when it came, if never (HP-082).
    used: Duration,
    /// Its idle level, and when that rises.
    level: u32,
    level_rises_at: Option<Duration>,
    /// When the health of one of its origins changes without a sample.
    health_changes_at: Option<Duration>,
    /// When it is looked at: the earlier of the two.
    queued_at: Option<Duration>,
    origins: Vec<Origin>,
    snapshot: Arc<Snapshot>,
    /// The snapshot is to be made anew.
    is_stale: bool,
    /// It was, and was not handed out yet.
    is_changed: bool,
    is_all_unhealthy: bool,
}

#[derive(Debug)]
struct Stream {
    target: Arc<ProbeTarget>,
    /// Groups and the places of their origins, in order.
    members: BTreeSet<(Arc<str>, usize)>,
    demands: Demands,
    /// As many samples as the largest window of its groups holds.
    history: Window,
    /// Samples of an earlier run of the process, for groups that come before the first sample of this one.
    restored: Option<Window>,
    schedule: Schedule,
    /// When it is looked at.
    queued_at: Duration,
    is_in_flight: bool,
    aborted: u64,
}

/// The groups of one node, their streams and windows.
#[derive(Debug)]
pub struct Node {
    seed: u64,
    groups: BTreeMap<Arc<str>, GroupEntry>,
    /// Groups by the time at which only time changes them.
    group_queue: BTreeSet<(Duration, Arc<str>)>,
    /// Groups whose snapshots are to be made anew, and those whose new ones were not handed out yet.
    stale: Vec<Arc<str>>,
    changed: Vec<Arc<str>>,
    streams: BTreeMap<StreamId, Stream>,
    by_target: BTreeMap<Arc<ProbeTarget>, StreamId>,
    /// Streams by the time at which they are looked at.
    queue: BTreeSet<(Duration, StreamId)>,
    budget: Budget,
    /// Nothing is sent before, since the node's budget is used up.
    budget_until: Option<Duration>,
    restored: BTreeMap<ProbeTarget, Window>,
    events: Vec<Event>,
    last_stream: u64,
    last_origin: u32,
}

impl Node {
    /// A node without groups. `seed` decides phases and jitter (HP-080); `probes_per_second` is its budget (HP-190).
    #[must_use]
    pub fn new(seed: u64, probes_per_second: u32) -> Self {
        Self {
            seed,
            groups: BTreeMap::new(),
            group_queue: BTreeSet::new(),
            stale: Vec::new(),
            changed: Vec::new(),
            streams: BTreeMap::new(),
            by_target: BTreeMap::new(),
            queue: BTreeSet::new(),
            budget: Budget::new(probes_per_second),
            budget_until: None,
            restored: BTreeMap::new(),
            events: Vec::new(),
            last_stream: 0,
            last_origin: 0,
        }
    }

    /// Takes what was saved by an earlier run of the process. Groups that come later begin with it, where it is young enough:
    /// the newest sample less than 2·n·I old (HP-197).
    pub fn restore(&mut self, saved: Saved) {
        let windows = saved.streams.into_iter();
        let windows = windows.map(|(target, window)| (target, window.of_earlier_run()));
        self.restored.extend(windows);
    }

    /// What is to be saved.
    #[must_use]
    pub fn save(&self) -> Saved {
        let streams = self.streams.values();
        let held = streams.filter(|stream| stream.history.newest().is_some());
        Saved {
            streams: held
                .map(|stream| (ProbeTarget::clone(&stream.target), stream.history.clone()))
                .collect(),
        }
    }

    /// The next probe to send, until there is none now. The oldest comes first (HP-190).
    pub fn poll(&mut self, now: Duration) -> Option<Due> {
        self.pass(now);
        if self.budget_until.is_some_and(|until| now < until) {
            return None;
        }
        self.budget_until = None;
        while let Some((queued_at, id)) = self.queue.first().copied() {
            if queued_at > now {
                return None;
            }
            self.queue.pop_first();
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            let due = stream.schedule.due();
            if due > now {
                Self::enqueue(&mut self.queue, id, stream, due);
                continue;
            }
            if stream.is_in_flight {
                stream.schedule.take(true, now);
                let next = stream.schedule.due();
                Self::enqueue(&mut self.queue, id, stream, next);
                continue;
            }
            let target = &stream.target;
            match self.budget.start(&target.host, target.port, now) {
                Ok(()) => {}
                Err(Delayed::ByOrigin(until)) => {
                    Self::enqueue(&mut self.queue, id, stream, until);
                    continue;
                }
                Err(Delayed::ByNode(until)) => {
                    Self::enqueue(&mut self.queue, id, stream, queued_at);
                    self.budget_until = Some(until);
                    return None;
                }
            }
            stream.is_in_flight = true;
            stream.schedule.take(false, now);
            let next = stream.schedule.due();
            Self::enqueue(&mut self.queue, id, stream, next);
            return Some(Due {
                stream: id,
                target: Arc::clone(&stream.target),
                demands: stream.demands,
                delayed: now.saturating_sub(due),
            });
        }
        None
    }

    /// When [`Node::poll`] is to be called again if nothing happens; `None` without groups that probe or idle.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        let queued = self.queue.first().map(|(at, _)| *at);
        let queued = queued.map(|at| self.budget_until.map_or(at, |until| at.max(until)));
        let changes = self.group_queue.first().map(|(at, _)| *at);
        changes.into_iter().chain(queued).min()
    }

    /// A probe ended with a sample: every group on the stream takes it (HP-074).
    pub fn finished(&mut self, id: StreamId, observation: Observation, now: Duration) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.is_in_flight = false;
        stream.history.push(observation);
        stream.restored = None;
        let mut progress = Progress::Decided;
        for (name, place) in &stream.members {
            let Some(entry) = self.groups.get_mut(name) else {
                continue;
            };
            let Some(origin) = entry.origins.get_mut(*place) else {
                continue;
            };
            let change = origin.sampled(observation, &entry.group, now);
            note(&mut self.events, name, origin, change);
            progress = match (progress, origin.progress(now)) {
                (Progress::Undecided, _) | (_, Progress::Undecided) => Progress::Undecided,
                (Progress::Waiting, _) | (_, Progress::Waiting) => Progress::Waiting,
                (Progress::Decided, Progress::Decided) => Progress::Decided,
            };
            entry.plan_health(now);
            entry.queue(&mut self.group_queue);
            entry.mark(&mut self.stale);
        }
        stream.schedule.sampled(progress, now);
        self.requeue(id);
        self.pass(now);
    }

    /// The origins that feed from a stream.
    #[must_use]
    pub fn fed(&self, id: StreamId) -> Vec<Fed<'_>> {
        let members = self.streams.get(&id).map(|stream| &stream.members);
        let fed = members.into_iter().flatten().filter_map(|(name, place)| {
            let origin = self.groups.get(name)?.origins.get(*place)?;
            Some(Fed {
                group: name,
                origin: &origin.name,
                newest: origin.health.judgement().newest,
            })
        });
        fed.collect()
    }

    /// A probe ended without a sample: a failure of the prober itself (HP-049).
    pub fn aborted(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_in_flight = false;
            stream.aborted += 1;
        }
    }

    /// This node used the group: for a request, a delivery attempt or a publish. Ends its idling (HP-084).
    pub fn used(&mut self, name: &str, now: Duration) {
        let Some(entry) = self.groups.get_mut(name) else {
            return;
        };
        let was_idle = entry.level > 0;
        entry.used = entry.used.max(now);
        entry.plan_idle(now);
        entry.queue(&mut self.group_queue);
        note_idle(&mut self.events, name, entry, was_idle);
        if !was_idle {
            return;
        }
        let interval = entry.group.interval();
        let streams: Vec<StreamId> = entry.streams().collect();
        self.replan(&streams, now);
        for id in streams {
            if let Some(stream) = self.streams.get_mut(&id) {
                let newest = stream.history.newest().map(|newest| newest.at);
                stream.schedule.wake(newest, interval, now);
            }
            self.requeue(id);
        }
    }

    /// What a real request to an origin met (HP-192, HP-193).
    pub fn met(&mut self, name: &str, origin: u32, met: Met, now: Duration) {
        let Some(entry) = self.groups.get_mut(name) else {
            return;
        };
        let Some(asked) = entry.met(origin, met, now) else {
            return;
        };
        if let Some(origin) = entry.origins.get(asked.place) {
            note(&mut self.events, name, origin, asked.change);
        }
        if asked.is_ejected {
            entry.plan_health(now);
            entry.queue(&mut self.group_queue);
            entry.mark(&mut self.stale);
        }
        if let Some(id) = asked.stream {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.schedule.ask(now);
            }
            self.requeue(id);
        }
        self.pass(now);
    }

    /// An origin asked in its answer to a real request not to be used (HP-198).
    pub fn drained(&mut self, name: &str, origin: u32) {
        let Some(entry) = self.groups.get_mut(name) else {
            return;
        };
        if !entry.group.settings().drain_header {
            return;
        }
        let mut origins = entry.origins.iter_mut();
        if let Some(origin) = origins.find(|known| known.id == origin) {
            let was_draining = std::mem::replace(&mut origin.is_draining, true);
            if !was_draining {
                entry.mark(&mut self.stale);
            }
        }
    }

    /// What happened since it was last asked.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The groups that look otherwise than when they were last asked for.
    pub fn snapshots(&mut self, now: Duration) -> Vec<(Arc<str>, Arc<Snapshot>)> {
        self.pass(now);
        let changed = std::mem::take(&mut self.changed);
        let snapshots = changed.into_iter().filter_map(|name| {
            let entry = self.groups.get_mut(&name)?;
            let is_changed = std::mem::take(&mut entry.is_changed);
            is_changed.then(|| (name, Arc::clone(&entry.snapshot)))
        });
        snapshots.collect()
    }

    /// A group as it was last judged.
    #[must_use]
    pub fn snapshot(&self, name: &str) -> Option<Arc<Snapshot>> {
        let entry = self.groups.get(name)?;
        Some(Arc::clone(&entry.snapshot))
    }

    /// What only time changes: idle levels, graces, ramps and holds; then the snapshots of what changed.
    fn pass(&mut self, now: Duration) {
        let mut slower = Vec::new();
        let mut due = Vec::new();
        while self.group_queue.first().is_some_and(|(at, _)| *at <= now) {
            due.extend(self.group_queue.pop_first());
        }
        for (_, name) in due {
            let Some(entry) = self.groups.get_mut(&name) else {
                continue;
            };
            entry.queued_at = None;
            if entry.level_rises_at.is_some_and(|at| at <= now) {
                entry.plan_idle(now);
                note_idle(&mut self.events, &name, entry, true);
                slower.extend(entry.streams());
            }
            if entry.health_changes_at.is_some_and(|at| at <= now) {
                for origin in &mut entry.origins {
                    let change = origin.tick(now);
                    note(&mut self.events, &name, origin, change);
                }
                entry.plan_health(now);
                entry.mark(&mut self.stale);
            }
            entry.queue(&mut self.group_queue);
        }
        for name in std::mem::take(&mut self.stale) {
            let Some(entry) = self.groups.get_mut(&name) else {
                continue;
            };
            if !std::mem::take(&mut entry.is_stale) {
                continue;
            }
            entry.look(now);
            for origin in &mut entry.origins {
                if origin.is_draining != origin.is_draining_told {
                    origin.is_draining_told = origin.is_draining;
                    self.events.push(Event::Draining {
                        group: name.to_string(),
                        origin: origin.name.clone(),
                        is_draining: origin.is_draining,
                    });
                }
            }
            let is_all_unhealthy = entry.snapshot.is_all_unhealthy();
            if is_all_unhealthy != entry.is_all_unhealthy {
                entry.is_all_unhealthy = is_all_unhealthy;
                self.events.push(Event::GroupAllUnhealthy {
                    group: name.to_string(),
                    is_entered: is_all_unhealthy,
                });
            }
            if !std::mem::replace(&mut entry.is_changed, true) {
                self.changed.push(name);
            }
        }
        self.replan(&slower, now);
    }

    /// Works out intervals and timeouts of streams anew (HP-071 to HP-073).
    fn replan(&mut self, streams: &[StreamId], now: Duration) {
        for id in streams {
            let Some(stream) = self.streams.get_mut(id) else {
                continue;
            };
            let groups = stream.members.iter();
            let groups = groups.filter_map(|(name, _)| self.groups.get(name));
            let wanted = groups.map(|entry| Shared::of(&entry.group, entry.interval()));
            let Some(shared) = wanted.reduce(Shared::with) else {
                continue;
            };
            stream.demands = shared.demands;
            let timeout = shared.demands.timeout;
            stream.schedule.change(shared.interval, timeout, now);
            self.requeue(*id);
        }
    }

    /// After its schedule changed.
    fn requeue(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            self.queue.remove(&(stream.queued_at, id));
            let due = stream.schedule.due();
            Self::enqueue(&mut self.queue, id, stream, due);
        }
    }

    fn enqueue(
        queue: &mut BTreeSet<(Duration, StreamId)>,
        id: StreamId,
        stream: &mut Stream,
        at: Duration,
    ) {
        stream.queued_at = at;
        queue.insert((at, id));
    }

    fn chance(&self, number: u64) -> u64 {
        Chance::of(self.seed, number).seed()
    }
}

impl GroupEntry {
    /// The effective interval now (HP-083).
    fn interval(&self) -> Duration {
        let group = &self.group;
        let is_single = group.is_single_origin();
        let idle = &group.settings().idle;
        idle.effective_interval(group.interval(), self.level, is_single)
    }

    fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.origins.iter().filter_map(|origin| origin.stream)
    }

    /// The idle level now, and when it rises (HP-082).
    fn plan_idle(&mut self, now: Duration) {
        let idle = &self.group.settings().idle;
        self.level = idle.level(now.saturating_sub(self.used));
        let next = idle.next_level_after(self.level);
        self.level_rises_at = next.map(|next| self.used.saturating_add(next));
    }

    /// After one of its times changed.
    fn queue(&mut self, queue: &mut BTreeSet<(Duration, Arc<str>)>) {
        let times = [self.level_rises_at, self.health_changes_at];
        let at = times.into_iter().flatten().min();
        if at == self.queued_at {
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.queued_at, at) {
            queue.remove(&(before, Arc::clone(&self.name)));
        }
        queue.extend(at.map(|at| (at, Arc::clone(&self.name))));
    }

    /// It looks otherwise than its snapshot says.
    fn mark(&mut self, stale: &mut Vec<Arc<str>>) {
        if !std::mem::replace(&mut self.is_stale, true) {
            stale.push(Arc::clone(&self.name));
        }
    }

    fn plan_health(&mut self, now: Duration) {
        let origins = self.origins.iter();
        let times = origins.filter_map(|origin| origin.next_change(now));
        self.health_changes_at = times.min();
    }

    /// Makes the snapshot anew.
    fn look(&mut self, now: Duration) {
        let settings = &self.group.settings().origins;
        let views = self.origins.iter().zip(settings);
        let views = views.map(|(origin, settings)| origin.view(settings, now));
        self.snapshot = Arc::new(Snapshot::new(Choosing::of(&self.group), views.collect()));
    }
}

fn note_idle(events: &mut Vec<Event>, group: &str, entry: &GroupEntry, is_other: bool) {
    if is_other {
        events.push(Event::Idle {
            group: group.to_owned(),
            level: entry.level,
        });
    }
}

fn note(events: &mut Vec<Event>, group: &str, origin: &Origin, change: Option<Change>) {
    if let Some(change) = change {
        events.push(Event::Changed {
            group: group.to_owned(),
            origin: origin.name.clone(),
            change,
        });
    }
}
