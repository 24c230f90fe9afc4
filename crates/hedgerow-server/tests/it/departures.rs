//! What endpoints are told of deletions, and times at which subscriptions go, over real HTTP (section 3.7). The rules are tested on
//! a paused clock, with the engine.

use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, subscription, webhook};

/// ED-171, ED-172: a real request, once.
#[tokio::test]
async fn an_endpoint_is_told_that_its_subscription_is_deleted() {
    let server = TestServer::start().await;
    server.topic("orders").await;
    let mut receiver = Receiver::start().await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let path = subscription("orders", "billing");
    assert_eq!(server.admin("DELETE", &path, Value::Null).await.status, 204);
    let notice = receiver.next().await;
    assert_eq!(notice.header("aeg-event-type"), "SubscriptionDeletion");
    let body: Value = serde_json::from_slice(&notice.body).unwrap();
    assert_eq!(body.as_array().unwrap().len(), 1);
    assert_eq!(
        body[0]["eventType"],
        "Microsoft.EventGrid.SubscriptionDeletedEvent"
    );
    let id = body[0]["data"]["eventSubscriptionId"].as_str().unwrap();
    assert!(
        id.ends_with("/topics/orders/providers/Microsoft.EventGrid/eventSubscriptions/billing"),
        "{id}"
    );
    server.stop_and_wait().await;
    assert!(receiver.is_empty());
}

/// ED-172, ED-301: what was pending is dropped, and whoever asks for it is told why.
#[tokio::test]
async fn what_is_owed_goes_with_its_subscription() {
    let server = TestServer::start_with(|config| config.engine.validation.is_enabled = false).await;
    let key = server.topic("orders").await;
    let mut receiver = Receiver::start().await;
    receiver.answer(404);
    server.subscribe("orders", "billing", &receiver.url()).await;
    assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
    receiver.next().await;
    let path = "/api/v1/events/1/attempts";
    server
        .list_until(path, |page| !page["value"].as_array().unwrap().is_empty())
        .await;
    let path = subscription("orders", "billing");
    assert_eq!(server.admin("DELETE", &path, Value::Null).await.status, 204);
    let path = "/api/v1/events/1/explanation";
    let explained = server.admin("GET", path, Value::Null).await.json();
    let delivery = &explained["value"][0]["eventSubscriptions"][0];
    for (member, value) in [
        ("state", "Dropped"),
        ("dropReason", "SubscriptionDeleted"),
        ("lastDeliveryOutcome", "Canceled"),
    ] {
        assert_eq!(delivery[member], value, "{delivery}");
    }
    server.stop_and_wait().await;
}

/// ED-173: shown, changed in part, taken back, and refused where it is past.
#[tokio::test]
async fn the_time_at_which_a_subscription_goes_is_declared() {
    let server = TestServer::start_with(|config| config.engine.validation.is_enabled = false).await;
    server.topic("orders").await;
    let path = subscription("orders", "billing");
    let mut declared = webhook("http://127.0.0.1:9/hook");
    declared["expirationTimeUtc"] = json!("2100-01-02T03:04:05+01:00");
    let made = server.admin("PUT", &path, declared.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(
        made.json()["expirationTimeUtc"],
        "2100-01-02T02:04:05.0000000Z"
    );
    let labels = server
        .admin("PATCH", &path, json!({ "labels": ["x"] }))
        .await
        .json();
    assert_eq!(labels["expirationTimeUtc"], "2100-01-02T02:04:05.0000000Z");
    let back = server
        .admin("PATCH", &path, json!({ "expirationTimeUtc": null }))
        .await
        .json();
    assert_eq!(back["expirationTimeUtc"], Value::Null);
    for odd in [
        json!("2001-01-01T00:00:00Z"),
        json!("tomorrow"),
        json!("2100-01-01"),
        json!(4_102_444_800_u64),
    ] {
        declared["expirationTimeUtc"] = odd.clone();
        let refused = server.admin("PUT", &path, declared.clone()).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (400, "InvalidInput"),
            "{odd}"
        );
        assert!(
            refused.message().starts_with("expirationTimeUtc: "),
            "{}",
            refused.message()
        );
    }
    server.stop_and_wait().await;
}
