//! Chance from a seed, so that a run can be repeated: splitmix64.
//!
//! Source: Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014 (the mixing constants).

use std::ops::RangeInclusive;
use std::time::Duration;

/// A sequence of numbers that its seed decides.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The sequence that belongs to some numbers, whatever was drawn before.
    pub fn of(numbers: &[u64]) -> Self {
        Self::new(numbers.iter().fold(0, |state, number| mix(state ^ number)))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        finish(self.state)
    }

    /// A number in the range, both ends included.
    pub fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        low + self.draw() % (high - low + 1)
    }

    /// Says yes so many times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.between(0..=99) < percent
    }

    /// A time in the range of milliseconds.
    pub fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.between(range))
    }

    /// Puts a list in another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.between(0..=last as u64) as usize);
        }
    }
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(number: u64) -> u64 {
    finish(number.wrapping_add(GAMMA))
}

const fn finish(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
