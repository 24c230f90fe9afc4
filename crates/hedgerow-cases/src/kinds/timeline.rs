//! `timeline`: the worked timelines (ED-189 to ED-209) in virtual time: a driver that asks the rules of `retry` and `outcome` and
//! does what the engine does with the answers.

use std::time::Duration;

use hedgerow_core::dead_letter::{DeadLetterSettings, write_due};
use hedgerow_core::hold::{Gate, Probation, ProbationSettings, Ticket, due_again};
use hedgerow_core::outcome::{
    DeadLetterReason, DestinationKind, Failure, Met, Outcome, Overrides, Verdict, classify,
    is_success, parse_retry_after,
};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{
    CrashedAttempt, DeliveryKey, FailedAttempt, Jitter, Next, NotStarted, RetryPolicy,
    RetrySettings, after_abort, after_crash, after_failure, after_no_start, after_restart,
    floor_base, is_expired, is_late_success, minutes,
};
use hedgerow_core::time::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::read_values::{Kind, span};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "webhook")]
    kind: Kind,
    #[serde(default)]
    policy: PolicyInput,
    script: Vec<Step>,
    #[serde(default = "thirty")]
    response_timeout_s: f64,
    #[serde(default)]
    settings: SettingsInput,
    #[serde(default)]
    first_due_at: f64,
    #[serde(default)]
    policy_changes: Vec<PolicyChange>,
    #[serde(default)]
    down: Vec<Down>,
}

fn webhook() -> Kind {
    Kind::W
}

fn thirty() -> f64 {
    30.0
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct PolicyInput {
    pub(super) max_delivery_attempts: Option<u16>,
    pub(super) event_time_to_live_in_minutes: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PolicyChange {
    at: f64,
    max_delivery_attempts: Option<u16>,
    event_time_to_live_in_minutes: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct SettingsInput {
    #[serde(rename = "deadLetter.delay")]
    dead_letter_delay: Option<f64>,
    #[serde(rename = "probation.threshold")]
    probation_threshold: Option<u32>,
    #[serde(rename = "retry.latencyAllowance")]
    latency_allowance: Option<f64>,
    #[serde(rename = "retry.retriableStatuses")]
    retriable_statuses: Vec<u16>,
    #[serde(rename = "retry.finalStatuses")]
    final_statuses: Vec<u16>,
    #[serde(rename = "retry.slotMode")]
    slot_mode: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) status: Option<u16>,
    pub(super) failure: Option<Failure>,
    #[serde(default)]
    pub(super) after_s: f64,
    pub(super) retry_after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Down {
    from: f64,
    to: f64,
    kind: DownKind,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum DownKind {
    Shutdown,
    Crash,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let mut dead_letter = DeadLetterSettings::default();
    if let Some(delay) = input.settings.dead_letter_delay {
        dead_letter.delay = span(delay);
    }
    let ended = Driver::new(&input).run();
    let seconds = |millis: u64| millis as f64 / 1000.0;
    let decided = ended.decided.since(P).as_millis() as u64;
    let (result, reason) = match ended.how {
        End::Delivered => ("delivered", None),
        End::DeliveredLate => ("delivered_late", None),
        End::Dead(reason) => ("dead_letter", Some(reason)),
    };
    let starts: Vec<f64> = ended
        .starts
        .iter()
        .map(|at| seconds(at.since(P).as_millis() as u64))
        .collect();
    Ok(Run::result(json!({
        "attempts_at": starts,
        "delivery_counts": (0..starts.len()).collect::<Vec<_>>(),
        "delivery_attempts": ended.attempts,
        "decision_at": seconds(decided),
        "result": result,
        "reason": reason.map(DeadLetterReason::as_str),
        "dead_letter_at": reason.map(|_| {
            let due = write_due(&dead_letter, ended.decided);
            seconds(due.since(P).as_millis() as u64)
        }),
        "last_outcome": ended.last_outcome.map(Outcome::as_str),
    })))
}

/// The publish time; anything but 0, which would hide a forgotten base.
pub(super) const P: Timestamp = Timestamp::from_millis(1_900_000_000_000);

const KEY: DeliveryKey = DeliveryKey {
    subscription: SubscriptionId(7),
    seq: 42,
};

#[derive(Clone, Copy)]
enum End {
    Delivered,
    DeliveredLate,
    Dead(DeadLetterReason),
}

struct Ended {
    how: End,
    decided: Timestamp,
    starts: Vec<Timestamp>,
    attempts: u16,
    last_outcome: Option<Outcome>,
}

/// A change from outside.
#[derive(Clone, Copy)]
enum Change {
    Stop(DownKind),
    Start,
    Policy(RetryPolicy),
}

struct Running {
    started: Timestamp,
    ends: Timestamp,
    met: Met,
    is_attempt: bool,
    ticket: Option<Ticket>,
}

struct Driver<'a> {
    input: &'a Input,
    kind: DestinationKind,
    settings: RetrySettings,
    overrides: Overrides,
    policy: RetryPolicy,
    probation_settings: ProbationSettings,
    probation: Probation,
    timeout: Duration,
    changes: Vec<(Timestamp, Change)>,
    now: Timestamp,
    is_up: bool,
    /// When it went down last.
    stopped: Timestamp,
    due: Option<Timestamp>,
    running: Option<Running>,
    /// The start of an attempt that a crash lost.
    lost: Option<Timestamp>,
    late_success: Option<Timestamp>,
    step: usize,
    first_attempt: Option<Timestamp>,
    starts: Vec<Timestamp>,
    attempts: u16,
    last_outcome: Option<Outcome>,
}

pub(super) fn at(seconds: f64) -> Timestamp {
    P.plus(span(seconds))
}

impl<'a> Driver<'a> {
    fn new(input: &'a Input) -> Self {
        let mut settings = RetrySettings {
            jitter: Jitter::OFF,
            ..RetrySettings::default()
        };
        if let Some(allowance) = input.settings.latency_allowance {
            settings.latency_allowance = span(allowance);
        }
        if let Some(mode) = &input.settings.slot_mode {
            settings.slot_mode = mode.parse().expect("a slot mode");
        }
        settings.check().expect("settings of the table");
        let policy = changed(
            RetryPolicy::default(),
            input.policy.max_delivery_attempts,
            input.policy.event_time_to_live_in_minutes,
        );
        Self {
            input,
            kind: input.kind.into(),
            settings,
            overrides: Overrides {
                final_statuses: input.settings.final_statuses.clone(),
                retriable_statuses: input.settings.retriable_statuses.clone(),
            },
            policy,
            probation_settings: ProbationSettings {
                threshold: input.settings.probation_threshold.unwrap_or(3),
                ..ProbationSettings::default()
            },
            probation: Probation::default(),
            timeout: span(input.response_timeout_s),
            changes: changes(input, policy),
            now: P,
            is_up: true,
            stopped: Timestamp::ZERO,
            due: Some(at(input.first_due_at)),
            running: None,
            lost: None,
            late_success: None,
            step: 0,
            first_attempt: None,
            starts: Vec::new(),
            attempts: 0,
            last_outcome: None,
        }
    }

    /// At one instant results come first, then stops, starts and changes, then due checks (ED-003).
    fn run(mut self) -> Ended {
        for _ in 0..10_000 {
            self.now = self.next_time();
            let end = if self
                .running
                .as_ref()
                .is_some_and(|running| running.ends == self.now)
            {
                self.end_attempt()
            } else if self.late_success == Some(self.now) {
                Some(End::DeliveredLate)
            } else if self
                .changes
                .first()
                .is_some_and(|(time, _)| *time == self.now)
            {
                self.change()
            } else {
                self.start_due()
            };
            if let Some(how) = end {
                return Ended {
                    how,
                    decided: self.now,
                    starts: self.starts,
                    attempts: self.attempts,
                    last_outcome: self.last_outcome,
                };
            }
        }
        panic!("the timeline does not end");
    }

    fn next_time(&self) -> Timestamp {
        let due = self.due.filter(|_| self.is_up && self.running.is_none());
        let times = [
            self.running.as_ref().map(|running| running.ends),
            self.late_success,
            self.changes.first().map(|(time, _)| *time),
            due,
        ];
        times
            .into_iter()
            .flatten()
            .min()
            .expect("something is always to come")
    }

    fn start_due(&mut self) -> Option<End> {
        let due = self.due.take().expect("nothing else is left to happen");
        if let Gate::Held(until) = self.probation.gate(self.now) {
            self.last_outcome = Some(Outcome::Probation);
            let again = due_again(&self.settings, KEY, self.first_attempt, due, until);
            self.due = Some(again);
            return None;
        }
        if is_expired(&self.policy, P, due) {
            return Some(End::Dead(DeadLetterReason::TimeToLiveExceeded));
        }
        let script = &self.input.script;
        let step = &script[self.step.min(script.len() - 1)];
        self.step += 1;
        let elapsed = span(step.after_s);
        let (met, wait) = match (step.status, step.failure) {
            (Some(status), None) if elapsed <= self.timeout => {
                let ends = self.now.plus(elapsed);
                let retry_after = step
                    .retry_after
                    .as_deref()
                    .and_then(|text| parse_retry_after(text, ends));
                (
                    Met::Response {
                        status,
                        retry_after,
                    },
                    elapsed,
                )
            }
            (Some(status), None) => {
                let window = self.settings.late_success_window;
                if is_success(status) && is_late_success(elapsed, self.timeout, window) {
                    self.late_success = Some(self.now.plus(elapsed));
                }
                (Met::Failure(Failure::Timeout), self.timeout)
            }
            (None, Some(Failure::Timeout)) => (Met::Failure(Failure::Timeout), self.timeout),
            (None, Some(failure)) => (Met::Failure(failure), elapsed),
            _ => panic!("one of status and failure"),
        };
        let is_attempt = !matches!(met, Met::Failure(failure) if !failure.counts());
        if is_attempt {
            self.first_attempt.get_or_insert(self.now);
            self.starts.push(self.now);
            self.attempts += 1;
        }
        let ends = self.now.plus(wait);
        self.running = Some(Running {
            started: self.now,
            ends,
            met,
            is_attempt,
            ticket: is_attempt.then(|| self.probation.start()),
        });
        None
    }

    fn end_attempt(&mut self) -> Option<End> {
        let running = self
            .running
            .take()
            .expect("only called for a running attempt");
        let verdict = classify(
            self.kind,
            &running.met,
            &self.overrides,
            &self.settings.floors,
        );
        self.last_outcome = verdict.outcome();
        if let (Some(ticket), Some(outcome)) = (running.ticket, verdict.outcome()) {
            let base = floor_base(&self.settings, running.started, self.now);
            self.probation
                .failed(&self.probation_settings, ticket, outcome, base);
        }
        let hold_until = match self.probation.gate(self.now) {
            Gate::Held(until) => Some(until),
            _ => None,
        };
        match verdict {
            Verdict::Success => Some(End::Delivered),
            Verdict::Final { reason, .. } => Some(End::Dead(reason)),
            Verdict::Retry { floor, .. } if !running.is_attempt => {
                self.due = Some(after_no_start(
                    &self.settings,
                    &NotStarted {
                        key: KEY,
                        attempts: self.attempts,
                        base: self.first_attempt.unwrap_or(at(self.input.first_due_at)),
                        tried: running.started,
                        ended: self.now,
                        floor,
                        hold_until,
                    },
                ));
                None
            }
            Verdict::Retry {
                floor, retry_after, ..
            } => {
                let failed = FailedAttempt {
                    key: KEY,
                    attempts: self.attempts,
                    first_attempt: self.first_attempt.expect("there was an attempt"),
                    started: running.started,
                    ended: self.now,
                    floor,
                    retry_after,
                    hold_until,
                };
                let next = after_failure(&self.settings, &self.policy, &failed);
                self.follow(next)
            }
        }
    }

    fn change(&mut self) -> Option<End> {
        let (_, change) = self.changes.remove(0);
        match change {
            Change::Policy(policy) => {
                self.policy = policy;
                None
            }
            Change::Stop(kind) => self.stop(kind),
            Change::Start => self.start(),
        }
    }

    fn stop(&mut self, kind: DownKind) -> Option<End> {
        self.is_up = false;
        self.stopped = self.now;
        self.late_success = None;
        let running = self.running.take()?;
        match kind {
            DownKind::Crash => {
                self.lost = Some(running.started);
                None
            }
            DownKind::Shutdown => {
                self.last_outcome = Some(Outcome::Aborted);
                let next = after_abort(&self.policy, self.attempts, self.now);
                self.follow(next)
            }
        }
    }

    fn start(&mut self) -> Option<End> {
        self.is_up = true;
        if let Some(started) = self.lost.take() {
            let crashed = CrashedAttempt {
                attempts: self.attempts,
                started,
                crashes: 1,
                now: self.now,
            };
            let (next, outcome) = after_crash(&self.settings, &self.policy, &crashed);
            self.last_outcome = Some(outcome);
            return self.follow(next);
        }
        self.due = self
            .due
            .map(|due| after_restart(due, self.stopped, self.now));
        None
    }

    fn follow(&mut self, next: Next) -> Option<End> {
        match next {
            Next::Due(due) => {
                self.due = Some(due);
                None
            }
            Next::Dead(reason) => Some(End::Dead(reason)),
        }
    }
}

pub(super) fn changed(
    policy: RetryPolicy,
    max: Option<u16>,
    time_to_live: Option<u32>,
) -> RetryPolicy {
    RetryPolicy {
        max_delivery_attempts: max.unwrap_or(policy.max_delivery_attempts),
        event_time_to_live: time_to_live.map_or(policy.event_time_to_live, minutes),
    }
}

fn changes(input: &Input, mut policy: RetryPolicy) -> Vec<(Timestamp, Change)> {
    let mut changes = Vec::new();
    for change in &input.policy_changes {
        let time_to_live = change.event_time_to_live_in_minutes;
        policy = changed(policy, change.max_delivery_attempts, time_to_live);
        changes.push((at(change.at), Change::Policy(policy)));
    }
    for down in &input.down {
        changes.push((at(down.from), Change::Stop(down.kind)));
        changes.push((at(down.to), Change::Start));
    }
    changes.sort_by_key(|(time, _)| *time);
    changes
}
