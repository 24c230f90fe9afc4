//! What operators do.

use std::time::Duration;

use hedgerow_delivery::replay::ReplaySteer;

use super::{Act, HOUR, ReplayPlan, SubscriptionPlan};
use crate::dice::Dice;

/// Everything that they do in a day, in the order of time.
pub(super) fn acts(
    seed: u64,
    faults: Duration,
    subscriptions: &[SubscriptionPlan],
    endpoints: usize,
) -> Vec<(Duration, Act)> {
    let mut dice = Dice::of(&[seed, 11]);
    let mut acts = Vec::new();
    for _ in 0..dice.pick(&[0, 0, 2, 6]) {
        let at = dice.millis(0..=faults.as_millis() as u64);
        let whose = dice.between(0..=subscriptions.len() as u64 - 1) as usize;
        match dice.between(0..=9) {
            0..=3 => {
                let resumed = at + dice.seconds(1..=dice.clone().pick(&[10, HOUR, 12 * HOUR]));
                acts.push((at, Act::Pause(whose)));
                acts.push((resumed.min(faults), Act::Resume(whose)));
            }
            4..=6 => acts.push((at, Act::Reset(whose))),
            7 => acts.push((at, Act::Purge(whose))),
            _ => {
                let attempts = dice.pick(&[30, 1, 3, 11]);
                acts.push((at, Act::Limits(whose, attempts, dice.pick(&[1440, 1, 60]))));
            }
        }
    }
    acts.extend(replays(seed, faults, subscriptions));
    acts.extend(departures(seed, faults, subscriptions));
    let mut dice = Dice::of(&[seed, 54]);
    for _ in 0..dice.pick(&[0, 0, 1, 4]) {
        let at = dice.millis(0..=faults.as_millis() as u64);
        let whose = dice.between(0..=subscriptions.len() as u64 - 1) as usize;
        let endpoint = dice.between(0..=endpoints as u64 - 1) as usize;
        acts.push((at, Act::Move(whose, endpoint)));
    }
    acts.sort_by_key(|(at, _)| *at);
    acts
}

/// Subscriptions that are deleted, most of them declared again later.
fn departures(
    seed: u64,
    faults: Duration,
    subscriptions: &[SubscriptionPlan],
) -> Vec<(Duration, Act)> {
    let mut dice = Dice::of(&[seed, 18]);
    let mut acts = Vec::new();
    for _ in 0..dice.pick(&[0, 0, 1, 3]) {
        let at = dice.millis(0..=faults.as_millis() as u64);
        let whose = dice.between(0..=subscriptions.len() as u64 - 1) as usize;
        acts.push((at, Act::Delete(whose)));
        if dice.percent(70) {
            let again = at + dice.millis(0..=dice.clone().pick(&[1, 1_000, HOUR * 1_000]));
            acts.push((again.min(faults), Act::Declare(whose)));
        }
    }
    acts
}

/// Replays of dead letters, and what is done about them before they end.
fn replays(
    seed: u64,
    faults: Duration,
    subscriptions: &[SubscriptionPlan],
) -> Vec<(Duration, Act)> {
    let mut dice = Dice::of(&[seed, 17]);
    let mut acts = Vec::new();
    let has_letters =
        |whose: &usize| !subscriptions[*whose].json["deadLetterDestination"].is_null();
    let lettered: Vec<usize> = (0..subscriptions.len()).filter(has_letters).collect();
    if lettered.is_empty() {
        return acts;
    }
    for number in 0..dice.pick(&[0, 0, 1, 3, 6]) {
        // Late, so that there are letters.
        let all = faults.as_millis() as u64;
        let at = dice.millis(all / 2..=all);
        let whose = dice.pick(&lettered);
        let is_stopped = Dice::of(&[seed, 55, number]).percent(50);
        let per_second = dice.pick(&[1, 1, 3, 100]);
        let plan = ReplayPlan {
            // Between two steps lies a second then.
            per_second: if is_stopped { 1 } else { per_second },
            is_stopped,
            to_topic: dice.percent(25),
            within: dice
                .pick(&[None, None, Some(HOUR)])
                .map(Duration::from_secs),
            only_newest: dice.percent(20),
            is_dry_run: dice.percent(10),
        };
        acts.push((at, Act::Replay(whose, plan)));
        let mut then = at;
        while dice.percent(50) {
            then += dice.millis(0..=dice.clone().pick(&[100, 2_000, 10_000, HOUR * 1_000]));
            let steer = dice.pick(&[
                ReplaySteer::Stop,
                ReplaySteer::Stop,
                ReplaySteer::Resume,
                ReplaySteer::Resume,
                ReplaySteer::Cancel,
            ]);
            acts.push((then.min(faults), Act::Steer(whose, steer)));
        }
    }
    acts
}
