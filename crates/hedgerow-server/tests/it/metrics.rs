//! `/metrics` (ED-297 to ED-304).

#![allow(clippy::float_cmp)] // They are whole numbers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, subscription, webhook};

/// The samples of a page, by name with labels. The page is checked for the form of `OpenMetrics`: families stand together
/// below their type and help, no sample stands twice, and the end is marked.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let body = page.strip_suffix("# EOF\n").expect("the page has an end");
    let mut found = BTreeMap::new();
    let (mut family, mut kind) = (String::new(), String::new());
    let mut families = std::collections::BTreeSet::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of_kind) = rest.split_once(' ').unwrap();
            assert!(families.insert(name.to_owned()), "{name} has two families");
            (family, kind) = (name.to_owned(), of_kind.to_owned());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.starts_with(&family) && rest.ends_with('.'), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let bare = name.split('{').next().unwrap();
        let suffix = bare.strip_prefix(family.as_str()).expect(line);
        let suffixes: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            "summary" => &["_count", "_sum"],
            _ => &[""],
        };
        assert!(suffixes.contains(&suffix), "{line} in a {kind}");
        let value: f64 = value.parse().unwrap();
        assert!(
            found.insert(name.to_owned(), value).is_none(),
            "{name} twice"
        );
    }
    found
}

async fn page(server: &TestServer, path: &str) -> String {
    let answer = server.send(http::Request::get(path), "").await;
    assert_eq!(answer.status, 200);
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.headers["content-type"], content_type);
    answer.text().to_owned()
}

/// ED-119: each advanced filter that an event is held against is counted.
#[tokio::test]
async fn evaluations_of_filters_are_counted() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let mut declared = webhook(&receiver.url());
    declared["filter"] = json!({ "advancedFilters": [
        { "operatorType": "NumberGreaterThan", "key": "data.n", "value": 1 },
        { "operatorType": "IsNotNull", "key": "data.n" },
    ] });
    let path = subscription("orders", "billing");
    server.admin("PUT", &path, declared).await;
    for count in 1..=3_u32 {
        let published = server
            .publish("orders", &key, event(&count.to_string()))
            .await;
        assert_eq!(published.status, 200);
        receiver.next().await;
        let found = samples(&page(&server, "/metrics").await);
        let name = r#"hedgerow_advanced_filter_evaluation_count_total{topic="orders",event_subscription_name="billing"}"#;
        assert_eq!(found.get(name), Some(&f64::from(count * 2)), "{found:?}");
    }
    server.stop_and_wait().await;
}

/// FC-06, ED-187: a final status without a dead-letter destination is in the attempts, in the "dropped" counter, and the counts add
/// up. ED-300, ED-301: values of the labels.
#[tokio::test]
async fn what_happens_is_counted_and_adds_up() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start_with(|config| {
        config.engine.retry.slots = vec![std::time::Duration::from_secs(3_600)];
    })
    .await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let mut never = webhook(&receiver.url());
    never["filter"] = json!({ "includedEventTypes": ["Never"] });
    server
        .admin("PUT", &subscription("orders", "never"), never)
        .await;
    for (id, status) in [("1", 200), ("2", 400), ("3", 503), ("4", 401), ("5", 200)] {
        receiver.answer(status);
        let answer = server.publish("orders", &key, event(id)).await;
        assert_eq!(answer.status, 200);
        receiver.next().await;
        server
            .wait_for("orders", "billing", |status| status["inFlight"] == 0)
            .await;
    }
    assert_eq!(
        server.publish("orders", "wrong", event("6")).await.status,
        401
    );
    assert_eq!(
        server.publish("nowhere", &key, event("7")).await.status,
        404
    );
    assert_eq!(server.publish("orders", &key, "[1, 2]").await.status, 400);
    server
        .wait_for("orders", "billing", |status| {
            status["delivered"] == 2 && status["dropped"] == 2 && status["pending"] == 1
        })
        .await;

    let text = page(&server, "/metrics").await;
    assert!(!text.contains("secret"), "{text}");
    let found = samples(&text);
    let billing = r#"topic="orders",event_subscription_name="billing""#;
    let never = r#"topic="orders",event_subscription_name="never""#;
    for (name, value) in [
        (r#"hedgerow_publish_success_count_total{topic="orders"}"#.to_owned(), 5.0),
        (
            r#"hedgerow_publish_fail_count_total{topic="orders",error_type="Http4xx",error="Unauthorized"}"#.to_owned(),
            1.0,
        ),
        (
            r#"hedgerow_publish_fail_count_total{topic="orders",error_type="Http4xx",error="BadRequest"}"#.to_owned(),
            2.0,
        ),
        (
            r#"hedgerow_publish_fail_count_total{topic="",error_type="Http4xx",error="NotFound"}"#.to_owned(),
            1.0,
        ),
        (format!("hedgerow_matched_event_count_total{{{billing}}}"), 5.0),
        (format!("hedgerow_matched_event_count_total{{{never}}}"), 0.0),
        (format!("hedgerow_delivery_success_count_total{{{billing}}}"), 2.0),
        (
            format!(r#"hedgerow_delivery_attempt_fail_count_total{{{billing},error="400",error_type="Http4xx"}}"#),
            1.0,
        ),
        (
            format!(r#"hedgerow_delivery_attempt_fail_count_total{{{billing},error="503",error_type="Http5xx"}}"#),
            1.0,
        ),
        (
            format!(r#"hedgerow_dropped_event_count_total{{{billing},drop_reason="NoDeadLetterDestination"}}"#),
            2.0,
        ),
        (format!("hedgerow_pending_events{{{billing}}}"), 1.0),
        (format!("hedgerow_destination_processing_duration_in_ms_count{{{billing}}}"), 2.0),
        (format!("hedgerow_publish_to_delivered_latency_seconds_count{{{billing}}}"), 2.0),
        (format!(r#"hedgerow_attempts_per_delivered_event_bucket{{{billing},le="1.0"}}"#), 2.0),
    ] {
        assert_eq!(found.get(&name), Some(&value), "{name} in\n{text}");
    }
    // ED-304.
    let of = |state: &str| found[&format!(r#"hedgerow_deliveries{{{billing},state="{state}"}}"#)];
    let parts = [
        "delivered",
        "dead_lettered",
        "dropped",
        "given_up",
        "pending",
    ];
    let sum: f64 = parts.into_iter().map(of).sum();
    assert_eq!((of("matched"), sum), (5.0, 5.0));
    assert!(found[&format!("hedgerow_oldest_pending_age_seconds{{{billing}}}")] >= 0.0);

    let vendors = samples(&page(&server, "/metrics/event-grid").await);
    let matched = r#"MatchedEventCount{Topic="orders",EventSubscriptionName="billing"}"#;
    assert_eq!(vendors[matched], 5.0);
    assert!(vendors.keys().all(|name| !name.contains("hedgerow")));
    server.stop_and_wait().await;
}

/// ED-303: what a subscription does, and what is held back, by what holds it.
#[tokio::test]
async fn what_holds_subscriptions_is_told() {
    let mut receiver = Receiver::start().await;
    receiver.answer(404);
    let server = TestServer::start_with(|config| {
        config.engine.retry.slots = vec![std::time::Duration::from_secs(3_600)];
    })
    .await;
    let key = server.topic("orders").await;
    let mut fragile = webhook(&receiver.url());
    fragile["probation"] = json!({ "threshold": 1 });
    let path = subscription("orders", "fragile");
    let made = server.admin("PUT", &path, fragile).await;
    assert!(made.status.is_success(), "{}", made.text());
    server.accept("orders", &key, event("1")).await;
    receiver.next().await;
    server
        .wait_for("orders", "fragile", |status| {
            status["hold"]["state"] == "Probation" && status["inFlight"] == 0
        })
        .await;
    server.subscribe("orders", "idle", &receiver.url()).await;
    server.subscribe("orders", "still", &receiver.url()).await;
    let pause = format!("{}/pause", subscription("orders", "still"));
    assert_eq!(server.admin("POST", &pause, json!({})).await.status, 200);

    let found = samples(&page(&server, "/metrics").await);
    let states = [
        "healthy",
        "probation",
        "delayed",
        "awaiting_trial",
        "paused",
        "gone",
    ];
    for (name, is) in [
        ("fragile", "probation"),
        ("idle", "healthy"),
        ("still", "paused"),
    ] {
        let labels = format!(r#"topic="orders",event_subscription_name="{name}""#);
        for state in states {
            let told = &found[&format!(
                r#"hedgerow_subscription_state{{{labels},hedgerow_subscription_state="{state}"}}"#
            )];
            assert_eq!(*told, f64::from(u8::from(state == is)), "{name} {state}");
        }
        for by in &states[1..] {
            let held = &found[&format!(r#"hedgerow_held_events{{{labels},held_by="{by}"}}"#)];
            let expected = u8::from(name == "fragile" && *by == "probation");
            assert_eq!(*held, f64::from(expected), "{name} {by}");
        }
    }
    server.stop_and_wait().await;
}

/// What was owed to a subscription that is deleted was dropped (ED-301); beyond the bound they share their series.
#[tokio::test]
async fn deleted_and_many_subscriptions_are_bounded() {
    let mut receiver = Receiver::start().await;
    receiver.answer(503);
    let server = TestServer::start_with(|config| {
        config.engine.retry.slots = vec![std::time::Duration::from_secs(3_600)];
        config.metrics.subscriptions_max = 2;
    })
    .await;
    let key = server.topic("orders").await;
    for name in ["one", "two", "tri", "for"] {
        server.subscribe("orders", name, &receiver.url()).await;
    }
    server.accept("orders", &key, event("1")).await;
    for name in ["one", "two", "tri", "for"] {
        receiver.next().await;
        let _ = name;
    }
    for name in ["one", "two", "tri", "for"] {
        server
            .wait_for("orders", name, |status| status["inFlight"] == 0)
            .await;
    }
    let one = subscription("orders", "one");
    let deleted = server.admin("DELETE", &one, Value::Null).await;
    assert_eq!(deleted.status, 204);
    let found = samples(&page(&server, "/metrics").await);
    let other = r#"topic="_other",event_subscription_name="_other""#;
    let dropped = format!(
        r#"hedgerow_dropped_event_count_total{{{other},drop_reason="SubscriptionDeleted"}}"#
    );
    assert_eq!(found[&dropped], 1.0);
    assert_eq!(found[&format!("hedgerow_pending_events{{{other}}}")], 1.0);
    assert_eq!(
        found[&format!("hedgerow_matched_event_count_total{{{other}}}")],
        2.0
    );
    let with_names = found
        .keys()
        .filter(|name| name.starts_with("hedgerow_pending_events"));
    assert_eq!(with_names.count(), 3);
    server.stop_and_wait().await;
}

/// ED-299: counts are of events. One that is refused takes the others of its request with it (ED-041); what could not be read
/// counts as one.
#[tokio::test]
async fn refused_events_are_counted_and_not_their_requests_issue_4() {
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let one = event("1").trim_matches(['[', ']']).to_owned();
    let many = |count| vec![&*one; count];
    let list = |events: &[&str]| format!("[{}]", events.join(","));
    let with_one_invalid = [many(9), vec!["{}"]].concat();
    let large = format!(r#"{{"id":"{}"}}"#, "x".repeat(1_100_000));
    let rows = [
        ("one is invalid", list(&with_one_invalid), 400, 10),
        ("all are invalid", list(&["{}"; 10]), 400, 10),
        ("one is too large", list(&[&one, &large]), 413, 2),
        ("one too many", list(&many(5_001)), 413, 5_001),
        ("many too many", list(&vec!["{}"; 7_000]), 413, 7_000),
        (
            "not whole",
            list(&many(3)).trim_end_matches(']').to_owned(),
            400,
            1,
        ),
        ("no list", one.clone(), 400, 1),
        ("an empty body", String::new(), 400, 1),
        ("too many bytes", " ".repeat(1_536_001), 413, 1),
    ];
    let failed = async |error: &str| {
        let name = format!(
            r#"hedgerow_publish_fail_count_total{{topic="orders",error_type="Http4xx",error="{error}"}}"#
        );
        let found = samples(&page(&server, "/metrics").await);
        found.get(&name).copied().unwrap_or(0.0)
    };
    for (what, body, status, events) in rows {
        let error = if status == 400 {
            "BadRequest"
        } else {
            "RequestEntityTooLarge"
        };
        let before = failed(error).await;
        let answer = server.publish("orders", &key, body).await;
        assert_eq!(answer.status, status, "{what}");
        assert_eq!(failed(error).await - before, f64::from(events), "{what}");
    }
    // Who has no credential is not read.
    let answer = server.publish("orders", "wrong", list(&many(10))).await;
    assert_eq!(answer.status, 401);
    assert_eq!(failed("Unauthorized").await, 1.0);
    server.stop_and_wait().await;
}

#[tokio::test]
async fn a_token_can_be_asked_for() {
    let server = TestServer::start_with(|config| config.metrics.needs_token = true).await;
    for path in ["/metrics", "/metrics/event-grid"] {
        let answer = server.send(http::Request::get(path), "").await;
        assert_eq!(answer.status, 401);
        assert_eq!(server.admin("GET", path, Value::Null).await.status, 200);
    }
    server.stop_and_wait().await;
}
