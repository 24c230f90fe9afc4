//! What the receiver remembers of what arrived: the newest events, within bounds.

use std::collections::VecDeque;

use hedgerow_core::time::Timestamp;
use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Events that are remembered.
pub const RECEIVED_MAX: usize = 1_000;
/// Bytes of events that are remembered with them.
const RECEIVED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of an event's id, type or subject that are remembered.
const TEXT_BYTES_MAX: usize = 256;

/// An event that arrived.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Received {
    id: Option<String>,
    /// `eventType`, or the `type` of a CloudEvent.
    event_type: Option<String>,
    subject: Option<String>,
    delivery_count: Option<u64>,
    subscription: Option<String>,
    #[serde(rename = "receivedTime")]
    time: String,
    path: String,
    /// What was answered; `None` for nothing.
    status: Option<u16>,
    content_type: Option<String>,
    /// As it came, byte for byte; `None` once others needed the room.
    event: Option<Box<RawValue>>,
}

impl Received {
    fn bytes(&self) -> usize {
        self.event.as_ref().map_or(0, |event| event.get().len())
    }
}

/// A request with events, and what it is answered.
pub struct Request<'a> {
    pub headers: &'a HeaderMap,
    pub path: &'a str,
    pub body: &'a [u8],
    pub status: Option<u16>,
    pub time: Timestamp,
}

/// What arrived.
#[derive(Debug, Default)]
pub struct Record {
    /// The newest first.
    received: VecDeque<Received>,
    /// Bytes of the events among them.
    bytes: usize,
    /// All that ever arrived.
    pub total: u64,
}

impl Record {
    /// Notes every event of a request; a body that is no JSON counts as one event.
    pub fn add(&mut self, request: &Request<'_>) {
        let text = |name: &str| {
            let value = request.headers.get(name)?.to_str().ok()?;
            Some(shortened(value).to_owned())
        };
        let count = text("aeg-delivery-count").and_then(|count| count.parse().ok());
        for raw in events(request.body) {
            let event: Value = raw
                .as_ref()
                .and_then(|raw| serde_json::from_str(raw.get()).ok())
                .unwrap_or_default();
            let member = |name: &str| event.get(name)?.as_str().map(shortened).map(str::to_owned);
            let received = Received {
                id: member("id"),
                event_type: member("eventType").or_else(|| member("type")),
                subject: member("subject"),
                delivery_count: count,
                subscription: text("aeg-subscription-name"),
                time: request.time.to_string(),
                path: shortened(request.path).to_owned(),
                status: request.status,
                content_type: text("content-type"),
                event: raw,
            };
            self.total += 1;
            self.bytes += received.bytes();
            self.received.push_front(received);
        }
        self.forget();
    }

    fn forget(&mut self) {
        while self.received.len() > RECEIVED_MAX {
            if let Some(oldest) = self.received.pop_back() {
                self.bytes -= oldest.bytes();
            }
        }
        let mut events = self.received.iter_mut().rev();
        while self.bytes > RECEIVED_BYTES_MAX {
            let Some(oldest) = events.next() else { break };
            self.bytes -= oldest.bytes();
            oldest.event = None;
        }
    }

    /// The newest ones.
    pub fn newest(&self, limit: usize) -> Vec<&Received> {
        self.received.iter().take(limit).collect()
    }
}

/// The events of a body, each as it stands there.
fn events(body: &[u8]) -> Vec<Option<Box<RawValue>>> {
    if let Ok(events) = serde_json::from_slice::<Vec<Box<RawValue>>>(body) {
        return events.into_iter().map(Some).collect();
    }
    vec![serde_json::from_slice(body).ok()]
}

fn shortened(text: &str) -> &str {
    hedgerow_core::text::beginning(text, TEXT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(bodies: &[&str]) -> Record {
        let mut record = Record::default();
        let headers = HeaderMap::new();
        for body in bodies {
            record.add(&Request {
                headers: &headers,
                path: "/",
                body: body.as_bytes(),
                status: Some(200),
                time: Timestamp::from_millis(1_893_553_445_000),
            });
        }
        record
    }

    #[test]
    fn events_are_kept_byte_for_byte() {
        let record = record(&[
            r#"[{"id":"1","eventType":"A","data":{"n":1.10}},{"id":"2"}]"#,
            r#"{"id":"3","type":"B","source":"/s"}"#,
            "no JSON",
        ]);
        assert_eq!(record.total, 4);
        let newest = record.newest(10);
        let shown = serde_json::to_value(&newest).unwrap();
        assert_eq!(shown[0]["id"], json!(null));
        assert_eq!(shown[1]["eventType"], "B");
        assert_eq!(shown[3]["eventType"], "A");
        let raw = newest[3].event.as_ref().unwrap().get();
        assert_eq!(raw, r#"{"id":"1","eventType":"A","data":{"n":1.10}}"#);
    }

    #[test]
    fn memory_is_bounded() {
        let large = format!(r#"[{{"id":"1","data":"{}"}}]"#, "x".repeat(1_000_000));
        let record = record(&vec![large.as_str(); 20]);
        assert!(record.bytes <= RECEIVED_BYTES_MAX);
        let kept = record.received.iter().filter(|one| one.event.is_some());
        assert_eq!((kept.count(), record.received.len()), (16, 20));
        assert!(record.received[0].event.is_some(), "the newest");
    }
}
