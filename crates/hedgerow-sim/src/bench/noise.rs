//! Who else used the machine meanwhile: processor time of everybody, less that of the benchmark and its servers.

use std::fs;
use std::time::{Duration, Instant};

use super::subject::{Subject, TICKS_PER_SECOND};

/// A moment, and how much processor time was used until then.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    at: Instant,
    all: Duration,
    ours: Duration,
}

impl Moment {
    /// Now, with a server that runs; those that ended are known. `None` where the system does not say.
    pub fn now(running: Option<&Subject>) -> Option<Self> {
        let everybody = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        // User and system time of this process, and of its children that ended.
        let mut ours = ticks(own.rsplit_once(')')?.1, &[11, 12, 13, 14]);
        if let Some(running) = running {
            ours += running.cpu().ok()?.all;
        }
        Some(Self {
            at: Instant::now(),
            // User, nice, system, interrupts, and what a host took.
            all: ticks(everybody.lines().next()?, &[1, 2, 3, 6, 7, 8]),
            ours,
        })
    }

    /// How many cores others used since a moment.
    pub fn others_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let ours = self.ours.saturating_sub(before.ours);
        let seconds = (self.at - before.at).as_secs_f64();
        all.saturating_sub(ours).as_secs_f64() / seconds.max(1e-3)
    }
}

fn ticks(line: &str, fields: &[usize]) -> Duration {
    let numbers: Vec<u64> = line
        .split_whitespace()
        .map(|field| field.parse().unwrap_or_default())
        .collect();
    let ticks: u64 = fields.iter().filter_map(|at| numbers.get(*at)).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_up() {
        assert_eq!(
            ticks("cpu 10 20 x 40", &[1, 2, 3, 4, 9]),
            Duration::from_millis(700)
        );
    }
}
