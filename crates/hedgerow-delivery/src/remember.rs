//! Hands what became of attempts to the history (design D12, ED-311). Decides nothing, and nobody waits for it.
//!
//! The engine knows what an attempt means, at once; the attempt's task knows the excerpt, once the body was read (ED-127).
//! So a report whose answer has a body carries the task's end of a channel: the engine puts the record into it, and the
//! task adds the excerpt and records it. Everything else is recorded by the engine.
//!
//! An endpoint may answer with the URL it was asked under, whose query is a secret (ED-121), or with the headers it was
//! sent (ED-149): they are struck out of excerpts. The attempt's log line waits for the excerpt in the same way.

use hedgerow_core::retry::DeliveryKey;
use hedgerow_core::time::Timestamp;
use hedgerow_io::http::{Answer, Excerpt};
use hedgerow_store::StoredEvent;
use hedgerow_store::history::{
    HistoryHandle, HistoryKind, HistoryNext, HistoryRecord, ResponseExcerpt,
};
use tokio::sync::oneshot;

use crate::attempt::AttemptEnd;
use crate::attempt_log::AttemptLine;
use crate::note::{AttemptNote, NoteNext};
use crate::plan::Plan;
use crate::runner::Runner;

/// What waits for the excerpt.
pub(crate) struct Waiting {
    record: Option<HistoryRecord>,
    line: Option<AttemptLine>,
}

/// The same of what travelled together.
pub(crate) struct AllWaiting {
    first: Waiting,
    /// Those of the other events of a batch.
    records: Vec<HistoryRecord>,
    lines: Vec<AttemptLine>,
}

/// The body of an answer.
#[allow(clippy::large_enum_variant)] // There is one at a time, and a box would be an allocation for each answer.
pub(crate) enum Rest {
    /// It was not read yet.
    Unread(Answer),
    /// It was read, because it says something.
    Read(Excerpt),
}

/// The way to the task that knows the excerpt.
pub(crate) type RecordTo = oneshot::Sender<AllWaiting>;
/// The task's end of it.
pub(crate) type RecordFrom = oneshot::Receiver<AllWaiting>;

/// What a note does not say.
pub(crate) struct Circumstances {
    kind: HistoryKind,
    pub(crate) key: DeliveryKey,
    /// P of ED-203.
    published: Timestamp,
    started: Timestamp,
    /// Whoever adds the excerpt, if there is one to come.
    by: Option<RecordTo>,
}

impl Circumstances {
    /// Those of an attempt that ended.
    pub(crate) fn of_attempt(kind: HistoryKind, key: DeliveryKey, end: AttemptEnd) -> Self {
        Self {
            kind,
            key,
            published: end.event.published,
            started: end.started,
            by: end.record_to,
        }
    }

    /// Those of an event of a batch; who adds the excerpt adds it to all of them together.
    pub(crate) const fn of_batch(
        kind: HistoryKind,
        key: DeliveryKey,
        published: Timestamp,
        started: Timestamp,
    ) -> Self {
        Self {
            kind,
            key,
            published,
            started,
            by: None,
        }
    }

    /// Those of a delivery that ended without another attempt.
    pub(crate) fn of_end(key: DeliveryKey, event: &StoredEvent, decided: Timestamp) -> Self {
        Self {
            kind: HistoryKind::EndWithoutAttempt,
            key,
            published: event.published,
            started: decided,
            by: None,
        }
    }
}

/// A channel for what waits for the excerpt, if the answer has a body to come.
pub(crate) fn channel(rest: Option<&Rest>) -> (Option<RecordTo>, Option<RecordFrom>) {
    let has_body = rest.is_some_and(|rest| match rest {
        Rest::Unread(answer) => !answer.body.is_empty(),
        Rest::Read(_) => true,
    });
    if !has_body {
        return (None, None);
    }
    let (to, from) = oneshot::channel();
    (Some(to), Some(from))
}

/// Reads the rest of the answer, within its bounds, so that the connection can serve again; then records the attempt with
/// what was read.
pub(crate) async fn finish(
    rest: Option<Rest>,
    plan: &Plan,
    history: Option<&HistoryHandle>,
    record: Option<RecordFrom>,
) {
    let excerpt = match rest {
        None => return,
        Some(Rest::Unread(answer)) => answer.body.finish().await,
        Some(Rest::Read(excerpt)) => excerpt,
    };
    let Some(waiting) = record else {
        return;
    };
    // The engine drops its end if the attempt counts no more, or if nobody wants to know.
    if let Ok(mut waiting) = waiting.await {
        let is_cut = !excerpt.is_complete || excerpt.body_bytes > excerpt.bytes.len() as u64;
        let shown = ResponseExcerpt {
            text: plan
                .secrets()
                .strike(&String::from_utf8_lossy(&excerpt.bytes), is_cut),
            body_bytes: excerpt.body_bytes,
            is_complete: excerpt.is_complete,
        };
        waiting.answered(&shown, is_cut);
        waiting.take_note(history);
    }
}

impl AllWaiting {
    /// That of one event.
    pub(crate) const fn of(first: Waiting) -> Self {
        Self {
            first,
            records: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// The same of another event of the same request, of which there are at most so many more.
    pub(crate) fn with(&mut self, other: Waiting, more: usize) {
        let Waiting { record, line } = other;
        if let Some(record) = record {
            if self.records.is_empty() {
                self.records.reserve_exact(1 + more);
            }
            self.records.push(record);
        }
        self.lines.extend(line);
    }

    fn answered(&mut self, shown: &ResponseExcerpt, is_cut: bool) {
        for line in self.first.line.iter_mut().chain(&mut self.lines) {
            line.answered(&shown.text, is_cut);
        }
        for record in self.first.record.iter_mut().chain(&mut self.records) {
            record.excerpt = Some(shown.clone());
        }
    }

    fn take_note(self, history: Option<&HistoryHandle>) {
        for line in self.first.line.into_iter().chain(self.lines) {
            line.write();
        }
        let Some(history) = history else {
            return;
        };
        if let Some(record) = self.first.record {
            history.record(record);
        }
        if !self.records.is_empty() {
            history.record_all(self.records);
        }
    }
}

/// Records what a note tells of and writes its line, or hands both to whoever adds the excerpt.
pub(crate) fn remember(
    history: Option<&HistoryHandle>,
    runner: &Runner,
    note: AttemptNote,
    line: Option<AttemptLine>,
    circumstances: Circumstances,
) {
    let waiting = waiting(history.is_some(), runner, note, line, &circumstances);
    hand_on(history, AllWaiting::of(waiting), circumstances.by);
}

/// Records what waits, or hands it to whoever adds the excerpt.
pub(crate) fn hand_on(history: Option<&HistoryHandle>, waiting: AllWaiting, by: Option<RecordTo>) {
    match by {
        // A task that is gone gives it back.
        Some(by) => by
            .send(waiting)
            .unwrap_or_else(|waiting| waiting.take_note(history)),
        None => waiting.take_note(history),
    }
}

/// What is remembered of a note.
pub(crate) fn waiting(
    has_history: bool,
    runner: &Runner,
    note: AttemptNote,
    line: Option<AttemptLine>,
    circumstances: &Circumstances,
) -> Waiting {
    let Circumstances {
        kind,
        key,
        published,
        started,
        ..
    } = *circumstances;
    let record = || HistoryRecord {
        kind,
        event_id: note.event_id,
        topic: runner.topic,
        topic_name: note.topic,
        subscription: key.subscription,
        subscription_name: note.subscription,
        seq: key.seq,
        attempt: note.attempt,
        published,
        started,
        ended: note.ended,
        latency: note.duration,
        outcome: note.outcome,
        status: note.status,
        detail: note.detail,
        excerpt: None,
        to: note.to,
        next: match note.next {
            NoteNext::Delivered => HistoryNext::Delivered,
            NoteNext::Due(due) => HistoryNext::Due(due),
            NoteNext::Dead(reason) => HistoryNext::Dead(reason),
            NoteNext::DeadLetter { reason, due } => HistoryNext::DeadLetter(reason, due),
            NoteNext::DeadLettered(reason) => HistoryNext::DeadLettered(reason),
            NoteNext::Purged => HistoryNext::Purged,
        },
    };
    Waiting {
        record: has_history.then(record),
        line,
    }
}
