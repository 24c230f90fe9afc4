//! Draws chance: bytes for keys, ids, and the numbers that rules receive where they need a [`Draw`].
//!
//! Keys come from the operating system each time, ids from a generator that it seeds. [`Chance`] is a small generator for
//! jitter, which a simulation seeds to get the same numbers again; nothing secret is made from it.

use hedgerow_core::time::Draw;

/// Fills `bytes` from the operating system's source of chance. Good enough for keys.
///
/// # Panics
///
/// When the operating system has no source of chance: nothing safe can be done without one.
pub fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has a source of chance");
}

/// `N` random bytes, good enough for keys.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// A random number.
#[must_use]
pub fn number() -> u64 {
    u64::from_le_bytes(bytes())
}

/// A random UUID (RFC 9562, version 4) in lower case with hyphens. Good enough for codes that nobody may guess: it comes from a
/// generator of each thread that the operating system seeds, again from time to time, because every request has one.
#[must_use]
pub fn uuid() -> String {
    let random = uuid::Builder::from_random_bytes(rand::random());
    random.into_uuid().to_string()
}

/// Draws numbers for jitter: the same ones again from the same seed.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Numbers that depend on `seed` alone.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Numbers that nobody can foretell from outside.
    #[must_use]
    pub fn from_system() -> Self {
        Self::seeded(number())
    }

    /// The next number in [0, 1), in steps of 2^-53.
    pub fn draw(&mut self) -> Draw {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        Draw((self.next() >> 11) as f64 * STEP)
    }

    /// Source: `SplitMix64`, in Steele, Lea, Flood, "Fast splittable pseudorandom number generators", figure 14.
    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_version_and_variant() {
        for _ in 0..64 {
            let uuid = uuid();
            let bytes = uuid.as_bytes();
            assert_eq!(uuid.len(), 36);
            assert!(
                [8, 13, 18, 23].iter().all(|at| bytes[*at] == b'-'),
                "{uuid}"
            );
            assert_eq!(bytes[14], b'4', "{uuid}");
            assert!(b"89ab".contains(&bytes[19]), "{uuid}");
        }
        assert_ne!(uuid(), uuid());
    }

    #[test]
    fn draws_repeat_from_their_seed_and_stay_in_range() {
        let (mut first, mut second) = (Chance::seeded(7), Chance::seeded(7));
        let draws: Vec<f64> = (0..10_000).map(|_| first.draw().0).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        assert!(
            draws
                .iter()
                .all(|draw| second.draw().0.to_bits() == draw.to_bits())
        );
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
