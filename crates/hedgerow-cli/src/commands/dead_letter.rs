//! `hedgerow dead-letter`: what was not delivered: what waits to be written, what was written, and delivering it again.

mod replay;

use clap::{Args, Subcommand};
use hedgerow_core::name::SubscriptionName;
use http::Method;
use serde_json::Value;

use self::replay::{Replay, Replays};
use super::ServerOptions;
use super::pages::{self, Which};
use super::source::SourceTopic;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Dead letters: what was not delivered, waiting to be written to its dead-letter directory, and written there.
#[derive(Debug, Args)]
pub struct DeadLetterCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists those that wait, by subscription and time; with --written the files of one subscription. `terminal-record list`
    /// says what became of each event.
    List {
        #[command(flatten)]
        which: Which,
        /// The files that were written for a subscription, in the order of time, instead.
        #[arg(long, requires = "event_subscription")]
        written: bool,
    },
    /// Shows what stands in a file.
    Show {
        /// Its UUID, or its whole name.
        #[arg(value_name = "BLOB")]
        blob: String,
        #[command(flatten)]
        of: Of,
    },
    /// Delivers dead letters of a subscription again: all that were written, or those that are asked for. A replay goes on beside
    /// everything else until it has come to its end, over restarts too.
    Replay(Box<Replay>),
    /// Lists replays, or shows, stops, resumes or cancels one.
    Replays(Replays),
}

/// Whose dead letters.
#[derive(Debug, Args)]
struct Of {
    /// The topic, the domain, or the topic of a domain.
    #[arg(long, value_name = "TOPIC")]
    topic: SourceTopic,
    /// The subscription.
    #[arg(long, value_name = "NAME")]
    event_subscription: SubscriptionName,
}

impl Of {
    fn path(&self) -> String {
        let Self {
            topic,
            event_subscription,
        } = self;
        let topic = super::event::in_path(&topic.name);
        format!("/topics/{topic}/eventSubscriptions/{event_subscription}")
    }
}

const LIST: [Column; 8] = [
    ("EVENT ID", "/eventId"),
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("REASON", "/reason"),
    ("ATTEMPTS", "/deliveryAttempts"),
    ("LAST OUTCOME", "/lastDeliveryOutcome"),
    ("FAILED WRITES", "/failedWrites"),
    ("WRITE DUE", "/writeTime"),
];

const WRITTEN: [Column; 4] = [
    ("BLOB", "/blob"),
    ("WRITTEN", "/writtenTime"),
    ("BYTES", "/bytes"),
    ("NAME", "/name"),
];

/// Columns of a record; what stands in capitals in one schema is in lower case in another.
const RECORDS: [Column; 7] = [
    ("EVENT ID", "/id"),
    ("EVENT TYPE", "/shownType"),
    ("SUBJECT", "/subject"),
    ("REASON", "/shownReason"),
    ("ATTEMPTS", "/shownAttempts"),
    ("LAST OUTCOME", "/shownOutcome"),
    ("PUBLISHED", "/shownPublished"),
];

impl DeadLetterCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let format = self.server.output;
        match self.action {
            Action::List {
                which,
                written: false,
            } => {
                let letters = pages::list(&client, "/deadLetters", &which).await?;
                output::list(&letters, &LIST, format);
            }
            Action::List { which, .. } => {
                let blobs = pages::written(&client, &which).await?;
                output::list(&blobs, &WRITTEN, format);
            }
            Action::Show { blob, of } => show(&client, &blob, &of, format).await?,
            Action::Replay(replay) => replay.run(&client, format).await?,
            Action::Replays(replays) => replays.run(&client, format).await?,
        }
        Ok(())
    }
}

async fn show(client: &Client, blob: &str, of: &Of, format: Format) -> Result<(), Failure> {
    let path = format!("{}/deadLetters/{}", of.path(), super::event::in_path(blob));
    let answer = client.admin(Method::GET, &path, None).await?.body;
    if format == Format::Json {
        output::json(&answer);
        return Ok(());
    }
    let records = answer["records"].as_array().map_or(&[][..], Vec::as_slice);
    let shown: Vec<Value> = records.iter().map(shown).collect();
    output::list(&shown, &RECORDS, format);
    let name = answer["name"].as_str().unwrap_or_default();
    let written = answer["writtenTime"].as_str().unwrap_or_default();
    output::line(&format!("written {written} as {}", output::printable(name)));
    Ok(())
}

fn shown(record: &Value) -> Value {
    let mut shown = record.clone();
    for (name, spellings) in [
        ("shownType", ["eventType", "type"]),
        ("shownReason", ["deadLetterReason", "deadletterreason"]),
        ("shownAttempts", ["deliveryAttempts", "deliveryattempts"]),
        (
            "shownOutcome",
            ["lastDeliveryOutcome", "lastdeliveryoutcome"],
        ),
        ("shownPublished", ["publishTime", "publishtime"]),
    ] {
        let mut found = spellings
            .iter()
            .filter_map(|spelling| record.get(*spelling));
        shown[name] = found.next().cloned().unwrap_or_default();
    }
    shown
}
