//! Choosing an origin, beyond the table `selection`.

use std::time::Duration;

use hedgerow_origin::selector::{Load, Selector};
use hedgerow_origin::settings::{FailOpen, Strategy};
use hedgerow_origin::snapshot::{Choosing, Mode, OriginView, Places, Refused, Snapshot};
use hedgerow_origin::window::State;

pub const CHOOSING: Choosing = Choosing {
    additional_latency_ms: 50,
    fail_open: FailOpen::All,
    has_probes: true,
    has_affinity: false,
    strategy: Strategy::Weighted,
    retry_after: Duration::from_secs(30),
};

pub fn healthy(id: u32, weight: u32) -> OriginView {
    OriginView {
        weight,
        ramp_weight: weight,
        ..OriginView::new(id, State::Healthy, Some(1_000))
    }
}

fn unhealthy(id: u32) -> OriginView {
    OriginView::new(id, State::Unhealthy, None)
}

fn ids(selector: &mut Selector, snapshot: &Snapshot, count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| selector.select(snapshot, None).unwrap().id)
        .collect()
}

/// HP-128: when the kept set changes, who stays keeps its counter, who comes starts at 0.
#[test]
fn counters_outlive_a_change_of_the_kept_set() {
    let all = Snapshot::new(CHOOSING, vec![healthy(1, 5), healthy(2, 1), healthy(3, 1)]);
    let without = Snapshot::new(CHOOSING, vec![healthy(1, 5), unhealthy(2), healthy(3, 1)]);
    let mut selector = Selector::new();
    // Counters of 1, 2, 3 after each: (-2 1 1) (-4 2 2) (1 -4 3).
    assert_eq!(ids(&mut selector, &all, 3), [1, 1, 2]);
    // 1 and 3 stay: (6 4) takes 1 (0 4), (5 5) takes 1 (-1 5), (4 6) takes 3 (4 0).
    assert_eq!(ids(&mut selector, &without, 3), [1, 1, 3]);
    // 2 is back, at 0: (9 1 1) takes 1 (2 1 1), (7 2 2) takes 1.
    assert_eq!(ids(&mut selector, &all, 2), [1, 1]);
}

/// HP-091, HP-093: failing open is a plain round robin whatever the counters were, and ends at once.
#[test]
fn failing_open_goes_round_and_ends_at_once() {
    let good = Snapshot::new(
        CHOOSING,
        vec![healthy(1, 1_000), healthy(2, 1), healthy(3, 1_000)],
    );
    let all_bad = Snapshot::new(
        CHOOSING,
        [(1, 1_000), (2, 1), (3, 1_000)]
            .map(|(id, weight)| OriginView {
                state: State::Unhealthy,
                ..healthy(id, weight)
            })
            .to_vec(),
    );
    assert!(all_bad.is_all_unhealthy() && !good.is_all_unhealthy());
    let mut selector = Selector::new();
    ids(&mut selector, &good, 1);
    assert_eq!(ids(&mut selector, &all_bad, 6), [1, 2, 3, 1, 2, 3]);
    let one = Snapshot::new(CHOOSING, vec![unhealthy(1), healthy(2, 1), unhealthy(3)]);
    assert_eq!(ids(&mut selector, &one, 3), [2, 2, 2]);
}

/// HP-092, HP-094, HP-175: why nothing is chosen, and when to ask again.
#[test]
fn nothing_to_choose_says_why() {
    let none = Choosing {
        fail_open: FailOpen::None,
        ..CHOOSING
    };
    let mut selector = Selector::new();
    let unhealthy_group = Snapshot::new(none, vec![unhealthy(1), unhealthy(2)]);
    let refused = selector.select(&unhealthy_group, None).unwrap_err();
    let retry_after = Duration::from_secs(30);
    assert_eq!(refused, Refused::GroupUnhealthy { retry_after });
    assert_eq!(refused.code(), "group_unhealthy");
    let disabled = OriginView {
        is_enabled: false,
        ..healthy(1, 1)
    };
    let empty = Snapshot::new(CHOOSING, vec![disabled]);
    assert_eq!(selector.select(&empty, None), Err(Refused::NoOrigin));
    assert!(!empty.is_all_unhealthy());
}

/// HP-173: a further attempt goes to one that was not tried, to lower priorities when the first is used up, and never to an
/// unhealthy one while the group is not unhealthy as a whole.
#[test]
fn a_retry_goes_to_one_not_yet_tried() {
    let second = OriginView {
        priority: 2,
        ..healthy(3, 50)
    };
    let snapshot = Snapshot::new(
        CHOOSING,
        vec![healthy(1, 50), healthy(2, 50), second, unhealthy(4)],
    );
    let mut selector = Selector::new();
    let first = selector.select(&snapshot, None).unwrap();
    let mut tried = Places::NONE.with(first.place);
    let mut then = Vec::new();
    while let Ok(next) = selector.select_untried(&snapshot, tried) {
        then.push(next.id);
        tried = tried.with(next.place);
    }
    assert_eq!((first.id, then), (1, vec![2, 3]));
    let all_bad = Snapshot::new(CHOOSING, vec![unhealthy(1), unhealthy(2)]);
    let next = selector
        .select_untried(&all_bad, Places::NONE.with(0))
        .unwrap();
    assert_eq!((next.id, next.mode), (2, Mode::FailOpen));
    // HP-204: in a group of one there is no other; the caller hedges over another connection.
    let single = Snapshot::new(CHOOSING, vec![healthy(1, 50)]);
    let refused = selector.select_untried(&single, Places::NONE.with(0));
    assert_eq!(refused, Err(Refused::NoOrigin));
}

/// HP-200: a further delivery of an event prefers another one of the kept, if there is one; first attempts of other events
/// keep their order.
#[test]
fn a_redelivery_prefers_another_origin() {
    let snapshot = Snapshot::new(CHOOSING, vec![healthy(1, 50), healthy(2, 50)]);
    let mut selector = Selector::new();
    for failed in [1, 2, 1, 1] {
        let choice = selector.select_other(&snapshot, Some(failed)).unwrap();
        assert_eq!(choice.id, 3 - failed);
    }
    assert_eq!(ids(&mut selector, &snapshot, 4), [1, 2, 1, 2]);
    // No longer kept, or none but it, or none yet: as a first attempt.
    let lone = Snapshot::new(CHOOSING, vec![healthy(1, 50), unhealthy(2)]);
    for failed in [Some(1), Some(2), None] {
        assert_eq!(selector.select_other(&lone, failed).unwrap().id, 1);
    }
}

/// HP-102, HP-104: alone it is chosen whatever its health; its cookie is written while it is not unhealthy, and once.
#[test]
fn alone_it_is_chosen_whatever_its_health() {
    let choosing = Choosing {
        has_affinity: true,
        fail_open: FailOpen::None,
        ..CHOOSING
    };
    let mut selector = Selector::new();
    for (state, pinned, set_affinity) in [
        (State::Healthy, None, true),
        (State::Unknown, None, true),
        (State::Unhealthy, None, false),
        (State::Healthy, Some(1), false),
        (State::Healthy, Some(7), true),
    ] {
        let snapshot = Snapshot::new(choosing, vec![OriginView::new(1, state, None)]);
        let choice = selector.select(&snapshot, pinned).unwrap();
        assert_eq!((choice.id, choice.mode), (1, Mode::Single));
        assert_eq!(choice.set_affinity, set_affinity, "{state:?} {pinned:?}");
    }
}

/// HP-143: a cookie that names nobody, or comes while affinity is off, is as if there were none.
#[test]
fn a_cookie_of_nobody_is_none() {
    let on = Choosing {
        has_affinity: true,
        ..CHOOSING
    };
    let origins = vec![healthy(1, 50), healthy(2, 50)];
    let snapshot = Snapshot::new(on, origins.clone());
    let choice = Selector::new().select(&snapshot, Some(9)).unwrap();
    assert_eq!((choice.mode, choice.set_affinity), (Mode::Normal, true));
    let off = Snapshot::new(CHOOSING, origins);
    let choice = Selector::new().select(&off, Some(2)).unwrap();
    assert_eq!(
        (choice.id, choice.mode, choice.set_affinity),
        (1, Mode::Normal, false)
    );
}

/// HP-194: on its ramp an origin gets less, unless no other is healthy.
#[test]
fn a_ramp_holds_beside_others_only() {
    let ramping = OriginView {
        ramp_weight: 5,
        ..healthy(1, 50)
    };
    let beside = Snapshot::new(CHOOSING, vec![ramping, healthy(2, 50)]);
    assert_eq!(beside.shares(), [(0, 1, 11), (1, 10, 11)]);
    let alone = Snapshot::new(CHOOSING, vec![ramping, unhealthy(2)]);
    assert_eq!(alone.origins()[0].ramp_weight, 50);
}

/// HP-195: the last healthy one is never held out.
#[test]
fn the_last_healthy_one_is_not_held_out() {
    let held = |id| OriginView {
        is_held_out: true,
        ..healthy(id, 50)
    };
    let kept = |origins| {
        let kept = Snapshot::new(CHOOSING, origins).kept().unwrap();
        (kept.mode, kept.places.iter().collect::<Vec<_>>())
    };
    assert_eq!(kept(vec![held(1), healthy(2, 50)]), (Mode::Normal, vec![1]));
    assert_eq!(kept(vec![held(1), unhealthy(2)]), (Mode::Normal, vec![0]));
}

/// HP-198: one that drains is as if disabled, unless that leaves none.
#[test]
fn one_that_drains_is_left_out_unless_all_do() {
    let draining = |id| OriginView {
        is_draining: true,
        ..healthy(id, 50)
    };
    let mut selector = Selector::new();
    let one = Snapshot::new(CHOOSING, vec![draining(1), healthy(2, 50), healthy(3, 50)]);
    assert_eq!(ids(&mut selector, &one, 4), [2, 3, 2, 3]);
    let all = Snapshot::new(CHOOSING, vec![draining(1), draining(2)]);
    assert_eq!(ids(&mut Selector::new(), &all, 4), [1, 2, 1, 2]);
}

/// HP-196: of two that are drawn the less loaded one; a draw decides which two.
#[test]
fn the_less_loaded_of_two() {
    let choosing = Choosing {
        strategy: Strategy::P2cEwma,
        ..CHOOSING
    };
    let snapshot = Snapshot::new(
        choosing,
        vec![healthy(1, 10), healthy(2, 30), healthy(3, 60)],
    );
    let mut selector = Selector::new();
    let load = |loads: [u32; 3]| {
        move |place: usize| Load {
            in_flight: loads[place],
            latency_us: 1_000,
        }
    };
    for (draws, loads, expect) in [
        // Drawn first among 10, 30, 60, then among the two that are left.
        ([0.0, 0.0], [0, 0, 0], 1),
        ([0.0, 0.0], [1, 0, 0], 2),
        ([0.0, 0.99], [1, 0, 0], 3),
        ([0.1, 0.0], [0, 1, 9], 1),
        ([0.99, 0.99], [9, 0, 1], 2),
        ([0.99, 0.99], [9, 1, 1], 3),
    ] {
        let choice = selector.select_loaded(&snapshot, None, draws, load(loads));
        assert_eq!(choice.unwrap().id, expect, "{draws:?} {loads:?}");
    }
    // Failing open goes round.
    let all_bad = Snapshot::new(choosing, vec![unhealthy(1), unhealthy(2)]);
    for expect in [1, 2, 1] {
        let choice = selector.select_loaded(&all_bad, None, [0.9, 0.9], load([9, 0, 0]));
        assert_eq!(choice.unwrap().id, expect);
    }
}
