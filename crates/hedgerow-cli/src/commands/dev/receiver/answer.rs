//! What the receiver answers: read from a word, as typed or as part of a path, or from JSON.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value, json};

/// Statuses that a webhook can answer.
const STATUSES: RangeInclusive<u64> = 200..=599;
/// Seconds of `Retry-After`: a day, four times what is obeyed (ED-185).
const RETRY_AFTER_SECONDS: RangeInclusive<u64> = 0..=86_400;
/// Longer than any response timeout (ED-176).
const DELAYS_MS: RangeInclusive<u64> = 0..=600_000;
/// Seconds of `Retry-After` beside a 429 that was asked for by its number alone: it says when to come again.
const RETRY_AFTER_OF_429: u64 = 60;

/// The word for 200 after the attempt has timed out, and in time for a late success (ED-177, ED-178).
const LATE: &str = "late";
const LATE_DELAY: Duration = Duration::from_secs(45);

/// The words beside statuses.
const WORDS: [(&str, How); 4] = [
    ("hang", How::Hang),
    ("drip", How::Drip),
    ("redirect", How::Redirect),
    ("close", How::Close),
];

/// How the receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With this status and no body.
    Status(StatusCode),
    /// Not at all; the connection stays open.
    Hang,
    /// 200 at once, and then a body that never ends, byte by byte.
    Drip,
    /// 307, to a place of its own that answers 200.
    Redirect,
    /// Not at all; the connection is closed.
    Close,
}

/// What the receiver answers, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// How.
    pub how: How,
    /// Seconds of `Retry-After`, if it is sent.
    pub retry_after: Option<u64>,
    /// How long the answer takes, in the server's time.
    pub delay: Duration,
}

impl Answer {
    /// Answers like this, at once.
    pub const fn new(how: How) -> Self {
        Self {
            how,
            retry_after: None,
            delay: Duration::ZERO,
        }
    }

    /// This status, at once.
    pub const fn status(status: StatusCode) -> Self {
        Self::new(How::Status(status))
    }

    /// Reads a status, or one of the words; a 429 says when to come again.
    pub fn from_word(word: &str) -> Option<Self> {
        if let Some((_, how)) = WORDS.iter().find(|(name, _)| *name == word) {
            return Some(Self::new(*how));
        }
        if word == LATE {
            return Some(Self {
                delay: LATE_DELAY,
                ..Self::status(StatusCode::OK)
            });
        }
        let code: u16 = word.parse().ok().filter(|_| word.len() == 3)?;
        if !STATUSES.contains(&code.into()) {
            return None;
        }
        let answer = Self::status(StatusCode::from_u16(code).ok()?);
        Some(Self {
            retry_after: (code == 429).then_some(RETRY_AFTER_OF_429),
            ..answer
        })
    }

    /// The same with so many seconds of `Retry-After`; `None` if those are too many, or the answer has no head.
    pub fn with_retry_after(self, seconds: u64) -> Option<Self> {
        let has_status = matches!(self.how, How::Status(_));
        (has_status && RETRY_AFTER_SECONDS.contains(&seconds)).then_some(Self {
            retry_after: Some(seconds),
            ..self
        })
    }

    /// The status that goes out, if one does.
    pub fn sent_status(&self) -> Option<StatusCode> {
        match self.how {
            How::Status(status) => Some(status),
            How::Drip => Some(StatusCode::OK),
            How::Redirect => Some(StatusCode::TEMPORARY_REDIRECT),
            How::Hang | How::Close => None,
        }
    }

    /// Its word.
    pub fn word(&self) -> String {
        match self.how {
            How::Status(status) => status.as_str().to_owned(),
            other => {
                let word = WORDS.iter().find(|(_, how)| *how == other);
                word.map_or_else(String::new, |(word, _)| (*word).to_owned())
            }
        }
    }

    /// Reads `{"status":503,"retryAfter":60,"delayMs":0}` or `{"answer":"hang"}`. The error says which member is wrong and
    /// what it may be.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let members = value
            .as_object()
            .ok_or("must be an object, such as {\"status\":503}")?;
        let known = ["status", "answer", "retryAfter", "delayMs"];
        if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!(
                "{name:?} is unknown here; known are {}",
                known.join(", ")
            ));
        }
        let word = members.get("answer").filter(|word| !word.is_null());
        let how = match (word, integer(members, "status", &STATUSES)?) {
            (None, Some(status)) => {
                let status = u16::try_from(status)
                    .ok()
                    .and_then(|code| StatusCode::from_u16(code).ok());
                How::Status(status.expect("statuses from 200 to 599 are valid"))
            }
            (None, None) => return Err("status is required, or answer".to_owned()),
            (Some(_), Some(_)) => return Err("status and answer exclude each other".to_owned()),
            (Some(word), None) => {
                let words: Vec<_> = WORDS.iter().map(|(name, _)| *name).collect();
                let found = WORDS.iter().find(|(name, _)| word == name);
                let rule = || format!("answer must be one of {}", words.join(", "));
                found.ok_or_else(rule)?.1
            }
        };
        let retry_after = integer(members, "retryAfter", &RETRY_AFTER_SECONDS)?;
        if retry_after.is_some() && word.is_some() {
            return Err("retryAfter goes with status only".to_owned());
        }
        Ok(Self {
            how,
            retry_after,
            delay: Duration::from_millis(integer(members, "delayMs", &DELAYS_MS)?.unwrap_or(0)),
        })
    }

    /// In the form that [`Answer::from_json`] reads.
    pub fn to_json(self) -> Value {
        let delay_ms = self.delay.as_millis() as u64;
        let mut json = match self.how {
            How::Status(status) => json!({ "status": status.as_u16(), "delayMs": delay_ms }),
            _ => json!({ "answer": self.word(), "delayMs": delay_ms }),
        };
        if let Some(seconds) = self.retry_after {
            json["retryAfter"] = seconds.into();
        }
        json
    }
}

/// In words, for the terminal.
impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.how {
            How::Status(status) => write!(f, "{status}")?,
            How::Hang => f.write_str("nothing, until the attempt times out")?,
            How::Drip => f.write_str("200 OK with a body that drips and never ends")?,
            How::Redirect => f.write_str("307 Temporary Redirect, which is not followed")?,
            How::Close => f.write_str("nothing, and closes the connection")?,
        }
        if let Some(seconds) = self.retry_after {
            write!(f, ", Retry-After {seconds} s")?;
        }
        if !self.delay.is_zero() {
            write!(f, ", after {} ms", self.delay.as_millis())?;
        }
        Ok(())
    }
}

fn integer(
    members: &Map<String, Value>,
    name: &str,
    range: &RangeInclusive<u64>,
) -> Result<Option<u64>, String> {
    let Some(value) = members.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = value.as_u64().filter(|number| range.contains(number));
    let rule = || {
        format!(
            "{name} must be an integer from {} to {}",
            range.start(),
            range.end()
        )
    };
    number.ok_or_else(rule).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_strictly() {
        let good = json!({"status": 503, "retryAfter": 60, "delayMs": 5});
        let answer = Answer::from_json(&good).unwrap();
        assert_eq!(answer.to_json(), good);
        assert_eq!(
            answer.to_string(),
            "503 Service Unavailable, Retry-After 60 s, after 5 ms"
        );
        let rows = [
            (json!(503), "must be an object"),
            (json!({}), "status is required"),
            (
                json!({"status": 199}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": 600}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": "503"}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": 503.5}),
                "status must be an integer from 200 to 599",
            ),
            (
                json!({"status": 503, "retryAfter": -1}),
                "retryAfter must be an integer from 0 to 86400",
            ),
            (
                json!({"status": 200, "delayMs": 600_001}),
                "delayMs must be an integer from 0 to 600000",
            ),
            (
                json!({"status": 200, "delay": 1}),
                "\"delay\" is unknown here",
            ),
            (
                json!({"status": 200, "answer": "hang"}),
                "exclude each other",
            ),
            (
                json!({"answer": "sing"}),
                "answer must be one of hang, drip, redirect, close",
            ),
            (
                json!({"answer": "hang", "retryAfter": 1}),
                "retryAfter goes with status only",
            ),
        ];
        for (json, reason) in rows {
            let error = Answer::from_json(&json).unwrap_err();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }

    #[test]
    fn words_mean() {
        for word in ["200", "404", "599", "hang", "drip", "redirect", "close"] {
            let answer = Answer::from_word(word).unwrap();
            assert_eq!(answer.word(), word);
            let json = answer.to_json();
            assert_eq!(Answer::from_json(&json), Ok(answer), "{json}");
        }
        let busy = Answer::from_word("429").unwrap();
        assert_eq!(busy.retry_after, Some(60));
        assert_eq!(
            busy.with_retry_after(7).and_then(|busy| busy.retry_after),
            Some(7)
        );
        for word in ["", "100", "600", "20", "0200", "+200", "Hang", "sing"] {
            assert_eq!(Answer::from_word(word), None, "{word}");
        }
    }
}
