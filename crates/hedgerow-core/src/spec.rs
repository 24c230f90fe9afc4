//! What users declare: topics and subscriptions, checked once and whole ever after.
//!
//! A specification is made from JSON by its `check` function and from nothing else; it says what was wrong with the
//! path of the offending member. Unknown members are refused, a member that is `null` counts as absent, and numbers are
//! never read out of texts or cut to integers. `Serialize` gives the same specification with every default written out, which
//! is what the catalog stores, and `Deserialize` reads that; there the numbers of filters are texts, which every reader of
//! JSON keeps as they are.
//!
//! What a declaration means is decided elsewhere: [`crate::filter`], [`crate::retry`], [`crate::outcome`]. Whether an
//! endpoint's address may be connected to is not judged here.

mod advanced;
mod batch;
mod dead_letter;
mod delivery_attributes;
mod delivery_schema;
mod endpoint_limits;
mod endpoint_type;
mod endpoint_url;
mod fields;
mod filter;
mod filter_keys;
mod hold;
mod input_mapping;
mod operator;
mod ordering;
mod origin_group;
mod replay;
mod signing;
mod source;
mod subscription;
mod topic;
mod unique;
mod webhook_tls;

use serde_json::Value;

pub use advanced::{AdvancedFilter, Operands};
pub use batch::BatchSpec;
pub use dead_letter::{ContainerPath, DeadLetterDestination};
pub use delivery_attributes::{
    AttributeRules, AttributeValue, DeliveryAttribute, MASK, is_header_value,
};
pub use delivery_schema::DeliverySchema;
pub use endpoint_limits::EndpointLimits;
pub use endpoint_type::EndpointType;
pub use endpoint_url::EndpointUrl;
pub use filter::{FilterLimits, FilterSpec};
pub use hold::ProbationSpec;
pub use input_mapping::{InputSchemaMapping, MappedField, SourceField};
pub use operator::{OperandKind, Operator};
pub use ordering::{OnFailure, OrderingSpec};
pub use origin_group::{EndpointPath, OriginGroupEndpoint, OriginProtocol};
pub use replay::{ReplaySpec, ReplayTarget};
pub use signing::{PreviousSecret, SigningSecret, SigningSpec};
pub use source::{STORAGE_ACCOUNT, StorageAccount, topic_meant};
pub use subscription::{Destination, SubscriptionSpec};
pub use topic::{DomainRules, InputSchema, Profile, TopicSpec};
pub use webhook_tls::{TlsVersion, WebhookTls};

/// A declaration that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", field, if field.is_empty() { "" } else { ": " })]
pub struct SpecError {
    /// The path of the offending member, such as `retryPolicy.maxDeliveryAttempts` or `retry.finalStatuses[1]`. Empty
    /// when the declaration as a whole is meant.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl SpecError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// What is said of a member that has a meaning in the vendor's API and none here.
pub const UNSUPPORTED_MEMBER: &str = "is not supported by this version";

/// Something accepted that will surprise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The path of the member.
    pub field: String,
    /// What to expect.
    pub message: String,
}

/// A specification, and what its author should know.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<T> {
    /// The specification.
    pub spec: T,
    /// For the answer to its creation.
    pub warnings: Vec<Warning>,
}

/// Reads the JSON of a declaration of at most `bytes_max` bytes.
///
/// # Errors
///
/// If it is too long or no JSON, or names a member twice in one object: which of them is meant is not known.
pub fn parse(body: &[u8], bytes_max: usize) -> Result<Value, SpecError> {
    if body.len() > bytes_max {
        let message = format!("must not be longer than {bytes_max} bytes");
        return Err(SpecError::new("", message));
    }
    let value = serde_json::from_slice(body)
        .map_err(|error| SpecError::new("", format!("must be JSON: {error}")))?;
    match unique::first_double(body) {
        None => Ok(value),
        Some(field) => Err(SpecError::new(field, "stands there twice")),
    }
}
