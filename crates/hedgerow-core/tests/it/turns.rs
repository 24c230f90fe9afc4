//! Whose turn it is behind one endpoint: nobody is starved by those that hang, and nobody exceeds what the endpoint takes
//! (design D7).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hedgerow_core::credit::{CreditSettings, Lane, Signal};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::{Now, Timestamp};
use hedgerow_core::turns::{Leave, Room, SLOW_AFTER, Turn, Turns};
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(30);
const QUICKLY: Duration = Duration::from_millis(50);
const ROOM: Room = Room {
    is_store_full: false,
    has_record_room: true,
    has_slow_room: true,
};

/// How a subscription's endpoint behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Path {
    /// Answers at once.
    Answers,
    /// Answers after so many milliseconds.
    Takes(u64),
    Hangs,
    /// Hangs in every second attempt.
    Flaps,
    /// Says that it has too much to do, at once.
    Busy,
}

/// An endpoint with subscriptions that always have something to deliver, in a time of its own.
struct World {
    turns: Turns,
    settings: CreditSettings,
    begun: Instant,
    now: Duration,
    paths: Vec<Path>,
    attempts: Vec<u32>,
    /// Attempts that run, by when they end.
    running: BTreeMap<(Duration, u64), (Leave, Signal)>,
    started: u64,
    /// When each asked for the turn that it waits for.
    asked: Vec<Option<Duration>>,
    longest_wait: Vec<Duration>,
}

impl World {
    fn new(settings: CreditSettings, paths: &[Path]) -> Self {
        Self {
            turns: Turns::new(settings),
            settings,
            begun: Instant::now(),
            now: Duration::ZERO,
            paths: paths.to_vec(),
            attempts: vec![0; paths.len()],
            running: BTreeMap::new(),
            started: 0,
            asked: vec![None; paths.len()],
            longest_wait: vec![Duration::ZERO; paths.len()],
        }
    }

    fn at(&self) -> Now {
        Now {
            timestamp: Timestamp::from_millis(1_000_000).plus(self.now),
            instant: self.begun + self.now,
        }
    }

    /// Everybody asks, and whoever may starts.
    fn start(&mut self) {
        for id in 0..self.paths.len() {
            self.ask(id);
        }
        while let Turn::Of(subscription, leave) = self.turns.next(self.at(), ROOM) {
            let id = usize::try_from(subscription.0).unwrap();
            let waited = self
                .now
                .saturating_sub(self.asked[id].take().expect("it asked"));
            self.longest_wait[id] = self.longest_wait[id].max(waited);
            self.attempts[id] += 1;
            let (takes, signal) = match self.paths[id] {
                Path::Answers => (QUICKLY, Signal::Success),
                Path::Takes(millis) => {
                    // Not all of them end at once.
                    let more = self.started * 37 % 101;
                    (Duration::from_millis(millis + more), Signal::Success)
                }
                Path::Flaps if self.attempts[id].is_multiple_of(2) => (QUICKLY, Signal::Success),
                Path::Hangs | Path::Flaps => (TIMEOUT, Signal::Overload),
                Path::Busy => (QUICKLY, Signal::Overload),
            };
            self.started += 1;
            let ends = (self.now + takes, self.started);
            self.running.insert(ends, (leave, signal));
            self.check();
            self.ask(id);
        }
    }

    fn ask(&mut self, id: usize) {
        self.turns.ask(SubscriptionId(u32::try_from(id).unwrap()));
        self.asked[id].get_or_insert(self.now);
    }

    fn check(&self) {
        let credits = self.turns.credits();
        assert!((self.settings.min..=self.settings.max).contains(&credits.limit()));
        assert_eq!(credits.in_flight() as usize, self.running.len());
        // Each was proven once, and may have had all credits then; new ones have one each.
        let members = u32::try_from(self.paths.len()).unwrap();
        let without = members * self.settings.max;
        assert!(credits.in_flight() <= self.settings.max + without);
    }

    /// Lets time pass.
    fn run(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            self.start();
            let ends = self.running.first_key_value().map(|(key, _)| key.0);
            let old = self.turns.next_to_grow_old().map(|at| at - self.begun);
            let next = ends.into_iter().chain(old).min().unwrap_or(until);
            if next > until {
                break;
            }
            self.now = next;
            self.turns.grow_older(self.at().instant);
            while let Some(first) = self.running.first_entry()
                && first.key().0 <= self.now
            {
                let (leave, signal) = first.remove();
                self.turns.release(leave, signal, self.at());
            }
        }
        self.now = until;
    }
}

fn settings(start: u32, min: u32, max: u32) -> CreditSettings {
    CreditSettings { start, min, max }
}

/// The neighbour of a path that hangs waits a second for it once, and not for its timeouts.
#[test]
fn who_answers_does_not_wait_for_who_hangs() {
    let mut world = World::new(CreditSettings::default(), &[Path::Hangs, Path::Answers]);
    world.run(TIMEOUT * 20);
    assert!(
        world.longest_wait[1] <= SLOW_AFTER,
        "{:?}",
        world.longest_wait
    );
    assert!(world.attempts[1] > 12_000, "{:?}", world.attempts);
    assert!(world.attempts[0] > 20, "nor is the one that hangs given up");
}

/// Neither where hundreds hang: each is found out once, and their timeouts take nothing from others.
#[test]
fn one_that_answers_among_hundreds_that_hang() {
    let mut paths = vec![Path::Hangs; 300];
    paths.push(Path::Answers);
    let mut world = World::new(CreditSettings::default(), &paths);
    world.run(TIMEOUT * 2);
    // 16 of them are found out every second.
    let first = world.longest_wait[300];
    assert!(first <= Duration::from_secs(300 / 16 + 1), "{first:?}");
    world.longest_wait[300] = Duration::ZERO;
    world.run(TIMEOUT * 20);
    assert!(world.longest_wait[300] <= QUICKLY * 2);
    let credits = world.turns.credits();
    assert!(credits.slow() <= credits.half(), "{credits:?}");
    assert!(world.attempts[..300].iter().all(|count| *count > 0));
}

/// Who is known to answer waits for nobody, however many new ones hang.
#[test]
fn who_is_proven_does_not_wait_for_new_ones() {
    let mut world = World::new(CreditSettings::default(), &[Path::Answers]);
    world.run(TIMEOUT);
    for _ in 0..300 {
        world.paths.push(Path::Hangs);
        world.attempts.push(0);
        world.asked.push(None);
        world.longest_wait.push(Duration::ZERO);
    }
    world.run(TIMEOUT * 4);
    let longest = world.longest_wait[0];
    assert!(longest <= QUICKLY * 2, "{longest:?}");
    assert!(world.attempts[1..].iter().all(|count| *count > 0));
}

/// One that hangs half of the time is not taken for one that answers for long.
#[test]
fn nor_for_one_that_hangs_now_and_then() {
    let mut world = World::new(CreditSettings::default(), &[Path::Flaps, Path::Answers]);
    world.run(TIMEOUT * 20);
    assert!(
        world.longest_wait[1] <= SLOW_AFTER,
        "{:?}",
        world.longest_wait
    );
}

/// A host that has too much to do gets less: as few attempts as the limit says, in both lanes.
#[test]
fn an_overloaded_host_is_spared() {
    for path in [Path::Hangs, Path::Busy] {
        let mut world = World::new(settings(64, 2, 256), &[path; 5]);
        world.run(TIMEOUT * 20);
        assert_eq!(world.turns.credits().in_flight(), 2, "{path:?}");
    }
}

/// Whoever takes longer than a second, and is alone, gets every credit, and more of them.
#[test]
fn slow_successes_are_no_reason_to_hold_back() {
    let mut world = World::new(settings(16, 2, 64), &[Path::Takes(3_000)]);
    world.run(Duration::from_secs(600));
    let credits = world.turns.credits();
    assert_eq!((credits.slow_limit(), credits.in_flight()), (64, 64));
}

/// Beside others it gets half of them, and still more of them.
#[test]
fn slow_successes_raise_the_limit_beside_others() {
    let mut world = World::new(settings(16, 2, 64), &[Path::Takes(3_000), Path::Takes(500)]);
    world.run(Duration::from_secs(600));
    let credits = world.turns.credits();
    assert_eq!((credits.limit(), credits.slow()), (64, 32));
}

/// What was learnt of a subscription goes with it.
#[test]
fn who_comes_back_is_new() {
    let mut world = World::new(settings(4, 2, 8), &[Path::Hangs, Path::Answers]);
    world.run(SLOW_AFTER * 2);
    let id = SubscriptionId(0);
    assert_eq!(world.turns.lane(id), Lane::Slow);
    world.turns.leave(id);
    assert!(!world.turns.is_waiting(id));
    world.turns.ask(id);
    assert_eq!(world.turns.lane(id), Lane::Quick);
}

fn paths() -> impl Strategy<Value = Vec<Path>> {
    let path = prop_oneof![
        Just(Path::Answers),
        (1_u64..5_000).prop_map(Path::Takes),
        Just(Path::Hangs),
        Just(Path::Flaps),
        Just(Path::Busy),
    ];
    proptest::collection::vec(path, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whoever asks gets a turn in bounded time, whatever the others do; and whoever answers at once soon.
    #[test]
    fn nobody_starves(paths in paths(), start in 2_u32..20, max in 20_u32..64) {
        let mut world = World::new(settings(start, 2, max), &paths);
        world.run(TIMEOUT * 5);
        for (id, path) in paths.iter().enumerate() {
            let since = world.asked[id].map_or(Duration::ZERO, |asked| world.now.saturating_sub(asked));
            let waited = world.longest_wait[id].max(since);
            let others = u32::try_from(paths.len()).unwrap();
            // Each of the others is found out in a second, unless it answers first.
            let bound = match path {
                Path::Answers => SLOW_AFTER * others,
                _ => TIMEOUT * (others + 1),
            };
            prop_assert!(waited <= bound, "{path:?} waited {waited:?} of {:?}", world.longest_wait);
        }
    }

}

proptest! {
    /// In any order of events, quick attempts never start above the limit, and slow ones are bounded.
    #[test]
    fn never_above_the_limit(
        steps in proptest::collection::vec((0_u8..6, 0_u32..6, 0_u64..1_500), 1..200),
        start in 1_u32..10,
        max in 10_u32..20,
    ) {
        let mut turns = Turns::new(settings(start, 1, max));
        let (begun, mut passed) = (Instant::now(), 0);
        let mut leaves = Vec::new();
        for (step, which, millis) in steps {
            passed += millis;
            let now = Now {
                timestamp: Timestamp::from_millis(passed),
                instant: begun + Duration::from_millis(passed),
            };
            match step {
                0 | 1 => turns.ask(SubscriptionId(which)),
                2 | 3 => {
                    if let Turn::Of(_, leave) = turns.next(now, ROOM) {
                        let credits = turns.credits();
                        prop_assert!(credits.quick() <= credits.limit());
                        // New ones stop at that; who was proven has had the quick lane at most.
                        prop_assert!(credits.slow() <= credits.slow_max() + 6 * max);
                        leaves.push(leave);
                    }
                }
                4 if !leaves.is_empty() => {
                    let leave = leaves.swap_remove(which as usize % leaves.len());
                    let signals = [Signal::Success, Signal::Overload, Signal::Neutral, Signal::GivenUp];
                    turns.release(leave, signals[millis as usize % 4], now);
                }
                _ => turns.leave(SubscriptionId(which)),
            }
            prop_assert_eq!(turns.credits().in_flight() as usize, leaves.len());
        }
    }
}

/// Who hung once and answers within a second again is quick again, as soon as nothing of it has been open for longer.
#[test]
fn who_answers_again_is_quick_again() {
    let id = SubscriptionId(1);
    let mut turns = Turns::new(settings(16, 2, 64));
    let begun = Instant::now();
    let at = |millis: u64| Now {
        timestamp: Timestamp::from_millis(1_000_000 + millis),
        instant: begun + Duration::from_millis(millis),
    };
    let start = |turns: &mut Turns, millis| {
        turns.ask(id);
        match turns.next(at(millis), ROOM) {
            Turn::Of(_, leave) => leave,
            Turn::Nobody { .. } => panic!("there are credits"),
        }
    };
    let hanging = start(&mut turns, 0);
    turns.grow_older(at(1_000).instant);
    assert_eq!(turns.lane(id), Lane::Slow);
    let quick = start(&mut turns, 1_100);
    turns.release(quick, Signal::Success, at(1_200));
    assert_eq!(turns.lane(id), Lane::Slow, "one is open for longer");
    turns.release(hanging, Signal::Overload, at(30_000));
    assert_eq!(turns.lane(id), Lane::Slow, "it was not quick itself");
    let quick = start(&mut turns, 31_000);
    turns.release(quick, Signal::Success, at(31_050));
    assert_eq!(turns.lane(id), Lane::Quick);
}
