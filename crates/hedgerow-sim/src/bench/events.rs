//! What is published: events of 1 KiB that differ in their id and carry the time at which they were sent.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};

use crate::random::Random;

/// Bytes of an event as it is published.
pub const EVENT_BYTES: usize = 1024;
/// Digits of ids and times.
const DIGITS: usize = 20;
const ID_AT: usize = r#"{"id":""#.len();
/// What stands before the time in an event's data.
const SENT: &[u8] = br#""sent":""#;

/// From here times in events are counted: publishers and receivers are in one process.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

static TEMPLATE: LazyLock<Template> = LazyLock::new(Template::new);

struct Template {
    text: Vec<u8>,
    sent_at: usize,
}

impl Template {
    fn new() -> Self {
        let zeros = "0".repeat(DIGITS);
        let head = format!(
            r#"{{"id":"{zeros}","subject":"/bench/item","eventType":"Bench.Item.Made","eventTime":"2026-02-03T04:05:06.789Z","data":{{"sent":"{zeros}","fill":""#
        );
        let tail = r#""},"dataVersion":"1.0"}"#;
        let sent_at = head.find(r#""sent""#).expect("it stands above") + SENT.len();
        let mut random = Random::new(1);
        let fill = (head.len() + tail.len()..EVENT_BYTES)
            .map(|_| b"abcdefghijklmnopqrstuvwxyzABCDEF"[random.between(0..=31) as usize]);
        let mut text = head.into_bytes();
        text.extend(fill);
        text.extend(tail.bytes());
        Self { text, sent_at }
    }
}

/// A request's body with `len` events, numbered from `first` on, sent now.
pub fn body(first: u64, len: usize) -> Bytes {
    let template = &*TEMPLATE;
    let sent = digits(u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut body = BytesMut::with_capacity(len * (EVENT_BYTES + 1) + 1);
    for number in 0..len {
        body.put_u8(if number == 0 { b'[' } else { b',' });
        let at = body.len();
        body.put_slice(&template.text);
        body[at + ID_AT..][..DIGITS].copy_from_slice(&digits(first + number as u64));
        body[at + template.sent_at..][..DIGITS].copy_from_slice(&sent);
    }
    body.put_u8(b']');
    body.freeze()
}

/// How long ago the first event in a request was sent.
pub fn age(body: &[u8]) -> Option<Duration> {
    let now = BEGAN.elapsed();
    let at = body.windows(SENT.len()).position(|text| text == SENT)? + SENT.len();
    let digits = body.get(at..at + DIGITS)?;
    let sent: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    now.checked_sub(Duration::from_nanos(sent))
}

fn digits(mut number: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_size_and_number() {
        let body = body(98, 3);
        assert_eq!(body.len(), 3 * (EVENT_BYTES + 1) + 1);
        let events: Vec<serde_json::Value> = serde_json::from_slice(&body).unwrap();
        let ids: Vec<_> = events
            .iter()
            .map(|event| event["id"].as_str().unwrap())
            .collect();
        assert_eq!(
            ids,
            [
                "00000000000000000098",
                "00000000000000000099",
                "00000000000000000100"
            ]
        );
        assert!(age(&body).is_some());
        assert_eq!(age(b"[]"), None);
    }
}
