//! Which groups share probes: one stream for each probe target, at the lowest effective interval of its groups, with the
//! longest of their timeouts (HP-030, HP-070 to HP-074).

use std::collections::HashMap;
use std::time::Duration;

use crate::outcome::Demands;
use crate::settings::Group;
use crate::target::ProbeTarget;

/// A group of this node.
#[derive(Debug, Clone, Copy)]
pub struct Member<'g> {
    /// The group.
    pub group: &'g Group,
    /// How long ago this node last used it (HP-082).
    pub unused_for: Duration,
}

/// What those on a stream want of its probes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// The effective interval: the lowest of them (HP-071).
    pub interval: Duration,
    /// What is looked at: an answer within the longest of their timeouts (HP-072), with a head of the longest that one of
    /// them takes.
    pub demands: Demands,
}

impl Shared {
    /// What one group wants by itself, at its effective interval.
    #[must_use]
    pub fn of(group: &Group, interval: Duration) -> Self {
        Self {
            interval,
            demands: group.rules().demands,
        }
    }

    /// What both want.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            interval: self.interval.min(other.interval),
            demands: self.demands.with(other.demands),
        }
    }
}

/// The places of the origins that are probed for a group, each with its target: those that are enabled, while its probes
/// are on (HP-030, HP-073).
pub fn probed(group: &Group) -> impl Iterator<Item = (usize, ProbeTarget)> {
    let origins = group.settings().origins.iter().enumerate();
    origins.filter_map(|(place, origin)| {
        let is_probed = origin.enabled && group.settings().probe.enabled;
        is_probed.then(|| (place, ProbeTarget::of(group, origin)))
    })
}

/// One series of probes to one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// What is probed.
    pub target: ProbeTarget,
    /// How.
    pub shared: Shared,
    /// Who feeds from it: the index of a group, and of an origin in it, in order.
    pub members: Vec<(usize, usize)>,
}

/// The streams of a node, in the order in which its groups first need them.
#[must_use]
pub fn streams(groups: &[Member<'_>]) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    let mut places: HashMap<ProbeTarget, usize> = HashMap::new();
    for (index, member) in groups.iter().enumerate() {
        let interval = member.group.effective_interval(member.unused_for);
        let own = Shared::of(member.group, interval);
        for (place, target) in probed(member.group) {
            let running = places.get(&target).and_then(|at| streams.get_mut(*at));
            if let Some(stream) = running {
                stream.shared = stream.shared.with(own);
                stream.members.push((index, place));
            } else {
                places.insert(target.clone(), streams.len());
                streams.push(Stream {
                    target,
                    shared: own,
                    members: vec![(index, place)],
                });
            }
        }
    }
    streams
}
