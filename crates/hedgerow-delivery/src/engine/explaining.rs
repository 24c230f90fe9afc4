//! Says where the deliveries of events stand, for explanations: from what is in memory, and from the view.

use std::collections::BTreeMap;

use hedgerow_core::hold::Gate;
use hedgerow_core::position::{Position, SubscriptionId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{FORMER_FILTERS_MAX, GoneSubscription, Subscription};
use hedgerow_store::record::{IN_FLIGHT, Owed};
use hedgerow_store::view::BEHIND_IN_FLIGHT;

use super::{Engine, Phase};
use crate::explain::{
    DeliveryStanding, EventStandings, Place, SUBSCRIPTIONS_MAX, StandingsQuery, Waiting, WaitingFor,
};
use crate::plan::To;
use crate::runner::Standing;
use crate::source::path_of_topic;

/// Rows of the due index, in memory and in the view, that one question looks at, at most, for deliveries whose time nobody
/// remembers.
pub(super) const SCANNED_ROWS_MAX: usize = 20_000;

impl Engine {
    /// Where the deliveries of these events stand.
    pub(super) fn standings(
        &self,
        events: &[StandingsQuery],
    ) -> Result<Vec<EventStandings>, StoreError> {
        let mut rows_left = SCANNED_ROWS_MAX;
        let standings = events.iter();
        standings
            .map(|event| self.standings_of(event, &mut rows_left))
            .collect()
    }

    fn standings_of(
        &self,
        event: &StandingsQuery,
        rows_left: &mut usize,
    ) -> Result<EventStandings, StoreError> {
        let position = event.position;
        let Some(topic) = self.view.catalog().topic(position.topic) else {
            return Ok(EventStandings {
                gone: self.gone(event),
                rules: self.settings.filter_rules,
                ..EventStandings::default()
            });
        };
        let hints: BTreeMap<SubscriptionId, Timestamp> = event.hints.iter().copied().collect();
        let wanted = |found: &&Subscription| {
            event.is_about(found.name.as_str(), found.domain_topic.as_ref())
        };
        let all = self.view.catalog().subscriptions_of(position.topic);
        let mut subscriptions: Vec<_> = all.filter(wanted).collect();
        // If they are too many, those that it is owed to stay.
        if subscriptions.len() > SUBSCRIPTIONS_MAX {
            subscriptions.sort_by_key(|found| {
                let is_owed = self.view.is_open(found.id, position.seq);
                (!is_owed && !hints.contains_key(&found.id), found.id)
            });
        }
        let left_out = subscriptions.len().saturating_sub(SUBSCRIPTIONS_MAX);
        subscriptions.truncate(SUBSCRIPTIONS_MAX);
        let deliveries = subscriptions.into_iter().map(|found| {
            let hint = hints.get(&found.id).copied();
            let place = self.place(found, position, hint, rows_left)?;
            let waiting = match place {
                Place::NotBegun | Place::Owed => Some(None),
                Place::Due { at, .. } => Some(Some(at)),
                Place::InFlight { .. } | Place::DeadLetterDue { .. } | Place::Ended => None,
            };
            Ok(DeliveryStanding {
                subscription: found.id,
                name: found.name.as_str().to_owned(),
                domain_topic: found.domain_topic.clone(),
                filter: found.filter_at(position.seq).cloned(),
                knows_filters: found.former_filters.len() < FORMER_FILTERS_MAX,
                inactive: (!found.is_active()).then(|| found.newest_provisioning()),
                policy: found.spec.retry_policy,
                place,
                purges: found.purges.clone(),
                waiting: waiting.map(|due| self.waiting(found, position, due)),
            })
        });
        Ok(EventStandings {
            topic_name: Some(topic.name.as_str().to_owned()),
            topic_path: path_of_topic(topic),
            deliveries: deliveries.collect::<Result<_, StoreError>>()?,
            left_out,
            gone: self.gone(event),
            rules: self.settings.filter_rules,
        })
    }

    /// The subscriptions that were deleted since the event, as far as they are remembered.
    fn gone(&self, event: &StandingsQuery) -> Vec<GoneSubscription> {
        let Position { topic, seq } = event.position;
        let all = self.view.catalog().gone_at(topic, seq);
        let wanted = all.filter(|one| event.is_about(one.name.as_str(), one.domain_topic.as_ref()));
        wanted.cloned().collect()
    }

    pub(super) fn place(
        &self,
        subscription: &Subscription,
        Position { topic, seq }: Position,
        hint: Option<Timestamp>,
        rows_left: &mut usize,
    ) -> Result<Place, StoreError> {
        let id = subscription.id;
        let standing = match self.runners.get(&id) {
            Some(runner) => {
                let head = self.readers.get(&topic).map_or(seq, |reader| reader.head);
                runner.standing(seq, head, hint, rows_left)
            }
            // Its endpoint cannot be used: it stands where it is.
            None if seq >= self.view.cursor(id) => Some(Standing::NotBegun),
            None => None,
        };
        match standing {
            Some(Standing::NotBegun) => return Ok(Place::NotBegun),
            Some(Standing::InFlight {
                is_attempt,
                progress,
            }) => {
                let attempt = progress.filter(|_| is_attempt);
                let attempt = attempt.map_or(0, |progress| progress.attempts);
                return Ok(Place::InFlight { attempt });
            }
            Some(Standing::Due(at, progress)) => {
                let attempts = progress.attempts;
                return Ok(Place::Due { at, attempts });
            }
            None => {}
        }
        if !self.view.is_open(id, seq) {
            return Ok(Place::Ended);
        }
        for due in [Some(IN_FLIGHT), hint].into_iter().flatten() {
            if let Some(owed) = self.view.owed(id, due, seq)? {
                return Ok(place_of(due, owed));
            }
        }
        let rows = self
            .view
            .due(id, BEHIND_IN_FLIGHT, Timestamp::MAX, *rows_left)?;
        *rows_left -= rows.len();
        let row = rows.into_iter().find(|row| row.seq == seq);
        Ok(row.map_or(Place::Owed, |row| place_of(row.due, row.owed)))
    }

    /// What a delivery waits for that is due at this time, `None` before its first attempt.
    fn waiting(
        &self,
        subscription: &Subscription,
        position: Position,
        due: Option<Timestamp>,
    ) -> Waiting {
        Waiting {
            hold: self.hold_info(subscription, 0),
            waiting_for: self.waiting_for(subscription, position, due),
        }
    }

    fn waiting_for(
        &self,
        subscription: &Subscription,
        Position { topic, seq }: Position,
        due: Option<Timestamp>,
    ) -> WaitingFor {
        let now = self.now();
        let Some(runner) = self.runners.get(&subscription.id) else {
            return WaitingFor::UsableEndpoint;
        };
        if self.phase != Phase::Running {
            return WaitingFor::Start;
        }
        if runner.plan.is_paused {
            return WaitingFor::Resume;
        }
        if let Some(why) = self.no_origin_for(runner) {
            let at = due.filter(|at| *at > now);
            return WaitingFor::Origin { why, at };
        }
        let gate = self.gate(runner);
        match (gate, due) {
            (Gate::Held(until), _) if due.is_none_or(|due| due <= until) => {
                return WaitingFor::EndOfHold;
            }
            (_, Some(at)) if at > now => return WaitingFor::DueTime { at },
            (Gate::OnTrial, _) => return WaitingFor::Trial,
            // It may be the one that is tried.
            (Gate::Trial, _) if self.first_due(runner).is_none_or(|next| next.seq != seq) => {
                return WaitingFor::Trial;
            }
            _ => {}
        }
        if runner.must_wait_in_line(seq) {
            return WaitingFor::EarlierEvent;
        }
        let head = self.readers.get(&topic).map_or(seq, |reader| reader.head);
        let read_to = runner.behind_at.unwrap_or(head);
        if due.is_none() && seq >= read_to {
            return WaitingFor::Reading {
                behind: seq - read_to + 1,
            };
        }
        // What is due first starts first, and while it waits for the pace, so does what is behind it.
        let first = self.first_due(runner).map_or(now, |next| next.due);
        let paced = self.window_release(runner, first);
        let until = runner.not_before.max(paced.unwrap_or(Timestamp::ZERO));
        let limits = runner.plan.limits;
        if until > now {
            let is_own = until == runner.not_before && runner.plan.start_interval.is_none();
            return match limits.max_requests_per_second.filter(|_| is_own) {
                Some(limit) => WaitingFor::MaxRequestsPerSecond {
                    limit: limit.get(),
                    until,
                },
                None => WaitingFor::Pace { until },
            };
        }
        if let Some(limit) = limits.max_concurrency {
            let (open, limit) = (self.open_attempts(runner), limit.get());
            if open >= limit {
                return WaitingFor::MaxConcurrency { open, limit };
            }
        }
        if runner.unsettled_successes >= self.settings.unsettled_successes_max {
            return WaitingFor::Settlements;
        }
        match &runner.plan.to {
            To::Endpoint { endpoint, .. } => self.endpoints.waiting_for(endpoint, runner.id),
            To::Group(_) => self.waiting_for_origin(runner),
        }
    }
}

fn place_of(due: Timestamp, owed: Owed) -> Place {
    match owed {
        Owed::Attempt(progress) | Owed::Apart(progress, _) if due == IN_FLIGHT => Place::InFlight {
            attempt: progress.attempts,
        },
        Owed::Attempt(progress) | Owed::Apart(progress, _) => Place::Due {
            at: due,
            attempts: progress.attempts,
        },
        Owed::DeadLetter(letter) => Place::DeadLetterDue {
            at: due,
            reason: letter.reason,
            failed_writes: letter.write.failed,
        },
    }
}
