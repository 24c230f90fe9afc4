//! Attempts at origins of groups: which origin each goes to, and what becomes of an event that there is none for (HP-094, HP-200
//! to HP-202, ED-315).

use hedgerow_core::credit::Signal;
use hedgerow_core::outcome::{Failure, Met, Verdict, classify};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{self, DeliveryKey, NotStarted};
use hedgerow_io::http::Target;
use hedgerow_store::StoreError;
use hedgerow_store::record::{
    Failed, FailedDelivery, Moved, MovedDelivery, Progress, Record, Started, StartedDelivery,
};

use super::Engine;
use super::batches::PER_RECORD;
use crate::endpoints::{Seat, StoreRoom};
use crate::explain::WaitingFor;
use crate::gauges::EndpointCredits;
use crate::origins::{Choice, Known, NoOrigin, ToGroup};
use crate::runner::{Next, Runner};

/// When a subscription goes on whose events were looked at as many as one turn may, and none could be sent.
const GOES_ON_AFTER: std::time::Duration = std::time::Duration::from_millis(5);

impl Engine {
    /// Lets the subscription to a group choose an origin whose turn it is. Returns whether there was one.
    pub(super) fn start_at_a_group(&mut self, room: StoreRoom) -> Result<bool, StoreError> {
        let Some(id) = self.endpoints.next_for_group(room) else {
            return Ok(false);
        };
        self.start_at_origin(id, None, room)?;
        Ok(true)
    }

    /// Starts what is next of a subscription to a group. With a seat that it waited for, at the origin that it is for.
    pub(super) fn start_at_origin(
        &mut self,
        seated: SubscriptionId,
        seat: Option<Seat>,
        room: StoreRoom,
    ) -> Result<(), StoreError> {
        if let Some(runner) = self.runners.get_mut(&seated) {
            runner.is_queued = false;
        }
        let Some((id, next)) = self.take_turn(seated) else {
            self.give_back(seat, Signal::GivenUp);
            // Something else may be first now, or has to end.
            self.queue_ended(seated);
            return Ok(());
        };
        match self.choose_origin(id, next.seq, seat.as_ref(), room) {
            Choice::None(why) => {
                self.give_back(seat, Signal::GivenUp);
                self.say_of_no_origin(id, Some(why));
                self.not_started(id, next)
            }
            Choice::Busy(endpoints) => {
                let has_waited = seat.is_some();
                self.give_back(seat, Signal::GivenUp);
                self.wait_for_origins(id, &next, endpoints, has_waited);
                Ok(())
            }
            Choice::To(route) => {
                let seat = match seat {
                    Some(mut seat) => {
                        if id != seated {
                            self.endpoints.pass(&mut seat, id);
                        }
                        self.endpoints.take_route(&mut seat, &route);
                        Some(seat)
                    }
                    None => self.endpoints.seat_at_origin(&route, id, self.turn, room),
                };
                let Some(seat) = seat else {
                    let endpoint = route.origin.endpoint.clone();
                    self.wait_for_origins(id, &next, vec![endpoint], false);
                    return Ok(());
                };
                self.say_of_no_origin(id, None);
                self.start_one(id, next, seat)
            }
        }
    }

    /// Puts a delivery back that was taken, until one of these endpoints has room. Who has waited at one that cannot be chosen any
    /// more chooses again.
    fn wait_for_origins(
        &mut self,
        id: SubscriptionId,
        next: &Next,
        endpoints: Vec<Target>,
        has_waited: bool,
    ) {
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        runner.put_back(vec![*next]);
        if std::mem::replace(&mut runner.is_queued, true) {
            return;
        }
        if has_waited {
            self.endpoints.queue_for_group(id);
        } else {
            let now = self.turn.instant;
            self.endpoints.wait_for_origins(id, endpoints, now);
        }
    }

    /// Looks at those that wait at busy origins: the health of others may have changed.
    pub(super) fn look_at_groups(&mut self) {
        for id in self.endpoints.waiting_for_origins(self.turn.instant) {
            let eligible = self.eligible_origins(id);
            if eligible.is_empty() || !self.endpoints.waits_at_all(id, &eligible) {
                self.endpoints.end_wait_for_origins(id);
                self.endpoints.queue_for_group(id);
            }
        }
    }

    fn eligible_origins(&self, id: SubscriptionId) -> Vec<Target> {
        let runner = self.runners.get(&id);
        let to = runner.and_then(|runner| runner.plan.group());
        let known = to.and_then(|to| self.read_group(to));
        let consents = self.consents(id);
        known.map_or_else(Vec::new, |mut known| {
            known.eligible(|origin| consents.has(origin))
        })
    }

    /// Which origin an attempt goes to. With a seat, of those at its endpoint.
    fn choose_origin(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        seat: Option<&Seat>,
        room: StoreRoom,
    ) -> Choice {
        let Some(runner) = self.runners.get(&id) else {
            return Choice::None(NoOrigin::UnknownGroup);
        };
        let Some(to) = runner.plan.group() else {
            return Choice::None(NoOrigin::UnknownGroup);
        };
        let consents = self.validations.consents(self.view.catalog(), id);
        let found = self.view.catalog().origin_group_named(to.name.as_str());
        let known = found.and_then(|(name, _)| self.groups.look(to, name.as_str()));
        let Some(known) = known else {
            return Choice::None(NoOrigin::UnknownGroup);
        };
        let endpoints = &self.endpoints;
        known.choose(
            runner.last_failed.of(seq),
            |origin| consents.has(origin),
            |origin| match seat {
                Some(seat) => *seat.endpoint() == origin.endpoint,
                None => endpoints.has_room_at(&origin.endpoint, id, room),
            },
        )
    }

    /// An attempt could not be started. Nothing is counted, and the event is due again at its first slot after the floor (ED-315).
    /// The same is so of what is next behind it.
    fn not_started(&mut self, id: SubscriptionId, first: Next) -> Result<(), StoreError> {
        let now = self.now();
        let mut all = vec![first];
        self.moves_left = self.moves_left.saturating_sub(1);
        while all.len() < PER_RECORD
            && self.moves_left > 0
            && let Some((_, next)) = self.startable(id, id)
            && let Some(runner) = self.runners.get_mut(&id)
        {
            runner.take(&next);
            self.moves_left -= 1;
            all.push(next);
        }
        let met = Met::Failure(Failure::NoOrigin);
        let Some(runner) = self.runners.get(&id) else {
            return Ok(());
        };
        let floors = &self.settings.retry.floors;
        let verdict = classify(runner.plan.kind, &met, &runner.plan.overrides, floors);
        let Verdict::Retry { outcome, floor, .. } = verdict else {
            return Ok(());
        };
        let hold_until = self.hold_until(id);
        let (mut started, mut failed, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for next in all {
            let key = DeliveryKey {
                subscription: id,
                seq: next.seq,
            };
            if let Some(row) = next.row.filter(|_| self.is_purged(id, next.seq)) {
                self.journal_purged(key, row)?;
                continue;
            }
            let before = next.progress.unwrap_or(Progress {
                first_attempt: next.due,
                ..Progress::unattempted(next.published, outcome)
            });
            let due = retry::after_no_start(
                &self.settings.retry,
                &NotStarted {
                    key,
                    attempts: before.attempts,
                    // Without an attempt it is when it was first due.
                    base: before.first_attempt,
                    tried: now,
                    ended: now,
                    floor,
                    hold_until,
                },
            );
            let progress = Progress {
                last_outcome: outcome,
                last_status: 0,
                ..before
            };
            let seq = next.seq;
            let Some(from) = next.row else {
                started.push(StartedDelivery {
                    seq,
                    replaces_due: None,
                    progress,
                });
                failed.push(FailedDelivery { seq, due, progress });
                continue;
            };
            if let Some(runner) = self.runners.get_mut(&id) {
                runner.late.moved_to(seq, due);
                moved.push(MovedDelivery {
                    seq,
                    from,
                    due,
                    progress,
                    part: runner.part(seq),
                });
            }
        }
        self.journal_not_started(id, started, failed, moved)?;
        if self.moves_left == 0 {
            self.wakes.insert((now.plus(GOES_ON_AFTER), id));
            return self.plan_wake(id);
        }
        self.queue_if_ready(id)?;
        self.plan_wake(id)
    }

    /// What was never begun is begun, as at the start of an attempt, and is due again, as at the end of one; of no attempt.
    fn journal_not_started(
        &mut self,
        id: SubscriptionId,
        started: Vec<StartedDelivery>,
        failed: Vec<FailedDelivery>,
        moved: Vec<MovedDelivery>,
    ) -> Result<(), StoreError> {
        if !started.is_empty() {
            if let Some(runner) = self.runners.get(&id) {
                self.moved.insert(runner.topic);
            }
            self.store.journal(Record::Started(Started {
                subscription: id,
                deliveries: started,
            }))?;
            self.store.journal(Record::Failed(Failed {
                subscription: id,
                deliveries: failed,
            }))?;
        }
        if !moved.is_empty() {
            self.store.journal(Record::Moved(Moved {
                subscription: id,
                deliveries: moved,
            }))?;
        }
        Ok(())
    }

    /// Tells people when there is nobody to send to, and when there is again.
    fn say_of_no_origin(&mut self, id: SubscriptionId, why: Option<NoOrigin>) {
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut runner.no_origin, why) == why {
            return;
        }
        let (topic, subscription) = (&*runner.plan.topic_name, &*runner.plan.subscription_name);
        let endpoint = runner.plan.to.to_string();
        if let Some(why) = why {
            tracing::warn!(
                topic,
                subscription,
                endpoint,
                reason = why.as_str(),
                "no attempt can be made; events keep their places in the retry schedule"
            );
        } else {
            tracing::info!(topic, subscription, endpoint, "attempts are made again");
        }
    }

    /// The group as it is now, for whoever only looks.
    fn read_group(&self, to: &ToGroup) -> Option<Known> {
        let found = self.view.catalog().origin_group_named(to.name.as_str());
        found.and_then(|(name, _)| self.groups.read(to, name.as_str()))
    }

    /// Why there is no origin that the events of a subscription could be sent to, if that is so.
    pub(super) fn no_origin_for(&self, runner: &Runner) -> Option<NoOrigin> {
        let to = runner.plan.group()?;
        let Some(mut known) = self.read_group(to) else {
            return Some(NoOrigin::UnknownGroup);
        };
        let consents = self.consents(runner.id);
        known.refusal(|origin| consents.has(origin))
    }

    /// What a subscription to a group waits for that may start, and has not.
    pub(super) fn waiting_for_origin(&self, runner: &Runner) -> WaitingFor {
        let eligible = self.eligible_origins(runner.id);
        match eligible.first() {
            Some(endpoint) => self.endpoints.waiting_for(endpoint, runner.id),
            None => WaitingFor::Origin {
                why: NoOrigin::NoneEnabled,
                at: None,
            },
        }
    }

    /// How many attempts run at the origins of a subscription's group, and how many may.
    pub(super) fn credits_of_group(&self, runner: &Runner) -> EndpointCredits {
        let known = runner.plan.group().and_then(|to| self.read_group(to));
        let mut sum = EndpointCredits::default();
        for endpoint in known.iter().flat_map(Known::endpoints) {
            let credits = self.endpoints.credits(endpoint);
            sum.open += credits.open;
            sum.limit += credits.limit;
            sum.slow_open += credits.slow_open;
            sum.slow_limit += credits.slow_limit;
        }
        sum
    }

    /// Remembers which origin an attempt failed at, or forgets it.
    pub(super) fn note_origin(
        &mut self,
        id: SubscriptionId,
        seq: u64,
        origin: u32,
        has_failed: bool,
    ) {
        if let Some(runner) = self.runners.get_mut(&id) {
            if has_failed {
                runner.last_failed.note(seq, origin);
            } else {
                runner.last_failed.forget(seq);
            }
        }
    }

    fn consents(&self, id: SubscriptionId) -> super::consents::Consents<'_> {
        self.validations.consents(self.view.catalog(), id)
    }
}
