//! Endpoints that are tested, those that lie among them: the whole exchange is told, in bounded time, and nothing is left (ED-312).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Receiver, TestServer, subscription, webhook};

const PATH: &str = "/api/v1/topics/orders/testEndpoint";

/// What an endpoint does with the test event; its handshake it answers as it should, but for one.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    Hang,
    /// A body that comes a byte at a time and never ends.
    SlowBody,
    Reset,
    HugeBody,
    HugeHead,
    Redirect,
    NoHttp,
    WrongCode,
}

/// An endpoint on loopback that lies; all it was sent.
async fn liar(lie: Lie) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?code=secret", listener.local_addr().unwrap());
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, lie, Arc::clone(&seen)));
        }
    });
    (url, requests)
}

async fn answer(mut stream: TcpStream, lie: Lie, seen: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    let text = loop {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        if text.ends_with(']') {
            break text;
        }
    };
    seen.lock().unwrap().push(text.clone());
    if let Some((_, behind)) = text.split_once(r#""validationCode":""#) {
        let code = behind.split('"').next().unwrap();
        let code = if lie == Lie::WrongCode { "none" } else { code };
        let body = json!({ "validationResponse": code }).to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all((head + &body).as_bytes()).await;
        return;
    }
    let text = match lie {
        Lie::Hang => return std::future::pending().await,
        Lie::Reset => return stream.set_zero_linger().unwrap(),
        Lie::SlowBody => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nslow").await;
            return std::future::pending().await;
        }
        Lie::HugeBody => format!("HTTP/1.1 500 No\r\n\r\n{}", "x".repeat(1 << 20)),
        Lie::HugeHead => format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)),
        Lie::Redirect => {
            "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/?code=secret\r\ncontent-length: 0\r\n\r\n"
                .to_owned()
        }
        Lie::NoHttp | Lie::WrongCode => "220 mail.example ESMTP\r\n".to_owned(),
    };
    let _ = stream.write_all(text.as_bytes()).await;
}

async fn tested(server: &TestServer, body: Value) -> Value {
    let answer = server.admin("POST", PATH, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        !answer.text().contains("secret"),
        "ED-121: {}",
        answer.text()
    );
    answer.json()
}

#[tokio::test]
async fn a_lie_is_told_as_it_came() {
    let server = TestServer::start_with(|config| config.engine.validation.is_enabled = true).await;
    server.topic("orders").await;
    let rows = [
        (Lie::Hang, "Retry", "TimedOut", None),
        (Lie::SlowBody, "Delivered", "", Some((200, "slow", true))),
        (Lie::Reset, "Retry", "SocketError", None),
        (
            Lie::HugeBody,
            "Retry",
            "GenericError",
            Some((500, "xxx", true)),
        ),
        (Lie::HugeHead, "Retry", "SocketError", None),
        (
            Lie::Redirect,
            "Retry",
            "GenericError",
            Some((302, "", false)),
        ),
        (Lie::NoHttp, "Retry", "SocketError", None),
        (Lie::WrongCode, "NotSent", "", None),
    ];
    for (lie, result, outcome, answered) in rows {
        let (url, requests) = liar(lie).await;
        let mut body = webhook(&url);
        body["responseTimeoutSeconds"] = json!(1);
        let began = std::time::Instant::now();
        let told = tested(&server, body).await;
        assert!(began.elapsed() < Duration::from_secs(20), "{result}");
        let event = &told["event"];
        assert_eq!(event["result"], result, "{told}");
        assert_eq!(
            event["outcome"].as_str().unwrap_or_default(),
            outcome,
            "{told}"
        );
        match answered {
            None => assert_eq!(event["answer"], Value::Null, "{told}"),
            Some((status, body, is_cut)) => {
                assert_eq!(event["answer"]["status"], status);
                let shown = event["answer"]["body"].as_str().unwrap();
                assert!(
                    shown.starts_with(body) && shown.len() <= 16 << 10,
                    "{}",
                    shown.len()
                );
                assert_eq!(event["answer"]["isCut"], is_cut, "{told}");
            }
        }
        let handshake = &told["handshake"];
        assert_eq!(handshake["request"]["line"], "POST /hook?*** HTTP/1.1");
        assert!(handshake["timings"]["totalMs"].as_f64().unwrap() > 0.0);
        let requests = requests.lock().unwrap().clone();
        if lie == Lie::WrongCode {
            assert_eq!(
                handshake["provisioningState"], "AwaitingManualAction",
                "{told}"
            );
            assert_eq!(requests.len(), 1, "ED-152: no event without consent");
            continue;
        }
        assert_eq!(handshake["provisioningState"], "Succeeded", "{told}");
        assert_eq!(
            requests.len(),
            2,
            "one handshake, one event, and nothing again (ED-122)"
        );
        let (_, sent) = requests[1].split_once("\r\n\r\n").unwrap();
        assert_eq!(event["request"]["body"], sent);
        let timings = &event["timings"];
        assert!(
            timings["connectMs"].is_f64() && timings["tlsMs"].is_null(),
            "{told}"
        );
        assert_eq!(
            timings["firstByteMs"].is_f64(),
            lie != Lie::Hang && lie != Lie::Reset,
            "{told}"
        );
    }
    let listed = server
        .admin(
            "GET",
            "/api/v1/topics/orders/eventSubscriptions",
            Value::Null,
        )
        .await;
    assert_eq!(listed.json()["value"], json!([]), "nothing is declared");
    server.stop_and_wait().await;
}

/// A subscription is tested as it is declared, with an event that is given, in the form that its topic takes.
#[tokio::test]
async fn a_declared_subscription_is_tested_with_a_sample() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start().await;
    server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let sample = json!({ "id": "mine", "eventType": "Order.Placed", "data": { "n": 1.10 } });
    for (event, id) in [(sample, Some("mine")), (Value::Null, None)] {
        let asked = json!({ "eventSubscription": "billing", "event": event });
        let told = tested(&server, asked).await;
        assert_eq!(told["event"]["result"], "Delivered", "{told}");
        assert_eq!(told["event"]["answer"]["status"], 200);
        let delivery = receiver.next().await;
        assert_eq!(delivery.header("aeg-subscription-name"), "BILLING");
        if let Some(id) = id {
            assert_eq!(delivery.id(), id);
        }
    }
    let status = server.status("orders", "billing").await;
    assert_eq!(status["matched"], 0, "{status}");
    assert_eq!(status["delivered"], 0, "{status}");
    for (body, member) in [
        (json!({ "eventSubscription": 1 }), "eventSubscription"),
        (
            json!({ "eventSubscription": "billing", "filter": {} }),
            "filter",
        ),
        (
            json!({ "eventSubscription": "billing", "event": 1 }),
            "event",
        ),
        (
            json!({ "eventSubscription": "billing", "event": {} }),
            "event",
        ),
        (json!({}), "destination"),
        (
            webhook("http://169.254.169.254/"),
            "destination.properties.endpointUrl",
        ),
    ] {
        let refused = server.admin("POST", PATH, body).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.message().starts_with(member), "{}", refused.text());
    }
    let nobody = server
        .admin("POST", PATH, json!({ "eventSubscription": "none" }))
        .await;
    assert_eq!(nobody.status, 404);
    server.stop_and_wait().await;
}

/// Whatever a topic or domain takes, an event can be made up for it.
#[tokio::test]
async fn an_event_is_made_up_for_every_schema() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let custom = json!({ "inputSchema": "CustomEventSchema", "inputSchemaMapping": {
        "inputSchemaMappingType": "Json", "properties": {
            "topic": { "sourceField": "to" },
            "eventType": { "sourceField": "kind.name" },
            "subject": { "sourceField": "kind.of" },
        } } });
    let specs = [
        (json!({}), "EventGridSchema"),
        (
            json!({ "inputSchema": "CloudEventSchemaV1_0" }),
            "CloudEventSchemaV1_0",
        ),
        (custom, "CustomInputSchema"),
    ];
    for (number, (spec, schema)) in specs.into_iter().enumerate() {
        for (kind, below) in [("topics", ""), ("domains", ""), ("domains", "/topics/foo")] {
            let path = format!("/api/v1/{kind}/{kind}-{number}");
            let made = server.admin("PUT", &path, spec.clone()).await;
            assert!(made.status.is_success(), "{}", made.text());
            let mut body = webhook(&receiver.url());
            body["eventDeliverySchema"] = json!(schema);
            let path = format!("{path}{below}/testEndpoint");
            let told = server.admin("POST", &path, body).await;
            assert_eq!(told.status, 200, "{path}: {}", told.text());
            assert_eq!(
                told.json()["event"]["result"],
                "Delivered",
                "{}",
                told.text()
            );
            receiver.next().await;
        }
    }
    let nowhere = subscription("topics-0", "any");
    assert_eq!(server.admin("GET", &nowhere, Value::Null).await.status, 404);
    server.stop_and_wait().await;
}
