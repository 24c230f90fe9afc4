//! The health of an origin over time: grace, ramp, flap damping and changes.

use std::time::Duration;

use hedgerow_origin::health::{Health, Terms};
use hedgerow_origin::outcome::{Observation, Reason, Response};
use hedgerow_origin::threshold::Thresholds;
use hedgerow_origin::window::{Rules, State, Window};

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// n = x = 1: every sample is the state.
fn follows() -> Terms {
    Terms {
        rules: Rules {
            thresholds: Thresholds::new(1, 1).unwrap(),
            ..Rules::default()
        },
        ..Terms::default()
    }
}

struct Origin {
    window: Window,
    health: Health,
    terms: Terms,
}

impl Origin {
    fn new(terms: Terms) -> Self {
        Self {
            window: Window::new(terms.rules.thresholds),
            health: Health::new(at(0)),
            terms,
        }
    }

    /// A sample; whether the state changed.
    fn sample(&mut self, is_good: bool, second: u64) -> bool {
        let now = at(second);
        self.window.push(if is_good {
            Observation::response(now, at(0), Response::complete(200))
        } else {
            Observation::failure(now, at(0), Reason::ConnectRefused)
        });
        let change = self.health.judge(&self.window, &self.terms, now);
        change.is_some()
    }

    fn is_held_out(&self, second: u64) -> bool {
        self.health.is_held_out(&self.terms, at(second))
    }
}

/// HP-067: one event for a change, with what led to it; changes out of unknown are events and no transitions.
#[test]
fn a_change_says_what_led_to_it() {
    let terms = Terms::default();
    let mut window = Window::new(terms.rules.thresholds);
    let mut health = Health::new(at(0));
    let mut events = Vec::new();
    for (second, is_good) in [true, true, true, true, false, false, false]
        .iter()
        .enumerate()
    {
        let now = at(second as u64);
        window.push(if *is_good {
            Observation::response(now, at(1), Response::complete(200))
        } else {
            Observation::response(now, at(1), Response::complete(503))
        });
        events.extend(health.judge(&window, &terms, now));
    }
    let [first, second] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((first.from, first.to), (State::Unknown, State::Healthy));
    assert!(!first.is_transition() && second.is_transition());
    assert_eq!((second.from, second.to), (State::Healthy, State::Unhealthy));
    let numbers = (
        second.successes,
        second.samples,
        second.sample_size,
        second.required,
    );
    assert_eq!(numbers, (2, 4, 4, 3));
    assert_eq!(second.last_reason, Some(Reason::Status));
    assert_eq!(health.since(), at(5));
}

/// HP-115: while it starts an origin is unknown rather than unhealthy, until the grace ends or a success comes.
#[test]
fn an_origin_that_starts_has_grace() {
    let terms = Terms {
        grace: at(100),
        ..follows()
    };
    let mut origin = Origin::new(terms);
    assert!(!origin.sample(false, 1));
    assert_eq!(origin.health.state(), State::Unknown);
    assert_eq!(origin.health.next_change(&terms, at(1)), Some(at(100)));
    assert!(origin.health.tick(&terms, at(99)).is_none());
    let change = origin.health.tick(&terms, at(100)).unwrap();
    assert_eq!((change.from, change.to), (State::Unknown, State::Unhealthy));
    assert_eq!(origin.health.next_change(&terms, at(100)), None);
    // A success ends it, although there would be time left.
    let mut origin = Origin::new(terms);
    origin.sample(true, 1);
    assert!(origin.sample(false, 2));
    assert_eq!(origin.health.state(), State::Unhealthy);
}

/// HP-117: I = 60 s, T = 30 s, u = 4: not unhealthy before the fourth failure, at 180 s.
#[test]
fn a_starting_container_has_time() {
    let thresholds = Thresholds::from_unhealthy_threshold(5, 4).unwrap();
    let terms = Terms {
        rules: Rules {
            thresholds,
            waits_for_threshold: true,
            ..Rules::default()
        },
        ..Terms::default()
    };
    let mut origin = Origin::new(terms);
    for second in [0, 60, 120] {
        origin.sample(false, second);
        assert_eq!(origin.health.state(), State::Unknown, "{second}");
    }
    origin.sample(false, 180);
    assert_eq!(origin.health.state(), State::Unhealthy);
}

/// HP-194: with ramp 60 s and weight 50: 5 at 0 to 6 s, 10 at 12 s, 25 at 30 s, 50 from 60 s; and never 0.
#[test]
fn the_weight_of_one_that_came_back_rises() {
    let terms = Terms {
        ramp: at(60),
        ..follows()
    };
    let rows = [
        (0, 50, 5),
        (6, 50, 5),
        (12, 50, 10),
        (30, 50, 25),
        (59, 50, 49),
        (60, 50, 50),
        (9_999, 50, 50),
        (0, 1, 1),
        (30, 1_000, 500),
    ];
    // After it was added.
    let added = Health::new(at(0));
    for (second, weight, expect) in rows {
        assert_eq!(
            added.weight(weight, &terms, at(second)),
            expect,
            "{second} s"
        );
    }
    // And after it came back, at 1,000 s.
    let mut origin = Origin::new(terms);
    origin.sample(false, 500);
    origin.sample(true, 1_000);
    for (second, weight, expect) in rows {
        let weight = origin.health.weight(weight, &terms, at(1_000 + second));
        assert_eq!(weight, expect, "{second} s");
    }
    let next = origin.health.next_change(&terms, at(1_000)).unwrap();
    assert!(next > at(1_000) && next <= at(1_001));
    assert_eq!(origin.health.next_change(&terms, at(1_060)), None);
    // Off.
    assert_eq!(added.weight(50, &follows(), at(0)), 50);
}

/// HP-195: three changes in a short time hold it out, until the penalty has fallen to half.
#[test]
fn one_that_changes_too_often_is_held_out() {
    let terms = Terms {
        is_damped: true,
        ..follows()
    };
    let mut origin = Origin::new(terms);
    origin.sample(true, 0);
    for flap in 0..3 {
        assert!(!origin.is_held_out(flap * 2));
        origin.sample(false, flap * 2);
        origin.sample(true, flap * 2 + 1);
    }
    // 1000 · (2^(-4/300) + 2^(-2/300) + 1) is a little under 3000.
    assert!(!origin.is_held_out(5));
    origin.sample(false, 6);
    assert!(
        !origin.is_held_out(6),
        "it is unhealthy, and so not held out besides"
    );
    origin.sample(true, 7);
    assert!(origin.is_held_out(7));
    let release = origin.health.next_change(&terms, at(7)).unwrap();
    // At 6 s it is 1000 · (2^(-6/300) + 2^(-4/300) + 2^(-2/300) + 1) = 3972.4, and 1500 after 300 · log2(2.6483) = 421.5 s.
    assert_eq!(release.as_secs(), 427, "{release:?}");
    assert!(origin.is_held_out(427) && !origin.is_held_out(428));
    assert!(!origin.health.is_held_out(&terms, release));
}

/// HP-195: not longer than 900 s, however high the penalty; and off it is never.
#[test]
fn it_is_held_out_for_a_quarter_of_an_hour_at_most() {
    let terms = Terms {
        is_damped: true,
        ..follows()
    };
    let mut origin = Origin::new(terms);
    let mut free = Origin::new(follows());
    for second in 0..200 {
        origin.sample(second % 2 == 0, second);
        free.sample(second % 2 == 0, second);
    }
    // Held from the fourth fall on, at 7 s.
    origin.sample(true, 200);
    free.sample(true, 200);
    assert!(origin.is_held_out(906) && !origin.is_held_out(907));
    assert!(!free.is_held_out(200));
    let release = origin.health.next_change(&terms, at(200));
    assert_eq!(release, Some(at(907)));
}
