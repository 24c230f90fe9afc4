//! `hedgerow explain`: why an event did or did not reach its subscriptions, and what happens next.

use clap::Args;
use http::Method;
use serde_json::Value;

use super::ServerOptions;
use super::event::in_path;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Says why an event did or did not reach its subscriptions: which clause of a filter said no, each attempt, and what is
/// next.
#[derive(Debug, Args)]
pub struct ExplainCommand {
    /// The event's id, as it was published.
    #[arg(value_name = "EVENT-ID")]
    event_id: String,
    /// Only events of this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Only this subscription; needs --topic.
    #[arg(long, value_name = "NAME", requires = "topic")]
    event_subscription: Option<String>,
    /// Shows the server's JSON, as --output json does.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerOptions,
}

const ATTEMPTS: [Column; 8] = [
    ("ATTEMPT", "/attempt"),
    ("STARTED", "/startTime"),
    ("ENDED", "/endTime"),
    ("LATENCY MS", "/latencyInMs"),
    ("OUTCOME", "/outcome"),
    ("STATUS", "/httpStatus"),
    ("THEN", "/shownNext"),
    ("DETAIL", "/shownDetail"),
];

impl ExplainCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let answer = client.admin(Method::GET, &self.path(), None).await?.body;
        if self.json || self.server.output == Format::Json {
            output::json(&answer);
        }
        let events = super::value(&answer)?;
        if events.is_empty() {
            return Err(unknown(&self.event_id, &answer));
        }
        if self.json || self.server.output == Format::Json {
            return Ok(());
        }
        for line in told(&self.event_id, &answer, events) {
            output::line(&line);
        }
        Ok(())
    }

    fn path(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if let Some(topic) = &self.topic {
            query.append_pair("topic", topic);
        }
        if let Some(name) = &self.event_subscription {
            query.append_pair("eventSubscription", name);
        }
        let (id, query) = (in_path(&self.event_id), query.finish());
        if query.is_empty() {
            format!("/events/{id}/explanation")
        } else {
            format!("/events/{id}/explanation?{query}")
        }
    }
}

/// Nothing is known of the id.
fn unknown(event_id: &str, answer: &Value) -> Failure {
    let event_id = output::printable(event_id);
    match answer["knownSince"]
        .as_str()
        .or(answer["attemptsKnownSince"].as_str())
    {
        Some(since) => {
            Failure::new(format!("no event \"{event_id}\" is known")).with_hint(format!(
                "events accepted since {} are known by their ids",
                output::printable(since)
            ))
        }
        None => Failure::new(format!(
            "nothing is known of \"{event_id}\": the server keeps no history"
        ))
        .with_hint("set history.enabled = true"),
    }
}

/// The lines for people.
fn told(event_id: &str, answer: &Value, events: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for event in events {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(event_lines(event_id, event));
    }
    if answer["isTruncated"] == true {
        lines.push(String::new());
        lines.push("older events or attempts are left out".to_owned());
    }
    lines
}

fn event_lines(event_id: &str, event: &Value) -> Vec<String> {
    let text = |pointer: &str| {
        let value = event.pointer(pointer).and_then(Value::as_str);
        value.map(output::printable).unwrap_or_default()
    };
    let deleted = if event["isTopicDeleted"] == true {
        " (deleted since)"
    } else {
        ""
    };
    let mut lines = vec![format!(
        "event {} in topic {}{deleted}, number {}, accepted {}",
        output::printable(event_id),
        text("/topic"),
        event["sequenceNumber"],
        text("/publishTime")
    )];
    if event["isStored"] == true {
        let subject = text("/subject");
        let subject = if subject.is_empty() {
            "no subject".to_owned()
        } else {
            format!("subject {subject}")
        };
        lines.push(format!("  {}, {subject}", text("/eventType")));
    } else {
        lines.push("  the log has forgotten it: nobody needs it any more".to_owned());
    }
    let none = Vec::new();
    let subscriptions = event["eventSubscriptions"].as_array().unwrap_or(&none);
    if subscriptions.is_empty() {
        lines.push("  the topic has no subscription".to_owned());
    }
    let name = |subscription: &Value| {
        let name = subscription["eventSubscription"].as_str();
        name.map(output::printable).unwrap_or_default()
    };
    let width = subscriptions
        .iter()
        .map(|one| name(one).chars().count())
        .max()
        .unwrap_or_default();
    for subscription in subscriptions {
        let explanation = subscription["explanation"].as_str().unwrap_or_default();
        lines.push(format!(
            "  {:width$}  {}",
            name(subscription),
            output::printable(explanation)
        ));
        let attempts = attempts(subscription);
        if !attempts.is_empty() {
            let table = output::table(&attempts, &ATTEMPTS);
            lines.extend(table.into_iter().map(|line| format!("    {line}")));
        }
    }
    if let Some(left_out @ 1..) = event["leftOut"].as_u64() {
        lines.push(format!("  {left_out} more subscriptions are left out"));
    }
    lines
}

/// The attempts of a subscription, with what is shown of them.
fn attempts(subscription: &Value) -> Vec<Value> {
    let none = Vec::new();
    let attempts = subscription["attempts"].as_array().unwrap_or(&none);
    let shown = attempts.iter().map(|attempt| {
        let mut attempt = attempt.clone();
        attempt["shownNext"] = next(&attempt).into();
        let detail = if attempt["detail"].is_null() {
            "responseExcerpt"
        } else {
            "detail"
        };
        attempt["shownDetail"] = attempt[detail].clone();
        attempt
    });
    shown.collect()
}

/// What followed an attempt.
fn next(attempt: &Value) -> String {
    let text = |member: &str| attempt[member].as_str();
    if let Some(due) = text("nextAttemptTime") {
        return format!("again at {due}");
    }
    match (text("reason"), text("deadLetterTime"), text("dropReason")) {
        (Some(reason), Some(time), _) if attempt["kind"] == "DeadLetterEnd" => {
            format!("dead letter ({reason}) written {time}")
        }
        (Some(reason), Some(time), _) => format!("given up ({reason}), dead letter at {time}"),
        (Some(reason), None, Some(why)) => format!("given up ({reason}), dropped ({why})"),
        (Some(reason), None, None) => format!("given up ({reason})"),
        (None, ..) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_told_of_in_aligned_lines() {
        let answer = json!({
            "isTruncated": false,
            "value": [{
                "topic": "orders", "isTopicDeleted": false, "sequenceNumber": 7,
                "publishTime": "T0", "isStored": true, "eventType": "Order.Placed",
                "subject": "orders/1", "leftOut": 2,
                "eventSubscriptions": [
                    { "eventSubscription": "audit", "explanation": "not matched: advancedFilters[0] of its filter says no",
                      "attempts": [] },
                    { "eventSubscription": "billing", "explanation": "matched: attempt 2 of at most 30 is due at T2",
                      "attempts": [{
                        "kind": "Attempt", "attempt": 1, "startTime": "T0", "endTime": "T1", "latencyInMs": 12,
                        "outcome": "Busy", "httpStatus": 503, "nextAttemptTime": "T2", "detail": null,
                        "responseExcerpt": "later\u{1b}", "reason": null, "deadLetterTime": null, "dropReason": null,
                      }] },
                ],
            }],
        });
        let events = answer["value"].as_array().unwrap();
        assert_eq!(
            told("a-1", &answer, events),
            [
                "event a-1 in topic orders, number 7, accepted T0",
                "  Order.Placed, subject orders/1",
                "  audit    not matched: advancedFilters[0] of its filter says no",
                "  billing  matched: attempt 2 of at most 30 is due at T2",
                "    ATTEMPT  STARTED  ENDED  LATENCY MS  OUTCOME  STATUS  THEN         DETAIL",
                "    1        T0       T1     12          Busy     503     again at T2  later\\u{1b}",
                "  2 more subscriptions are left out",
            ]
        );
    }

    #[test]
    fn an_unknown_id_says_since_when_ids_are_known() {
        let known = json!({ "knownSince": "T0" });
        let said = unknown("a", &known).to_string();
        assert!(
            said.contains("no event \"a\" is known") && said.contains("since T0"),
            "{said}"
        );
        let said = unknown("a", &json!({})).to_string();
        assert!(said.contains("keeps no history"), "{said}");
    }
}
