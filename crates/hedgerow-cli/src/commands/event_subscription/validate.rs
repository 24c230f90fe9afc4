//! `hedgerow event-subscription validate`: tries the handshake with an endpoint, and declares nothing (ED-312).

use clap::Args;
use hedgerow_core::name::SubscriptionName;
use http::Method;
use serde_json::{Value, json};

use super::Source;
use super::settings::Settings;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Which endpoint, as `create` takes it.
#[derive(Debug, Args)]
pub struct Validate {
    #[command(flatten)]
    source: Source,
    /// The subscription's name, which the endpoint is told.
    #[arg(long, short = 'n', value_name = "NAME")]
    name: Option<SubscriptionName>,
    /// The URL that events would be posted to.
    #[arg(long, value_name = "URL")]
    endpoint: String,
    #[command(flatten)]
    settings: Settings,
}

const STEPS: [Column; 3] = [
    ("STEP", "/step"),
    ("OUTCOME", "/outcome"),
    ("WHY", "/message"),
];

const EXCHANGE: [Column; 5] = [
    ("endpoint", "/endpointBaseUrl"),
    ("handshake", "/handshake"),
    ("would be", "/provisioningState"),
    ("status", "/validation/status"),
    ("body", "/validation/body"),
];

impl Validate {
    /// Runs the command.
    pub async fn run(self, client: &Client, format: Format) -> Result<(), Failure> {
        let mut body = self.settings.declare(Some(self.endpoint))?;
        if let Some(name) = &self.name {
            body["name"] = json!(name.as_str());
        }
        let path = format!("{}/validateEndpoint", self.source.topic.path);
        let answer = client.admin(Method::POST, &path, Some(&body)).await?.body;
        match format {
            Format::Json => output::json(&answer),
            Format::Table => {
                let steps = answer["steps"].as_array().map_or(&[][..], Vec::as_slice);
                output::list(steps, &STEPS, format);
                output::line("");
                output::one(&answer, &EXCHANGE, format);
            }
        }
        match answer["provisioningState"].as_str() {
            Some("Succeeded") => Ok(()),
            Some("AwaitingManualAction") => Err(failed("does not consent by itself", &answer)
                .with_hint(
                    "a subscription would wait for somebody to open the URL that its endpoint is sent",
                )),
            _ => Err(failed("does not consent", &answer)),
        }
    }
}

fn failed(what: &str, answer: &Value) -> Failure {
    let reason = answer.pointer("/validation/message");
    let reason = reason.and_then(Value::as_str).unwrap_or_default();
    Failure::new(format!(
        "the endpoint {what}: {}",
        output::printable(reason)
    ))
}
