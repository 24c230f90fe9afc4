//! Why an event did or did not reach a subscription: what is remembered of its attempts, which clause of which filter said
//! no, and what happens next (design D12, ED-311).
//!
//! | question | answered from |
//! | --- | --- |
//! | which events had this id, where and when | the ids in the history |
//! | what was tried | the attempts in the history |
//! | what is owed, and when | the engine: its memory and the view |
//! | did it match, and which clause decided | the stored event, and the filter in force at its position (ED-085) |
//!
//! The history is lossy and the log forgets what nobody needs, so each answer may be "not known"; and it says since when
//! it is. Nothing here decides about a delivery.

pub(crate) mod story;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hedgerow_core::filter::{Clause, FilterRules};
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::retry::RetryPolicy;
use hedgerow_core::spec::FilterSpec;
use hedgerow_core::time::Timestamp;
use hedgerow_store::Store;
use hedgerow_store::catalog::{GoneSubscription, Provisioning, Purge, split_source};
use hedgerow_store::history::{AcceptedEvent, HistoryHandle, HistoryNext, HistoryRecord};
use hedgerow_store::record::DropReason;

use self::story::Known;
pub use self::waiting::{Waiting, WaitingFor};
use crate::command::{Command, CommandError, EngineHandle};

/// Events with one id that are explained at most, the newest ones.
pub const EVENTS_MAX: usize = 20;
/// Subscriptions of one event that are explained at most; those that were sent it first.
pub const SUBSCRIPTIONS_MAX: usize = 1_000;
/// Records of attempts that are read for one explanation, the newest ones.
const RECORDS_MAX: usize = 1_000;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct ExplainQuery {
    /// The event's id, as it was published.
    pub event_id: String,
    /// Only events of this topic.
    pub topic: Option<String>,
    /// Only this subscription.
    pub subscription: Option<String>,
    /// Only events of topics whose names begin so, regardless of case: what whoever asks may know of. Events of topics whose
    /// names are not known any more are left out, unless it is empty.
    pub topic_prefix: String,
}

/// What is known of an id.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// Every event that had it, the oldest first.
    pub events: Vec<EventStory>,
    /// There were more of them, or more attempts: the oldest are left out.
    pub is_truncated: bool,
    /// Events that were accepted before are found only if something was tried since; `None` if ids are not remembered.
    pub ids_known_since: Option<Timestamp>,
    /// Attempts that ended before are not remembered; `None` if none are.
    pub attempts_known_since: Option<Timestamp>,
}

/// One event.
#[derive(Debug, Clone)]
pub struct EventStory {
    /// Where it stands in the log, or stood.
    pub position: Position,
    /// P of ED-203.
    pub published: Timestamp,
    /// Its topic's name; `None` if the topic is gone and nothing tells its name.
    pub topic_name: Option<String>,
    /// Whether the topic is gone.
    pub is_topic_deleted: bool,
    /// What stands in the log; `None` if it was forgotten, as nobody needed it.
    pub stored: Option<StoredSummary>,
    /// Subscription by subscription: by id.
    pub deliveries: Vec<DeliveryStory>,
    /// Subscriptions that are left out.
    pub left_out: usize,
}

/// A stored event without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSummary {
    /// Its type.
    pub event_type: String,
    /// Its subject.
    pub subject: Option<String>,
    /// The domain topic that it names, of a domain.
    pub domain_topic: Option<String>,
    /// The size of its stored form.
    pub bytes: usize,
}

/// One event and one subscription.
#[derive(Debug, Clone)]
pub struct DeliveryStory {
    /// Which subscription.
    pub subscription: SubscriptionId,
    /// Its name, now or then.
    pub name: String,
    /// The domain topic that it is made for, if it is for one and that is known.
    pub domain_topic: Option<String>,
    /// It does not exist any more.
    pub is_deleted: bool,
    /// Whether the event is one for it.
    pub verdict: Verdict,
    /// The clause that said no, as it is declared.
    pub failed_clause: Option<serde_json::Value>,
    /// Attempts, and ends without one, the oldest first.
    pub attempts: Vec<HistoryRecord>,
    /// What became of the delivery, or what is next.
    pub state: DeliveryState,
    /// What it waits for; `None` if it is not owed an attempt, or one runs.
    pub waiting: Option<Waiting>,
    /// The limits that are in force now; `None` if the subscription is gone.
    pub policy: Option<RetryPolicy>,
}

/// Whether an event is one for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Matched,
    /// The filter says no; `None` if the event is gone from the log, and with it the answer which clause.
    NotMatched(Option<Clause>),
    /// It is a dead letter of another subscription, replayed to that one only (ED-265).
    ReplayedToAnother,
    /// The subscription gets what was published later than this event.
    SubscribedLater,
    /// The subscription gets nothing yet: its endpoint has not consented.
    NotActive(Provisioning),
    /// The filter that decided is forgotten, or the event is and attempts of its time are.
    Unknown,
    /// An operator dropped it at this time, if it matched, before it was attempted; the event is forgotten, and with it
    /// whether it did.
    PurgedUnknown(Timestamp),
}

/// What became of a delivery, or what is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// Nothing is owed, and nothing was.
    NotOwed,
    /// Whether anything is or was owed is not known any more.
    Unknown,
    /// It waits for its first attempt.
    FirstAttemptPending,
    /// Attempt `attempt` runs; 0 if the delivery is being ended without another one.
    InFlight {
        /// From 1.
        attempt: u16,
    },
    /// The next attempt is due.
    AttemptDue {
        /// When.
        at: Timestamp,
        /// Attempts made so far.
        attempts: u16,
    },
    /// An attempt is owed; when is not known.
    Owed,
    /// It was given up; its event is written to the dead-letter store.
    DeadLetterDue {
        /// When.
        at: Timestamp,
        /// Why.
        reason: DeadLetterReason,
        /// Writes that failed so far.
        failed_writes: u32,
    },
    /// The endpoint accepted it.
    Delivered {
        /// When.
        at: Timestamp,
    },
    /// It was given up, and its event stands in the dead-letter store.
    DeadLettered {
        /// When it was written.
        at: Timestamp,
        /// Why.
        reason: DeadLetterReason,
    },
    /// It was given up, and its event is gone.
    Dropped {
        /// When; `None` if that is not remembered.
        at: Option<Timestamp>,
        /// Why it was given up; `None` if it was not for an attempt's sake.
        reason: Option<DeadLetterReason>,
        /// Why the event was dropped.
        why: DropReason,
    },
    /// Nothing is owed any more, and how it ended is not remembered.
    Ended,
}

/// Which event's deliveries are asked for.
#[derive(Debug, Clone)]
pub struct StandingsQuery {
    /// The event.
    pub position: Position,
    /// Only of this subscription.
    pub subscription: Option<String>,
    /// The domain topic of the event, if it is known to be of one: those of others are not told of.
    pub domain_topic: Option<DomainTopicName>,
    /// Where deliveries may stand in the due index: what their newest records say.
    pub hints: Vec<(SubscriptionId, Timestamp)>,
}

impl StandingsQuery {
    /// Whether a subscription is asked for: by its name, or because it may have got the event.
    pub(crate) fn is_about(&self, name: &str, domain_topic: Option<&DomainTopicName>) -> bool {
        match &self.subscription {
            Some(wanted) => name.eq_ignore_ascii_case(wanted),
            None => match (&self.domain_topic, domain_topic) {
                (Some(of_event), Some(of_subscription)) => of_event == of_subscription,
                _ => true,
            },
        }
    }
}

/// Where the deliveries of one event stand.
#[derive(Debug, Clone, Default)]
pub struct EventStandings {
    /// The topic's name; `None` if it is gone.
    pub topic_name: Option<String>,
    /// Its resource path, or that of the domain.
    pub topic_path: String,
    /// By subscription.
    pub deliveries: Vec<DeliveryStanding>,
    /// Subscriptions that are left out.
    pub left_out: usize,
    /// Subscriptions that were deleted since.
    pub gone: Vec<GoneSubscription>,
    /// How its filter is understood.
    pub rules: FilterRules,
}

/// Where the delivery of one event to one subscription stands, if there is one.
#[derive(Debug, Clone)]
pub struct DeliveryStanding {
    /// Which subscription.
    pub subscription: SubscriptionId,
    /// Its name.
    pub name: String,
    /// The domain topic that it is made for, if it is for one.
    pub domain_topic: Option<DomainTopicName>,
    /// The filter in force at the event; `None` if there was none, or if it is forgotten.
    pub filter: Option<FilterSpec>,
    /// No filter is forgotten: without one there was none in force.
    pub knows_filters: bool,
    /// How far the handshake with its endpoint has come; `None` if it gets events.
    pub inactive: Option<Provisioning>,
    /// The limits in force now.
    pub policy: RetryPolicy,
    /// Where.
    pub place: Place,
    /// What operators dropped of it.
    pub purges: Vec<Purge>,
    /// What it waits for, if it is a delivery and not begun, or due.
    pub waiting: Option<Waiting>,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Not begun: if the event matches, it waits for its first attempt.
    NotBegun,
    /// An attempt runs (0 if the delivery is being ended).
    InFlight {
        /// From 1.
        attempt: u16,
    },
    /// The next attempt is due.
    Due {
        /// When.
        at: Timestamp,
        /// Made so far.
        attempts: u16,
    },
    /// A dead letter is to be written.
    DeadLetterDue {
        /// When.
        at: Timestamp,
        /// Why the delivery was given up.
        reason: DeadLetterReason,
        /// Writes that failed so far.
        failed_writes: u32,
    },
    /// Something is owed, at a time that was not found.
    Owed,
    /// Nothing is owed: it ended, or never was a delivery.
    Ended,
}

impl EngineHandle {
    /// Explains an id. Reads the history and the log on a thread for that, and asks the engine once.
    ///
    /// # Errors
    /// [`CommandError::NotFound`] for a topic or a subscription that is asked for and neither exists nor is remembered;
    /// [`CommandError::Unavailable`] while there is no engine.
    pub async fn explain(&self, query: ExplainQuery) -> Result<Explanation, CommandError> {
        let topic = query.topic.as_deref().map(|name| {
            self.topics()
                .get(&split_source(name).0.to_ascii_lowercase())
                .map(|t| t.id)
        });
        let live = self.topics();
        let live = live.values().map(|topic| (topic.id, topic.name.clone()));
        let reader = Reader {
            scope: Scope {
                name: query
                    .topic
                    .as_deref()
                    .map(|name| split_source(name).0.to_owned()),
                topic: topic.flatten(),
                prefix: query.topic_prefix.clone(),
                live: live.collect(),
            },
            history: self.history.clone(),
            store: Arc::clone(&self.store),
            event_id: query.event_id.clone(),
        };
        let (known, reader) = on_a_thread(reader, Reader::look_up).await?;
        if known.events.is_empty() {
            if let (Some(name), Some(None)) = (query.topic, topic) {
                let what = "topic";
                return Err(CommandError::NotFound { what, name });
            }
            return Ok(known.explained(Vec::new(), None));
        }
        let events = known.queries(query.subscription.as_deref());
        let standings = self
            .ask(|answer| Command::Standings { events, answer })
            .await?;
        // What ended meanwhile is remembered by now, or in a moment.
        let (explanation, _) = on_a_thread(reader, move |reader| {
            let known = known.with_attempts(reader.attempts());
            (
                known.explained(standings, query.subscription.as_deref()),
                query,
            )
        })
        .await?;
        let (explanation, query) = explanation;
        let knows_it = |event: &EventStory| !event.deliveries.is_empty();
        if let Some(name) = query.subscription
            && !explanation.events.iter().any(knows_it)
        {
            let what = "event subscription";
            return Err(CommandError::NotFound { what, name });
        }
        Ok(explanation)
    }
}

/// Reads what is not the engine's.
struct Reader {
    history: Option<HistoryHandle>,
    store: Arc<dyn Store>,
    event_id: String,
    scope: Scope,
}

/// Of which topics events are looked for. Others' take no room among those that are shown.
struct Scope {
    /// The topic that is asked for.
    name: Option<String>,
    /// The same, if it is there.
    topic: Option<TopicId>,
    prefix: String,
    /// The names of the topics that are there.
    live: HashMap<TopicId, String>,
}

impl Scope {
    /// Whether events of a topic are looked for, whose name was `then` when something was tried.
    fn has(&self, id: TopicId, then: Option<&str>) -> bool {
        let is_it = match (&self.name, self.topic) {
            (None, _) => true,
            (Some(_), Some(topic)) if topic == id => true,
            // It may be one that is gone, of this name too.
            (Some(name), _) => then.is_some_and(|then| then.eq_ignore_ascii_case(name)),
        };
        let name = self.live.get(&id).map(String::as_str).or(then);
        let begins = |name: &str| {
            let beginning = name.as_bytes().get(..self.prefix.len());
            beginning.is_some_and(|it| it.eq_ignore_ascii_case(self.prefix.as_bytes()))
        };
        is_it && (self.prefix.is_empty() || name.is_some_and(begins))
    }
}

impl Reader {
    /// Every event with the id, and what was tried.
    fn look_up(&self) -> Known {
        let mut known = Known::default();
        let Some(history) = &self.history else {
            return known;
        };
        let attempts = self.attempts();
        let names: BTreeMap<TopicId, String> = attempts
            .iter()
            .map(|record| (record.topic, topic_of(record).to_owned()))
            .collect();
        let is_wanted = |event: &AcceptedEvent| {
            let topic = event.position.topic;
            self.scope.has(topic, names.get(&topic).map(String::as_str))
        };
        let mut positions: BTreeMap<Position, Timestamp> = BTreeMap::new();
        for event in history.accepted_where(&self.event_id, EVENTS_MAX + 1, is_wanted) {
            positions.insert(event.position, event.published);
        }
        for record in &attempts {
            positions.insert(position_of(record), record.published);
        }
        let mut newest: Vec<_> = positions
            .into_iter()
            .map(|(position, published)| (published, position))
            .collect();
        newest.sort_unstable();
        known.is_truncated = newest.len() > EVENTS_MAX || attempts.len() >= RECORDS_MAX;
        newest.drain(..newest.len().saturating_sub(EVENTS_MAX));
        for (published, position) in newest {
            let stored = story::read(&self.store, position, &self.event_id);
            let was_tried = attempts.iter().any(|one| position_of(one) == position);
            // Another id has the same hash.
            if !matches!(stored, story::Stored::Another) || was_tried {
                known.events.push((published, position, stored));
            }
        }
        known.ids_known_since = history.ids_known_since();
        known.attempts_known_since = history.known_since();
        known.attempts_complete_since = history.complete_since();
        known.has_lost_attempts = history.counters().dropped > 0;
        known.names = names;
        known.with_attempts(attempts)
    }

    /// What is remembered of attempts, the oldest first.
    fn attempts(&self) -> Vec<HistoryRecord> {
        let Some(history) = &self.history else {
            return Vec::new();
        };
        let wants = |record: &HistoryRecord| self.scope.has(record.topic, Some(topic_of(record)));
        let mut records = history.attempts_where(&self.event_id, RECORDS_MAX, wants);
        records.reverse();
        records.sort_by_key(|record| record.ended);
        records
    }
}

/// The name of the topic or domain that a record tells of.
fn topic_of(record: &HistoryRecord) -> &str {
    split_source(&record.topic_name).0
}

pub(crate) fn position_of(record: &HistoryRecord) -> Position {
    Position {
        topic: record.topic,
        seq: record.seq,
    }
}

/// Where the newest records say that deliveries stand.
pub(crate) fn hints(
    attempts: &[HistoryRecord],
    position: Position,
) -> Vec<(SubscriptionId, Timestamp)> {
    let mut newest = BTreeMap::new();
    for record in attempts.iter().filter(|one| position_of(one) == position) {
        newest.insert(record.subscription, record.next);
    }
    newest
        .into_iter()
        .filter_map(|(subscription, next)| match next {
            HistoryNext::Due(due) | HistoryNext::DeadLetter(_, due) => Some((subscription, due)),
            _ => None,
        })
        .collect()
}

pub(crate) async fn on_a_thread<S: Send + 'static, T: Send + 'static>(
    state: S,
    work: impl FnOnce(&S) -> T + Send + 'static,
) -> Result<(T, S), CommandError> {
    tokio::task::spawn_blocking(move || (work(&state), state))
        .await
        .map_err(|_| CommandError::Unavailable)
}
