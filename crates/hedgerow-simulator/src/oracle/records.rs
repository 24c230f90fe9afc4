//! What the engine queues for the log, held against the rules and against what receivers did. A record is judged when it is
//! queued, which is when the engine acts on it.

use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_store::record::{
    Dead, DeadThen, DropReason, FailedDelivery, Progress, Read, Record, SettledHow, StartedDelivery,
};

use super::{Exchange, Oracle, at};
use crate::model::{State, Subscription};
use crate::rules::{self, Failure};

/// ED-207.
const CRASH_DELAY_SECONDS: u64 = 30;
/// ED-190.
const CRASHES_MAX: u8 = 3;

impl Oracle {
    /// The engine queued a record.
    pub fn journaled(&mut self, now: Timestamp, record: &Record) {
        if self.is_of_gone(record) {
            return self.journaled_of_gone(record);
        }
        match record {
            Record::Catalog(change) => self.judge_departure(now, change),
            Record::Started(started) => {
                let wrong = self.wrong_batch(started);
                if let Some(wrong) = wrong
                    .or_else(|| self.wrong_life(started))
                    .or_else(|| self.wrong_order(started))
                    .or_else(|| self.wrong_limits(started))
                {
                    let first = started.deliveries.first().map_or(0, |one| one.seq);
                    let name = self.name(started.subscription, first);
                    self.fail(format!("a start with {name}: {wrong}"));
                }
                self.begin_exchange(started.subscription, &started.deliveries);
                for one in &started.deliveries {
                    self.judge_start(now, started.subscription, one);
                }
            }
            Record::Failed(failed) => {
                for one in &failed.deliveries {
                    self.judge_failure(now, failed.subscription, one);
                }
            }
            Record::Settled(settled) => {
                for (seq, _) in &settled.deliveries {
                    self.judge_success(settled.subscription, *seq, settled.how);
                }
            }
            Record::Dead(dead) => self.judge_end(now, dead),
            Record::Moved(moved) => self.judge_move(moved),
            Record::Divided(divided) => {
                self.judge_division(now, divided);
                self.tally.divisions += 1;
            }
            Record::Read(read) => self.judge_places(read),
            Record::Hold(hold) => {
                let begins = |period: Option<hedgerow_core::hold::Period>| {
                    u64::from(period.is_some_and(|period| !period.is_over()))
                };
                self.tally.probations += begins(hold.holds.probation);
                self.tally.windows += begins(hold.holds.window);
            }
            _ => {}
        }
        if !matches!(record, Record::Catalog(_)) {
            self.live.fold(record);
        }
    }

    fn judge_start(&mut self, now: Timestamp, id: SubscriptionId, start: &StartedDelivery) {
        let seq = start.seq;
        let Some(subscription) = self.live.subscriptions.get(&id) else {
            return;
        };
        let wrong = self
            .wrong_event(subscription, seq)
            .or_else(|| wrong_row(subscription, start))
            .or_else(|| self.wrong_hold(subscription, start.progress.last_attempt))
            .or_else(|| {
                let started = start.progress.last_attempt;
                (started > now).then(|| format!("it starts at {}, in the future", at(started)))
            });
        if let Some(wrong) = wrong {
            self.fail(format!("a start of {}: {wrong}", self.name(id, seq)));
        }
        self.live.note_trial(id, seq);
    }

    /// Why this event is none for the subscription.
    fn wrong_event(&self, subscription: &Subscription, seq: u64) -> Option<String> {
        let topic = &self.live.topics[&subscription.topic];
        match topic.events.get(seq as usize - 1) {
            None => Some("there is no such event".to_owned()),
            Some(event) if !subscription.wants(event) => {
                Some("its subscription does not want it".to_owned())
            }
            Some(_) if seq < subscription.from_seq => {
                Some("its subscription came later".to_owned())
            }
            Some(_) if subscription.is_paused => Some("its subscription is paused".to_owned()),
            Some(_) => None,
        }
    }

    /// Why nothing may start now (ED-228, ED-230, ED-237, ED-238).
    fn wrong_hold(&self, subscription: &Subscription, started: Timestamp) -> Option<String> {
        let tried = |trial: u64| format!("number {trial} is being tried alone");
        let held = |until: Timestamp| {
            let (started, until) = (at(started), at(until));
            format!("it starts at {started}, and nothing may before {until}")
        };
        let of_probation = subscription.probation.and_then(|period| {
            if started < period.until {
                return Some(format!("ED-228: {}", held(period.until)));
            }
            let trial = subscription.trial?;
            Some(format!("ED-230: {}", tried(trial)))
        });
        of_probation.or_else(|| {
            let window = self.live.window_of(subscription)?;
            if started < window.period.until {
                return Some(format!("ED-237: {}", held(window.period.until)));
            }
            let (_, trial) = window.trial?;
            Some(format!("ED-238: {}", tried(trial)))
        })
    }

    fn judge_failure(&mut self, now: Timestamp, id: SubscriptionId, failed: &FailedDelivery) {
        let FailedDelivery { seq, due, progress } = *failed;
        let Some(delivery) = self.live.delivery(id, seq).copied() else {
            return self.fail(format!(
                "{} failed, and was never begun",
                self.name(id, seq)
            ));
        };
        if delivery.state != State::Flying {
            let state = delivery.state;
            return self.fail(format!("{} failed, and is {state:?}", self.name(id, seq)));
        }
        if progress.attempts != delivery.attempts || progress.last_attempt != delivery.started {
            return self.fail(format!(
                "{} failed in attempt {} of {}",
                self.name(id, seq),
                progress.attempts,
                at(progress.last_attempt)
            ));
        }
        self.judge_answer(id, seq, &progress);
        self.judge_probation(id, seq, &progress);
        if self.is_unclear(id, seq) {
            return;
        }
        let (from, to) = match progress.last_outcome {
            // ED-189: due at once.
            Outcome::Aborted | Outcome::Canceled => (delivery.started, now),
            // ED-207.
            Outcome::Delivering => {
                let delay = std::time::Duration::from_secs(CRASH_DELAY_SECONDS);
                let again = delivery.started.plus(delay);
                (again, now.max(again))
            }
            _ => {
                let answer = self.answer(id, seq, &progress).cloned();
                let timeout = self.live.subscriptions.get(&id);
                let timeout = timeout.map(|subscription| subscription.spec.response_timeout);
                let early = match (
                    answer.as_ref().and_then(|exchange| exchange.answered),
                    progress.last_outcome,
                ) {
                    (Some((_, answered)), _) => answered,
                    (None, Outcome::TimedOut) => delivery.started.plus(timeout.unwrap_or_default()),
                    (None, _) => delivery.started,
                };
                rules::next_due(&Failure {
                    first: delivery.first,
                    started: delivery.started,
                    ended: (early, now.max(early)),
                    status: self.floor_status(id, progress.last_status),
                    retry_after: answer.and_then(|exchange| exchange.retry_after),
                    hold: self.live.held_until(id, now),
                    has_jitter: self.has_jitter,
                })
            }
        };
        if due < from || due > to {
            self.fail(format!(
                "ED-195: {} failed with {:?} {} and is due at {}, not between {} and {}",
                self.name(id, seq),
                progress.last_outcome,
                progress.last_status,
                at(due),
                at(from),
                at(to)
            ));
        }
    }

    /// What an attempt is said to have met was met.
    fn judge_answer(&mut self, id: SubscriptionId, seq: u64, progress: &Progress) {
        let status = progress.last_status;
        if self.is_unclear(id, seq) {
            return;
        }
        if status != 0 && self.answer(id, seq, progress).is_none() {
            self.fail(format!(
                "{} failed with {status}, which nobody answered to attempt {}",
                self.name(id, seq),
                progress.attempts
            ));
        }
        if status != 0
            && let Some(wrong) = self.wrong_failure(id, seq, status)
        {
            self.fail(format!("{}: {wrong}", self.name(id, seq)));
        }
    }

    /// The answer to the newest attempt, if its receiver gave it.
    fn answer(&self, id: SubscriptionId, seq: u64, progress: &Progress) -> Option<&Exchange> {
        self.exchanges_of(id, seq).find(|exchange| {
            let status = exchange.answered.map(|(status, _)| status);
            exchange.count + 1 == progress.attempts && status == Some(progress.last_status)
        })
    }

    /// Counts failures in a row, and asks for the period that follows from them (ED-226, ED-227, ED-324). A batch is one.
    fn judge_probation(&mut self, id: SubscriptionId, seq: u64, progress: &Progress) {
        let outcome = progress.last_outcome;
        if matches!(
            outcome,
            Outcome::Aborted | Outcome::Canceled | Outcome::Delivering | Outcome::Probation
        ) {
            return;
        }
        let name = self.name(id, seq);
        if let Some(exchange) = self.newest_exchange(id, seq)
            && std::mem::replace(&mut exchange.is_counted, true)
        {
            return;
        }
        let Some(subscription) = self.live.subscriptions.get_mut(&id) else {
            return;
        };
        let Some(delivery) = subscription.deliveries.get(&seq).copied() else {
            return;
        };
        let Some(duration) = rules::probation(outcome) else {
            subscription.row = None;
            return;
        };
        let is_of_before = delivery.generation != subscription.generation;
        if subscription
            .probation
            .is_some_and(|period| is_of_before && delivery.started < period.until)
        {
            // Either it began before the period, or the period follows from it.
            return;
        }
        subscription.row = match subscription.row {
            Some((same, count)) if same == outcome => Some((outcome, count + 1)),
            _ => Some((outcome, 1)),
        };
        let count = subscription.row.map_or(0, |(_, count)| count);
        let threshold = subscription.spec.probation.threshold;
        let until = delivery.started.plus(duration);
        let is_held = subscription
            .probation
            .is_some_and(|period| period.until >= until);
        if count >= threshold && !is_held {
            self.fail(format!(
                "ED-226: {count} attempts in a row met {outcome:?}, {name} the last, and there is no probation until {}",
                at(until)
            ));
        }
    }

    fn judge_success(&mut self, id: SubscriptionId, seq: u64, how: SettledHow) {
        if let Some(subscription) = self.live.subscriptions.get_mut(&id) {
            subscription.row = None;
        }
        let state = self.live.delivery(id, seq).map(|delivery| delivery.state);
        if state.is_none() {
            self.fail(format!(
                "{} is delivered, and was never begun",
                self.name(id, seq)
            ));
        }
        let is_unclear = self.is_unclear(id, seq);
        if !is_unclear && !self.exchanges_of(id, seq).any(|one| one.takes(seq)) {
            self.fail(format!(
                "{} counts as {how:?}, and its receiver never took it",
                self.name(id, seq)
            ));
        }
    }

    fn judge_end(&mut self, now: Timestamp, dead: &Dead) {
        let (id, seq) = (dead.subscription, dead.seq);
        let Some(subscription) = self.live.subscriptions.get(&id) else {
            return;
        };
        let delivery = subscription.deliveries.get(&seq).copied();
        let state = delivery.map(|delivery| delivery.state);
        if state.is_some_and(|state| !state.is_open()) {
            return self.fail(format!("{} ends again: {dead:?}", self.name(id, seq)));
        }
        let attempts = dead.progress.map_or(0, |progress| progress.attempts);
        let is_decision = !matches!(state, Some(State::Letter(_)));
        if is_decision
            && subscription.blocks()
            && dead.reason != DeadLetterReason::UndeliverableDueToRepeatedCrash
        {
            let message = format!(
                "FC-12: {} ends, and its key was to wait: {dead:?}",
                self.name(id, seq)
            );
            return self.fail(message);
        }
        let is_right = attempts == delivery.map_or(0, |delivery| delivery.attempts)
            && (!is_decision || has_reason(subscription, dead))
            && self.follows(now, subscription, dead);
        if !is_right {
            self.fail(format!("{} ends wrongly: {dead:?}", self.name(id, seq)));
        }
        if let Some(progress) = dead.progress.filter(|_| state == Some(State::Flying)) {
            self.judge_answer(id, seq, &progress);
            if dead.reason != DeadLetterReason::UndeliverableDueToRepeatedCrash {
                self.judge_probation(id, seq, &progress);
            }
        }
    }

    /// Whether what follows the end of a delivery is right (ED-244 to ED-247).
    fn follows(&self, now: Timestamp, subscription: &Subscription, dead: &Dead) -> bool {
        let delivery = subscription.deliveries.get(&dead.seq);
        let letter = match delivery.map(|delivery| delivery.state) {
            Some(State::Letter(due)) => Some(due),
            _ => None,
        };
        let settings = subscription.spec.dead_letter;
        match dead.then {
            DeadThen::WriteDue(due, _) if letter.is_none() => {
                due == dead.decided.plus(settings.delay)
            }
            DeadThen::WriteDue(due, write) => write.failed > 0 && due > dead.decided,
            DeadThen::Written => {
                let is_kept = self.is_letter_kept(dead.subscription, dead.seq);
                is_kept && letter.is_some_and(|due| now >= due)
            }
            DeadThen::Dropped(DropReason::NoDeadLetterDestination) => {
                subscription.spec.dead_letter_destination.is_none()
            }
            DeadThen::Dropped(DropReason::DeadLetterStoreUnavailable) => {
                let first_failed = delivery.and_then(|delivery| delivery.first_unwritten);
                let unavailable = now.since(first_failed.unwrap_or(now));
                !settings.max_unavailable.is_zero() && unavailable >= settings.max_unavailable
            }
            DeadThen::Dropped(DropReason::DeadLetterContainerNotFound) => {
                settings.drop_if_not_found
            }
            DeadThen::Dropped(_) => false,
        }
    }

    /// Nobody's place is behind something that was not begun.
    fn judge_places(&mut self, read: &Read) {
        let mut wrong = Vec::new();
        let topic = &self.live.topics[&read.topic].events;
        let subscriptions = self.live.subscriptions.iter_mut();
        for (id, subscription) in subscriptions.filter(|(_, one)| one.topic == read.topic) {
            let laggard = read.laggards.iter().find(|(laggard, _)| laggard == id);
            let cursor = laggard.map_or(read.read_to, |(_, cursor)| *cursor);
            for seq in subscription.looked_to..cursor {
                let Some(event) = topic.get(seq as usize - 1) else {
                    wrong.push((*id, seq));
                    break;
                };
                let is_owed = subscription.wants(event) && seq >= subscription.purged_to;
                if is_owed && !subscription.deliveries.contains_key(&seq) {
                    wrong.push((*id, seq));
                }
            }
            subscription.looked_to = subscription.looked_to.max(cursor);
        }
        for (id, seq) in wrong {
            self.fail(format!(
                "the place of its subscription is behind {}, which was not begun",
                self.name(id, seq)
            ));
        }
    }
}

/// Why this start does not follow from what was before it (ED-195, ED-203, ED-204).
fn wrong_row(subscription: &Subscription, start: &StartedDelivery) -> Option<String> {
    let progress = start.progress;
    let before = subscription.deliveries.get(&start.seq);
    let attempts = before.map_or(0, |delivery| delivery.attempts);
    let (number, allowed) = (progress.attempts, subscription.attempts_allowed.1);
    if number != attempts + 1 {
        return Some(format!("attempt {number} follows attempt {attempts}"));
    }
    if number > allowed && !subscription.blocks() {
        return Some(format!("ED-204: attempt {number} of {allowed}"));
    }
    let (due, row) = match (before.map(|delivery| delivery.state), start.replaces_due) {
        (None, None) => return None,
        (Some(State::Waiting(due)), Some(row)) => (due, row),
        (state, row) => return Some(format!("it is {state:?}, and starts from {row:?}")),
    };
    if due != row {
        return Some(format!("it was due at {}, not {}", at(due), at(row)));
    }
    let started = progress.last_attempt;
    if started < due {
        let (started, due) = (at(started), at(due));
        return Some(format!(
            "ED-195: it starts at {started}, and is due at {due}"
        ));
    }
    let age = due.since(progress.published).as_secs() / 60;
    (age >= subscription.minutes_allowed.1 && !subscription.blocks())
        .then(|| format!("ED-203: it was due {age} minutes after it was published"))
}

/// Whether a delivery ended for the reason that is said (section 8.4).
fn has_reason(subscription: &Subscription, dead: &Dead) -> bool {
    let status = dead.progress.map_or(0, |progress| progress.last_status);
    match dead.reason {
        DeadLetterReason::TimeToLiveExceeded => {
            let age = dead.decided.since(dead.published).as_secs() / 60;
            age >= subscription.minutes_allowed.0
        }
        DeadLetterReason::MaxDeliveryAttemptsExceeded => {
            let attempts = dead.progress.map_or(0, |progress| progress.attempts);
            attempts >= subscription.attempts_allowed.0
        }
        DeadLetterReason::UndeliverableDueToHttpBadRequest => status == 400,
        DeadLetterReason::UndeliverableDueToHttpUnauthorized => status == 401,
        DeadLetterReason::UndeliverableDueToHttpForbidden => status == 403,
        DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge => status == 413,
        DeadLetterReason::UndeliverableDueToClientError => {
            let finals = &subscription.spec.overrides.final_statuses;
            finals.contains(&status)
        }
        DeadLetterReason::UndeliverableDueToRepeatedCrash => {
            let crashes = dead.progress.map(|progress| progress.crashes);
            crashes >= Some(CRASHES_MAX)
        }
        DeadLetterReason::UndeliverableDueToProbationCausedByClientError => {
            subscription.spec.probation.dead_letter_on_client_error
        }
    }
}
