//! Dead letters that were written: where those of a subscription are, which of a container's blobs are its own, and what stands in
//! them. Reads only.
//!
//! A container may hold the dead letters of several topics, and a path in it names the subscription but not the topic. So the name
//! of each blob tells its topic ([`BlobId`]); of blobs without, as an older server wrote them, the records tell it. What is not
//! known to be the subscription's own is nobody's: it is neither shown nor delivered again (FC-26).

use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::dead_letter::{BlobId, BlobName, LetterSource, Span, blob_name};
use hedgerow_core::limits;
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::{ContainerPath, InputSchema};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::dead_letter::ExtraMembers;
use hedgerow_dialect::dead_letter::read::{self, ReadLetter};
use hedgerow_dialect::event_grid::domain_topic_path;
use hedgerow_io::dead_letter::{BlobQuery, DeadLetterError, DeadLetterStore, FoundBlob};

use crate::command::{Command, CommandError, EngineHandle};
use crate::replay::ReplayCommand;

/// Blobs that are listed at a time.
pub(crate) const LISTED_MAX: usize = 100;
/// Lists of blobs of others that one question walks over.
const PAGES_MAX: usize = 100;

/// Where the dead letters of a subscription are, and how they are read.
#[derive(Clone)]
pub struct LetterShelf {
    pub(crate) store: Arc<dyn DeadLetterStore>,
    pub(crate) store_id: [u8; 16],
    pub(crate) topic: TopicId,
    /// What the subscription is for, as its blobs tell it.
    pub(crate) source: LetterSource,
    pub(crate) topic_name: String,
    pub(crate) topic_path: String,
    pub(crate) is_domain: bool,
    /// The one topic of the domain that the subscription is for, if it is for one.
    pub(crate) domain_topic: Option<DomainTopicName>,
    pub(crate) input: InputSchema,
    pub(crate) subscription: SubscriptionId,
    pub(crate) subscription_name: String,
    pub(crate) container: ContainerPath,
    pub(crate) extra: ExtraMembers,
    /// Whether no other subscription writes under the same name.
    pub(crate) is_only_of_name: bool,
}

/// Whose blobs of a name are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The subscription's own.
    Own,
    /// Of a subscription of the same name to another topic, or to a domain and not to one of its topics, or of another subscription.
    Other,
    /// Its records say it.
    InRecords,
}

/// A blob with dead letters of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenBlob {
    /// Its name in the container.
    pub name: String,
    /// The UUID in it.
    pub uuid: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written; the begin of its hour if its name does not say more.
    pub written: Timestamp,
}

/// Some of them, and where to go on.
#[derive(Debug, Clone, Default)]
pub struct WrittenPage {
    /// In the order of time.
    pub blobs: Vec<WrittenBlob>,
    /// Pass as `after` for the next page; `None` when there are no more.
    pub next: Option<String>,
}

/// What stands in a blob.
#[derive(Debug, Clone)]
pub struct WrittenRecords {
    /// Which blob.
    pub blob: WrittenBlob,
    /// The records that are the subscription's own, each as JSON.
    pub records: Vec<String>,
}

impl LetterShelf {
    /// Whose a blob is.
    pub(crate) fn owner(&self, name: &BlobName<'_>) -> Owner {
        if !name.is_of(&self.subscription_name) {
            return Owner::Other;
        }
        match BlobId::parse(name.uuid, &self.store_id) {
            Some(id) if id.source == self.source => Owner::Own,
            Some(_) => Owner::Other,
            None => Owner::InRecords,
        }
    }

    /// Whether a record of a blob is the subscription's own.
    pub(crate) fn has(&self, owner: Owner, letter: &ReadLetter<'_>) -> bool {
        match (owner, letter.topic.as_deref()) {
            (Owner::Own, _) => true,
            (Owner::Other, _) => false,
            (Owner::InRecords, Some(topic)) => match &self.domain_topic {
                None => topic.eq_ignore_ascii_case(&self.topic_path) || self.is_of_domain(topic),
                Some(own) => {
                    topic.eq_ignore_ascii_case(&domain_topic_path(&self.topic_path, own.as_str()))
                }
            },
            (Owner::InRecords, None) => self.is_only_of_name,
        }
    }

    /// Whether a path is that of a topic of the domain.
    fn is_of_domain(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&*self.topic_path);
        rest.is_some_and(|rest| rest.starts_with("/topics/"))
    }

    /// The topic of the domain that a record is of: as its path says, or the subscription's, or else as the event named it.
    pub(crate) fn domain_topic_of(&self, letter: &ReadLetter<'_>) -> Option<String> {
        if !self.is_domain {
            return None;
        }
        let named = letter.domain_topic(&self.topic_path);
        let own = self.domain_topic.as_ref();
        let own = own.filter(|_| letter.topic.is_none() || named.is_none());
        own.map(|own| own.as_str().to_owned())
            .or_else(|| named.map(String::from))
    }

    /// The name of the blob that somebody means by its UUID or its name; `None` if it is none of the subscription's.
    pub(crate) fn name_of(&self, blob: &str) -> Option<String> {
        let name = match BlobId::parse(blob, &self.store_id) {
            Some(id) => blob_name(&self.subscription_name, id.written, blob),
            None => blob.to_owned(),
        };
        let owner = self.owner(&BlobName::parse(&name)?);
        (owner != Owner::Other).then_some(name)
    }

    /// When a blob was written, as exactly as its name says.
    pub(crate) fn written(&self, name: &BlobName<'_>) -> Timestamp {
        let told = BlobId::parse(name.uuid, &self.store_id).map(|id| id.written);
        told.or_else(|| name.hour.begin()).unwrap_or_default()
    }

    /// Whether a blob was written in a span; where its name tells the hour only, whether it may have been.
    pub(crate) fn is_in(&self, name: &BlobName<'_>, span: Span) -> bool {
        match BlobId::parse(name.uuid, &self.store_id) {
            Some(id) => span.has(id.written),
            None => span.has_of(name.hour),
        }
    }

    /// Blobs under the subscription's name behind one of them, of others too.
    pub(crate) async fn list(
        &self,
        after: Option<String>,
        span: Span,
    ) -> Result<Vec<FoundBlob>, DeadLetterError> {
        let query = BlobQuery {
            container: self.container.clone(),
            subscription: self.subscription_name.clone(),
            after,
            span,
            limit: LISTED_MAX,
        };
        self.store.list(query).await
    }

    pub(crate) async fn read(&self, name: &str) -> Result<Bytes, DeadLetterError> {
        let reading = self.store.read(self.container.clone(), name.to_owned());
        reading.await
    }

    fn shown(&self, found: &FoundBlob) -> Option<WrittenBlob> {
        let name = BlobName::parse(&found.name)?;
        // One whose records would have to be read is shown only where they cannot be another topic's.
        let is_own = match self.owner(&name) {
            Owner::Own => true,
            Owner::Other => false,
            Owner::InRecords => self.is_only_of_name,
        };
        is_own.then(|| WrittenBlob {
            name: found.name.clone(),
            uuid: name.uuid.to_owned(),
            bytes: found.bytes,
            written: self.written(&name),
        })
    }
}

impl EngineHandle {
    async fn shelf(
        &self,
        topic: String,
        subscription: String,
    ) -> Result<LetterShelf, CommandError> {
        let of = |answer| {
            Command::Replay(ReplayCommand::Shelf {
                topic,
                subscription,
                answer,
            })
        };
        self.ask(of).await
    }

    /// Dead letters of a subscription that were written, where they are declared to go now. A page may hold fewer than asked
    /// for although there are more.
    ///
    /// # Errors
    /// [`CommandError::Conflict`] if it has no dead-letter destination, or that cannot be read.
    pub async fn written_letters(
        &self,
        topic: String,
        subscription: String,
        after: Option<String>,
        limit: usize,
    ) -> Result<WrittenPage, CommandError> {
        let letters = self.shelf(topic, subscription).await?;
        let mut page = WrittenPage {
            next: after,
            ..WrittenPage::default()
        };
        for _ in 0..PAGES_MAX {
            let found = letters.list(page.next.clone(), Span::default()).await;
            let found = found.map_err(unreadable)?;
            if found.is_empty() {
                page.next = None;
                return Ok(page);
            }
            for found in &found {
                page.blobs.extend(letters.shown(found));
                page.next = Some(found.name.clone());
                if page.blobs.len() >= limit {
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    /// The records of a blob of a subscription, which is meant by its UUID or its whole name.
    ///
    /// # Errors
    /// [`CommandError::NotFound`] if there is no such blob of it.
    pub async fn written_records(
        &self,
        topic: String,
        subscription: String,
        blob: String,
    ) -> Result<WrittenRecords, CommandError> {
        let letters = self.shelf(topic, subscription).await?;
        let not_found = |blob: &str| CommandError::NotFound {
            what: "dead letter",
            name: blob.to_owned(),
        };
        let name = letters.name_of(&blob).ok_or_else(|| not_found(&blob))?;
        let bytes = letters.read(&name).await.map_err(|error| {
            if error.is_not_found {
                not_found(&blob)
            } else {
                unreadable(error)
            }
        })?;
        let parsed = BlobName::parse(&name).ok_or_else(|| not_found(&blob))?;
        let owner = letters.owner(&parsed);
        let refused = |error: read::ReadError| CommandError::Conflict(format!("{name}: {error}"));
        let mut records = Vec::new();
        for record in read::records(&bytes).map_err(refused)? {
            let letter = read::record(record, letters.input, &letters.topic_path, letters.extra);
            if letter.is_ok_and(|letter| letters.has(owner, &letter)) {
                records.push(record.get().to_owned());
            }
        }
        if records.is_empty() && owner != Owner::Own {
            return Err(not_found(&blob));
        }
        Ok(WrittenRecords {
            blob: WrittenBlob {
                uuid: parsed.uuid.to_owned(),
                written: letters.written(&parsed),
                bytes: bytes.len() as u64,
                name: name.clone(),
            },
            records,
        })
    }
}

fn unreadable(error: DeadLetterError) -> CommandError {
    let mut message = error.message;
    hedgerow_core::text::cut(&mut message, limits::DEAD_LETTER_PROBLEM_BYTES_MAX);
    CommandError::Conflict(message)
}
