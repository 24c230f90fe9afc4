//! `hedgerow plan`: the exact timeline of a retry policy, before anyone relies on it. Asks no server: the rules are the
//! server's own, on a clock of its own, without chance.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use hedgerow_core::dead_letter::DeadLetterSettings;
use hedgerow_core::limits;
use hedgerow_core::outcome::{
    DeadLetterReason, DestinationKind, Failure as FailedHow, Floors, Met, Overrides, Verdict,
    classify,
};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{
    self, DeliveryKey, FailedAttempt, Jitter, Next, RetryPolicy, RetrySettings,
};
use hedgerow_core::time::Timestamp;
use serde_json::{Value, json};

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

/// A timeline.
#[derive(Debug, Default)]
struct Plan {
    /// When each attempt starts after publishing, what it meets, and its outcome.
    attempts: Vec<(Duration, Does, &'static str)>,
    /// When it ends, and how: without a reason it is delivered.
    end: (Duration, Option<DeadLetterReason>),
}

const COLUMNS: [Column; 4] = [
    ("ATTEMPT", "/attempt"),
    ("AT", "/shownTime"),
    ("MEETS", "/meets"),
    ("OUTCOME", "/outcome"),
];

impl PlanCommand {
    /// Runs the command.
    pub fn run(&self) {
        let plan = self.plan();
        let attempts: Vec<Value> = (1..)
            .zip(&plan.attempts)
            .map(|(number, (at, does, outcome))| {
                json!({
                    "attempt": number, "atInMs": millis(*at), "shownTime": shown(*at),
                    "meets": does.to_string(), "outcome": outcome,
                })
            })
            .collect();
        let (at, reason) = plan.end;
        let written = at + DeadLetterSettings::default().delay;
        if self.json {
            output::json(&json!({
                "attempts": attempts,
                "endInMs": millis(at),
                "reason": reason.map(DeadLetterReason::as_str),
                "deadLetterInMs": reason.map(|_| millis(written)),
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
                "given up at {} after {count} attempts: {}; a dead letter is written at {}",
                shown(at),
                reason.as_str(),
                shown(written)
            ),
        });
        output::line(
            "times are those after publishing; each retry comes up to a tenth later by chance, at most 30 s;",
        );
        output::line(
            "probation and delayed delivery, which hold events of a failing endpoint back, are left out",
        );
    }

    fn plan(&self) -> Plan {
        let settings = RetrySettings {
            jitter: Jitter::OFF,
            ..RetrySettings::default()
        };
        let policy = RetryPolicy {
            max_delivery_attempts: self.max_delivery_attempts,
            event_time_to_live: retry::minutes(self.event_ttl),
        };
        let floors = Floors::default();
        let begun = Timestamp::from_millis(0);
        let mut plan = Plan::default();
        let mut due = begun;
        loop {
            if retry::is_expired(&policy, begun, due) {
                plan.end = (due.since(begun), Some(DeadLetterReason::TimeToLiveExceeded));
                return plan;
            }
            let does = self.step(plan.attempts.len());
            let ended = match does {
                Does::Fail(Failing::Timeout) => {
                    due.plus(Duration::from_secs(self.response_timeout))
                }
                _ => due,
            };
            let verdict = classify(
                DestinationKind::Webhook,
                &does.met(),
                &Overrides::default(),
                &floors,
            );
            let outcome = verdict
                .outcome()
                .map_or("Success", |outcome| outcome.as_str());
            plan.attempts.push((due.since(begun), does, outcome));
            let next = match verdict {
                Verdict::Success => {
                    plan.end = (ended.since(begun), None);
                    return plan;
                }
                Verdict::Final { reason, .. } => Next::Dead(reason),
                Verdict::Retry {
                    floor, retry_after, ..
                } => retry::after_failure(
                    &settings,
                    &policy,
                    &FailedAttempt {
                        key: DeliveryKey {
                            subscription: SubscriptionId(1),
                            seq: 1,
                        },
                        attempts: u16::try_from(plan.attempts.len()).unwrap_or(u16::MAX),
                        first_attempt: begun,
                        started: due,
                        ended,
                        floor,
                        retry_after,
                        hold_until: None,
                    },
                ),
            };
            match next {
                Next::Due(at) => due = at,
                Next::Dead(reason) => {
                    plan.end = (ended.since(begun), Some(reason));
                    return plan;
                }
            }
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

    fn plan(attempts: u16, minutes: u32, status: &str) -> (Vec<u64>, u64, Option<&'static str>) {
        let command = PlanCommand {
            max_delivery_attempts: attempts,
            event_ttl: minutes,
            status: status.split(',').map(|one| one.parse().unwrap()).collect(),
            response_timeout: 30,
            json: false,
        };
        let plan = command.plan();
        let at = plan.attempts.iter().map(|(at, ..)| at.as_secs()).collect();
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
