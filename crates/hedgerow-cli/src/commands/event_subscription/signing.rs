//! `event-subscription rotate-signing-secret`: a new secret for the signatures of what is sent (ED-142).

use clap::Args;
use hedgerow_core::limits;
use http::Method;
use serde_json::json;

use super::Place;
use super::settings::bounded;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Format};

/// The secret of a subscription, anew.
#[derive(Debug, Args)]
pub(super) struct Rotate {
    #[command(flatten)]
    place: Place,
    /// A secret that exists elsewhere, `whsec_` and base64; without it, one is drawn.
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
    /// Minutes for which the present secret holds besides, up to 10080; 1440 by default, and 0 for not at all.
    #[arg(long, value_name = "MINUTES", allow_negative_numbers = true, value_parser = minutes)]
    previous_valid_minutes: Option<u32>,
}

impl Rotate {
    /// Runs the command.
    pub async fn run(self, client: &Client, format: Format) -> Result<(), Failure> {
        let body = json!({
            "secret": self.secret,
            "previousSecretValidMinutes": self.previous_valid_minutes,
        });
        let path = format!("{}/rotateSigningSecret", self.place.path());
        let reply = client.admin(Method::POST, &path, Some(&body)).await?.body;
        let secret = reply["secret"].as_str().unwrap_or_default();
        let until = reply["previousSecretValidUntil"].as_str();
        let until = until.map_or(String::new(), |until| {
            format!("\nthe one before it holds until {until}")
        });
        let sentence = format!("{secret}\nis shown this once; give it to the receiver{until}");
        output::done(&sentence, &reply, format);
        Ok(())
    }
}

fn minutes(text: &str) -> Result<u32, String> {
    bounded(text, &limits::PREVIOUS_SECRET_MINUTES)
}
