//! From undelivered events to the content of a dead-letter blob, Event Grid schema (ED-250, ED-254, ED-257, ED-258).
//!
//! The clash of names of ED-259 cannot happen here: an event of this schema has no members but those of the schema
//! (section 1.6). Nothing of the endpoint stands in a record (ED-260).

use std::fmt::Write;

use hedgerow_core::event::Event;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};

use super::encode::{data, members, push_quoted};

/// What became of an undelivered event.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// Why it was given up.
    pub reason: DeadLetterReason,
    /// Attempts that were started.
    pub attempts: u16,
    /// What the last one met; `None` if there is nothing to tell, which leaves the member out.
    pub last_outcome: Option<Outcome>,
    /// When the event was accepted, in the form of ED-257.
    pub publish_time: &'a str,
    /// When the last attempt started; `None` if there was none.
    pub last_attempt_time: Option<&'a str>,
    /// The HTTP status that the last attempt got; `None` if there was none, or it is not to be told (ED-317).
    pub last_status: Option<u16>,
}

/// The content of a blob while records are added to it: a JSON array, UTF-8 without a mark.
#[derive(Debug)]
pub struct DeadLetterArray {
    bytes: Vec<u8>,
    count: usize,
}

impl Default for DeadLetterArray {
    fn default() -> Self {
        Self {
            bytes: vec![b'['],
            count: 0,
        }
    }
}

impl DeadLetterArray {
    /// Adds a record if the array is then no longer than `bytes_max`; the first one is added at any length. Returns whether
    /// it was.
    ///
    /// Members come in the order of the vendor's sample: those of the delivered event, the added ones before `data`, and
    /// `data` byte for byte as it was delivered.
    ///
    /// # Panics
    ///
    /// If the event has binary data: such events come from topics that cannot deliver this schema (ED-131).
    pub fn add(
        &mut self,
        event: &Event<'_>,
        topic_path: &str,
        letter: &DeadLetter<'_>,
        bytes_max: usize,
    ) -> bool {
        let before = self.bytes.len();
        if self.count > 0 {
            self.bytes.push(b',');
        }
        self.push(event, topic_path, letter);
        if self.count > 0 && self.bytes.len() + "]".len() > bytes_max {
            self.bytes.truncate(before);
            return false;
        }
        self.count += 1;
        true
    }

    /// Records so far.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The whole array.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b']');
        self.bytes
    }

    fn push(&mut self, event: &Event<'_>, topic_path: &str, letter: &DeadLetter<'_>) {
        let body = &mut self.bytes;
        body.push(b'{');
        for (name, text) in members(event, topic_path) {
            body.extend_from_slice(name.as_bytes());
            push_quoted(body, text);
        }
        // None of these texts has a sign that JSON escapes.
        let mut added = format!(
            r#","deadLetterReason":"{}","deliveryAttempts":{}"#,
            letter.reason.as_str(),
            letter.attempts
        );
        let mut add = |name: &str, text: &str| {
            write!(added, r#","{name}":"{text}""#).expect("writing to a String cannot fail");
        };
        if let Some(outcome) = letter.last_outcome {
            add("lastDeliveryOutcome", outcome.as_str());
        }
        add("publishTime", letter.publish_time);
        if let Some(time) = letter.last_attempt_time {
            add("lastDeliveryAttemptTime", time);
        }
        if let Some(status) = letter.last_status {
            write!(added, r#","lastHttpStatusCode":{status}"#)
                .expect("writing to a String cannot fail");
        }
        body.extend_from_slice(added.as_bytes());
        if let Some((name, value)) = data(event) {
            body.extend_from_slice(name.as_bytes());
            value.push(body);
        }
        body.push(b'}');
    }
}
