//! Arithmetic on what was measured: latencies in a histogram, medians and spreads over rounds.

use std::time::Duration;

/// Each power of two is divided into so many buckets, so that a quantile is at most 1/64 too high.
const BUCKETS_PER_OCTAVE_BITS: u32 = 6;
const BUCKETS_PER_OCTAVE: u64 = 1 << BUCKETS_PER_OCTAVE_BITS;

/// Times, counted in buckets that grow with them.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Histogram {
    /// Counts a time.
    pub fn record(&mut self, time: Duration) {
        let bucket = bucket(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
    }

    /// How many times were counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Counts the times of another one too.
    pub fn add(&mut self, other: &Self) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (bucket, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += count;
        }
        self.count += other.count;
    }

    /// The time that this part of all, from 0 to 1, does not exceed, in milliseconds; `None` of no times.
    pub fn quantile_ms(&self, part: f64) -> Option<f64> {
        #[allow(clippy::cast_sign_loss)] // Counts.
        let wanted = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Some(end(bucket) as f64 / 1e6);
            }
        }
        None
    }
}

/// The bucket of a number of nanoseconds.
fn bucket(nanos: u64) -> usize {
    if nanos < BUCKETS_PER_OCTAVE {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - BUCKETS_PER_OCTAVE_BITS;
    ((u64::from(shift) << BUCKETS_PER_OCTAVE_BITS) + (nanos >> shift)) as usize
}

/// The highest number of nanoseconds in a bucket.
const fn end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * BUCKETS_PER_OCTAVE {
        return bucket;
    }
    let shift = (bucket >> BUCKETS_PER_OCTAVE_BITS) - 1;
    let within = bucket - (shift << BUCKETS_PER_OCTAVE_BITS);
    (within << shift) + ((1 << shift) - 1)
}

/// A figure over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// Of some values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min, max })
    }

    /// How far the lowest and the highest are apart, as a part of the median.
    pub fn width(&self) -> f64 {
        if self.median > 0.0 {
            (self.max - self.min) / self.median
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_ends_behind_it() {
        let times = (0..200).chain([1_000, 1_023, 1_024, 65_537, 999_999_999, u64::MAX / 2]);
        for nanos in times {
            let bucket = bucket(nanos);
            assert!(end(bucket) >= nanos, "{nanos}");
            assert!(end(bucket) - nanos <= nanos / 64, "{nanos}");
            assert!(bucket == 0 || end(bucket - 1) < nanos, "{nanos}");
        }
    }

    #[test]
    fn quantiles_count_from_below() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ms(0.5), None);
        for ms in 1..=100 {
            histogram.record(Duration::from_millis(ms));
        }
        for (part, ms) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let found = histogram.quantile_ms(part).unwrap();
            assert!(found >= ms && found < ms * 1.016, "{part}: {found}");
        }
    }

    #[test]
    fn a_spread_has_its_median_in_the_middle() {
        assert_eq!(Spread::of(&[]), None);
        let odd = Spread::of(&[3.0, 1.0, 2.5]).unwrap();
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.5, 3.0));
        assert!((odd.width() - 0.8).abs() < 1e-9);
        assert!((Spread::of(&[1.0, 2.0]).unwrap().median - 1.5).abs() < 1e-9);
    }
}
