//! `hedgerow route`: which requests of the edge listener go to which origin group.

use clap::{ArgAction, Args, Subcommand};
use hedgerow_core::name::{OriginGroupName, RouteName};
use http::Method;
use serde_json::{Map, Value, json};

use super::ServerOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Routes: which requests go to which origin group.
#[derive(Debug, Args)]
pub struct RouteCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a route; one that exists keeps whatever is not given.
    Create {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        settings: Settings,
    },
    /// Changes what is given of a route and keeps the rest.
    Update {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        settings: Settings,
    },
    /// Shows a route.
    Show(Named),
    /// Lists all routes.
    List,
    /// Deletes a route.
    Delete(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// The route's name.
    #[arg(value_name = "NAME")]
    name: RouteName,
}

/// What a route is. What is not given keeps its value, or its default.
#[derive(Debug, Args)]
struct Settings {
    /// Hosts, or `*.domain` for exactly one label before it.
    #[arg(long, value_name = "HOST", num_args = 1.., action = ArgAction::Append)]
    hosts: Option<Vec<String>>,
    /// Paths, or beginnings of paths followed by `/*`; `/*` by default.
    #[arg(long, value_name = "PATH", num_args = 1.., action = ArgAction::Append)]
    patterns_to_match: Option<Vec<String>>,
    /// The protocols of clients: `http` and `https`; both by default.
    #[arg(long, value_name = "PROTOCOL", num_args = 1.., action = ArgAction::Append)]
    supported_protocols: Option<Vec<String>>,
    /// The group whose origins answer.
    #[arg(long, value_name = "GROUP")]
    origin_group: Option<OriginGroupName>,
    /// How requests go to origins: `match_request` (by default), `http` or `https`.
    #[arg(long, value_name = "PROTOCOL")]
    forwarding_protocol: Option<String>,
    /// With which status requests over HTTP are sent on to HTTPS: 308 (without a value), 301, 302 or 307; 0 for not at all.
    #[arg(long, value_name = "STATUS", num_args = 0..=1, default_missing_value = "308")]
    https_redirect: Option<u16>,
    /// Whether it matches anything; it does, unless this says otherwise.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    enabled: Option<bool>,
    /// Judges it and changes nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Settings {
    fn body(&self) -> Value {
        let mut body = Map::new();
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        add("hosts", self.hosts.as_ref().map(|hosts| json!(hosts)));
        let paths = self.patterns_to_match.as_ref();
        add("paths", paths.map(|paths| json!(paths)));
        let protocols = self.supported_protocols.as_ref();
        add("protocols", protocols.map(|protocols| json!(protocols)));
        let group = self.origin_group.as_ref();
        add("origin_group", group.map(|group| json!(group.as_str())));
        let forwarding = self.forwarding_protocol.as_ref();
        add("forwarding_protocol", forwarding.map(|one| json!(one)));
        let redirect = self.https_redirect;
        let redirect = redirect.map(|status| {
            if status == 0 {
                Value::Null
            } else {
                json!(status)
            }
        });
        add("https_redirect", redirect);
        add("enabled", self.enabled.map(Value::from));
        Value::Object(body)
    }
}

const LIST: [Column; 6] = [
    ("NAME", "/name"),
    ("HOSTS", "/hosts"),
    ("PATHS", "/paths"),
    ("PROTOCOLS", "/protocols"),
    ("ORIGIN GROUP", "/origin_group"),
    ("ENABLED", "/enabled"),
];

const ONE: [Column; 9] = [
    ("name", "/name"),
    ("hosts", "/hosts"),
    ("paths", "/paths"),
    ("protocols", "/protocols"),
    ("origin group", "/origin_group"),
    ("forwarding protocol", "/forwarding_protocol"),
    ("https redirect", "/https_redirect"),
    ("enabled", "/enabled"),
    ("changed", "/changed_time"),
];

impl RouteCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::Create {
                named: Named { name },
                settings,
            } => {
                let before = client
                    .admin_if_found(Method::GET, &format!("/routes/{name}"))
                    .await?;
                let method = if before.is_some() {
                    Method::PATCH
                } else {
                    Method::PUT
                };
                declare(&client, method, &name, &settings, format).await?;
            }
            Action::Update {
                named: Named { name },
                settings,
            } => declare(&client, Method::PATCH, &name, &settings, format).await?,
            Action::Show(Named { name }) => {
                let reply = client
                    .admin(Method::GET, &format!("/routes/{name}"), None)
                    .await?;
                output::one(&reply.body, &ONE, format);
            }
            Action::List => {
                let reply = client.admin(Method::GET, "/routes", None).await?;
                output::list(super::value(&reply.body)?, &LIST, format);
            }
            Action::Delete(Named { name }) => {
                client
                    .admin(Method::DELETE, &format!("/routes/{name}"), None)
                    .await?;
                let deleted = super::deleted(name.as_str());
                output::done(&format!("route {name} deleted"), &deleted, format);
            }
        }
        Ok(())
    }
}

async fn declare(
    client: &Client,
    method: Method,
    name: &RouteName,
    settings: &Settings,
    format: Format,
) -> Result<(), Failure> {
    let query = if settings.dry_run { "?dryRun=true" } else { "" };
    let path = format!("/routes/{name}{query}");
    let body = settings.body();
    let reply = client.admin(method, &path, Some(&body)).await?;
    let change = reply.body["change"].as_str().unwrap_or_default();
    let what = match (settings.dry_run, change) {
        (true, "created") => "would be created",
        (true, "changed") => "would be changed",
        (true, _) => "would stay as it is",
        (false, "unchanged") => "is as it was",
        (false, change) => change,
    };
    let group = reply.body["origin_group"].as_str().unwrap_or_default();
    let sentence = format!("route {name} {what}, to origin group {group}");
    output::done(&sentence, &reply.body, format);
    Ok(())
}
