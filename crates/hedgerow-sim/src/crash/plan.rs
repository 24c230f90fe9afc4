//! What is published and who wants it: two topics, fourteen subscriptions, and events that are wholly decided by the seed and
//! their id. So a receiver knows of each event it gets whether it should have got it, and every byte of its data.

use std::fmt;

use serde_json::{Value, json};

use crate::random::Random;

/// The topics.
pub const TOPICS: [&str; 2] = ["orders", "stock"];
/// The time and data version of every event.
pub const EVENT_TIME: &str = "2026-02-03T04:05:06.7890123Z";
/// See [`EVENT_TIME`].
pub const DATA_VERSION: &str = "1.0";

const CREATED: &str = "Shop.Item.Created";
const SHIPPED: &str = "Shop.Item.Shipped";
const LOW: &str = "Shop.Item.Low";
const TYPES: [&str; 3] = [CREATED, SHIPPED, LOW];

/// How the receiver of a subscription behaves while there is trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It takes everything; sometimes a little later.
    None,
    /// It fails at times.
    Failing,
    /// It fails at times, and sometimes answers only after the timeout.
    Hanging,
}

/// Which events are sent when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Each by itself, in any order.
    Single,
    /// Together with others, at most `max` in a request.
    Batched {
        /// `maxEventsPerBatch`
        max: u16,
    },
    /// Those of one subject one after the other.
    Ordered,
}

/// A subscription and its receiver.
#[derive(Debug, Clone, Copy)]
pub struct Subscription {
    /// Its name.
    pub name: &'static str,
    /// The index of its topic.
    pub topic: usize,
    /// `includedEventTypes`; empty for all.
    types: &'static [&'static str],
    /// `subjectBeginsWith`.
    begins_with: &'static str,
    /// `subjectEndsWith`.
    ends_with: &'static str,
    /// An advanced filter: of objects, whose last `a` is 3, all; of other data nothing.
    wants_objects: bool,
    /// `maxDeliveryAttempts`.
    pub attempts_max: u16,
    /// `responseTimeoutSeconds`.
    pub timeout_seconds: u32,
    /// Its receiver.
    pub trouble: Trouble,
    /// Whether operators purge it at times. What waits then is dropped.
    pub is_purged: bool,
    /// Whether operators ask for its events again.
    pub is_resent: bool,
    /// Which of its events are sent when.
    pub sending: Sending,
}

const CALM: Subscription = Subscription {
    name: "",
    topic: 0,
    types: &[],
    begins_with: "",
    ends_with: "",
    wants_objects: false,
    attempts_max: 30,
    timeout_seconds: 30,
    trouble: Trouble::None,
    is_purged: false,
    is_resent: false,
    sending: Sending::Single,
};

/// The subscriptions; six of fourteen receivers fail at times. Each topic has one subscription that wants everything, so
/// that a stored event always shows.
pub const SUBSCRIPTIONS: [Subscription; 14] = [
    Subscription {
        name: "orders-all",
        ..CALM
    },
    Subscription {
        name: "orders-created",
        types: &[CREATED],
        attempts_max: 2,
        ..CALM
    },
    Subscription {
        name: "orders-shipped",
        types: &[SHIPPED],
        trouble: Trouble::Failing,
        ..CALM
    },
    Subscription {
        name: "orders-north",
        begins_with: "/north/",
        ..CALM
    },
    Subscription {
        name: "orders-json",
        ends_with: ".json",
        attempts_max: 2,
        trouble: Trouble::Failing,
        ..CALM
    },
    Subscription {
        name: "stock-all",
        topic: 1,
        ..CALM
    },
    Subscription {
        name: "stock-low-south",
        topic: 1,
        types: &[LOW],
        begins_with: "/south/",
        ..CALM
    },
    Subscription {
        name: "stock-xml",
        topic: 1,
        ends_with: ".xml",
        timeout_seconds: 1,
        trouble: Trouble::Hanging,
        ..CALM
    },
    Subscription {
        name: "stock-north-json",
        topic: 1,
        begins_with: "/north/",
        ends_with: ".json",
        ..CALM
    },
    Subscription {
        name: "stock-moved",
        topic: 1,
        types: &[CREATED, SHIPPED],
        wants_objects: true,
        ..CALM
    },
    Subscription {
        name: "orders-purged",
        begins_with: "/south/",
        trouble: Trouble::Failing,
        is_purged: true,
        ..CALM
    },
    Subscription {
        name: "stock-resent",
        topic: 1,
        types: &[SHIPPED, LOW],
        is_resent: true,
        ..CALM
    },
    Subscription {
        name: "stock-batched",
        topic: 1,
        types: &[CREATED, LOW],
        trouble: Trouble::Failing,
        sending: Sending::Batched { max: 20 },
        ..CALM
    },
    Subscription {
        name: "orders-ordered",
        begins_with: "/north/",
        trouble: Trouble::Failing,
        sending: Sending::Ordered,
        ..CALM
    },
];

impl Subscription {
    /// The declaration, with the endpoint of its receiver.
    pub fn declaration(&self, endpoint: &str) -> Value {
        let mut filter = json!({
            "subjectBeginsWith": self.begins_with,
            "subjectEndsWith": self.ends_with,
        });
        if !self.types.is_empty() {
            filter["includedEventTypes"] = json!(self.types);
        }
        if self.wants_objects {
            let key = "data.a";
            filter["advancedFilters"] = json!([
                { "operatorType": "NumberInRange", "key": key, "values": [[2.5, 3]] },
                { "operatorType": "NumberNotIn", "key": key, "values": [2] },
            ]);
        }
        let mut declaration = json!({
            "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": endpoint } },
            "filter": filter,
            "retryPolicy": {
                "maxDeliveryAttempts": self.attempts_max,
                "eventTimeToLiveInMinutes": 1440,
            },
            "responseTimeoutSeconds": self.timeout_seconds,
        });
        match self.sending {
            Sending::Single => {}
            Sending::Batched { max } => {
                declaration["destination"]["properties"]["maxEventsPerBatch"] = json!(max);
                // A batch that fails is a failure of each of its events.
                declaration["delayedDelivery"] = json!({ "events": 20 * u32::from(max) });
            }
            Sending::Ordered => {
                declaration["ordering"] = json!({ "key": "subject", "onFailure": "skip" });
            }
        }
        declaration
    }

    /// Events that travel in one request at most.
    pub fn events_per_request(&self) -> u64 {
        match self.sending {
            Sending::Batched { max } => max.into(),
            Sending::Single | Sending::Ordered => 1,
        }
    }

    /// Whether it wants an event of its topic. Written without the product's own filter.
    pub fn wants(&self, id: EventId, event: &Event) -> bool {
        self.topic == id.topic
            && (self.types.is_empty() || self.types.contains(&event.type_name))
            && event.subject.starts_with(self.begins_with)
            && event.subject.ends_with(self.ends_with)
            && (!self.wants_objects || event.data.starts_with('{'))
    }
}

/// An event's id: its topic and its number there, from 0, in the order in which publishers took them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// The index of the topic.
    pub topic: usize,
    /// Which event of the topic.
    pub number: u32,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", TOPICS[self.topic], self.number)
    }
}

impl EventId {
    /// Reads an id back; `None` for one that no publisher has made.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, number) = text.rsplit_once('-')?;
        let topic = TOPICS.iter().position(|topic| *topic == name)?;
        let id = Self {
            topic,
            number: number.parse().ok()?,
        };
        (id.to_string() == text).then_some(id)
    }
}

/// What is in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `eventType`
    pub type_name: &'static str,
    /// `subject`
    pub subject: String,
    /// `data`, as text: it must arrive byte for byte.
    pub data: String,
}

impl Event {
    /// The event with an id.
    pub fn of(seed: u64, id: EventId) -> Self {
        let mut random = Random::of(&[seed, id.topic as u64, u64::from(id.number)]);
        let type_name = TYPES[random.between(0..=2) as usize];
        let side = ["/north/", "/south/"][random.between(0..=1) as usize];
        let form = [".json", ".xml"][random.between(0..=1) as usize];
        let subject = format!("{side}shelf-{}/item{form}", random.between(1..=40));
        let data = data(&mut random, id);
        Self {
            type_name,
            subject,
            data,
        }
    }

    /// The event as it is published.
    pub fn to_json(&self, id: EventId) -> String {
        let Self {
            type_name,
            subject,
            data,
        } = self;
        format!(
            r#"{{"id":"{id}","subject":"{subject}","eventType":"{type_name}","eventTime":"{EVENT_TIME}","data":{data},"dataVersion":"{DATA_VERSION}"}}"#
        )
    }
}

/// Text that a parser would not write again as it was: number texts, spacing, a name twice, escapes.
fn data(random: &mut Random, id: EventId) -> String {
    let spaces = " ".repeat(random.between(0..=3) as usize);
    let big = random.draw();
    let fill = "~".repeat(random.between(0..=900) as usize);
    match random.between(0..=7) {
        0 => format!("1.{}0", random.between(1..=9)),
        1 => format!("\"\\u00e9{id}é\\/\""),
        2 => "null".to_owned(),
        3 => format!("[{spaces}{big}0,{spaces}-0, 1e2 ,[]{spaces}]"),
        _ => format!(
            r#"{{"amount":1.10,"big":{big}{big},{spaces}"id" : "{id}","z":1,"a":2,"a":3,"fill":"{fill}"{spaces}}}"#
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, EventId, SUBSCRIPTIONS, TOPICS};

    #[test]
    fn ids_are_read_back() {
        let id = EventId {
            topic: 1,
            number: 17,
        };
        assert_eq!(EventId::parse(&id.to_string()), Some(id));
        for odd in ["stock-", "stock-017", "other-1", "17", "stock--1"] {
            assert_eq!(EventId::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn every_event_is_json_and_wanted() {
        for topic in 0..TOPICS.len() {
            for number in 0..500 {
                let id = EventId { topic, number };
                let event = Event::of(1, id);
                serde_json::from_str::<serde_json::Value>(&event.to_json(id)).unwrap();
                let wanted = SUBSCRIPTIONS
                    .iter()
                    .filter(|one| one.wants(id, &event))
                    .count();
                assert!(wanted >= 1);
            }
        }
    }
}
