//! How often a group probes: slower while nobody uses it, and slower while there is nothing to choose from (HP-082, HP-083,
//! HP-103).

use std::time::Duration;

use serde::Serialize;

/// In a group with one enabled origin the interval is multiplied by this at least (HP-103).
const SINGLE_ORIGIN_FACTOR: u32 = 4;

/// When and how far a group that nobody uses is probed less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct IdleSettings {
    /// One level for each such time without use, in seconds (`idle_after_s`).
    #[serde(rename = "idle_after_s")]
    pub after_s: u32,
    /// The highest level (`idle_max_level`).
    #[serde(rename = "idle_max_level")]
    pub max_level: u32,
    /// The longest interval that idling makes, in seconds (`idle_cap_s`).
    #[serde(rename = "idle_cap_s")]
    pub cap_s: u32,
}

impl Default for IdleSettings {
    fn default() -> Self {
        Self {
            after_s: 300,
            max_level: 3,
            cap_s: 240,
        }
    }
}

impl IdleSettings {
    /// L, the idle level of a group that this node last used so long ago (HP-082).
    #[must_use]
    pub fn level(&self, unused_for: Duration) -> u32 {
        let steps = unused_for.as_secs() / u64::from(self.after_s.max(1));
        u32::try_from(steps).unwrap_or(u32::MAX).min(self.max_level)
    }

    /// How long after its last use a group reaches the level behind `level`; `None` at the highest.
    #[must_use]
    pub fn next_level_after(&self, level: u32) -> Option<Duration> {
        let next = level
            .checked_add(1)
            .filter(|next| *next <= self.max_level)?;
        Some(Duration::from_secs(
            u64::from(next) * u64::from(self.after_s.max(1)),
        ))
    }

    /// The effective interval: max(I, min(I·m, cap)), where m is 2^L, or max(2^L, 4) in a group with exactly one enabled
    /// origin (HP-083, HP-103).
    #[must_use]
    pub fn effective_interval(
        &self,
        interval: Duration,
        level: u32,
        is_single_origin: bool,
    ) -> Duration {
        let factor = 1_u32.checked_shl(level).unwrap_or(u32::MAX);
        let factor = if is_single_origin {
            factor.max(SINGLE_ORIGIN_FACTOR)
        } else {
            factor
        };
        let cap = Duration::from_secs(self.cap_s.into());
        interval.max(interval.saturating_mul(factor).min(cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-082: the level rises with each whole step, up to the highest, and says when it rises next.
    #[test]
    fn levels_rise_step_by_step() {
        let idle = IdleSettings::default();
        let rows = [
            (0, 0, Some(300)),
            (299, 0, Some(300)),
            (300, 1, Some(600)),
            (600, 2, Some(900)),
            (899, 2, Some(900)),
            (900, 3, None),
            (u64::MAX, 3, None),
        ];
        for (seconds, level, next) in rows {
            assert_eq!(idle.level(Duration::from_secs(seconds)), level, "{seconds}");
            let after = idle.next_level_after(level).map(|next| next.as_secs());
            assert_eq!(after, next, "{seconds}");
        }
    }

    /// HP-083: whatever the settings, an interval is never shortened, and nothing overflows.
    #[test]
    fn no_setting_shortens_an_interval() {
        let idle = IdleSettings {
            after_s: 0,
            max_level: u32::MAX,
            cap_s: 1,
        };
        let interval = Duration::from_secs(255);
        for level in [0, 1, 31, 32, u32::MAX] {
            assert_eq!(idle.effective_interval(interval, level, true), interval);
        }
        assert_eq!(idle.level(Duration::MAX), u32::MAX);
        let max = idle.effective_interval(Duration::MAX, 3, false);
        assert_eq!(max, Duration::MAX);
    }
}
