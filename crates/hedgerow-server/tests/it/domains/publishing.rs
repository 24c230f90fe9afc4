//! What is published to a domain, and who gets it.

use bytes::Bytes;
use http::Request;

use super::*;

/// ED-068, ED-069, ED-072, ED-074, ED-077: one request for several topics; each subscription of a topic gets its own, one of the
/// domain gets all, and each event says where it belongs, however it named that.
#[tokio::test]
async fn events_go_to_the_subscriptions_of_their_topic_and_of_the_domain() {
    let server = start().await;
    let key = domain(&server, json!({})).await;
    let (mut foo, mut bar, mut all) = (
        Receiver::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let shown = subscribe(&server, &of_topic("foo", "audit"), &foo).await;
    assert_eq!(shown["topic"], "shop/topics/foo");
    subscribe(&server, &of_topic("BAR", "audit"), &bar).await;
    let shown = subscribe(&server, &of_domain("audit"), &all).await;
    assert_eq!(shown["topic"], "shop");
    let full = format!("{DOMAIN}/topics/foo");
    let events = [
        event("1", &json!("foo")),
        event("2", &json!("bar")),
        event("3", &json!(full)),
        event("4", &json!("other")),
    ];
    assert_eq!(
        publish(&server, &key, &events).await.status,
        200,
        "ED-076: no topic \"other\" is there"
    );
    let topic_of = |delivery: &Bytes| {
        let body: Value = serde_json::from_slice(delivery).unwrap();
        (
            body[0]["id"].as_str().unwrap().to_owned(),
            body[0]["topic"].as_str().unwrap().to_owned(),
        )
    };
    let mut at_foo = vec![
        topic_of(&foo.next().await.body),
        topic_of(&foo.next().await.body),
    ];
    at_foo.sort();
    assert_eq!(
        at_foo,
        [("1".to_owned(), full.clone()), ("3".to_owned(), full)]
    );
    assert_eq!(
        topic_of(&bar.next().await.body),
        ("2".to_owned(), format!("{DOMAIN}/topics/bar"))
    );
    let mut at_all = Vec::new();
    for _ in 0..4 {
        at_all.push(topic_of(&all.next().await.body).0);
    }
    at_all.sort();
    assert_eq!(at_all, ["1", "2", "3", "4"]);
    let delivered = |path: String, count: u64| {
        let server = &server;
        async move {
            server
                .list_until(&path, |shown| shown["status"]["delivered"] == count)
                .await
        }
    };
    delivered(of_topic("foo", "audit"), 2).await;
    delivered(of_topic("bar", "audit"), 1).await;
    delivered(of_domain("audit"), 4).await;
    assert!(foo.is_empty() && bar.is_empty() && all.is_empty());

    // ED-297, ED-302: three subscriptions of one name have three series.
    let metrics = server.admin("GET", "/metrics", Value::Null).await;
    for labels in [
        r#"topic="shop/topics/foo",event_subscription_name="audit"} 2"#,
        r#"topic="shop/topics/BAR",event_subscription_name="audit"} 1"#,
        r#"topic="shop",domain_event_subscription_name="audit"} 4"#,
    ] {
        let line = format!("hedgerow_delivery_success_count_total{{{labels}");
        assert!(metrics.text().contains(&line), "{line}: {}", metrics.text());
    }
    let published = r#"hedgerow_publish_success_count_total{topic="shop"} 4"#;
    assert!(metrics.text().contains(published), "{}", metrics.text());

    // The story of each event tells of those that it concerns.
    let explained = server
        .admin("GET", "/api/v1/events/2/explanation", Value::Null)
        .await
        .json();
    let story = &explained["value"][0];
    assert_eq!(
        (&story["topic"], &story["domainTopic"]),
        (&json!("shop"), &json!("bar"))
    );
    let told: Vec<_> = story["eventSubscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["domainTopic"].clone(), one["state"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            (json!("BAR"), json!("Delivered")),
            (Value::Null, json!("Delivered"))
        ]
    );
    server.stop_and_wait().await;
}

/// ED-041, ED-069: all or none, and each fault is told.
#[tokio::test]
async fn an_event_without_a_topic_refuses_its_whole_request() {
    let server = start().await;
    let key = domain(&server, json!({})).await;
    let mut receiver = Receiver::start().await;
    subscribe(&server, &of_domain("all"), &receiver).await;
    let odd = [
        event("1", &json!("foo")),
        event("2", &Value::Null),
        event("3", &json!("/subscriptions/x/domains/other/topics/foo")),
        event("4", &json!("fo")),
    ];
    let refused = publish(&server, &key, &odd).await;
    assert_eq!(refused.status, 400);
    let details = refused.json()["error"]["details"].to_string();
    for index in [1, 2, 3] {
        assert!(details.contains(&format!("index {index}")), "{details}");
    }
    assert!(!details.contains("index 0"), "{details}");
    assert_eq!(
        publish(&server, &key, &[event("5", &json!("foo"))])
            .await
            .status,
        200
    );
    assert_eq!(
        receiver.next().await.id(),
        "5",
        "nothing of the other request was stored"
    );
    server.stop_and_wait().await;
}

/// ED-070, ED-072, ED-073.
#[tokio::test]
async fn cloud_events_keep_their_source() {
    let server = start().await;
    let key = domain(&server, json!({ "inputSchema": "CloudEventSchemaV1_0" })).await;
    let mut foo = Receiver::start().await;
    let mut spec = webhook(&foo.url());
    spec["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
    let made = server.admin("PUT", &of_topic("foo", "sub"), spec).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let publish = |source: &str, more: Value, header: Option<&str>| {
        let mut event =
            json!({ "specversion": "1.0", "id": source, "type": "t", "source": source });
        for (name, value) in more.as_object().unwrap() {
            event[name] = value.clone();
        }
        let mut request = Request::post("/shop/api/events")
            .header("aeg-sas-key", &key)
            .header("content-type", "application/cloudevents+json");
        if let Some(header) = header {
            request = request.header("hedgerow-domain-topic", header);
        }
        server.send(request, event.to_string())
    };
    let uri = "https://example.com/";
    let refused = publish(uri, json!({}), None).await;
    assert_eq!(refused.status, 400);
    let details = refused.json()["error"]["details"].to_string();
    assert!(
        details.contains("full resource id or just the name of the domain topic"),
        "{details}"
    );
    for (source, more, header) in [
        ("foo", json!({}), None),
        (uri, json!({ "domaintopic": "FOO" }), None),
        (uri, json!({}), Some("foo")),
        (uri, json!({ "domaintopic": "foo" }), Some("other")),
    ] {
        let taken = publish(source, more.clone(), header).await;
        assert_eq!(taken.status, 200, "{source} {more}: {}", taken.text());
        let delivered: Value = serde_json::from_slice(&foo.next().await.body).unwrap();
        assert_eq!(delivered["source"], source, "as it was published");
        assert_eq!(delivered.get("domaintopic"), more.get("domaintopic"));
        assert!(
            delivered
                .as_object()
                .unwrap()
                .keys()
                .all(|name| !name.starts_with(':'))
        );
    }
    server.stop_and_wait().await;
}

/// ED-056, ED-071.
#[tokio::test]
async fn the_mapped_topic_of_custom_events_is_used() {
    let server = start().await;
    let spec = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "inputSchemaMappingType": "Json", "properties": {
            "topic": { "sourceField": "shop.name" },
            "subject": { "defaultValue": "s" }, "eventType": { "defaultValue": "t" },
        }},
    });
    let key = domain(&server, spec).await;
    let mut foo = Receiver::start().await;
    subscribe(&server, &of_topic("foo", "sub"), &foo).await;
    assert_eq!(
        publish(&server, &key, &[json!({ "shop": {} })])
            .await
            .status,
        400
    );
    assert_eq!(
        publish(&server, &key, &[json!({ "shop": { "name": "foo" } })])
            .await
            .status,
        200
    );
    let delivered: Value = serde_json::from_slice(&foo.next().await.body).unwrap();
    assert_eq!(delivered[0]["topic"], format!("{DOMAIN}/topics/foo"));
    let unmapped = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "properties": { "subject": { "defaultValue": "s" } } },
    });
    let made = server
        .admin("PUT", "/api/v1/domains/odd-shop", unmapped)
        .await
        .json();
    let warnings = made["warnings"].to_string();
    assert!(
        warnings.contains("inputSchemaMapping.properties.topic"),
        "{warnings}"
    );
    server.stop_and_wait().await;
}
