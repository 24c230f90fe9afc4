//! Which groups share probes: one stream for each probe target, at the lowest effective interval of its groups, with the
//! longest of their timeouts (HP-030, HP-070 to HP-074).

use std::collections::HashMap;
use std::time::Duration;

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

/// One series of probes to one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// What is probed.
    pub target: ProbeTarget,
    /// The effective interval: the lowest of its groups (HP-071).
    pub interval: Duration,
    /// How long a probe is waited for: the longest of its groups (HP-072).
    pub timeout: Duration,
    /// Bytes of the longest response head that one of its groups takes (HP-045).
    pub head_bytes_max: u32,
    /// Who feeds from it: the index of a group, and of an origin in it, in order.
    pub members: Vec<(usize, usize)>,
}

/// The streams of a node, in the order in which its groups first need them. Only groups that have probes on and the origin
/// enabled count (HP-030, HP-073).
#[must_use]
pub fn streams(groups: &[Member<'_>]) -> Vec<Stream> {
    let mut streams: Vec<Stream> = Vec::new();
    let mut places: HashMap<ProbeTarget, usize> = HashMap::new();
    for (index, member) in groups.iter().enumerate() {
        let group = member.group;
        if !group.settings().probe.enabled {
            continue;
        }
        let interval = group.effective_interval(member.unused_for);
        let rules = group.rules();
        let origins = group.settings().origins.iter().enumerate();
        for (place, origin) in origins.filter(|(_, origin)| origin.enabled) {
            let target = ProbeTarget::of(group, origin);
            let own = Stream {
                target: target.clone(),
                interval,
                timeout: rules.demands.timeout,
                head_bytes_max: rules.demands.head_bytes_max,
                members: vec![(index, place)],
            };
            let shared = places.get(&target).and_then(|at| streams.get_mut(*at));
            if let Some(stream) = shared {
                stream.interval = stream.interval.min(own.interval);
                stream.timeout = stream.timeout.max(own.timeout);
                stream.head_bytes_max = stream.head_bytes_max.max(own.head_bytes_max);
                stream.members.extend(own.members);
            } else {
                places.insert(target, streams.len());
                streams.push(own);
            }
        }
    }
    streams
}
