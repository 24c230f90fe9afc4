//! `hedgerow apply`: declares topics and event subscriptions as files say, against a running server; and what `serve --apply` does
//! with the same files.

use std::path::PathBuf;

use clap::Args;
use hedgerow_server::apply::files::GridFiles;
use hedgerow_server::apply::{Applied, Applier, ApplyError, Fault};
use http::{Method, StatusCode};
use serde_json::Value;

use super::ServerOptions;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Declares what files say: all of it, or nothing if anything in them is wrong. What is there as it should be is left alone;
/// nothing is deleted.
#[derive(Debug, Args)]
pub struct ApplyCommand {
    /// TOML with `[[topics]]` and `[[eventSubscriptions]]`, whose members are those of the API; several are taken as one.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerOptions,
}

impl ApplyCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let files = read(&self.files)?;
        let client = self.server.client()?;
        let declarations = files.declarations();
        let (status, body) = client
            .admin_unjudged(Method::POST, "/apply", &declarations)
            .await?;
        if status == StatusCode::OK {
            return show(&body, self.server.output);
        }
        let details = body.pointer("/error/details").and_then(Value::as_array);
        let Some(details) = details.filter(|details| !details.is_empty()) else {
            return Err(crate::client::refusal(status, &body));
        };
        let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
        // What was declared all the same has no place.
        for done in details.iter().filter(|detail| detail["target"].is_null()) {
            output::line(&output::printable(&text(done, "message")));
        }
        let faults = details.iter().filter(|detail| detail["target"].is_string());
        let faults = faults.map(|detail| Fault {
            path: text(detail, "target"),
            message: text(detail, "message"),
        });
        Err(wrong(&files, &faults.collect::<Vec<_>>()))
    }
}

/// Reads the files, before anything is started or asked.
pub fn read(paths: &[PathBuf]) -> Result<GridFiles, Failure> {
    GridFiles::read(paths)
        .map_err(|problems| Failure::new(format!("nothing was declared:\n{}", problems.join("\n"))))
}

/// Declares what the files say in the server of this process, and says what was done. What could not be declared although it
/// is right, such as an endpoint that does not answer now, is told and keeps nobody from starting.
pub async fn begin_with(files: &GridFiles, applier: &Applier) -> Result<(), Failure> {
    let say = |done: &[Applied]| {
        for applied in done {
            output::line(&applied.to_string());
        }
    };
    match applier.apply(&files.declarations()).await {
        Ok(done) => say(&done),
        Err(ApplyError::Incomplete { done, failed }) => {
            say(&done);
            for fault in &failed {
                let line = output::printable(&files.locate(fault));
                output::error_line(&format!("not declared: {line}"));
            }
        }
        Err(ApplyError::Invalid(faults)) => return Err(wrong(files, &faults)),
        Err(ApplyError::Unavailable(message)) => {
            return Err(Failure::new(format!("nothing was declared: {message}")));
        }
    }
    Ok(())
}

fn wrong(files: &GridFiles, faults: &[Fault]) -> Failure {
    let lines: Vec<String> = faults
        .iter()
        .map(|fault| output::printable(&files.locate(fault)))
        .collect();
    Failure::new(format!(
        "not everything was declared:\n{}",
        lines.join("\n")
    ))
    .with_hint("correct the files and apply them again; what is declared already stays as it is")
}

fn show(body: &Value, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        output::json(body);
        return Ok(());
    }
    for applied in super::value(body)? {
        let text = |name: &str| applied[name].as_str().unwrap_or_default();
        let line = format!("{} {}", text("what"), text("change"));
        output::line(&output::printable(&line));
    }
    Ok(())
}
