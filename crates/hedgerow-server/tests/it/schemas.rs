//! Delivery schemas: which can be declared, and what goes onto the wire in each (sections 3.2 and 3.3).

use http::Request;
use serde_json::{Value, json};

use crate::support::{Receiver, TestServer, event, subscription, webhook};

fn topic(schema: &str) -> Value {
    match schema {
        "CustomEventSchema" => json!({
            "inputSchema": schema,
            "inputSchemaMapping": {
                "inputSchemaMappingType": "Json",
                "properties": { "eventType": { "sourceField": "kind" }, "subject": { "defaultValue": "s" } },
            },
        }),
        _ => json!({ "inputSchema": schema }),
    }
}

/// ED-130, ED-131: nine pairs, five of which there are; what was chosen stays.
#[tokio::test]
async fn impossible_pairs_and_changes_are_refused() {
    let receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let rows = [
        ("EventGridSchema", [201, 201, 400]),
        ("CloudEventSchemaV1_0", [400, 201, 400]),
        ("CustomEventSchema", [201, 201, 201]),
    ];
    let deliveries = [
        "EventGridSchema",
        "CloudEventSchemaV1_0",
        "CustomInputSchema",
    ];
    for (input, expected) in rows {
        let path = format!("/api/v1/topics/{input}").replace('_', "-");
        let made = server.admin("PUT", &path, topic(input)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        for (delivery, status) in deliveries.into_iter().zip(expected) {
            let path = format!("{path}/eventSubscriptions/{delivery}").replace('_', "-");
            let mut body = webhook(&receiver.url());
            body["eventDeliverySchema"] = json!(delivery);
            let made = server.admin("PUT", &path, body.clone()).await;
            assert_eq!(made.status, status, "{input} {delivery}: {}", made.text());
            if status == 400 {
                assert!(made.message().starts_with("eventDeliverySchema: cannot be"));
                continue;
            }
            assert_eq!(made.json()["eventDeliverySchema"], delivery);
            for other in deliveries.into_iter().filter(|other| *other != delivery) {
                body["eventDeliverySchema"] = json!(other);
                let changed = server.admin("PUT", &path, body.clone()).await;
                let message = format!(
                    "eventDeliverySchema: must not differ from the existing one, \"{delivery}\""
                );
                assert_eq!((changed.status.as_u16(), changed.message()), (400, message));
            }
        }
    }
    let mut odd = webhook(&receiver.url());
    odd["eventDeliverySchema"] = json!("cloudeventschemav1_0");
    let path = subscription("EventGridSchema", "odd");
    let refused = server.admin("PUT", &path, odd).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    // Left out, it is Event Grid's, and so not possible here.
    let path = subscription("CloudEventSchemaV1-0", "default");
    let refused = server.admin("PUT", &path, webhook(&receiver.url())).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    server.stop_and_wait().await;
}

/// ED-134, ED-138, ED-141: an Event Grid event as a `CloudEvent` on the wire, with all its headers.
#[tokio::test]
async fn a_cloud_event_goes_out_with_its_headers() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start_with(|config| {
        config.engine.webhook_origin = "grid.example".to_owned();
    })
    .await;
    let key = server.topic("orders").await;
    let mut body = webhook(&receiver.url());
    body["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
    let path = subscription("orders", "the-sub");
    assert_eq!(server.admin("PUT", &path, body).await.status, 201);
    receiver.answer(503);
    let publish = Request::post("/orders/api/events").header("aeg-sas-key", key);
    assert_eq!(server.send(publish, event("e1")).await.status, 200);
    let first = receiver.next().await;
    receiver.answer(200);
    let second = receiver.next().await;
    let expected = concat!(
        r#"{"specversion":"1.0","id":"e1","source":"/subscriptions/hedgerow/resourceGroups/hedgerow/providers/"#,
        r#"Microsoft.EventGrid/topics/orders","type":"Order.Placed","subject":"orders/1","#,
        r##""time":"2030-01-02T03:04:05Z","datacontenttype":"application/json","dataschema":"#1","data":{"n": 1.50}}"##,
    );
    for (count, delivery) in [&first, &second].into_iter().enumerate() {
        assert_eq!(delivery.body, expected);
        let mut names: Vec<_> = delivery
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        names.sort_unstable();
        let expected = [
            "accept",
            "aeg-delivery-count",
            "aeg-event-type",
            "aeg-metadata-version",
            "aeg-output-event-id",
            "aeg-subscription-name",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "webhook-request-origin",
        ];
        assert_eq!(names, expected);
        assert_eq!(
            delivery.header("content-type"),
            "application/cloudevents+json; charset=utf-8"
        );
        assert_eq!(delivery.header("aeg-metadata-version"), "1.0");
        assert_eq!(delivery.header("aeg-delivery-count"), count.to_string());
        assert_eq!(delivery.header("webhook-request-origin"), "grid.example");
        assert_eq!(
            delivery.header("content-length"),
            delivery.body.len().to_string(),
            "ED-128"
        );
    }
    assert_eq!(
        first.header("aeg-output-event-id"),
        second.header("aeg-output-event-id")
    );
    server.stop_and_wait().await;
}
