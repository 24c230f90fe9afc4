//! `probation`: probation and delayed delivery (ED-224 to ED-241, ED-324) in virtual time: a driver that asks the machines of `hold`
//! together with `retry` and `outcome`, and does what the engine does with the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_core::hold::{
    DelayedDeliverySettings, DueOrder, Gate, Period, Probation, ProbationSettings, Ticket, Window,
    due_again,
};
use hedgerow_core::outcome::{
    DeadLetterReason, DestinationKind, Failure, Floors, Met, Outcome, Overrides, Verdict, classify,
    is_success, parse_retry_after,
};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{
    DeliveryKey, FailedAttempt, Jitter, Next, RetryPolicy, RetrySettings, after_failure,
    floor_base, is_expired, is_late_success, minutes,
};
use hedgerow_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::timeline::{P, PolicyInput, Step, at, changed};
use crate::read_values::{Kind, span};
use crate::table::{Case, Run};

const TIMEOUT: Duration = Duration::from_secs(30);
const RELEASED_PER_SECOND: u32 = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "webhook")]
    kind: Kind,
    #[serde(default)]
    policy: PolicyInput,
    #[serde(default)]
    settings: SettingsInput,
    until_s: Option<f64>,
    events: Vec<EventInput>,
}

fn webhook() -> Kind {
    Kind::W
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventInput {
    name: String,
    at: f64,
    script: Vec<Step>,
    #[serde(rename = "eventTimeToLiveInMinutes")]
    time_to_live: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct SettingsInput {
    #[serde(rename = "probation.threshold")]
    threshold: Option<u32>,
    #[serde(rename = "probation.deadLetterOnClientError")]
    dead_letter_on_client_error: Option<bool>,
    #[serde(rename = "delayedDelivery.enabled")]
    enabled: Option<bool>,
    #[serde(rename = "delayedDelivery.events")]
    events: Option<u32>,
    #[serde(rename = "delayedDelivery.firstWindow")]
    first_window: Option<f64>,
    #[serde(rename = "delayedDelivery.maxWindow")]
    max_window: Option<f64>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let mut driver = Driver::new(&input);
    driver.run();
    Ok(Run::result(driver.result()))
}

/// One event of the subscription.
struct Delivery<'a> {
    input: &'a EventInput,
    key: DeliveryKey,
    policy: RetryPolicy,
    published: Timestamp,
    /// When it is due; `None` while it is attempted and when it is final.
    due: Option<Timestamp>,
    /// When it was held, until it is attempted.
    held: Option<Timestamp>,
    first_attempt: Option<Timestamp>,
    starts: Vec<Timestamp>,
    last_outcome: Option<Outcome>,
    is_settled: bool,
    ended: Option<Value>,
}

struct Running {
    event: usize,
    started: Timestamp,
    ends: Timestamp,
    met: Met,
    late_success: Option<Timestamp>,
    tickets: (Ticket, Option<Ticket>),
}

struct Driver<'a> {
    input: &'a Input,
    kind: DestinationKind,
    retry: RetrySettings,
    probation_settings: ProbationSettings,
    delayed: DelayedDeliverySettings,
    probation: Probation,
    window: Window,
    now: Timestamp,
    events: Vec<Delivery<'a>>,
    running: Vec<Running>,
    late: Vec<(Timestamp, usize)>,
    probations: Vec<Period>,
    windows: Vec<Period>,
}

impl<'a> Driver<'a> {
    fn new(input: &'a Input) -> Self {
        let given = &input.settings;
        let mut probation_settings = ProbationSettings::default();
        if let Some(threshold) = given.threshold {
            probation_settings.threshold = threshold;
        }
        if let Some(ends) = given.dead_letter_on_client_error {
            probation_settings.dead_letter_on_client_error = ends;
        }
        let defaults = DelayedDeliverySettings::default();
        let delayed = DelayedDeliverySettings {
            enabled: given.enabled.unwrap_or(defaults.enabled),
            events: given.events.unwrap_or(defaults.events),
            first_window: given.first_window.map_or(defaults.first_window, span),
            max_window: given.max_window.map_or(defaults.max_window, span),
        };
        let policy = changed(
            RetryPolicy::default(),
            input.policy.max_delivery_attempts,
            input.policy.event_time_to_live_in_minutes,
        );
        let delivery = |(seq, event): (u64, &'a EventInput)| Delivery {
            input: event,
            key: DeliveryKey {
                subscription: SubscriptionId(7),
                seq,
            },
            policy: RetryPolicy {
                event_time_to_live: event
                    .time_to_live
                    .map_or(policy.event_time_to_live, minutes),
                ..policy
            },
            published: at(event.at),
            due: Some(at(event.at)),
            held: None,
            first_attempt: None,
            starts: Vec::new(),
            last_outcome: None,
            is_settled: false,
            ended: None,
        };
        Self {
            input,
            kind: input.kind.into(),
            retry: RetrySettings {
                jitter: Jitter::OFF,
                ..RetrySettings::default()
            },
            probation_settings,
            delayed,
            probation: Probation::default(),
            window: Window::default(),
            now: Timestamp::from_millis(P.as_millis() - 1),
            events: (1..).zip(&input.events).map(delivery).collect(),
            running: Vec::new(),
            late: Vec::new(),
            probations: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// At one instant results come first, then due checks in the order of ED-230; each result is known before the next due
    /// event is looked at (ED-003).
    fn run(&mut self) {
        let until = self.input.until_s.map_or(Timestamp::MAX, at);
        while let Some(now) = self.next_time().filter(|now| *now <= until) {
            self.now = now;
            while self.take_result() || self.take_due() {}
        }
    }

    fn next_time(&self) -> Option<Timestamp> {
        let running = self.running.iter().map(|running| running.ends);
        let late = self.late.iter().map(|(time, _)| *time);
        // What is due and not started waits for a trial to end.
        let due = self.events.iter().filter_map(|event| event.due);
        let due = due.filter(|due| *due > self.now);
        running.chain(late).chain(due).min()
    }

    fn take_result(&mut self) -> bool {
        if let Some(index) = self.late.iter().position(|(time, _)| *time == self.now) {
            let (_, event) = self.late.remove(index);
            if self.events[event].ended.is_none() {
                self.events[event].is_settled = true;
                self.events[event].due = None;
                self.end(event, "delivered_late", None);
                self.succeeded();
            }
            return true;
        }
        let ended = self
            .running
            .iter()
            .position(|running| running.ends == self.now);
        let Some(index) = ended else {
            return false;
        };
        let running = self.running.remove(index);
        self.take_end(&running);
        true
    }

    fn take_end(&mut self, running: &Running) {
        let verdict = classify(
            self.kind,
            &running.met,
            &Overrides::default(),
            &Floors::default(),
        );
        let event = running.event;
        let base = floor_base(&self.retry, running.started, self.now);
        let (probation, window) = running.tickets;
        let Some(outcome) = verdict.outcome() else {
            self.succeeded();
            if !self.events[event].is_settled {
                self.end(event, "delivered", None);
            }
            return;
        };
        if self
            .probation
            .failed(&self.probation_settings, probation, outcome, base)
        {
            self.probations.extend(self.probation.period());
        }
        if let Some(ticket) = window {
            if let Verdict::Final { .. } = verdict {
                self.window.gave_up(ticket);
            } else {
                let key = self.events[event].key;
                if self
                    .window
                    .failed(&self.delayed, ticket, &[key], outcome, base)
                {
                    self.windows.extend(self.window.period());
                }
            }
        }
        if self.events[event].is_settled {
            return;
        }
        self.events[event].last_outcome = Some(outcome);
        self.late
            .extend(running.late_success.map(|time| (time, event)));
        let (floor, retry_after) = match verdict {
            Verdict::Retry {
                floor, retry_after, ..
            } => (floor, retry_after),
            Verdict::Final { reason, .. } => return self.end(event, "dead_letter", Some(reason)),
            Verdict::Success => unreachable!("it has no outcome"),
        };
        let hold_until = match self.gate() {
            Gate::Held(until) => Some(until),
            _ => None,
        };
        let delivery = &mut self.events[event];
        let failed = FailedAttempt {
            key: delivery.key,
            attempts: delivery.starts.len() as u16,
            first_attempt: delivery.first_attempt.expect("there was an attempt"),
            started: running.started,
            ended: self.now,
            floor,
            retry_after,
            hold_until,
        };
        match after_failure(&self.retry, &delivery.policy, &failed) {
            Next::Due(due) => delivery.due = Some(due),
            Next::Dead(reason) => self.end(event, "dead_letter", Some(reason)),
        }
    }

    fn succeeded(&mut self) {
        let was_held = matches!(self.gate(), Gate::Held(_));
        self.probation.succeeded();
        if self.delayed.enabled {
            self.window.succeeded(self.now, RELEASED_PER_SECOND);
        }
        if !was_held {
            return;
        }
        // The hold ended earlier than was known when they were held.
        for event in self.events.iter_mut().filter(|event| event.due.is_some()) {
            if let Some(held) = event.held {
                let again = due_again(&self.retry, event.key, event.first_attempt, held, self.now);
                event.due = Some(again);
            }
        }
    }

    fn gate(&self) -> Gate {
        let window = if self.delayed.enabled {
            self.window.gate(self.now)
        } else {
            Gate::Open
        };
        self.probation.gate(self.now).and(window)
    }

    /// Looks at the first due event, and says whether there was one to do something about.
    fn take_due(&mut self) -> bool {
        let due = self.events.iter().enumerate().filter_map(|(index, event)| {
            let order = DueOrder {
                due: event.due.filter(|due| *due <= self.now)?,
                published: event.published,
                seq: event.key.seq,
            };
            Some((order, index))
        });
        let Some((order, index)) = due.min() else {
            return false;
        };
        match self.gate() {
            Gate::OnTrial => false,
            Gate::Held(until) => {
                self.hold(index, order.due, until);
                true
            }
            Gate::Open | Gate::Trial => {
                let is_expired = is_expired(&self.events[index].policy, order.published, order.due);
                if is_expired {
                    self.end(
                        index,
                        "dead_letter",
                        Some(DeadLetterReason::TimeToLiveExceeded),
                    );
                } else {
                    assert_eq!(self.window.may_start_at(order.due, self.now), self.now);
                    self.window.note_start(order.due, self.now);
                    self.start(index);
                }
                true
            }
        }
    }

    fn hold(&mut self, index: usize, due: Timestamp, until: Timestamp) {
        let event = &mut self.events[index];
        event.last_outcome = Some(Outcome::Probation);
        if let Some(reason) = self.probation.ends_due(&self.probation_settings, self.now) {
            return self.end(index, "dead_letter", Some(reason));
        }
        event.held = Some(due);
        let again = due_again(&self.retry, event.key, event.first_attempt, due, until);
        event.due = Some(again);
    }

    fn start(&mut self, index: usize) {
        let tickets = (
            self.probation.start(),
            self.delayed.enabled.then(|| self.window.start()),
        );
        let event = &mut self.events[index];
        let script = &event.input.script;
        let step = &script[event.starts.len().min(script.len() - 1)];
        event.due = None;
        event.held = None;
        event.starts.push(self.now);
        event.first_attempt.get_or_insert(self.now);
        let (met, wait, late) = meet(step, self.now, &self.retry);
        self.running.push(Running {
            event: index,
            started: self.now,
            ends: self.now.plus(wait),
            met,
            late_success: late.map(|after| self.now.plus(after)),
            tickets,
        });
    }

    fn end(&mut self, index: usize, result: &str, reason: Option<DeadLetterReason>) {
        let event = &mut self.events[index];
        event.due = None;
        let mut ended = json!({
            "at": since(self.now),
            "result": result,
            "attempts": event.starts.len(),
        });
        if let Some(reason) = reason {
            ended["reason"] = json!(reason.as_str());
            ended["last_outcome"] = json!(event.last_outcome.map(Outcome::as_str));
        }
        event.ended = Some(ended);
    }

    fn result(&self) -> Value {
        let periods = |periods: &[Period]| -> Vec<[f64; 2]> {
            let pair = |period: &Period| [since(period.since), since(period.until)];
            periods.iter().map(pair).collect()
        };
        let attempts: BTreeMap<&str, Vec<(f64, usize)>> = self
            .events
            .iter()
            .map(|event| {
                let starts = event.starts.iter().map(|start| since(*start));
                let counted = starts.zip(0..).collect();
                (event.input.name.as_str(), counted)
            })
            .collect();
        let ends: BTreeMap<&str, &Value> = self
            .events
            .iter()
            .filter_map(|event| Some((event.input.name.as_str(), event.ended.as_ref()?)))
            .collect();
        json!({
            "attempts": attempts,
            "probation": periods(&self.probations),
            "windows": periods(&self.windows),
            "final": ends,
        })
    }
}

/// What an attempt meets, after which time its outcome is known, and after which time it still succeeds, if it does.
fn meet(step: &Step, now: Timestamp, retry: &RetrySettings) -> (Met, Duration, Option<Duration>) {
    let elapsed = span(step.after_s);
    match (step.status, step.failure) {
        (Some(status), None) if elapsed <= TIMEOUT => {
            let ends = now.plus(elapsed);
            let retry_after = step.retry_after.as_deref();
            let retry_after = retry_after.and_then(|text| parse_retry_after(text, ends));
            let met = Met::Response {
                status,
                retry_after,
            };
            (met, elapsed, None)
        }
        (Some(status), None) => {
            let is_late = is_late_success(elapsed, TIMEOUT, retry.late_success_window);
            let late = (is_success(status) && is_late).then_some(elapsed);
            (Met::Failure(Failure::Timeout), TIMEOUT, late)
        }
        (None, Some(failure)) => {
            let wait = if failure == Failure::Timeout {
                TIMEOUT
            } else {
                elapsed
            };
            (Met::Failure(failure), wait, None)
        }
        _ => panic!("one of status and failure"),
    }
}

fn since(time: Timestamp) -> f64 {
    time.since(P).as_millis() as f64 / 1000.0
}
