//! The groups of one node on a clock of the test's own: which probes are due, and what they change.

use std::time::Duration;

use hedgerow_origin::node::{Due, Event, Node, StreamId};
use hedgerow_origin::outcome::{Met, Observation, Reason, Response};
use hedgerow_origin::snapshot::Mode;
use hedgerow_origin::window::State;
use proptest::prelude::*;
use serde_json::json;

use crate::world::{A, B, GOOD, REFUSED, World, group, of};

/// HP-076: two groups with one target and the default interval make two probes a minute together, after the start burst.
#[test]
fn two_groups_on_one_target_make_no_more_probes_than_one() {
    let mut world = World::new(1);
    world.set("web", &of(&["a", "b"], json!({})));
    world.set("api", &of(&["a", "c"], json!({})));
    world.used = vec!["web", "api"];
    world.run_s(10);
    world.sent.clear();
    world.run_s(600);
    let count = world.counted(A);
    assert!((19..=21).contains(&count), "{count}");
}

/// HP-081: the first probe comes within a second, the burst a second apart, and it ends when the window is decided.
#[test]
fn a_new_origin_is_known_soon() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        let start = world.now;
        world.set("web", &of(&["a", "b"], json!({})));
        world.run_s(10);
        let sent = &world.sent[A];
        assert!(sent[0] - start <= Duration::from_secs(1));
        // 4/3: three successes decide it; then there is a tick every 30 s, somewhere.
        assert!((3..=4).contains(&sent.len()), "{sent:?}");
        for pair in sent[..3].windows(2) {
            assert_eq!(pair[1] - pair[0], Duration::from_secs(1));
        }
        assert_eq!(world.state("web", 0), State::Healthy);
    }
}

/// HP-081: a burst has no more than n samples, a second apart, or T/5 where that is more.
#[test]
fn a_burst_is_no_longer_than_the_window() {
    let mut world = World::new(3);
    let settings = json!({
        "probe": {"interval_s": 255, "timeout_s": 60},
        "load_balancing": {"sample_size": 5, "successful_samples_required": 5},
    });
    world.set("web", &of(&["a", "b"], settings));
    world.run_s(100);
    let sent = &world.sent[A];
    let is_burst = |pair: &&[Duration]| pair[1] - pair[0] == Duration::from_secs(12);
    assert_eq!(sent.windows(2).filter(is_burst).count(), 4, "{sent:?}");
}

/// HP-080, HP-086: over 100 intervals the number of probes is as expected, to one more or less, and no two are closer than
/// the jitter allows.
#[test]
fn lateness_does_not_add_up() {
    for seed in 0..10 {
        for interval_s in [5, 30, 255] {
            let mut world = World::new(seed);
            let settings = json!({"probe": {"interval_s": interval_s}});
            world.set("web", &of(&["a", "b"], settings));
            world.used = vec!["web"];
            world.run_s(300);
            world.sent.clear();
            world.run_s(interval_s * 100);
            let sent = world.sent[A].clone();
            assert!((99..=101).contains(&sent.len()), "{}", sent.len());
            let interval = Duration::from_secs(interval_s);
            for pair in sent.windows(2) {
                let gap = pair[1] - pair[0];
                assert!(
                    gap >= interval.mul_f64(0.79) && gap <= interval.mul_f64(1.21),
                    "{gap:?}"
                );
            }
        }
    }
}

/// HP-082, HP-083, HP-084: a group that nobody uses is probed less and less; its first use brings a probe within a second and
/// the full rate at once.
#[test]
fn idle_groups_are_probed_less() {
    let mut world = World::new(4);
    world.set("web", &of(&["a", "b"], json!({})));
    world.run_s(300);
    world.sent.clear();
    // Levels 1, 2 and 3: 60, 120 and 240 s.
    for (seconds, expect) in [(300, 4..=6), (300, 2..=3), (2_400, 9..=11)] {
        world.run_s(seconds);
        let count = world.counted(A);
        assert!(expect.contains(&count), "{count} in {seconds} s");
    }
    assert_eq!(world.node.status("web", world.now).unwrap().idle_level, 3);
    // Somewhere between two probes that are 240 s apart.
    let next = world.node.status("web", world.now).unwrap().origins[0]
        .next_due_ms
        .unwrap();
    world.run(Duration::from_millis(next) - world.now + Duration::from_secs(60));
    world.sent.clear();
    world.node.used("web", world.now);
    world.run_s(1);
    assert_eq!(world.counted(A), 1);
    world.used = vec!["web"];
    world.run_s(300);
    let count = world.counted(A);
    assert!((9..=11).contains(&count), "{count}");
}

/// HP-084 with HP-103: what is too old for the first use is said by I, however seldom an origin alone is probed.
#[test]
fn a_single_idle_origin_is_probed_at_once_too() {
    let mut world = World::new(4);
    world.set("web", &of(&["a"], json!({})));
    world.run_s(900);
    world.sent.clear();
    while world.counted(A) == 0 {
        world.run_s(1);
    }
    world.run_s(60);
    assert_eq!(world.counted(A), 0, "less often than every 60 s");
    world.node.used("web", world.now);
    world.run_s(1);
    assert_eq!(world.counted(A), 1);
}

/// HP-103, HP-105: one origin alone is probed four times less; a second one ends that at once.
#[test]
fn a_single_origin_is_probed_less() {
    let mut world = World::new(5);
    world.used = vec!["web"];
    world.set("web", &of(&["a"], json!({})));
    world.run_s(200);
    world.sent.clear();
    world.run_s(1_200);
    let count = world.counted(A);
    assert!((9..=11).contains(&count), "{count}");
    world.set("web", &of(&["a", "b"], json!({})));
    world.run_s(1);
    assert!(world.sent.contains_key(A) && world.sent.contains_key(B));
    world.run_s(10);
    world.sent.clear();
    world.run_s(300);
    let count = world.counted(A);
    assert!((9..=11).contains(&count), "{count}");
}

/// HP-117: I = 60, T = 30, u = 4, all samples fail: not unhealthy before 180 s, jitter aside.
#[test]
fn a_starting_container_is_not_judged_too_early() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.down = vec!["a", "b"];
        world.used = vec!["web"];
        world.set(
            "web",
            &of(&["a", "b"], json!({"profile": "slow_start_container"})),
        );
        let start = world.now;
        while world.state("web", 0) == State::Unknown {
            world.run_s(1);
        }
        assert_eq!(world.state("web", 0), State::Unhealthy);
        let after = (world.now - start).as_secs();
        // Jitter is a tenth of the interval to either side.
        assert!((174..=188).contains(&after), "{after}");
        assert_eq!(world.sent[A].len(), 4);
    }
}

/// HP-006, HP-007: a change keeps the windows of targets that did not change, and makes new ones for those that did.
#[test]
fn a_change_keeps_the_windows_of_the_same_targets() {
    let mut world = World::new(6);
    world.set("web", &of(&["a", "b"], json!({})));
    world.run_s(60);
    let id = world.node.snapshot("web").unwrap().origins()[0].id;
    let longer = json!({"probe": {"interval_s": 60}, "load_balancing": {"sample_size": 2, "successful_samples_required": 1}});
    world.set("web", &of(&["a", "b"], longer));
    let status = world.node.status("web", world.now).unwrap();
    assert_eq!(
        (status.origins[0].state, status.origins[0].samples),
        (State::Healthy, 2)
    );
    assert_eq!(world.node.snapshot("web").unwrap().origins()[0].id, id);
    world.set(
        "web",
        &of(&["a", "b"], json!({"probe": {"path": "/ready"}})),
    );
    let status = world.node.status("web", world.now).unwrap();
    assert_eq!(
        (status.origins[0].state, status.origins[0].samples),
        (State::Unknown, 0)
    );
    let ended = |event: &&Event| matches!(event, Event::StreamEnded(_));
    assert_eq!(world.node.take_events().iter().filter(ended).count(), 2);
    world.sent.clear();
    world.run_s(1);
    assert!(world.sent.contains_key("http://a.example:80/ready"));
    assert!(!world.sent.contains_key(A));
}

/// HP-006, HP-030, HP-031, HP-073, HP-075: disabling drops the window, unless another group kept the stream alive; the
/// interval follows who is left.
#[test]
fn disabling_and_enabling() {
    let disabled = |is_enabled: bool| {
        group(&json!({
            "probe": {"interval_s": 10},
            "origins": [
                {"name": "a", "host": "a.example", "enabled": is_enabled},
                {"name": "b", "host": "b.example"},
                {"name": "c", "host": "c.example"},
            ],
        }))
    };
    let mut world = World::new(7);
    world.used = vec!["web", "api"];
    world.set("web", &disabled(true));
    world.run_s(60);
    world.set("web", &disabled(false));
    world.sent.clear();
    world.run_s(60);
    assert_eq!(world.counted(A), 0);
    world.set("web", &disabled(true));
    assert_eq!(world.state("web", 0), State::Unknown);
    world.run_s(1);
    assert_eq!(world.counted(A), 1);
    // Now with another group on it.
    world.set(
        "api",
        &of(&["a", "d"], json!({"probe": {"interval_s": 60}})),
    );
    assert_eq!(
        world.state("api", 0),
        State::Healthy,
        "it sees the samples that there are"
    );
    world.run_s(20);
    world.set("web", &disabled(false));
    let status = world.node.status("api", world.now).unwrap();
    assert_eq!(status.origins[0].effective_interval_s, Some(60.0));
    assert_eq!(status.origins[0].groups, ["api"]);
    world.run_s(60);
    world.set("web", &disabled(true));
    assert_eq!(world.state("web", 0), State::Healthy, "the stream lived on");
    let status = world.node.status("api", world.now).unwrap();
    assert_eq!(status.origins[0].effective_interval_s, Some(10.0));
    assert_eq!(status.origins[0].groups, ["api", "web"]);
    world.node.remove("web", world.now);
    world.node.remove("api", world.now);
    assert_eq!(world.node.wake_at(), None);
}

/// HP-027, HP-049: a tick while a probe is in flight is skipped and counted; a probe that was none is no sample.
#[test]
fn one_probe_at_a_time() {
    let mut world = World::new(8);
    world.set("web", &of(&["a", "b"], json!({})));
    world.run_s(0);
    let mut in_flight: Vec<Due> = Vec::new();
    for _ in 0..100 {
        world.now += Duration::from_millis(100);
        in_flight.extend(std::iter::from_fn(|| world.node.poll(world.now)));
    }
    assert_eq!(in_flight.len(), 2);
    let status = world.node.status("web", world.now).unwrap();
    assert!(status.origins[0].skipped_ticks >= 8);
    for due in &in_flight {
        world.node.aborted(due.stream);
    }
    let status = world.node.status("web", world.now).unwrap();
    assert_eq!(
        (status.origins[0].samples, status.origins[0].probe_aborted),
        (0, 1)
    );
    world.run_s(2);
    assert_eq!(world.state("web", 0), State::Healthy);
}

/// HP-190: no second has more than the budget, one origin gets one a second; what waits is sent, oldest first.
#[test]
fn what_is_over_the_budget_waits() {
    let mut node = Node::new(9, 10);
    let mut now = Duration::from_secs(1_000);
    let names: Vec<String> = (0..50).map(|number| format!("h{number}")).collect();
    let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
    node.set(
        "web",
        of(&hosts, json!({"probe": {"interval_s": 255}})),
        now,
    );
    let mut starts: Vec<(Duration, Duration, StreamId)> = Vec::new();
    for _ in 0..1_200 {
        while let Some(due) = node.poll(now) {
            starts.push((now, due.delayed, due.stream));
        }
        now += Duration::from_millis(10);
    }
    assert_eq!(starts.len(), 50, "each is sent");
    for window in starts.windows(11) {
        assert!(window[10].0 - window[0].0 >= Duration::from_secs(1));
    }
    assert!(starts.last().unwrap().1 >= Duration::from_secs(3));
    let due_at: Vec<Duration> = starts
        .iter()
        .map(|(at, delayed, _)| *at - *delayed)
        .collect();
    assert!(due_at.is_sorted(), "{due_at:?}");
}

/// HP-192, HP-193: five failures of real requests bring a probe at once; with ejection they are samples too, for half of the
/// origins.
#[test]
fn real_failures_ask_for_a_probe() {
    let mut world = World::new(10);
    let both = of(&["a", "b"], json!({"passive_ejection": true}));
    world.set("web", &both);
    world.used = vec!["web"];
    world.run_s(20);
    world.sent.clear();
    let ids: Vec<u32> = world
        .node
        .snapshot("web")
        .unwrap()
        .origins()
        .iter()
        .map(|o| o.id)
        .collect();
    for _ in 0..4 {
        world.node.met("web", ids[0], REFUSED, world.now);
    }
    world.node.met("web", ids[0], GOOD, world.now);
    for _ in 0..5 {
        world.node.met("web", ids[0], REFUSED, world.now);
    }
    assert_eq!(world.state("web", 0), State::Unhealthy);
    for _ in 0..5 {
        world.node.met("web", ids[1], REFUSED, world.now);
    }
    assert_eq!(world.state("web", 1), State::Healthy, "half are left");
    world.send();
    assert_eq!(world.sent.keys().collect::<Vec<_>>(), [A, B]);
    // Off, they are no samples.
    let mut world = World::new(11);
    world.set("web", &of(&["a", "b"], json!({})));
    world.run_s(20);
    world.sent.clear();
    let id = world.node.snapshot("web").unwrap().origins()[0].id;
    for _ in 0..5 {
        world.node.met("web", id, REFUSED, world.now);
    }
    assert_eq!(world.state("web", 0), State::Healthy);
    world.send();
    assert_eq!(world.counted(A), 1);
}

/// HP-090, HP-093, HP-095, FC-23: all unhealthy fails open and is told once; the first that recovers takes all.
#[test]
fn everything_down_and_one_back() {
    let mut world = World::new(12);
    world.set("web", &of(&["a", "b"], json!({})));
    world.run_s(60);
    world.node.take_events();
    world.down = vec!["a", "b"];
    world.run_s(120);
    let snapshot = world.node.snapshot("web").unwrap();
    assert_eq!(snapshot.kept().unwrap().mode, Mode::FailOpen);
    let told = |world: &mut World| -> Vec<bool> {
        let events = world.node.take_events().into_iter();
        events
            .filter_map(|event| match event {
                Event::GroupAllUnhealthy { is_entered, .. } => Some(is_entered),
                _ => None,
            })
            .collect()
    };
    assert_eq!(told(&mut world), [true]);
    // A change of the group is no change of its state.
    world.set("web", &of(&["a", "b"], json!({})));
    world.run_s(60);
    assert_eq!(told(&mut world), [] as [bool; 0]);
    world.down = vec!["a"];
    world.run_s(200);
    let kept = world.node.snapshot("web").unwrap().kept().unwrap();
    assert_eq!(
        (kept.mode, kept.places.iter().collect::<Vec<_>>()),
        (Mode::Normal, vec![1])
    );
    assert_eq!(told(&mut world), [false]);
    // Nor does a group stay in it that is taken away.
    world.down = vec!["a", "b"];
    world.run_s(120);
    assert_eq!(told(&mut world), [true]);
    world.node.remove("web", world.now);
    assert_eq!(told(&mut world), [false]);
}

/// HP-197: windows outlive a restart, provisionally, if they are younger than 2·n·I.
#[test]
fn windows_outlive_a_restart() {
    let mut world = World::new(13);
    let web = of(&["a", "b"], json!({}));
    world.down = vec!["b"];
    world.set("web", &web);
    world.run_s(100);
    let text = serde_json::to_string(&world.node.save()).unwrap();
    for (away_s, is_kept) in [(200, true), (300, false)] {
        let mut back = World::new(14);
        back.now = world.now + Duration::from_secs(away_s);
        back.down = vec!["b"];
        back.node.restore(serde_json::from_str(&text).unwrap());
        back.set("web", &web);
        let expect = if is_kept {
            (State::Healthy, State::Unhealthy)
        } else {
            (State::Unknown, State::Unknown)
        };
        assert_eq!(
            (back.state("web", 0), back.state("web", 1)),
            expect,
            "{away_s} s"
        );
        let status = back.node.status("web", back.now).unwrap();
        assert!(status.origins[0].provisional);
        back.run_s(3);
        let status = back.node.status("web", back.now).unwrap();
        assert!(!status.origins[0].provisional);
        assert!(!back.sent[A].is_empty());
    }
}

/// HP-198: an origin drains by a probe's answer, and until one comes without it.
#[test]
fn draining_by_a_probes_answer() {
    let mut node = Node::new(15, 500);
    let mut now = Duration::from_secs(1);
    node.set("web", of(&["a", "b"], json!({})), now);
    let mut drains = true;
    let mut usable = Vec::new();
    for second in 0..60 {
        drains = if second < 20 { drains } else { false };
        while let Some(due) = node.poll(now) {
            let response = Response {
                drains: drains && due.target.host == "a.example",
                ..Response::complete(200)
            };
            let observation = Observation::response(now, Duration::from_millis(1), response);
            node.finished(due.stream, observation, now);
        }
        usable.push(node.snapshot("web").unwrap().is_usable(0));
        now += Duration::from_secs(1);
    }
    assert!(!usable[5] && !usable[19] && usable[59], "{usable:?}");
}

/// HP-106, HP-065, HP-207: what people see.
#[test]
fn what_the_status_says() {
    let mut world = World::new(16);
    world.used = vec!["web"];
    world.set("web", &of(&["a", "b"], json!({"probe": {"interval_s": 5}})));
    world.run_s(100);
    world.down = vec!["a"];
    world.run_s(60);
    let status = world.node.status("web", world.now).unwrap();
    assert_eq!((status.mode, status.all_unhealthy), ("normal", false));
    assert!((status.worst_detection_s - 15.0).abs() < 1e-9);
    let [a, b] = &status.origins[..] else {
        panic!()
    };
    assert_eq!(
        (a.state, a.kept, a.successes, a.samples),
        (State::Unhealthy, false, 0, 4)
    );
    assert_eq!(a.last_reason, Some(Reason::ConnectRefused));
    assert_eq!(a.health_percentage_1m, Some(0.0));
    let percentage = a.health_percentage_5m.unwrap();
    assert!((55.0..=75.0).contains(&percentage), "{percentage}");
    assert_eq!(
        (b.share.as_deref(), b.latency_us, b.last_status),
        (Some("1"), Some(5_000), Some(200))
    );
    assert_eq!(b.probe.as_deref(), Some("HEAD http://b.example:80/"));
    assert!(serde_json::to_value(&status).unwrap()["origins"][0]["state"] == "unhealthy");
}

#[derive(Debug, Clone)]
enum Step {
    Set(usize, u8, u32),
    Remove(usize),
    Wait(u64),
    Use(usize),
    Fail(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_usize, 0..8_u8, 5..40_u32).prop_map(|(g, hosts, i)| Step::Set(g, hosts, i)),
        (0..3_usize).prop_map(Step::Remove),
        (0..100_u64).prop_map(Step::Wait),
        (0..3_usize).prop_map(Step::Use),
        (0..3_usize).prop_map(Step::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// HP-006, HP-027, HP-071: whatever happens to groups, each enabled origin has one stream that runs at the lowest interval
    /// of its groups, probes go on, and nothing is probed for nobody.
    #[test]
    fn whatever_happens_every_origin_is_probed(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..16),
    ) {
        const NAMES: [&str; 3] = ["g0", "g1", "g2"];
        const HOSTS: [&str; 3] = ["a", "b", "c"];
        let mut world = World::new(seed);
        for step in steps {
            match step {
                Step::Set(at, hosts, interval_s) => {
                    let mut hosts: Vec<&str> =
                        HOSTS.iter().enumerate().filter(|(bit, _)| hosts & (1 << bit) != 0).map(|(_, h)| *h).collect();
                    if hosts.is_empty() { hosts.push("a"); }
                    world.set(NAMES[at], &of(&hosts, json!({"probe": {"interval_s": interval_s}})));
                }
                Step::Remove(at) => world.node.remove(NAMES[at], world.now),
                Step::Wait(seconds) => world.run_s(seconds),
                Step::Use(at) => world.node.used(NAMES[at], world.now),
                Step::Fail(at) => {
                    if let Some(snapshot) = world.node.snapshot(NAMES[at]) {
                        let id = snapshot.origins()[0].id;
                        for _ in 0..5 {
                            world.node.met(NAMES[at], id, Met::Failure(Reason::Timeout), world.now);
                        }
                    }
                }
            }
        }
        world.sent.clear();
        world.run_s(300);
        let names: Vec<String> = world.node.names().map(str::to_owned).collect();
        let mut probed: Vec<String> = Vec::new();
        for name in &names {
            let status = world.node.status(name, world.now).unwrap();
            for origin in &status.origins {
                let url = origin.probe.as_ref().unwrap().trim_start_matches("HEAD ").to_owned();
                prop_assert!(world.sent.contains_key(&url));
                let own = status.effective_interval_s;
                prop_assert!(origin.effective_interval_s.unwrap() <= own);
                prop_assert!(origin.groups.contains(name));
                probed.push(url);
            }
        }
        prop_assert!(world.sent.keys().all(|url| probed.contains(url)));
    }
}
