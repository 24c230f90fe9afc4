//! What `hedgerow topic create` says about a topic, with the names that the vendor's command line has.

use std::str::FromStr;

use clap::{ArgAction, Args};
use serde_json::{Map, Value, json};

use crate::commands::schema::Schema;
use crate::failure::Failure;

/// What a topic takes.
#[derive(Debug, Args)]
pub struct Declared {
    /// The schema of published events; it cannot be changed later.
    #[arg(long, value_name = "SCHEMA", ignore_case = true)]
    input_schema: Option<Schema>,
    /// With customeventschema: where members are found in an event, as in `eventType=kind subject=order.id`. Members are
    /// id, topic, eventTime, eventType, subject and dataVersion.
    #[arg(long, value_name = "MEMBER=FIELD", num_args = 1..)]
    input_mapping_fields: Vec<Entry>,
    /// With customeventschema: what eventType, subject and dataVersion are if they are not found, as in `subject=none`.
    #[arg(long, value_name = "MEMBER=VALUE", num_args = 1..)]
    input_mapping_default_values: Vec<Entry>,
    /// Which defaults its subscriptions have: default or strict, which is what Event Grid's documentation says. The server's by default.
    #[arg(long, value_name = "PROFILE", value_parser = ["default", "strict"])]
    profile: Option<String>,
    /// Refuse keys and shared access signatures: nobody can publish until another way is open.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    disable_local_auth: Option<bool>,
    /// Makes a system topic, which tells of the dead letters that are written to this storage account: its resource id.
    #[arg(long, value_name = "RESOURCE ID")]
    source: Option<String>,
}

/// `MEMBER=VALUE`.
#[derive(Debug, Clone)]
struct Entry {
    /// The member as declarations spell it.
    member: &'static str,
    value: String,
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MEMBERS: [&str; 6] = [
            "id",
            "topic",
            "eventTime",
            "eventType",
            "subject",
            "dataVersion",
        ];
        let refused = || format!("must be MEMBER=VALUE with one of {}", MEMBERS.join(", "));
        let (name, value) = text.split_once('=').ok_or_else(refused)?;
        let member = MEMBERS
            .into_iter()
            .find(|member| member.eq_ignore_ascii_case(name))
            .ok_or_else(refused)?;
        Ok(Self {
            member,
            value: value.to_owned(),
        })
    }
}

/// What a topic declares.
const MEMBERS: [&str; 5] = [
    "inputSchema",
    "inputSchemaMapping",
    "disableLocalAuth",
    "profile",
    "source",
];

/// What is another than before, in words: of what topics declare, and of `more`.
pub fn changed(before: Option<&Value>, after: &Value, more: &[&'static str]) -> Vec<String> {
    let Some(before) = before else {
        return Vec::new();
    };
    let members = MEMBERS.iter().chain(more);
    let other = members.filter(|name| before[**name] != after[**name]);
    other
        .map(|name| format!("{name} was {}, is {}", before[*name], after[*name]))
        .collect()
}

impl Declared {
    /// The body that declares it over what is there: what is not given stays.
    ///
    /// # Errors
    ///
    /// If a member stands twice in one of the lists.
    pub fn over(&self, present: Option<&Value>) -> Result<Value, Failure> {
        let mut json = self.to_json()?;
        let Some(present) = present else {
            return Ok(json);
        };
        for name in MEMBERS {
            if json[name].is_null() && !present[name].is_null() {
                json[name] = present[name].clone();
            }
        }
        if let Some(members) = json.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        Ok(json)
    }

    /// The body that declares it. Whether it makes sense is for the server to say.
    ///
    /// # Errors
    ///
    /// If a member stands twice in one of the lists.
    fn to_json(&self) -> Result<Value, Failure> {
        let mut json = json!({});
        if let Some(schema) = self.input_schema {
            json["inputSchema"] = json!(schema.declared());
        }
        if let Some(disabled) = self.disable_local_auth {
            json["disableLocalAuth"] = json!(disabled);
        }
        if let Some(profile) = &self.profile {
            json["profile"] = json!(profile);
        }
        if let Some(source) = &self.source {
            json["source"] = json!(source);
        }
        let mut properties = Map::new();
        let lists = [
            (
                "--input-mapping-fields",
                "sourceField",
                &self.input_mapping_fields,
            ),
            (
                "--input-mapping-default-values",
                "defaultValue",
                &self.input_mapping_default_values,
            ),
        ];
        for (option, of, entries) in lists {
            for Entry { member, value } in entries {
                let property = &mut properties.entry(*member).or_insert_with(|| json!({}))[of];
                if !property.is_null() {
                    return Err(Failure::new(format!("{option} names {member} twice")));
                }
                *property = json!(value);
            }
        }
        if !properties.is_empty() {
            json["inputSchemaMapping"] =
                json!({ "inputSchemaMappingType": "Json", "properties": properties });
        }
        Ok(json)
    }
}
