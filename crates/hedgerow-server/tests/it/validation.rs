//! Handshakes over real connections: what frameworks answer (FC-14), what declarations are answered, and the URL that
//! completes them.

use std::time::Duration;

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{Answer, Handshake, Receiver, TestServer, event, send, subscription, webhook};
use crate::waits::patiently;

/// An endpoint that answers a handshake with the bytes that `answer` makes of it, and says which it got.
struct Odd {
    url: String,
    asked: mpsc::UnboundedReceiver<Handshake>,
}

impl Odd {
    async fn start(answer: impl Fn(&Handshake) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/hook?code=secret-of-the-query",
            listener.local_addr().unwrap()
        );
        let (tell, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(handshake) = read(&mut stream).await else {
                    continue;
                };
                for part in answer(&handshake) {
                    // It may be cut off, which is what some tests are about.
                    if stream.write_all(&part).await.is_err() {
                        break;
                    }
                }
                let _ = tell.send(handshake);
            }
        });
        Self { url, asked }
    }

    async fn next(&mut self) -> Handshake {
        patiently("a handshake", self.asked.recv()).await.unwrap()
    }
}

/// One request off the wire.
async fn read(stream: &mut TcpStream) -> Option<Handshake> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let mut head = Request::builder().method(words.next()?).uri(words.next()?);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        head = head.header(name, value);
    }
    let head = head.body(()).unwrap().into_parts().0;
    let length = head.headers.get("content-length");
    let length: usize = length.map_or(0, |text| text.to_str().unwrap().parse().unwrap());
    while bytes.len() < end + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Handshake::of(&head, &bytes[end + 4..])
}

fn whole(status: &str, headers: &str, body: &str) -> Vec<Vec<u8>> {
    let length = body.len();
    vec![
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}")
            .into_bytes(),
    ]
}

/// A server whose handshakes are over soon.
async fn server() -> TestServer {
    TestServer::start_with(|config| {
        config.engine.validation.timeout = Duration::from_millis(500);
        config.engine.validation.retry_delay = Duration::ZERO;
    })
    .await
}

async fn put(server: &TestServer, endpoint: &str, more: Value) -> Answer {
    let mut body = webhook(endpoint);
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    server
        .admin("PUT", &subscription("orders", "billing"), body)
        .await
}

async fn get(server: &TestServer) -> Value {
    let answer = server
        .admin("GET", &subscription("orders", "billing"), Value::Null)
        .await;
    assert_eq!(answer.status, 200);
    answer.json()
}

fn cloud_events() -> Value {
    json!({ "eventDeliverySchema": "CloudEventSchemaV1_0" })
}

/// Calls the URL of a handshake. It is on the server's public URL (ED-160).
async fn open(server: &TestServer, method: &str, handshake: &Handshake) -> Answer {
    let base = format!("http://{}", server.address);
    let path = handshake.url.strip_prefix(&base).unwrap();
    server
        .send(Request::builder().method(method).uri(path), "")
        .await
}

/// FC-14 a and b, ED-126: a right answer is accepted whatever its framing, white space and further members.
#[tokio::test]
async fn fc_14_right_answers_of_real_frameworks() {
    let chunked: fn(&Handshake) -> Vec<Vec<u8>> = |asked| {
        let body = asked.answer_body();
        let (one, two) = body.split_at(7);
        let text = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x};x=y\r\n{two}\r\n0\r\nx-trailer: 1\r\n\r\n",
            one.len(),
            two.len()
        );
        // Byte by byte.
        text.into_bytes()
            .into_iter()
            .map(|byte| vec![byte])
            .collect()
    };
    let spaced: fn(&Handshake) -> Vec<Vec<u8>> = |asked| {
        let body = asked.answer_body();
        let body = format!(
            "\r\n\t{}, \"at\" : \"now\" }}  \n",
            body.trim_end_matches('}')
        );
        whole("200 OK", "content-type: text/html\r\n", &body)
    };
    // Neither a length nor chunks: the body ends with the connection.
    let closed: fn(&Handshake) -> Vec<Vec<u8>> = |asked| {
        let head = "HTTP/1.1 200\r\nconnection: close\r\n\r\n";
        vec![head.into(), asked.answer_body().into_bytes()]
    };
    for answer in [chunked, spaced, closed] {
        let odd = Odd::start(answer).await;
        let server = server().await;
        server.topic("orders").await;
        let made = put(&server, &odd.url, json!({})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(made.json()["provisioningState"], "Succeeded");
        assert_eq!(made.json().get("validation"), None);
        server.stop_and_wait().await;
    }
}

/// FC-14 c to e: the wrong case and no code wait for the URL, 202 is refused; what was found is said.
#[tokio::test]
async fn fc_14_answers_without_the_code() {
    for (body, part) in [
        ("ValidationResponse", "spelled \"validationResponse\""),
        ("nothing", "no member"),
    ] {
        let mut odd = Odd::start(move |asked| {
            let said = asked.answer_body().replace("validationResponse", body);
            whole("200 OK", "x-by: odd\r\n", &said)
        })
        .await;
        let server = server().await;
        let key = server.topic("orders").await;
        let made = put(&server, &odd.url, json!({})).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let shown = made.json();
        assert_eq!(shown["provisioningState"], "AwaitingManualAction");
        let validation = &shown["validation"];
        assert!(
            validation["message"].as_str().unwrap().contains(part),
            "{validation}"
        );
        assert!(validation["until"].is_string() && validation["time"].is_string());
        assert_eq!(
            (&validation["status"], &validation["tries"]),
            (&json!(200), &json!(1))
        );
        let header = json!({ "name": "x-by", "value": "odd" });
        assert!(validation["headers"].as_array().unwrap().contains(&header));
        let asked = odd.next().await;
        assert!(validation["body"].as_str().unwrap().contains(body));
        assert!(
            !made.text().contains(&asked.token()),
            "the URL is the endpoint's to know"
        );
        // Nothing before.
        assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);

        // ED-158, ED-159: once, with GET, without another credential.
        for (method, status) in [
            ("HEAD", StatusCode::METHOD_NOT_ALLOWED),
            ("DELETE", StatusCode::METHOD_NOT_ALLOWED),
            ("POST", StatusCode::METHOD_NOT_ALLOWED),
            ("GET", StatusCode::OK),
            ("GET", StatusCode::GONE),
        ] {
            let opened = open(&server, method, &asked).await;
            assert_eq!(opened.status, status, "{method}");
            if status == StatusCode::OK {
                assert!(opened.text().contains("billing"), "{}", opened.text());
                assert_eq!(opened.header("cache-control"), Some("no-store"));
            }
        }
        let shown = get(&server).await;
        assert_eq!(shown["provisioningState"], "Succeeded");
        assert_eq!(shown.get("validation"), None);
        server.stop_and_wait().await;
    }
    let odd = Odd::start(|asked| whole("202 Accepted", "", &asked.answer_body())).await;
    let server = server().await;
    server.topic("orders").await;
    let refused = put(&server, &odd.url, json!({})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (400, "EndpointValidationFailed")
    );
    for part in ["/hook failed", "status 202", "expected was 200"] {
        assert!(refused.message().contains(part), "{}", refused.message());
    }
    assert!(!refused.text().contains("secret"), "ED-121");
    server.stop_and_wait().await;
}

/// FC-14 f to h.
#[tokio::test]
async fn fc_14_options() {
    for (answer, status, part) in [
        (
            whole("200 OK", "WebHook-Allowed-Origin: *\r\n", ""),
            201,
            "\"Succeeded\"",
        ),
        (
            whole("405 Method Not Allowed", "Allow: POST\r\n", ""),
            400,
            "status 405; expected was 2xx",
        ),
        (
            whole("200 OK", "WebHook-Allowed-Origin: other.example\r\n", ""),
            400,
            "allows \\\"other.example\\\"; expected was 2xx and the header WebHook-Allowed-Origin: 127.0.0.1",
        ),
        (
            whole("204 No Content", "", ""),
            201,
            "\"AwaitingManualAction\"",
        ),
        (
            whole(
                "200 OK",
                "WebHook-Allowed-Origin: 127.0.0.1\r\nWebHook-Allowed-Rate: 300\r\n",
                "",
            ),
            201,
            "\"allowedRequestsPerMinute\":300",
        ),
        (
            whole(
                "200 OK",
                "WebHook-Allowed-Origin: 127.0.0.1\r\nWebHook-Allowed-Rate: soon\r\n",
                "",
            ),
            201,
            "\"Succeeded\"",
        ),
    ] {
        let odd = Odd::start(move |_| answer.clone()).await;
        let server = server().await;
        server.topic("orders").await;
        let made = put(&server, &odd.url, cloud_events()).await;
        assert_eq!(made.status, status, "{}", made.text());
        assert!(made.text().contains(part), "{part} in {}", made.text());
        server.stop_and_wait().await;
    }
}

/// ED-168: GET or POST, with a rate.
#[tokio::test]
async fn callbacks_of_cloud_events() {
    for method in ["GET", "POST"] {
        let mut odd = Odd::start(|_| whole("200 OK", "", "")).await;
        let server = server().await;
        server.topic("orders").await;
        let made = put(&server, &odd.url, cloud_events()).await;
        assert_eq!(made.json()["provisioningState"], "AwaitingManualAction");
        let asked = odd.next().await;
        let path = format!("/validate/{}", asked.token());
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header("WebHook-Allowed-Rate", "60");
        assert_eq!(server.send(request, "").await.status, 200);
        assert_eq!(get(&server).await["allowedRequestsPerMinute"], 60);
        server.stop_and_wait().await;
    }
}

/// ED-159: 404 for what is no token; nothing of it is repeated.
#[tokio::test]
async fn other_urls_complete_nothing() {
    let server = server().await;
    let long = "x".repeat(5_000);
    for token in ["", "1", "1.", "1.<odd>", "..", "%31.%32", long.as_str()] {
        let path = format!(
            "/validate/{}",
            token.replace('<', "%3C").replace('>', "%3E")
        );
        let answer = server.send(Request::get(path), "").await;
        assert_eq!(answer.status, 404, "{token}");
        assert!(!answer.text().contains("odd") && answer.body.len() < 100);
        assert_eq!(
            answer.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
    }
    server.stop_and_wait().await;
}

/// ED-122, ED-127, ED-157: bodies without end, answers without end, no answer, too large a head, another place.
#[tokio::test]
async fn misbehaving_endpoints_end_in_their_time() {
    type Says = Box<dyn Fn(&Handshake) -> Vec<Vec<u8>> + Send + Sync>;
    let rows: Vec<(&str, Says, u64, &str)> = vec![
        (
            "silence",
            Box::new(|_| Vec::new()),
            3,
            "closed before the answer",
        ),
        (
            "a body that does not end",
            Box::new(|_| vec![b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{".to_vec()]),
            3,
            "ended early",
        ),
        (
            "a head without end",
            Box::new(|_| {
                let mut parts = vec![b"HTTP/1.1 200 OK\r\n".to_vec()];
                parts.extend(
                    (0..2_000).map(|n| format!("x-{n}: {}\r\n", "y".repeat(100)).into_bytes()),
                );
                parts
            }),
            3,
            "not valid HTTP",
        ),
        (
            "no HTTP",
            Box::new(|_| vec![b"hello\r\n\r\n".to_vec()]),
            3,
            "not valid HTTP",
        ),
        (
            "a redirect",
            Box::new(|_| {
                whole(
                    "307 Temporary Redirect",
                    "location: http://127.0.0.1:1/\r\n",
                    "",
                )
            }),
            1,
            "status 307",
        ),
        (
            "an error",
            Box::new(|_| whole("500 No", "", "{\"why\": 1}")),
            3,
            "status 500",
        ),
    ];
    for (what, answer, tries, part) in rows {
        let odd = Odd::start(answer).await;
        let server = server().await;
        server.topic("orders").await;
        let refused = put(&server, &odd.url, json!({})).await;
        assert_eq!(refused.status, 400, "{what}: {}", refused.text());
        assert!(
            refused.message().contains(part),
            "{what}: {}",
            refused.message()
        );
        let shown = get(&server).await;
        assert_eq!(shown["provisioningState"], "Failed", "{what}");
        assert_eq!(shown["validation"]["tries"], tries, "{what}");
        server.stop_and_wait().await;
    }
    // FC-16: a huge answer is an answer without the code.
    let odd = Odd::start(|_| {
        let mut parts = vec![b"HTTP/1.1 200 OK\r\ncontent-length: 52428800\r\n\r\n".to_vec()];
        parts.extend((0..800).map(|_| vec![b'x'; 65_536]));
        parts
    })
    .await;
    let server = server().await;
    server.topic("orders").await;
    let made = put(&server, &odd.url, json!({})).await;
    let shown = made.json();
    assert_eq!(
        shown["provisioningState"], "AwaitingManualAction",
        "{shown}"
    );
    assert_eq!(shown["validation"]["body"].as_str().unwrap().len(), 1_024);
    server.stop_and_wait().await;
}

/// An endpoint that takes the request and stays silent; and what a declaration is answered meanwhile.
#[tokio::test]
async fn a_declaration_does_not_wait_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = TestServer::start_with(|config| {
        config.validation_answer_wait = Duration::from_millis(50);
    })
    .await;
    server.topic("orders").await;
    let made = put(&server, &url, json!({})).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["provisioningState"], "Creating");
    let held = listener.accept().await.unwrap();
    let again = put(&server, &url, json!({})).await;
    assert_eq!(
        again.json()["provisioningState"],
        "Creating",
        "{}",
        again.text()
    );
    let deleted = server
        .admin("DELETE", &subscription("orders", "billing"), Value::Null)
        .await;
    assert_eq!(deleted.status, 204);
    drop(held);
    server.stop_and_wait().await;
}

/// A server that stops while somebody waits for an endpoint says how far it has come: the declaration is durable.
#[tokio::test]
async fn a_stop_ends_the_wait_and_not_the_declaration() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = TestServer::start().await;
    server.topic("orders").await;
    let request = Request::put(subscription("orders", "billing"))
        .header("authorization", format!("Bearer {}", server.token));
    let body = webhook(&url).to_string();
    let waits = tokio::spawn(send(server.address, request, body));
    // It is asked, and so its declaration holds.
    let held = listener.accept().await.unwrap();
    server.stop_and_wait().await;
    let answer = waits.await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["provisioningState"], "Creating");
    drop(held);
}

/// ED-161: a failed subscription stays to be read, and is created again by the same declaration.
#[tokio::test]
async fn a_failed_subscription_can_be_declared_again() {
    let receiver = Receiver::start().await;
    let server = server().await;
    server.topic("orders").await;
    let refused = put(&server, "http://127.0.0.1:1/hook?code=secret", json!({})).await;
    assert_eq!(refused.code(), "EndpointValidationFailed");
    assert!(
        refused.message().contains("cannot connect"),
        "{}",
        refused.message()
    );
    let shown = get(&server).await;
    assert_eq!(shown["provisioningState"], "Failed");
    let error = shown["validation"]["error"].as_str().unwrap();
    assert!(error.contains("refused"), "{error}");
    let list = server
        .admin(
            "GET",
            "/api/v1/topics/orders/eventSubscriptions",
            Value::Null,
        )
        .await;
    assert_eq!(list.json()["value"][0]["provisioningState"], "Failed");
    let made = put(&server, &receiver.url(), json!({})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json()["provisioningState"], "Succeeded");
    assert_eq!(made.json()["id"], shown["id"]);
    server.stop_and_wait().await;
}

/// ED-163.
#[tokio::test]
async fn a_failed_update_is_told_and_changes_nothing() {
    let mut receiver = Receiver::start().await;
    let odd = Odd::start(|_| whole("404 Not Found", "", "nobody")).await;
    let server = server().await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let refused = put(
        &server,
        &odd.url,
        json!({ "filter": { "subjectBeginsWith": "x" } }),
    )
    .await;
    assert_eq!(refused.code(), "EndpointValidationFailed");
    let hint = refused.json()["error"]["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("stays in force"), "{hint}");
    let shown = get(&server).await;
    assert_eq!(shown["provisioningState"], "Succeeded");
    assert_eq!(shown["filter"]["subjectBeginsWith"], "");
    let update = &shown["update"];
    assert_eq!(update["provisioningState"], "Failed");
    assert_eq!(update["filter"]["subjectBeginsWith"], "x");
    assert_eq!(update["validation"]["status"], 404);
    assert_eq!(update["validation"]["body"], "nobody");
    assert!(!shown.to_string().contains("secret"), "ED-121: {shown}");
    server.accept("orders", &key, event("1")).await;
    assert_eq!(receiver.next().await.id(), "1");
    server.stop_and_wait().await;
}

/// ED-163: what a patch does not name stays as it was declared last, the endpoint that has yet to consent too. What failed is
/// no base of further changes.
#[tokio::test]
async fn a_patch_changes_the_update_that_waits() {
    let receiver = Receiver::start().await;
    let mut silent = Odd::start(|_| whole("200 OK", "", "")).await;
    let server = server().await;
    server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let waits = put(&server, &silent.url, json!({ "labels": ["one"] })).await;
    let update = &waits.json()["update"];
    assert_eq!(update["provisioningState"], "AwaitingManualAction");
    silent.next().await;
    let path = subscription("orders", "billing");
    let change = json!({ "filter": { "subjectBeginsWith": "x" } });
    let patched = server.admin("PATCH", &path, change).await;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let shown = get(&server).await;
    assert_eq!(shown["filter"]["subjectBeginsWith"], "");
    assert_eq!(shown["labels"], json!([]));
    let update = &shown["update"];
    assert_eq!(update["provisioningState"], "AwaitingManualAction");
    assert_eq!(update["filter"]["subjectBeginsWith"], "x");
    assert_eq!(update["labels"], json!(["one"]));
    let asked = silent.next().await;
    assert_eq!(open(&server, "GET", &asked).await.status, 200);
    let shown = get(&server).await;
    assert_eq!(shown["update"], Value::Null);
    assert_eq!(shown["filter"]["subjectBeginsWith"], "x");
    let full = server
        .admin("POST", &format!("{path}/getFullUrl"), Value::Null)
        .await;
    assert_eq!(full.json()["endpointUrl"], silent.url, "its secret too");

    let refused = put(&server, "http://127.0.0.1:1/hook", json!({})).await;
    assert_eq!(refused.code(), "EndpointValidationFailed");
    let change = json!({ "labels": ["two"] });
    let patched = server.admin("PATCH", &path, change).await;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let shown = get(&server).await;
    assert_eq!(shown["update"], Value::Null);
    assert_eq!(shown["labels"], json!(["two"]));
    assert_eq!(shown["filter"]["subjectBeginsWith"], "x");
    server.stop_and_wait().await;
}

/// Changes at the same time, each of other members: each of them holds at the end.
#[tokio::test]
async fn patches_at_the_same_time_lose_nothing() {
    let receiver = Receiver::start().await;
    let server = server().await;
    server.topic("orders").await;
    server.subscribe("orders", "billing", &receiver.url()).await;
    let path = subscription("orders", "billing");
    let patches = [
        json!({ "labels": ["finance"] }),
        json!({ "filter": { "subjectBeginsWith": "x" } }),
        json!({ "filter": { "subjectEndsWith": "y" } }),
        json!({ "filter": { "includedEventTypes": ["Order.Placed"] } }),
        json!({ "retryPolicy": { "maxDeliveryAttempts": 7 } }),
        json!({ "retryPolicy": { "eventTimeToLiveInMinutes": 77 } }),
        json!({ "responseTimeoutSeconds": 17 }),
        json!({ "probation": { "threshold": 9 } }),
    ];
    let sent = patches
        .iter()
        .map(|patch| server.admin("PATCH", &path, patch.clone()));
    for answer in futures_all(sent).await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let shown = get(&server).await;
    for patch in &patches {
        for (group, value) in patch.as_object().unwrap() {
            let Some(members) = value.as_object() else {
                assert_eq!(shown[group], *value);
                continue;
            };
            for (member, value) in members {
                assert_eq!(shown[group][member], *value, "{group}.{member}");
            }
        }
    }
    server.stop_and_wait().await;
}

/// Lets futures run beside each other; their results in order.
async fn futures_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *result = Some(value);
            }
        }
        if results.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// ED-312: an endpoint that consents is told so, and no subscription is there afterwards. Its URL completes nothing.
#[tokio::test]
async fn an_endpoint_is_tried_and_nothing_is_declared() {
    let receiver = Receiver::start().await;
    let server = server().await;
    server.topic("orders").await;
    let path = "/api/v1/topics/orders/validateEndpoint";
    for schema in ["EventGridSchema", "CloudEventSchemaV1_0"] {
        let mut body = webhook(&receiver.url());
        body["eventDeliverySchema"] = json!(schema);
        body["name"] = json!("billing");
        let tried = server.admin("POST", path, body).await;
        assert_eq!(tried.status, 200, "{}", tried.text());
        let told = tried.json();
        assert_eq!(told["provisioningState"], "Succeeded", "{told}");
        let steps = told["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["outcome"] == "Succeeded"));
        assert!(!told.to_string().contains("secret"), "ED-121: {told}");
    }
    let asked = receiver.handshakes();
    assert_eq!(asked.len(), 2);
    assert_eq!(open(&server, "GET", &asked[0]).await.status, 404);
    let answer = server
        .admin("GET", &subscription("orders", "billing"), Value::Null)
        .await;
    assert_eq!(answer.status, 404);
    let refused = server.admin("POST", path, json!({ "name": 1 })).await;
    assert_eq!(refused.status, 400);
    server.stop_and_wait().await;
}
