//! Which dead letters are delivered again, to whom and how fast (ED-265).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::Fields;
use super::{FilterSpec, SpecError};
use crate::dead_letter::Span;
use crate::limits;
use crate::outcome::DeadLetterReason;
use crate::time::Timestamp;

/// What a replay is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaySpec {
    /// Only this blob: its UUID, or its whole name in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Only what was written from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Only what was written before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Only events that it wants.
    pub filter: FilterSpec,
    /// Only what was given up for one of these reasons; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<DeadLetterReason>>,
    /// Only events with one of these ids; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_ids: Option<Vec<String>>,
    /// Who gets them.
    pub target: ReplayTarget,
    /// Only counts them.
    pub is_dry_run: bool,
    /// So many a second at most.
    pub events_per_second: u32,
}

/// Who gets what is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ReplayTarget {
    /// The subscription whose dead letters they are, and nobody else.
    #[default]
    EventSubscription,
    /// Whoever wants them of the topic, as if they were published anew.
    Topic,
}

impl ReplayTarget {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::EventSubscription, Self::Topic];

    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventSubscription => "EventSubscription",
            Self::Topic => "Topic",
        }
    }
}

impl ReplaySpec {
    /// Checks what somebody asks for.
    ///
    /// # Errors
    ///
    /// The first offending member.
    pub fn check(value: &Value) -> Result<Self, SpecError> {
        let mut fields = Fields::open(value, "")?;
        let filter = fields.value("filter");
        let filter = filter.map(|filter| FilterSpec::check(filter, "filter"));
        let spec = Self {
            blob: fields.text("blob")?.map(str::to_owned),
            from: time(&mut fields, "from")?,
            to: time(&mut fields, "to")?,
            filter: filter.transpose()?.unwrap_or_default(),
            reasons: check_reasons(&mut fields)?,
            event_ids: check_event_ids(&mut fields)?,
            target: check_target(&mut fields)?,
            is_dry_run: fields.boolean("dryRun")?.unwrap_or(false),
            events_per_second: fields
                .integer("eventsPerSecond", &limits::REPLAY_EVENTS_PER_SECOND)?
                .unwrap_or(limits::REPLAY_EVENTS_PER_SECOND_DEFAULT),
        };
        if let (Some(from), Some(to)) = (spec.from, spec.to)
            && to <= from
        {
            return Err(fields.error("to", "must be later than from"));
        }
        fields.finish()?;
        Ok(spec)
    }

    /// When blobs have to be written for it.
    #[must_use]
    pub const fn span(&self) -> Span {
        Span {
            from: self.from,
            to: self.to,
        }
    }

    /// What is asked for, with every default written out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let reasons = self.reasons.as_ref();
        let reasons = reasons.map(|reasons| {
            let names = reasons.iter().map(|reason| reason.as_str());
            names.collect::<Vec<_>>()
        });
        json!({
            "blob": self.blob,
            "from": self.from.map(|time| time.to_string()),
            "to": self.to.map(|time| time.to_string()),
            "filter": self.filter.to_json(),
            "deadLetterReasons": reasons,
            "eventIds": self.event_ids,
            "target": self.target.as_str(),
            "dryRun": self.is_dry_run,
            "eventsPerSecond": self.events_per_second,
        })
    }
}

fn time(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<Timestamp>, SpecError> {
    let Some(text) = fields.text(name)? else {
        return Ok(None);
    };
    let time = text.parse();
    time.map(Some)
        .map_err(|error: crate::time::TimeError| fields.error(name, error.to_string()))
}

/// What an empty list is told: nobody means to replay nothing.
const NONE: &str = "must not be empty; leave it out for all of them";

fn check_reasons(fields: &mut Fields<'_>) -> Result<Option<Vec<DeadLetterReason>>, SpecError> {
    const NAME: &str = "deadLetterReasons";
    let Some(list) = fields.list(NAME)? else {
        return Ok(None);
    };
    if list.is_empty() {
        return Err(fields.error(NAME, NONE));
    }
    let all = DeadLetterReason::ALL;
    let reason = |(index, value): (usize, &Value)| {
        let named = value.as_str();
        let found = all
            .into_iter()
            .find(|reason| Some(reason.as_str()) == named);
        found.ok_or_else(|| {
            let known = all.map(DeadLetterReason::as_str).join(", ");
            fields.error(
                &format!("{NAME}[{index}]"),
                format!("must be one of {known}"),
            )
        })
    };
    list.iter()
        .enumerate()
        .take(all.len())
        .map(reason)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn check_event_ids(fields: &mut Fields<'_>) -> Result<Option<Vec<String>>, SpecError> {
    const NAME: &str = "eventIds";
    let Some(list) = fields.list(NAME)? else {
        return Ok(None);
    };
    if list.is_empty() {
        return Err(fields.error(NAME, NONE));
    }
    if list.len() > limits::REPLAY_EVENT_IDS_MAX {
        let message = format!("must have at most {} entries", limits::REPLAY_EVENT_IDS_MAX);
        return Err(fields.error(NAME, message));
    }
    let id = |(index, value): (usize, &Value)| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| fields.error(&format!("{NAME}[{index}]"), "must be a text"))
    };
    list.iter()
        .enumerate()
        .map(id)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn check_target(fields: &mut Fields<'_>) -> Result<ReplayTarget, SpecError> {
    const NAME: &str = "target";
    let Some(text) = fields.text(NAME)? else {
        return Ok(ReplayTarget::default());
    };
    let mut all = ReplayTarget::ALL.into_iter();
    all.find(|target| target.as_str() == text).ok_or_else(|| {
        let [first, second] = ReplayTarget::ALL.map(ReplayTarget::as_str);
        fields.error(NAME, format!("must be \"{first}\" or \"{second}\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-265: to the original subscription by default, everything of it.
    #[test]
    fn what_is_not_said_is_everything_to_the_subscription() {
        let spec = ReplaySpec::check(&json!({})).unwrap();
        assert_eq!(spec.target, ReplayTarget::EventSubscription);
        assert!(!spec.is_dry_run && spec.blob.is_none() && spec.reasons.is_none());
        assert_eq!(
            (spec.span(), spec.events_per_second),
            (Span::default(), 100)
        );
        let stored = serde_json::to_value(&spec).unwrap();
        assert_eq!(serde_json::from_value::<ReplaySpec>(stored).unwrap(), spec);
    }

    #[test]
    fn what_is_said_is_shown_and_stored() {
        let asked = json!({
            "blob": "1b4e28ba-2fa1-81d2-883f-0016d3cca427",
            "from": "2030-01-02T03:00:00+01:00", "to": "2030-01-02T04:00:00Z",
            "filter": {"subjectBeginsWith": "/orders/",
                "advancedFilters": [{"operatorType": "NumberIn", "key": "data.n", "values": [1.10]}]},
            "deadLetterReasons": ["TimeToLiveExceeded"], "eventIds": ["1", "2"],
            "target": "Topic", "dryRun": true, "eventsPerSecond": 7,
        });
        let spec = ReplaySpec::check(&asked).unwrap();
        let shown = spec.to_json();
        assert_eq!(shown["from"], "2030-01-02T02:00:00.0000000Z");
        assert_eq!(shown["filter"]["subjectBeginsWith"], "/orders/");
        for name in [
            "blob",
            "deadLetterReasons",
            "eventIds",
            "target",
            "dryRun",
            "eventsPerSecond",
        ] {
            assert_eq!(shown[name], asked[name], "{name}");
        }
        let stored = serde_json::to_value(&spec).unwrap();
        assert_eq!(serde_json::from_value::<ReplaySpec>(stored).unwrap(), spec);
        assert_eq!(ReplaySpec::check(&shown).unwrap(), spec);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (asked, field) in [
            (json!([]), ""),
            (json!({"blobs": []}), "blobs"),
            (json!({"from": "yesterday"}), "from"),
            (
                json!({"from": "2030-01-02T03:00:00Z", "to": "2030-01-02T03:00:00Z"}),
                "to",
            ),
            (
                json!({"deadLetterReasons": ["Tired"]}),
                "deadLetterReasons[0]",
            ),
            (json!({"eventIds": [1]}), "eventIds[0]"),
            (json!({"eventIds": []}), "eventIds"),
            (json!({"deadLetterReasons": []}), "deadLetterReasons"),
            (json!({"target": "topic"}), "target"),
            (json!({"eventsPerSecond": 0}), "eventsPerSecond"),
            (json!({"eventsPerSecond": 5_001}), "eventsPerSecond"),
            (json!({"filter": {"subject": "x"}}), "filter.subject"),
            (json!({"dryRun": "yes"}), "dryRun"),
        ] {
            assert_eq!(
                ReplaySpec::check(&asked).unwrap_err().field,
                field,
                "{asked}"
            );
        }
    }
}
