//! The form of what a subscription is sent (ED-130).

use super::fields::Fields;
use super::{InputSchema, SpecError};

/// The form of what is sent. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DeliverySchema {
    /// A JSON array of the vendor's own events.
    #[default]
    EventGridSchema,
    /// A CloudEvent 1.0 in structured mode.
    CloudEventSchemaV1_0,
    /// A JSON array of events as they were published.
    CustomInputSchema,
}

impl DeliverySchema {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::EventGridSchema,
        Self::CloudEventSchemaV1_0,
        Self::CustomInputSchema,
    ];

    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventGridSchema => "EventGridSchema",
            Self::CloudEventSchemaV1_0 => "CloudEventSchemaV1_0",
            Self::CustomInputSchema => "CustomInputSchema",
        }
    }

    /// The schema of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schema| schema.as_str() == name)
    }

    /// Whether events published in `input` can be delivered in this schema (ED-130). A `CloudEvent` would lose its
    /// extensions, and nothing but a custom event has an original that is not an event itself.
    #[must_use]
    pub const fn takes(self, input: InputSchema) -> bool {
        match (input, self) {
            (InputSchema::CustomEventSchema, _)
            | (InputSchema::EventGridSchema, Self::EventGridSchema | Self::CloudEventSchemaV1_0)
            | (InputSchema::CloudEventSchemaV1_0, Self::CloudEventSchemaV1_0) => true,
            (InputSchema::EventGridSchema, Self::CustomInputSchema)
            | (
                InputSchema::CloudEventSchemaV1_0,
                Self::EventGridSchema | Self::CustomInputSchema,
            ) => false,
        }
    }

    /// Judges the schema of a subscription to a topic, and of one that is declared anew (ED-130, ED-131).
    ///
    /// # Errors
    ///
    /// If the topic's events cannot be delivered in it, or if it differs from the `existing` one.
    pub fn check_for(self, input: InputSchema, existing: Option<Self>) -> Result<(), SpecError> {
        if let Some(existing) = existing.filter(|existing| *existing != self) {
            let existing = existing.as_str();
            let message = format!("must not differ from the existing one, \"{existing}\"");
            return Err(SpecError::new(MEMBER, message));
        }
        if self.takes(input) {
            return Ok(());
        }
        let possible = Self::ALL.into_iter().filter(|schema| schema.takes(input));
        let possible: Vec<_> = possible
            .map(|schema| format!("\"{}\"", schema.as_str()))
            .collect();
        let message = format!(
            "cannot be \"{}\" where the topic's inputSchema is \"{}\"; use {}",
            self.as_str(),
            input.as_str(),
            possible.join(" or ")
        );
        Err(SpecError::new(MEMBER, message))
    }

    pub(super) fn check(fields: &mut Fields<'_>) -> Result<Self, SpecError> {
        let Some(name) = fields.text(MEMBER)? else {
            return Ok(Self::default());
        };
        Self::named(name).ok_or_else(|| {
            let [first, second, third] = Self::ALL.map(Self::as_str);
            let message = format!("must be \"{first}\", \"{second}\" or \"{third}\"");
            fields.error(MEMBER, message)
        })
    }
}

const MEMBER: &str = "eventDeliverySchema";

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-130, ED-131: the whole table.
    #[test]
    fn possible_pairs() {
        use InputSchema as In;
        let rows = [
            (In::EventGridSchema, [true, true, false]),
            (In::CloudEventSchemaV1_0, [false, true, false]),
            (In::CustomEventSchema, [true, true, true]),
        ];
        for (input, expected) in rows {
            for (schema, is_possible) in DeliverySchema::ALL.into_iter().zip(expected) {
                let judged = schema.check_for(input, None);
                assert_eq!(judged.is_ok(), is_possible, "{input:?} {schema:?}");
                assert_eq!(schema.takes(input), is_possible);
            }
        }
        let refused = DeliverySchema::default().check_for(In::CloudEventSchemaV1_0, None);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "eventDeliverySchema: cannot be \"EventGridSchema\" where the topic's inputSchema is \
             \"CloudEventSchemaV1_0\"; use \"CloudEventSchemaV1_0\""
        );
    }

    /// ED-130.
    #[test]
    fn it_never_changes() {
        let existing = Some(DeliverySchema::EventGridSchema);
        let changed = DeliverySchema::CloudEventSchemaV1_0;
        let refused = changed.check_for(InputSchema::EventGridSchema, existing);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "eventDeliverySchema: must not differ from the existing one, \"EventGridSchema\""
        );
        let same = DeliverySchema::EventGridSchema;
        same.check_for(InputSchema::EventGridSchema, existing)
            .unwrap();
    }
}
