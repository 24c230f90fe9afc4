//! What the admin API asks of the engine: changes of what is declared, and questions about it. What a subscription is made for is
//! called its topic in all of them: the name of a topic or of a domain, or `DOMAIN/topics/DOMAIN-TOPIC` for a topic of a domain. Each is answered once it
//! holds; a change, once it is durable.

mod handle;
mod letters;
mod standing;

use hedgerow_core::name::{DomainTopicName, SubscriptionName, TopicName};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{SpecError, SubscriptionSpec, TopicSpec};
use hedgerow_store::catalog::{Topic, TopicKeys};
use hedgerow_store::view::TerminalPage;
use tokio::sync::oneshot;

pub use self::handle::{EngineHandle, EventAttempts, PublishTopic, TopicTable};
pub use self::letters::{DeadLetterInfo, DeadLetterPage, DeadLetterPlace, DeadLetterQuery};
pub use self::standing::{EndedHold, HoldInfo, HoldState, SubscriptionInfo};
use crate::declare::{Declared, SubscriptionDeclaration};
use crate::domain_topics::{DomainTopicInfo, DomainTopicPage, DomainTopicQuery};
use crate::dry_run::{DryRun, DryRunQuery};
use crate::endpoint_test::{EndpointTest, EndpointTestQuery};
use crate::explain::{EventStandings, StandingsQuery};
use crate::gauges::{GaugesFrom, GaugesPage};
use crate::origin_groups::OriginCommand;
use crate::replay::ReplayCommand;
use crate::resend::{ResendOrder, Resent};
use crate::validation::{Callback, Called};

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
        /// Whether the origin group that it delivers to is.
        has_new_group: bool,
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
    /// About origin groups and routes.
    Origins(OriginCommand),
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
