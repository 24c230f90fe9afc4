//! Hands what became of attempts to the history (design D12, ED-311). Decides nothing, and nobody waits for it.
//!
//! The engine knows what an attempt means, at once; the attempt's task knows the excerpt, once the body was read (ED-127).
//! So a report whose answer has a body carries the task's end of a channel: the engine puts the record into it, and the
//! task adds the excerpt and records it. Everything else is recorded by the engine.
//!
//! An endpoint may answer with the URL it was asked under, and the query of that is a secret (ED-121): it is struck out of
//! excerpts. The attempt's log line waits for the excerpt in the same way.

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
use crate::runner::Runner;

/// What waits for the excerpt.
pub(crate) struct Waiting {
    record: Option<HistoryRecord>,
    line: Option<AttemptLine>,
}

/// The way to the task that knows the excerpt.
pub(crate) type RecordTo = oneshot::Sender<Waiting>;
/// The task's end of it.
pub(crate) type RecordFrom = oneshot::Receiver<Waiting>;

/// What stands for a secret.
pub(crate) const STRUCK_OUT: &str = "***";
/// Values of a query shorter than this are no secrets, and striking them out would leave nothing to read.
pub(crate) const SECRET_LEN_MIN: usize = 6;

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
pub(crate) fn channel(answer: Option<&Answer>) -> (Option<RecordTo>, Option<RecordFrom>) {
    let has_body = answer.is_some_and(|answer| !answer.body.is_empty());
    if !has_body {
        return (None, None);
    }
    let (to, from) = oneshot::channel();
    (Some(to), Some(from))
}

/// Reads the rest of the answer, within its bounds, so that the connection can serve again; then records the attempt with
/// what was read.
pub(crate) async fn finish(
    answer: Option<Answer>,
    query: Option<&str>,
    history: Option<&HistoryHandle>,
    record: Option<RecordFrom>,
) {
    let Some(answer) = answer else {
        return;
    };
    let excerpt = answer.body.finish().await;
    let Some(waiting) = record else {
        return;
    };
    // The engine drops its end if the attempt counts no more, or if nobody wants to know.
    if let Ok(mut waiting) = waiting.await {
        let shown = shown(&excerpt, query);
        if let Some(line) = &mut waiting.line {
            line.answered(&shown.text);
        }
        if let Some(record) = &mut waiting.record {
            record.excerpt = Some(shown);
        }
        waiting.take_note(history);
    }
}

impl Waiting {
    fn take_note(self, history: Option<&HistoryHandle>) {
        if let Some(line) = self.line {
            line.write();
        }
        if let (Some(record), Some(history)) = (self.record, history) {
            history.record(record);
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
    let Circumstances {
        kind,
        key,
        published,
        started,
        by,
    } = circumstances;
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
        next: match note.next {
            NoteNext::Delivered => HistoryNext::Delivered,
            NoteNext::Due(due) => HistoryNext::Due(due),
            NoteNext::Dead(reason) => HistoryNext::Dead(reason),
            NoteNext::DeadLetter { reason, due } => HistoryNext::DeadLetter(reason, due),
        },
    };
    let waiting = Waiting {
        record: history.is_some().then(record),
        line,
    };
    match by {
        // A task that is gone gives it back.
        Some(by) => by
            .send(waiting)
            .unwrap_or_else(|waiting| waiting.take_note(history)),
        None => waiting.take_note(history),
    }
}

fn shown(excerpt: &Excerpt, query: Option<&str>) -> ResponseExcerpt {
    let text = String::from_utf8_lossy(&excerpt.bytes);
    let is_cut = excerpt.body_bytes > excerpt.bytes.len() as u64;
    ResponseExcerpt {
        text: query.map_or_else(|| text.to_string(), |query| without(&text, query, is_cut)),
        body_bytes: excerpt.body_bytes,
        is_complete: excerpt.is_complete,
    }
}

/// The text without the query and without the values in it. In a text that `is_cut` its end may be the beginning of one.
pub(crate) fn without(text: &str, query: &str, is_cut: bool) -> String {
    let decoded = url::form_urlencoded::parse(query.as_bytes());
    let mut secrets: Vec<String> = decoded.map(|(_, value)| value.into_owned()).collect();
    let raw = query.split('&').filter_map(|pair| pair.split_once('='));
    secrets.extend(raw.map(|(_, value)| value.to_owned()));
    secrets.push(query.to_owned());
    secrets.retain(|secret| secret.len() >= SECRET_LEN_MIN);
    // A value may be a part of another one.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    let mut text = text.to_owned();
    for secret in &secrets {
        if text.contains(secret) {
            text = text.replace(secret, STRUCK_OUT);
        }
    }
    if is_cut {
        // The cut may have gone through a character, which is shown as another one.
        let end = text.trim_end_matches(char::REPLACEMENT_CHARACTER).len();
        let beginnings = secrets
            .iter()
            .filter_map(|secret| beginning(&text[..end], secret));
        if let Some(longest) = beginnings.max() {
            text.truncate(end - longest);
            text.push_str(STRUCK_OUT);
        }
    }
    text
}

/// The length of the longest beginning of `secret` that the text ends with, if it says anything.
fn beginning(text: &str, secret: &str) -> Option<usize> {
    let lengths = (SECRET_LEN_MIN / 2..secret.len()).rev();
    let mut beginnings = lengths.filter(|length| secret.is_char_boundary(*length));
    beginnings.find(|length| text.ends_with(&secret[..*length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_query_are_struck_out() {
        let query = "code=s3cr%2Ft-key&v=1&sig=key-of-more";
        let rows = [
            ("all is well", "all is well"),
            ("v=1 is no secret", "v=1 is no secret"),
            (
                "you asked /hook?code=s3cr%2Ft-key&v=1&sig=key-of-more",
                "you asked /hook?***",
            ),
            ("code s3cr%2Ft-key", "code ***"),
            ("code s3cr/t-key, sig key-of-more.", "code ***, sig ***."),
        ];
        for (text, expect) in rows {
            assert_eq!(without(text, query, false), expect);
        }
        assert_eq!(without("no query", "", false), "no query");
        assert_eq!(without("a value alone", "value", false), "a value alone");
    }

    #[test]
    fn a_secret_that_the_cut_went_through_is_struck_out_too() {
        let query = "code=\u{e9}t\u{e9}-secret";
        for (text, expect) in [
            ("you sent \u{e9}t\u{e9}-sec", "you sent ***"),
            ("you sent \u{e9}t\u{fffd}", "you sent ***"),
            ("you sent cod", "you sent ***"),
            ("you sent co", "you sent co"),
            ("you sent it", "you sent it"),
        ] {
            assert_eq!(without(text, query, true), expect);
        }
        assert_eq!(without("you sent cod", query, false), "you sent cod");
    }
}
