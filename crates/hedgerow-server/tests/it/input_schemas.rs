//! Publishing in each input schema, through to a receiver (sections 1.5 to 1.8).

use http::Request;
use serde_json::{Value, json};

use crate::support::{Answer, Receiver, TestServer, subscription, webhook};

const CLOUD: &str = "CloudEventSchemaV1_0";
const SINGLE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json; charset=utf-8";
/// What a general JSON value would not bring through (FC-01).
const ODD_DATA: &str = r#"{"id":1524831183200260097, "amount" : 1.10,"big":12345678901234567890,"z":1,"a":2,"a":3,
    "e":1e400,"s":"\u00e9\/\ud83c\udf3f\ud800"}"#;

/// A topic, a delivery schema, and headers and body of a request.
type Row<'r> = (&'r Value, &'r str, &'r [(&'r str, &'r str)], &'r str);

struct World {
    server: TestServer,
    receiver: Receiver,
    key: String,
}

impl World {
    /// A topic `orders`, and a subscription to it that is delivered in `delivery`.
    async fn start(topic: Value, delivery: &str) -> Self {
        let server = TestServer::start().await;
        let receiver = Receiver::start().await;
        let key = server.topic_with("orders", topic).await;
        let mut body = webhook(&receiver.url());
        body["eventDeliverySchema"] = json!(delivery);
        let path = subscription("orders", "all");
        let made = server.admin("PUT", &path, body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        Self {
            server,
            receiver,
            key,
        }
    }

    async fn cloud() -> Self {
        Self::start(json!({ "inputSchema": CLOUD }), CLOUD).await
    }

    async fn post(&self, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
        let mut request = Request::post("/orders/api/events").header("aeg-sas-key", &self.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.server.send(request, body.as_ref().to_vec()).await
    }

    /// The text of the next delivery.
    async fn next(&mut self) -> String {
        String::from_utf8(self.receiver.next().await.body.to_vec()).unwrap()
    }
}

fn cloud_event(id: &str, more: &str) -> String {
    format!(r#"{{"specversion":"1.0","id":"{id}","source":"/s","type":"t"{more}}}"#)
}

/// ED-034 to ED-037, ED-047, ED-137: every way in gives the same kind of event out.
#[tokio::test]
async fn cloud_events_come_in_all_modes() {
    let mut world = World::cloud().await;
    let binary = [
        ("ce-specversion", "1.0"),
        ("ce-id", "4"),
        ("ce-source", "/s"),
        ("ce-type", "t"),
        ("Ce-Tenant", "blue"),
        ("content-type", "text/csv"),
    ];
    let batch = format!(
        "[{}, {}]",
        cloud_event("2", ""),
        cloud_event("3", r#","n":5"#)
    );
    let posts: [(&[(&str, &str)], String); 4] = [
        (&[("content-type", SINGLE)], cloud_event("1", "")),
        (&[("content-type", BATCH)], batch),
        (&binary, "a,b\n".to_owned()),
        (
            &[("content-type", "application/json")],
            cloud_event("5", r#","data_base64":"AAE=""#),
        ),
    ];
    for (headers, body) in posts {
        let answer = world.post(headers, body).await;
        assert_eq!(answer.status, 200, "{headers:?}: {answer:?}");
    }
    let mut deliveries = Vec::new();
    for _ in 0..5 {
        deliveries.push(world.next().await);
    }
    deliveries.sort();
    let expected = [
        cloud_event("1", ""),
        cloud_event("2", ""),
        cloud_event("3", r#","n":5"#),
        cloud_event(
            "4",
            r#","datacontenttype":"text/csv","tenant":"blue","data":"a,b\n""#,
        ),
        cloud_event("5", r#","data_base64":"AAE=""#),
    ];
    assert_eq!(deliveries, expected);
    world.server.stop_and_wait().await;
}

/// FC-01, ED-039, ED-136: data reaches the receiver byte for byte, whatever the schema.
#[tokio::test]
async fn fc_01_data_arrives_as_it_was_published() {
    let custom = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "properties": { "eventType": { "defaultValue": "t" } } },
    });
    let grid = format!(
        r#"[{{"id":"1","subject":"s","eventType":"t","eventTime":"2030-01-02T03:04:05Z","data": {ODD_DATA} }}]"#
    );
    let cloud = cloud_event("1", &format!(r#","data": {ODD_DATA} "#));
    let binary = [
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "/s"),
        ("ce-type", "t"),
        ("content-type", "application/json"),
    ];
    let events = json!({ "inputSchema": "EventGridSchema" });
    let clouds = json!({ "inputSchema": CLOUD });
    let rows: [Row<'_>; 7] = [
        (&events, "EventGridSchema", &[], &grid),
        (&events, CLOUD, &[], &grid),
        (&clouds, CLOUD, &[("content-type", SINGLE)], &cloud),
        (&clouds, CLOUD, &binary, ODD_DATA),
        (&custom, "EventGridSchema", &[], &format!("[ {ODD_DATA} ]")),
        (&custom, CLOUD, &[], &format!("[ {ODD_DATA} ]")),
        (
            &custom,
            "CustomInputSchema",
            &[],
            &format!("[ {ODD_DATA} ]"),
        ),
    ];
    for (topic, delivery, headers, body) in rows {
        let mut world = World::start(topic.clone(), delivery).await;
        let answer = world.post(headers, body).await;
        assert_eq!(answer.status, 200, "{topic} {delivery}: {answer:?}");
        let delivered = world.next().await;
        if delivery == "CustomInputSchema" {
            assert_eq!(delivered, format!("[{ODD_DATA}]"), "ED-136");
        } else {
            let data = format!(r#""data":{ODD_DATA}}}"#);
            assert!(delivered.contains(&data), "{topic} {delivery}: {delivered}");
        }
        world.server.stop_and_wait().await;
    }
}

/// FC-02, ED-037: one subject, whether it came in a header or in JSON. Deliveries are always in structured mode.
#[tokio::test]
async fn fc_02_headers_are_percent_decoded_once() {
    let mut world = World::cloud().await;
    let path = subscription("orders", "filtered");
    let mut body = webhook(&world.receiver.url());
    body["eventDeliverySchema"] = json!(CLOUD);
    body["filter"] = json!({ "subjectEndsWith": "é %\"x", "isSubjectCaseSensitive": true });
    assert_eq!(world.server.admin("PUT", &path, body).await.status, 201);
    let headers = |subject: &'static str| {
        [
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "/s"),
            ("ce-type", "t"),
            ("ce-subject", subject),
        ]
    };
    let structured = cloud_event("1", r#","subject":"café %\"x""#);
    let in_header = world.post(&headers("caf%C3%A9%20%25%22x"), "").await;
    let in_json = world.post(&[("content-type", SINGLE)], &structured).await;
    assert_eq!(
        (in_header.status.as_u16(), in_json.status.as_u16()),
        (200, 200)
    );
    for _ in 0..4 {
        assert_eq!(world.next().await, structured);
    }
    for malformed in ["%C3%28", "%zz", "100%"] {
        let refused = world.post(&headers(malformed), "").await;
        assert_eq!(refused.status, 400, "{malformed}");
        assert!(
            refused.message().contains("\"ce-subject\""),
            "{}",
            refused.message()
        );
    }
    world.server.stop_and_wait().await;
}

/// FC-08. An id that comes twice is two events: ED-043 wins over the field case, and deduplication is a setting to come.
#[tokio::test]
async fn fc_08_batches_are_taken_as_a_whole_or_not_at_all() {
    let mut world = World::cloud().await;
    let (good, bad) = (
        cloud_event("1", ""),
        r#"{"specversion":"1.0","id":"2","source":"/s"}"#,
    );
    let rows = [
        (BATCH, "[]".to_owned(), 200, None),
        (BATCH, format!("[{good},{good}]"), 200, None),
        (
            BATCH,
            format!("[{good},{bad},{good}]"),
            400,
            Some("index 1: \"type\" is missing"),
        ),
        (BATCH, good.clone(), 400, None),
        (SINGLE, format!("[{good}]"), 400, None),
        ("application/json", format!("[{good}]"), 400, None),
    ];
    for (content_type, body, status, says) in rows {
        let answer = world.post(&[("content-type", content_type)], &body).await;
        assert_eq!(answer.status, status, "{content_type} {body}");
        if status == 400 {
            let message = answer.json()["error"]["details"][0]["message"].to_string();
            let says = says.unwrap_or("Token expected").replace('"', "\\\"");
            assert!(message.contains(&says), "{message}");
        }
    }
    // What was stored is what arrives: two of the second request, and nothing else before the last one.
    let last = cloud_event("last", "");
    assert_eq!(
        world.post(&[("content-type", SINGLE)], &last).await.status,
        200
    );
    world
        .server
        .wait_for("orders", "all", |status| status["delivered"] == 3)
        .await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.next().await);
    }
    ids.sort();
    assert_eq!(ids, [good.clone(), good, last]);
    assert!(world.receiver.is_empty());
    world.server.stop_and_wait().await;
}

/// ED-051 to ED-056: the mapped envelope, a generated id and the time of publishing.
#[tokio::test]
async fn custom_events_are_mapped() {
    let topic = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "inputSchemaMappingType": "Json", "properties": {
            "eventType": { "sourceField": "kind" },
            "subject": { "sourceField": "order.no", "defaultValue": "none" },
        }},
    });
    let mut world = World::start(topic, "EventGridSchema").await;
    let first = r#"{ "kind" : "made", "order" : { "no" : "7" } }"#;
    let second = r#"{"kind":"gone"}"#;
    let answer = world.post(&[], format!("[{first},{second}]")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let text = world.next().await;
        let event: Value = serde_json::from_str(&text).unwrap();
        seen.push((event[0].clone(), text));
    }
    seen.sort_by_key(|(event, _)| std::cmp::Reverse(event["eventType"].to_string()));
    for ((event, text), (original, kind, subject)) in seen
        .iter()
        .zip([(first, "made", "7"), (second, "gone", "none")])
    {
        assert_eq!(event["eventType"], kind);
        assert_eq!(event["subject"], subject);
        assert_eq!(event["dataVersion"], "");
        assert_eq!(event["id"].as_str().unwrap().len(), 36, "ED-052");
        let time = event["eventTime"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        assert!(
            text.contains(&format!(r#""data":{original}}}"#)),
            "ED-055: {text}"
        );
    }
    assert_ne!(seen[0].0["id"], seen[1].0["id"]);
    let refused = world.post(&[], format!("[{first},{{}}]")).await;
    assert_eq!(refused.status, 400, "ED-053");
    assert!(
        refused.text().contains("Event at index 1"),
        "{}",
        refused.text()
    );
    world.server.stop_and_wait().await;
}

/// ED-141: the trace of the request goes on with its events.
#[tokio::test]
async fn a_trace_goes_on() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let mut world = World::cloud().await;
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let headers = [
        ("content-type", SINGLE),
        ("traceparent", traceparent.as_str()),
    ];
    let answer = world.post(&headers, cloud_event("1", "")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let delivery = world.receiver.next().await;
    let sent = delivery.header("traceparent");
    assert!(sent.starts_with(&format!("00-{TRACE}-")), "{sent}");
    assert_ne!(sent, traceparent, "a new span for each attempt");
    assert_eq!(delivery.body, cloud_event("1", ""), "it is no attribute");
    world.server.stop_and_wait().await;
}

/// Depth is only data: it costs no stack, and where it has no place it is a plain 400.
#[tokio::test]
async fn deep_nesting_is_no_danger() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(150_000), "}".repeat(150_000));
    let mut world = World::cloud().await;
    let body = cloud_event("1", &format!(r#","data":{deep}"#));
    let answer = world.post(&[("content-type", SINGLE)], body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(world.next().await.ends_with(&format!("{deep}}}")));
    for odd in [&deep, &objects] {
        for body in [
            cloud_event("1", &format!(r#","ext":{odd}"#)),
            cloud_event("1", &format!(r#","subject":{odd}"#)),
            odd.clone(),
            odd[..odd.len() / 2].to_owned(),
        ] {
            let answer = world.post(&[("content-type", SINGLE)], body).await;
            assert_eq!(answer.status, 400);
            assert!(answer.body.len() < 2_000, "{}", answer.text());
        }
    }
    world.server.stop_and_wait().await;
    let custom = json!({
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": { "properties": { "eventType": { "sourceField": "a.a.a" } } },
    });
    let world = World::start(custom, "CustomInputSchema").await;
    for (body, status) in [(format!("[{objects}]"), 400), (format!("[{deep}]"), 400)] {
        assert_eq!(world.post(&[], body).await.status, status);
    }
    world.server.stop_and_wait().await;
}
