//! `hedgerow dead-letter replay` and `replays`: delivering dead letters again, and how far that has come (ED-265).

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::Of;
use crate::client::Client;
use crate::commands::event_subscription::advanced_filter::AdvancedFilters;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// How often `--wait` looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Which dead letters, to whom, and how fast.
#[derive(Debug, Args)]
pub(super) struct Replay {
    #[command(flatten)]
    of: Of,
    /// Only those in this file: its UUID, or its whole name.
    #[arg(long, value_name = "BLOB")]
    blob: Option<String>,
    /// Only those that were written from this time on, as in 2030-01-02T03:04:05Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only those that were written before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only those that were given up for one of these reasons.
    #[arg(long, value_name = "REASON", num_args = 1.., action = ArgAction::Append)]
    reason: Option<Vec<String>>,
    /// Only events with one of these ids.
    #[arg(long, value_name = "ID", num_args = 1.., action = ArgAction::Append, allow_hyphen_values = true)]
    event_id: Option<Vec<String>>,
    /// Only events of these types.
    #[arg(long, value_name = "TYPE", num_args = 1.., action = ArgAction::Append)]
    included_event_types: Option<Vec<String>>,
    /// Only events whose subject begins so.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    subject_begins_with: Option<String>,
    /// Only events whose subject ends so.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    subject_ends_with: Option<String>,
    #[command(flatten)]
    advanced_filters: AdvancedFilters,
    /// Who gets them: this subscription only, or whoever wants them of the topic.
    #[arg(long, value_name = "TARGET", default_value = "subscription")]
    target: Target,
    /// Counts them, and delivers nothing.
    #[arg(long)]
    dry_run: bool,
    /// So many a second at most, 1 to 5000; 100 by default.
    #[arg(long, value_name = "COUNT")]
    events_per_second: Option<u32>,
    /// Waits until it has come to its end.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Target {
    Subscription,
    Topic,
}

/// Replays that there are.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct Replays {
    /// Shows this one.
    #[arg(long, value_name = "ID")]
    show: Option<u32>,
    /// Stops this one after its step.
    #[arg(long, value_name = "ID")]
    stop: Option<u32>,
    /// Lets this one go on where it stood.
    #[arg(long, value_name = "ID")]
    resume: Option<u32>,
    /// Ends this one for good after its step, running or stopped.
    #[arg(long, value_name = "ID")]
    cancel: Option<u32>,
}

const LIST: [Column; 10] = [
    ("ID", "/id"),
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("STATE", "/state"),
    ("DRY RUN", "/dryRun"),
    ("REPLAYED", "/progress/replayed"),
    ("SKIPPED", "/progress/skipped"),
    ("UNREADABLE", "/progress/unreadable"),
    ("CREATED", "/createdTime"),
    ("PROBLEM", "/problem"),
];

const ONE: [Column; 21] = [
    ("id", "/id"),
    ("topic", "/topic"),
    ("event subscription", "/eventSubscription"),
    ("state", "/state"),
    ("problem", "/problem"),
    ("blobs", "/progress/blobs"),
    ("replayed", "/progress/replayed"),
    ("skipped", "/progress/skipped"),
    ("unreadable", "/progress/unreadable"),
    ("newest blob", "/progress/blob"),
    ("only blob", "/blob"),
    ("from", "/from"),
    ("to", "/to"),
    ("reasons", "/deadLetterReasons"),
    ("event ids", "/eventIds"),
    ("filter", "/filter"),
    ("target", "/target"),
    ("dry run", "/dryRun"),
    ("events per second", "/eventsPerSecond"),
    ("created", "/createdTime"),
    ("ended", "/endedTime"),
];

impl Replay {
    pub(super) async fn run(&self, client: &Client, format: Format) -> Result<(), Failure> {
        let path = format!("{}/replays", self.of.path());
        let body = self.body()?;
        let begun = client.admin(Method::POST, &path, Some(&body)).await?.body;
        let id = begun["id"].as_u64().unwrap_or_default();
        if !self.wait {
            let sentence = format!(
                "replay {id} begun; `hedgerow dead-letter replays --show {id}` tells how far it has come"
            );
            output::done(&sentence, &begun, format);
            return Ok(());
        }
        let path = format!("/replays/{id}");
        let mut told = Value::Null;
        let ended = loop {
            let replay = client.admin(Method::GET, &path, None).await?.body;
            if replay["state"] != "Running" {
                break replay;
            }
            if replay["problem"] != told && replay["problem"].is_string() {
                let problem = replay["problem"].as_str().unwrap_or_default();
                output::error_line(&format!("it waits: {}", output::printable(problem)));
            }
            told = replay["problem"].clone();
            tokio::time::sleep(LOOK_INTERVAL).await;
        };
        output::done(&conclusion(&ended), &ended, format);
        Ok(())
    }

    fn body(&self) -> Result<Value, Failure> {
        let mut filter = json!({});
        if let Some(types) = &self.included_event_types {
            filter["includedEventTypes"] = json!(types);
        }
        if let Some(text) = &self.subject_begins_with {
            filter["subjectBeginsWith"] = json!(text);
        }
        if let Some(text) = &self.subject_ends_with {
            filter["subjectEndsWith"] = json!(text);
        }
        if let Some(filters) = self.advanced_filters.to_json()? {
            filter["advancedFilters"] = filters;
        }
        Ok(json!({
            "blob": self.blob,
            "from": self.from,
            "to": self.to,
            "filter": filter,
            "deadLetterReasons": self.reason,
            "eventIds": self.event_id,
            "target": match self.target {
                Target::Subscription => "EventSubscription",
                Target::Topic => "Topic",
            },
            "dryRun": self.dry_run,
            "eventsPerSecond": self.events_per_second,
        }))
    }
}

fn conclusion(replay: &Value) -> String {
    let count = |name: &str| replay["progress"][name].as_u64().unwrap_or_default();
    let (id, state) = (&replay["id"], replay["state"].as_str().unwrap_or_default());
    let what = if replay["dryRun"] == true {
        "would be replayed"
    } else {
        "replayed"
    };
    format!(
        "replay {id} {}: {} {what}, {} not asked for, {} unreadable, in {} files",
        state.to_lowercase(),
        count("replayed"),
        count("skipped"),
        count("unreadable"),
        count("blobs"),
    )
}

impl Replays {
    pub(super) async fn run(&self, client: &Client, format: Format) -> Result<(), Failure> {
        let (method, path) = match (self.show, self.stop, self.resume, self.cancel) {
            (Some(id), ..) => (Method::GET, format!("/replays/{id}")),
            (_, Some(id), ..) => (Method::POST, format!("/replays/{id}/stop")),
            (_, _, Some(id), _) => (Method::POST, format!("/replays/{id}/resume")),
            (.., Some(id)) => (Method::POST, format!("/replays/{id}/cancel")),
            (None, None, None, None) => {
                let reply = client.admin(Method::GET, "/replays", None).await?;
                output::list(crate::commands::value(&reply.body)?, &LIST, format);
                return Ok(());
            }
        };
        let replay = client.admin(method, &path, None).await?.body;
        output::one(&replay, &ONE, format);
        Ok(())
    }
}
