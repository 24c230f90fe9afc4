//! What a subscription declares about batches (ED-211 to ED-213, ED-221).

use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::{SpecError, Warning};
use crate::batch::{AnswerSettings, BatchLimits};
use crate::limits;

/// How many events travel together, and what their answers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchSpec {
    /// `maxEventsPerBatch` of the destination, if it is given.
    pub events_max: Option<u16>,
    /// `preferredBatchSizeInKilobytes` of the destination, if it is given.
    pub preferred_kilobytes: Option<u16>,
    /// The members of `batch`.
    pub answers: AnswerSettings,
}

const EVENTS_MAX: &str = "maxEventsPerBatch";
const PREFERRED_KILOBYTES: &str = "preferredBatchSizeInKilobytes";

impl BatchSpec {
    /// How much may travel together; `None` if batching is off.
    #[must_use]
    pub fn limits(&self) -> Option<BatchLimits> {
        BatchLimits::new(self.events_max, self.preferred_kilobytes)
    }

    /// Takes the two members of the destination's properties.
    pub(super) fn check(properties: &mut Fields<'_>) -> Result<Self, SpecError> {
        Ok(Self {
            events_max: properties.integer(EVENTS_MAX, &limits::BATCH_EVENTS)?,
            preferred_kilobytes: properties
                .integer(PREFERRED_KILOBYTES, &limits::BATCH_KILOBYTES)?,
            answers: AnswerSettings::default(),
        })
    }

    /// Takes what is declared of answers.
    pub(super) fn check_answers(
        &mut self,
        fields: Option<Fields<'_>>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SpecError> {
        let Some(mut fields) = fields else {
            return Ok(());
        };
        let mut flag = |name| fields.boolean(name).map(Option::unwrap_or_default);
        self.answers = AnswerSettings {
            isolate_on_final: flag("isolateOnFinal")?,
            split_on_413: flag("splitOn413")?,
            per_entry_acknowledgement: flag("perEntryAcknowledgement")?,
        };
        fields.finish()?;
        if self.limits().is_none() && self.answers != AnswerSettings::default() {
            warnings.push(Warning {
                field: "batch".to_owned(),
                message: format!(
                    "has no effect while events are sent one by one; give the destination {EVENTS_MAX} or \
                     {PREFERRED_KILOBYTES}"
                ),
            });
        }
        Ok(())
    }

    /// Adds what is given of the destination's properties.
    pub(super) fn add_to(&self, properties: &mut Map<String, Value>) {
        let given = [
            (EVENTS_MAX, self.events_max),
            (PREFERRED_KILOBYTES, self.preferred_kilobytes),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                properties.insert(name.to_owned(), json!(value));
            }
        }
    }

    /// `batch`, as a declaration has it.
    pub(super) fn answers_json(&self) -> Value {
        json!({
            "isolateOnFinal": self.answers.isolate_on_final,
            "splitOn413": self.answers.split_on_413,
            "perEntryAcknowledgement": self.answers.per_entry_acknowledgement,
        })
    }
}
