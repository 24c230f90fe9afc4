//! `hedgerow origin-group`: servers that do the same work, probed, and how they are doing.

mod settings;
mod status;

use clap::{Args, Subcommand};
use hedgerow_core::name::OriginGroupName;
use http::{Method, StatusCode};
use serde_json::Value;

use self::settings::{Changes, Settings};
pub use self::status::milliseconds;
use super::ServerOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Origin groups: servers that do the same work, probed, and chosen by health, priority, latency and weight.
#[derive(Debug, Args)]
pub struct OriginGroupCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a group; one that exists keeps whatever is not given.
    Create {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Changes what is given of a group and keeps the rest.
    Update {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        settings: Box<Settings>,
        #[command(flatten)]
        changes: Changes,
    },
    /// Shows a group: its settings in short, how its origins are doing, and what changed lately.
    Show {
        #[command(flatten)]
        named: Named,
        /// Goes on, and prints each change as it happens.
        #[arg(long)]
        follow: bool,
    },
    /// Lists all groups.
    List,
    /// Deletes a group that no route and no subscription names.
    Delete(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// The group's name.
    #[arg(value_name = "NAME")]
    name: OriginGroupName,
}

const LIST: [Column; 6] = [
    ("NAME", "/name"),
    ("PROTOCOL", "/probe/protocol"),
    ("PATH", "/probe/path"),
    ("INTERVAL S", "/probe/interval_s"),
    ("ORIGINS", "/origin_names"),
    ("CHANGED", "/changed_time"),
];

/// The place of a group in the API.
pub fn path(name: &OriginGroupName) -> String {
    format!("/origin-groups/{name}")
}

impl OriginGroupCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create { named, settings } => {
                let path = path(&named.name);
                let before = client.admin_if_found(Method::GET, &path).await?;
                let method = if before.is_some() {
                    Method::PATCH
                } else {
                    Method::PUT
                };
                let body = settings.body(before.is_none())?;
                declare(&client, method, &path, &body, settings.dry_run, format).await
            }
            Action::Update {
                named,
                settings,
                changes,
            } => {
                let mut body = settings.body(false)?;
                changes.add_to(&mut body);
                let path = path(&named.name);
                declare(
                    &client,
                    Method::PATCH,
                    &path,
                    &body,
                    settings.dry_run,
                    format,
                )
                .await
            }
            Action::Show { named, follow } => {
                let shown = status::show(&client, &named.name, format).await?;
                if follow {
                    status::follow(&client, &named.name, shown, format).await?;
                }
                Ok(())
            }
            Action::List => {
                let reply = client.admin(Method::GET, "/origin-groups", None).await?;
                let mut items = super::value(&reply.body)?.to_vec();
                for item in &mut items {
                    let origins = item["origins"].as_array().into_iter().flatten();
                    let names: Vec<Value> = origins.map(|origin| origin["name"].clone()).collect();
                    if format == Format::Table {
                        item["origin_names"] = Value::Array(names);
                    }
                }
                output::list(&items, &LIST, format);
                Ok(())
            }
            Action::Delete(Named { name }) => {
                client.admin(Method::DELETE, &path(&name), None).await?;
                let deleted = super::deleted(name.as_str());
                output::done(&format!("origin group {name} deleted"), &deleted, format);
                Ok(())
            }
        }
    }
}

/// Sends a declaration, and says what it did.
async fn declare(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
    is_dry_run: bool,
    format: Format,
) -> Result<(), Failure> {
    let query = if is_dry_run { "?dryRun=true" } else { "" };
    let reply = client
        .admin(method, &format!("{path}{query}"), Some(body))
        .await?;
    let name = reply.body["name"].as_str().unwrap_or_default();
    let change = reply.body["change"].as_str().unwrap_or_default();
    let what = match (is_dry_run, change) {
        (true, "created") => "would be created",
        (true, "changed") => "would be changed",
        (true, _) => "would stay as it is",
        (false, "unchanged") => "is as it was",
        (false, change) => change,
    };
    let most = reply.body["estimate"].as_array().into_iter().flatten();
    let most = most.filter_map(|one| one["probes_per_minute"].as_f64());
    let most = most.fold(0.0, f64::max);
    let origins = reply.body["origins"].as_array().map_or(0, Vec::len);
    let sentence = format!(
        "origin group {name} {what}: {origins} origins, up to {} probes a minute to each",
        (most * 10.0).round() / 10.0
    );
    output::done(&sentence, &reply.body, format);
    super::show_warnings(&reply.body);
    debug_assert!(reply.status == StatusCode::OK || reply.status == StatusCode::CREATED);
    Ok(())
}
