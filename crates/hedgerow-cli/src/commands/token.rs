//! `hedgerow token`: who may ask the admin API for what.

use std::io;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::json;

use super::ServerOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Tokens of the admin API: who may do what, with which topics.
#[derive(Debug, Args)]
pub struct TokenCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a token and prints its secret, which is shown this once.
    Create(New),
    /// Lists the tokens, without their secrets.
    List,
    /// Deletes a token: it is refused from then on.
    Delete(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// The token's name.
    #[arg(long, short = 'n', value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
struct New {
    #[command(flatten)]
    named: Named,
    /// What it allows, separated by commas: read, publish, operate, admin. None includes another.
    #[arg(long, value_name = "RIGHTS", value_delimiter = ',', required = true, value_parser = ["read", "publish", "operate", "admin"])]
    rights: Vec<String>,
    /// Only for topics whose names begin so; without it, for all. An empty one is refused.
    #[arg(long, value_name = "TEXT")]
    topic_prefix: Option<String>,
    /// From when on it is refused, as in 2030-01-02T03:04:05Z; never by default.
    #[arg(long, value_name = "TIME")]
    expiration_date: Option<String>,
}

const LIST: [Column; 5] = [
    ("NAME", "/name"),
    ("RIGHTS", "/rights"),
    ("TOPIC PREFIX", "/topicPrefix"),
    ("CREATED", "/createdTime"),
    ("EXPIRES", "/expirationTimeUtc"),
];

/// Deletes a token whose secret nobody got: it cannot be shown again, and its name would be taken.
async fn take_back(client: &Client, name: &str, error: &io::Error) -> Failure {
    let message = format!("the token's secret cannot be printed: {error}");
    match client.admin(Method::DELETE, &path_of(name), None).await {
        Ok(_) => Failure::new(format!("{message}; the token was deleted again")),
        Err(_) => Failure::new(message).with_hint(format!(
            "the token is there and of no use; delete it: hedgerow token delete --name {}",
            output::printable(name)
        )),
    }
}

fn path_of(name: &str) -> String {
    format!("/tokens/{}", super::event::in_path(name))
}

impl TokenCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create(new) => {
                let body = json!({
                    "name": new.named.name,
                    "rights": new.rights,
                    "topicPrefix": new.topic_prefix,
                    "expirationTimeUtc": new.expiration_date,
                });
                let made = client.admin(Method::POST, "/tokens", Some(&body)).await?;
                let text = match format {
                    Format::Json => format!("{:#}", made.body),
                    // Nothing but the secret, so that it can be put where it is needed.
                    Format::Table => made.body["secret"].as_str().unwrap_or_default().to_owned(),
                };
                if let Err(error) = output::try_line(&text) {
                    return Err(take_back(&client, &new.named.name, &error).await);
                }
            }
            Action::List => {
                let list = client.admin(Method::GET, "/tokens", None).await?;
                output::list(super::value(&list.body)?, &LIST, format);
            }
            Action::Delete(Named { name }) => {
                client.admin(Method::DELETE, &path_of(&name), None).await?;
                let sentence = format!("token {} deleted", output::printable(&name));
                output::done(&sentence, &super::deleted(&name), format);
            }
        }
        Ok(())
    }
}
