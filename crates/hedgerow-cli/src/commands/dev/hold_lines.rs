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
    said: BTreeMap<(String, String), Said>,
}

/// What was said of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    state: HoldState,
    until: Option<Timestamp>,
    /// That events wait for the end of it.
    held: bool,
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

    /// The lines, if there is something new to say.
    pub fn texts(
        &mut self,
        topic: &str,
        subscription: &str,
        hold: &HoldInfo,
        now: Timestamp,
    ) -> Vec<String> {
        let key = (topic.to_owned(), subscription.to_owned());
        let is_held = matches!(hold.state, HoldState::Probation | HoldState::Delayed);
        let before = self.said.get(&key).copied();
        let before = before.unwrap_or(Said {
            state: HoldState::Healthy,
            until: None,
            held: false,
        });
        let is_news = (before.state, before.until) != (hold.state, hold.until);
        let was_held = before.held && !is_news;
        let news = Said {
            state: hold.state,
            until: hold.until,
            held: was_held || is_held && hold.held > 0,
        };
        self.said.insert(key, news);
        let of = attempt_line::of(topic, subscription);
        let line = |at, said: &str| format!("{}  {of}  {said}", attempt_line::clock(at));
        let mut lines = Vec::new();
        if is_news {
            // It began and ended between two looks: that it began is said all the same.
            if hold.state == HoldState::AwaitingTrial
                && before.until != hold.until
                && let Some(since) = hold.since
            {
                lines.push(line(
                    since,
                    &format!("is held back{}", circumstances(hold, now)),
                ));
            }
            lines.push(line(now, &news_of(hold, now)));
        }
        if news.held && !was_held {
            let (count, s) = (hold.held, if hold.held == 1 { "" } else { "s" });
            lines.push(line(now, &format!("holds {count} event{s} until then")));
        }
        lines
    }
}

/// After what, and for how long.
fn circumstances(hold: &HoldInfo, now: Timestamp) -> String {
    let cause = hold.cause.map(|outcome| format!(" after {outcome}"));
    let since = hold.since.unwrap_or(now);
    let lasts = hold
        .until
        .map(|until| format!(", for {}", span(until.since(since))));
    cause.unwrap_or_default() + &lasts.unwrap_or_default()
}

fn news_of(hold: &HoldInfo, now: Timestamp) -> String {
    let circumstances = circumstances(hold, now);
    match hold.state {
        HoldState::Healthy => "is tried again as usual".to_owned(),
        HoldState::Probation => format!("is on probation{circumstances}"),
        HoldState::Delayed => {
            format!("waits: deliveries to its endpoint are delayed{circumstances}")
        }
        HoldState::AwaitingTrial => {
            format!("was held back{circumstances}: one event is tried next")
        }
        HoldState::Paused => "is paused".to_owned(),
        HoldState::Gone => "is paused: its endpoint answered 410".to_owned(),
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
        let mut say = |hold: &HoldInfo| lines.texts("demo", "demo-fails", hold, NOW);
        let nothing: [&str; 0] = [];
        assert_eq!(say(&healthy), nothing);
        assert_eq!(
            say(&first),
            ["03:04:05.006Z  demo/demo-fails  is on probation after Busy, for 10 s"]
        );
        assert_eq!(say(&first), nothing);
        let held = HoldInfo { held: 2, ..first };
        let said = "03:04:05.006Z  demo/demo-fails  holds 2 events until then";
        assert_eq!(say(&held), [said]);
        assert_eq!(say(&HoldInfo { held: 3, ..first }), nothing, "once");
        let over = HoldInfo {
            state: HoldState::AwaitingTrial,
            ..first
        };
        assert_eq!(
            say(&over),
            [
                "03:04:05.006Z  demo/demo-fails  was held back after Busy, for 10 s: one event is tried next"
            ]
        );
        let again = hold(
            HoldState::Probation,
            Some(NOW.plus(Duration::from_secs(70))),
        );
        assert_eq!(say(&again).len(), 1, "another period");
        assert!(say(&healthy)[0].ends_with("is tried again as usual"));
        // Over before it was looked at: its begin is said too, with its time.
        let missed = HoldInfo {
            state: HoldState::AwaitingTrial,
            until: Some(NOW.plus(Duration::from_secs(300))),
            ..first
        };
        let both = [
            "03:04:05.006Z  demo/demo-fails  is held back after Busy, for 5 min",
            "03:04:05.006Z  demo/demo-fails  was held back after Busy, for 5 min: one event is tried next",
        ];
        assert_eq!(say(&missed), both);
    }
}
