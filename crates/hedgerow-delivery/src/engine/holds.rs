//! What keeps deliveries from starting, and what becomes of those that are due meanwhile (ED-224 to ED-241, ED-324). What is
//! held stays where it is: behind the cursor, or under its row of the due index, until nothing holds it any more.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::hold::{Gate, Period, due_again};
use hedgerow_core::limits;
use hedgerow_core::outcome::{Outcome, Verdict};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::DeliveryKey;
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::Subscription;
use hedgerow_store::record::{Hold, Holds, Moved, MovedDelivery, Progress, Record};

use super::Engine;
use super::room::ROOM_AGAIN_AFTER;
use crate::command::{EndedHold, HoldInfo, HoldState};
use crate::plan::Plan;
use crate::runner::{Held, Runner};
use crate::windows::{EndpointKey, Tickets};

/// Held rows that one turn moves at most, over all subscriptions.
const MOVED_PER_TURN: usize = 16_384;
/// When a subscription is looked at again of which more has to be moved.
const MOVES_ON_AFTER: Duration = Duration::from_millis(5);
/// Rows of one MOVED record.
const MOVED_PER_RECORD: usize = 512;

impl Engine {
    /// Whether an attempt of the subscription may start.
    pub(super) fn gate(&self, runner: &Runner) -> Gate {
        let now = self.now();
        let window = self.windows.get(&runner.plan.delayed_at);
        let window = window.filter(|_| runner.plan.delayed_delivery.enabled);
        let window = window.map_or(Gate::Open, |endpoint| endpoint.window.gate(now));
        runner.probation.gate(now).and(window)
    }

    /// The end of the hold that is known now, for ED-195.
    pub(super) fn hold_until(&self, id: SubscriptionId) -> Option<Timestamp> {
        match self.gate(self.runners.get(&id)?) {
            Gate::Held(until) => Some(until),
            _ => None,
        }
    }

    /// How many held rows a turn may move: none while the log is slow to take what was queued, or has no room.
    pub(super) fn moves_of_a_turn(&self) -> usize {
        let is_slow = self.store.record_room().queued_bytes >= limits::JOURNAL_QUEUE_BYTES_MAX;
        if is_slow {
            0
        } else {
            MOVED_PER_TURN.min(self.room_for_rows())
        }
    }

    /// Says of what was held, and is no longer, when it is due: now, or later.
    pub(super) fn move_held(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let now = self.now();
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        let is_held = runner.plan.is_paused || matches!(self.gate(runner), Gate::Held(_));
        let Some(runner) = self.runners.get_mut(&id).filter(|_| !is_held) else {
            return Ok(());
        };
        let held = runner.held;
        let mut moved = Vec::new();
        let taken = runner.take_held(self.moves_left);
        self.moves_left -= taken.len();
        if self.moves_left == 0 && runner.has_held() {
            let after = if taken.is_empty() {
                ROOM_AGAIN_AFTER
            } else {
                MOVES_ON_AFTER
            };
            self.wakes.insert((now.plus(after), id));
        }
        for ((from, seq), held_at, progress) in taken {
            let key = DeliveryKey {
                subscription: id,
                seq,
            };
            let first_attempt = Some(progress.first_attempt).filter(|_| progress.attempts > 0);
            let due = due_again(
                &self.settings.retry,
                key,
                first_attempt,
                held_at,
                held.until,
            );
            let progress = Progress {
                last_outcome: held.outcome.unwrap_or(progress.last_outcome),
                ..progress
            };
            if due <= now {
                runner.put_ready(due, (from, seq), progress);
                continue;
            }
            runner.late.moved_to(seq, due);
            moved.push(MovedDelivery {
                seq,
                from,
                due,
                progress,
                part: runner.part(seq),
            });
        }
        for deliveries in moved.chunks(MOVED_PER_RECORD) {
            let deliveries = deliveries.to_vec();
            self.store.journal(Record::Moved(Moved {
                subscription: id,
                deliveries,
            }))?;
        }
        Ok(())
    }

    /// What an attempt that starts now carries.
    pub(super) fn tickets(&mut self, id: SubscriptionId) -> Option<Tickets> {
        let runner = self.runners.get_mut(&id)?;
        let probation = runner.probation.start();
        let endpoint = Arc::clone(&runner.plan.delayed_at);
        let is_on = runner.plan.delayed_delivery.enabled;
        let window = self.windows.get_mut(&endpoint).filter(|_| is_on);
        let window = window.map(|found| (endpoint, found.window.start()));
        Some(Tickets { probation, window })
    }

    /// Takes note of an attempt that failed, with all deliveries of its request. `base` is G of ED-195.
    pub(super) fn note_failure(
        &mut self,
        id: SubscriptionId,
        keys: &[DeliveryKey],
        tickets: Tickets,
        verdict: &Verdict,
        base: Timestamp,
    ) -> Result<(), StoreError> {
        let (Some(outcome), Some(runner)) = (verdict.outcome(), self.runners.get_mut(&id)) else {
            return Ok(());
        };
        if outcome == Outcome::Unauthorized && !std::mem::replace(&mut runner.is_unauthorized, true)
        {
            alert_unauthorized(&runner.plan);
        }
        let settings = runner.plan.probation.with(self.settings.probation);
        let delayed = runner.plan.delayed_delivery;
        let has_probation = runner
            .probation
            .failed(&settings, tickets.probation, outcome, base);
        let mut window = None;
        let mut is_free_again = None;
        if let Some((endpoint, ticket)) = tickets.window
            && let Some(found) = self.windows.get_mut(&endpoint)
        {
            let has_begun = match verdict {
                Verdict::Retry { .. } => found.window.failed(&delayed, ticket, keys, outcome, base),
                Verdict::Success | Verdict::Final { .. } => {
                    found.window.gave_up(ticket);
                    false
                }
            };
            if has_begun {
                window = Some((Arc::clone(&endpoint), *found.keeper.get_or_insert(id)));
            } else if found.window.period().is_some() {
                is_free_again = Some(endpoint);
            }
        }
        if has_probation {
            self.journal_holds(id)?;
            self.note_hold(id, "on probation: nothing is attempted for a while");
        }
        if let Some((endpoint, keeper)) = window {
            self.journal_holds(keeper)?;
            self.note_hold(id, "its endpoint fails: deliveries to it are delayed");
            self.look_at_all(&endpoint)?;
        }
        if let Some(endpoint) = is_free_again {
            self.look_at_all(&endpoint)?;
        }
        self.follow_hold(id);
        Ok(())
    }

    /// Takes note of a success, in time or late: it ends what holds the subscription, and its endpoint (ED-324).
    pub(super) fn note_success(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        runner.is_unauthorized = false;
        let endpoint = Arc::clone(&runner.plan.delayed_at);
        let had_probation = runner.probation.succeeded();
        let rate = self.settings.released_per_second;
        if let Some(found) = self.windows.get_mut(&endpoint)
            && found.window.succeeded(now, rate)
        {
            if let Some(keeper) = found.keeper.take() {
                self.follow_hold(keeper);
                self.journal_holds(keeper)?;
            }
            self.note_hold(
                id,
                "its endpoint accepts again: nothing is delayed any more",
            );
            self.look_at_all(&endpoint)?;
        }
        if had_probation {
            self.follow_hold(id);
            self.journal_holds(id)?;
            self.note_hold(id, "no longer on probation");
        }
        Ok(())
    }

    /// An attempt ended without an outcome.
    pub(super) fn give_up(
        &mut self,
        id: SubscriptionId,
        tickets: Tickets,
    ) -> Result<(), StoreError> {
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.probation.gave_up(tickets.probation);
        }
        if let Some((endpoint, ticket)) = tickets.window
            && let Some(found) = self.windows.get_mut(&endpoint)
        {
            found.window.gave_up(ticket);
            if found.window.period().is_some() {
                self.look_at_all(&endpoint)?;
            }
        }
        Ok(())
    }

    /// Ends what holds a subscription and its endpoint, because an operator asked for it (ED-232).
    pub(super) fn end_holds(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        runner.probation.end();
        let endpoint = Arc::clone(&runner.plan.delayed_at);
        if let Some(found) = self.windows.get_mut(&endpoint) {
            found.window.end();
            found.keeper = None;
            self.look_at_all(&endpoint)?;
        }
        self.follow_hold(id);
        self.note_end_of_hold(id)?;
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// What an operator's call would end, and for whom.
    pub(super) fn holds_of(&self, id: SubscriptionId) -> Vec<EndedHold> {
        let Some(runner) = self.runners.get(&id) else {
            return Vec::new();
        };
        let name = |runner: &Runner| {
            let plan = &runner.plan;
            (
                plan.topic_name.to_string(),
                plan.subscription_name.to_string(),
            )
        };
        let probation = runner.probation.period().map(|period| EndedHold {
            state: HoldState::Probation,
            period,
            held: vec![name(runner)],
        });
        let endpoint = self.windows.get(&runner.plan.delayed_at);
        let window = endpoint.and_then(|endpoint| {
            let period = endpoint.window.period()?;
            let members = endpoint.members.iter();
            let runners = members.filter_map(|member| self.runners.get(member));
            let held = runners.filter(|runner| runner.plan.delayed_delivery.enabled);
            let mut held: Vec<_> = held.map(name).collect();
            held.sort_unstable();
            Some(EndedHold {
                state: HoldState::Delayed,
                period,
                held,
            })
        });
        probation.into_iter().chain(window).collect()
    }

    /// A HOLD record that has to be written before an operator's call is answered: the window of an endpoint may stand in
    /// that of another subscription.
    pub(super) fn journal_end_of_window(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        let endpoint = self.windows.get(&runner.plan.delayed_at);
        let keeper = endpoint.and_then(|endpoint| endpoint.keeper);
        let Some(keeper) = keeper.filter(|keeper| *keeper != id) else {
            return Ok(());
        };
        let probation = self.runners.get(&keeper);
        let probation = probation.and_then(|runner| runner.probation.period());
        self.store.journal(Record::Hold(Hold {
            subscription: keeper,
            holds: Holds {
                probation,
                window: None,
            },
        }))
    }

    /// Whether and why a subscription is held back, and how many deliveries wait for the end of it.
    pub(super) fn hold_info(&self, subscription: &Subscription, owed: u64) -> HoldInfo {
        let runner = self.runners.get(&subscription.id);
        let probation = runner.and_then(|runner| runner.probation.period());
        let window = runner
            .filter(|runner| runner.plan.delayed_delivery.enabled)
            .and_then(|runner| self.windows.get(&runner.plan.delayed_at))
            .and_then(|endpoint| endpoint.window.period());
        let (mut state, period) = match (probation, window) {
            // The later end counts (ED-239).
            (Some(probation), Some(window)) if window.until > probation.until => {
                (HoldState::Delayed, Some(window))
            }
            (Some(probation), _) => (HoldState::Probation, Some(probation)),
            (None, Some(window)) => (HoldState::Delayed, Some(window)),
            (None, None) => (HoldState::Healthy, None),
        };
        let now = self.now();
        if period.is_some_and(|period| period.until <= now) {
            state = HoldState::AwaitingTrial;
        }
        if subscription.is_paused {
            state = if subscription.is_gone {
                HoldState::Gone
            } else {
                HoldState::Paused
            };
        }
        let first = runner.and_then(Runner::first_to_come);
        let period_to_try = period.filter(|_| !subscription.is_paused);
        let next_trial = period_to_try.and_then(|period| match first {
            Some(due) => Some(period.until.max(due)),
            None => Some(period.until).filter(|until| *until > now),
        });
        HoldInfo {
            state,
            cause: period.map(|period| period.cause),
            level: period.map_or(0, |period| period.level),
            since: if subscription.is_paused {
                subscription.paused
            } else {
                period.map(|period| period.since)
            },
            until: period.map(|period| period.until),
            next_trial,
            held: if state == HoldState::Healthy { 0 } else { owed },
        }
    }

    /// Something changed at an endpoint, for all who deliver there.
    fn look_at_all(&mut self, endpoint: &EndpointKey) -> Result<(), StoreError> {
        let members = self.windows.get(endpoint);
        let members: Vec<_> = members
            .map(|found| found.members.iter().copied().collect())
            .unwrap_or_default();
        for id in members {
            self.follow_hold(id);
            self.note_end_of_hold(id)?;
            self.queue_if_ready(id)?;
        }
        Ok(())
    }

    /// What holds the subscription, or did until its time was over and no attempt has succeeded since.
    fn periods(&self, runner: &Runner) -> impl Iterator<Item = Period> {
        let window = self.windows.get(&runner.plan.delayed_at);
        let window = window.filter(|_| runner.plan.delayed_delivery.enabled);
        let window = window.and_then(|endpoint| endpoint.window.period());
        runner.probation.period().into_iter().chain(window)
    }

    /// Remembers until when the subscription is held, or was: what became due before was held until then (ED-228).
    pub(super) fn follow_hold(&mut self, id: SubscriptionId) {
        let now = self.now();
        let Some(runner) = self.runners.get(&id) else {
            return;
        };
        let until = self.periods(runner).map(|period| period.until).max();
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        match until {
            // One whose time is over may have been followed by a pause.
            Some(until) if until > now.min(runner.held.until) => {
                runner.held = Held {
                    until,
                    outcome: Some(Outcome::Probation),
                    is_noted: false,
                };
                if until > now {
                    self.wakes.insert((until, id));
                }
            }
            // It ended earlier than was known.
            None if runner.held.until > now => runner.held.until = now,
            _ => {}
        }
    }

    /// Writes down that a hold has ended, and when, if something that it held may end without another attempt.
    pub(super) fn note_end_of_hold(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        let is_over = self.periods(runner).next().is_none() && runner.held.outcome.is_some();
        if is_over && !runner.held.is_noted && runner.owes_held() {
            return self.journal_holds(id);
        }
        Ok(())
    }

    /// Writes down what holds a subscription, or until when something did.
    fn journal_holds(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let endpoint = self.windows.get(&runner.plan.delayed_at);
        let kept = endpoint.filter(|endpoint| endpoint.keeper == Some(id));
        let held = Some(runner.held).filter(|held| held.outcome.is_some());
        let over = held.map(|held| Period::over(held.until));
        runner.held.is_noted = true;
        let released = endpoint.filter(|_| runner.plan.delayed_delivery.enabled);
        let released = released.and_then(|endpoint| endpoint.window.released());
        let window = kept.and_then(|endpoint| endpoint.window.period());
        let holds = Holds {
            probation: runner.probation.period().or(over),
            window: window.or(released.map(Period::over)),
        };
        self.store.journal(Record::Hold(Hold {
            subscription: id,
            holds,
        }))
    }

    fn note_hold(&self, id: SubscriptionId, what: &str) {
        let Some(runner) = self.runners.get(&id) else {
            return;
        };
        let endpoint = self.windows.get(&runner.plan.delayed_at);
        let window = endpoint.and_then(|endpoint| endpoint.window.period());
        let until = |period: Option<Period>| period.map(|period| period.until.to_string());
        tracing::info!(
            topic = &*runner.plan.topic_name,
            subscription = &*runner.plan.subscription_name,
            probation_until = until(runner.probation.period()),
            delayed_until = until(window),
            "{what}"
        );
    }

    /// A subscription delivers there from now on; takes up what held it when the server ended.
    pub(super) fn join_endpoint(&mut self, id: SubscriptionId) {
        let stored = self.view.holds(id).window;
        let (over, stored) = (
            stored.filter(Period::is_over),
            stored.filter(|stored| !stored.is_over()),
        );
        let Some(runner) = self.runners.get(&id) else {
            return;
        };
        let endpoint = Arc::clone(&runner.plan.delayed_at);
        self.windows.join(&endpoint, id, stored);
        if let (Some(over), Some(found)) = (over, self.windows.get_mut(&endpoint)) {
            let rate = self.settings.released_per_second;
            found.window.go_on_releasing(over.until, rate);
        }
        let members = self.windows.get(&endpoint).filter(|_| stored.is_some());
        let members =
            members.map_or_else(Vec::new, |found| found.members.iter().copied().collect());
        // Those who had joined before did not know of the window.
        for member in members {
            self.follow_hold(member);
        }
        self.follow_hold(id);
    }

    /// A subscription delivers there no longer. Its window stays with the others.
    pub(super) fn leave_endpoint(
        &mut self,
        endpoint: &EndpointKey,
        id: SubscriptionId,
    ) -> Result<(), StoreError> {
        match self.windows.leave(endpoint, id) {
            Some(heir) => self.journal_holds(heir),
            None => Ok(()),
        }
    }

    pub(super) fn observe_moved(&mut self, moved: &Moved) -> Result<(), StoreError> {
        let id = moved.subscription;
        let purges = &self.purges;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        for delivery in &moved.deliveries {
            if self.view.is_open(id, delivery.seq) && !purges.has(id, delivery.seq) {
                runner.note_due(delivery.due, delivery.seq, delivery.owed());
            }
        }
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }
}

/// Tells people at the first answer that its credentials are not taken (section 11, row 9): they may have run out. Once, until a
/// delivery succeeds or the subscription is changed.
fn alert_unauthorized(plan: &Plan) {
    tracing::warn!(
        category = "Alerts",
        resourceId = plan.source_path,
        topic = &*plan.topic_name,
        eventSubscriptionName = &*plan.subscription_name,
        outcome = Outcome::Unauthorized.as_str(),
        "the endpoint does not accept the credentials of the subscription: they may have run out"
    );
}
