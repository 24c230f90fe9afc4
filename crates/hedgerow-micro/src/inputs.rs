//! What the steps work on, always the same: no clock and no chance is in it.

use std::fmt::Write as _;
use std::hint::black_box;

use bytes::Bytes;
use hedgerow_core::event::Event;
use hedgerow_core::filter::{Filter, FilterEvent, FilterIndex, FilterRules};
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::FilterSpec;
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::topic_path;
use hedgerow_dialect::publish::{self, Request};
use hedgerow_store::record::{
    Events, IN_FLIGHT, PackedEvents, Progress, Record, Settled, SettledHow, Started,
    StartedDelivery, encode_record,
};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::uri::PathAndQuery;
use serde_json::{Value, json};

pub(crate) const TOPIC_NAME: &str = "orders";
pub(crate) const TOPIC: TopicId = TopicId(1);
pub(crate) const SUBSCRIPTION: SubscriptionId = SubscriptionId(1);
pub(crate) const STORE_ID: [u8; 16] = [7; 16];
/// Bytes of an event as it is published.
const EVENT_BYTES: usize = 1024;
/// Deliveries of a record: what a busy server settles at once.
const DELIVERIES: u64 = 32;
/// Subscriptions of an index, and how many want the event.
const SUBSCRIPTIONS: usize = 100;
const WANTED: usize = 3;

/// All inputs. Made once: the events in it are never given back.
pub struct Inputs {
    pub(crate) one: Vec<u8>,
    pub(crate) hundred: Vec<u8>,
    pub(crate) request: Request<'static>,
    pub(crate) path: PathAndQuery,
    pub(crate) events: Vec<Event<'static>>,
    pub(crate) stored: Bytes,
    pub(crate) stored_hundred: Vec<Bytes>,
    pub(crate) batch_bytes: usize,
    pub(crate) records: Records,
    pub(crate) settled_frame: Bytes,
    pub(crate) buffer: Vec<u8>,
    pub(crate) by_type: Asked,
    pub(crate) by_advanced_filter: Asked,
}

/// One record of each kind.
pub(crate) struct Records {
    pub(crate) events: Record,
    pub(crate) started: Record,
    pub(crate) settled: Record,
}

/// An index of filters, and an event that it is asked about.
pub(crate) struct Asked {
    index: FilterIndex<usize>,
    event: FilterEvent<'static>,
}

impl Asked {
    fn new(event: &'static Event<'static>, filter: impl Fn(usize) -> Value) -> Self {
        let rules = FilterRules::default();
        let mut index = FilterIndex::new(rules);
        for id in 0..SUBSCRIPTIONS {
            // The last ones want what the first one wants.
            let number = if id + WANTED > SUBSCRIPTIONS { 0 } else { id };
            let spec = FilterSpec::check(&filter(number), "").expect("it is a filter");
            index.insert(id, 0..u64::MAX, Filter::new(&spec, rules));
        }
        Self {
            index,
            event: FilterEvent::new(event, "/topics/orders"),
        }
    }

    pub(crate) fn ask(&self) {
        let mut found = 0;
        self.index.ask(
            1,
            black_box(&self.event),
            |_| true,
            |answer| found += usize::from(answer.result.is_ok()),
        );
        // The first one too, where it is none of the last.
        assert!((WANTED..=WANTED + 1).contains(&found), "{found} want it");
    }
}

impl Default for Inputs {
    fn default() -> Self {
        Self::new()
    }
}

impl Inputs {
    /// Makes them.
    ///
    /// # Panics
    /// If one of them is not valid.
    #[must_use]
    pub fn new() -> Self {
        let (one, hundred) = (body(1), body(100));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = Request {
            headers: Box::leak(Box::new(headers)),
            topic: Box::leak(Box::default()),
            topic_path: topic_path(TOPIC_NAME).leak(),
            domain: None,
        };
        let read = publish::decode(hundred.clone().leak(), &request, &mut String::new);
        let events = read.expect("it is valid").events;
        let packed = PackedEvents::pack(&events[..1]);
        let stored = packed.get(0).expect("there is one").expect("it is whole");
        let all = PackedEvents::pack(&events);
        let stored_hundred = (0..events.len() as u64).map(|at| all.get(at).expect("it is there"));
        let stored_hundred = stored_hundred
            .map(|one| one.expect("it is whole"))
            .collect();
        let asked: &'static Event<'static> = Box::leak(Box::new(events[0].clone()));
        let records = records(packed);
        let mut settled_frame = Vec::new();
        encode_record(&records.settled, &mut settled_frame);
        Self {
            by_type: Asked::new(
                asked,
                |number| json!({ "includedEventTypes": [format!("Order.Type{number}")] }),
            ),
            by_advanced_filter: Asked::new(asked, |number| {
                json!({ "advancedFilters": [
                    { "operatorType": "StringIn", "key": "data.tenant", "values": [format!("tenant-{number}")] },
                ]})
            }),
            one,
            hundred,
            request,
            path: PathAndQuery::from_static("/hooks/billing?code=1"),
            events,
            stored,
            stored_hundred,
            batch_bytes: 0,
            records,
            settled_frame: settled_frame.into(),
            buffer: Vec::with_capacity(64 * 1024),
        }
    }
}

/// A publish request with so many events of the same size.
fn body(count: usize) -> Vec<u8> {
    let mut body = String::from("[");
    for number in 0..count {
        let comma = if number == 0 { "" } else { "," };
        let head = format!(
            r#"{{"id":"{number:020}","subject":"/orders/7/lines/12","eventType":"Order.Type0","eventTime":"2026-02-03T04:05:06.789Z","data":{{"tenant":"tenant-0","order":{{"number":7,"lines":[1,2,3]}},"note":""#
        );
        let tail = r#""},"dataVersion":"1.0"}"#;
        let fill = "as usual ".bytes().cycle().map(char::from);
        let fill: String = fill.take(EVENT_BYTES - head.len() - tail.len()).collect();
        write!(body, "{comma}{head}{fill}{tail}").expect("writing to a String cannot fail");
    }
    body.push(']');
    body.into_bytes()
}

fn records(packed: PackedEvents) -> Records {
    let progress = Progress {
        published: Timestamp::from_millis(1_770_000_000_000),
        attempts: 1,
        first_attempt: Timestamp::from_millis(1_770_000_000_001),
        last_attempt: Timestamp::from_millis(1_770_000_000_001),
        last_outcome: Outcome::Busy,
        last_status: 503,
        crashes: 0,
        crash_epoch: 0,
    };
    let seqs = 1_000_000..1_000_000 + DELIVERIES;
    let started = seqs.clone().map(|seq| StartedDelivery {
        seq,
        replaces_due: None,
        progress,
    });
    Records {
        events: Record::Events(Events {
            topic: TOPIC,
            first_seq: 1_000_000,
            published: Timestamp::from_millis(1_770_000_000_000),
            packed,
        }),
        started: Record::Started(Started {
            subscription: SUBSCRIPTION,
            deliveries: started.collect(),
        }),
        settled: Record::Settled(Settled {
            subscription: SUBSCRIPTION,
            deliveries: seqs.map(|seq| (seq, IN_FLIGHT)).collect(),
            how: SettledHow::Delivered,
        }),
    }
}
