//! `hedgerow domain-topic`: the topics of a domain, made and deleted by hand (ED-075).

use clap::{Args, Subcommand};
use hedgerow_core::name::{DomainTopicName, TopicName};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::ServerOptions;
use crate::failure::Failure;
use crate::output::{self, Column};

/// Topics of a domain. They come with their first subscription and go with their last one, unless the domain says otherwise.
#[derive(Debug, Args)]
pub struct DomainTopicCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a domain topic that has no subscription yet.
    Create(Named),
    /// Shows a domain topic.
    Show(Named),
    /// Lists the topics of a domain.
    List(Of),
    /// Deletes a domain topic with its subscriptions and everything owed to them.
    Delete(Named),
}

#[derive(Debug, Args)]
struct Of {
    /// The domain's name.
    #[arg(long, visible_alias = "domain-name", value_name = "DOMAIN")]
    domain: TopicName,
}

#[derive(Debug, Args)]
struct Named {
    /// The domain topic's name.
    #[arg(value_name = "NAME")]
    name: DomainTopicName,
    #[command(flatten)]
    of: Of,
}

impl Of {
    fn path(&self) -> String {
        format!("/domains/{}/topics", self.domain)
    }
}

impl Named {
    fn path(&self) -> String {
        format!("{}/{}", self.of.path(), self.name)
    }

    fn told(&self, what: &str) -> String {
        format!("topic {} of domain {} {what}", self.name, self.of.domain)
    }
}

/// Topics that are asked for at a time.
const PAGE: usize = 1_000;

const LIST: [Column; 3] = [
    ("NAME", "/name"),
    ("SUBSCRIPTIONS", "/eventSubscriptionCount"),
    ("CREATED", "/createdTime"),
];

const ONE: [Column; 5] = [
    ("name", "/name"),
    ("domain", "/domain"),
    ("resource id", "/resourceId"),
    ("subscriptions", "/eventSubscriptionCount"),
    ("created", "/createdTime"),
];

impl DomainTopicCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create(named) => {
                let body = json!({});
                let reply = client
                    .admin(Method::PUT, &named.path(), Some(&body))
                    .await?;
                let is_new = reply.status == StatusCode::CREATED;
                let sentence = named.told(if is_new { "created" } else { "exists" });
                output::done(&sentence, &reply.body, format);
            }
            Action::Show(named) => {
                let reply = client.admin(Method::GET, &named.path(), None).await?;
                output::one(&reply.body, &ONE, format);
            }
            Action::List(of) => {
                let mut topics: Vec<Value> = Vec::new();
                let mut after = String::new();
                loop {
                    let path = format!("{}?limit={PAGE}{after}", of.path());
                    let page = client.admin(Method::GET, &path, None).await?.body;
                    topics.extend_from_slice(super::value(&page)?);
                    match page["next"].as_str() {
                        // A name needs no escape.
                        Some(next) => after = format!("&after={next}"),
                        None => break,
                    }
                }
                output::list(&topics, &LIST, format);
            }
            Action::Delete(named) => {
                client.admin(Method::DELETE, &named.path(), None).await?;
                let deleted = super::deleted(named.name.as_str());
                output::done(&named.told("deleted"), &deleted, format);
            }
        }
        Ok(())
    }
}
