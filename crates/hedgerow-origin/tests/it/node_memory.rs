//! What a node remembers of its groups, what it takes from real requests, and what it shows.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_origin::node::{Event, Node};
use hedgerow_origin::outcome::{Met, Reason, Response};
use hedgerow_origin::window::State;
use serde_json::json;

use crate::world::{A, REFUSED, World, of};

const fn status(status: u16) -> Met {
    Met::Response(Response::complete(status))
}

impl World {
    fn id(&self, group: &str, place: usize) -> u32 {
        self.node.snapshot(group).unwrap().origins()[place].id
    }

    fn met(&mut self, met: Met, times: u32) {
        let id = self.id("web", 0);
        for _ in 0..times {
            self.node.met("web", id, met, self.now);
        }
    }
}

/// HP-192, HP-201: only failed connections, resets, timeouts, and 502, 503, 504 ask for a probe.
#[test]
fn only_signals_ask_for_a_probe() {
    let answered = [
        status(500),
        status(404),
        status(429),
        Met::Failure(Reason::MalformedResponse),
        Met::Failure(Reason::AddressForbidden),
    ];
    let counted = [status(503), Met::Failure(Reason::ConnectionReset), REFUSED];
    for (met, probes) in answered
        .map(|met| (met, 0))
        .into_iter()
        .chain(counted.map(|met| (met, 1)))
    {
        let mut world = World::new(30);
        world.set("web", &of(&["a", "b"], json!({})));
        world.run_s(20);
        world.sent.clear();
        world.met(met, 5);
        world.send();
        assert_eq!(world.counted(A), probes, "{met:?}");
    }
}

/// HP-193, HP-067: the five failures are judged together, and tell of one change.
#[test]
fn an_ejection_is_one_change() {
    let mut world = World::new(31);
    let settings = json!({
        "passive_ejection": true,
        "load_balancing": {"sample_size": 8, "successful_samples_required": 5},
    });
    world.set("web", &of(&["a", "b"], settings));
    world.run_s(120);
    world.run_s(180);
    world.node.take_events();
    world.met(status(503), 5);
    let events = world.node.take_events();
    let [Event::Changed { change, .. }] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(change.to, State::Unhealthy);
    assert_eq!((change.samples, change.successes), (8, 3));
    assert_eq!(change.last_reason, Some(Reason::Status));
}

/// HP-197: a window that is too old for those that come first is no history of theirs, and comes back for nobody once there
/// are newer samples; one that comes before that takes it if it is young enough for its own n and I.
#[test]
fn old_windows_do_not_come_back() {
    let fast = json!({"probe": {"interval_s": 5, "timeout_s": 5}});
    let slow = json!({"probe": {"interval_s": 60}});
    let mut world = World::new(32);
    world.set("web", &of(&["a", "b"], fast.clone()));
    world.run_s(30);
    let saved = world.node.save();
    let later = |seconds: u64| {
        let mut world = World {
            now: world.now + Duration::from_secs(seconds),
            ..World::new(33)
        };
        world.node.restore(saved.clone());
        // Too old for 2·4·5 s.
        world.set("web", &of(&["a", "b"], fast.clone()));
        assert_eq!(world.state("web", 0), State::Unknown);
        world
    };
    let mut started = later(60);
    started.down = vec!["a"];
    started.run_s(2);
    started.set("api", &of(&["a", "c"], slow.clone()));
    let shown = started.node.status("api", started.now).unwrap();
    assert!(shown.origins[0].samples <= 2, "{:?}", shown.origins[0]);
    assert_eq!(shown.origins[0].successes, 0, "those of before are gone");

    let mut started = later(60);
    started.set("api", &of(&["a", "c"], slow));
    assert_eq!(
        started.state("api", 0),
        State::Healthy,
        "young for 2·4·60 s"
    );
    assert_eq!(started.state("web", 0), State::Unknown);
}

/// HP-102, HP-207: with probes off the status says what selections see.
#[test]
fn without_probes_the_status_says_healthy() {
    let mut world = World::new(34);
    world.set("web", &of(&["a"], json!({"probe": {"enabled": false}})));
    let shown = world.node.status("web", world.now).unwrap();
    let origin = &shown.origins[0];
    assert_eq!(origin.state, State::Healthy);
    assert!(!origin.provisional);
    assert_eq!((origin.samples, origin.latency_us), (0, None));
}

/// HP-130: a snapshot is made once for a change, however often the node is asked for probes meanwhile.
#[test]
fn a_snapshot_is_made_once() {
    let mut world = World::new(35);
    world.set("web", &of(&["a", "b"], json!({})));
    let made = world.node.snapshot("web").unwrap();
    for _ in 0..3 {
        world.node.poll(world.now);
    }
    assert!(Arc::ptr_eq(&made, &world.node.snapshot("web").unwrap()));
    let handed_out = world.node.snapshots(world.now);
    assert_eq!(handed_out.len(), 1);
    assert!(Arc::ptr_eq(&made, &handed_out[0].1));
    assert!(world.node.snapshots(world.now).is_empty());
    world.run_s(2);
    assert_eq!(world.node.snapshots(world.now).len(), 1);
}

/// HP-198: an answer to a request can say it too; a probe's answer without it ends it, and a group may not want it at all.
#[test]
fn draining_by_a_requests_answer() {
    for (listens, kept) in [(true, 1), (false, 2)] {
        let mut world = World::new(36);
        world.set("web", &of(&["a", "b"], json!({"drain_header": listens})));
        world.run_s(20);
        world.node.snapshots(world.now);
        let id = world.id("web", 0);
        world.node.drained("web", id);
        world.node.drained("web", 77);
        world.node.drained("api", id);
        let changed = world.node.snapshots(world.now).len();
        assert_eq!(changed, usize::from(listens));
        let snapshot = world.node.snapshot("web").unwrap();
        assert_eq!(snapshot.kept().unwrap().places.count(), kept);
        world.run_s(40);
        let snapshot = world.node.snapshot("web").unwrap();
        assert_eq!(snapshot.kept().unwrap().places.count(), 2);
    }
}

/// HP-105, HP-081: the burst for a second origin is as long as the window that is set with it.
#[test]
fn a_burst_is_as_long_as_the_new_window() {
    let mut world = World::new(37);
    world.set("web", &of(&["a"], json!({})));
    world.used = vec!["web"];
    world.run_s(60);
    world.sent.clear();
    let settings =
        json!({"load_balancing": {"sample_size": 20, "successful_samples_required": 15}});
    world.set("web", &of(&["a", "b"], settings));
    world.run_s(18);
    let count = world.counted(A);
    assert!((10..=16).contains(&count), "{count}");
    assert_eq!(world.state("web", 0), State::Healthy);
    let shown = world.node.status("web", world.now).unwrap();
    assert!(!shown.origins[0].provisional);
}

/// FC-24: each group on a stream judges the same answer by the statuses that it expects; 200 alone is the default.
#[test]
fn each_group_expects_its_own_statuses() {
    let mut node = Node::new(38, 500);
    let mut now = Duration::from_secs(1_000);
    let expecting = |statuses: &[u16]| json!({"probe": {"expected_statuses": statuses}});
    node.set("plain", of(&["a", "b"], json!({})), now);
    node.set("app", of(&["a", "b"], expecting(&[204, 401])), now);
    node.set("old", of(&["a", "b"], expecting(&[200, 301])), now);
    for (answer, states) in [
        (200, [State::Healthy, State::Unhealthy, State::Healthy]),
        (401, [State::Unhealthy, State::Healthy, State::Unhealthy]),
        (301, [State::Unhealthy, State::Unhealthy, State::Healthy]),
        (204, [State::Unhealthy, State::Healthy, State::Unhealthy]),
        (403, [State::Unhealthy; 3]),
    ] {
        // A window of answers that are the same.
        let mut samples = 0;
        while samples < 4 * 2 {
            now = node.wake_at().unwrap().max(now);
            while let Some(due) = node.poll(now) {
                for status in [200, 204, 301, 401] {
                    assert!(
                        due.demands.expected.contains(status),
                        "bodies of all are read"
                    );
                }
                let observation = hedgerow_origin::outcome::Observation::response(
                    now,
                    Duration::from_millis(5),
                    Response::complete(answer),
                );
                node.finished(due.stream, observation, now);
                samples += 1;
            }
        }
        let seen =
            ["plain", "app", "old"].map(|name| node.snapshot(name).unwrap().origins()[0].state);
        assert_eq!(seen, states, "{answer}");
        let shown = node.status("plain", now).unwrap();
        assert_eq!(shown.origins[0].last_status, Some(answer));
    }
}
