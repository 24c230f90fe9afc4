//! What the admin API asks of the engine: changes of what is declared, and questions about it. What a subscription is made for is
//! called its topic in all of them: the name of a topic or of a domain, or `DOMAIN/topics/DOMAIN-TOPIC` for a topic of a domain. Each is answered once it
//! holds; a change, once it is durable.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::hold::Period;
use hedgerow_core::name::{DomainTopicName, SubscriptionName, TopicName};
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::spec::{DeadLetterDestination, SpecError, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_io::dead_letter::{DeadLetterError, DeadLetterStore};
use hedgerow_store::Store;
use hedgerow_store::catalog::{Subscription, Topic, TopicKeys};
use hedgerow_store::history::{HistoryHandle, HistoryRecord};
use hedgerow_store::record::PendingDeadLetter;
use hedgerow_store::view::{Counters, TerminalPage};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::declare::{Declared, SubscriptionDeclaration};
use crate::domain_topics::{DomainTopicInfo, DomainTopicPage, DomainTopicQuery};
use crate::dry_run::{DryRun, DryRunQuery};
use crate::endpoint_test::{EndpointTest, EndpointTestQuery};
use crate::explain::{EventStandings, StandingsQuery};
use crate::gauges::{EndpointCredits, GaugesFrom, GaugesPage};
use crate::metrics::{Metrics, TopicMetrics};
use crate::note::{AttemptNote, event_id};
use crate::replay::ReplayCommand;
use crate::resend::{ResendOrder, Resent};
use crate::validation::{Callback, Called};

/// How long a look at a dead-letter destination may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such thing.
    #[error("{what} \"{name}\" does not exist")]
    NotFound {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// It cannot be changed like this.
    #[error(transparent)]
    Invalid(#[from] SpecError),
    /// It was to be changed, and is not any more what the change was made for; nothing was done. Look, and change it again.
    #[error("{what} \"{name}\" was changed by somebody else meanwhile")]
    Changed {
        /// The kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A limit of the grid is reached.
    #[error("{0}")]
    Limit(String),
    /// A subscription has as many filters in force as it can have.
    #[error("{0}")]
    FilterLimit(String),
    /// There are as many replays that have not ended as there may be.
    #[error("{0}")]
    ReplayLimit(String),
    /// Too many ask for the same at once; ask again in a moment.
    #[error("{0}")]
    Busy(String),
    /// It cannot be done now, as something stands in its way.
    #[error("{0}")]
    Conflict(String),
    /// It is about an event that cannot be read any more.
    #[error("{0}")]
    Forgotten(String),
    /// The engine is stopping or is being opened again; ask again in a moment.
    #[error("the grid is not available now; try again in a moment")]
    Unavailable,
}

/// The answer's way back.
pub type Answer<T> = oneshot::Sender<Result<T, CommandError>>;

/// What can be asked.
pub enum Command {
    /// Declares a topic, or declares it again unchanged.
    PutTopic {
        /// Its name.
        name: TopicName,
        /// What the user asks for.
        spec: TopicSpec,
        /// The topic, and whether it is new.
        answer: Answer<(Topic, bool)>,
    },
    /// Deletes a topic with its subscriptions and what is owed to them.
    DeleteTopic {
        /// Its name.
        name: String,
        /// When it is done.
        answer: Answer<()>,
    },
    /// Gives a topic a new key.
    RegenerateKey {
        /// The topic's name.
        name: String,
        /// Which one.
        key: KeyName,
        /// Both keys.
        answer: Answer<TopicKeys>,
    },
    /// Gives a topic these keys; one that is not given stays.
    SetKeys {
        /// The topic's name.
        name: String,
        /// `key1`, if it is given.
        key1: Option<String>,
        /// `key2`, if it is given.
        key2: Option<String>,
        /// Whether they are other ones than before.
        answer: Answer<bool>,
    },
    /// Says what would keep a subscription from being declared, and changes nothing.
    CheckSubscription {
        /// The topic's name.
        topic: String,
        /// The topic, if it is declared before the subscription and is not there yet.
        new_topic: Option<TopicSpec>,
        /// Whether its domain topic is declared before the subscription.
        has_new_domain_topic: bool,
        /// Its name.
        name: SubscriptionName,
        /// What the user asks for.
        spec: Box<SubscriptionSpec>,
        /// Nothing would.
        answer: Answer<()>,
    },
    /// Makes a domain topic, or finds it made.
    PutDomainTopic {
        /// The domain's name.
        domain: String,
        /// Its name.
        name: DomainTopicName,
        /// The topic, and whether it is new.
        answer: Answer<(DomainTopicInfo, bool)>,
    },
    /// Deletes a domain topic with its subscriptions and what is owed to them.
    DeleteDomainTopic {
        /// The domain's name.
        domain: String,
        /// Its name.
        name: String,
        /// When it is done.
        answer: Answer<()>,
    },
    /// One topic of a domain.
    DomainTopic {
        /// The domain's name.
        domain: String,
        /// Its name.
        name: String,
        /// The topic.
        answer: Answer<DomainTopicInfo>,
    },
    /// The topics of a domain.
    DomainTopics {
        /// Which of them.
        query: DomainTopicQuery,
        /// A page.
        answer: Answer<DomainTopicPage>,
    },
    /// All topics and domains.
    Topics {
        /// By id.
        answer: Answer<Vec<Topic>>,
    },
    /// One topic.
    Topic {
        /// Its name.
        name: String,
        /// The topic.
        answer: Answer<Topic>,
    },
    /// Declares a subscription, or declares it anew.
    PutSubscription {
        /// What is wanted.
        declaration: SubscriptionDeclaration,
        /// The subscription, and what was done.
        answer: Answer<(SubscriptionInfo, Declared)>,
    },
    /// Waits until the handshake of a subscription has ended, or waits for somebody to open its URL.
    AwaitValidation {
        /// Which subscription.
        id: SubscriptionId,
        /// Its name, for saying that it is gone.
        name: String,
        /// How it stands then.
        answer: Answer<SubscriptionInfo>,
    },
    /// Asks an endpoint, and changes nothing (ED-312).
    DryRun {
        /// Which.
        query: DryRunQuery,
        /// What it came to.
        answer: Answer<DryRun>,
    },
    /// Asks an endpoint, sends it an event, and changes nothing (ED-312).
    TestEndpoint {
        /// Which, and what.
        query: EndpointTestQuery,
        /// What it came to.
        answer: Answer<EndpointTest>,
    },
    /// Completes a handshake by its URL.
    CallBack {
        /// What was called.
        callback: Callback,
        /// What became of it; a success is durable.
        answer: Answer<Called>,
    },
    /// Deletes a subscription and what is owed to it.
    DeleteSubscription {
        /// The topic's name.
        topic: String,
        /// Its name.
        name: String,
        /// When it is done.
        answer: Answer<()>,
    },
    /// The subscriptions of a topic.
    Subscriptions {
        /// The topic's name.
        topic: String,
        /// By id.
        answer: Answer<Vec<SubscriptionInfo>>,
    },
    /// One subscription.
    Subscription {
        /// The topic's name.
        topic: String,
        /// Its name.
        name: String,
        /// The subscription.
        answer: Answer<SubscriptionInfo>,
    },
    /// Pauses a subscription, or resumes it (ED-312). What is due meanwhile is held, and counts no attempts.
    PauseSubscription {
        /// The topic's name.
        topic: String,
        /// Its name.
        name: String,
        /// Whether it is to be paused.
        is_paused: bool,
        /// The subscription, when it holds.
        answer: Answer<SubscriptionInfo>,
    },
    /// Ends what holds a subscription: its probation, and delayed delivery at its endpoint (ED-232).
    ResetSubscription {
        /// The topic's name.
        topic: String,
        /// Its name.
        name: String,
        /// The subscription, and what was ended, when it holds.
        answer: Answer<(SubscriptionInfo, Vec<EndedHold>)>,
    },
    /// Drops everything that is pending for a subscription. What is in flight is settled by its end, and not attempted again.
    PurgeSubscription {
        /// The topic's name.
        topic: String,
        /// Its name.
        name: String,
        /// What was dropped, when that is durable.
        answer: Answer<PurgeReport>,
    },
    /// Delivers an event again.
    Resend {
        /// What, and to whom.
        order: ResendOrder,
        /// What was begun, when that is durable.
        answer: Answer<Vec<Resent>>,
    },
    /// Begins deliveries, if they are held since the start.
    StartDeliveries {
        /// When it is done.
        answer: Answer<()>,
    },
    /// Dead letters that wait to be written, by subscription, then by time (ED-248).
    DeadLetters {
        /// Which of them.
        query: DeadLetterQuery,
        /// A page.
        answer: Answer<DeadLetterPage>,
    },
    /// About dead letters that are delivered again.
    Replay(ReplayCommand),
    /// Tells what is wrong with a subscription's dead-letter destination, or that nothing is, for its status (ED-319).
    NoteDeadLetterProblem {
        /// The topic's name.
        topic: String,
        /// The subscription's name.
        name: String,
        /// The problem.
        problem: Option<String>,
        /// When it is noted.
        answer: Answer<()>,
    },
    /// How some subscriptions are doing, for [`EngineHandle::gauges`].
    Gauges {
        /// Where the page begins; `None` for the first one.
        from: Option<GaugesFrom>,
        /// By id.
        answer: Answer<GaugesPage>,
    },
    /// Where the deliveries of events stand, subscription by subscription.
    Standings {
        /// Which events.
        events: Vec<StandingsQuery>,
        /// In the same order.
        answer: Answer<Vec<EventStandings>>,
    },
    /// Deliveries that ended undelivered.
    TerminalRecords {
        /// Which of them.
        query: TerminalQuery,
        /// A page.
        answer: Answer<TerminalPage>,
    },
}

/// One of the two keys of a topic (ED-014).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyName {
    /// `key1`
    Key1,
    /// `key2`
    Key2,
}

/// What a purge dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Deliveries: those that waited for their first attempt and had been read, and those that waited for another one.
    pub dropped: u64,
    /// Events of the topic that were passed over unread. Whether the subscription's filter wanted them is not known.
    pub skipped: u64,
    /// Attempts that still run. Their end settles them: they succeed, or are dropped too.
    pub in_flight: u64,
}

/// Which terminal records are wanted, by name.
#[derive(Debug, Clone, Default)]
pub struct TerminalQuery {
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only of this subscription; needs a topic.
    pub subscription: Option<String>,
    /// Only those after this number.
    pub after: u64,
    /// How many at most.
    pub limit: usize,
}

/// Which pending dead letters are wanted, by name.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterQuery {
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only of this subscription; needs a topic.
    pub subscription: Option<String>,
    /// Only those behind this place.
    pub after: Option<DeadLetterPlace>,
    /// How many at most.
    pub limit: usize,
}

/// Where a pending dead letter stands among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadLetterPlace {
    /// Whose it is.
    pub subscription: SubscriptionId,
    /// When it is written.
    pub due: Timestamp,
    /// The event's number in the topic.
    pub seq: u64,
}

/// A dead letter that waits to be written.
#[derive(Debug, Clone)]
pub struct DeadLetterInfo {
    /// Where it stands.
    pub place: DeadLetterPlace,
    /// The topic's id.
    pub topic: TopicId,
    /// The topic's name.
    pub topic_name: String,
    /// The subscription's name.
    pub subscription_name: String,
    /// What is known of it.
    pub letter: PendingDeadLetter,
    /// The event's id; read by [`EngineHandle::dead_letters`], empty if the event cannot be read.
    pub event_id: String,
}

/// Some pending dead letters, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterPage {
    /// In order.
    pub letters: Vec<DeadLetterInfo>,
    /// Pass as `after` for the next page; `None` when there are no more.
    pub next: Option<DeadLetterPlace>,
}

/// A subscription and how it is doing.
#[derive(Debug, Clone)]
pub struct SubscriptionInfo {
    /// As declared.
    pub subscription: Subscription,
    /// The name of its topic.
    pub topic_name: String,
    /// What became of its deliveries. `counters.matched` counts those that were begun.
    pub counters: Counters,
    /// Deliveries that are owed: begun and not settled, and those that wait for their first attempt.
    pub pending: u64,
    /// Those of them that were never attempted and wait in memory.
    pub waiting: u64,
    /// Attempts that run.
    pub in_flight: u64,
    /// When the next retry is due: not before the end of what holds the subscription back.
    pub next_due: Option<Timestamp>,
    /// Events of the topic that were not offered to it yet.
    pub behind: u64,
    /// Whether and why it is held back.
    pub hold: HoldInfo,
    /// Attempts of it that run at its endpoint; exchanges that were timed out do not count.
    pub open_attempts: u32,
    /// Before this no attempt starts, by its own limit or the endpoint's; nothing if that is past.
    pub not_before: Option<Timestamp>,
    /// How many attempts run at its endpoint, of all subscriptions behind it, and how many may; nothing if it does not deliver
    /// yet.
    pub endpoint: Option<EndpointCredits>,
    /// So many batches were answered lately, 95 % of them within this time (ED-321).
    pub batch_responses: Option<(usize, Duration)>,
    /// What is wrong with its dead-letter destination.
    pub dead_letter_problem: Option<String>,
}

/// Whether and why a subscription is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldInfo {
    /// The strongest of what holds it.
    pub state: HoldState,
    /// What the attempt met that began it.
    pub cause: Option<Outcome>,
    /// How often in a row: n of ED-237, or the periods of probation.
    pub level: u16,
    /// Since when; not known of a pause that an older server began.
    pub since: Option<Timestamp>,
    /// Until when nothing is attempted. When it awaits a trial: since when it does.
    pub until: Option<Timestamp>,
    /// When the next trial is, or may be if nothing is due by then; nothing when it awaits one and no event is there.
    pub next_trial: Option<Timestamp>,
    /// Deliveries that wait for the end of it.
    pub held: u64,
}

/// What holds a subscription back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldState {
    /// Nothing.
    Healthy,
    /// It is on probation.
    Probation,
    /// Deliveries to its endpoint are delayed.
    Delayed,
    /// What held it is over, and no attempt has succeeded since: one event is tried alone (ED-230, ED-238).
    AwaitingTrial,
    /// Somebody paused it.
    Paused,
    /// Its endpoint answered 410, which pauses it until somebody resumes it (ED-186).
    Gone,
}

impl HoldState {
    /// The name that users see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Probation => "Probation",
            Self::Delayed => "Delayed",
            Self::AwaitingTrial => "AwaitingTrial",
            Self::Paused => "Paused",
            Self::Gone => "Gone",
        }
    }
}

/// What an operator's call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedHold {
    /// Probation, which is the subscription's own, or delayed delivery, which all share that deliver to the endpoint.
    pub state: HoldState,
    /// What was ended.
    pub period: Period,
    /// Whom it held: topic and subscription, by name.
    pub held: Vec<(String, String)>,
}

/// What publishers need of the topics there are, by name in lower case.
pub type TopicTable = HashMap<String, Arc<PublishTopic>>;

/// What publishers need of a topic.
#[derive(Debug, Clone)]
pub struct PublishTopic {
    /// Where its events are appended.
    pub id: TopicId,
    /// Its name as declared.
    pub name: String,
    /// Its resource path, which events carry.
    pub path: String,
    /// What it takes.
    pub spec: TopicSpec,
    /// Who may publish.
    pub keys: TopicKeys,
    /// What is counted of it.
    pub metrics: Arc<TopicMetrics>,
}

/// An engine that runs. Cheap to clone.
#[derive(Clone)]
pub struct EngineHandle {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) topics: watch::Receiver<Arc<TopicTable>>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) notes: broadcast::Sender<AttemptNote>,
    pub(crate) history: Option<HistoryHandle>,
    pub(crate) dead_letters: Arc<dyn DeadLetterStore>,
    pub(crate) metrics: Arc<Metrics>,
}

/// What is remembered of an event (ED-311).
#[derive(Debug, Clone, Default)]
pub struct EventAttempts {
    /// Attempts, and ends without one, the oldest first.
    pub records: Vec<HistoryRecord>,
    /// There were more: the oldest are left out.
    pub is_truncated: bool,
    /// What ended before is not remembered. `None` if nothing is: the history is disabled, or its directory cannot be
    /// used.
    pub known_since: Option<Timestamp>,
}

impl EngineHandle {
    /// The store that events are appended to.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The topics there are now.
    #[must_use]
    pub fn topics(&self) -> Arc<TopicTable> {
        Arc::clone(&self.topics.borrow())
    }

    /// Listens to attempts from now on.
    #[must_use]
    pub fn notes(&self) -> broadcast::Receiver<AttemptNote> {
        self.notes.subscribe()
    }

    /// What is remembered of the event with this id, the newest `limit` records of those that are wanted. Does not ask the
    /// engine; reads the disk, on a thread for that.
    pub async fn attempts_where(
        &self,
        event_id: String,
        limit: usize,
        wants: impl Fn(&HistoryRecord) -> bool + Send + 'static,
    ) -> Result<EventAttempts, CommandError> {
        let Some(history) = self.history.clone() else {
            return Ok(EventAttempts::default());
        };
        let read = move || {
            let mut records = history.attempts_where(&event_id, limit + 1, wants);
            let is_truncated = records.len() > limit;
            records.truncate(limit);
            records.reverse();
            // Written in nearly this order: one with an excerpt is a little later.
            records.sort_by_key(|record| record.ended);
            EventAttempts {
                records,
                is_truncated,
                known_since: history.known_since(),
            }
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| CommandError::Unavailable)
    }

    /// Pending dead letters with the ids of their events, which are read on a thread for that.
    pub async fn dead_letters(
        &self,
        query: DeadLetterQuery,
    ) -> Result<DeadLetterPage, CommandError> {
        let mut page = self
            .ask(|answer| Command::DeadLetters { query, answer })
            .await?;
        let store = Arc::clone(&self.store);
        let read = move || {
            for letter in &mut page.letters {
                let position = Position {
                    topic: letter.topic,
                    seq: letter.place.seq,
                };
                let event = store
                    .read_recent(position)
                    .or_else(|| store.read(position).ok());
                // One that was written meanwhile may be gone.
                letter.event_id = event.as_ref().map(event_id).unwrap_or_default();
            }
            page
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| CommandError::Unavailable)
    }

    /// Tries to write to a dead-letter destination and to delete what was written (ED-319).
    ///
    /// # Errors
    /// What a person has to act on.
    pub async fn probe_dead_letters(
        &self,
        destination: &DeadLetterDestination,
    ) -> Result<(), DeadLetterError> {
        let probe = self.dead_letters.probe(destination.container().clone());
        let answered = tokio::time::timeout(PROBE_TIMEOUT, probe).await;
        answered.unwrap_or_else(|_| {
            Err(DeadLetterError {
                is_full: false,
                message: format!("the dead-letter store did not answer in {PROBE_TIMEOUT:?}"),
                is_not_found: false,
            })
        })
    }

    /// Asks the engine. `make` gets the way back for the answer.
    pub async fn ask<T>(&self, make: impl FnOnce(Answer<T>) -> Command) -> Result<T, CommandError> {
        let (answer, answered) = oneshot::channel();
        self.commands
            .send(make(answer))
            .await
            .map_err(|_| CommandError::Unavailable)?;
        answered.await.map_err(|_| CommandError::Unavailable)?
    }
}
