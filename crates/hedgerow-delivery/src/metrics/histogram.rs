//! Counts of values by size, without a lock: a reader may see a value in one part and not yet in another.

use std::sync::atomic::{AtomicU64, Ordering};

/// The sum is kept in millionths.
const SUM_PARTS: f64 = 1e6;

/// Counts values up to each of its bounds.
#[derive(Debug)]
pub struct Histogram {
    /// Ascending.
    bounds: &'static [f64],
    /// One more than there are bounds: values above the last one.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// What a histogram has counted.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// How many values were at most so large: each bound, and all of them behind.
    pub buckets: Vec<(f64, u64)>,
    /// How many values there were.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl Histogram {
    /// One that counts up to these bounds, ascending.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts a value, which is not negative.
    pub fn observe(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        // What is not negative and far below 2^44 fits.
        #[allow(clippy::cast_sign_loss)]
        let parts = (value * SUM_PARTS).round() as u64;
        self.sum.fetch_add(parts, Ordering::Relaxed);
    }

    /// What it has counted.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut count = 0;
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets = bounds
            .zip(&self.counts)
            .map(|(bound, counted)| {
                count += counted.load(Ordering::Relaxed);
                (bound, count)
            })
            .collect();
        HistogramSnapshot {
            buckets,
            count,
            sum: self.sum.load(Ordering::Relaxed) as f64 / SUM_PARTS,
        }
    }
}

impl HistogramSnapshot {
    /// Adds what another one of the same bounds has counted.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            mine.1 += theirs.1;
        }
        self.count += other.count;
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::float_cmp)] // These are exact.
    #[test]
    fn a_value_at_a_bound_counts_below_it() {
        let histogram = Histogram::new(&[1.0, 2.5]);
        for value in [0.0, 1.0, 1.5, 2.5, 3.0] {
            histogram.observe(value);
        }
        let mut snapshot = histogram.snapshot();
        assert_eq!(snapshot.buckets, [(1.0, 2), (2.5, 4), (f64::INFINITY, 5)]);
        assert_eq!((snapshot.count, snapshot.sum), (5, 8.0));
        snapshot.add(&snapshot.clone());
        assert_eq!((snapshot.buckets[2].1, snapshot.count), (10, 10));
    }
}
