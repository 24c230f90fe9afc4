//! The commands, one file for each noun, and what those that talk to a server have in common.

pub mod apply;
pub mod config;
pub mod dead_letter;
pub mod dev;
pub mod domain;
pub mod domain_topic;
pub mod event;
pub mod event_subscription;
pub mod explain;
pub mod origin_group;
mod pages;
pub mod plan;
pub mod probe;
pub mod publish;
pub mod recover;
pub mod route;
mod schema;
pub mod serve;
mod source;
pub mod store;
pub mod terminal_record;
pub mod token;
pub mod topic;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, ServerUrl};
use crate::failure::Failure;
use crate::output::{self, Format};

/// How long what is left over gets to end once a server has stopped: by then it is only what nobody waits for.
const LEFT_OVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a server to its end, on all cores.
fn run_to_end(server: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::because("cannot start", &error))?;
    let ended = runtime.block_on(server);
    runtime.shutdown_timeout(LEFT_OVER_TIMEOUT);
    ended
}

/// Runs a command that asks a server.
pub fn run_client(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::because("cannot start", &error))?;
    let ended = runtime.block_on(command);
    // A look-up of a name that takes too long cannot be taken back.
    runtime.shutdown_background();
    ended
}

/// Which server a command talks to, with what token, and how it shows the answer.
#[derive(Debug, Args)]
pub struct ServerOptions {
    /// Where the server is.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "HEDGEROW_SERVER",
        default_value = "http://127.0.0.1:8080",
        help_heading = "Server"
    )]
    server: ServerUrl,
    /// The admin token; otherwise that of --token-file, of `HEDGEROW_TOKEN`, or of ./data/admin-token.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        conflicts_with = "token_file",
        allow_hyphen_values = true,
        help_heading = "Server"
    )]
    token: Option<String>,
    /// A file that holds the admin token.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// Certificates in PEM form of the authorities to trust when the server is at an https address; the system's by
    /// default.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HEDGEROW_CA_FILE",
        help_heading = "Server"
    )]
    ca_file: Option<PathBuf>,
    /// How the answer is shown.
    #[arg(
        long,
        short,
        global = true,
        value_name = "FORMAT",
        default_value = "table",
        help_heading = "Server"
    )]
    pub output: Format,
}

/// Where a server that was started here keeps its token.
const TOKEN_FILE: &str = "data/admin-token";
const TOKEN_VARIABLE: &str = "HEDGEROW_TOKEN";

impl ServerOptions {
    /// A client with a token, if there is one.
    pub fn client(&self) -> Result<Client, Failure> {
        let client = Client::new(self.server.clone(), self.find_token()?);
        Ok(client.trusting(self.ca_file.clone()))
    }

    /// A client without a token.
    pub fn anonymous_client(&self) -> Client {
        Client::new(self.server.clone(), None).trusting(self.ca_file.clone())
    }

    fn find_token(&self) -> Result<Option<String>, Failure> {
        if let Some(token) = &self.token {
            return Ok(Some(token.clone()));
        }
        if let Some(path) = &self.token_file {
            return read_token(path).map(Some);
        }
        if let Some(token) = std::env::var(TOKEN_VARIABLE)
            .ok()
            .filter(|token| !token.is_empty())
        {
            return Ok(Some(token));
        }
        let path = Path::new(TOKEN_FILE);
        if path.exists() {
            read_token(path).map(Some)
        } else {
            Ok(None)
        }
    }
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let content = std::fs::read(path).map_err(|error| {
        Failure::because(
            format!("cannot read the admin token from {}", path.display()),
            &error,
        )
    })?;
    let token = str::from_utf8(&content).unwrap_or_default().trim();
    if token.is_empty() {
        return Err(Failure::new(format!(
            "there is no admin token in {}",
            path.display()
        )));
    }
    Ok(token.to_owned())
}

/// What programs are told of something that was deleted.
fn deleted(name: &str) -> Value {
    json!({ "name": name, "isDeleted": true })
}

/// The warnings of an answer, for standard error: what is declared does not do what it looks like.
fn show_warnings(answer: &Value) {
    let warnings = answer.get("warnings").and_then(Value::as_array);
    for warning in warnings.into_iter().flatten() {
        let text = |name: &str| warning[name].as_str().unwrap_or_default();
        let warning = format!("warning: {}: {}", text("field"), text("message"));
        output::error_line(&output::printable(&warning));
    }
}

/// The items of a list that the server answered with.
fn value(body: &Value) -> Result<&[Value], Failure> {
    let items = body.get("value").and_then(Value::as_array);
    items.map(Vec::as_slice).ok_or_else(|| {
        Failure::new("the answer is no list")
            .with_hint("is there a Hedgerow server at this address?")
    })
}
