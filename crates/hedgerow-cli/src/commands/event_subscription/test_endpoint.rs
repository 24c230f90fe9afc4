//! `hedgerow event-subscription test-endpoint`: the handshake with an endpoint and one test event, with all that was exchanged
//! (ED-312). Declares and stores nothing.

use std::time::Duration;

use clap::Args;
use hedgerow_core::name::SubscriptionName;
use http::Method;
use serde_json::{Value, json};

use super::Source;
use super::settings::Settings;
use super::test_filter::read;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, Format, printable};

/// The server waits for the handshake, for an answer as long as a subscription may declare (300 s), and for its turn.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(400);

/// Which endpoint, and with which event.
#[derive(Debug, Args)]
pub(super) struct TestEndpoint {
    #[command(flatten)]
    source: Source,
    /// The subscription that is tested as it is declared; with `--endpoint`, the name that the endpoint is told.
    #[arg(
        long,
        short = 'n',
        value_name = "NAME",
        required_unless_present = "endpoint"
    )]
    name: Option<SubscriptionName>,
    /// The URL that events would be posted to, if it is not declared yet; the options of `create` go with it.
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// A file with the test event as it would be published, as JSON; `-` is the standard input. Without it, one is made up.
    #[arg(long, value_name = "FILE")]
    event: Option<String>,
    #[command(flatten)]
    settings: Settings,
}

impl TestEndpoint {
    /// Runs the command. Fails unless the event is delivered, so that scripts can ask.
    pub async fn run(self, client: Client, format: Format) -> Result<(), Failure> {
        let event = self.event.as_deref().map(read).transpose()?;
        let is_declared = self.endpoint.is_none();
        let mut body = self.settings.declare(self.endpoint)?;
        if is_declared && body != json!({}) {
            let message = "a subscription is tested as it is declared; options go with --endpoint";
            return Err(Failure::new(message));
        }
        let member = if is_declared {
            "eventSubscription"
        } else {
            "name"
        };
        body[member] = json!(self.name.as_ref().map(SubscriptionName::as_str));
        body["event"] = json!(event);
        let client = client.waiting(ANSWER_TIMEOUT);
        let path = format!("{}/testEndpoint", self.source.topic.path);
        let answer = client.admin(Method::POST, &path, Some(&body)).await?.body;
        if format == Format::Json {
            output::json(&answer);
        }
        // Of a group each origin is one.
        let endpoint = text(&answer, "endpointBaseUrl");
        let mut outcome = Ok(());
        for one in tried(&answer) {
            if format == Format::Table {
                for line in readable(one, &endpoint) {
                    output::line(&line);
                }
            }
            outcome = outcome.and(judged(one));
        }
        outcome
    }
}

/// What was tried: an endpoint, or each origin of a group.
fn tried(answer: &Value) -> Vec<&Value> {
    match answer["origins"].as_array() {
        Some(origins) => origins.iter().collect(),
        None => vec![answer],
    }
}

/// Whether the event was delivered there.
fn judged(answer: &Value) -> Result<(), Failure> {
    let message = text(&answer["event"], "message");
    match answer["event"]["result"].as_str() {
        Some("Delivered") => Ok(()),
        Some("NotSent") => {
            let why = text(&answer["handshake"]["validation"], "message");
            Err(Failure::new(format!(
                "the endpoint does not consent: {}",
                printable(&why)
            )))
        }
        _ => Err(Failure::new(format!(
            "the event is not delivered: {}",
            printable(&message)
        ))),
    }
}

/// The whole exchange, line by line: `>` went out, `<` came back.
fn readable(answer: &Value, endpoint: &str) -> Vec<String> {
    let mut lines = vec![format!("endpoint {endpoint}")];
    if let Some(origin) = answer["origin"].as_str() {
        lines.push(format!("origin {origin}"));
    }
    let handshake = &answer["handshake"];
    lines.push(String::new());
    if handshake.is_null() {
        lines.push("handshake: none is needed".to_owned());
    } else {
        let state = text(handshake, "provisioningState");
        lines.push(format!(
            "handshake by {}: {state}",
            text(handshake, "handshake")
        ));
        let seen = &handshake["validation"];
        exchange(&mut lines, handshake, seen);
        why(&mut lines, &text(seen, "message"));
    }
    let event = &answer["event"];
    lines.push(String::new());
    lines.push(format!("test event: {}", text(event, "result")));
    exchange(&mut lines, event, &event["answer"]);
    why(&mut lines, &text(event, "error"));
    why(&mut lines, &text(event, "message"));
    lines.iter().map(|line| printable(line)).collect()
}

fn why(lines: &mut Vec<String>, message: &str) {
    if !message.is_empty() {
        lines.push(format!("= {message}"));
    }
}

fn exchange(lines: &mut Vec<String>, of: &Value, answer: &Value) {
    let request = &of["request"];
    if !request.is_null() {
        lines.push(format!("> {}", text(request, "line")));
        side(lines, ">", request);
    }
    if !answer["status"].is_null() {
        lines.push(format!("< {}", answer["status"]));
        side(lines, "<", answer);
    }
    let part = |name: &str, member: &str| {
        let time = of["timings"][member].as_f64()?;
        Some(format!("{name} {time} ms"))
    };
    let parts = [
        part("name", "nameMs"),
        part("connect", "connectMs"),
        part("TLS", "tlsMs"),
        part("first byte", "firstByteMs"),
        part("total", "totalMs"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        lines.push(format!("* {}", parts.join(", ")));
    }
}

fn side(lines: &mut Vec<String>, mark: &str, side: &Value) {
    for header in side["headers"].as_array().into_iter().flatten() {
        let (name, value) = (text(header, "name"), text(header, "value"));
        lines.push(format!("{mark} {name}: {value}"));
    }
    let body = text(side, "body");
    if !body.is_empty() {
        lines.push(mark.to_owned());
        lines.extend(body.lines().map(|line| format!("{mark} {line}")));
    }
    if side["isCut"] == true {
        lines.push(format!("{mark} ..."));
    }
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_read_line_by_line() {
        let answer = json!({
            "endpointBaseUrl": "http://a/",
            "handshake": null,
            "event": {
                "result": "Retry",
                "message": "an event with this outcome, Busy, is tried again in about 30 s",
                "request": { "line": "POST / HTTP/1.1", "headers": [{ "name": "host", "value": "a" }],
                    "body": "[\n1]", "isCut": false },
                "answer": { "status": 503, "headers": [], "body": "\u{1b}[31mno", "isCut": true },
                "timings": { "nameMs": null, "connectMs": 0.5, "totalMs": 2.0 },
            },
        });
        let expected = [
            "endpoint http://a/",
            "",
            "handshake: none is needed",
            "",
            "test event: Retry",
            "> POST / HTTP/1.1",
            "> host: a",
            ">",
            "> [",
            "> 1]",
            "< 503",
            "<",
            "< \\u{1b}[31mno",
            "< ...",
            "* connect 0.5 ms, total 2 ms",
            "= an event with this outcome, Busy, is tried again in about 30 s",
        ];
        assert_eq!(readable(&answer, "http://a/"), expected);
    }
}
