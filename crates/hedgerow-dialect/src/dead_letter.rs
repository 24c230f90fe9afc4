//! From undelivered events to the content of a dead-letter blob, for each delivery schema (ED-250, ED-254 to ED-259).
//!
//! Nothing of the endpoint stands in a record (ED-260).

pub mod read;

use std::borrow::Cow;

use hedgerow_core::event::{Event, is_attribute};
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::spec::{DeliverySchema, Profile};

use crate::object::{Members, Value, Writer};
use crate::publish::domain;
use crate::{cloud_events, event_grid};

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
    /// The HTTP status that the last attempt got; `None` if there was none.
    pub last_status: Option<u16>,
}

/// How records are spelled.
#[derive(Debug, Clone, Copy)]
pub struct RecordFormat<'a> {
    /// The form in which the event was to be delivered.
    pub schema: DeliverySchema,
    /// The path of its topic.
    pub topic_path: &'a str,
    /// Which members stand in a record that the vendor's samples do not have.
    pub extra: ExtraMembers,
}

/// Members of a record that can be left out: the vendor's page does not have them (ED-254, ED-255, ED-317).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtraMembers {
    /// `lastHttpStatusCode`, in a `CloudEvent` `lasthttpstatuscode`.
    pub last_http_status: bool,
    /// `lastdeliveryattempttime` in a `CloudEvent`, whose name is longer than the 20 characters that `CloudEvents` advises.
    /// The other schemas have it always.
    pub last_attempt_time: bool,
    /// [`DOMAIN_TOPIC_MEMBER`] of a `CloudEvent` whose own attributes do not name its domain topic.
    pub domain_topic: bool,
}

impl ExtraMembers {
    /// All of them.
    pub const ALL: Self = Self {
        last_http_status: true,
        last_attempt_time: true,
        domain_topic: true,
    };
    /// The members of the vendor's page and no others.
    pub const NONE: Self = Self {
        last_http_status: false,
        last_attempt_time: false,
        domain_topic: false,
    };

    /// Those that records have in a profile.
    #[must_use]
    pub const fn of(profile: Profile) -> Self {
        match profile {
            Profile::Default => Self::ALL,
            Profile::Strict => Self::NONE,
        }
    }
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
    /// `data` byte for byte as it was delivered. An event of a custom schema stands in its Event Grid envelope, whole, as
    /// `data` (ED-256).
    pub fn add(
        &mut self,
        event: &Event<'_>,
        letter: &DeadLetter<'_>,
        format: &RecordFormat<'_>,
        bytes_max: usize,
    ) -> bool {
        let before = self.bytes.len();
        if self.count > 0 {
            self.bytes.push(b',');
        }
        let mut record = Writer::begin(&mut self.bytes);
        match format.schema {
            DeliverySchema::CloudEventSchemaV1_0 => cloud_event(event, letter, format, &mut record),
            DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => {
                event_grid::encode::envelope(
                    event,
                    format.topic_path,
                    Value::Text(letter.publish_time),
                    &mut record,
                );
                letter.members(&NAMES, format.extra.last_http_status, true, &mut record);
                event_grid::encode::data(event, &mut record);
            }
        }
        record.finish();
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
}

/// What the added members are called.
struct Names {
    reason: &'static str,
    attempts: &'static str,
    last_outcome: &'static str,
    publish_time: &'static str,
    last_attempt_time: &'static str,
    last_status: &'static str,
}

/// In the vendor's own schema (ED-254).
const NAMES: Names = Names {
    reason: "deadLetterReason",
    attempts: "deliveryAttempts",
    last_outcome: "lastDeliveryOutcome",
    publish_time: "publishTime",
    last_attempt_time: "lastDeliveryAttemptTime",
    last_status: "lastHttpStatusCode",
};

/// In a `CloudEvent`, whose attributes have no capitals (ED-255).
const LOWER_CASE_NAMES: Names = Names {
    reason: "deadletterreason",
    attempts: "deliveryattempts",
    last_outcome: "lastdeliveryoutcome",
    publish_time: "publishtime",
    last_attempt_time: "lastdeliveryattempttime",
    last_status: "lasthttpstatuscode",
};

/// The name of a `CloudEvent`'s domain topic, where a header of its publication named it (ED-073) and nothing that is delivered
/// does.
const DOMAIN_TOPIC_MEMBER: &str = "hedgerowdomaintopic";

impl Names {
    /// Whether records of this format may have a member of that name.
    fn has(&self, name: &str, extra: ExtraMembers) -> bool {
        [
            self.reason,
            self.attempts,
            self.last_outcome,
            self.publish_time,
        ]
        .contains(&name)
            || extra.last_attempt_time && name == self.last_attempt_time
            || extra.last_http_status && name == self.last_status
            || extra.domain_topic && name == DOMAIN_TOPIC_MEMBER
    }
}

impl DeadLetter<'_> {
    fn members(
        &self,
        names: &Names,
        tells_status: bool,
        tells_last_attempt: bool,
        record: &mut impl Members,
    ) {
        record.member(names.reason, Value::Text(self.reason.as_str()));
        record.member(names.attempts, Value::Number(self.attempts.into()));
        let outcome = self.last_outcome.map(Outcome::as_str);
        record.text_if_some(names.last_outcome, outcome);
        record.member(names.publish_time, Value::Text(self.publish_time));
        let time = self.last_attempt_time.filter(|_| tells_last_attempt);
        record.text_if_some(names.last_attempt_time, time);
        if let Some(status) = self.last_status.filter(|_| tells_status) {
            record.member(names.last_status, Value::Number(status.into()));
        }
    }
}

fn cloud_event(
    event: &Event<'_>,
    letter: &DeadLetter<'_>,
    format: &RecordFormat<'_>,
    record: &mut impl Members,
) {
    let extra = format.extra;
    let rename = |name| new_name(name, event, extra);
    cloud_events::encode::attributes(
        event,
        format.topic_path,
        Value::Text(letter.publish_time),
        rename,
        record,
    );
    letter.members(
        &LOWER_CASE_NAMES,
        extra.last_http_status,
        extra.last_attempt_time,
        record,
    );
    if extra.domain_topic {
        record.text_if_some(DOMAIN_TOPIC_MEMBER, untold_topic(event, format.topic_path));
    }
    cloud_events::encode::data(event, record);
}

/// The domain topic of an event that was published as a `CloudEvent`, if its own attributes do not name it.
fn untold_topic<'e>(event: &'e Event<'_>, domain_path: &str) -> Option<&'e str> {
    let source = event.source.as_deref()?;
    let topic = event.domain_topic()?;
    let attribute = domain::attribute_of(event);
    let told = domain::topic_named(domain_path, attribute.as_deref().unwrap_or(source));
    told.map_or(true, |told| *told != *topic).then_some(topic)
}

/// What an extension is called in a record (ED-259): `orig` and its name if a member of the record has that name, and also
/// if it would stand in the way of another one that is called so.
fn new_name<'n>(name: &'n str, event: &Event<'_>, extra: ExtraMembers) -> Cow<'n, str> {
    let is_there = |wanted: &str| {
        event
            .extensions
            .iter()
            .any(|(name, _)| is_attribute(name) && name == wanted)
    };
    let mut rest = name;
    loop {
        if LOWER_CASE_NAMES.has(rest, extra) {
            return Cow::Owned(format!("{PREFIX}{name}"));
        }
        match rest.strip_prefix(PREFIX) {
            Some(shorter) if is_there(shorter) => rest = shorter,
            _ => return Cow::Borrowed(name),
        }
    }
}

const PREFIX: &str = "orig";
