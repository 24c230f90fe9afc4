//! Writing dead letters: what is due is handed to a task that reads the events, spells them and writes one blob; what
//! became of it is journaled. One write of a subscription at a time, and few at all: deliveries come first.
//!
//! The rows in the view are what is owed. A write in flight at a crash is due again, and a try whose answer did not come
//! writes a new name: an event may be written twice, never not at all (ED-252).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hedgerow_core::dead_letter::{AfterFailedWrite, FailedWrite, after_failed_write, blob_name};
use hedgerow_core::limits;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::{self, DeadLetter, DeadLetterArray};
use hedgerow_io::chance;
use hedgerow_io::clock::Clock;
use hedgerow_io::dead_letter::{Blob, DeadLetterError, DeadLetterStore};
use hedgerow_store::record::{
    Dead, DeadThen, DropReason, Owed, PendingDeadLetter, PendingWrite, Progress, Record, dead_text,
    unpack_event,
};
use hedgerow_store::view::BEHIND_IN_FLIGHT;
use hedgerow_store::{Store, StoreError};

use super::{Engine, Internal, Phase};
use crate::attempt;
use crate::command::{
    CommandError, DeadLetterInfo, DeadLetterPage, DeadLetterPlace, DeadLetterQuery,
};
use crate::letters::Letter;
use crate::plan::Plan;

/// Rows that one page of a list looks at, at most: retries are among them.
const LISTED_ROWS_MAX: usize = 10_000;

/// The writes of all subscriptions.
pub(super) struct LetterWrites {
    store: Arc<dyn DeadLetterStore>,
    /// Those that have something to write, in order.
    queue: VecDeque<SubscriptionId>,
    under_way: usize,
    /// Why the last write of a subscription failed, or its destination was found unusable when it was declared (ED-319).
    problems: HashMap<SubscriptionId, String>,
}

impl LetterWrites {
    pub(super) fn new(store: Arc<dyn DeadLetterStore>) -> Self {
        Self {
            store,
            queue: VecDeque::new(),
            under_way: 0,
            problems: HashMap::new(),
        }
    }

    pub(super) const fn under_way(&self) -> usize {
        self.under_way
    }

    pub(super) fn problem(&self, id: SubscriptionId) -> Option<&String> {
        self.problems.get(&id)
    }

    pub(super) fn note_problem(&mut self, id: SubscriptionId, problem: Option<String>) {
        match problem {
            Some(problem) => drop(self.problems.insert(id, problem)),
            None => drop(self.problems.remove(&id)),
        }
    }
}

/// What became of a write.
pub(super) struct LetterReport {
    subscription: SubscriptionId,
    /// When it ended.
    ended: Timestamp,
    /// What was in the blob, each with its terminal texts.
    written: Vec<(Letter, Texts)>,
    /// What found no room in it.
    left: Vec<Letter>,
    result: Result<(), WriteFault>,
}

enum WriteFault {
    /// The store cannot give the event at this number.
    Unreadable(u64, StoreError),
    /// The dead-letter store did not take the blob.
    Refused(DeadLetterError),
    /// There is no destination any more.
    NoDestination,
}

/// What a terminal record shows of an event.
struct Texts {
    event_id: String,
    event_type: String,
    subject: String,
}

/// What a task needs to write a batch.
struct LetterJob {
    subscription: SubscriptionId,
    topic: TopicId,
    plan: Arc<Plan>,
    letters: Vec<Letter>,
    tells_status: bool,
    store: Arc<dyn Store>,
    dead_letters: Arc<dyn DeadLetterStore>,
    clock: Arc<dyn Clock>,
}

impl Engine {
    /// Lets a subscription stand in line if it has dead letters to write now.
    pub(super) fn queue_letters(&mut self, id: SubscriptionId) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        let letters = &mut runner.letters;
        if self.phase == Phase::Running && !letters.is_queued && letters.is_ready(now) {
            letters.is_queued = true;
            self.letter_writes.queue.push_back(id);
        }
    }

    /// Starts writes until no more may run.
    pub(super) fn write_letters(&mut self) {
        while self.phase == Phase::Running
            && self.letter_writes.under_way < limits::DEAD_LETTER_WRITES_MAX
        {
            let Some(id) = self.letter_writes.queue.pop_front() else {
                break;
            };
            self.write_letters_of(id);
        }
    }

    fn write_letters_of(&mut self, id: SubscriptionId) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        runner.letters.is_queued = false;
        let letters = runner.letters.take_batch(now);
        if letters.is_empty() {
            return;
        }
        runner.letters.is_writing = true;
        let job = LetterJob {
            subscription: id,
            topic: runner.topic,
            plan: Arc::clone(&runner.plan),
            letters,
            tells_status: self.settings.dead_letter_last_http_status,
            store: Arc::clone(&self.store),
            dead_letters: Arc::clone(&self.letter_writes.store),
            clock: Arc::clone(&self.clock),
        };
        self.letter_writes.under_way += 1;
        let events_to = self.events_to.clone();
        self.spawner.spawn(async move {
            let report = write(job).await;
            // The engine may be gone; then the rows are found again after the restart.
            let _ = events_to.send(Internal::LettersWritten(report)).await;
        });
    }

    /// Takes what became of a write.
    pub(super) fn letters_written(&mut self, report: LetterReport) -> Result<(), StoreError> {
        let id = report.subscription;
        self.letter_writes.under_way -= 1;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let result = match report.result {
            Err(WriteFault::Unreadable(seq, error)) if self.view.is_open(id, seq) => {
                return Err(error);
            }
            result => result,
        };
        let plan = Arc::clone(&runner.plan);
        runner.letters.is_writing = false;
        runner.letters.put_back(report.left);
        let count = report.written.len();
        match &result {
            Ok(()) => {
                tracing::info!(
                    topic = plan.topic_name,
                    subscription = plan.subscription_name,
                    count,
                    "dead letters written"
                );
                self.letter_writes.note_problem(id, None);
            }
            Err(WriteFault::Refused(error)) => {
                tracing::warn!(
                    topic = plan.topic_name,
                    subscription = plan.subscription_name,
                    count,
                    %error,
                    "dead letters cannot be written"
                );
                self.letter_writes
                    .note_problem(id, Some(error.message.clone()));
            }
            // One that nobody needs any more may be gone; the others are taken again.
            Err(WriteFault::NoDestination | WriteFault::Unreadable(..)) => {}
        }
        for (letter, texts) in report.written {
            let then = after_write(&plan, &letter.1, report.ended, &result);
            self.journal_letter(id, letter, texts, then)?;
        }
        self.queue_letters(id);
        self.plan_wake(id)
    }

    /// Pending dead letters (ED-248). A page may hold fewer than asked for although there are more.
    pub(super) fn pending_dead_letters(
        &self,
        query: &DeadLetterQuery,
    ) -> Result<Result<DeadLetterPage, CommandError>, StoreError> {
        let ids =
            match self.subscriptions_named(query.topic.as_deref(), query.subscription.as_deref()) {
                Ok(ids) => ids,
                Err(error) => return Ok(Err(error)),
            };
        let mut page = DeadLetterPage::default();
        let mut rows_left = LISTED_ROWS_MAX;
        let from = query.after.map(|place| place.subscription);
        for id in ids.into_iter().filter(|id| Some(*id) >= from) {
            let after = query.after.filter(|place| place.subscription == id);
            let after = after.map_or(BEHIND_IN_FLIGHT, |place| (place.due, place.seq));
            let rows = self.view.due(id, after, Timestamp::MAX, rows_left)?;
            let is_cut = rows.len() == rows_left;
            rows_left -= rows.len();
            for (count, row) in rows.iter().enumerate() {
                let place = DeadLetterPlace {
                    subscription: id,
                    due: row.due,
                    seq: row.seq,
                };
                page.letters.extend(self.letter_info(place, row.owed));
                let is_last = count + 1 == rows.len();
                if page.letters.len() == query.limit || (is_last && is_cut) {
                    page.next = Some(place);
                    return Ok(Ok(page));
                }
            }
        }
        Ok(Ok(page))
    }

    fn letter_info(&self, place: DeadLetterPlace, owed: Owed) -> Option<DeadLetterInfo> {
        let Owed::DeadLetter(letter) = owed else {
            return None;
        };
        let subscription = self.view.catalog().subscription(place.subscription)?;
        let topic = self.view.catalog().topic(subscription.topic)?;
        Some(DeadLetterInfo {
            place,
            topic: topic.id,
            topic_name: topic.name.as_str().to_owned(),
            subscription_name: subscription.name.as_str().to_owned(),
            letter,
            event_id: String::new(),
        })
    }

    fn journal_letter(
        &mut self,
        subscription: SubscriptionId,
        ((due, seq), letter): Letter,
        texts: Texts,
        then: DeadThen,
    ) -> Result<(), StoreError> {
        self.store.journal(Record::Dead(Dead {
            subscription,
            seq,
            due: Some(due),
            reason: letter.reason,
            decided: letter.decided,
            published: letter.published,
            progress: letter.progress,
            then,
            event_id: texts.event_id,
            event_type: texts.event_type,
            subject: texts.subject,
        }))
    }
}

/// What follows a write for one of its dead letters (ED-247).
fn after_write(
    plan: &Plan,
    letter: &PendingDeadLetter,
    ended: Timestamp,
    result: &Result<(), WriteFault>,
) -> DeadThen {
    let error = match result {
        Ok(()) => return DeadThen::Written,
        Err(WriteFault::NoDestination | WriteFault::Unreadable(..)) => {
            return DeadThen::Dropped(DropReason::NoDeadLetterDestination);
        }
        Err(WriteFault::Refused(error)) => error,
    };
    let first_failed = letter.write.first_failed.unwrap_or(ended);
    let failed = FailedWrite {
        first_failed,
        failed: ended,
        is_not_found: error.is_not_found,
    };
    match after_failed_write(&plan.dead_letter, &failed) {
        AfterFailedWrite::Due(due) => {
            let write = PendingWrite {
                failed: letter.write.failed.saturating_add(1),
                first_failed: Some(first_failed),
            };
            DeadThen::WriteDue(due, write)
        }
        AfterFailedWrite::Unavailable => DeadThen::Dropped(DropReason::DeadLetterStoreUnavailable),
        AfterFailedWrite::NotFound => DeadThen::Dropped(DropReason::DeadLetterContainerNotFound),
    }
}

/// Reads, spells and writes a batch, or as much of it as fits into one blob (ED-246).
async fn write(job: LetterJob) -> LetterReport {
    let mut report = LetterReport {
        subscription: job.subscription,
        ended: Timestamp::ZERO,
        written: Vec::new(),
        left: Vec::new(),
        result: Ok(()),
    };
    let mut array = DeadLetterArray::default();
    let topic_path = event_grid::topic_path(&job.plan.topic_name);
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
        let record = times.record(&pending, job.tells_status);
        if !array.add(&event, &topic_path, &record, limits::DEAD_LETTER_BYTES_MAX) {
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
            written.map_err(WriteFault::Refused)
        }
    };
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
        let last_attempt = letter.progress.map(|progress| progress.last_attempt);
        Self {
            published: letter.published.to_string(),
            last_attempt: last_attempt.map(|time| time.to_string()),
        }
    }

    fn record(&self, letter: &PendingDeadLetter, tells_status: bool) -> DeadLetter<'_> {
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
            last_status: Some(status).filter(|status| tells_status && *status > 0),
        }
    }
}
