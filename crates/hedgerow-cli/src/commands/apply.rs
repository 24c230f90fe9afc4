//! `hedgerow apply`: declares topics and event subscriptions as files say, against a running server; and what `serve --apply` does
//! with the same files.

use std::path::PathBuf;

use clap::Args;
use hedgerow_server::apply::files::GridFiles;
use hedgerow_server::apply::{Answered, Applier, ApplyError, Asked, Begun, Fault, still_to_come};
use http::{Method, StatusCode};
use serde_json::Value;

use super::ServerOptions;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Declares what files say: all of it, or nothing if anything in them is wrong. What is there as it should be is left alone;
/// nothing is deleted.
///
/// Waits for the endpoints of new subscriptions, as long as the server's `validation.answer_wait` says (35 s) for all of them
/// together, and prints a line for each topic and subscription. Those that take longer are asked on. Exits with 3 if all of it
/// is declared, and something is not in force because an endpoint has not consented yet.
#[derive(Debug, Args)]
pub struct ApplyCommand {
    /// TOML with `[[topics]]`, `[[eventSubscriptions]]`, `[[originGroups]]` and `[[routes]]`, whose members are those of the API; several are taken as one.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerOptions,
}

impl ApplyCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let files = read(&self.files)?;
        tell_if_empty(&files);
        let client = self.server.client()?;
        let declarations = files.declarations();
        let (status, body) = client
            .admin_unjudged(Method::POST, "/apply", &declarations)
            .await?;
        if status == StatusCode::OK {
            return show(&body, &files, self.server.output);
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
        let located = details.iter().filter(|detail| detail["target"].is_string());
        let located = located.map(|detail| {
            let (path, message) = (text(detail, "target"), text(detail, "message"));
            (detail["code"] == "Warning", Fault { path, message })
        });
        let (warnings, faults): (Vec<_>, Vec<_>) = located.partition(|(is_warning, _)| *is_warning);
        for (_, warning) in &warnings {
            warn(&files, warning);
        }
        let faults: Vec<Fault> = faults.into_iter().map(|(_, fault)| fault).collect();
        Err(match status {
            StatusCode::CONFLICT => incomplete(&files, &faults),
            _ => wrong(&files, &faults),
        })
    }
}

/// Reads the files, before anything is started or asked.
pub fn read(paths: &[PathBuf]) -> Result<GridFiles, Failure> {
    GridFiles::read(paths)
        .map_err(|problems| Failure::new(format!("nothing was declared:\n{}", problems.join("\n"))))
}

/// Says that nothing is asked for: more often a wrong file than what was meant.
fn tell_if_empty(files: &GridFiles) {
    let declarations = files.declarations();
    let lists = declarations.as_object().into_iter().flatten();
    let mut lists = lists.filter_map(|(_, list)| list.as_array());
    if lists.all(Vec::is_empty) {
        output::error_line(
            "warning: the files declare nothing: no topics, event subscriptions, origin groups or routes",
        );
    }
}

/// Declares what the files say in the server of this process, and says what was done. What could not be declared although it
/// is right is told and keeps nobody from starting. Endpoints are still being asked then: what they came to is for
/// [`follow`].
pub async fn begin_with(files: &GridFiles, applier: &Applier) -> Result<Vec<Asked>, Failure> {
    let begun = match applier.begin(&files.declarations()).await {
        Ok(begun) => begun,
        Err(ApplyError::Invalid(faults)) => return Err(wrong(files, &faults)),
        Err(ApplyError::Unavailable(message)) => {
            return Err(Failure::new(format!("nothing was declared: {message}")));
        }
        Err(ApplyError::Incomplete {
            done,
            failed,
            warnings,
        }) => Begun {
            done,
            failed,
            warnings,
            asked: Vec::new(),
        },
    };
    tell_if_empty(files);
    for applied in &begun.done {
        // Endpoints that are being asked are told of when they have answered.
        output::line(&applied.told_at_once());
        for warning in &applied.warnings {
            warn(files, warning);
        }
    }
    for warning in &begun.warnings {
        warn(files, warning);
    }
    for fault in &begun.failed {
        let line = output::printable(&files.locate(fault));
        output::error_line(&format!("not declared: {line}"));
    }
    Ok(begun.asked)
}

/// Says what each endpoint that is being asked comes to, until all have answered or the server ends.
pub async fn follow(files: &GridFiles, applier: &Applier, asked: Vec<Asked>) {
    let tell = |asked: &Asked, answered: Answered| match answered {
        Answered::Consented => output::line(&format!("{}: its endpoint consents", asked.what)),
        Answered::ByHand { until } => output::line(&format!(
            "{}: its endpoint answers without consent; open the URL that it was sent before {until}",
            asked.what
        )),
        Answered::Failed(message) => {
            let path = asked.path.clone();
            let line = output::printable(&files.locate(&Fault { path, message }));
            output::error_line(&format!("not in force: {line}"));
        }
    };
    applier.follow(asked, tell).await;
}

/// What is wrong with the files; nothing was declared.
fn wrong(files: &GridFiles, faults: &[Fault]) -> Failure {
    Failure::new(format!("nothing was declared:\n{}", located(files, faults)))
        .with_hint("correct the files, and apply them again")
}

/// What of files that are right is not in force.
fn incomplete(files: &GridFiles, faults: &[Fault]) -> Failure {
    let message = format!("not everything is in force:\n{}", located(files, faults));
    Failure::new(message).with_hint(
        "mend the causes and apply the files again: what is in force stays as it is, and endpoints that did not consent \
         are asked again",
    )
}

fn located(files: &GridFiles, faults: &[Fault]) -> String {
    let lines = faults
        .iter()
        .map(|fault| output::printable(&files.locate(fault)));
    lines.collect::<Vec<_>>().join("\n")
}

fn show(body: &Value, files: &GridFiles, format: Format) -> Result<(), Failure> {
    let applied = super::value(body)?;
    if format == Format::Json {
        output::json(body);
        return all_in_force(applied);
    }
    for applied in applied {
        let text = |name: &str| applied[name].as_str().unwrap_or_default();
        let more = still_to_come(text("provisioningState"));
        let line = format!("{} {}{more}", text("what"), text("change"));
        output::line(&output::printable(&line));
        let warnings = applied["warnings"].as_array().into_iter().flatten();
        for warning in warnings {
            let text = |name: &str| warning[name].as_str().unwrap_or_default().to_owned();
            let (path, message) = (text("field"), text("message"));
            warn(files, &Fault { path, message });
        }
    }
    all_in_force(applied)
}

fn all_in_force(applied: &[Value]) -> Result<(), Failure> {
    let waiting = applied.iter().filter(|applied| {
        let state = applied["provisioningState"].as_str();
        !still_to_come(state.unwrap_or_default()).is_empty()
    });
    match waiting.count() {
        0 => Ok(()),
        count => Err(Failure::not_in_force(format!(
            "{count} of {} are not in force before an endpoint consents",
            applied.len()
        ))),
    }
}

/// Tells what was declared and will surprise.
fn warn(files: &GridFiles, warning: &Fault) {
    let line = output::printable(&files.locate(warning));
    output::error_line(&format!("warning: {line}"));
}
