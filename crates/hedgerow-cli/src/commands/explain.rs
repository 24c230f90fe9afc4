//! `hedgerow explain`: why an event did or did not reach its subscriptions, and what happens next.

use std::io::IsTerminal;

use clap::Args;
use http::Method;
use serde_json::Value;

use super::ServerOptions;
use super::event::path_of;
use super::source::SourceTopic;
use crate::failure::Failure;
use crate::output::{self, Column, Format};

/// Says why an event did or did not reach its subscriptions: which clause of a filter said no, each attempt, and what is
/// next.
#[derive(Debug, Args)]
pub struct ExplainCommand {
    /// The event's id, as it was published.
    #[arg(value_name = "EVENT-ID")]
    event_id: String,
    /// Only events of this topic, or of this domain (`domains/DOMAIN`).
    #[arg(long, value_name = "TOPIC")]
    topic: Option<SourceTopic>,
    /// Only this subscription; needs --topic.
    #[arg(long, value_name = "NAME", requires = "topic")]
    event_subscription: Option<String>,
    /// Shows the server's JSON, as --output json does.
    #[arg(long)]
    json: bool,
    /// Shows all of what endpoints answered, not its beginning.
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    server: ServerOptions,
}

/// Signs in a line for people.
const WIDTH: usize = 100;
/// Signs before what is said of an attempt.
const MARGIN: usize = 13;

/// How it is told.
#[derive(Debug, Clone, Copy)]
struct Telling {
    /// Lines are broken for a terminal; what is piped is for programs that read lines.
    wraps: bool,
    /// All of what endpoints answered is shown.
    is_verbose: bool,
}

const ATTEMPTS: [Column; 5] = [
    ("ATTEMPT", "/attempt"),
    ("STARTED", "/shownStart"),
    ("TOOK", "/shownLatency"),
    ("STATUS", "/httpStatus"),
    ("OUTCOME", "/shownOutcome"),
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
        let telling = Telling {
            wraps: std::io::stdout().is_terminal(),
            is_verbose: self.verbose,
        };
        for line in told(&self.event_id, &answer, events, telling) {
            output::line(&line);
        }
        Ok(())
    }

    fn path(&self) -> String {
        let subscription = self.event_subscription.as_deref();
        path_of(
            &self.event_id,
            "explanation",
            self.topic.as_ref(),
            subscription,
        )
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
fn told(event_id: &str, answer: &Value, events: &[Value], telling: Telling) -> Vec<String> {
    let mut lines = Vec::new();
    for event in events {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(event_lines(event_id, event, telling));
    }
    if answer["isTruncated"] == true {
        lines.push(String::new());
        lines.push("older events or attempts are left out".to_owned());
    }
    lines
}

fn event_lines(event_id: &str, event: &Value, telling: Telling) -> Vec<String> {
    let text = |pointer: &str| {
        let value = event.pointer(pointer).and_then(Value::as_str);
        value.map(output::printable).unwrap_or_default()
    };
    let deleted = if event["isTopicDeleted"] == true {
        " (deleted since)"
    } else {
        ""
    };
    let id = output::printable(event_id);
    let accepted = with_short_times(&text("/publishTime"));
    let mut source = format!("topic {}", text("/topic"));
    if event["domainTopic"].is_string() {
        source = format!(
            "topic {} of domain {}",
            text("/domainTopic"),
            text("/topic")
        );
    }
    let headline = format!("event {id} in {source}{deleted}, accepted {accepted}");
    let mut lines = telling.wrapped(&headline, 0);
    let none = Vec::new();
    let subscriptions = event["eventSubscriptions"].as_array().unwrap_or(&none);
    let mut subscriptions: Vec<_> = subscriptions.iter().collect();
    // What is not settled is what people look for.
    subscriptions.sort_by_key(|subscription| rank(subscription));
    for subscription in &subscriptions {
        lines.extend(subscription_lines(subscription, &text("/topic"), telling));
    }
    if subscriptions.is_empty() {
        lines.push("the topic has no subscription".to_owned());
    }
    if let Some(left_out @ 1..) = event["leftOut"].as_u64() {
        lines.push(format!("{left_out} more subscriptions are left out"));
    }
    let about = if event["isStored"] == true {
        let subject = text("/subject");
        let subject = if subject.is_empty() {
            "no subject".to_owned()
        } else {
            format!("subject {subject}")
        };
        format!("{}, {subject}", text("/eventType"))
    } else {
        "the log has forgotten it: nobody needs it any more".to_owned()
    };
    let number = &event["sequenceNumber"];
    lines.extend(telling.wrapped(&format!("number {number} of its topic: {about}"), 0));
    lines
}

/// Pending deliveries first, then those that were given up, those that arrived, and who did not want it.
fn rank(subscription: &Value) -> u8 {
    if subscription["matched"] == false {
        return 4;
    }
    match subscription["state"].as_str() {
        Some("FirstAttemptPending" | "AttemptDue" | "InFlight" | "Owed") => 0,
        Some("DeadLetterDue" | "DeadLettered" | "Dropped") => 1,
        Some("Delivered") => 2,
        _ => 3,
    }
}

/// `domain` is the topic or domain of the event: a subscription of one of its topics is told with it.
fn subscription_lines(subscription: &Value, domain: &str, telling: Telling) -> Vec<String> {
    let name = subscription["eventSubscription"].as_str();
    let mut name = name.map(output::printable).unwrap_or_default();
    if let Some(topic) = subscription["domainTopic"].as_str() {
        name = format!("{domain}/topics/{}/{name}", output::printable(topic));
    }
    let explanation = subscription["explanation"].as_str().unwrap_or_default();
    let explanation = with_short_times(&output::printable(explanation));
    let mut lines = telling.wrapped(&format!("  {name}: {explanation}"), 4);
    let none = Vec::new();
    let attempts = subscription["attempts"].as_array().unwrap_or(&none);
    let mut table = output::table(&shown(attempts), &ATTEMPTS).into_iter();
    if let Some(heading) = table.next().filter(|_| !attempts.is_empty()) {
        lines.push(format!("    {heading}"));
    }
    for (row, attempt) in table.zip(attempts) {
        lines.push(format!("    {row}"));
        let said = [origin(attempt), next(attempt), telling.said(attempt)];
        let said = said.iter().flatten();
        lines.extend(
            said.flat_map(|said| telling.wrapped(&format!("{:MARGIN$}{said}", ""), MARGIN + 2)),
        );
    }
    lines
}

/// Attempts with what is shown of them.
fn shown(attempts: &[Value]) -> Vec<Value> {
    let shown = attempts.iter().map(|attempt| {
        let mut shown = attempt.clone();
        let time = ["startTime", "endTime"].map(|member| attempt[member].as_str());
        let time = time.into_iter().flatten().next();
        shown["shownStart"] = time.map(with_short_times).into();
        let latency = attempt["latencyInMs"].as_u64();
        shown["shownLatency"] = latency.map(|latency| format!("{latency} ms")).into();
        shown["shownOutcome"] = outcome(attempt);
        shown
    });
    shown.collect()
}

/// What an attempt met; of a record of the history that is none, what it is.
pub(super) fn outcome(attempt: &Value) -> Value {
    match (attempt["kind"].as_str(), attempt["outcome"].as_str()) {
        (Some("LateSuccess"), Some(outcome)) => with_batch(format!("{outcome}, late"), attempt),
        (_, Some(outcome)) => with_batch(outcome.to_owned(), attempt),
        (Some("EndWithoutAttempt"), None) if attempt["dropReason"] == "Purged" => {
            "purged by an operator".into()
        }
        (Some("EndWithoutAttempt"), None) => "ended without an attempt".into(),
        (Some("DeadLetterEnd"), None) => "dead letter".into(),
        (Some("Resent"), None) => "resent".into(),
        (_, None) => Value::Null,
    }
}

/// An outcome, and of how many events it was one.
fn with_batch(outcome: String, attempt: &Value) -> Value {
    match attempt["batchEvents"].as_u64() {
        Some(events) => format!("{outcome}, batch of {events}").into(),
        None => outcome.into(),
    }
}

/// To which origin of a group it went, and why there (HP-200).
fn origin(attempt: &Value) -> Option<String> {
    let origin = &attempt["origin"];
    let (name, address) = (origin["name"].as_str()?, origin["address"].as_str()?);
    let why = match (origin["insteadOf"].as_str(), origin["mode"].as_str()) {
        (Some(failed), _) => format!("another than {failed}, which failed before"),
        (None, Some("single")) => "the only enabled one".to_owned(),
        (None, Some("unknown_tier")) => "none is known to be healthy".to_owned(),
        (None, Some("fail_open")) => "all are unhealthy, failing open".to_owned(),
        (None, _) => "by latency and weight".to_owned(),
    };
    Some(output::printable(&format!("to {name} ({address}): {why}")))
}

/// What followed an attempt that was no success.
fn next(attempt: &Value) -> Option<String> {
    let text = |member: &str| attempt[member].as_str().map(with_short_times);
    let next = if attempt["kind"] == "Resent" {
        "resent by an operator".to_owned()
    } else if let (true, Some(due)) = (attempt["kind"] == "BatchDivided", text("nextAttemptTime")) {
        format!("not counted, sent again apart at {due}")
    } else if let Some(due) = text("nextAttemptTime") {
        format!("again at {due}")
    } else {
        match (text("reason"), text("deadLetterTime"), text("dropReason")) {
            (Some(reason), Some(time), _) if attempt["kind"] == "DeadLetterEnd" => {
                format!("dead letter ({reason}) written {time}")
            }
            (Some(reason), Some(time), _) => {
                format!("given up ({reason}), dead letter at {time}")
            }
            (Some(reason), None, Some(why)) => format!("given up ({reason}), dropped ({why})"),
            (Some(reason), None, None) => format!("given up ({reason})"),
            (None, None, Some(why)) => format!("dropped ({why})"),
            (None, ..) => return None,
        }
    };
    Some(output::printable(&next))
}

impl Telling {
    /// What the endpoint answered, or what failed: of an answer its beginning, unless all of it is asked for.
    fn said(self, attempt: &Value) -> Option<String> {
        let text = |member: &str| attempt[member].as_str().filter(|text| !text.is_empty());
        if let Some(detail) = text("detail") {
            return Some(output::printable(detail));
        }
        let answered = output::printable(text("responseExcerpt")?);
        let signs = WIDTH - MARGIN;
        if self.is_verbose || answered.chars().count() <= signs {
            return Some(answered);
        }
        let beginning = answered.chars().take(signs - 1);
        Some(beginning.chain(['…']).collect())
    }

    fn wrapped(self, text: &str, indent: usize) -> Vec<String> {
        if self.wraps {
            wrapped(text, indent)
        } else {
            vec![text.to_owned()]
        }
    }
}

/// A text in lines that fit, those behind the first one indented. A word that does not fit has a line of its own, and a
/// time is one word.
fn wrapped(text: &str, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line: Vec<char> = text.chars().collect();
    while line.len() > WIDTH {
        let first_word = line.iter().take_while(|sign| **sign == ' ').count();
        let mut spaces = (first_word + 1..line.len()).filter(|at| is_break(&line, *at));
        let first = spaces.next();
        let fits = std::iter::once(first).flatten().chain(spaces);
        let last_that_fits = fits.take_while(|at| *at <= WIDTH).last();
        let Some(at) = last_that_fits.or(first) else {
            break;
        };
        let rest = line.split_off(at);
        lines.push(line.into_iter().collect());
        let rest = rest.into_iter().skip_while(|sign| *sign == ' ');
        line = std::iter::repeat_n(' ', indent).chain(rest).collect();
    }
    lines.push(line.into_iter().collect());
    lines
}

/// Whether a line may be broken at this place: at a space, but not between a date and the time of day.
fn is_break(line: &[char], at: usize) -> bool {
    let is_time = |sign: Option<&char>| sign.is_some_and(char::is_ascii_digit);
    let date = line[..at]
        .rsplit(|sign| *sign == ' ')
        .next()
        .unwrap_or_default();
    let is_date = date.len() == 10
        && date.iter().enumerate().all(|(at, sign)| match at {
            4 | 7 => *sign == '-',
            _ => sign.is_ascii_digit(),
        });
    line[at] == ' ' && !(is_date && is_time(line.get(at + 1)))
}

/// The text with the times in it as people read them: `2030-01-02 03:04:05.006Z` for `2030-01-02T03:04:05.0060000Z`.
fn with_short_times(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let time = word.trim_end_matches([',', ';']);
        match shortened(time) {
            Some(short) => short + &word[time.len()..],
            None => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn shortened(time: &str) -> Option<String> {
    const FORM: &str = "0000-00-00T00:00:00.0000000Z";
    let has_form = |(sign, form): (char, char)| {
        if form == '0' {
            sign.is_ascii_digit()
        } else {
            sign == form
        }
    };
    let is_time = time.len() == FORM.len() && time.chars().zip(FORM.chars()).all(has_form);
    is_time.then(|| format!("{} {}Z", &time[..10], &time[11..23]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TERMINAL: Telling = Telling {
        wraps: true,
        is_verbose: false,
    };

    /// What is no attempt says what it is, and of two rows with one number the late one says so.
    #[test]
    fn every_row_says_what_it_is() {
        let of = |kind: &str, outcome: Option<&str>, why: Option<&str>| json!({ "kind": kind, "outcome": outcome, "dropReason": why });
        let rows = [
            of("Attempt", Some("TimedOut"), None),
            of("LateSuccess", Some("Delivered"), None),
            of("EndWithoutAttempt", None, Some("Purged")),
            of("Resent", None, None),
        ];
        let outcomes = shown(&rows);
        let outcomes: Vec<_> = outcomes
            .iter()
            .map(|row| row["shownOutcome"].clone())
            .collect();
        let expected = [
            "TimedOut",
            "Delivered, late",
            "purged by an operator",
            "resent",
        ];
        assert_eq!(outcomes, expected.map(Value::from));
    }

    #[test]
    fn of_a_long_answer_the_beginning_is_shown_unless_all_is_asked_for() {
        let answer = "word ".repeat(200);
        let attempt = json!({ "outcome": "Delivered", "responseExcerpt": answer });
        let said = TERMINAL.said(&attempt).unwrap();
        assert_eq!(said.chars().count(), WIDTH - MARGIN);
        assert!(said.ends_with('…'), "{said}");
        let all = Telling {
            is_verbose: true,
            ..TERMINAL
        };
        assert_eq!(all.said(&attempt).unwrap(), answer);
    }

    #[test]
    fn times_are_never_broken_and_what_is_piped_is_not() {
        let time = "2030-01-02 03:04:05.006Z";
        for before in 60..110 {
            let text = format!("{} {time} and on", "x".repeat(before));
            let lines = wrapped(&text, 4);
            assert!(lines.iter().any(|line| line.contains(time)), "{lines:?}");
        }
        let piped = Telling {
            wraps: false,
            ..TERMINAL
        };
        let text = "word ".repeat(60);
        assert_eq!(piped.wrapped(&text, 4), [text]);
    }

    #[test]
    fn an_event_is_told_of_in_aligned_lines() {
        let answer = json!({
            "isTruncated": false,
            "value": [{
                "topic": "orders", "isTopicDeleted": false, "sequenceNumber": 7,
                "publishTime": "2030-01-02T03:04:05.0060000Z", "isStored": true, "eventType": "Order.Placed",
                "subject": "orders/1", "leftOut": 2,
                "eventSubscriptions": [
                    { "eventSubscription": "audit", "matched": false, "explanation": "not matched: advancedFilters[0] of its filter says no",
                      "attempts": [] },
                    { "eventSubscription": "billing", "matched": true, "state": "AttemptDue",
                      "explanation": "matched: attempt 2 of at most 30 is due at 2030-01-02T03:04:35.0060000Z; held by \
                        probation after Busy until 2030-01-02T03:05:05.0060000Z, then one event is tried",
                      "attempts": [{
                        "kind": "Attempt", "attempt": 1, "startTime": "2030-01-02T03:04:05.0060000Z", "latencyInMs": 12,
                        "outcome": "Busy", "httpStatus": 503, "nextAttemptTime": "2030-01-02T03:04:35.0060000Z", "detail": null,
                        "responseExcerpt": "later\u{1b}", "reason": null, "deadLetterTime": null, "dropReason": null,
                      }] },
                ],
            }],
        });
        let events = answer["value"].as_array().unwrap();
        assert_eq!(
            told("a-1", &answer, events, TERMINAL),
            [
                "event a-1 in topic orders, accepted 2030-01-02 03:04:05.006Z",
                "  billing: matched: attempt 2 of at most 30 is due at 2030-01-02 03:04:35.006Z; held by probation",
                "    after Busy until 2030-01-02 03:05:05.006Z, then one event is tried",
                "    ATTEMPT  STARTED                   TOOK   STATUS  OUTCOME",
                "    1        2030-01-02 03:04:05.006Z  12 ms  503     Busy",
                "             again at 2030-01-02 03:04:35.006Z",
                "             later\\u{1b}",
                "  audit: not matched: advancedFilters[0] of its filter says no",
                "2 more subscriptions are left out",
                "number 7 of its topic: Order.Placed, subject orders/1",
            ]
        );
    }

    #[test]
    fn no_line_is_wider_than_a_terminal_but_for_words_that_are() {
        let long = "x".repeat(250);
        for text in [
            long.clone(),
            format!("  name: {long} {long}"),
            "word ".repeat(60),
        ] {
            let lines = wrapped(&text, 4);
            let fits = |line: &String| line.chars().count() <= WIDTH || line.contains(&long);
            assert!(lines.iter().all(fits), "{lines:?}");
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(words(&lines.join(" ")), words(&text));
        }
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
