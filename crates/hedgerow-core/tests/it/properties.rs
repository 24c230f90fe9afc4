//! What holds for any input: due times only move forward and attempts are finite; a filter never panics; jitter stays in
//! its bounds; a checked specification survives being stored.

use std::time::Duration;

use hedgerow_core::event::{Data, Event};
use hedgerow_core::filter::{Filter, FilterEvent, FilterRules, fold};
use hedgerow_core::outcome::{DeadLetterReason, Outcome, parse_retry_after};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::retry::{
    CrashedAttempt, DeliveryKey, FailedAttempt, Jitter, Next, NotStarted, RetryPolicy,
    RetrySettings, SlotMode, after_crash, after_failure, after_hold, after_no_start, is_expired,
    minutes, slot_jitter,
};
use hedgerow_core::spec::{EndpointUrl, FilterSpec, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

fn any_settings() -> impl Strategy<Value = RetrySettings> {
    let slots = vec(0..100_000_000_u64, 0..15);
    let mode = prop_oneof![Just(SlotMode::Offset), Just(SlotMode::Delay)];
    (
        slots,
        0..100_000_000_u64,
        mode,
        0..=100_u32,
        0..60_000_u64,
        0..10_000_u64,
    )
        .prop_map(
            |(mut slots, repeat, slot_mode, percent, jitter_max, allowance)| {
                slots.sort_unstable();
                RetrySettings {
                    slots: slots.into_iter().map(Duration::from_millis).collect(),
                    repeat: Duration::from_millis(repeat),
                    slot_mode,
                    jitter: Jitter {
                        percent,
                        max: Duration::from_millis(jitter_max),
                    },
                    latency_allowance: Duration::from_millis(allowance),
                    ..RetrySettings::default()
                }
            },
        )
}

fn any_key() -> impl Strategy<Value = DeliveryKey> {
    (any::<u32>(), any::<u64>()).prop_map(|(id, seq)| DeliveryKey {
        subscription: SubscriptionId(id),
        seq,
    })
}

/// Before the year 2100, so that nothing ends at the end of time.
fn any_time() -> impl Strategy<Value = Timestamp> {
    (0..4_102_444_800_000_u64).prop_map(Timestamp::from_millis)
}

fn any_span() -> impl Strategy<Value = Duration> {
    (0..10_000_000_u64).prop_map(Duration::from_millis)
}

fn any_failed() -> impl Strategy<Value = FailedAttempt> {
    let spans = (any_span(), any_span(), any_span());
    let retry_after = proptest::option::of(any_span());
    let hold = proptest::option::of(any_time());
    (any_key(), 1..40_u16, any_time(), spans, retry_after, hold).prop_map(
        |(key, attempts, first_attempt, (until_start, length, floor), retry_after, hold_until)| {
            let started = first_attempt.plus(until_start);
            let ended = started.plus(length);
            FailedAttempt {
                key,
                attempts,
                first_attempt,
                started,
                ended,
                floor,
                retry_after,
                hold_until,
            }
        },
    )
}

proptest! {
    /// Even for settings that `check` refuses.
    #[test]
    fn due_times_only_move_forward(settings in any_settings(), failed in any_failed()) {
        let policy = RetryPolicy { max_delivery_attempts: u16::MAX, ..RetryPolicy::default() };
        let Next::Due(due) = after_failure(&settings, &policy, &failed) else {
            panic!("no limit is reached");
        };
        prop_assert!(due > failed.ended);
        prop_assert!(due >= failed.started.plus(failed.floor));
        prop_assert!(due >= failed.ended.plus(failed.retry_after.unwrap_or_default()));
        prop_assert!(failed.hold_until.is_none_or(|until| due >= until));
        prop_assert_eq!(after_failure(&settings, &policy, &failed), Next::Due(due));
        let tried = NotStarted {
            key: failed.key,
            attempts: failed.attempts,
            base: failed.first_attempt,
            tried: failed.started,
            ended: failed.ended,
            floor: failed.floor,
            hold_until: failed.hold_until,
        };
        prop_assert!(after_no_start(&settings, &tried) > failed.ended);
        let until = failed.hold_until.unwrap_or_default();
        let held = after_hold(&settings, failed.key, failed.first_attempt, due, until);
        prop_assert!(held >= due && held >= until);
    }

    /// No slot between E and the chosen one was passed over, and only those before E are (ED-196): ED-195 without the short cut for
    /// long waits.
    #[test]
    fn the_first_slot_is_taken(failed in any_failed()) {
        let settings = RetrySettings::default();
        let Next::Due(due) = after_failure(&settings, &RetryPolicy::default(), &failed) else {
            prop_assert!(failed.attempts >= 30);
            return Ok(());
        };
        let base = if failed.ended.since(failed.started) <= settings.latency_allowance {
            failed.started
        } else {
            failed.ended
        };
        let earliest = base
            .plus(failed.floor)
            .max(failed.ended.plus(failed.retry_after.unwrap_or_default()))
            .max(failed.hold_until.unwrap_or_default());
        let first = (0..200_000)
            .map(|index| {
                let jitter = slot_jitter(&settings, failed.key, index);
                failed.first_attempt.plus(settings.slot(index)).plus(jitter)
            })
            .find(|time| *time >= earliest && *time > failed.ended);
        prop_assert_eq!(Some(due), first);
    }

    #[test]
    fn attempts_are_finite(
        settings in any_settings(),
        key in any_key(),
        max in 1..=30_u16,
        time_to_live in 1..=1_440_u32,
        (length, floor) in (any_span(), any_span()),
    ) {
        let published = Timestamp::from_millis(1_900_000_000_000);
        let event_time_to_live = minutes(time_to_live);
        let policy = RetryPolicy { max_delivery_attempts: max, event_time_to_live };
        let mut due = published;
        for attempts in 1..=max {
            if is_expired(&policy, published, due) {
                return Ok(());
            }
            let ended = due.plus(length);
            let failed = FailedAttempt {
                key, attempts, first_attempt: published, started: due, ended, floor,
                retry_after: None, hold_until: None,
            };
            match after_failure(&settings, &policy, &failed) {
                Next::Due(next) => due = next,
                Next::Dead(reason) => {
                    prop_assert_eq!(attempts, max);
                    prop_assert_eq!(reason, DeadLetterReason::MaxDeliveryAttemptsExceeded);
                    return Ok(());
                }
            }
        }
        prop_assert!(false, "more attempts than allowed");
    }

    /// ED-198; and the same again whenever it is asked for, as after a restart (ED-199).
    #[test]
    fn jitter_stays_in_its_bounds(settings in any_settings(), key in any_key(), index in 0..50_u32) {
        let jitter = slot_jitter(&settings, key, index);
        let slot = settings.slot(index);
        prop_assert!(jitter <= settings.jitter.max);
        prop_assert!(jitter * 100 <= slot * settings.jitter.percent);
        prop_assert_eq!(jitter, slot_jitter(&settings, key, index));
    }

    #[test]
    fn a_filter_never_panics_and_finds_what_is_there(
        (before, text, after) in (".*", ".*", ".*"),
        case_sensitive: bool,
    ) {
        let spec = FilterSpec {
            included_event_types: Some(vec![text.clone(), before.clone()]),
            subject_begins_with: before.clone(),
            subject_ends_with: after.clone(),
            is_subject_case_sensitive: case_sensitive,
            ..FilterSpec::default()
        };
        let filter = Filter::new(&spec, FilterRules::default());
        let subject = format!("{before}{text}{after}");
        let asked = |event_type: &str, subject: &str| {
            let event = event_of(event_type, subject);
            filter.matches(&FilterEvent::new(&event, "/topics/t"))
        };
        prop_assert_eq!(asked(&text, &subject), Ok(()));
        prop_assert_eq!(asked(&fold(&before), &subject), Ok(()));
        let _ = asked(&subject, &text);
    }

    #[test]
    fn folding_twice_is_folding_once(text in ".*") {
        let once = fold(&text).into_owned();
        prop_assert_eq!(fold(&once), once.as_str());
    }

    #[test]
    fn a_header_from_outside_never_panics(text in ".*", now in any_time()) {
        let _ = parse_retry_after(&text, now);
    }

    #[test]
    fn a_declaration_never_panics(value in any_declaration()) {
        let _ = TopicSpec::check(&value);
        if let Ok(checked) = SubscriptionSpec::check(&value) {
            let again = SubscriptionSpec::check(&checked.spec.to_json()).unwrap();
            prop_assert_eq!(&again.spec, &checked.spec);
            let stored = serde_json::to_value(&checked.spec).unwrap();
            let read: SubscriptionSpec = serde_json::from_value(stored).unwrap();
            prop_assert_eq!(read, checked.spec);
        }
    }

    #[test]
    fn an_endpoint_is_read_again_as_it_was(text in "https?://[a-z.:0-9%@/?#&=\u{e4}' -]{0,40}") {
        if let Ok(url) = EndpointUrl::parse(&text) {
            let again = EndpointUrl::parse(url.as_str());
            prop_assert_eq!(again, Ok(url.clone()));
            let query = text.split_once('?').map(|(_, query)| query);
            prop_assert_eq!(url.as_str().split_once('?').map(|(_, query)| query), query);
        }
    }
}

/// Declarations that are often right, with something wrong here and there.
fn any_declaration() -> impl Strategy<Value = Value> {
    let odd = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5..2_000_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
        vec((200..610_u16).prop_map(Value::from), 0..4).prop_map(Value::from),
        vec(".{0,5}".prop_map(Value::from), 0..4).prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("includedEventTypes"),
        Just("subjectBeginsWith"),
        Just("isSubjectCaseSensitive"),
        Just("maxDeliveryAttempts"),
        Just("eventTimeToLiveInMinutes"),
        Just("finalStatuses"),
        Just("retriableStatuses"),
        Just("odd"),
    ];
    let object = vec((name, odd), 0..3).prop_map(|members| {
        let members = members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        Value::Object(members.collect())
    });
    let part = prop_oneof![
        Just("filter"),
        Just("retryPolicy"),
        Just("retry"),
        Just("responseTimeoutSeconds")
    ];
    let destination = serde_json::json!({
        "endpointType": "WebHook", "properties": { "endpointUrl": "https://example.com/?a=b" },
    });
    vec((part, object), 0..4).prop_map(move |parts| {
        let mut members = Map::from_iter([("destination".to_owned(), destination.clone())]);
        members.extend(
            parts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        Value::Object(members)
    })
}

/// ED-190, ED-207: which of the three ends it is, and what is remembered.
#[test]
fn three_crashes_in_a_row_are_final() {
    let settings = RetrySettings::default();
    let policy = RetryPolicy {
        max_delivery_attempts: 4,
        ..RetryPolicy::default()
    };
    let started = Timestamp::from_millis(1_000_000);
    let after = |attempts, crashes, now| {
        let now = Timestamp::from_millis(now);
        after_crash(
            &settings,
            &policy,
            &CrashedAttempt {
                attempts,
                started,
                crashes,
                now,
            },
        )
    };
    let due = |millis| Next::Due(Timestamp::from_millis(millis));
    assert_eq!(
        after(1, 1, 1_001_000),
        (due(1_030_000), Outcome::Delivering)
    );
    assert_eq!(
        after(2, 2, 1_031_000),
        (due(1_031_000), Outcome::Delivering)
    );
    let repeated = Next::Dead(DeadLetterReason::UndeliverableDueToRepeatedCrash);
    assert_eq!(after(3, 3, 1_001_000), (repeated, Outcome::Aborted));
    let exhausted = Next::Dead(DeadLetterReason::MaxDeliveryAttemptsExceeded);
    assert_eq!(after(4, 1, 1_001_000), (exhausted, Outcome::Delivering));
}

/// The jitter of many deliveries is spread over the whole range, and differs between slots, events and subscriptions (ED-199).
#[test]
fn jitter_is_spread() {
    let settings = RetrySettings::default();
    let key = |seq| DeliveryKey {
        subscription: SubscriptionId(1),
        seq,
    };
    let jitters: Vec<u128> = (0..10_000)
        .map(|seq| slot_jitter(&settings, key(seq), 5).as_millis())
        .collect();
    let mean = jitters.iter().sum::<u128>() / 10_000;
    assert!(
        (14_500..15_500).contains(&mean),
        "the mean of [0, 30 s] is {mean} ms"
    );
    assert!(jitters.iter().any(|jitter| *jitter < 100));
    assert!(jitters.iter().any(|jitter| *jitter > 29_900));
    let slot_5 = slot_jitter(&settings, key(1), 5);
    assert_ne!(slot_jitter(&settings, key(1), 4), slot_5);
    assert_ne!(slot_jitter(&settings, key(2), 5), slot_5);
    let other = DeliveryKey {
        subscription: SubscriptionId(2),
        ..key(1)
    };
    assert_ne!(slot_jitter(&settings, other, 5), slot_5);
}

/// ED-188: the spellings of section 4.4, which logs have as well (ED-308).
#[test]
fn outcomes_are_spelled_as_the_specification_has_them() {
    let names = [
        "NotFound",
        "Disabled",
        "Full",
        "Unauthorized",
        "BadRequest",
        "TimedOut",
        "Busy",
        "PayloadTooLarge",
        "Probation",
        "Canceled",
        "Aborted",
        "SocketError",
        "ResolutionError",
        "Delivering",
        "SessionQueueNotSupported",
        "Forbidden",
        "InvalidAzureFunctionDestination",
        "GenericError",
    ];
    assert_eq!(Outcome::ALL.map(Outcome::as_str), names);
}

/// ED-262: the reasons that there are, and no others, are published.
#[test]
fn the_reference_lists_every_dead_letter_reason() {
    const PAGE: &str = include_str!("../../../../docs/reference/dead-letters.md");
    let (_, table) = PAGE.split_once("| `deadLetterReason` | when |\n").unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with("| `"));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let mut names = DeadLetterReason::ALL.map(DeadLetterReason::as_str);
    listed.sort_unstable();
    names.sort_unstable();
    assert_eq!(listed, names);
}

/// Stored by number: a change of order would rewrite history.
#[test]
fn stored_names_keep_their_numbers() {
    for (number, outcome) in Outcome::ALL.into_iter().enumerate() {
        assert_eq!(outcome as usize, number);
    }
    for (number, reason) in DeadLetterReason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, number);
    }
    assert_eq!(Outcome::ALL.map(Outcome::as_str)[13], "Delivering");
    assert_eq!(Outcome::ALL.map(Outcome::as_str)[17], "GenericError");
    assert_eq!(
        DeadLetterReason::ALL.map(DeadLetterReason::as_str)[1],
        "TimeToLiveExceeded"
    );
}

/// ED-195: a slot at the very moment of the answer has passed; and E itself may be a slot.
#[test]
fn a_slot_at_the_moment_of_the_answer_is_not_used() {
    let settings = RetrySettings {
        jitter: Jitter::OFF,
        latency_allowance: Duration::from_secs(15),
        ..RetrySettings::default()
    };
    let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
    let due = |ended, hold_until| {
        let key = DeliveryKey {
            subscription: SubscriptionId(1),
            seq: 1,
        };
        let floor = Duration::from_secs(10);
        let failed = FailedAttempt {
            key,
            attempts: 1,
            first_attempt: at(0),
            started: at(0),
            ended,
            floor,
            retry_after: None,
            hold_until,
        };
        after_failure(&settings, &RetryPolicy::default(), &failed)
    };
    assert_eq!(due(at(9), None), Next::Due(at(10)));
    assert_eq!(due(at(10), None), Next::Due(at(30)));
    assert_eq!(due(at(0), Some(at(300))), Next::Due(at(300)));
    assert_eq!(due(at(0), Some(at(86_401))), Next::Due(at(129_600)));
}

fn event_of<'a>(event_type: &'a str, subject: &'a str) -> Event<'a> {
    Event {
        id: "1".into(),
        source: None,
        event_type: event_type.into(),
        subject: Some(subject.into()),
        time: None,
        data_version: None,
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::None,
    }
}
