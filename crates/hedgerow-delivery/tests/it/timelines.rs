//! W1 to W34 of section 5.5 through the whole engine, to the millisecond (ED-209). W23 needs a managed destination, which
//! comes with later work; it runs through the rules alone.

use std::time::Duration;

use hedgerow_core::spec::{Profile, TopicSpec};
use serde_json::{Value, json};

use crate::world::{Meet, START_MS, World};

const CASES: &str = include_str!("../../../../cases/timeline/event-delivery.json");
/// Long enough for anything that should not come to come.
const AFTERWARDS: Duration = Duration::from_secs(200_000);

/// ED-003: on one clock, to the millisecond. ED-202: the first limit that is reached ends the event, as the time to live in W2 and
/// the attempts in W3. ED-063: nothing is tried for longer than a day (W1).
#[tokio::test(start_paused = true)]
async fn worked_timelines_hold_to_the_millisecond() {
    let file: Value = serde_json::from_str(CASES).unwrap();
    let cases = file["cases"].as_array().unwrap();
    let mut ran = 0;
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let is_managed = case["input"]["kind"] == "R";
        if id.starts_with("TL-W") && !is_managed {
            // ED-317: the profiles differ in nothing of it.
            for profile in [Profile::Default, Profile::Strict] {
                run(case, profile).await;
                ran += 1;
            }
        }
    }
    assert_eq!(ran, 2 * 33, "W1 to W34 without W23");
}

/// ED-314: T0 = P on an idle server, whenever the event comes.
#[tokio::test(start_paused = true)]
async fn the_first_attempt_is_made_at_once() {
    let world = World::new(|_, _| Meet::status(200));
    let topic = world.topic("orders").await;
    world
        .subscribe("orders", "the-sub", json!({}))
        .await
        .unwrap();
    for (number, wait) in [0, 1, 7, 12_345, 3_600_000].into_iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let published = world.publish(topic, &[&number.to_string()]).await;
        world.settle().await;
        let seen = world.seen();
        assert_eq!(seen.len(), number + 1);
        assert_eq!(seen[number].time, published, "after {wait} ms");
        assert_eq!(seen[number].delivery_count, 0);
    }
}

async fn run(case: &Value, profile: Profile) {
    let id = case["id"].as_str().unwrap();
    let script = script(&case["input"]["script"]);
    let world = World::new(move |_, attempt| script[attempt.min(script.len() - 1)].clone());
    let spec = TopicSpec {
        profile: Some(profile),
        ..TopicSpec::default()
    };
    let topic = world.topic_with("orders", spec).await;
    let policy = case["input"]["policy"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    world
        .subscribe("orders", "the-sub", json!({ "retryPolicy": policy }))
        .await
        .unwrap();
    let published = world.begun.elapsed();
    world.publish(topic, &["e1"]).await;
    world.sleep_until(published + AFTERWARDS).await;

    let seconds = |since: Duration| (since - published).as_secs_f64();
    let expect = &case["expect"];
    let mut attempts: Vec<_> = world.seen().iter().map(|seen| seconds(seen.at)).collect();
    attempts.extend(world.refused().into_iter().map(seconds));
    assert_eq!(
        json_numbers(&attempts),
        numbers(&expect["attempts_at"]),
        "{id}: attempts"
    );
    if world.refused().is_empty() {
        let counts: Vec<_> = world
            .seen()
            .iter()
            .map(|seen| f64::from(seen.delivery_count))
            .collect();
        assert_eq!(
            json_numbers(&counts),
            numbers(&expect["delivery_counts"]),
            "{id}: counts"
        );
    }
    let info = world.info("orders", "the-sub").await;
    assert_eq!(info.pending, 0, "{id}: nothing is left");
    world.assert_balanced("orders", "the-sub").await;
    let records = world.terminal_records().await;
    if expect["result"] == "dead_letter" {
        let [record] = records.as_slice() else {
            panic!("{id}: one terminal record: {records:?}")
        };
        let decided = record.decided.as_millis() - START_MS;
        let decided = decided as f64 / 1000.0 - published.as_secs_f64();
        assert_eq!(
            json_numbers(&[decided]),
            numbers(&json!([expect["decision_at"]])),
            "{id}"
        );
        assert_eq!(
            record.reason.as_str(),
            expect["reason"].as_str().unwrap(),
            "{id}: reason"
        );
        let progress = record.progress.unwrap();
        assert_eq!(
            json!(progress.attempts),
            expect["delivery_attempts"],
            "{id}: attempts made"
        );
        if let Some(outcome) = expect["last_outcome"].as_str() {
            assert_eq!(progress.last_outcome.as_str(), outcome, "{id}: outcome");
        }
    } else {
        assert!(
            records.is_empty(),
            "{id}: delivered events have no terminal record"
        );
        assert_eq!(info.counters.delivered, 1, "{id}: delivered");
    }
}

fn script(entries: &Value) -> Vec<Meet> {
    entries.as_array().unwrap().iter().map(meet).collect()
}

fn meet(entry: &Value) -> Meet {
    match entry["failure"].as_str() {
        Some("timeout") => return Meet::Silence,
        Some("dns") => return Meet::NoName,
        Some("connect") => return Meet::Refused,
        Some(other) => panic!("no script for {other}"),
        None => {}
    }
    Meet::Answer {
        status: entry["status"].as_u64().unwrap() as u16,
        after: Duration::from_secs_f64(entry["after_s"].as_f64().unwrap_or(0.0)),
        retry_after: entry["retry_after"].as_str().map(str::to_owned),
    }
}

/// To the millisecond.
fn json_numbers(seconds: &[f64]) -> Vec<i64> {
    seconds
        .iter()
        .map(|second| (second * 1000.0).round() as i64)
        .collect()
}

fn numbers(value: &Value) -> Vec<i64> {
    json_numbers(
        &value
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_f64().unwrap())
            .collect::<Vec<_>>(),
    )
}
