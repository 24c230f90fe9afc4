//! Behaviour 4: how many probes there are over time, on a clock that tests move.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_io::clock::{FastClock, TokioClock};
use hedgerow_origin::outcome::{Met, Reason, Response};
use hedgerow_origin::window::State;
use serde_json::json;
use tokio::time::{Instant, advance, sleep};

use crate::network::{Network, Running, Told, of};

const START: Timestamp = Timestamp::from_millis(1_893_456_000_000);

fn start(network: &Arc<Network>) -> Running {
    let network = Arc::<Network>::clone(network);
    Running::start(network, Arc::new(TokioClock::new(START)))
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Uses the groups every second for so long.
async fn use_all(running: &Running, groups: &[&str], for_s: u64) {
    for _ in 0..for_s {
        for name in groups {
            running.handle.group(name).unwrap().used();
        }
        sleep(seconds(1)).await;
    }
}

/// HP-076, HP-086: two groups on one target make no more probes than one, over a hundred intervals.
#[tokio::test(start_paused = true)]
async fn two_groups_share_their_probes() {
    for groups in [&["web"][..], &["web", "api"]] {
        let network = Arc::<Network>::default();
        let running = start(&network);
        for name in groups {
            running.handle.set(name, of(&["a", "b"], json!({}))).await;
        }
        use_all(&running, groups, 10).await;
        network.taken("a.example");
        use_all(&running, groups, 100 * 30).await;
        let count = network.taken("a.example").len();
        assert!((99..=101).contains(&count), "{groups:?}: {count}");
        running.stop().await;
    }
}

/// HP-082, HP-083: nobody uses the group: a half, a quarter, an eighth of the probes. HP-084: the first use brings one within a
/// second, and the interval is its own again.
#[tokio::test(start_paused = true)]
async fn an_idle_group_is_probed_less_until_it_is_used() {
    let network = Arc::<Network>::default();
    let running = start(&network);
    running.handle.set("web", of(&["a", "b"], json!({}))).await;
    sleep(seconds(300)).await;
    for (from, interval) in [(300, 60), (600, 120), (900, 240)] {
        // The first tick of a level may be one of the level before.
        sleep(seconds(60)).await;
        network.taken("a.example");
        sleep(seconds(240)).await;
        let count = network.taken("a.example").len() as u64;
        let expect = 240 / interval;
        assert!(count.abs_diff(expect) <= 1, "from {from} s: {count}");
    }
    sleep(seconds(240)).await;
    network.taken("a.example");
    let live = running.handle.group("web").unwrap();
    let used = Instant::now();
    live.used();
    sleep(seconds(2)).await;
    let woken = network.taken("a.example");
    assert_eq!(woken.len(), 1);
    assert!(woken[0] - used <= seconds(1), "{:?}", woken[0] - used);
    use_all(&running, &["web"], 300).await;
    let count = network.taken("a.example").len();
    assert!((9..=11).contains(&count), "{count}");
    running.stop().await;
}

/// HP-081, HP-062: a new origin is known within a few seconds, and is unknown before.
#[tokio::test(start_paused = true)]
async fn a_new_group_is_known_soon() {
    let network = Arc::<Network>::default();
    let running = start(&network);
    running.handle.set("web", of(&["a", "b"], json!({}))).await;
    let live = running.handle.group("web").unwrap();
    let mut reader = live.reader();
    let states = |current: &hedgerow_prober::Current| {
        let origins = current.snapshot.origins().iter();
        origins.map(|view| view.state).collect::<Vec<_>>()
    };
    assert_eq!(states(reader.current()), [State::Unknown; 2]);
    sleep(seconds(4)).await;
    assert_eq!(states(reader.current()), [State::Healthy; 2]);
    assert_eq!(states(&live.current()), [State::Healthy; 2]);
    let shown = running.handle.status("web").await.unwrap();
    assert!(!shown.origins[0].provisional);
    running.stop().await;
}

/// HP-029: with a clock that runs 3,600 times as fast, the probes of a stream are 250 ms apart at least; and a probe that is
/// answered at once is in time.
#[tokio::test(start_paused = true)]
async fn a_fast_clock_makes_no_flood() {
    let network = Arc::<Network>::default();
    let speed = NonZeroU32::new(3_600).unwrap();
    let clock = Arc::new(FastClock::on_tokio(speed, START));
    let running = Running::start(Arc::<Network>::clone(&network), clock);
    running.handle.set("web", of(&["a", "b"], json!({}))).await;
    sleep(seconds(10)).await;
    let at = network.taken("a.example");
    assert!(at.len() >= 30, "{}", at.len());
    for pair in at.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(250));
    }
    let status = running.handle.status("web").await.unwrap();
    assert_eq!(status.origins[0].state, State::Healthy);
    running.stop().await;
}

/// HP-006, HP-049: the probe of an origin that is removed is dropped, and is no sample; other streams live on.
#[tokio::test(start_paused = true)]
async fn probes_of_what_is_removed_are_dropped() {
    let network = Arc::<Network>::default();
    network.is_silent.store(true, Ordering::SeqCst);
    let running = start(&network);
    running.handle.set("web", of(&["a", "b"], json!({}))).await;
    sleep(seconds(1)).await;
    running.kept.take();
    running.handle.set("web", of(&["b", "c"], json!({}))).await;
    let dropped = Told::Aborted("its origin is no longer probed".to_owned());
    let told = running.kept.take();
    assert_eq!(
        told.iter().filter(|told| **told == dropped).count(),
        1,
        "{told:?}"
    );
    let live = running.handle.group("web").unwrap();
    let current = live.current();
    assert_eq!(
        current.group.settings().origins.len(),
        current.snapshot.origins().len()
    );
    running.handle.remove("web").await;
    network.taken("b.example");
    sleep(seconds(10)).await;
    assert!(network.taken("b.example").is_empty());
    assert!(live.is_gone());
    running.stop().await;
}

/// HP-191: three deadlines that are noticed late are our own fault, the fourth is the origin's.
#[tokio::test(start_paused = true)]
async fn a_busy_prober_does_not_blame_its_origins() {
    let network = Arc::<Network>::default();
    network.is_silent.store(true, Ordering::SeqCst);
    let running = start(&network);
    // One origin, so that it is in step with the test.
    let settings = json!({"probe": {"interval_s": 5, "timeout_s": 5}});
    running.handle.set("web", of(&["a"], settings)).await;
    let mut ends = Vec::new();
    for _ in 0..600 {
        // The timers of two seconds fire at once.
        advance(seconds(2)).await;
        tokio::task::yield_now().await;
        sleep(Duration::from_millis(1)).await;
        for told in running.kept.take() {
            match told {
                Told::Probed(observation) => ends.push(Some(observation.met)),
                Told::Aborted(_) => ends.push(None),
                Told::Happened(_) => {}
            }
        }
        if ends.len() >= 8 {
            break;
        }
    }
    let late = ends.iter().filter(|end| end.is_none()).count();
    let counted = ends.iter().flatten();
    assert!(counted.clone().count() >= 1 && late >= 3, "{ends:?}");
    for met in counted {
        assert_eq!(*met, Met::Failure(Reason::Timeout));
    }
    let in_a_row = ends.split(Option::is_some).map(<[_]>::len).max();
    assert_eq!(in_a_row, Some(3), "{ends:?}");
    running.stop().await;
}

/// HP-192: five failed requests bring a probe at once; a success in between, or an answer that is none, does not.
#[tokio::test(start_paused = true)]
async fn failed_requests_bring_a_probe() {
    let network = Arc::<Network>::default();
    let running = start(&network);
    running.handle.set("web", of(&["a", "b"], json!({}))).await;
    use_all(&running, &["web"], 10).await;
    let live = running.handle.group("web").unwrap();
    let id = live.current().snapshot.origins()[0].id;
    let (refused, good) = (
        Met::Failure(Reason::ConnectRefused),
        Met::Response(Response::complete(404)),
    );
    for (met, probes) in [
        (vec![refused; 4], 0),
        (vec![good], 0),
        (vec![refused; 4], 0),
        (vec![refused], 1),
    ] {
        sleep(seconds(1)).await;
        network.taken("a.example");
        for met in met {
            live.met(id, met);
        }
        sleep(Duration::from_millis(100)).await;
        assert_eq!(network.taken("a.example").len(), probes);
    }
    running.stop().await;
}

/// HP-198: an origin that asks in an answer to a request not to be used is not, until a probe's answer says otherwise.
#[tokio::test(start_paused = true)]
async fn a_drained_origin_is_left_out() {
    let network = Arc::<Network>::default();
    let running = start(&network);
    running.handle.set("web", of(&["a", "b"], json!({}))).await;
    use_all(&running, &["web"], 10).await;
    let live = running.handle.group("web").unwrap();
    let mut reader = live.reader();
    let kept = |reader: &mut hedgerow_prober::Reader| {
        reader.current().snapshot.kept().unwrap().places.count()
    };
    assert_eq!(kept(&mut reader), 2);
    let id = live.current().snapshot.origins()[0].id;
    live.drained(id);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(kept(&mut reader), 1);
    use_all(&running, &["web"], 40).await;
    assert_eq!(kept(&mut reader), 2);
    running.stop().await;
}
