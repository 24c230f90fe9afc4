//! The input schemas of topics, with the names that the vendor's command line has.

use clap::ValueEnum;

/// The schema of published events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
#[allow(clippy::enum_variant_names, reason = "these are the vendor's names")]
pub enum Schema {
    /// A JSON array of Event Grid events.
    EventGridSchema,
    /// CloudEvents 1.0.
    #[value(name = "cloudeventschemav1_0")]
    CloudEventSchemaV1_0,
    /// A JSON array of any objects, with a mapping.
    CustomEventSchema,
}

impl Schema {
    /// The name in declarations.
    pub const fn declared(self) -> &'static str {
        match self {
            Self::EventGridSchema => "EventGridSchema",
            Self::CloudEventSchemaV1_0 => "CloudEventSchemaV1_0",
            Self::CustomEventSchema => "CustomEventSchema",
        }
    }
}
