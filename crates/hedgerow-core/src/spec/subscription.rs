//! A subscription, as declared: destination, filter, retry policy, overrides, timeout, dead letters.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::advanced::Form;
use super::batch::BatchSpec;
use super::dead_letter::{DeadLetterDestination, check_settings};
use super::delivery_schema::DeliverySchema;
use super::fields::{Fields, integer};
use super::hold::{ProbationSpec, check_delayed_delivery};
use super::ordering::OrderingSpec;
use super::{
    AttributeRules, Checked, DeliveryAttribute, EndpointLimits, EndpointType, EndpointUrl,
    FilterSpec, OriginGroupEndpoint, SigningSpec, SpecError, Warning, WebhookTls,
    delivery_attributes, signing,
};
use crate::dead_letter::DeadLetterSettings;
use crate::hold::DelayedDeliverySettings;
use crate::limits;
use crate::name::OriginGroupName;
use crate::outcome::{DestinationKind, Overrides};
use crate::retry::{RetryPolicy, minutes};
use crate::time::Timestamp;

/// What a subscription wants and how it gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct SubscriptionSpec {
    /// Where events go.
    pub destination: Destination,
    /// Headers of its own on what is delivered, in the order of the declaration (ED-143).
    pub delivery_attributes: Vec<DeliveryAttribute>,
    /// What it asks of its endpoint at most.
    pub endpoint_limits: EndpointLimits,
    /// What deliveries are signed with; `None` for not at all (ED-142).
    pub signing: Option<SigningSpec>,
    /// Which events.
    pub filter: FilterSpec,
    /// How long it is tried.
    pub retry_policy: RetryPolicy,
    /// `retry.finalStatuses` and `retry.retriableStatuses`.
    pub overrides: Overrides,
    /// `retry.disableOnGone`: an answer 410 pauses it until it is resumed (ED-186).
    pub disable_on_gone: bool,
    /// From the start of an attempt to the complete response head (ED-176).
    pub response_timeout: Duration,
    /// The form of what is sent; it never changes (ED-130).
    pub event_delivery_schema: DeliverySchema,
    /// Where what was not delivered is written; `None` to drop it (ED-242, ED-244).
    pub dead_letter_destination: Option<DeadLetterDestination>,
    /// When and how long that is tried.
    pub dead_letter: DeadLetterSettings,
    /// When it is deleted; `None` for never (ED-173).
    pub expiration: Option<Timestamp>,
    /// For people; kept and shown, and nothing else.
    pub labels: Vec<String>,
    /// When it is left alone for a while.
    pub probation: ProbationSpec,
    /// When its endpoint is left alone for a while.
    pub delayed_delivery: DelayedDeliverySettings,
    /// How many events travel together.
    pub batch: BatchSpec,
    /// Which events are sent one after the other; `None` for none.
    pub ordering: Option<OrderingSpec>,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// An HTTP endpoint of a customer.
    WebHook {
        /// Its URL.
        endpoint_url: EndpointUrl,
        /// What is asked of TLS with it.
        tls: WebhookTls,
    },
    /// Whichever origin of a group each attempt chooses (HP-200).
    OriginGroup(OriginGroupEndpoint),
}

impl Destination {
    /// What delayed delivery knows it by: without its query (ED-236).
    #[must_use]
    pub fn endpoint(&self) -> &str {
        match self {
            Self::WebHook { endpoint_url, .. } => endpoint_url.base(),
            Self::OriginGroup(to) => to.endpoint(),
        }
    }

    /// The column of the rule table that judges its answers: a group's are a webhook's, whichever origin gave them (ED-316).
    #[must_use]
    pub const fn kind(&self) -> DestinationKind {
        match self {
            Self::WebHook { .. } | Self::OriginGroup(_) => DestinationKind::Webhook,
        }
    }

    /// The name in declarations.
    #[must_use]
    pub const fn endpoint_type(&self) -> EndpointType {
        match self {
            Self::WebHook { .. } => EndpointType::WebHook,
            Self::OriginGroup(_) => EndpointType::OriginGroup,
        }
    }

    /// The group of origins that it names, if it is one.
    #[must_use]
    pub const fn origin_group(&self) -> Option<&OriginGroupName> {
        match self {
            Self::WebHook { .. } => None,
            Self::OriginGroup(to) => Some(to.group()),
        }
    }

    /// Whether another one is reached at the same place: who was given a secret there gets it again.
    fn is_at(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::WebHook { endpoint_url, .. },
                Self::WebHook {
                    endpoint_url: to, ..
                },
            ) => endpoint_url.origin() == to.origin(),
            (Self::OriginGroup(from), Self::OriginGroup(to)) => from.has_origins_of(to),
            _ => false,
        }
    }

    /// The one that a declaration names; `None` if it names none, or one that is refused as such.
    fn declared_in(declaration: &Value) -> Option<Self> {
        let destination = declaration.get("destination")?;
        let kind = destination.get("endpointType")?.as_str()?;
        let properties = destination.get("properties")?;
        if EndpointType::named(kind) == Some(EndpointType::OriginGroup) {
            let mut fields = Fields::open(properties, "").ok()?;
            return OriginGroupEndpoint::check(&mut fields)
                .ok()
                .map(Self::OriginGroup);
        }
        let url = properties.get("endpointUrl")?.as_str()?;
        Some(Self::WebHook {
            endpoint_url: EndpointUrl::parse(url).ok()?,
            tls: WebhookTls::default(),
        })
    }
}

const RESPONSE_TIMEOUT_SECONDS: u32 = 30;

impl SubscriptionSpec {
    /// A subscription with nothing but a destination.
    #[must_use]
    pub fn webhook(endpoint_url: EndpointUrl) -> Self {
        Self {
            destination: Destination::WebHook {
                endpoint_url,
                tls: WebhookTls::default(),
            },
            delivery_attributes: Vec::new(),
            endpoint_limits: EndpointLimits::default(),
            signing: None,
            filter: FilterSpec::default(),
            retry_policy: RetryPolicy::default(),
            overrides: Overrides::default(),
            disable_on_gone: false,
            response_timeout: Duration::from_secs(RESPONSE_TIMEOUT_SECONDS.into()),
            event_delivery_schema: DeliverySchema::default(),
            dead_letter_destination: None,
            dead_letter: DeadLetterSettings::default(),
            expiration: None,
            labels: Vec::new(),
            probation: ProbationSpec::default(),
            delayed_delivery: DelayedDeliverySettings::default(),
            batch: BatchSpec::default(),
            ordering: None,
        }
    }

    /// Checks a declaration.
    ///
    /// # Errors
    ///
    /// The first offending member.
    pub fn check(value: &Value) -> Result<Checked<Self>, SpecError> {
        Self::read(value, Form::Declared)
    }

    fn read(value: &Value, form: Form) -> Result<Checked<Self>, SpecError> {
        let mut warnings = Vec::new();
        let mut fields = Fields::open(value, "")?;
        let Some(destination) = fields.object("destination")? else {
            return Err(fields.error("destination", "is required"));
        };
        let mut webhook = check_destination(destination)?;
        let (overrides, disable_on_gone) = check_retry(fields.object("retry")?)?;
        webhook
            .batch
            .check_answers(fields.object("batch")?, &mut warnings)?;
        let spec = Self {
            destination: webhook.destination,
            delivery_attributes: webhook.delivery_attributes,
            endpoint_limits: webhook.endpoint_limits,
            signing: fields
                .object("signing")?
                .map(SigningSpec::check)
                .transpose()?,
            filter: match fields.value("filter") {
                None => FilterSpec::default(),
                Some(filter) => FilterSpec::read(filter, "filter", form)?,
            },
            retry_policy: check_retry_policy(fields.object("retryPolicy")?, &mut warnings)?,
            overrides,
            disable_on_gone,
            response_timeout: check_response_timeout(&mut fields)?,
            event_delivery_schema: DeliverySchema::check(&mut fields)?,
            dead_letter_destination: fields
                .object("deadLetterDestination")?
                .map(DeadLetterDestination::check)
                .transpose()?,
            dead_letter: check_settings(fields.object("deadLetter")?)?,
            expiration: check_expiration(&mut fields)?,
            labels: check_labels(&mut fields)?,
            probation: ProbationSpec::check(fields.object("probation")?)?,
            delayed_delivery: check_delayed_delivery(fields.object("delayedDelivery")?, form)?,
            batch: webhook.batch,
            ordering: fields
                .object("ordering")?
                .map(OrderingSpec::check)
                .transpose()?,
        };
        fields.refuse(&[
            "deliveryWithResourceIdentity",
            "deadLetterWithResourceIdentity",
        ])?;
        fields.finish()?;
        warnings.extend(spec.filter.type_warnings("filter"));
        Ok(Checked { spec, warnings })
    }

    /// Whether its time has come.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expiration.is_some_and(|at| at <= now)
    }

    /// The subscription with every default written out, as a declaration has it, secrets included.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.json_with(true, true)
    }

    /// The same for everybody's eyes: `endpointBaseUrl` in place of `endpointUrl` (ED-121), masks in place of secrets
    /// (ED-149).
    #[must_use]
    pub fn to_public_json(&self) -> Value {
        self.json_with(false, false)
    }

    /// The same to be changed in part: the whole URL, and masks in place of secrets, which [`Self::keep_secrets`] puts back.
    #[must_use]
    pub fn to_masked_json(&self) -> Value {
        self.json_with(true, false)
    }

    /// Puts the secrets of this declaration into another one, where masks stand in their place (ED-149, AZ-072).
    ///
    /// # Errors
    /// If a secret header would be sent to another scheme, host or port than it was given for: whoever may change a subscription
    /// could read it there, and it is written only. What is signed with a secret does not tell it. And if a mask would be sent where
    /// a secret is.
    pub fn keep_secrets(&self, declaration: &mut Value) -> Result<(), SpecError> {
        // What is no destination is refused as such.
        let declared = Destination::declared_in(declaration);
        let is_elsewhere = declared.is_some_and(|to| !to.is_at(&self.destination));
        let list = declaration.pointer_mut(ATTRIBUTES);
        if let Some(list) = list.and_then(Value::as_array_mut) {
            if let Some(number) = DeliveryAttribute::mask_as_value(list, &self.delivery_attributes)
            {
                return Err(SpecError {
                    field: value_of_attribute(number),
                    message: "is the mask of the secret that is there, and keeps it only with isSecret true; give the value that \
                              is to be sent"
                        .to_owned(),
                });
            }
            let kept = DeliveryAttribute::keep_secrets(list, &self.delivery_attributes);
            if let (Some(number), true) = (kept, is_elsewhere) {
                return Err(SpecError {
                    field: value_of_attribute(number),
                    message: "must be given again: it is a secret of the present endpoint, and the new one has another scheme, \
                              host or port, or is another origin group"
                        .to_owned(),
                });
            }
        }
        signing::keep_secrets(self, declaration);
        Ok(())
    }

    /// Whether there is a mask in a declaration, which may stand for a secret.
    #[must_use]
    pub fn has_masks(declaration: &Value) -> bool {
        let list = declaration.pointer(ATTRIBUTES).and_then(Value::as_array);
        let is_mask = |declared: &Value| {
            delivery_attributes::is_masked(declared)
                || delivery_attributes::is_like_a_mask(declared)
        };
        let is_masked = list.is_some_and(|list| list.iter().any(is_mask));
        is_masked || signing::has_masks(declaration)
    }

    /// Whether an endpoint that consented to this declaration need not be asked about another one: both deliver to the same
    /// place with the same credentials (ED-152).
    #[must_use]
    pub fn is_consented_with(&self, other: &Self) -> bool {
        let credentials = |spec: &Self| {
            let attributes = spec.delivery_attributes.iter();
            let credentials = attributes.filter(|attribute| attribute.is_credential());
            credentials.cloned().collect::<Vec<_>>()
        };
        self.destination == other.destination && credentials(self) == credentials(other)
    }

    fn json_with(&self, with_query: bool, with_secrets: bool) -> Value {
        let mut properties = Map::new();
        match &self.destination {
            Destination::WebHook { endpoint_url, tls } => {
                let (member, url) = if with_query {
                    ("endpointUrl", endpoint_url.as_str())
                } else {
                    ("endpointBaseUrl", endpoint_url.base())
                };
                properties.insert(member.to_owned(), json!(url));
                tls.add_to(&mut properties);
            }
            Destination::OriginGroup(to) => to.add_to(&mut properties, with_query),
        }
        self.endpoint_limits.add_to(&mut properties);
        if !self.delivery_attributes.is_empty() {
            let attributes = self.delivery_attributes.iter();
            let list = attributes.map(|attribute| attribute.to_json(with_secrets));
            properties.insert(delivery_attributes::MEMBER.to_owned(), list.collect());
        }
        self.batch.add_to(&mut properties);
        let mut json = json!({
            "destination": {
                "endpointType": self.destination.endpoint_type().as_str(),
                "properties": properties,
            },
            "filter": self.filter.to_json(),
            "retryPolicy": {
                "maxDeliveryAttempts": self.retry_policy.max_delivery_attempts,
                "eventTimeToLiveInMinutes": self.retry_policy.event_time_to_live.as_secs() / 60,
            },
            "retry": {
                "finalStatuses": self.overrides.final_statuses,
                "retriableStatuses": self.overrides.retriable_statuses,
                "disableOnGone": self.disable_on_gone,
            },
            "responseTimeoutSeconds": self.response_timeout.as_secs(),
            "eventDeliverySchema": self.event_delivery_schema.as_str(),
            "deadLetterDestination":
                self.dead_letter_destination.as_ref().map(DeadLetterDestination::to_json),
            "deadLetter": self.dead_letter.to_json(),
            "expirationTimeUtc": self.expiration.map(|at| at.to_string()),
            "labels": self.labels,
            "probation": self.probation.to_json(),
            "delayedDelivery": self.delayed_delivery.to_json(),
            "batch": self.batch.answers_json(),
            "ordering": self.ordering.as_ref().map(OrderingSpec::to_json),
        });
        if let Some(signing) = &self.signing {
            json["signing"] = signing.to_json(with_secrets);
        }
        json
    }
}

impl TryFrom<Value> for SubscriptionSpec {
    type Error = SpecError;

    fn try_from(value: Value) -> Result<Self, SpecError> {
        Self::read(&value, Form::Stored).map(|checked| checked.spec)
    }
}

impl From<SubscriptionSpec> for Value {
    fn from(spec: SubscriptionSpec) -> Self {
        let mut json = spec.to_json();
        json["filter"] = spec.filter.write(Form::Stored);
        json
    }
}

fn value_of_attribute(number: usize) -> String {
    format!("destination.properties.deliveryAttributeMappings[{number}].properties.value")
}

/// Where the custom delivery properties stand in a declaration.
const ATTRIBUTES: &str = "/destination/properties/deliveryAttributeMappings";

/// What stands in the destination of a declaration.
struct Webhook {
    destination: Destination,
    delivery_attributes: Vec<DeliveryAttribute>,
    endpoint_limits: EndpointLimits,
    batch: BatchSpec,
}

fn check_destination(mut fields: Fields<'_>) -> Result<Webhook, SpecError> {
    let kind = match fields.text("endpointType")?.map(EndpointType::named) {
        Some(Some(kind)) if kind.is_webhook() => kind,
        Some(_) => {
            let message =
                "must be \"WebHook\" or \"OriginGroup\", the only ones this version supports";
            return Err(fields.error("endpointType", message));
        }
        None => return Err(fields.error("endpointType", "is required")),
    };
    let Some(mut properties) = fields.object("properties")? else {
        return Err(fields.error("properties", "is required"));
    };
    fields.finish()?;
    let destination = if kind == EndpointType::OriginGroup {
        Destination::OriginGroup(OriginGroupEndpoint::check(&mut properties)?)
    } else {
        let Some(text) = properties.text("endpointUrl")? else {
            return Err(properties.error("endpointUrl", "is required"));
        };
        let endpoint_url =
            EndpointUrl::parse(text).map_err(|message| properties.error("endpointUrl", message))?;
        let tls = WebhookTls::check(&mut properties)?;
        Destination::WebHook { endpoint_url, tls }
    };
    let delivery_attributes = check_attributes(&mut properties, kind)?;
    let endpoint_limits = EndpointLimits::check(&mut properties)?;
    let batch = BatchSpec::check(&mut properties)?;
    properties.refuse(&[
        "azureActiveDirectoryTenantId",
        "azureActiveDirectoryApplicationIdOrUri",
    ])?;
    properties.finish()?;
    Ok(Webhook {
        destination,
        delivery_attributes,
        endpoint_limits,
        batch,
    })
}

fn check_attributes(
    properties: &mut Fields<'_>,
    endpoint_type: EndpointType,
) -> Result<Vec<DeliveryAttribute>, SpecError> {
    let list = properties
        .list(delivery_attributes::MEMBER)?
        .unwrap_or_default();
    let rules = AttributeRules {
        endpoint_type,
        has_bearer_token: false,
    };
    let path = properties.path(delivery_attributes::MEMBER);
    DeliveryAttribute::check_list(list, &path, rules)
}

fn check_retry_policy(
    fields: Option<Fields<'_>>,
    warnings: &mut Vec<Warning>,
) -> Result<RetryPolicy, SpecError> {
    let mut policy = RetryPolicy::default();
    let Some(mut fields) = fields else {
        return Ok(policy);
    };
    if let Some(max) = fields.integer("maxDeliveryAttempts", &limits::DELIVERY_ATTEMPTS)? {
        policy.max_delivery_attempts = max;
        let useful = limits::USEFUL_DELIVERY_ATTEMPTS_MAX;
        if max > useful {
            let message = format!("at most {useful} attempts fit into the longest time to live");
            let field = fields.path("maxDeliveryAttempts");
            warnings.push(Warning { field, message });
        }
    }
    if let Some(count) =
        fields.integer("eventTimeToLiveInMinutes", &limits::TIME_TO_LIVE_MINUTES)?
    {
        policy.event_time_to_live = minutes(count);
    }
    fields.finish()?;
    Ok(policy)
}

/// The overrides, and `disableOnGone`.
fn check_retry(fields: Option<Fields<'_>>) -> Result<(Overrides, bool), SpecError> {
    let Some(mut fields) = fields else {
        return Ok((Overrides::default(), false));
    };
    let final_statuses = statuses(&mut fields, "finalStatuses")?;
    let retriable_statuses = statuses(&mut fields, "retriableStatuses")?;
    if let Some(index) = retriable_statuses
        .iter()
        .position(|code| final_statuses.contains(code))
    {
        let member = format!("retriableStatuses[{index}]");
        return Err(fields.error(&member, "stands in finalStatuses too"));
    }
    let disable_on_gone = fields.boolean("disableOnGone")?.unwrap_or_default();
    fields.finish()?;
    let overrides = Overrides {
        final_statuses,
        retriable_statuses,
    };
    Ok((overrides, disable_on_gone))
}

fn statuses(fields: &mut Fields<'_>, name: &'static str) -> Result<Vec<u16>, SpecError> {
    let list = fields.list(name)?.unwrap_or_default();
    if list.len() > limits::STATUS_OVERRIDES_MAX {
        let message = format!("must have at most {} entries", limits::STATUS_OVERRIDES_MAX);
        return Err(fields.error(name, message));
    }
    let path = |index: usize| fields.path(&format!("{name}[{index}]"));
    let code = |(index, value)| integer(value, path(index), &limits::OVERRIDABLE_STATUSES);
    list.iter().enumerate().map(code).collect()
}

fn check_labels(fields: &mut Fields<'_>) -> Result<Vec<String>, SpecError> {
    let list = fields.list("labels")?.unwrap_or_default();
    if list.len() > limits::LABELS_MAX {
        let message = format!("must have at most {} entries", limits::LABELS_MAX);
        return Err(fields.error("labels", message));
    }
    let label = |(index, value): (usize, &Value)| match value.as_str() {
        Some(text) if text.len() <= limits::LABEL_BYTES_MAX => Ok(text.to_owned()),
        _ => {
            let message = format!(
                "must be a text of at most {} bytes",
                limits::LABEL_BYTES_MAX
            );
            Err(fields.error(&format!("labels[{index}]"), message))
        }
    };
    list.iter().enumerate().map(label).collect()
}

/// Whether it is past is not for the form to say.
fn check_expiration(fields: &mut Fields<'_>) -> Result<Option<Timestamp>, SpecError> {
    const NAME: &str = "expirationTimeUtc";
    let text = fields.text(NAME)?;
    let parsed = text.map(str::parse::<Timestamp>).transpose();
    parsed.map_err(|error| fields.error(NAME, error.to_string()))
}

fn check_response_timeout(fields: &mut Fields<'_>) -> Result<Duration, SpecError> {
    let seconds = fields.integer("responseTimeoutSeconds", &limits::RESPONSE_TIMEOUT_SECONDS)?;
    Ok(Duration::from_secs(
        seconds.unwrap_or(RESPONSE_TIMEOUT_SECONDS).into(),
    ))
}
