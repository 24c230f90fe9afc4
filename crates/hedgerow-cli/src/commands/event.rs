//! `hedgerow event`: what became of one event.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value;

use super::ServerOptions;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Events: what became of them.
#[derive(Debug, Args)]
pub struct EventCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the attempts to deliver an event, the oldest first; exits with 1 if none is known.
    Attempts {
        /// The event's id, as it was published.
        #[arg(value_name = "EVENT-ID")]
        event_id: String,
    },
}

const LIST: [Column; 10] = [
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("ATTEMPT", "/attempt"),
    ("ENDED", "/endTime"),
    ("LATENCY MS", "/latencyInMs"),
    ("OUTCOME", "/outcome"),
    ("STATUS", "/httpStatus"),
    ("NEXT ATTEMPT", "/nextAttemptTime"),
    ("GIVEN UP", "/reason"),
    ("DETAIL", "/shownDetail"),
];

impl EventCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let Action::Attempts { event_id } = self.action;
        let path = format!("/events/{}/attempts", in_path(&event_id));
        let answer = client.admin(Method::GET, &path, None).await?.body;
        let mut attempts = super::value(&answer)?.to_vec();
        let is_json = self.server.output == Format::Json;
        if is_json {
            output::json(&answer);
        }
        if attempts.is_empty() {
            let hint = "`hedgerow explain` says whether there is such an event, and who wants it";
            return Err(Failure::new(conclusion(&answer, true)).with_hint(hint));
        }
        if is_json {
            return Ok(());
        }
        for attempt in &mut attempts {
            let detail = ["detail", "responseExcerpt"].map(|member| attempt[member].clone());
            let [of_failure, of_answer] = detail;
            attempt["shownDetail"] = if of_failure.is_null() {
                of_answer
            } else {
                of_failure
            };
        }
        output::list(&attempts, &LIST, Format::Table);
        output::line(&conclusion(&answer, false));
        Ok(())
    }
}

/// What the list says, and what it does not.
fn conclusion(answer: &Value, is_empty: bool) -> String {
    let Some(since) = answer["knownSince"].as_str() else {
        return "no attempts are remembered: the server keeps no history".to_owned();
    };
    let since = output::printable(since);
    if is_empty {
        return format!("no attempt is remembered; attempts since {since} are");
    }
    if answer["isTruncated"] == true {
        return "older attempts are left out".to_owned();
    }
    format!("attempts before {since} are not remembered")
}

/// A text as one part of a path.
pub(super) fn in_path(text: &str) -> String {
    let mut path = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
    }
    path
}

/// A number below 16.
fn hex_digit(number: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(number)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_id_is_one_part_of_a_path() {
        for (id, expect) in [
            ("abc-1_~", "abc-1_~"),
            ("..", "%2E%2E"),
            ("a/b?c#d%e f", "a%2Fb%3Fc%23d%25e%20f"),
            ("\u{e9}", "%C3%A9"),
        ] {
            assert_eq!(in_path(id), expect);
        }
    }

    #[test]
    fn it_says_what_is_not_known() {
        let rows = [
            (json!({ "knownSince": null }), true, "keeps no history"),
            (
                json!({ "knownSince": "T" }),
                true,
                "no attempt is remembered; attempts since T are",
            ),
            (json!({ "knownSince": "T" }), false, "before T"),
            (
                json!({ "knownSince": "T", "isTruncated": true }),
                false,
                "left out",
            ),
        ];
        for (answer, is_empty, part) in rows {
            let said = conclusion(&answer, is_empty);
            assert!(said.contains(part), "{said}");
        }
    }
}
