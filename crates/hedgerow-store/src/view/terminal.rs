//! Terminal records: one for each delivery that ended undelivered, with the reason. Numbered in the order of the log;
//! beyond a number that is a setting the oldest are forgotten.

use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::rows::damaged_view;
use super::table::Space;
use super::{View, rows};
use crate::error::StoreError;
use crate::record::{Dead, DropReason, Progress};

/// The end of a delivery that was not delivered. A stored format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TerminalRecord {
    /// The topic's id.
    pub topic: TopicId,
    /// The topic's name when it happened.
    pub topic_name: String,
    /// The subscription's id.
    pub subscription: SubscriptionId,
    /// The subscription's name when it happened.
    pub subscription_name: String,
    /// The event's number in its topic.
    pub seq: u64,
    /// The event's id.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// The event's subject.
    pub subject: String,
    /// Why.
    pub reason: DeadLetterReason,
    /// P of ED-203.
    pub published: Timestamp,
    /// When it was decided.
    pub decided: Timestamp,
    /// The attempts that were made; `None` if there was none.
    pub progress: Option<Progress>,
    /// What became of its event.
    pub disposition: Disposition,
}

/// What became of an event that was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disposition {
    /// It is gone.
    Dropped(DropReason),
    /// It stands in the dead-letter store.
    DeadLettered,
}

/// Which terminal records are wanted.
#[derive(Debug, Clone, Default)]
pub struct TerminalFilter {
    /// Only of this topic.
    pub topic: Option<TopicId>,
    /// Only of subscriptions for this, such as one domain topic: as [`TerminalRecord::topic_name`] has it.
    pub source: Option<String>,
    /// Only of this subscription.
    pub subscription: Option<SubscriptionId>,
    /// Only those after this number.
    pub after: u64,
}

/// Some terminal records, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct TerminalPage {
    /// Each with its number, ascending.
    pub records: Vec<(u64, TerminalRecord)>,
    /// Pass as `after` for the next page; `None` when there are no more.
    pub next: Option<u64>,
}

/// Rows that one page looks at, at most, so that a filter that matches nothing stays bounded.
const SCANNED_ROWS_MAX: usize = 10_000;

impl View {
    /// The first `limit` records that the filter wants, by number. A page may hold fewer although there are more.
    pub fn terminal_records(
        &self,
        filter: &TerminalFilter,
        limit: usize,
    ) -> Result<TerminalPage, StoreError> {
        let from = filter.after.saturating_add(1).max(self.first_terminal);
        let (from, to) = (from.to_be_bytes(), self.next_terminal.to_be_bytes());
        let rows = self
            .layers
            .scan(Space::Terminal, &from, &to, SCANNED_ROWS_MAX)?;
        let is_whole = rows.len() < SCANNED_ROWS_MAX;
        let mut page = TerminalPage::default();
        let mut last = filter.after;
        for (key, value) in rows {
            if page.records.len() == limit {
                page.next = Some(last);
                return Ok(page);
            }
            let key: [u8; 8] = key
                .try_into()
                .map_err(|_| damaged_view("the key of a terminal record is odd"))?;
            last = u64::from_be_bytes(key);
            let record: TerminalRecord = rows::decode(&value)?;
            let source = filter.source.as_deref();
            let is_wanted = filter.topic.is_none_or(|topic| topic == record.topic)
                && source.is_none_or(|source| record.topic_name.eq_ignore_ascii_case(source))
                && filter
                    .subscription
                    .is_none_or(|id| id == record.subscription);
            if is_wanted {
                page.records.push((last, record));
            }
        }
        page.next = (!is_whole).then_some(last);
        Ok(page)
    }

    pub(super) fn put_terminal(&mut self, dead: &Dead, disposition: Disposition) {
        let Some(subscription) = self.catalog.subscription(dead.subscription) else {
            return;
        };
        let Some(topic) = self.catalog.topic(subscription.topic) else {
            return;
        };
        let record = TerminalRecord {
            topic: topic.id,
            topic_name: self.catalog.source_of(subscription),
            subscription: subscription.id,
            subscription_name: subscription.name.as_str().to_owned(),
            seq: dead.seq,
            event_id: dead.event_id.clone(),
            event_type: dead.event_type.clone(),
            subject: dead.subject.clone(),
            reason: dead.reason,
            published: dead.published,
            decided: dead.decided,
            progress: dead.progress,
            disposition,
        };
        let key = self.next_terminal.to_be_bytes();
        self.layers
            .put_new(Space::Terminal, &key, rows::encode(&record).into());
        self.next_terminal += 1;
        while self.next_terminal - self.first_terminal > self.terminal_records_max {
            self.layers
                .remove(Space::Terminal, &self.first_terminal.to_be_bytes());
            self.first_terminal += 1;
        }
    }
}
