//! Puts together what is known of an id.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_core::filter::{Clause, Filter, FilterEvent, FilterRules};
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::spec::FilterSpec;
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::path_of;
use hedgerow_store::catalog::{GoneSubscription, Purge, split_source};
use hedgerow_store::history::{HistoryKind, HistoryNext, HistoryRecord};
use hedgerow_store::record::{DropReason, unpack_event, unpack_head};
use hedgerow_store::{Store, StoreError, StoredEvent};

use super::{
    DeliveryStanding, DeliveryState, DeliveryStory, EventStandings, EventStory, Explanation, Place,
    StandingsQuery, StoredSummary, Verdict, hints, position_of,
};

/// What is known of an id without the engine.
#[derive(Default)]
pub(super) struct Known {
    /// The oldest first.
    pub(super) events: Vec<(Timestamp, Position, Stored)>,
    /// The oldest first.
    pub(super) attempts: Vec<HistoryRecord>,
    /// Names of topics, from attempts.
    pub(super) names: BTreeMap<TopicId, String>,
    pub(super) is_truncated: bool,
    /// Attempts were not remembered although the history was on: the disk was full, or it could not follow.
    pub(super) has_lost_attempts: bool,
    pub(super) ids_known_since: Option<Timestamp>,
    pub(super) attempts_known_since: Option<Timestamp>,
    pub(super) attempts_complete_since: Option<Timestamp>,
}

/// What the log has at a position.
pub(crate) enum Stored {
    /// The event.
    Here(StoredEvent),
    /// Nothing any more.
    Forgotten,
    /// Something that cannot be read.
    Unreadable(StoreError),
    /// An event with another id.
    Another,
}

impl Stored {
    /// The domain topic that the event names, if it is here and of a domain.
    fn domain_topic(&self) -> Option<DomainTopicName> {
        match self {
            Self::Here(event) => domain_topic(event),
            Self::Forgotten | Self::Unreadable(_) | Self::Another => None,
        }
    }
}

/// The domain topic that an event names, if it is of a domain.
pub(crate) fn domain_topic(event: &StoredEvent) -> Option<DomainTopicName> {
    let event = unpack_event(&event.bytes).ok()?;
    event.domain_topic()?.parse().ok()
}

/// Reads the event at a position.
pub(crate) fn read(store: &Arc<dyn Store>, position: Position, event_id: &str) -> Stored {
    let found = store.read_recent(position);
    let event = match found.map_or_else(|| store.read(position), Ok) {
        Ok(event) => event,
        Err(StoreError::Forgotten { .. }) => return Stored::Forgotten,
        Err(error) => return Stored::Unreadable(error),
    };
    match unpack_head(&event.bytes).map(|unpacked| unpacked.id == event_id) {
        Ok(true) => Stored::Here(event),
        Ok(false) => Stored::Another,
        Err(error) => Stored::Unreadable(error),
    }
}

impl Known {
    pub(super) fn with_attempts(self, attempts: Vec<HistoryRecord>) -> Self {
        Self { attempts, ..self }
    }

    /// What the engine is asked.
    pub(super) fn queries(&self, subscription: Option<&str>) -> Vec<StandingsQuery> {
        self.events
            .iter()
            .map(|(_, position, stored)| StandingsQuery {
                position: *position,
                subscription: subscription.map(str::to_owned),
                domain_topic: stored.domain_topic(),
                hints: hints(&self.attempts, *position),
            })
            .collect()
    }

    /// The whole, with what the engine said.
    pub(super) fn explained(
        self,
        standings: Vec<EventStandings>,
        subscription: Option<&str>,
    ) -> Explanation {
        let explained = self.events.iter().zip(standings);
        let events = explained
            .map(|(event, standings)| self.event(event, standings, subscription))
            .collect();
        Explanation {
            events,
            is_truncated: self.is_truncated,
            ids_known_since: self.ids_known_since,
            attempts_known_since: self.attempts_known_since,
        }
    }

    fn event(
        &self,
        (published, position, stored): &(Timestamp, Position, Stored),
        standings: EventStandings,
        subscription: Option<&str>,
    ) -> EventStory {
        let mut attempts: BTreeMap<SubscriptionId, Vec<HistoryRecord>> = BTreeMap::new();
        let of_event = self
            .attempts
            .iter()
            .filter(|record| position_of(record) == *position);
        for record in of_event {
            let of_subscription = attempts.entry(record.subscription).or_default();
            of_subscription.push(record.clone());
        }
        let stored = match stored {
            Stored::Here(event) => Some(event),
            Stored::Forgotten | Stored::Unreadable(_) | Stored::Another => None,
        };
        let (rules, path) = (standings.rules, standings.topic_path.as_str());
        let mut deliveries: Vec<_> = standings
            .deliveries
            .into_iter()
            .map(|standing| {
                let attempts = attempts.remove(&standing.subscription).unwrap_or_default();
                let filter = standing.filter.clone();
                let domain_topic = standing.domain_topic.clone();
                let answer = filter.as_ref().zip(stored).and_then(|(filter, stored)| {
                    asked(
                        (standing.subscription, domain_topic.as_ref()),
                        filter,
                        rules,
                        stored,
                        path,
                    )
                });
                let story = self.delivery(standing, attempts, (*published, position.seq), answer);
                with_clause(story, filter.as_ref())
            })
            .collect();
        for gone in standings.gone {
            let attempts = attempts.remove(&gone.id).unwrap_or_default();
            let filter = gone.filter_at(position.seq).zip(stored);
            let answer = filter.and_then(|(filter, stored)| {
                asked(
                    (gone.id, gone.domain_topic.as_ref()),
                    filter,
                    rules,
                    stored,
                    path,
                )
            });
            let story = of_gone(&gone, attempts, position.seq, answer);
            deliveries.push(with_clause(story, gone.filter_at(position.seq)));
        }
        // What is left was sent to subscriptions that are gone and not remembered, or left out.
        let is_topic_deleted = standings.topic_name.is_none();
        let gone = attempts.into_values().filter(|records| {
            let name = records.first().map(|record| &*record.subscription_name);
            subscription
                .is_none_or(|wanted| name.is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
        });
        deliveries.extend(gone.filter_map(of_deleted));
        deliveries.sort_by_key(|delivery| delivery.subscription);
        let topic_name = standings.topic_name;
        EventStory {
            position: *position,
            published: *published,
            topic_name: topic_name.or_else(|| self.names.get(&position.topic).cloned()),
            is_topic_deleted,
            stored: stored.and_then(summary),
            deliveries,
            left_out: standings.left_out,
        }
    }

    fn delivery(
        &self,
        standing: DeliveryStanding,
        attempts: Vec<HistoryRecord>,
        (published, seq): (Timestamp, u64),
        answer: Option<Answered>,
    ) -> DeliveryStory {
        let purge = purge_of(&standing.purges, seq, &attempts);
        let purge = purge.filter(|_| standing.place == Place::Ended);
        let verdict = match self.verdict(&standing, &attempts, published, answer) {
            Verdict::NotMatched(None) | Verdict::Unknown if purge.is_some() => {
                Verdict::PurgedUnknown(purge.unwrap_or_default())
            }
            verdict => verdict,
        };
        let state = match (state(standing.place, verdict, &attempts), purge) {
            (DeliveryState::Ended, Some(at)) => DeliveryState::Dropped {
                at: Some(at),
                reason: None,
                why: DropReason::Purged,
            },
            (state, _) => state,
        };
        let is_owed_an_attempt = matches!(
            state,
            DeliveryState::FirstAttemptPending
                | DeliveryState::AttemptDue { .. }
                | DeliveryState::Owed
        );
        DeliveryStory {
            subscription: standing.subscription,
            state,
            waiting: standing.waiting.filter(|_| is_owed_an_attempt),
            name: standing.name,
            domain_topic: standing.domain_topic.map(String::from),
            is_deleted: false,
            verdict,
            failed_clause: None,
            attempts,
            policy: Some(standing.policy),
        }
    }

    fn verdict(
        &self,
        standing: &DeliveryStanding,
        attempts: &[HistoryRecord],
        published: Timestamp,
        answer: Option<Answered>,
    ) -> Verdict {
        let is_open = !matches!(standing.place, Place::NotBegun | Place::Ended);
        if is_open || !attempts.is_empty() {
            return Verdict::Matched;
        }
        if let Some(provisioning) = standing.inactive {
            return Verdict::NotActive(provisioning);
        }
        if standing.filter.is_none() {
            return if standing.knows_filters {
                Verdict::SubscribedLater
            } else {
                Verdict::Unknown
            };
        }
        let Some(answer) = answer else {
            // All attempts since then are remembered, and there was none. A crash may have taken records of those before.
            let knows = !self.has_lost_attempts
                && self
                    .attempts_complete_since
                    .is_some_and(|since| since <= published);
            return if knows && standing.place == Place::Ended {
                Verdict::NotMatched(None)
            } else {
                Verdict::Unknown
            };
        };
        match answer {
            Ok(()) => Verdict::Matched,
            Err(Some(clause)) => Verdict::NotMatched(Some(clause)),
            Err(None) => Verdict::ReplayedToAnother,
        }
    }
}

/// When an operator dropped the delivery, if that is what ended it: it was not attempted before, or waited for another attempt.
fn purge_of(purges: &[Purge], seq: u64, attempts: &[HistoryRecord]) -> Option<Timestamp> {
    let waited_since = match attempts.last().map(|record| (record.next, record.ended)) {
        None => None,
        Some((HistoryNext::Due(_), ended)) => Some(ended),
        Some(_) => return None,
    };
    let purge = purges.iter().find(|purge| {
        let was_begun = waited_since.is_some_and(|since| since <= purge.at);
        seq < purge.to_seq && (seq >= purge.from_seq || was_begun)
    });
    purge.map(|purge| purge.at)
}

/// Whether an event is one for a subscription: the clause that says no, or none if it was replayed to another one.
type Answered = Result<(), Option<Clause>>;

/// What the filter of a subscription, or of one to a domain topic, says to a stored event; `None` if that cannot be read.
fn asked(
    (id, domain_topic): (SubscriptionId, Option<&DomainTopicName>),
    filter: &FilterSpec,
    rules: FilterRules,
    stored: &StoredEvent,
    topic_path: &str,
) -> Option<Answered> {
    let event = unpack_event(&stored.bytes).ok()?;
    if let Some(only) = event.replayed_to() {
        return Some(if only == id { Ok(()) } else { Err(None) });
    }
    let path = path_of(topic_path, &event);
    let filter = Filter::new(filter, rules);
    let filter = match domain_topic {
        None => filter,
        Some(name) => filter.of_domain_topic(name),
    };
    let answer = filter.matches(&FilterEvent::new(&event, &path));
    Some(answer.map_err(Some))
}

/// The story with the clause that said no as this filter declares it.
fn with_clause(mut story: DeliveryStory, filter: Option<&FilterSpec>) -> DeliveryStory {
    if let (Verdict::NotMatched(Some(clause)), Some(filter)) = (story.verdict, filter) {
        let declared = filter.to_json();
        let declared = match clause {
            Clause::AdvancedFilters(number) => declared["advancedFilters"].get(number),
            // It is no part of what is declared as the filter.
            Clause::DomainTopic => None,
            Clause::IncludedEventTypes | Clause::SubjectBeginsWith | Clause::SubjectEndsWith => {
                declared.get(clause.to_string())
            }
        };
        story.failed_clause = declared.cloned();
    }
    story
}

fn summary(event: &StoredEvent) -> Option<StoredSummary> {
    let unpacked = unpack_head(&event.bytes).ok()?;
    let domain_topic = domain_topic(event);
    Some(StoredSummary {
        event_type: unpacked.event_type.into_owned(),
        subject: unpacked.subject.map(std::borrow::Cow::into_owned),
        domain_topic: domain_topic.map(String::from),
        bytes: event.bytes.len(),
    })
}

fn state(place: Place, verdict: Verdict, attempts: &[HistoryRecord]) -> DeliveryState {
    match place {
        Place::NotBegun if verdict == Verdict::Matched => DeliveryState::FirstAttemptPending,
        Place::NotBegun if verdict == Verdict::Unknown => DeliveryState::Unknown,
        Place::NotBegun => DeliveryState::NotOwed,
        Place::InFlight { attempt } => DeliveryState::InFlight { attempt },
        Place::Due { at, attempts } => DeliveryState::AttemptDue { at, attempts },
        Place::DeadLetterDue {
            at,
            reason,
            failed_writes,
        } => DeliveryState::DeadLetterDue {
            at,
            reason,
            failed_writes,
        },
        Place::Owed => DeliveryState::Owed,
        Place::Ended => match end(attempts) {
            Some(state) => state,
            None => match verdict {
                Verdict::Matched => DeliveryState::Ended,
                Verdict::Unknown | Verdict::PurgedUnknown(_) => DeliveryState::Unknown,
                _ => DeliveryState::NotOwed,
            },
        },
    }
}

/// How a delivery ended, as the newest record tells that does.
fn end(attempts: &[HistoryRecord]) -> Option<DeliveryState> {
    // What was before it was delivered again tells of another end.
    let newest = attempts.iter().rev();
    let mut newest = newest.take_while(|record| record.kind != HistoryKind::Resent);
    newest.find_map(|record| {
        let at = record.ended;
        match record.next {
            HistoryNext::Delivered => Some(DeliveryState::Delivered { at }),
            HistoryNext::DeadLettered(reason) => Some(DeliveryState::DeadLettered { at, reason }),
            HistoryNext::Dropped(reason, why) => Some(DeliveryState::Dropped {
                at: Some(at),
                reason: Some(reason),
                why,
            }),
            HistoryNext::Dead(reason) => Some(DeliveryState::Dropped {
                at: Some(at),
                reason: Some(reason),
                why: DropReason::NoDeadLetterDestination,
            }),
            HistoryNext::Purged => Some(DeliveryState::Dropped {
                at: Some(at),
                reason: None,
                why: DropReason::Purged,
            }),
            HistoryNext::Due(_) | HistoryNext::DeadLetter(..) => None,
        }
    })
}

/// What is known of a subscription that is gone and remembered: also whether the event was one for it at all.
fn of_gone(
    gone: &GoneSubscription,
    attempts: Vec<HistoryRecord>,
    seq: u64,
    answer: Option<Answered>,
) -> DeliveryStory {
    let is_before_it = gone
        .filters
        .first()
        .is_none_or(|first| seq < first.from_seq);
    let verdict = match answer {
        _ if !attempts.is_empty() => Verdict::Matched,
        Some(Ok(())) => Verdict::Matched,
        Some(Err(Some(clause))) => Verdict::NotMatched(Some(clause)),
        Some(Err(None)) => Verdict::ReplayedToAnother,
        None if gone.had_begun(seq) => Verdict::Matched,
        None if is_before_it => Verdict::SubscribedLater,
        None => Verdict::Unknown,
    };
    let was_dropped = !attempts.is_empty() || seq >= gone.from_seq || gone.had_begun(seq);
    let state = match (verdict, end(&attempts)) {
        (Verdict::Matched, Some(state)) => state,
        (Verdict::Matched, None) if was_dropped => DeliveryState::Dropped {
            at: None,
            reason: None,
            why: DropReason::SubscriptionDeleted,
        },
        // It was begun, and what became of it is not remembered.
        (Verdict::Matched, None) => DeliveryState::Ended,
        (Verdict::Unknown, _) => DeliveryState::Unknown,
        _ => DeliveryState::NotOwed,
    };
    DeliveryStory {
        subscription: gone.id,
        name: gone.name.as_str().to_owned(),
        domain_topic: gone.domain_topic.clone().map(String::from),
        is_deleted: true,
        verdict,
        failed_clause: None,
        state,
        waiting: None,
        attempts,
        policy: None,
    }
}

/// What is known of a subscription that is gone. What was owed to it went with it.
fn of_deleted(attempts: Vec<HistoryRecord>) -> Option<DeliveryStory> {
    let newest = attempts.last()?;
    let dropped = DeliveryState::Dropped {
        at: None,
        reason: None,
        why: DropReason::SubscriptionDeleted,
    };
    Some(DeliveryStory {
        subscription: newest.subscription,
        name: newest.subscription_name.to_string(),
        domain_topic: split_source(&newest.topic_name).1.map(str::to_owned),
        is_deleted: true,
        verdict: Verdict::Matched,
        failed_clause: None,
        state: end(&attempts).unwrap_or(dropped),
        waiting: None,
        attempts,
        policy: None,
    })
}
