//! Delivering an accepted event again, because somebody asked for it (FC-10).
//!
//! | how its delivery stands | what is done |
//! | --- | --- |
//! | it ended, in whatever way | a new delivery, due at once: attempts and the time to live count anew |
//! | it waits for another attempt | that one is due now, and takes the place of the one that waited |
//! | it waits for its first attempt, or an attempt runs | nothing: it is being delivered |
//! | it was asked for a moment ago | nothing: somebody clicked twice |
//! | it was given up, and its dead letter is not written yet | nothing: it would end twice |
//!
//! A new delivery waits for the end of a pause or of another hold like any other.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_core::name::DomainTopicName;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::split_source;
use hedgerow_store::history::{AcceptedEvent, HistoryHandle, HistoryRecord};
use hedgerow_store::{Store, StoreError};

use crate::command::{Command, CommandError, EngineHandle};
use crate::explain::story::{self, Stored};
use crate::explain::{EVENTS_MAX, hints, on_a_thread, position_of};

/// Records of attempts that are looked at for where an event stands.
const RECORDS_MAX: usize = 1_000;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct ResendQuery {
    /// The event's topic.
    pub topic: String,
    /// The event's id, as it was published. Of several events with this id in the topic it is the newest.
    pub event_id: String,
    /// Only to this subscription; to all that it matched without one.
    pub subscription: Option<String>,
}

/// The same, found.
#[derive(Debug, Clone)]
pub struct ResendOrder {
    /// The event.
    pub position: Position,
    /// P of ED-203.
    pub published: Timestamp,
    /// Its id.
    pub event_id: String,
    /// Only to this subscription.
    pub subscription: Option<String>,
    /// Only to subscriptions for this domain topic.
    pub domain_topic: Option<DomainTopicName>,
    /// Where deliveries may stand in the due index: what their newest records say.
    pub hints: Vec<(SubscriptionId, Timestamp)>,
}

/// What was begun for one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resent {
    /// Its name.
    pub subscription: String,
    /// What.
    pub how: ResentHow,
}

/// What asking for an event again led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResentHow {
    /// A new delivery.
    Resent,
    /// The attempt that waited is due now.
    BroughtForward,
    /// Nothing new: it waits for its turn already.
    Pending,
    /// Nothing: an attempt waits, at a time that was not found among too many, and is made then.
    NotFound,
    /// Nothing new: an attempt runs, or its end is being written down.
    InFlight,
    /// Nothing new: it was asked for a moment ago.
    AlreadyResent,
    /// Nothing: its dead letter waits to be written.
    DeadLetterPending,
    /// Nothing: the subscription is being purged of it.
    Purged,
}

impl ResentHow {
    /// The name that users see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resent => "Resent",
            Self::BroughtForward => "BroughtForward",
            Self::Pending => "Pending",
            Self::NotFound => "NotFound",
            Self::InFlight => "InFlight",
            Self::AlreadyResent => "AlreadyResent",
            Self::DeadLetterPending => "DeadLetterPending",
            Self::Purged => "Purged",
        }
    }
}

impl EngineHandle {
    /// Delivers an event again. Reads the history and the log on a thread for that.
    ///
    /// # Errors
    /// [`CommandError::NotFound`] if there is no such topic, subscription or event; [`CommandError::Forgotten`] if the event
    /// was accepted and cannot be read any more; [`CommandError::Conflict`] if it is none for the subscription.
    pub async fn resend(&self, query: ResendQuery) -> Result<Vec<Resent>, CommandError> {
        let (name, domain_topic) = split_source(&query.topic);
        let topic = self.topics().get(&name.to_ascii_lowercase()).cloned();
        let domain_topic = domain_topic.map(str::parse).transpose();
        let (Some(topic), Ok(domain_topic)) = (topic.map(|topic| topic.id), domain_topic) else {
            return Err(CommandError::NotFound {
                what: "topic",
                name: query.topic,
            });
        };
        let Some(history) = self.history.clone() else {
            let message = "the server keeps no history, and does not know by its id where an event stands; set \
                           history.enabled";
            return Err(CommandError::Conflict(message.to_owned()));
        };
        let finder = (history, Arc::clone(&self.store), query);
        let (order, _) = on_a_thread(finder, move |(history, store, query)| {
            find(history, store, topic, query).map(|order| ResendOrder {
                domain_topic,
                ..order
            })
        })
        .await?;
        let order = order?;
        self.ask(|answer| Command::Resend { order, answer }).await
    }
}

/// Finds the newest event of the topic with the id.
fn find(
    history: &HistoryHandle,
    store: &Arc<dyn Store>,
    topic: TopicId,
    query: &ResendQuery,
) -> Result<ResendOrder, CommandError> {
    let id = &query.event_id;
    // Those of other topics take no room among them.
    let is_tried_here = |record: &HistoryRecord| record.topic == topic;
    let mut attempts = history.attempts_where(id, RECORDS_MAX, is_tried_here);
    attempts.reverse();
    let is_here = |event: &AcceptedEvent| event.position.topic == topic;
    let accepted = history.accepted_where(id, EVENTS_MAX, is_here).into_iter();
    let accepted = accepted.map(|event| (event.position, event.published));
    let mut found: BTreeMap<Position, Timestamp> = accepted.collect();
    let tried = attempts.iter();
    found.extend(tried.map(|record| (position_of(record), record.published)));
    let found = found.into_iter();
    let mut newest: Vec<_> = found.map(|(position, time)| (time, position)).collect();
    newest.sort_unstable();
    for (published, position) in newest.into_iter().rev() {
        match story::read(store, position, id) {
            Stored::Here(_) => {
                return Ok(ResendOrder {
                    position,
                    published,
                    event_id: id.clone(),
                    subscription: query.subscription.clone(),
                    domain_topic: None,
                    hints: hints(&attempts, position),
                });
            }
            // An older one with this id is another event, and nobody asked for that.
            Stored::Forgotten => return Err(forgot(id, published)),
            Stored::Unreadable(StoreError::Closed) => return Err(CommandError::Unavailable),
            Stored::Unreadable(error) => {
                let message = format!("the event \"{id}\" of {published} cannot be read: {error}");
                return Err(CommandError::Conflict(message));
            }
            // Another id has the same hash.
            Stored::Another => {}
        }
    }
    Err(CommandError::NotFound {
        what: "event",
        name: id.clone(),
    })
}

/// An event that was there, and is not any more.
pub(crate) fn forgot(event_id: &str, published: Timestamp) -> CommandError {
    CommandError::Forgotten(format!(
        "the event \"{event_id}\" of {published} is no longer kept: it was owed to nobody any more, and the log has used its \
         place again"
    ))
}
