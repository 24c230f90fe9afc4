//! `hedgerow plan`: the timeline of a retry policy, before anyone relies on it. Asks no server: the rules are the server's
//! own, on a clock of its own. It shows the timeline without chance, and says where chance can change it.

mod timeline;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use hedgerow_core::dead_letter::DeadLetterSettings;
use hedgerow_core::limits;
use hedgerow_core::outcome::{DeadLetterReason, Failure as FailedHow, Met};
use hedgerow_core::retry::{self, RetryPolicy};
use serde_json::{Value, json};

use self::timeline::{Attempt, Plan, Spread, Timeline};
use super::event_subscription::settings::{attempts, minutes};
use crate::output::{self, Column};

/// Prints when an event would be attempted, and when it would be given up. Asks no server.
#[derive(Debug, Args)]
pub struct PlanCommand {
    /// Attempts after which an event is given up, 1 to 30.
    #[arg(long, value_name = "COUNT", default_value_t = *limits::DELIVERY_ATTEMPTS.end(), allow_negative_numbers = true, value_parser = attempts)]
    max_delivery_attempts: u16,
    /// Minutes after which an event is given up, 1 to 1440.
    #[arg(long, value_name = "MINUTES", default_value_t = *limits::TIME_TO_LIVE_MINUTES.end(), allow_negative_numbers = true, value_parser = minutes)]
    event_ttl: u32,
    /// What the endpoint does, attempt by attempt; the last one goes on for ever. A status, with what `Retry-After` asks for in
    /// seconds (429:45), or one of timeout, refused, reset, dns, tls; and how often (500x3).
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "500"
    )]
    status: Vec<Step>,
    /// Seconds until an attempt without an answer is given up, 1 to 300.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=300))]
    response_timeout: u64,
    /// Shows JSON.
    #[arg(long)]
    json: bool,
}

/// What the endpoint does with some attempts in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    does: Does,
    times: u32,
}

/// What the endpoint does with one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Answer {
        status: u16,
        retry_after: Option<Duration>,
    },
    Fail(Failing),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failing {
    Timeout,
    Refused,
    Reset,
    Dns,
    Tls,
}

const FAILINGS: [(&str, Failing); 5] = [
    ("timeout", Failing::Timeout),
    ("refused", Failing::Refused),
    ("reset", Failing::Reset),
    ("dns", Failing::Dns),
    ("tls", Failing::Tls),
];

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (what, times) = match text.rsplit_once('x') {
            Some((what, times)) => {
                let times = times.parse().ok().filter(|times| (1..=100).contains(times));
                (
                    what,
                    times.ok_or("how often must be 1 to 100, as in 500x3")?,
                )
            }
            None => (text, 1),
        };
        if let Some((_, failing)) = FAILINGS.iter().find(|(name, _)| *name == what) {
            let does = Does::Fail(*failing);
            return Ok(Self { does, times });
        }
        let (status, retry_after) = match what.split_once(':') {
            Some((status, seconds)) => {
                let seconds = seconds.parse().map_err(|_| "Retry-After must be seconds")?;
                (status, Some(Duration::from_secs(seconds)))
            }
            None => (what, None),
        };
        let status = status
            .parse()
            .ok()
            .filter(|status| (100..=599).contains(status));
        let status = status
            .ok_or("must be a status from 100 to 599, or timeout, refused, reset, dns or tls")?;
        let does = Does::Answer {
            status,
            retry_after,
        };
        Ok(Self { does, times })
    }
}

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer {
                status,
                retry_after: Some(wait),
            } => write!(f, "{status}, Retry-After {}", wait.as_secs()),
            Self::Answer { status, .. } => write!(f, "{status}"),
            Self::Fail(failing) => {
                let name = FAILINGS.iter().find(|(_, one)| one == failing);
                f.write_str(name.map_or("", |(name, _)| name))
            }
        }
    }
}

impl Does {
    fn met(self) -> Met {
        match self {
            Self::Answer {
                status,
                retry_after,
            } => Met::Response {
                status,
                retry_after,
            },
            Self::Fail(failing) => Met::Failure(match failing {
                Failing::Timeout => FailedHow::Timeout,
                Failing::Refused => FailedHow::Connect,
                Failing::Reset => FailedHow::Reset,
                Failing::Dns => FailedHow::Dns,
                Failing::Tls => FailedHow::Tls,
            }),
        }
    }
}

const COLUMNS: [Column; 4] = [
    ("ATTEMPT", "/attempt"),
    ("AT", "/shownTime"),
    ("MEETS", "/meets"),
    ("OUTCOME", "/shownOutcome"),
];

impl PlanCommand {
    /// Runs the command.
    pub fn run(&self) {
        let plan = self.timeline().run(None);
        let spread = Spread::of(&self.timeline(), &plan);
        let attempts: Vec<Value> = (1..)
            .zip(&plan.attempts)
            .map(|(number, attempt)| shown_attempt(number, attempt))
            .collect();
        let (at, reason) = plan.end;
        let written = at + DeadLetterSettings::default().delay;
        if self.json {
            output::json(&json!({
                "attempts": attempts,
                "endInMs": millis(at),
                "endMayComeLater": plan.end_chance.can_be_skipped,
                "reason": reason.map(DeadLetterReason::as_str),
                "deadLetterInMs": reason.map(|_| millis(written)),
                "attemptsOfDrawnEvents": spread.by_attempts,
            }));
            return;
        }
        for line in output::table(&attempts, &COLUMNS) {
            output::line(&line);
        }
        let count = plan.attempts.len();
        output::line(&match reason {
            None => format!("delivered at {} with attempt {count}", shown(at)),
            Some(reason) => format!(
                "given up at {} after {}: {}; a dead letter is written at {}",
                shown(at),
                counted(count),
                reason.as_str(),
                shown(written)
            ),
        });
        for line in notes(&plan, &spread) {
            output::line(&line);
        }
    }

    /// What is asked, as the rules take it.
    fn timeline(&self) -> Timeline<'_> {
        Timeline {
            policy: RetryPolicy {
                max_delivery_attempts: self.max_delivery_attempts,
                event_time_to_live: retry::minutes(self.event_ttl),
            },
            response_timeout: Duration::from_secs(self.response_timeout),
            does: Box::new(|number| self.step(number)),
        }
    }

    /// What the endpoint does with the attempt of this number, from 0.
    fn step(&self, number: usize) -> Does {
        let mut left = number;
        for step in &self.status {
            let times = step.times as usize;
            if left < times {
                return step.does;
            }
            left -= times;
        }
        let last = self.status.last().map(|step| step.does);
        last.unwrap_or(Does::Fail(Failing::Refused))
    }
}

/// One attempt, for people and for programs.
fn shown_attempt(number: usize, attempt: &Attempt) -> Value {
    let probation = attempt.probation;
    let outcome = attempt.outcome;
    let shown_outcome = match probation {
        Some(lasts) => format!("{outcome}, probation for {}", shown(lasts)),
        None => outcome.to_owned(),
    };
    json!({
        "attempt": number, "atInMs": millis(attempt.at), "shownTime": shown(attempt.at),
        "meets": attempt.does.to_string(), "outcome": outcome, "shownOutcome": shown_outcome,
        "probationInMs": probation.map(millis),
        "latestInMs": millis(attempt.at + attempt.chance.later),
        "canBeSkipped": attempt.chance.can_be_skipped,
        "canComeASlotEarlier": attempt.chance.can_come_earlier,
    })
}

/// What chance can change in this timeline, and what was assumed.
fn notes(plan: &Plan, spread: &Spread) -> Vec<String> {
    let mut notes = vec![
        "times are those after publishing; by chance each retry comes up to a tenth of its time later, at most 30 s".to_owned(),
    ];
    let mut numbers = (1..).zip(&plan.attempts);
    let last = plan.attempts.len();
    let skippable = numbers
        .by_ref()
        .filter(|(_, attempt)| attempt.chance.can_be_skipped);
    for (number, attempt) in skippable {
        notes.push(format!(
            "attempt {number} at {} may be left out: attempt {} can come so late by chance that this is too soon after it; then \
             the next slot is taken",
            shown(attempt.at),
            number - 1,
        ));
    }
    for (number, attempt) in (1..).zip(&plan.attempts) {
        if attempt.chance.can_come_earlier {
            notes.push(format!(
                "before {} there may be one more: by chance the slot before that of attempt {number} is late enough too",
                shown(attempt.at),
            ));
        }
    }
    if plan.end_chance.can_be_skipped {
        notes.push(format!(
            "the end may be seen a slot later than {}: attempt {last} can come so late by chance that this is too soon after it",
            shown(plan.end.0),
        ));
    }
    if plan.end_chance.can_come_earlier {
        notes.push(format!(
            "before the end there may be one more attempt, or it is seen a slot earlier: by chance the slot before {} is late \
             enough too",
            shown(plan.end.0),
        ));
    }
    if spread.by_attempts.len() > 1 {
        let parts = spread.by_attempts.iter();
        let parts = parts.map(|(attempts, events)| format!("{events} get {}", counted(*attempts)));
        notes.push(format!(
            "of {} events with chance {}",
            Spread::EVENTS,
            parts.collect::<Vec<_>>().join(", ")
        ));
    }
    notes.push(
        "assumed: default settings, and a subscription that is sent this event alone, so that only its own failures in a row \
         begin a probation; delayed delivery, which begins with 10 events that fail at an endpoint, is left out"
            .to_owned(),
    );
    notes
}

fn counted(attempts: usize) -> String {
    if attempts == 1 {
        "1 attempt".to_owned()
    } else {
        format!("{attempts} attempts")
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// `1 d 2 h`, `30 s`: in units that a schedule is written in.
fn shown(span: Duration) -> String {
    let mut left = span.as_secs();
    let mut parts = Vec::new();
    for (unit, seconds) in [("h", 3_600), ("min", 60), ("s", 1)] {
        if left >= seconds {
            parts.push(format!("{} {unit}", left / seconds));
            left %= seconds;
        }
    }
    if parts.is_empty() {
        "0 s".to_owned()
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(attempts: u16, minutes: u32, status: &str) -> PlanCommand {
        PlanCommand {
            max_delivery_attempts: attempts,
            event_ttl: minutes,
            status: status.split(',').map(|one| one.parse().unwrap()).collect(),
            response_timeout: 30,
            json: false,
        }
    }

    fn plan(attempts: u16, minutes: u32, status: &str) -> (Vec<u64>, u64, Option<&'static str>) {
        let command = command(attempts, minutes, status);
        let plan = command.timeline().run(None);
        let at = plan.attempts.iter().map(|one| one.at.as_secs()).collect();
        let (end, reason) = plan.end;
        (at, end.as_secs(), reason.map(DeadLetterReason::as_str))
    }

    /// Rows of section 5.5, by their numbers.
    #[test]
    fn timelines_are_those_of_the_specification() {
        let ttl = Some("TimeToLiveExceeded");
        let most = Some("MaxDeliveryAttemptsExceeded");
        for (row, attempts, minutes, status, at, end, reason) in [
            (
                "W2",
                10,
                30,
                "500",
                vec![0, 10, 30, 60, 300, 600],
                1_800,
                ttl,
            ),
            ("W3", 5, 1_440, "500", vec![0, 10, 30, 60, 300], 300, most),
            ("W8", 30, 2, "500", vec![0, 10, 30, 60], 300, ttl),
            ("W24", 30, 30, "404", vec![0, 300, 600], 1_800, ttl),
            ("W26", 30, 30, "timeout", vec![0, 60, 300, 600], 1_800, ttl),
            (
                "W21",
                30,
                1_440,
                "400",
                vec![0],
                0,
                Some("UndeliverableDueToHttpBadRequest"),
            ),
            ("W27", 30, 1_440, "500x3,200", vec![0, 10, 30, 60], 60, None),
            ("W28", 30, 1_440, "429:45,200", vec![0, 60], 60, None),
        ] {
            assert_eq!(plan(attempts, minutes, status), (at, end, reason), "{row}");
        }
        let (at, end, reason) = plan(30, 1_440, "503");
        assert_eq!((at.len(), end, reason), (10, 86_400, ttl), "W15");
        // The third failure in a row begins a probation of five minutes (ED-226).
        let at = vec![0, 10, 30, 600, 1_800, 3_600, 10_800, 21_600, 43_200];
        assert_eq!(plan(30, 1_440, "dns"), (at, 86_400, ttl), "W19");
    }

    /// ED-195 counts the floor from the attempt as it came, chance included (ED-198): it can be past the next slot.
    #[test]
    fn chance_can_cost_a_slot_and_that_is_said_where_it_can() {
        let command = command(30, 30, "404");
        let timeline = command.timeline();
        let plan = timeline.run(None);
        let chances: Vec<_> = plan.attempts.iter().map(|one| one.chance).collect();
        assert_eq!(
            chances
                .iter()
                .map(|one| one.can_be_skipped)
                .collect::<Vec<_>>(),
            [false, false, true]
        );
        let later: Vec<u64> = chances.iter().map(|one| one.later.as_secs()).collect();
        assert_eq!(later, [0, 30, 30]);
        let spread = Spread::of(&timeline, &plan);
        assert_eq!(spread.by_attempts.keys().collect::<Vec<_>>(), [&2, &3]);
        // Two chances of the same range: which one is greater is even.
        assert!((450..550).contains(&spread.by_attempts[&2]), "{spread:?}");
        let notes = notes(&plan, &spread);
        assert!(
            notes[1].starts_with("attempt 3 at 10 min may be left out: attempt 2 can come so late"),
            "{notes:?}"
        );
        // Every slot is far enough from the one before.
        let command = super::tests::command(5, 1_440, "500");
        let timeline = command.timeline();
        let plan = timeline.run(None);
        assert!(plan.attempts.iter().all(|one| !one.chance.can_come_earlier));
    }

    #[test]
    fn what_is_drawn_agrees_with_what_is_said() {
        for status in [
            "500",
            "503",
            "404",
            "dns",
            "timeout",
            "refused",
            "429:45",
            "503x2,404",
        ] {
            for minutes in [5, 10, 30, 60, 1_440] {
                let command = command(30, minutes, status);
                let timeline = command.timeline();
                let plan = timeline.run(None);
                let spread = Spread::of(&timeline, &plan);
                let can_differ = plan.end_chance.can_be_skipped
                    || plan.end_chance.can_come_earlier
                    || plan
                        .attempts
                        .iter()
                        .any(|one| one.chance.can_be_skipped || one.chance.can_come_earlier);
                assert!(
                    can_differ || spread.is_as_shown,
                    "{status}, {minutes}: {spread:?}"
                );
            }
        }
    }

    #[test]
    fn one_attempt_is_one() {
        assert_eq!(counted(1), "1 attempt");
        assert_eq!(counted(0), "0 attempts");
    }

    #[test]
    fn steps_are_read_or_refused() {
        for wrong in ["", "99", "600", "500x0", "500x101", "429:soon", "slow"] {
            assert!(wrong.parse::<Step>().is_err(), "{wrong}");
        }
        let step: Step = "429:45x2".parse().unwrap();
        assert_eq!(
            (step.does.to_string().as_str(), step.times),
            ("429, Retry-After 45", 2)
        );
    }

    #[test]
    fn times_are_shown_in_units() {
        for (seconds, expect) in [
            (0, "0 s"),
            (90, "1 min 30 s"),
            (43_200, "12 h"),
            (86_700, "24 h 5 min"),
        ] {
            assert_eq!(shown(Duration::from_secs(seconds)), expect);
        }
    }
}
