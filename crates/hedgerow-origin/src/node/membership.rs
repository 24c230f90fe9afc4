//! Groups that come, change and go, and the streams that they feed from (HP-006, HP-007, HP-030, HP-031, HP-070 to HP-075,
//! HP-105).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::origin::Origin;
use super::{Event, GroupEntry, Node, Stream, StreamId, note, note_idle};
use crate::health::Terms;
use crate::outcome::Demands;
use crate::schedule::Schedule;
use crate::settings::Group;
use crate::snapshot::{Choosing, Snapshot};
use crate::streams;
use crate::target::ProbeTarget;
use crate::threshold::Thresholds;
use crate::window::Window;

impl Node {
    /// Takes a group, a new one or a change of one. Origins are the same as before if they have the same name.
    pub fn set(&mut self, name: &str, group: Arc<Group>, now: Duration) {
        let before = self.groups.remove(name);
        let queued_at = before.as_ref().and_then(|entry| entry.queued_at);
        let known = before.as_ref().map(|entry| Arc::clone(&entry.name));
        let own_name = known.unwrap_or_else(|| name.into());
        let was_single = before
            .as_ref()
            .is_some_and(|entry| entry.group.is_single_origin());
        let used = before.as_ref().map_or(now, |entry| entry.used);
        let before_is_changed = before.as_ref().is_some_and(|entry| entry.is_changed);
        let level_before = before.as_ref().map_or(0, |entry| entry.level);
        let was_all_unhealthy = before.as_ref().is_some_and(|entry| entry.is_all_unhealthy);
        let mut old = before.map(|entry| entry.origins).unwrap_or_default();
        let mut left: BTreeSet<StreamId> = BTreeSet::new();
        for (place, origin) in old.iter().enumerate() {
            if let Some(id) = origin.stream {
                self.leave(id, name, place);
                left.insert(id);
            }
        }
        let choosing = Choosing::of(&group);
        let is_changed = before_is_changed;
        let mut entry = GroupEntry {
            name: Arc::clone(&own_name),
            used,
            level: 0,
            level_rises_at: None,
            health_changes_at: None,
            queued_at,
            origins: Vec::new(),
            snapshot: Arc::new(Snapshot::new(choosing, Vec::new())),
            is_stale: false,
            is_changed,
            is_all_unhealthy: was_all_unhealthy,
            group,
        };
        entry.plan_idle(now);
        note_idle(&mut self.events, name, &entry, entry.level != level_before);
        let group = Arc::clone(&entry.group);
        let mut joined: Vec<(usize, ProbeTarget, bool)> = Vec::new();
        let mut probed = streams::probed(&group).peekable();
        for (place, settings) in group.settings().origins.iter().enumerate() {
            let terms = Terms::of(&group, settings);
            let at = old.iter().position(|origin| origin.name == settings.name);
            let mut origin = match at {
                Some(at) => old.swap_remove(at),
                None => Origin::new(self.next_origin(), &settings.name, terms, now),
            };
            if let Some((_, target)) = probed.next_if(|(probed, _)| *probed == place) {
                let is_same = origin.stream.is_some_and(|id| {
                    let stream = self.streams.get(&id);
                    stream.is_some_and(|stream| *stream.target == target)
                });
                if !is_same {
                    origin.stop(now);
                }
                let change = origin.change(terms, now);
                note(&mut self.events, name, &origin, change);
                joined.push((place, target, is_same));
            } else {
                origin.terms = terms;
                origin.stop(now);
            }
            entry.origins.push(origin);
        }
        let ends_single = was_single && group.enabled_origins() > 1;
        self.groups.insert(Arc::clone(&own_name), entry);
        let mut own: BTreeSet<StreamId> = BTreeSet::new();
        for (place, target, is_same) in joined {
            own.insert(self.join(&own_name, place, target, is_same, now));
        }
        left.extend(&own);
        self.settle(&left, now);
        // HP-105: for both, and only now their streams have the lengths and the times of what has joined.
        for id in own.into_iter().filter(|_| ends_single) {
            if let Some(stream) = self.streams.get_mut(&id) {
                let samples = stream.history_size();
                stream.schedule.burst(samples, now);
            }
            self.requeue(id);
        }
        if let Some(entry) = self.groups.get_mut(name) {
            entry.plan_health(now);
            entry.queue(&mut self.group_queue);
            entry.mark(&mut self.stale);
        }
        self.pass(now);
    }

    /// Takes a group away. Its probes stop at once (HP-006).
    pub fn remove(&mut self, name: &str, now: Duration) {
        let Some(entry) = self.groups.remove(name) else {
            return;
        };
        if let Some(at) = entry.queued_at {
            self.group_queue.remove(&(at, Arc::clone(&entry.name)));
        }
        if entry.is_all_unhealthy {
            self.events.push(Event::GroupAllUnhealthy {
                group: name.to_owned(),
                is_entered: false,
            });
        }
        let mut left = BTreeSet::new();
        for (place, origin) in entry.origins.iter().enumerate() {
            if let Some(id) = origin.stream {
                self.leave(id, name, place);
                left.insert(id);
            }
        }
        self.settle(&left, now);
    }

    /// The names of the groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(AsRef::as_ref)
    }

    fn next_origin(&mut self) -> u32 {
        self.last_origin = self.last_origin.wrapping_add(1);
        self.last_origin
    }

    fn leave(&mut self, id: StreamId, name: &str, place: usize) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.members.remove(&(name.into(), place));
        }
    }

    /// Lets an origin feed from the stream of its target, which begins if there is none.
    fn join(
        &mut self,
        name: &Arc<str>,
        place: usize,
        target: ProbeTarget,
        is_same: bool,
        now: Duration,
    ) -> StreamId {
        let id = match self.by_target.get(&target) {
            Some(id) => *id,
            None => self.begin(target, name, now),
        };
        let Some(stream) = self.streams.get_mut(&id) else {
            return id;
        };
        stream.members.insert((Arc::clone(name), place));
        let Some(entry) = self.groups.get_mut(name) else {
            return id;
        };
        let (thresholds, interval) = (entry.group.thresholds(), entry.group.interval());
        let Some(origin) = entry.origins.get_mut(place) else {
            return id;
        };
        origin.stream = Some(id);
        // What was too old for those that came before may be young enough for this one.
        let restored = stream.restored.take_if(|restored| {
            stream.history.newest().is_none() && is_young(restored, thresholds, interval, now)
        });
        if let Some(restored) = restored {
            stream.history = restored;
        }
        if !is_same && is_young(&stream.history, thresholds, interval, now) {
            let change = origin.begin(stream.history.joined(thresholds), now);
            note(&mut self.events, name, origin, change);
        }
        id
    }

    fn begin(&mut self, target: ProbeTarget, name: &str, now: Duration) -> StreamId {
        self.last_stream += 1;
        let id = StreamId(self.last_stream);
        let entry = self.groups.get(name);
        let group = entry.map(|entry| &entry.group);
        let thresholds = group.map_or_else(Thresholds::default, |group| group.thresholds());
        let timeout = group.map_or(Duration::ZERO, |group| group.timeout());
        let interval = entry.map_or(Duration::ZERO, GroupEntry::interval);
        let restored = self.restored.remove(&target);
        let seed = self.chance(id.0);
        let samples = u32::from(thresholds.sample_size());
        let schedule = Schedule::new(seed, interval, timeout, samples, now);
        let target = Arc::new(target);
        let queued_at = schedule.due();
        self.by_target.insert(Arc::clone(&target), id);
        self.queue.insert((queued_at, id));
        self.streams.insert(
            id,
            Stream {
                target,
                members: BTreeSet::new(),
                demands: Demands::default(),
                history: Window::new(thresholds),
                restored,
                schedule,
                queued_at,
                is_in_flight: false,
                aborted: 0,
            },
        );
        id
    }

    /// Ends streams that nobody feeds from any more, and works the others out anew.
    fn settle(&mut self, streams: &BTreeSet<StreamId>, now: Duration) {
        let mut kept = Vec::new();
        for id in streams {
            let Some(stream) = self.streams.get_mut(id) else {
                continue;
            };
            if stream.members.is_empty() {
                self.queue.remove(&(stream.queued_at, *id));
                let target = Arc::clone(&stream.target);
                self.streams.remove(id);
                self.by_target.remove(&target);
                self.events.push(Event::StreamEnded(*id));
                continue;
            }
            let groups = stream.members.iter();
            let sizes = groups.filter_map(|(name, _)| self.groups.get(name));
            let largest = sizes
                .map(|entry| entry.group.thresholds())
                .max_by_key(|thresholds| thresholds.sample_size());
            if let Some(largest) = largest {
                stream.history.resize(largest);
            }
            kept.push(*id);
        }
        self.replan(&kept, now);
    }
}

impl Stream {
    /// The n of the largest window that it fills.
    fn history_size(&self) -> u32 {
        self.history.size().into()
    }
}

/// Samples of a stream that runs are; those of an earlier run of the process are if the newest is less than 2·n·I old
/// (HP-197).
fn is_young(history: &Window, thresholds: Thresholds, interval: Duration, now: Duration) -> bool {
    let age_max = interval.saturating_mul(2 * u32::from(thresholds.sample_size()));
    match history.newest() {
        None => false,
        Some(newest) => !history.is_restored() || now.saturating_sub(newest.at) < age_max,
    }
}
