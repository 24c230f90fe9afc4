//! The machine of a node's groups (HP-006, HP-027, HP-067, HP-095, HP-190): whatever happens in whatever order, it does not
//! panic, and what its callers rely on holds. Time goes forward, as it does for them.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use hedgerow_origin::node::{Due, Event, Node};
use hedgerow_origin::outcome::{BodyEnd, Met, Observation, Reason, Response};
use hedgerow_origin::selector::Selector;
use hedgerow_origin::settings::{FailOpen, Group, GroupSettings, OriginSettings, Protocol};
use hedgerow_origin::snapshot::Places;
use hedgerow_origin::window::State;
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 3] = ["a", "b", "c"];
/// More calls find nothing that fewer do not.
const CALLS_MAX: usize = 200;
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Arbitrary)]
struct Input {
    seed: u64,
    budget: u8,
    calls: Vec<Call>,
}

#[derive(Debug, Arbitrary)]
enum Call {
    Set {
        name: u8,
        group: Shape,
    },
    Remove {
        name: u8,
    },
    /// So many milliseconds pass, or seconds.
    Pass {
        millis: u16,
        by_seconds: bool,
    },
    /// To the time at which the node wants to be asked again.
    Sleep,
    Poll,
    Finish {
        which: u8,
        elapsed_ms: u16,
        what: Answer,
    },
    Abort {
        which: u8,
    },
    Used {
        name: u8,
    },
    Met {
        name: u8,
        origin: u8,
        is_failure: bool,
    },
    Drained {
        name: u8,
        origin: u8,
    },
    Snapshots,
    Restart,
    Status {
        name: u8,
    },
}

#[derive(Debug, Arbitrary)]
struct Shape {
    origins: Vec<OriginShape>,
    flags: u8,
    interval_s: u8,
    timeout_s: u8,
    sample_size: u8,
    required: u8,
    threshold: Option<u8>,
    fail_open: u8,
    idle_after_s: u16,
    ramp_s: u8,
}

#[derive(Debug, Arbitrary)]
struct OriginShape {
    name: u8,
    host: u8,
    is_enabled: bool,
    priority: u8,
    weight: u16,
    grace_s: u8,
}

#[derive(Debug, Arbitrary)]
enum Answer {
    Good,
    Drains,
    Status(u16),
    Cut,
    Fails(u8),
}

/// What callers know: probes in flight, what was told of each origin, and when probes were sent.
#[derive(Default)]
struct Known {
    in_flight: Vec<Due>,
    ended: BTreeSet<String>,
    all_unhealthy: BTreeSet<String>,
    states: BTreeMap<(String, String), State>,
    groups: BTreeMap<String, Arc<Group>>,
    starts: Vec<(Duration, String, u16)>,
    budget: usize,
}

fuzz_target!(|input: Input| {
    let budget = u32::from(input.budget % 8);
    let mut node = Node::new(input.seed, budget);
    let mut known = Known {
        budget: budget.max(1) as usize,
        ..Known::default()
    };
    let mut now = Duration::from_secs(1_000_000);
    let mut selector = Selector::new();
    for call in input.calls.iter().take(CALLS_MAX) {
        let name = |name: &u8| NAMES[usize::from(*name) % NAMES.len()];
        match call {
            Call::Set { name: of, group } => {
                let name = name(of);
                if let Some(group) = group.group() {
                    let group = Arc::new(group);
                    node.set(name, Arc::clone(&group), now);
                    known.groups.insert(name.to_owned(), group);
                }
            }
            Call::Remove { name: of } => {
                node.remove(name(of), now);
                known.groups.remove(name(of));
                known.states.retain(|(group, _), _| group != name(of));
            }
            Call::Pass { millis, by_seconds } => {
                let factor = if *by_seconds { 1_000 } else { 1 };
                now += Duration::from_millis(u64::from(*millis) * factor);
            }
            Call::Sleep => now = node.wake_at().map_or(now, |at| at.max(now)),
            Call::Poll => poll(&mut node, &mut known, now),
            Call::Finish {
                which,
                elapsed_ms,
                what,
            } => {
                if let Some(due) = take(&mut known.in_flight, *which) {
                    node.finished(due.stream, what.observation(now, *elapsed_ms), now);
                }
            }
            Call::Abort { which } => {
                if let Some(due) = take(&mut known.in_flight, *which) {
                    node.aborted(due.stream);
                }
            }
            Call::Used { name: of } => node.used(name(of), now),
            Call::Met {
                name: of,
                origin,
                is_failure,
            } => {
                let met = if *is_failure {
                    Met::Failure(Reason::Timeout)
                } else {
                    Met::Response(Response::complete(200))
                };
                node.met(name(of), u32::from(*origin), met, now);
            }
            Call::Drained { name: of, origin } => node.drained(name(of), u32::from(*origin)),
            Call::Snapshots => drop(node.snapshots(now)),
            Call::Restart => {
                let saved = node.save();
                node = Node::new(input.seed, budget);
                node.restore(saved);
                for (name, group) in &known.groups {
                    node.set(name, Arc::clone(group), now);
                }
                known.in_flight.clear();
                known.ended.clear();
                known.all_unhealthy.clear();
                known.states.clear();
                known.starts.clear();
                known.ended.clear();
            }
            Call::Status { name: of } => {
                let status = node.status(name(of), now);
                assert_eq!(status.is_some(), known.groups.contains_key(name(of)));
                for origin in status.iter().flat_map(|status| &status.origins) {
                    assert!(origin.successes <= origin.samples);
                    assert!(origin.samples <= origin.sample_size);
                    assert!((1..=origin.sample_size).contains(&origin.required));
                }
            }
        }
        known.hear(node.take_events());
        known.look(&node, &mut selector);
    }
});

fn take(in_flight: &mut Vec<Due>, which: u8) -> Option<Due> {
    let count = in_flight.len();
    (count > 0).then(|| in_flight.swap_remove(usize::from(which) % count))
}

/// As the loop does that owns the node.
fn poll(node: &mut Node, known: &mut Known, now: Duration) {
    let streams_max: usize = known
        .groups
        .values()
        .map(|group| group.settings().origins.len())
        .sum();
    let mut sent = 0;
    while let Some(due) = node.poll(now) {
        sent += 1;
        assert!(
            sent <= streams_max,
            "more probes at once than there are streams"
        );
        let id = format!("{:?}", due.stream);
        assert!(!known.ended.contains(&id), "a stream that ended is probed");
        let twice = known
            .in_flight
            .iter()
            .any(|other| other.stream == due.stream);
        assert!(!twice, "two probes of a stream are in flight (HP-027)");
        known.starts.retain(|(at, ..)| *at + SECOND > now);
        let (host, port) = (due.target.host.clone(), due.target.port);
        let to_same = known
            .starts
            .iter()
            .any(|(_, to, on)| (to, *on) == (&host, port));
        assert!(!to_same, "two probes a second to one origin (HP-190)");
        known.starts.push((now, host, port));
        assert!(known.starts.len() <= known.budget, "the budget (HP-190)");
        assert!(due.demands.timeout > Duration::ZERO && due.demands.head_bytes_max > 0);
        known.in_flight.push(due);
    }
    // Or the loop would spin.
    if let Some(at) = node.wake_at() {
        assert!(at > now, "nothing is due, and it wants to be asked at once");
    }
}

impl Known {
    fn hear(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::StreamEnded(id) => {
                    self.in_flight.retain(|due| due.stream != id);
                    assert!(self.ended.insert(format!("{id:?}")), "a stream ends twice");
                }
                Event::GroupAllUnhealthy { group, is_entered } => {
                    let was = if is_entered {
                        !self.all_unhealthy.insert(group)
                    } else {
                        self.all_unhealthy.remove(&group)
                    };
                    assert_eq!(was, !is_entered, "told twice (HP-095)");
                }
                Event::Idle { group, level } => {
                    let of_group = self.groups.get(&group).map(|group| group.settings().idle.max_level);
                    assert!(of_group.is_none_or(|most| level <= most), "HP-082");
                }
                Event::Changed {
                    group,
                    origin,
                    change,
                } => {
                    assert_ne!(change.from, change.to);
                    assert!(
                        change.successes <= change.samples && change.samples <= change.sample_size
                    );
                    self.states.insert((group, origin), change.to);
                }
            }
        }
    }

    fn look(&self, node: &Node, selector: &mut Selector) {
        for (name, group) in &self.groups {
            let snapshot = node.snapshot(name).expect("a group that was set has one");
            let origins = snapshot.origins();
            assert_eq!(origins.len(), group.settings().origins.len());
            let ids: BTreeSet<u32> = origins.iter().map(|origin| origin.id).collect();
            assert_eq!(ids.len(), origins.len(), "an id is no other origin's");
            let chosen = selector.select(&snapshot, None);
            assert_eq!(chosen.is_ok(), snapshot.kept().is_ok());
            if let Ok(chosen) = chosen {
                assert!(origins[chosen.place].is_enabled);
                assert_eq!(origins[chosen.place].id, chosen.id);
            }
            let first = Places::NONE.with(0);
            if let Ok(other) = selector.select_untried(&snapshot, first) {
                assert_ne!(other.place, 0, "it was tried");
            }
            let shares = snapshot.shares();
            let whole: f64 = shares
                .iter()
                .map(|(_, part, of)| *part as f64 / *of as f64)
                .sum();
            assert!(
                shares.is_empty() || (whole - 1.0).abs() < 1e-9,
                "{shares:?}"
            );
        }
    }
}

impl Shape {
    fn group(&self) -> Option<Group> {
        let mut settings = GroupSettings {
            unhealthy_threshold: self.threshold.map(|threshold| u32::from(threshold % 8)),
            session_affinity: self.flags & 1 != 0,
            passive_ejection: self.flags & 2 != 0,
            flap_damping: self.flags & 4 != 0,
            drain_header: self.flags & 8 == 0,
            ramp_s: self.ramp_s.into(),
            fail_open: match self.fail_open % 3 {
                0 => FailOpen::All,
                1 => FailOpen::TopPriority,
                _ => FailOpen::None,
            },
            ..GroupSettings::default()
        };
        let probe = &mut settings.probe;
        probe.enabled = self.flags & 16 == 0;
        probe.protocol = if self.flags & 32 == 0 {
            Protocol::Http
        } else {
            Protocol::Https
        };
        probe.interval_s = 5 + u32::from(self.interval_s % 8);
        probe.timeout_s = 1 + u32::from(self.timeout_s % 8);
        settings.load_balancing.sample_size = 1 + u32::from(self.sample_size % 6);
        settings.load_balancing.successful_samples_required =
            (self.required > 0).then(|| u32::from(self.required % 8));
        settings.idle.after_s = self.idle_after_s.into();
        settings.origins = self
            .origins
            .iter()
            .take(5)
            .map(OriginShape::origin)
            .collect();
        // What the rules refuse never comes to a node.
        Group::new(settings).ok()
    }
}

impl OriginShape {
    fn origin(&self) -> OriginSettings {
        let mut origin = OriginSettings::new(
            format!("o{}", self.name % 8),
            format!("h{}.example", self.host % 3),
        );
        origin.enabled = self.is_enabled;
        origin.priority = 1 + u32::from(self.priority % 5);
        origin.weight = 1 + u32::from(self.weight % 1_000);
        origin.startup_grace_s = self.grace_s.into();
        origin
    }
}

impl Answer {
    fn observation(&self, now: Duration, elapsed_ms: u16) -> Observation {
        let elapsed = Duration::from_millis(elapsed_ms.into());
        let response = match self {
            Self::Good => Response::complete(200),
            Self::Drains => Response {
                drains: true,
                ..Response::complete(200)
            },
            Self::Status(status) => Response::complete(100 + status % 500),
            Self::Cut => Response {
                body: BodyEnd::Cut,
                ..Response::complete(200)
            },
            Self::Fails(reason) => {
                let reason = Reason::ALL[usize::from(*reason) % Reason::ALL.len()];
                return Observation::failure(now, elapsed, reason);
            }
        };
        Observation::response(now, elapsed, response)
    }
}
