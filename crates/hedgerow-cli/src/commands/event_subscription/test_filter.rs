//! `hedgerow event-subscription test-filter`: whether a filter of a topic wants a sample event, and what each clause says
//! (ED-312).

use std::io::Read as _;

use clap::Args;
use hedgerow_core::name::SubscriptionName;
use http::Method;
use serde_json::{Value, json};

use super::Source;
use super::settings::Settings;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// A filter, and the event that it is tried on.
#[derive(Debug, Args)]
pub(super) struct TestFilter {
    #[command(flatten)]
    source: Source,
    /// The subscription whose filter is tried; without it, the filter that the options of `create` say.
    #[arg(long, short = 'n', value_name = "NAME")]
    name: Option<SubscriptionName>,
    /// A file with the event as it would be published, as JSON; `-` is the standard input.
    #[arg(long, value_name = "FILE")]
    event: String,
    #[command(flatten)]
    settings: Settings,
}

const CLAUSES: [Column; 3] = [
    ("CLAUSE", "/clause"),
    ("HOLDS", "/holds"),
    ("WHY", "/message"),
];

impl TestFilter {
    /// Runs the command. Fails unless the event is wanted, so that scripts can ask.
    pub async fn run(self, client: &Client, format: Format) -> Result<(), Failure> {
        let event = read(&self.event)?;
        let declared = self.settings.declare(None)?;
        let members = declared.as_object().into_iter().flatten();
        if let Some((other, _)) = members.into_iter().find(|(name, _)| *name != "filter") {
            let message = format!("only options of the filter are tried, and {other} is none");
            return Err(Failure::new(message));
        }
        let body = json!({
            "event": event,
            "filter": declared.get("filter"),
            "eventSubscription": self.name.as_ref().map(SubscriptionName::as_str),
        });
        let path = format!("{}/testFilter", self.source.topic.path);
        let answer = client.admin(Method::POST, &path, Some(&body)).await?.body;
        match format {
            Format::Json => output::json(&answer),
            Format::Table => {
                let clauses = answer["clauses"].as_array().map_or(&[][..], Vec::as_slice);
                if !clauses.is_empty() {
                    output::list(clauses, &CLAUSES, format);
                }
                if answer["matched"] == true {
                    output::line(if clauses.is_empty() {
                        "the event is wanted: the filter has no clause"
                    } else {
                        "the event is wanted"
                    });
                }
            }
        }
        if answer["matched"] == true {
            return Ok(());
        }
        let clause = answer["failedClause"].as_str().unwrap_or_default();
        Err(Failure::new(format!(
            "the event is not wanted: {} does not hold",
            output::printable(clause)
        )))
    }
}

/// The JSON of a file, or of the standard input.
pub(super) fn read(path: &str) -> Result<Value, Failure> {
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    read.map_err(|error| Failure::because(format!("cannot read {path}"), &error))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::because(format!("{path} is no JSON"), &error))
}
