//! Why an event did or did not reach its subscriptions (design D12). Each answer stands as members for programs and as a
//! sentence for people.

use axum::Json;
use axum::extract::State;
use hedgerow_core::outcome::{DeadLetterReason, Outcome};
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::HoldState;
use hedgerow_delivery::explain::{
    DeliveryState, DeliveryStory, EventStory, ExplainQuery, Verdict, Waiting, WaitingFor,
};
use hedgerow_store::history::HistoryNext;
use hedgerow_store::record::DropReason;
use serde_json::{Value, json};

use super::events;
use super::extract::{Bearer, Names, PageQuery};
use super::subscriptions::shown_hold;
use crate::error::ApiError;
use crate::state::SharedApp;

pub async fn get(
    State(app): State<SharedApp>,
    Bearer(grant): Bearer,
    Names(event_id): Names<String>,
    query: PageQuery,
) -> Result<Json<Value>, ApiError> {
    query.judge(&grant)?;
    let query = ExplainQuery {
        event_id,
        topic: query.topic,
        subscription: query.subscription,
        topic_prefix: grant.prefix.as_str().to_owned(),
    };
    let event_id = query.event_id.clone();
    let explanation = app.engine()?.explain(query).await?;
    // Ids are the publishers' own: the same one can be another's (FC-26).
    let reached = explanation.events.iter().filter(|event| {
        let name = event.topic_name.as_deref();
        name.map_or(grant.is_whole(), |name| grant.reaches(name))
    });
    let value: Vec<Value> = reached.map(event).collect();
    let since = |time: Option<Timestamp>| time.map(|time| time.to_string());
    Ok(Json(json!({
        "eventId": event_id,
        "value": value,
        "isTruncated": explanation.is_truncated,
        "knownSince": since(explanation.ids_known_since),
        "attemptsKnownSince": since(explanation.attempts_known_since),
    })))
}

fn event(event: &EventStory) -> Value {
    let stored = event.stored.as_ref();
    let deliveries: Vec<Value> = event.deliveries.iter().map(delivery).collect();
    json!({
        "topic": event.topic_name,
        "isTopicDeleted": event.is_topic_deleted,
        "sequenceNumber": event.position.seq,
        "publishTime": event.published.to_string(),
        "isStored": stored.is_some(),
        "eventType": stored.map(|stored| stored.event_type.as_str()),
        "subject": stored.and_then(|stored| stored.subject.as_deref()),
        "domainTopic": stored.and_then(|stored| stored.domain_topic.as_deref()),
        "storedBytes": stored.map(|stored| stored.bytes),
        "eventSubscriptions": deliveries,
        "leftOut": event.left_out,
    })
}

fn delivery(delivery: &DeliveryStory) -> Value {
    let (matched, clause) = match delivery.verdict {
        Verdict::Matched => (Some(true), None),
        Verdict::NotMatched(clause) => (Some(false), clause),
        Verdict::SubscribedLater | Verdict::NotActive(_) | Verdict::ReplayedToAnother => {
            (Some(false), None)
        }
        Verdict::Unknown | Verdict::PurgedUnknown(_) => (None, None),
    };
    let attempts: Vec<Value> = delivery.attempts.iter().map(events::shown).collect();
    let mut shown = json!({
        "eventSubscription": delivery.name,
        "domainTopic": delivery.domain_topic,
        "isDeleted": delivery.is_deleted,
        "matched": matched,
        "failedClause": clause.map(|clause| clause.to_string()),
        "failedClauseDeclared": delivery.failed_clause,
        "explanation": sentence(delivery),
        "attempts": attempts,
        "maxDeliveryAttempts": delivery.policy.map(|policy| policy.max_delivery_attempts),
    });
    for (member, value) in state(&delivery.state) {
        shown[member] = value;
    }
    if let Some(waiting) = &delivery.waiting {
        shown["waitingFor"] = waiting.waiting_for.as_str().into();
        shown["hold"] = shown_hold(&waiting.hold);
        // That is asked of the subscription: here it is about one event.
        if let Some(hold) = shown["hold"].as_object_mut() {
            hold.remove("held");
        }
        for (member, value) in details(waiting.waiting_for) {
            shown[member] = value;
        }
    }
    shown
}

/// What is known beside the name of what a delivery waits for.
fn details(waiting_for: WaitingFor) -> Vec<(&'static str, Value)> {
    match waiting_for {
        WaitingFor::UsableEndpoint
        | WaitingFor::Start
        | WaitingFor::Resume
        | WaitingFor::EndOfHold
        | WaitingFor::DueTime { .. }
        | WaitingFor::Trial
        | WaitingFor::EarlierEvent
        | WaitingFor::Settlements => Vec::new(),
        WaitingFor::Origin { why, .. } => vec![("noOrigin", json!(why.as_str()))],
        WaitingFor::Reading { behind } => vec![("eventsBehind", json!(behind))],
        WaitingFor::Pace { until } => vec![("notBefore", json!(until.to_string()))],
        WaitingFor::MaxConcurrency { open, limit } => vec![
            ("openAttempts", json!(open)),
            ("openAttemptsLimit", json!(limit)),
        ],
        WaitingFor::MaxRequestsPerSecond { limit, until } => vec![
            ("requestsPerSecondLimit", json!(limit)),
            ("notBefore", json!(until.to_string())),
        ],
        WaitingFor::Turn {
            open,
            limit,
            is_slow,
        } => vec![
            ("openAttempts", json!(open)),
            ("openAttemptsLimit", json!(limit)),
            ("isSlow", json!(is_slow)),
        ],
        WaitingFor::TurnOfAll { open, limit } => vec![
            ("openAttempts", json!(open)),
            ("openAttemptsLimit", json!(limit)),
        ],
    }
}

/// The state, and what belongs to it.
fn state(state: &DeliveryState) -> Vec<(&'static str, Value)> {
    let named = |name: &str| ("state", json!(name));
    let reason = |reason: DeadLetterReason| ("reason", json!(reason.as_str()));
    match *state {
        DeliveryState::NotOwed => vec![named("NotOwed")],
        DeliveryState::Unknown => vec![named("Unknown")],
        DeliveryState::FirstAttemptPending => vec![named("FirstAttemptPending")],
        DeliveryState::InFlight { attempt } => {
            vec![named("InFlight"), ("attempt", json!(attempt))]
        }
        DeliveryState::AttemptDue { at, attempts } => vec![
            named("AttemptDue"),
            ("nextAttemptTime", json!(at.to_string())),
            ("deliveryAttempts", json!(attempts)),
        ],
        DeliveryState::Owed => vec![named("Owed")],
        DeliveryState::DeadLetterDue {
            at,
            reason: why,
            failed_writes,
        } => vec![
            named("DeadLetterDue"),
            ("deadLetterTime", json!(at.to_string())),
            reason(why),
            ("failedWrites", json!(failed_writes)),
        ],
        DeliveryState::Delivered { at } => {
            vec![named("Delivered"), ("endTime", json!(at.to_string()))]
        }
        DeliveryState::DeadLettered { at, reason: why } => vec![
            named("DeadLettered"),
            ("endTime", json!(at.to_string())),
            reason(why),
        ],
        DeliveryState::Dropped {
            at,
            reason: of,
            why,
        } => {
            let mut members = vec![
                named("Dropped"),
                ("endTime", json!(at.map(|at| at.to_string()))),
                ("reason", json!(of.map(DeadLetterReason::as_str))),
                ("dropReason", json!(why.as_str())),
            ];
            // ED-172.
            if why == DropReason::SubscriptionDeleted {
                members.push(("lastDeliveryOutcome", json!(Outcome::Canceled.as_str())));
            }
            members
        }
        DeliveryState::Ended => vec![named("Ended")],
    }
}

/// What became of it, or what is next, in words.
fn sentence(delivery: &DeliveryStory) -> String {
    match delivery.verdict {
        Verdict::NotMatched(Some(clause)) => {
            let declared = delivery.failed_clause.as_ref().map(in_short);
            let declared = declared.map(|declared| format!(": {declared}"));
            let declared = declared.unwrap_or_default();
            return format!("not matched: {clause} of its filter says no{declared}");
        }
        Verdict::NotMatched(None) => {
            return "not matched: nothing was tried; which clause said no is not known, the log has forgotten the event"
                .to_owned();
        }
        Verdict::ReplayedToAnother => {
            return "not matched: it is a dead letter of another subscription, replayed to that one only"
                .to_owned();
        }
        Verdict::SubscribedLater => {
            return "not matched: the event was published before the subscription was in force"
                .to_owned();
        }
        Verdict::NotActive(provisioning) => {
            let provisioning = provisioning.as_str();
            return format!("not matched: the subscription gets nothing yet, it is {provisioning}");
        }
        Verdict::Unknown => {
            return "not known: the log has forgotten the event, or its filter of that time is forgotten".to_owned();
        }
        Verdict::PurgedUnknown(at) => {
            return format!(
                "purged by an operator at {at} before any attempt, if it matched: the log has forgotten the event"
            );
        }
        Verdict::Matched => {}
    }
    let of_deleted = if delivery.is_deleted {
        "; the subscription was deleted since"
    } else {
        ""
    };
    let why = delivery.waiting.as_ref().and_then(why_it_waits);
    let why = why.map(|why| format!("; {why}")).unwrap_or_default();
    format!("matched: {}{why}{of_deleted}", told(delivery))
}

/// Signs of a clause in a sentence at most; a member has the whole of it.
const CLAUSE_SIGNS_MAX: usize = 300;

/// JSON for a sentence, without an end if it is long.
fn in_short(declared: &Value) -> String {
    let text = declared.to_string();
    match text.char_indices().nth(CLAUSE_SIGNS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// When the newest attempt said that the next one would come, if that has been moved since: a hold does that (ED-228).
fn moved_from(newest: Option<HistoryNext>, at: Timestamp) -> Option<Timestamp> {
    match newest? {
        HistoryNext::Due(said) if said < at => Some(said),
        _ => None,
    }
}

/// Why no attempt runs, where what is next does not say it.
fn why_it_waits(waiting: &Waiting) -> Option<String> {
    let hold = &waiting.hold;
    let held_by = || {
        let by = match hold.state {
            HoldState::Delayed => "delayed delivery",
            _ => "probation",
        };
        let after = hold
            .cause
            .map(|cause| format!(" after {}", cause.as_str()))
            .unwrap_or_default();
        format!("held by {by}{after}")
    };
    Some(match waiting.waiting_for {
        WaitingFor::DueTime { .. } => return None,
        WaitingFor::UsableEndpoint => "its endpoint cannot be used as it is declared".to_owned(),
        WaitingFor::Start => "deliveries have not begun, or the server stops".to_owned(),
        WaitingFor::Resume => {
            let since = hold.since.map(|since| format!(" since {since}"));
            let since = since.unwrap_or_default();
            if hold.state == HoldState::Gone {
                format!(
                    "the subscription is paused{since}: its endpoint answered 410 and `disableOnGone` is set"
                )
            } else {
                format!("the subscription is paused{since}")
            }
        }
        WaitingFor::Origin { why, at } => {
            let then = at.map(|at| format!(", it is looked for again at {at}"));
            let then = then.unwrap_or_default();
            format!("there is no origin to send it to: {}{then}", why.as_str())
        }
        WaitingFor::EndOfHold => {
            let until = hold.until.map(|until| format!(" until {until}"));
            let until = until.unwrap_or_default();
            match hold.next_trial.filter(|trial| Some(*trial) != hold.until) {
                Some(trial) => format!("{}{until}, next trial at {trial}", held_by()),
                None => format!("{}{until}, then one event is tried", held_by()),
            }
        }
        WaitingFor::Trial => {
            let after = hold
                .cause
                .map(|cause| format!(" after {}", cause.as_str()))
                .unwrap_or_default();
            let until = hold.until.map(|until| format!(" ended at {until}"));
            let until = until.unwrap_or_else(|| " is over".to_owned());
            format!("the hold{after}{until}: one event is tried alone first")
        }
        WaitingFor::EarlierEvent => {
            "an earlier event with its key is not settled, and they go one after the other"
                .to_owned()
        }
        WaitingFor::Reading { behind: 1 } => "it is about to be read".to_owned(),
        WaitingFor::Reading { behind } => {
            format!("its subscription is behind, {behind} events up to this one")
        }
        WaitingFor::Pace { until } => {
            format!("attempts there go out at a pace, the next one at {until}")
        }
        WaitingFor::MaxConcurrency { open, limit } => {
            format!("its subscription has {open} of {limit} requests open (`maxConcurrency`)")
        }
        WaitingFor::MaxRequestsPerSecond { limit, until } => format!(
            "its subscription sends {limit} requests a second (`maxRequestsPerSecond`), the next one at {until}"
        ),
        WaitingFor::Settlements => {
            "earlier successes of its subscription are written down first".to_owned()
        }
        WaitingFor::Turn {
            open,
            limit,
            is_slow,
        } => {
            let slow = if is_slow { " slow" } else { "" };
            format!(
                "it waits for its turn at the endpoint: {open} of {limit}{slow} attempts are open"
            )
        }
        WaitingFor::TurnOfAll { open, limit } => {
            format!("it waits for its turn: {open} of {limit} attempts at all endpoints are open")
        }
    })
}

fn told(delivery: &DeliveryStory) -> String {
    let attempts_max = delivery
        .policy
        .map_or(0, |policy| policy.max_delivery_attempts);
    match delivery.state {
        DeliveryState::NotOwed | DeliveryState::Unknown | DeliveryState::Ended => {
            "it ended, and how is not remembered".to_owned()
        }
        DeliveryState::FirstAttemptPending => "it waits for its first attempt".to_owned(),
        DeliveryState::InFlight { attempt: 0 } => "it is being given up".to_owned(),
        DeliveryState::InFlight { attempt } => format!("attempt {attempt} runs"),
        DeliveryState::AttemptDue { at, attempts } => {
            let next = attempts.saturating_add(1);
            let moved = moved_from(delivery.attempts.last().map(|one| one.next), at).map(|said| {
                format!(", not at {said} any more: its subscription was held back then")
            });
            let moved = moved.unwrap_or_default();
            format!("attempt {next} of at most {attempts_max} is due at {at}{moved}")
        }
        DeliveryState::Owed => "another attempt is owed".to_owned(),
        DeliveryState::DeadLetterDue {
            at,
            reason,
            failed_writes,
        } => {
            let reason = reason.as_str();
            let failed = match failed_writes {
                0 => String::new(),
                count => format!(", after {count} writes that failed"),
            };
            format!("given up ({reason}); its dead letter is written at {at}{failed}")
        }
        DeliveryState::Delivered { at } => format!("delivered at {at}"),
        DeliveryState::DeadLettered { at, reason } => {
            format!(
                "given up ({}); dead letter written at {at}",
                reason.as_str()
            )
        }
        DeliveryState::Dropped {
            at,
            reason: None,
            why,
        } => {
            let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
            format!("dropped{at} ({})", why.as_str())
        }
        DeliveryState::Dropped {
            at,
            reason: Some(reason),
            why,
        } => {
            let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
            let no_destination = why == DropReason::NoDeadLetterDestination;
            let what = if no_destination {
                "dropped: it has no dead-letter destination".to_owned()
            } else {
                format!("dropped ({})", why.as_str())
            };
            format!("given up{at} ({}), and {what}", reason.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_that_a_hold_moved_is_told_from_one_that_comes_as_it_was_said() {
        let at = Timestamp::from_millis;
        let due = |millis| Some(HistoryNext::Due(at(millis)));
        assert_eq!(moved_from(due(10), at(1_200)), Some(at(10)));
        assert_eq!(moved_from(due(1_200), at(1_200)), None);
        assert_eq!(moved_from(Some(HistoryNext::Purged), at(1_200)), None);
        assert_eq!(moved_from(None, at(1_200)), None);
    }

    #[test]
    fn a_clause_in_a_sentence_has_a_bound() {
        assert_eq!(in_short(&json!("bills/")), "\"bills/\"");
        let long = in_short(&json!("\u{20ac}".repeat(1_000)));
        assert_eq!(long.chars().count(), CLAUSE_SIGNS_MAX + 1);
        assert!(long.ends_with('…'));
    }
}
