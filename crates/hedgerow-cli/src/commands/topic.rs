//! `hedgerow topic`: where events are published to.

pub(super) mod declared;

use clap::{Args, Subcommand, ValueEnum};
use hedgerow_core::name::TopicName;
use http::{Method, StatusCode};
use serde_json::json;

use self::declared::Declared;
pub(super) use self::declared::changed;
use super::ServerOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Topics: where events are published to.
#[derive(Debug, Args)]
pub struct TopicCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a topic; one that exists keeps its keys, its schema, and whatever is not given.
    Create {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        declared: Declared,
    },
    /// Shows a topic.
    Show(Named),
    /// Lists all topics.
    List,
    /// Deletes a topic with its subscriptions and everything owed to them.
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
    /// The topic's name.
    #[arg(value_name = "NAME")]
    name: TopicName,
}

/// Which of the two keys.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Key {
    /// `key1`.
    Key1,
    /// `key2`.
    Key2,
}

const LIST: [Column; 4] = [
    ("NAME", "/name"),
    ("INPUT SCHEMA", "/inputSchema"),
    ("ENDPOINT", "/endpoint"),
    ("CREATED", "/createdTime"),
];

const ONE: [Column; 8] = [
    ("name", "/name"),
    ("id", "/id"),
    ("input schema", "/inputSchema"),
    ("input schema mapping", "/inputSchemaMapping/properties"),
    ("keys and signatures refused", "/disableLocalAuth"),
    ("endpoint", "/endpoint"),
    ("source", "/source"),
    ("created", "/createdTime"),
];

const KEYS: [Column; 2] = [("key1", "/key1"), ("key2", "/key2")];

impl TopicCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create {
                named: Named { name },
                declared,
            } => {
                let path = format!("/topics/{name}");
                let before = client.admin_if_found(Method::GET, &path).await?;
                let body = declared.over(before.as_ref())?;
                let reply = client.admin(Method::PUT, &path, Some(&body)).await?;
                // Nobody publishes to a system topic.
                let endpoint = reply.body["endpoint"].as_str();
                let publish = endpoint.map_or(String::new(), |to| format!("; publish to {to}"));
                let sentence = if reply.status == StatusCode::CREATED {
                    format!("topic {name} created{publish}")
                } else {
                    let changed = changed(before.as_ref(), &reply.body, &[]);
                    let what = if changed.is_empty() {
                        "exists".to_owned()
                    } else {
                        format!("updated: {}", changed.join(", "))
                    };
                    format!("topic {name} {what}{publish}")
                };
                output::done(&sentence, &reply.body, format);
                super::show_warnings(&reply.body);
            }
            Action::Show(Named { name }) => {
                let reply = client
                    .admin(Method::GET, &format!("/topics/{name}"), None)
                    .await?;
                output::one(&reply.body, &ONE, format);
            }
            Action::List => {
                let reply = client.admin(Method::GET, "/topics", None).await?;
                output::list(&output::by_name(super::value(&reply.body)?), &LIST, format);
            }
            Action::Delete(Named { name }) => {
                client
                    .admin(Method::DELETE, &format!("/topics/{name}"), None)
                    .await?;
                let deleted = super::deleted(name.as_str());
                output::done(&format!("topic {name} deleted"), &deleted, format);
            }
            Action::Keys {
                named: Named { name },
                regenerate,
            } => {
                show_keys(&client, &format!("/topics/{name}"), regenerate, format).await?;
            }
        }
        Ok(())
    }
}

/// Shows the keys of what lies at `path`, one of them perhaps made anew before.
pub(super) async fn show_keys(
    client: &Client,
    path: &str,
    regenerate: Option<Key>,
    format: Format,
) -> Result<(), Failure> {
    let (action, body) = match regenerate {
        None => ("listKeys", json!({})),
        Some(Key::Key1) => ("regenerateKey", json!({ "keyName": "key1" })),
        Some(Key::Key2) => ("regenerateKey", json!({ "keyName": "key2" })),
    };
    let path = format!("{path}/{action}");
    let reply = client.admin(Method::POST, &path, Some(&body)).await?;
    output::one(&reply.body, &KEYS, format);
    Ok(())
}
