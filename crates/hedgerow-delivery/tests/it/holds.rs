//! Probation and delayed delivery through the whole engine (ED-224 to ED-241, ED-324): the table of cases, and what needs
//! more than one event after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Meet, START_MS, World};

const CASES: &str = include_str!("../../../../cases/probation/event-delivery.json");

/// Cases with a time to live for one of the events, a managed destination, a refusal that takes half a second, or settings of
/// less than the engine takes: the first three have tests of their own below, all run through the rules alone.
const NOT_HERE: [&str; 5] = ["PB-03", "PB-04", "PB-13", "PB-25", "PB-29"];

type Attempts = BTreeMap<String, Vec<(u64, u64)>>;

#[tokio::test(start_paused = true)]
async fn cases_hold_to_the_millisecond() {
    let file: Value = serde_json::from_str(CASES).unwrap();
    let mut ran = 0;
    for case in file["cases"].as_array().unwrap() {
        if !NOT_HERE.contains(&case["id"].as_str().unwrap()) {
            run(case).await;
            ran += 1;
        }
    }
    assert_eq!(ran, 33, "38 without those that are not here");
}

async fn run(case: &Value) {
    let id = case["id"].as_str().unwrap();
    let expected = expected(&case["expect"]["attempts"]);
    let (world, met) = world_of(case, &expected);
    let topic = world.topic("orders").await;
    let declared = declared(case["input"].get("settings"));
    world
        .subscribe("orders", "the-sub", declared)
        .await
        .unwrap();
    // The world's clock is at P already.
    let begun = world.begun.elapsed();
    assert_eq!(begun, Duration::ZERO, "{id}: declaring takes no time");
    let events = case["input"]["events"].as_array().unwrap();
    let mut events: Vec<_> = events
        .iter()
        .map(|event| (millis(&event["at"]), event["name"].as_str().unwrap()))
        .collect();
    events.sort_by_key(|(at, _)| *at);
    for (at, name) in events {
        world.sleep_until(Duration::from_millis(at)).await;
        world.publish(topic, &[name]).await;
    }
    let until = case["input"]["until_s"].as_f64().unwrap_or(200_000.0);
    world.sleep_until(Duration::from_secs_f64(until)).await;
    let mut found: Attempts = expected
        .keys()
        .map(|name| (name.clone(), Vec::new()))
        .collect();
    for seen in world.seen() {
        let at = seen.at.as_millis() as u64;
        let attempts = found.get_mut(&seen.event_id).unwrap();
        attempts.push((at, u64::from(seen.delivery_count)));
    }
    for (name, at) in met.lock().unwrap().iter() {
        let attempts = found.get_mut(name).unwrap();
        // There was no request that could say it.
        let (_, count) = expected[name].iter().find(|(time, _)| time == at).unwrap();
        attempts.push((*at, *count));
    }
    for attempts in found.values_mut() {
        attempts.sort_unstable();
    }
    assert_eq!(found, expected, "{id}: attempts");
    if let Some(ends) = case["expect"]["final"].as_object() {
        check_ends(id, &world, ends).await;
    }
    world.assert_balanced("orders", "the-sub").await;
}

async fn check_ends(id: &str, world: &World, ends: &serde_json::Map<String, Value>) {
    let info = world.info("orders", "the-sub").await;
    let delivered = ends.values().filter(|end| end["result"] != "dead_letter");
    assert_eq!(info.counters.delivered, delivered.count() as u64, "{id}");
    let records = world.terminal_records().await;
    for (name, end) in ends {
        let record = records.iter().find(|record| record.event_id == *name);
        if end["result"] != "dead_letter" {
            assert!(record.is_none(), "{id}: {name} was delivered: {record:?}");
            continue;
        }
        let record = record.unwrap_or_else(|| panic!("{id}: {name} has a terminal record"));
        let progress = record.progress.unwrap();
        let decided = record.decided.as_millis() - START_MS;
        assert_eq!(decided, millis(&end["at"]), "{id}: {name}");
        assert_eq!(json!(progress.attempts), end["attempts"], "{id}: {name}");
        assert_eq!(json!(record.reason.as_str()), end["reason"], "{id}: {name}");
        let outcome = progress.last_outcome.as_str();
        assert_eq!(json!(outcome), end["last_outcome"], "{id}: {name}");
    }
}

/// A world whose receiver does what the case says, and where attempts are noted that met nobody.
type Met = Arc<Mutex<Vec<(String, u64)>>>;

fn world_of(case: &Value, expected: &Attempts) -> (World, Met) {
    let scripts: HashMap<String, Vec<Meet>> = case["input"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let name = event["name"].as_str().unwrap().to_owned();
            let steps = event["script"].as_array().unwrap();
            (name, steps.iter().map(meet).collect())
        })
        .collect();
    let met = Met::default();
    let noted = Arc::clone(&met);
    let expected = expected.clone();
    let begun = tokio::time::Instant::now();
    let step = move |name: &str, attempt: usize| {
        let script = &scripts[name];
        script[attempt.min(script.len() - 1)].clone()
    };
    let world = World::new(move |name, attempt| {
        if name != "refused" {
            // What met nobody before counts too.
            let before = noted
                .lock()
                .unwrap()
                .iter()
                .filter(|(met, _)| met == name)
                .count();
            return step(name, attempt + before);
        }
        // Nobody knows yet whose connection it is: the event that is to be attempted now.
        let now = begun.elapsed().as_millis() as u64;
        let mut noted = noted.lock().unwrap();
        for (name, attempts) in &expected {
            for (index, (at, _)) in attempts.iter().enumerate() {
                let is_noted = noted.contains(&(name.clone(), *at));
                let found = step(name, index);
                if *at == now && !is_noted && matches!(found, Meet::NoName | Meet::Refused) {
                    noted.push((name.clone(), now));
                    return found;
                }
            }
        }
        Meet::status(200)
    });
    (world, met)
}

fn declared(settings: Option<&Value>) -> Value {
    let mut declared = json!({});
    for (name, value) in settings.and_then(Value::as_object).into_iter().flatten() {
        let (group, member) = name.split_once('.').unwrap();
        declared[group][member] = value.clone();
    }
    declared
}

fn expected(attempts: &Value) -> Attempts {
    let attempts = attempts.as_object().unwrap().iter();
    attempts
        .map(|(name, list)| {
            let list = list.as_array().unwrap().iter();
            let list = list.map(|pair| (millis(&pair[0]), pair[1].as_u64().unwrap()));
            (name.clone(), list.collect())
        })
        .collect()
}

fn meet(step: &Value) -> Meet {
    match step["failure"].as_str() {
        Some("timeout") => return Meet::Silence,
        Some("dns") => return Meet::NoName,
        Some("connect") => return Meet::Refused,
        Some(other) => panic!("no script for {other}"),
        None => {}
    }
    Meet::Answer {
        status: step["status"].as_u64().unwrap() as u16,
        after: Duration::from_secs_f64(step["after_s"].as_f64().unwrap_or(0.0)),
        retry_after: None,
    }
}

fn millis(seconds: &Value) -> u64 {
    let span = Duration::from_secs_f64(seconds.as_f64().unwrap());
    u64::try_from((span + Duration::from_micros(500)).as_millis()).unwrap()
}
