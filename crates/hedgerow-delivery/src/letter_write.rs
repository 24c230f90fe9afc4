//! One write of dead letters: reads the events, spells them, hands one blob to the dead-letter store. Decides nothing: what a
//! failure means is the engine's.

use std::sync::Arc;

use hedgerow_core::dead_letter::blob_name;
use hedgerow_core::limits;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::dead_letter::{DeadLetter, DeadLetterArray, ExtraMembers, RecordFormat};
use hedgerow_io::chance;
use hedgerow_io::clock::Clock;
use hedgerow_io::dead_letter::{Blob, DeadLetterError, DeadLetterStore};
use hedgerow_store::record::{PendingDeadLetter, Progress, dead_text, unpack_event};
use hedgerow_store::{Store, StoreError};

use crate::attempt;
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
    pub(crate) plan: Arc<Plan>,
    pub(crate) letters: Vec<Letter>,
    pub(crate) extra_members: ExtraMembers,
    pub(crate) store: Arc<dyn Store>,
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

/// Reads, spells and writes a batch, or as much of it as fits into one blob (ED-246).
pub(crate) async fn write(job: LetterJob) -> LetterReport {
    let mut report = LetterReport {
        subscription: job.subscription,
        ended: Timestamp::ZERO,
        written: Vec::new(),
        left: Vec::new(),
        result: Ok(()),
    };
    if let Some(destination) = &job.plan.dead_letter_destination {
        let room = job.dead_letters.has_room(destination.container().clone());
        if let Err(error) = room.await {
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
    let mut letters = job.letters.into_iter();
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
        let times = Times::of(&pending);
        let record = times.record(&pending);
        if !array.add(&event, &record, &format, limits::DEAD_LETTER_BYTES_MAX) {
            report.left.push(letter);
            break;
        }
        let texts = Texts {
            event_id: dead_text(&event.id),
            event_type: dead_text(&event.event_type),
            subject: dead_text(event.subject.as_deref().unwrap_or_default()),
        };
        report.written.push((letter, texts));
    }
    report.left.extend(letters);
    if let Err(WriteFault::Unreadable(..)) = report.result {
        // One that nobody needs any more is left out the next time, as its row is gone by then.
        report
            .left
            .extend(report.written.drain(..).map(|(letter, _)| letter));
        return report;
    }
    report.result = match &job.plan.dead_letter_destination {
        None => Err(WriteFault::NoDestination),
        Some(destination) => {
            let now = job.clock.now().timestamp;
            let blob = Blob {
                container: destination.container().clone(),
                name: blob_name(&job.plan.subscription_name, now, &chance::uuid()),
                count: array.count(),
                bytes: array.finish(),
                subscription: job.plan.subscription_name.clone(),
                topic: job.plan.topic_name.clone(),
            };
            let written = job.dead_letters.write(blob).await;
            written.map_err(fault_of)
        }
    };
    if let Err(WriteFault::NoRoom(_)) = report.result {
        let written = report.written.drain(..);
        report.left.extend(written.map(|(letter, _)| letter));
    }
    report.ended = job.clock.now().timestamp;
    report
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
