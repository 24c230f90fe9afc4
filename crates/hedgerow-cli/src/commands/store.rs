//! `hedgerow store`: what is in a data directory that no server uses.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use hedgerow_server::store::{self, CheckReport, StatReport, StoreError};
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::ServerOptions;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// The store: how full a running server's is, and whether the data directory of a stopped one is whole and what fills it.
#[derive(Debug, Args)]
pub struct StoreCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Says how full the store of a running server is, and what it reads and writes.
    Usage {
        #[command(flatten)]
        server: ServerOptions,
    },
    /// Verifies everything, at the disk's speed; exits with 1 if something is damaged.
    Check(Store),
    /// Says what fills the disk: by segment, by topic, and by the subscriptions it is kept for.
    Stat(Store),
}

#[derive(Debug, Args)]
struct Store {
    /// The data directory.
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// The key's file, if the server's setting `secrets.key_file` names one.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// How the answer is shown.
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

const USAGE: [Column; 12] = [
    ("used bytes", "/usedBytes"),
    ("publishing is refused from", "/watermarkBytes"),
    ("is full", "/isFull"),
    ("queued bytes", "/queuedBytes"),
    ("kept of older segments, bytes", "/keptBytes"),
    ("recycled segments", "/recycledSegments"),
    ("cleaned segments", "/cleanedSegments"),
    ("copied events", "/copiedEvents"),
    ("compacted files", "/compactedFiles"),
    ("written bytes since the start", "/writtenBytes"),
    ("read bytes since the start", "/readBytes"),
    ("syncs since the start", "/syncs"),
];
const CHECKED: [Column; 6] = [
    ("SEGMENT", "/number"),
    ("BYTES", "/end"),
    ("GROUPS", "/groups"),
    ("EVENTS", "/events"),
    ("INDEX", "/index"),
    ("PROBLEMS", "/problems"),
];
const SEGMENTS: [Column; 6] = [
    ("SEGMENT", "/number"),
    ("FILE BYTES", "/fileBytes"),
    ("USED BYTES", "/usedBytes"),
    ("EVENTS", "/events"),
    ("EVENT BYTES", "/eventBytes"),
    ("NEEDED BYTES", "/neededBytes"),
];
const TOPICS: [Column; 4] = [
    ("TOPIC", "/name"),
    ("EVENTS", "/events"),
    ("BYTES", "/bytes"),
    ("NEEDED BYTES", "/neededBytes"),
];
const SUBSCRIPTIONS: [Column; 6] = [
    ("EVENT SUBSCRIPTION", "/name"),
    ("TOPIC", "/topic"),
    ("EVENTS", "/events"),
    ("BYTES", "/bytes"),
    ("ONLY FOR IT", "/onlyBytes"),
    ("OLDEST SEGMENT", "/oldestSegment"),
];
/// Subscriptions that a table shows; JSON has all of them.
const SUBSCRIPTIONS_SHOWN: usize = 20;

impl StoreCommand {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::Usage { server } => super::run_client(usage(server)),
            Action::Check(store) => check(&store),
            Action::Stat(store) => {
                let report = store::stat(&store.data, store.key_file.as_deref());
                let report = report.map_err(|error| refused("look at", &error))?;
                show_stat(&report, store.output);
                Ok(())
            }
        }
    }
}

async fn usage(server: ServerOptions) -> Result<(), Failure> {
    let reply = server.client()?.admin(Method::GET, "/store", None).await?;
    output::one(&reply.body, &USAGE, server.output);
    Ok(())
}

fn check(store: &Store) -> Result<(), Failure> {
    let begun = Instant::now();
    let report = store::check(&store.data, store.key_file.as_deref());
    let report = report.map_err(|error| refused("check", &error))?;
    let seconds = begun.elapsed().as_secs_f64();
    show_check(&report, seconds, store.output);
    match report.problems.len() {
        0 => Ok(()),
        count => {
            let noun = if count == 1 { "problem" } else { "problems" };
            let message = format!("{count} {noun} in {}", store.data.display());
            let is_derived = |path: &str| path == "view" || path.starts_with("catalog/");
            let can_be_built = report.problems.iter().all(|found| is_derived(&found.path));
            Err(Failure::new(message).with_hint(if can_be_built {
                "run `hedgerow recover`, which builds the view again, with the files of the catalog; if it says that it cannot, restore \
                 the whole data directory from one backup"
            } else {
                "restore the whole data directory from one backup; an index alone may be removed, and what is missing at the end \
                 of the log alone is given up by `hedgerow recover --accept-loss`"
            }))
        }
    }
}

fn show_check(report: &CheckReport, seconds: f64, format: Format) {
    let megabytes = report.read_bytes as f64 / 1e6;
    if format == Format::Json {
        let mut value = to_value(report);
        value["seconds"] = json!(seconds);
        output::json(&value);
        return;
    }
    let segments = items(&report.segments);
    output::list(&segments, &CHECKED, format);
    for note in &report.notes {
        output::line(&format!("note: {}", output::printable(&note.to_string())));
    }
    for problem in &report.problems {
        output::line(&format!(
            "problem: {}",
            output::printable(&problem.to_string())
        ));
    }
    output::line(&format!(
        "the log ends at {}; {megabytes:.1} MB read in {seconds:.1} s, {:.0} MB/s",
        report.end,
        megabytes / seconds.max(1e-9)
    ));
    if report.is_healthy() {
        output::line("the store is whole");
    }
}

fn show_stat(report: &StatReport, format: Format) {
    if format == Format::Json {
        output::json(&to_value(report));
        return;
    }
    output::list(&items(&report.segments), &SEGMENTS, format);
    output::line("");
    output::line(&format!(
        "kept of older segments: {} files, {} bytes",
        report.kept_files, report.kept_bytes
    ));
    output::line("");
    output::list(&items(&report.topics), &TOPICS, format);
    output::line("");
    let shown = report.subscriptions.len().min(SUBSCRIPTIONS_SHOWN);
    output::list(
        &items(&report.subscriptions[..shown]),
        &SUBSCRIPTIONS,
        format,
    );
    let rest = report.subscriptions.len() - shown;
    if rest > 0 {
        output::line(&format!("and {rest} more; --output json shows all"));
    }
}

fn refused(doing: &str, error: &StoreError) -> Failure {
    Failure::because(format!("cannot {doing} the store"), error)
}

fn items<T: Serialize>(list: &[T]) -> Vec<Value> {
    list.iter().map(to_value).collect()
}

fn to_value<T: Serialize>(report: &T) -> Value {
    serde_json::to_value(report).expect("reports are plain values with text keys")
}
