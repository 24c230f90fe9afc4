//! A topic or a domain, as declared (ED-030, ED-048 to ED-050, ED-075). A domain is a topic whose events name domain topics: it has
//! one place in everything that a topic has one in (design D3).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::Fields;
use super::{Checked, InputSchemaMapping, SpecError, StorageAccount, Warning};

/// What a topic takes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct TopicSpec {
    /// The schema of published events; it never changes.
    pub input_schema: InputSchema,
    /// Where the Event Grid members are found in an event of a custom schema; it never changes. There exactly with
    /// [`InputSchema::CustomEventSchema`].
    pub input_schema_mapping: Option<InputSchemaMapping>,
    /// Whether keys and shared access signatures are refused (ED-015).
    pub disable_local_auth: bool,
    /// Which defaults its subscriptions have; `None` for the server's (ED-317).
    pub profile: Option<Profile>,
    /// What is said of a domain besides; `None` for a topic.
    pub domain: Option<DomainRules>,
    /// What its events tell of, if it is a system topic: nobody publishes to one (ED-318). It never changes.
    pub source: Option<StorageAccount>,
}

/// Which defaults hold where the vendor's page on delivery and ours differ (ED-317).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Ours.
    #[default]
    Default,
    /// The page's.
    Strict,
}

impl Profile {
    /// The name in declarations and settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Strict => "strict",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Default, Self::Strict]
            .into_iter()
            .find(|profile| profile.as_str() == name)
    }
}

/// When domain topics come and go by themselves (ED-075).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainRules {
    /// One is made for its first subscription.
    pub creates_topics: bool,
    /// One is deleted with its last subscription, even if somebody made it.
    pub deletes_topics: bool,
}

impl Default for DomainRules {
    fn default() -> Self {
        Self {
            creates_topics: true,
            deletes_topics: true,
        }
    }
}

const CREATES_TOPICS: &str = "autoCreateTopicWithFirstSubscription";
const DELETES_TOPICS: &str = "autoDeleteTopicWithLastSubscription";

/// The schema of published events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputSchema {
    /// A JSON array of the vendor's own events.
    #[default]
    EventGridSchema,
    /// CloudEvents 1.0: one structured, a batch, or one in binary mode.
    CloudEventSchemaV1_0,
    /// A JSON array of any objects, with a mapping.
    CustomEventSchema,
}

impl InputSchema {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::EventGridSchema,
        Self::CloudEventSchemaV1_0,
        Self::CustomEventSchema,
    ];

    /// The name in declarations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventGridSchema => "EventGridSchema",
            Self::CloudEventSchemaV1_0 => "CloudEventSchemaV1_0",
            Self::CustomEventSchema => "CustomEventSchema",
        }
    }
}

impl TopicSpec {
    /// The topic that tells of dead letters (ED-263).
    #[must_use]
    pub fn of_dead_letters() -> Self {
        Self {
            source: Some(StorageAccount::default()),
            ..Self::default()
        }
    }

    /// Checks a declaration.
    ///
    /// # Errors
    ///
    /// The first offending member.
    pub fn check(value: &Value) -> Result<Checked<Self>, SpecError> {
        Self::read(value, false)
    }

    /// Checks the declaration of a domain.
    ///
    /// # Errors
    ///
    /// The first offending member.
    pub fn check_domain(value: &Value) -> Result<Checked<Self>, SpecError> {
        Self::read(value, true)
    }

    fn read(value: &Value, is_domain: bool) -> Result<Checked<Self>, SpecError> {
        let mut warnings = Vec::new();
        let mut fields = Fields::open(value, "")?;
        let input_schema = check_input_schema(&mut fields)?;
        let spec = Self {
            input_schema,
            input_schema_mapping: check_mapping(&mut fields, input_schema, &mut warnings)?,
            disable_local_auth: fields.boolean("disableLocalAuth")?.unwrap_or(false),
            profile: check_profile(&mut fields)?,
            domain: is_domain.then(|| check_domain(&mut fields)).transpose()?,
            source: check_source(&mut fields, input_schema)?,
        };
        if let (Some(_), Some(mapping)) = (spec.domain, &spec.input_schema_mapping)
            && mapping.topic.is_none()
        {
            warnings.push(Warning {
                field: fields.path("inputSchemaMapping.properties.topic"),
                message: "topic is not mapped: no event names a domain topic, and all are refused"
                    .to_owned(),
            });
        }
        fields.refuse(&["inboundIpRules", "publicNetworkAccess"])?;
        fields.finish()?;
        Ok(Checked { spec, warnings })
    }

    /// The topic with every default written out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "inputSchema": self.input_schema.as_str(),
            "disableLocalAuth": self.disable_local_auth,
        });
        if let Some(mapping) = &self.input_schema_mapping {
            json["inputSchemaMapping"] = mapping.to_json();
        }
        if let Some(profile) = self.profile {
            json["profile"] = json!(profile.as_str());
        }
        if let Some(domain) = &self.domain {
            json[CREATES_TOPICS] = json!(domain.creates_topics);
            json[DELETES_TOPICS] = json!(domain.deletes_topics);
        }
        if let Some(source) = &self.source {
            json["source"] = json!(source.as_str());
            json["topicType"] = json!(STORAGE_TOPIC_TYPE);
        }
        json
    }

    /// Says what keeps a topic from being declared anew as `new`: its schema and mapping never change (ED-030).
    ///
    /// # Errors
    ///
    /// The member that differs.
    pub fn check_change(&self, new: &Self) -> Result<(), SpecError> {
        let member = if self.input_schema != new.input_schema {
            "inputSchema"
        } else if self.input_schema_mapping != new.input_schema_mapping {
            "inputSchemaMapping"
        } else if self.source != new.source {
            "source"
        } else {
            return Ok(());
        };
        Err(SpecError::new(
            member,
            "cannot be changed after it was created",
        ))
    }
}

fn check_profile(fields: &mut Fields<'_>) -> Result<Option<Profile>, SpecError> {
    const NAME: &str = "profile";
    let named = fields.text(NAME)?;
    let profile = named.map(|text| Profile::named(text).ok_or(()));
    let refused = |()| fields.error(NAME, "must be \"default\" or \"strict\"");
    profile.transpose().map_err(refused)
}

fn check_domain(fields: &mut Fields<'_>) -> Result<DomainRules, SpecError> {
    let default = DomainRules::default();
    let creates_topics = fields.boolean(CREATES_TOPICS)?;
    let deletes_topics = fields.boolean(DELETES_TOPICS)?;
    Ok(DomainRules {
        creates_topics: creates_topics.unwrap_or(default.creates_topics),
        deletes_topics: deletes_topics.unwrap_or(default.deletes_topics),
    })
}

fn check_input_schema(fields: &mut Fields<'_>) -> Result<InputSchema, SpecError> {
    const NAME: &str = "inputSchema";
    let Some(text) = fields.text(NAME)? else {
        return Ok(InputSchema::default());
    };
    let schema = InputSchema::ALL
        .into_iter()
        .find(|schema| schema.as_str() == text);
    schema.ok_or_else(|| {
        let [first, second, third] = InputSchema::ALL.map(InputSchema::as_str);
        fields.error(
            NAME,
            format!("must be \"{first}\", \"{second}\" or \"{third}\""),
        )
    })
}

/// The kind of system topic that there is.
const STORAGE_TOPIC_TYPE: &str = "Microsoft.Storage.StorageAccounts";

/// What a system topic tells of, and what kind it is (ED-318).
fn check_source(
    fields: &mut Fields<'_>,
    input_schema: InputSchema,
) -> Result<Option<StorageAccount>, SpecError> {
    const NAME: &str = "source";
    let kind = fields.text("topicType")?;
    if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case(STORAGE_TOPIC_TYPE)) {
        let message = format!("must be \"{STORAGE_TOPIC_TYPE}\", the only one there is");
        return Err(fields.error("topicType", message));
    }
    let Some(id) = fields.text(NAME)? else {
        return match kind {
            Some(_) => Err(fields.error(NAME, "is required with topicType")),
            None => Ok(None),
        };
    };
    let source = StorageAccount::parse(id).map_err(|message| fields.error(NAME, message))?;
    if input_schema != InputSchema::EventGridSchema {
        let message = "must be \"EventGridSchema\" with a source, whose events have it";
        return Err(fields.error("inputSchema", message));
    }
    Ok(Some(source))
}

/// A mapping belongs to the custom schema, and the custom schema needs one (ED-050).
fn check_mapping(
    fields: &mut Fields<'_>,
    input_schema: InputSchema,
    warnings: &mut Vec<Warning>,
) -> Result<Option<InputSchemaMapping>, SpecError> {
    const NAME: &str = "inputSchemaMapping";
    let mapping = fields.object(NAME)?;
    if input_schema != InputSchema::CustomEventSchema {
        if mapping.is_some() {
            let message = "is only for topics whose inputSchema is \"CustomEventSchema\"";
            return Err(fields.error(NAME, message));
        }
        return Ok(None);
    }
    let Some(mapping) = mapping else {
        let message = "is required with the inputSchema \"CustomEventSchema\"";
        return Err(fields.error(NAME, message));
    };
    let mapping = InputSchemaMapping::check(mapping)?;
    for (name, field) in [
        ("eventType", &mapping.event_type),
        ("subject", &mapping.subject),
    ] {
        if field.is_unmapped() {
            warnings.push(Warning {
                field: fields.path(&format!("{NAME}.properties.{name}")),
                message: format!(
                    "{name} is neither mapped nor has a default: it is empty in every event"
                ),
            });
        }
    }
    Ok(Some(mapping))
}

impl TryFrom<Value> for TopicSpec {
    type Error = SpecError;

    fn try_from(value: Value) -> Result<Self, SpecError> {
        // A domain is stored with its switches, a topic has none.
        let is_domain = value.get(CREATES_TOPICS).is_some();
        Self::read(&value, is_domain).map(|checked| checked.spec)
    }
}

impl From<TopicSpec> for Value {
    fn from(spec: TopicSpec) -> Self {
        spec.to_json()
    }
}
