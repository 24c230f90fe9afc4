//! How fast and how much (ED-060 to ED-062): rates of publishing, and how many of each may be declared.

use hedgerow_core::rate::RateLimits;
use hedgerow_server::Config;
use serde_json::{Value, json};

use crate::support::{TestServer, event, subscription, webhook};

/// The body of a request with so many events.
fn events(count: usize) -> String {
    let one = event("1");
    let one = one.trim_matches(['[', ']']);
    format!("[{}]", vec![one; count].join(","))
}

/// ED-061: an event more than the rate is refused with 429 and the time to wait, nothing of it is stored, and other topics are
/// as free as before. A request that is larger than a second's worth is taken once, so that the wait is long enough to test.
#[tokio::test]
async fn what_is_over_the_rate_of_a_topic_is_told_to_wait() {
    let server = TestServer::start_with(|config| {
        config.rate_limits = RateLimits {
            events_per_second: 1,
            bytes_per_second: 0,
        };
    })
    .await;
    let key = server.topic("orders").await;
    let other = server.topic("other").await;
    assert_eq!(
        server.publish("orders", &key, events(1_000)).await.status,
        200
    );
    let refused = server.publish("orders", &key, events(3)).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.code(), "TooManyRequests");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((900..=1_000).contains(&wait), "{wait}");
    let message = refused.message();
    assert!(
        message.contains("1 events of up to 64 KB a second"),
        "{message}"
    );
    assert!(
        message.contains("rate_limits.events_per_second"),
        "{message}"
    );
    // It is the last thing that is judged, and an empty request is no event.
    assert_eq!(
        server.publish("orders", "wrong", events(1)).await.status,
        401
    );
    assert_eq!(server.publish("orders", &key, "[{}]").await.status, 400);
    assert_eq!(server.publish("orders", &key, "[]").await.status, 200);
    assert_eq!(server.publish("other", &other, events(1)).await.status, 200);
    let metrics = server.admin("GET", "/metrics", Value::Null).await;
    for wanted in [
        "hedgerow_publish_success_count_total{topic=\"orders\"} 1000",
        "hedgerow_publish_success_count_total{topic=\"other\"} 1",
    ] {
        assert!(
            metrics.text().contains(wanted),
            "{wanted}: {}",
            metrics.text()
        );
    }
    let failed = metrics
        .text()
        .lines()
        .find(|line| line.contains("TooManyRequests"));
    assert!(
        failed.is_some_and(|line| line.ends_with(" 3")),
        "{failed:?}"
    );
    server.stop_and_wait().await;
}

/// ED-060, ED-061: a large event counts as several, and bytes are counted beside events.
#[tokio::test]
async fn units_and_bytes_are_counted() {
    let padded = |bytes: usize| {
        let empty = event("1").replace("{\"n\": 1.50}", "\"\"");
        let data = "x".repeat(bytes + 2 - empty.len());
        event("1").replace("{\"n\": 1.50}", &format!("\"{data}\""))
    };
    for (limits, wait) in [
        // 16 units, of which a second lets one flow in.
        (
            RateLimits {
                events_per_second: 1,
                bytes_per_second: 0,
            },
            14..=16,
        ),
        (
            RateLimits {
                events_per_second: 0,
                bytes_per_second: 64 << 10,
            },
            14..=16,
        ),
    ] {
        let server = TestServer::start_with(|config| config.rate_limits = limits).await;
        let key = server.topic("orders").await;
        let large = padded(16 * (64 << 10));
        assert_eq!(server.publish("orders", &key, large).await.status, 200);
        let refused = server.publish("orders", &key, padded(64 << 10)).await;
        assert_eq!(refused.status, 429, "{limits:?}");
        let found: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(wait.contains(&found), "{limits:?}: {found}");
        server.stop_and_wait().await;
    }
}

/// ED-061: the defaults of `serve`.
#[test]
fn serve_limits_as_the_specification_says() {
    let limits = Config::default().rate_limits;
    assert_eq!(limits.events_per_second, 5_000);
    assert_eq!(limits.bytes_per_second, 5 * 1_048_576);
}

/// ED-062: what is declared beyond a quota is refused with the quota's name, what is there can be declared again, and more
/// when something is gone.
#[tokio::test]
async fn quotas_bound_what_is_declared() {
    let quotas = Config::default().engine.quotas;
    assert_eq!((quotas.topics, quotas.subscriptions_per_topic), (100, 500));
    let server = TestServer::start_with(|config| {
        config.engine.quotas.topics = 2;
        config.engine.quotas.subscriptions_per_topic = 1;
        config.engine.validation.is_enabled = false;
    })
    .await;
    server.topic("one").await;
    server.topic("two").await;
    let put = |name: &str| format!("/api/v1/topics/{name}");
    let refused = server.admin("PUT", &put("three"), json!({})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (429, "LimitReached")
    );
    assert!(
        refused.message().contains("quotas.topics"),
        "{}",
        refused.message()
    );
    assert_eq!(
        server.admin("PUT", &put("two"), json!({})).await.status,
        200
    );
    assert_eq!(
        server
            .admin("DELETE", &put("one"), Value::Null)
            .await
            .status,
        204
    );
    server.topic("three").await;

    let endpoint = webhook("http://127.0.0.1:9/hook");
    let put = |name: &str| subscription("two", name);
    assert_eq!(
        server
            .admin("PUT", &put("first"), endpoint.clone())
            .await
            .status,
        201
    );
    let refused = server.admin("PUT", &put("second"), endpoint.clone()).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (429, "LimitReached")
    );
    let message = refused.message();
    assert!(
        message.contains("quotas.subscriptions_per_topic"),
        "{message}"
    );
    assert_eq!(
        server
            .admin("PUT", &put("first"), endpoint.clone())
            .await
            .status,
        200
    );
    let other = subscription("three", "first");
    assert_eq!(
        server.admin("PUT", &other, endpoint).await.status,
        201,
        "each topic has its own"
    );
    server.stop_and_wait().await;
}
