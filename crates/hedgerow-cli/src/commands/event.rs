//! `hedgerow event`: what became of one event, and delivering it again.

use clap::{Args, Subcommand};
use hedgerow_core::name::SubscriptionName;
use http::Method;
use serde_json::{Value, json};

use super::ServerOptions;
use super::source::SourceTopic;
use crate::client::Client;
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
        /// Only of events of this topic, or of this domain (`domains/DOMAIN`).
        #[arg(long, value_name = "TOPIC")]
        topic: Option<SourceTopic>,
        /// Only of this subscription; needs --topic.
        #[arg(long, value_name = "NAME", requires = "topic")]
        event_subscription: Option<SubscriptionName>,
    },
    /// Delivers an accepted event again: a new delivery, or the attempt that waits at once. The newest event with this id.
    Resend {
        /// The event's id, as it was published.
        #[arg(value_name = "EVENT-ID")]
        event_id: String,
        /// The event's topic, its domain (`domains/DOMAIN`), or a topic of one (`domains/DOMAIN/topics/TOPIC`); needed if several have an event with this id.
        #[arg(long, value_name = "TOPIC")]
        topic: Option<SourceTopic>,
        /// Only to this subscription; without it, to all that the event matched.
        #[arg(long, value_name = "NAME")]
        event_subscription: Option<SubscriptionName>,
    },
}

const LIST: [Column; 10] = [
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("ATTEMPT", "/attempt"),
    ("ENDED", "/endTime"),
    ("LATENCY MS", "/latencyInMs"),
    ("OUTCOME", "/shownOutcome"),
    ("STATUS", "/httpStatus"),
    ("NEXT ATTEMPT", "/nextAttemptTime"),
    ("GIVEN UP", "/reason"),
    ("DETAIL", "/shownDetail"),
];

impl EventCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let path = match self.action {
            Action::Attempts {
                event_id,
                topic,
                event_subscription,
            } => {
                let subscription = event_subscription.as_ref().map(SubscriptionName::as_str);
                path_of(&event_id, "attempts", topic.as_ref(), subscription)
            }
            Action::Resend {
                event_id,
                topic,
                event_subscription,
            } => {
                let format = self.server.output;
                return resend(&client, &event_id, topic, event_subscription, format).await;
            }
        };
        let answer = client.admin(Method::GET, &path, None).await?.body;
        let attempts = super::value(&answer)?;
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
        output::list(&shown(attempts), &LIST, Format::Table);
        output::line(&conclusion(&answer, false));
        Ok(())
    }
}

/// What is asked about the events with an id, of one topic and one subscription or of all.
pub(super) fn path_of(
    event_id: &str,
    what: &str,
    topic: Option<&SourceTopic>,
    subscription: Option<&str>,
) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    if let Some(topic) = topic {
        query.append_pair("topic", &topic.name);
    }
    if let Some(name) = subscription {
        query.append_pair("eventSubscription", name);
    }
    let (id, query) = (in_path(event_id), query.finish());
    if query.is_empty() {
        format!("/events/{id}/{what}")
    } else {
        format!("/events/{id}/{what}?{query}")
    }
}

/// Attempts with what is shown of them.
fn shown(attempts: &[Value]) -> Vec<Value> {
    let shown = attempts.iter().map(|attempt| {
        let mut shown = attempt.clone();
        let [of_failure, of_answer] =
            ["detail", "responseExcerpt"].map(|member| attempt[member].clone());
        shown["shownDetail"] = if of_failure.is_null() {
            of_answer
        } else {
            of_failure
        };
        shown["shownOutcome"] = super::explain::outcome(attempt);
        shown
    });
    shown.collect()
}

const RESENT: [Column; 2] = [
    ("SUBSCRIPTION", "/eventSubscription"),
    ("RESULT", "/result"),
];

async fn resend(
    client: &Client,
    event_id: &str,
    topic: Option<SourceTopic>,
    subscription: Option<SubscriptionName>,
    format: Format,
) -> Result<(), Failure> {
    let topic = match topic {
        Some(topic) => topic.path,
        None => topic_of(client, event_id).await?,
    };
    let body = json!({ "eventSubscription": subscription.map(|name| name.to_string()) });
    let path = format!("{topic}/events/{}/resend", in_path(event_id));
    let answer = client.admin(Method::POST, &path, Some(&body)).await?.body;
    match format {
        Format::Json => output::json(&answer),
        Format::Table => output::list(super::value(&answer)?, &RESENT, format),
    }
    Ok(())
}

/// The path of the topic, or of the domain, of the events with this id.
async fn topic_of(client: &Client, event_id: &str) -> Result<String, Failure> {
    let path = format!("/events/{}/explanation", in_path(event_id));
    let answer = client.admin(Method::GET, &path, None).await?.body;
    let events = super::value(&answer)?.iter();
    let there = events.filter(|event| event["isTopicDeleted"] != true);
    let mut topics: Vec<_> = there
        .filter_map(|event| {
            let kind = if event["domainTopic"].is_null() {
                "topics"
            } else {
                "domains"
            };
            Some(format!("/{kind}/{}", in_path(event["topic"].as_str()?)))
        })
        .collect();
    topics.sort_unstable();
    topics.dedup();
    match &topics[..] {
        [topic] => Ok(topic.clone()),
        [] => Err(Failure::new("no event with this id is known")
            .with_hint("`hedgerow explain` says since when ids are")),
        _ => Err(Failure::new("several topics have an event with this id")
            .with_hint("name one with --topic")),
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

    /// What is no attempt has a word too.
    #[test]
    fn rows_of_resends_and_purges_say_what_they_are() {
        let row = |kind: &str, why: Option<&str>| json!({ "topic": "orders", "kind": kind, "dropReason": why });
        let rows = [
            row("Resent", None),
            row("EndWithoutAttempt", Some("Purged")),
            row("EndWithoutAttempt", Some("NoDeadLetterDestination")),
            row("DeadLetterEnd", None),
        ];
        let table = output::table(&shown(&rows), &LIST);
        let words = [
            "resent",
            "purged by an operator",
            "ended without an attempt",
            "dead letter",
        ];
        for (line, word) in table.iter().skip(1).zip(words) {
            assert!(line.contains(word), "{line}");
        }
        assert_eq!(table.len(), 5);
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
