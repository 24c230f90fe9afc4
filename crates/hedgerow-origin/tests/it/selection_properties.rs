//! Properties of choosing.

use std::collections::BTreeMap;

use hedgerow_origin::selector::Selector;
use hedgerow_origin::settings::FailOpen;
use hedgerow_origin::snapshot::{Choosing, OriginView, Places, Snapshot};
use hedgerow_origin::window::State;
use proptest::prelude::*;

use crate::selection::{CHOOSING, healthy};

fn origin(id: u32) -> impl Strategy<Value = OriginView> {
    let state = prop_oneof![
        Just(State::Healthy),
        Just(State::Unknown),
        Just(State::Unhealthy)
    ];
    let latency_us = prop::option::of(1_000_u64..200_000);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (state, latency_us, 1_u32..=3, 1_u32..=20, flags).prop_map(
        move |(state, latency_us, priority, weight, (is_enabled, is_draining, is_held_out))| {
            OriginView {
                is_enabled,
                is_draining,
                is_held_out,
                priority,
                weight,
                ramp_weight: weight,
                ..OriginView::new(id, state, latency_us)
            }
        },
    )
}

fn group() -> impl Strategy<Value = Snapshot> {
    let origins =
        (1_usize..8).prop_flat_map(|count| (0..count as u32).map(origin).collect::<Vec<_>>());
    let fail_open = prop_oneof![
        Just(FailOpen::All),
        Just(FailOpen::TopPriority),
        Just(FailOpen::None)
    ];
    (origins, fail_open, 0_u64..100).prop_map(|(origins, fail_open, additional_latency_ms)| {
        let choosing = Choosing {
            fail_open,
            additional_latency_ms,
            ..CHOOSING
        };
        Snapshot::new(choosing, origins)
    })
}

proptest! {
    /// HP-127, HP-128: over a full cycle each origin is chosen exactly in proportion to its weight, and at any time within
    /// as many picks of it as there are origins.
    #[test]
    fn shares_follow_the_weights(weights in prop::collection::vec(1_u32..=40, 1..8)) {
        let origins = (0..).zip(&weights).map(|(id, weight)| healthy(id, *weight));
        // One origin more, so that the group is not one of a single origin; another priority keeps it out.
        let spare = OriginView { priority: 5, ..healthy(99, 1) };
        let snapshot = Snapshot::new(CHOOSING, origins.chain([spare]).collect());
        let sum: u32 = weights.iter().sum();
        let counted = i64::try_from(weights.len()).unwrap();
        let mut selector = Selector::new();
        for cycle in 1..=2 {
            let mut counts: BTreeMap<u32, i64> = BTreeMap::new();
            for pick in 1..=i64::from(sum) {
                let choice = selector.select(&snapshot, None).unwrap();
                *counts.entry(choice.id).or_default() += 1;
                for (id, weight) in (0..).zip(&weights) {
                    let count = counts.get(&id).copied().unwrap_or_default();
                    let off = count * i64::from(sum) - pick * i64::from(*weight);
                    prop_assert!(off.abs() <= i64::from(sum) * counted);
                }
            }
            for (id, weight) in (0..).zip(&weights) {
                prop_assert_eq!(counts[&id], i64::from(*weight), "cycle {}", cycle);
            }
        }
    }

    /// HP-129: over 10,000 requests the shares are within two percentage points, also when another thread has its own
    /// selector.
    #[test]
    fn shares_of_several_threads(weights in prop::collection::vec(1_u32..=1_000, 2..6)) {
        let origins: Vec<_> = (0..).zip(&weights).map(|(id, weight)| healthy(id, *weight)).collect();
        let snapshot = Snapshot::new(CHOOSING, origins);
        let sum: u32 = weights.iter().sum();
        let mut selectors = vec![Selector::new(); 4];
        let mut counts = vec![0_u32; weights.len()];
        for request in 0..10_000 {
            let choice = selectors[request % 4].select(&snapshot, None).unwrap();
            counts[choice.place] += 1;
        }
        for (count, weight) in counts.iter().zip(&weights) {
            let off = f64::from(*count) / 1e4 - f64::from(*weight) / f64::from(sum);
            prop_assert!(off.abs() < 0.02, "{off}");
        }
    }

    /// HP-030, HP-063, HP-090 to HP-094, HP-121 to HP-126: whatever the group is like, what is kept is what the
    /// specification says, found a second time and plainly.
    #[test]
    fn what_is_kept_is_as_stated(snapshot in group()) {
        let origins = snapshot.origins();
        let awake = origins.iter().filter(|o| o.is_enabled && !o.is_draining).count();
        let usable: Vec<usize> = (0..origins.len())
            .filter(|place| {
                let origin = &origins[*place];
                origin.is_enabled && (!origin.is_draining || awake == 0)
            })
            .collect();
        let in_state = |state| -> Vec<usize> {
            usable.iter().copied().filter(|place| origins[*place].state == state).collect()
        };
        let good = in_state(State::Healthy);
        let steady: Vec<usize> =
            good.iter().copied().filter(|place| !origins[*place].is_held_out).collect();
        let tiers = [steady, good, in_state(State::Unknown)];
        let expect = match tiers.into_iter().find(|tier| !tier.is_empty()) {
            _ if usable.len() <= 1 => usable.clone(),
            None => match snapshot.choosing().fail_open {
                FailOpen::All => usable.clone(),
                FailOpen::None => Vec::new(),
                FailOpen::TopPriority => {
                    let lowest = usable.iter().map(|place| origins[*place].priority).min();
                    usable
                        .iter()
                        .copied()
                        .filter(|place| Some(origins[*place].priority) == lowest)
                        .collect()
                }
            },
            Some(tier) => {
                let lowest = tier.iter().map(|place| origins[*place].priority).min();
                let first: Vec<usize> = tier
                    .into_iter()
                    .filter(|place| Some(origins[*place].priority) == lowest)
                    .collect();
                let ms = |place: &usize| origins[*place].latency_us.map(|us| us / 1_000);
                match first.iter().filter_map(ms).min() {
                    None => first,
                    Some(fastest) => {
                        let highest = fastest + snapshot.choosing().additional_latency_ms;
                        first
                            .into_iter()
                            .filter(|place| ms(place).is_some_and(|ms| ms <= highest))
                            .collect()
                    }
                }
            }
        };
        let kept = snapshot.kept().map(|kept| kept.places.iter().collect::<Vec<_>>());
        prop_assert_eq!(kept.unwrap_or_default(), expect);
    }

    /// HP-030, HP-173, HP-200: nobody disabled, and nobody tried, is ever chosen, in whatever order snapshots come.
    #[test]
    fn nobody_disabled_or_tried_is_chosen(
        snapshots in prop::collection::vec(group(), 1..6),
        failed in prop::option::of(0_u32..8),
        tried in prop::collection::vec(0_usize..70, 0..4),
    ) {
        let mut selector = Selector::new();
        let tried = tried.into_iter().fold(Places::NONE, Places::with);
        for snapshot in &snapshots {
            let chosen = [
                selector.select(snapshot, failed),
                selector.select_other(snapshot, failed),
                selector.select_untried(snapshot, tried),
            ];
            for choice in chosen.iter().flatten() {
                let origin = snapshot.origins()[choice.place];
                prop_assert!(origin.is_enabled && origin.id == choice.id);
            }
            if let Ok(choice) = chosen[2] {
                prop_assert!(!tried.contains(choice.place));
            }
            if let (Ok(kept), Ok(choice)) = (snapshot.kept(), chosen[1]) {
                let is_only_one = kept.places.count() == 1;
                prop_assert!(is_only_one || Some(choice.id) != failed);
            }
        }
    }

    /// HP-128: what is chosen is a function of snapshot and counters alone.
    #[test]
    fn choosing_is_a_function(snapshots in prop::collection::vec(group(), 1..20)) {
        let (mut one, mut other) = (Selector::new(), Selector::new());
        for snapshot in &snapshots {
            prop_assert_eq!(one.select(snapshot, None), other.select(&snapshot.clone(), None));
        }
    }
}
