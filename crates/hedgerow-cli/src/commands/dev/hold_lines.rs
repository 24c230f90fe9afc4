//! A line for the terminal when a subscription begins to be held back, is held back again, or no longer is.

use std::collections::{BTreeMap, BTreeSet};

use hedgerow_core::time::Timestamp;
use hedgerow_server::{HoldInfo, HoldState};

use super::attempt_line::{self, span};

/// Remembers what was said last of each subscription.
#[derive(Debug, Default)]
pub struct HoldLines {
    /// Topics with attempts since the start: what holds their subscriptions is looked at.
    topics: BTreeSet<String>,
    said: BTreeMap<(String, String), (HoldState, Option<Timestamp>)>,
}

impl HoldLines {
    /// There was an attempt for a subscription of this topic.
    pub fn note(&mut self, topic: &str) {
        if !self.topics.contains(topic) {
            self.topics.insert(topic.to_owned());
        }
    }

    /// The topics to look at.
    pub fn topics(&self) -> Vec<String> {
        self.topics.iter().cloned().collect()
    }

    /// The line, if there is something new to say.
    pub fn text(
        &mut self,
        topic: &str,
        subscription: &str,
        hold: &HoldInfo,
        now: Timestamp,
    ) -> Option<String> {
        let key = (topic.to_owned(), subscription.to_owned());
        let news = (hold.state, hold.until);
        let before = self.said.insert(key, news);
        let healthy = (HoldState::Healthy, None);
        if before.unwrap_or(healthy) == news {
            return None;
        }
        let cause = hold.cause.map(|outcome| format!(" after {outcome}"));
        let cause = cause.unwrap_or_default();
        let left = hold
            .until
            .map(|until| span(until.since(hold.since.unwrap_or(now))));
        let lasts = left.map(|left| format!(", for {left}")).unwrap_or_default();
        let said = match hold.state {
            HoldState::Healthy => "is tried again as usual".to_owned(),
            HoldState::Probation => format!("is on probation{cause}{lasts}"),
            HoldState::Delayed => format!("waits: deliveries to its endpoint are delayed{lasts}"),
            // Perhaps it was held for less than the time between two looks.
            HoldState::AwaitingTrial => {
                format!("was held back{cause}{lasts}: one event is tried next")
            }
            HoldState::Paused => "is paused".to_owned(),
            HoldState::Gone => "is paused: its endpoint answered 410".to_owned(),
        };
        let time = attempt_line::clock(now);
        let of = attempt_line::of(topic, subscription);
        Some(format!("{time}  {of}  {said}"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hedgerow_core::outcome::Outcome;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_893_553_445_006);

    fn hold(state: HoldState, until: Option<Timestamp>) -> HoldInfo {
        HoldInfo {
            state,
            cause: until.map(|_| Outcome::Busy),
            level: 1,
            since: until.map(|_| NOW),
            until,
            next_trial: until,
            held: 0,
        }
    }

    #[test]
    fn what_changes_is_said_once() {
        let mut lines = HoldLines::default();
        let first = hold(
            HoldState::Probation,
            Some(NOW.plus(Duration::from_secs(10))),
        );
        let healthy = hold(HoldState::Healthy, None);
        let mut say = |hold: &HoldInfo| lines.text("demo", "demo-fails", hold, NOW);
        assert_eq!(say(&healthy), None);
        assert_eq!(
            say(&first).as_deref(),
            Some("03:04:05.006Z  demo/demo-fails  is on probation after Busy, for 10 s")
        );
        assert_eq!(say(&first), None);
        let over = HoldInfo {
            state: HoldState::AwaitingTrial,
            ..first
        };
        assert_eq!(
            say(&over).as_deref(),
            Some(
                "03:04:05.006Z  demo/demo-fails  was held back after Busy, for 10 s: one event is tried next"
            )
        );
        let again = hold(
            HoldState::Probation,
            Some(NOW.plus(Duration::from_secs(70))),
        );
        assert!(say(&again).is_some(), "another period");
        assert!(say(&healthy).unwrap().ends_with("is tried again as usual"));
    }
}
