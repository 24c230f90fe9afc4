//! How receivers feel.

use std::time::Duration;

use super::{EndpointPlan, HOUR, MINUTE, Mood};
use crate::dice::Dice;

/// One of the receivers of a day.
pub(super) fn endpoint(seed: u64, number: u64, faults: Duration) -> EndpointPlan {
    let mut dice = Dice::of(&[seed, 5, number]);
    let mut moods = Vec::new();
    let mut at = Duration::ZERO;
    // Some are hardly ever well.
    let health = dice.pick(&[80, 50, 50, 20, 5]);
    while at < faults {
        let mood = if dice.percent(health) {
            Mood::Well
        } else {
            mood(&mut dice)
        };
        let span = dice.pick(&[10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR]);
        at = faults.min(at + dice.seconds(1..=span));
        moods.push((at, mood));
    }
    let mut dice = Dice::of(&[seed, 13, number]);
    EndpointPlan {
        host: format!("host{number}.example"),
        moods,
        events_max: dice.pick(&[None, None, None, Some(1), Some(2), Some(6)]),
        poisoned: dice.pick(&[0, 0, 0, 0, 3, 20]),
    }
}

/// Anything but well.
pub fn mood(dice: &mut Dice) -> Mood {
    match dice.between(0..=19) {
        0..=3 => {
            let status = dice.pick(&[500, 502, 404, 408, 410, 302, 205, 409, 599]);
            Mood::Status(status, dice.pick(&[100, 100, 50, 90]))
        }
        4 => Mood::Status(dice.pick(&[400, 401, 403, 413]), dice.pick(&[100, 10])),
        5 | 6 => Mood::Later(
            dice.pick(&[429, 503]),
            dice.pick(&[0, 7, 60, 3_600, 100_000]),
        ),
        7 | 8 => Mood::Silent,
        9 => Mood::Slow(dice.pick(&[2, 40, 170, 181, 200])),
        10 => Mood::Edge,
        11 | 12 => Mood::Resets,
        13 => Mood::Refuses,
        14 => Mood::Nameless,
        15 => Mood::Unreachable,
        16 => Mood::Untrusted,
        17 => Mood::Babbles,
        18 => Mood::SlowBody,
        _ => Mood::Any,
    }
}
