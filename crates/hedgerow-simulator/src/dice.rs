//! Chance from a seed: splitmix64, with a sequence of its own for each thing that is decided, so that what one part draws
//! changes nothing for another.
//!
//! Source: Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014 (the mixing constants).

use std::ops::RangeInclusive;
use std::time::Duration;

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The sequence that belongs to these numbers, whatever else was drawn before.
    pub fn of(numbers: &[u64]) -> Self {
        Self(numbers.iter().fold(0, |state, number| mix(state ^ number)))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        finish(self.0)
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

    /// One of them.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[(self.draw() % among.len() as u64) as usize]
    }

    /// A time of so many milliseconds.
    pub fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.between(range))
    }

    /// A time of so many seconds, in milliseconds.
    pub fn seconds(&mut self, range: RangeInclusive<u64>) -> Duration {
        let (low, high) = range.into_inner();
        self.millis(low * 1000..=high * 1000)
    }
}

/// A number that stands for a text.
pub fn number_of(text: &str) -> u64 {
    let fold = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, fold)
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(number: u64) -> u64 {
    finish(number.wrapping_add(GAMMA))
}

const fn finish(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
