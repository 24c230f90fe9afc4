//! One write of dead letters: reads the events, spells them, hands one blob to the dead-letter store. Decides nothing: what a
//! failure means is the engine's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::dead_letter::{BlobId, LetterSource, blob_name};
use hedgerow_core::limits;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::dead_letter::{DeadLetter, DeadLetterArray, ExtraMembers, RecordFormat};
use hedgerow_io::chance;
use hedgerow_io::clock::Clock;
use hedgerow_io::dead_letter::{Answered, Blob, DeadLetterError, DeadLetterStore};
use hedgerow_store::record::{PendingDeadLetter, Progress, dead_text, unpack_event};
use hedgerow_store::{Store, StoreError};

use crate::attempt;
use crate::notice::{self, WrittenBlob};
use crate::plan::Plan;
use crate::runner::DueKey;

/// A dead letter and the row it stands under.
pub(crate) type Letter = (DueKey, PendingDeadLetter);

/// What became of a write.
pub(crate) struct LetterReport {
    pub(crate) subscription: SubscriptionId,
    /// When it ended.
    pub(crate) ended: Timestamp,
    /// What was in the blob, each with its terminal texts.
    pub(crate) written: Vec<(Letter, Texts)>,
    /// What found no room in it.
    pub(crate) left: Vec<Letter>,
    /// What may not be written there (ED-264).
    pub(crate) circular: Vec<(Letter, Texts)>,
    /// The blob, if it was written.
    pub(crate) blob: Option<WrittenBlob>,
    pub(crate) result: Result<(), WriteFault>,
}

pub(crate) enum WriteFault {
    /// The store cannot give the event at this number.
    Unreadable(u64, StoreError),
    /// The dead-letter store did not take the blob.
    Refused(DeadLetterError),
    /// There is no room for it now: nothing was tried.
    NoRoom(DeadLetterError),
    /// There is no destination any more.
    NoDestination,
}

/// What a terminal record shows of an event.
pub(crate) struct Texts {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) subject: String,
}

/// What a task needs to write a batch.
pub(crate) struct LetterJob {
    pub(crate) subscription: SubscriptionId,
    pub(crate) topic: TopicId,
    /// What the subscription is for, which the blob tells.
    pub(crate) source: LetterSource,
    pub(crate) plan: Arc<Plan>,
    pub(crate) letters: Vec<Letter>,
    pub(crate) extra_members: ExtraMembers,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) store_id: [u8; 16],
    pub(crate) dead_letters: Arc<dyn DeadLetterStore>,
    pub(crate) clock: Arc<dyn Clock>,
}

fn fault_of(error: DeadLetterError) -> WriteFault {
    if error.is_full {
        WriteFault::NoRoom(error)
    } else {
        WriteFault::Refused(error)
    }
}

/// What a dead-letter store answers, if it does in time: one that hangs is one that is away (FC-09). What it does later with a
/// blob is no harm: the next try has another name.
pub(crate) async fn in_time(answered: Answered<'_>) -> Result<(), DeadLetterError> {
    let wait = Duration::from_secs(limits::DEAD_LETTER_WRITE_SECONDS_MAX);
    let answered = tokio::time::timeout(wait, answered).await;
    answered.unwrap_or_else(|_| {
        Err(DeadLetterError {
            message: format!("the dead-letter store did not answer in {wait:?}"),
            is_not_found: false,
            is_full: false,
        })
    })
}

/// Reads, spells and writes a batch, or as much of it as fits into one blob (ED-246).
pub(crate) async fn write(mut job: LetterJob) -> LetterReport {
    let mut report = LetterReport {
        subscription: job.subscription,
        ended: Timestamp::ZERO,
        written: Vec::new(),
        left: Vec::new(),
        circular: Vec::new(),
        blob: None,
        result: Ok(()),
    };
    if let Some(destination) = &job.plan.dead_letter_destination {
        let room = job.dead_letters.has_room(destination.container().clone());
        if let Err(error) = in_time(room).await {
            report.left = job.letters;
            report.ended = job.clock.now().timestamp;
            report.result = Err(fault_of(error));
            return report;
        }
    }
    let mut array = DeadLetterArray::default();
    let format = RecordFormat {
        schema: job.plan.delivery_schema,
        topic_path: &job.plan.topic_path,
        extra: job.extra_members,
    };
    let mut letters = std::mem::take(&mut job.letters).into_iter();
    let mut been_through = BTreeSet::new();
    for letter in letters.by_ref() {
        let ((_, seq), pending) = letter;
        let position = Position {
            topic: job.topic,
            seq,
        };
        let read = attempt::read(&job.store, position).await;
        let event = match read.as_ref().map(|event| unpack_event(&event.bytes)) {
            Ok(Ok(event)) => event,
            Ok(Err(error)) => {
                report.result = Err(WriteFault::Unreadable(seq, error));
                break;
            }
            Err(_) => {
                let error = read.err().unwrap_or(StoreError::Closed);
                report.result = Err(WriteFault::Unreadable(seq, error));
                break;
            }
        };
        let texts = Texts {
            event_id: dead_text(&event.id),
            event_type: dead_text(&event.event_type),
            subject: dead_text(event.subject.as_deref().unwrap_or_default()),
        };
        let containers = if job.plan.is_of_notices {
            notice::containers_of(&event)
        } else {
            BTreeSet::new()
        };
        if job.plan.is_circular(&containers) {
            report.circular.push((letter, texts));
            continue;
        }
        let times = Times::of(&pending);
        let record = times.record(&pending);
        if !array.add(&event, &record, &format, limits::DEAD_LETTER_BYTES_MAX) {
            report.left.push(letter);
            break;
        }
        been_through.extend(containers);
        report.written.push((letter, texts));
    }
    report.left.extend(letters);
    if let Err(WriteFault::Unreadable(..)) = report.result {
        // One that nobody needs any more is left out the next time, as its row is gone by then.
        let taken = report.written.drain(..).chain(report.circular.drain(..));
        report.left.extend(taken.map(|(letter, _)| letter));
        return report;
    }
    let written = write_blob(&job, array, been_through).await;
    report.result = written.map(|blob| report.blob = blob);
    if let Err(WriteFault::NoRoom(_)) = report.result {
        let written = report.written.drain(..);
        report.left.extend(written.map(|(letter, _)| letter));
    }
    report.ended = job.clock.now().timestamp;
    report
}

/// Writes the blob, if there is anything to write.
async fn write_blob(
    job: &LetterJob,
    array: DeadLetterArray,
    been_through: BTreeSet<String>,
) -> Result<Option<WrittenBlob>, WriteFault> {
    let (plan, store) = (&job.plan, &job.dead_letters);
    let Some(destination) = &plan.dead_letter_destination else {
        return Err(WriteFault::NoDestination);
    };
    if array.count() == 0 {
        return Ok(None);
    }
    let now = job.clock.now().timestamp;
    let uuid = BlobId::new(now, job.source, chance::number() as u32).uuid(&job.store_id);
    let blob = Blob {
        container: destination.container().clone(),
        name: blob_name(&plan.subscription_name, now, &uuid),
        count: array.count(),
        bytes: array.finish(),
        subscription: plan.subscription_name.to_string(),
        topic: plan.topic_name.to_string(),
    };
    let told = WrittenBlob {
        container: blob.container.as_str().to_owned(),
        name: blob.name.clone(),
        url: store.url(&blob.container, &blob.name),
        bytes: blob.bytes.len(),
        count: blob.count,
        subscription: blob.subscription.clone(),
        been_through,
    };
    let written = in_time(store.write(blob)).await;
    written.map(|()| Some(told)).map_err(fault_of)
}

/// The times of a record, spelled.
struct Times {
    published: String,
    last_attempt: Option<String>,
}

impl Times {
    fn of(letter: &PendingDeadLetter) -> Self {
        // One that was held until its end was never attempted (ED-257).
        let attempted = letter.progress.filter(|progress| progress.attempts > 0);
        let last_attempt = attempted.map(|progress| progress.last_attempt);
        Self {
            published: letter.published.to_string(),
            last_attempt: last_attempt.map(|time| time.to_string()),
        }
    }

    fn record(&self, letter: &PendingDeadLetter) -> DeadLetter<'_> {
        let of = |progress: &Progress| (progress.last_outcome, progress.last_status);
        let (outcome, status): (Option<Outcome>, u16) = match letter.progress.as_ref().map(of) {
            Some((outcome, status)) => (Some(outcome), status),
            None => (None, 0),
        };
        DeadLetter {
            reason: letter.reason,
            attempts: letter.progress.map_or(0, |progress| progress.attempts),
            last_outcome: outcome,
            publish_time: &self.published,
            last_attempt_time: self.last_attempt.as_deref(),
            last_status: Some(status).filter(|status| *status > 0),
        }
    }
}
