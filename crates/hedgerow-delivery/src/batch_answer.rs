//! What the answer to a batch says about single events of it, where its subscription asked for that
//! (`batch.perEntryAcknowledgement`).
//!
//! The form is the one that receivers of other systems' batches know: a success whose JSON body has
//! `{"batchItemFailures": [{"itemIdentifier": "<event id>"}]}` names the events that failed; all others are delivered.
//!
//! | a success with | means |
//! | --- | --- |
//! | no body, or one that is not declared as JSON | all are delivered |
//! | JSON without `batchItemFailures`, or with `null` or no entry there | all are delivered |
//! | JSON whose `batchItemFailures` name ids of events of the batch | these failed, the others are delivered |
//! | JSON that cannot be read: broken, longer than 1 MiB, not there within 2 s | all failed |
//! | an entry without `itemIdentifier`, or with an id that no event of the batch has | all failed |
//!
//! So whatever an answer leaves open is sent again, and nothing is lost by it. If several events have the id that is named, all
//! of them failed.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hedgerow_core::limits;
use hedgerow_core::outcome::Met;
use hedgerow_io::http::{Answer, Excerpt};
use hedgerow_store::StoredEvent;
use serde::Deserialize;

use crate::in_full;
use crate::note::event_id;
use crate::plan::Plan;
use crate::remember::Rest;

/// What a success says about the events of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entries {
    /// They were all accepted.
    All,
    /// Those at these places failed, from 0 in the order of the request.
    Failed(BTreeSet<usize>),
    /// It is not clear which were accepted, for this reason.
    Unclear(String),
}

impl Entries {
    /// Whether the event at this place was accepted.
    pub(crate) fn accepts(&self, place: usize) -> bool {
        match self {
            Self::All => true,
            Self::Failed(places) => !places.contains(&place),
            Self::Unclear(_) => false,
        }
    }

    /// Why an event that is not accepted is not, for people.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Failed(_) => {
                Some("the answer names the event among those that failed".to_owned())
            }
            Self::Unclear(why) => Some(why.clone()),
        }
    }
}

#[derive(Deserialize)]
struct Said {
    #[serde(default, rename = "batchItemFailures")]
    failures: Option<Vec<Failure>>,
}

#[derive(Deserialize)]
struct Failure {
    #[serde(rename = "itemIdentifier")]
    id: String,
}

/// Reads what an answer says about single events, if it may say something. Gives the rest of the answer back.
pub(crate) async fn read(
    plan: &Plan,
    met: &Met,
    answer: Option<Answer>,
    (first, others): &(StoredEvent, Vec<(u64, StoredEvent)>),
) -> (Entries, Option<Rest>) {
    let Some(answer) = answer else {
        return (Entries::All, None);
    };
    if !may_name_entries(plan, met, &answer) {
        return (Entries::All, Some(Rest::Unread(answer)));
    }
    let (entries, excerpt) = match read_body(answer).await {
        Ok(body) => {
            let ids = std::iter::once(first).chain(others.iter().map(|(_, event)| event));
            (said(&body, ids.map(event_id)), excerpt(&body, true))
        }
        Err((body, why)) => (Entries::Unclear(why), excerpt(&body, false)),
    };
    (entries, Some(Rest::Read(excerpt)))
}

/// Whether an answer may say something about single events.
pub(crate) fn may_name_entries(plan: &Plan, met: &Met, answer: &Answer) -> bool {
    let is_asked = plan.batch_answers.per_entry_acknowledgement && plan.batch.is_some();
    is_asked && met.is_success() && !answer.body.is_empty() && is_json(answer)
}

/// What such a body says about a batch of this event alone.
pub(crate) fn entries_of(body: &[u8], is_whole: bool, event: &StoredEvent) -> Entries {
    if is_whole {
        return said(body, std::iter::once(event_id(event)));
    }
    Entries::Unclear("the body of the answer could not be read whole".to_owned())
}

fn is_json(answer: &Answer) -> bool {
    let declared = answer.headers.get(http::header::CONTENT_TYPE);
    let declared = declared
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = declared.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// The whole body; or what came of it, and why that is not all.
async fn read_body(answer: Answer) -> Result<Bytes, (Bytes, String)> {
    let mut body = BytesMut::new();
    let wait: Duration = limits::RESPONSE_BODY_WAIT_MAX;
    let reading = answer
        .body
        .read_into(&mut body, limits::BATCH_ANSWER_BYTES_MAX);
    let why = match tokio::time::timeout(wait, reading).await {
        Ok(Ok(())) => return Ok(body.freeze()),
        Ok(Err(error)) => in_full(&error),
        Err(_) => format!("the body of the answer was not there after {wait:?}"),
    };
    Err((body.freeze(), why))
}

fn excerpt(body: &Bytes, is_complete: bool) -> Excerpt {
    Excerpt {
        body_bytes: body.len() as u64,
        bytes: body.slice(..body.len().min(limits::RESPONSE_EXCERPT_BYTES_MAX)),
        is_complete,
    }
}

/// What a body says about events with these ids.
fn said(body: &[u8], ids: impl Iterator<Item = String>) -> Entries {
    let value: serde_json::Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => return Entries::Unclear(format!("the answer is no JSON: {error}")),
    };
    if !value.is_object() {
        return Entries::All;
    }
    // Read from the text again: a member that stands there twice is not clear.
    let said: Said = match serde_json::from_slice(body) {
        Ok(said) => said,
        Err(error) => {
            return Entries::Unclear(format!("the answer's batchItemFailures are none: {error}"));
        }
    };
    let failures = said.failures.unwrap_or_default();
    if failures.is_empty() {
        return Entries::All;
    }
    let ids: Vec<String> = ids.collect();
    let mut failed = BTreeSet::new();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for failure in &failures {
        named.insert(&failure.id);
    }
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for (place, id) in ids.iter().enumerate() {
        if let Some(name) = named.get(id.as_str()) {
            found.insert(name);
            failed.insert(place);
        }
    }
    if found.len() < named.len() {
        return Entries::Unclear(
            "the answer's batchItemFailures name an id that no event of the batch has".to_owned(),
        );
    }
    Entries::Failed(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_name_what_failed() {
        let failed = |places: &[usize]| Some(Entries::Failed(places.iter().copied().collect()));
        let all = Some(Entries::All);
        for (body, expected) in [
            ("{}", all.clone()),
            (r#"{"batchItemFailures": null}"#, all.clone()),
            (r#"{"batchItemFailures": []}"#, all.clone()),
            (r#"{"received": 3}"#, all.clone()),
            ("[]", all.clone()),
            (r#""ok""#, all),
            (
                r#"{"batchItemFailures": [{"itemIdentifier": "b"}]}"#,
                failed(&[1, 3]),
            ),
            (
                r#"{"batchItemFailures": [{"itemIdentifier": "c", "why": 1}, {"itemIdentifier": "a"}, {"itemIdentifier": "c"}]}"#,
                failed(&[0, 2]),
            ),
            ("{", None),
            ("", None),
            (r#"{"batchItemFailures": {}}"#, None),
            (r#"{"batchItemFailures": ["a"]}"#, None),
            (r#"{"batchItemFailures": [{}]}"#, None),
            (r#"{"batchItemFailures": [{"itemIdentifier": 1}]}"#, None),
            (
                r#"{"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "x"}]}"#,
                None,
            ),
            (
                r#"{"batchItemFailures": [], "batchItemFailures": []}"#,
                None,
            ),
        ] {
            let ids = ["a", "b", "c", "b"].map(str::to_owned).into_iter();
            let found = said(body.as_bytes(), ids);
            match expected {
                Some(expected) => assert_eq!(found, expected, "{body}"),
                None => assert!(matches!(found, Entries::Unclear(_)), "{body}: {found:?}"),
            }
        }
    }
}
