//! `hedgerow domain`: one place to publish to, for events of many topics (section 1.11).

use clap::{ArgAction, Args, Subcommand};
use hedgerow_core::name::TopicName;
use http::{Method, StatusCode};
use serde_json::Value;

use super::ServerOptions;
use super::topic::declared::Declared;
use super::topic::{Key, changed, show_keys};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Domains: one place to publish events of many topics to.
#[derive(Debug, Args)]
pub struct DomainCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a domain; one that exists keeps its keys, its schema, and whatever is not given.
    Create {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        declared: OfDomain,
    },
    /// Changes what is given of a domain and keeps the rest.
    Update {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        declared: OfDomain,
    },
    /// Shows a domain.
    Show(Named),
    /// Lists all domains.
    List,
    /// Deletes a domain with its topics, all their subscriptions and everything owed to them.
    Delete(Named),
    /// Shows the two keys that publishers use, or makes one of them anew.
    Keys {
        #[command(flatten)]
        named: Named,
        /// Makes this key anew; the old one is refused from then on.
        #[arg(long, value_name = "KEY")]
        regenerate: Option<Key>,
    },
}

#[derive(Debug, Args)]
struct Named {
    /// The domain's name.
    #[arg(value_name = "NAME")]
    name: TopicName,
}

/// What a domain takes, and when its topics come and go.
#[derive(Debug, Args)]
struct OfDomain {
    #[command(flatten)]
    declared: Declared,
    /// Whether a domain topic is made for its first subscription. It is, unless this says otherwise.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    auto_create_topic_with_first_subscription: Option<bool>,
    /// Whether a domain topic is deleted with its last subscription, even one that was made by hand. It is, unless this says
    /// otherwise.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    auto_delete_topic_with_last_subscription: Option<bool>,
}

const CREATES: &str = "autoCreateTopicWithFirstSubscription";
const DELETES: &str = "autoDeleteTopicWithLastSubscription";

impl OfDomain {
    /// The body that declares it over what is there: what is not given stays.
    fn over(&self, present: Option<&Value>) -> Result<Value, Failure> {
        let mut json = self.declared.over(present)?;
        let switches = [
            (CREATES, self.auto_create_topic_with_first_subscription),
            (DELETES, self.auto_delete_topic_with_last_subscription),
        ];
        for (name, given) in switches {
            let kept = present.map_or(Value::Null, |present| present[name].clone());
            let value = given.map_or(kept, Value::from);
            if !value.is_null() {
                json[name] = value;
            }
        }
        Ok(json)
    }
}

const LIST: [Column; 4] = [
    ("NAME", "/name"),
    ("INPUT SCHEMA", "/inputSchema"),
    ("ENDPOINT", "/endpoint"),
    ("CREATED", "/createdTime"),
];

const ONE: [Column; 9] = [
    ("name", "/name"),
    ("id", "/id"),
    ("input schema", "/inputSchema"),
    ("input schema mapping", "/inputSchemaMapping/properties"),
    ("keys and signatures refused", "/disableLocalAuth"),
    (
        "topics come with their first subscription",
        "/autoCreateTopicWithFirstSubscription",
    ),
    (
        "topics go with their last subscription",
        "/autoDeleteTopicWithLastSubscription",
    ),
    ("endpoint", "/endpoint"),
    ("created", "/createdTime"),
];

impl DomainCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create { named, declared } => {
                let before = client.admin_if_found(Method::GET, &named.path()).await?;
                declare(&client, &named, &declared, before.as_ref(), format).await?;
            }
            Action::Update { named, declared } => {
                let before = client.admin(Method::GET, &named.path(), None).await?.body;
                declare(&client, &named, &declared, Some(&before), format).await?;
            }
            Action::Show(named) => {
                let reply = client.admin(Method::GET, &named.path(), None).await?;
                output::one(&reply.body, &ONE, format);
            }
            Action::List => {
                let reply = client.admin(Method::GET, "/domains", None).await?;
                output::list(&output::by_name(super::value(&reply.body)?), &LIST, format);
            }
            Action::Delete(named) => {
                client.admin(Method::DELETE, &named.path(), None).await?;
                let deleted = super::deleted(named.name.as_str());
                output::done(&format!("domain {} deleted", named.name), &deleted, format);
            }
            Action::Keys { named, regenerate } => {
                show_keys(&client, &named.path(), regenerate, format).await?;
            }
        }
        Ok(())
    }
}

impl Named {
    fn path(&self) -> String {
        format!("/domains/{}", self.name)
    }
}

async fn declare(
    client: &Client,
    named: &Named,
    declared: &OfDomain,
    before: Option<&Value>,
    format: Format,
) -> Result<(), Failure> {
    let name = &named.name;
    let body = declared.over(before)?;
    let reply = client
        .admin(Method::PUT, &named.path(), Some(&body))
        .await?;
    let endpoint = reply.body["endpoint"].as_str().unwrap_or_default();
    let what = if reply.status == StatusCode::CREATED {
        "created".to_owned()
    } else {
        let changed = changed(before, &reply.body, &[CREATES, DELETES]);
        if changed.is_empty() {
            "exists".to_owned()
        } else {
            format!("updated: {}", changed.join(", "))
        }
    };
    let sentence = format!("domain {name} {what}; publish to {endpoint}");
    output::done(&sentence, &reply.body, format);
    super::show_warnings(&reply.body);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        declared: OfDomain,
    }

    /// ED-075: what is not given stays.
    #[test]
    fn switches_that_are_not_given_stay() {
        let over = |words: &[&str], present: Option<Value>| {
            let words = ["domain"].iter().chain(words);
            let words = Words::try_parse_from(words).unwrap();
            words.declared.over(present.as_ref()).unwrap()
        };
        assert_eq!(over(&[], None), json!({}));
        let option = "--auto-create-topic-with-first-subscription";
        assert_eq!(over(&[option, "false"], None), json!({ CREATES: false }));
        let present = json!({ "inputSchema": "EventGridSchema", CREATES: false, DELETES: true });
        let expected = json!({ "inputSchema": "EventGridSchema", CREATES: true, DELETES: true });
        assert_eq!(over(&[option], Some(present)), expected);
    }
}
