//! What is published to one topic: numbered events of one size, whose every byte their number decides.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Digits of the number at the start of an event's data.
const NUMBER_DIGITS: usize = 16;
const FILL: char = '~';

/// The events of a topic.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    /// The topic.
    pub topic: &'static str,
    /// Bytes of an event's data.
    pub event_bytes: usize,
    /// Events of a request.
    pub batch: u64,
}

#[derive(Deserialize)]
struct Delivered<'a> {
    id: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Stream {
    /// Bytes of so many events, their data alone.
    pub const fn bytes(&self, events: u64) -> u64 {
        events * self.event_bytes as u64
    }

    /// The body of a request.
    pub fn body(&self, numbers: Range<u64>) -> Bytes {
        let fill = FILL.to_string().repeat(self.event_bytes - NUMBER_DIGITS);
        let mut body = String::with_capacity((self.event_bytes + 256) * self.batch as usize);
        for number in numbers {
            body.push(if body.is_empty() { '[' } else { ',' });
            write!(
                body,
                r#"{{"id":"{number}","subject":"/volume","eventType":"Volume.Event","eventTime":"2026-02-03T04:05:06Z","dataVersion":"1","data":"{number:016}{fill}"}}"#
            )
            .expect("writing to a String cannot fail");
        }
        body.push(']');
        Bytes::from(body)
    }

    /// The number of a delivered event, if it is whole.
    pub fn check(&self, body: &[u8]) -> Result<u64, String> {
        let (event,): (Delivered<'_>,) =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let number: u64 = event.id.parse().map_err(|_| format!("id {}", event.id))?;
        let data = event.data.get().trim_matches('"');
        let (head, fill) = data
            .split_at_checked(NUMBER_DIGITS)
            .ok_or_else(|| format!("event {number} has the data {data}"))?;
        let is_whole = head == format!("{number:016}")
            && data.len() == self.event_bytes
            && fill.bytes().all(|byte| byte == FILL as u8);
        if is_whole {
            Ok(number)
        } else {
            Err(format!("event {number} did not arrive as it was published"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    const STREAM: Stream = Stream {
        topic: "t",
        event_bytes: 40,
        batch: 2,
    };

    #[test]
    fn events_are_known_by_every_byte() {
        let body = STREAM.body(7..8);
        assert_eq!(STREAM.check(&body), Ok(7));
        let mut other = body.to_vec();
        let at = other.len() - 10;
        other[at] = b'-';
        assert!(STREAM.check(&other).is_err());
    }
}
