//! Webhooks on the wire (section 3.1): where nothing is sent to, what is sent as it was declared, and receivers that
//! misbehave (FC-01, FC-07, FC-15, FC-16).

use http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{Receiver, TestServer, event, subscription, webhook};
use crate::tls::authority_in_pem;
use crate::waits::patiently;

async fn refusal(server: &TestServer, endpoint: &str) -> String {
    let path = subscription("orders", "refused");
    let answer = server.admin("PUT", &path, webhook(endpoint)).await;
    assert_eq!(answer.status, 400, "{endpoint}: {}", answer.text());
    let shown = server.admin("GET", &path, Value::Null).await;
    assert_eq!(shown.status, 404, "{endpoint}: nothing was made");
    answer.message()
}

/// FC-15: an endpoint in any spelling of a private address is refused when it is declared, in the words of the rule.
#[tokio::test]
async fn endpoints_inside_are_refused_in_the_words_of_the_rule() {
    let server = TestServer::start_with(|config| config.allow_networks = Vec::new()).await;
    server.topic("orders").await;
    let rows = [
        ("127.0.0.1", "loopback"),
        ("127.1", "loopback"),
        ("2130706433", "loopback"),
        ("0x7f000001", "loopback"),
        ("0177.0.0.1", "loopback"),
        ("localhost.", "loopback"),
        ("[::ffff:127.0.0.1]", "loopback"),
        ("[::ffff:7f00:1]", "loopback"),
        ("[::]", "unspecified"),
        ("[::1]", "loopback"),
        ("[64:ff9b::7f00:1]", "loopback"),
        ("[2002:7f00:1::]", "loopback"),
        ("100.64.0.1", "shared-address"),
        ("0.0.0.0", "unspecified"),
        ("10.0.0.1", "private"),
        ("[fd00:ec2::254]", "metadata"),
        // One address in six spellings, and more.
        ("169.254.169.254", "metadata"),
        ("169.254.169.254.", "metadata"),
        ("2852039166", "metadata"),
        ("0xa9fea9fe", "metadata"),
        ("0251.0376.0251.0376", "metadata"),
        ("169.254.43518", "metadata"),
        ("[::ffff:169.254.169.254]", "metadata"),
        ("[64:ff9b::a9fe:a9fe]", "metadata"),
        ("[64:ff9b:1::a9fe:a9fe]", "metadata"),
    ];
    for (host, rule) in rows {
        let message = refusal(&server, &format!("https://{host}/hook?code=secret")).await;
        assert!(
            message.contains("destination.properties.endpointUrl"),
            "{message}"
        );
        assert!(
            message.contains(&format!("the rule \"{rule}\"")),
            "{host}: {message}"
        );
        assert!(!message.contains("secret"), "{message}");
    }
    server.stop_and_wait().await;
}

/// ED-120: http goes to allow-listed loopback and private addresses only; metadata addresses stay closed whatever is listed.
#[tokio::test]
async fn plain_http_is_refused_where_it_is_not_allowed() {
    let closed = TestServer::start_with(|config| config.allow_networks = Vec::new()).await;
    closed.topic("orders").await;
    for endpoint in ["http://example.com/hook", "http://8.8.8.8/"] {
        let message = refusal(&closed, endpoint).await;
        assert!(message.contains("the rule \"plain-http\""), "{message}");
    }
    closed.stop_and_wait().await;
    let open = TestServer::start_with(|config| {
        // Nobody is there who could be asked.
        config.engine.validation.is_enabled = false;
        config.allow_networks = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    })
    .await;
    open.topic("orders").await;
    let message = refusal(&open, "http://8.8.8.8/").await;
    // It is http that is wrong, not the address: so nobody opens that (issue 4).
    assert!(
        message.contains("http is not allowed to 8.8.8.8 by the rule \"plain-http\"; use https"),
        "{message}"
    );
    assert!(!message.contains("denied"), "{message}");
    for host in ["169.254.169.254", "2852039166", "[::ffff:a9fe:a9fe]"] {
        let message = refusal(&open, &format!("https://{host}/")).await;
        assert!(message.contains("the rule \"metadata\""), "{message}");
    }
    open.subscribe("orders", "private", "http://10.1.2.3/hook")
        .await;
    open.stop_and_wait().await;
}

/// ED-121: the whole URL is in the answer to one question only, and goes out as it was declared.
#[tokio::test]
async fn the_full_url_is_read_by_its_own_operation() {
    let mut receiver = Receiver::start().await;
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    let url = format!("http://{}/a/hook?code=a'b+c/d%2F==&x", receiver.address);
    server.subscribe("orders", "the-sub", &url).await;
    let path = subscription("orders", "the-sub");
    let full = format!("{path}/getFullUrl");
    let answer = server.admin("POST", &full, Value::Null).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (200, json!({ "endpointUrl": url }))
    );
    let shown = server.admin("GET", &path, Value::Null).await;
    assert!(!shown.text().contains("code="), "{}", shown.text());
    assert_eq!(server.admin("GET", &full, Value::Null).await.status, 405);
    let missing = subscription("orders", "missing") + "/getFullUrl";
    assert_eq!(
        server.admin("POST", &missing, Value::Null).await.status,
        404
    );
    let unnamed = Request::post(&full);
    assert_eq!(server.send(unnamed, "").await.status, 401);
    server.accept("orders", &key, event("e1")).await;
    // What the receiver was asked for stands in its refusal; see `support`.
    receiver.next().await;
    server.stop_and_wait().await;
}

/// ED-123, ED-124: what is asked of TLS is checked, shown and kept.
#[tokio::test]
async fn demands_on_tls_are_declared() {
    let server = TestServer::start_with(|config| config.engine.validation.is_enabled = false).await;
    server.topic("orders").await;
    let path = subscription("orders", "the-sub");
    let declared = |member: &str, value: Value| {
        let mut body = webhook("https://hook.example/");
        body["destination"]["properties"][member] = value;
        body
    };
    for version in ["1.0", "1.1", "1.4", "TLS1_2"] {
        let body = declared("minimumTlsVersionAllowed", json!(version));
        let refused = server.admin("PUT", &path, body).await;
        assert_eq!(refused.status, 400, "{version}");
        let field = "destination.properties.minimumTlsVersionAllowed";
        assert!(
            refused.message().starts_with(field),
            "{}",
            refused.message()
        );
    }
    for certificates in [
        "none",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let body = declared("extraCaCertificates", json!(certificates));
        let refused = server.admin("PUT", &path, body).await;
        assert_eq!(refused.status, 400, "{certificates}");
        let field = "destination.properties.extraCaCertificates";
        assert!(
            refused.message().starts_with(field),
            "{}",
            refused.message()
        );
    }
    let certificate = authority_in_pem();
    for (label, block) in [
        (
            "PRIVATE KEY",
            "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
        ),
        // Passed over by those who look for certificates alone.
        (
            "OPENSSH PRIVATE KEY",
            "  -----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n",
        ),
        ("RSA PRIVATE KEY", "-----BEGIN RSA PRIVATE KEY c2VjcmV0"),
        (
            "TRUSTED CERTIFICATE",
            "-----BEGIN TRUSTED CERTIFICATE-----\nc2VjcmV0\n",
        ),
    ] {
        let body = declared("extraCaCertificates", json!(certificate.clone() + block));
        let refused = server.admin("PUT", &path, body).await;
        assert_eq!(refused.status, 400, "{label}");
        let message = refused.message();
        let told = "destination.properties.extraCaCertificates: must be certificates only: block 2";
        assert!(message.starts_with(told), "{message}");
        assert!(message.contains(&format!("\"{label}\"")), "{message}");
        assert!(!refused.text().contains("c2VjcmV0"), "{message}");
    }
    let body = declared("extraCaCertificates", json!(certificate));
    let made = server.admin("PUT", &path, body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let body = declared("minimumTlsVersionAllowed", json!("1.3"));
    let made = server.admin("PUT", &path, body).await.json();
    assert_eq!(
        made["destination"]["properties"]["minimumTlsVersionAllowed"],
        "1.3"
    );
    server.stop_and_wait().await;
}

const ODD_DATA: &str = r#"{ "id":1524831183200260097,"amount":1.10,"big":12345678901234567890,"e":1e400 , "z":1,"a":2,"a":3,"t":"\u00e9\/" }"#;

/// FC-01, FC-07: `data` byte for byte in each schema; an array of one for Event Grid, an object for a `CloudEvent`.
#[tokio::test]
async fn data_arrives_byte_for_byte_in_its_form() {
    let (mut array, mut object) = (Receiver::start().await, Receiver::start().await);
    let server = TestServer::start().await;
    let key = server.topic("orders").await;
    server.subscribe("orders", "array", &array.url()).await;
    let mut body = webhook(&object.url());
    body["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
    let made = server
        .admin("PUT", &subscription("orders", "object"), body)
        .await;
    assert_eq!(made.status, 201);
    let published = event("e1").replace(r#"{"n": 1.50}"#, ODD_DATA);
    assert_eq!(server.publish("orders", &key, published).await.status, 200);
    let rows = [
        (array.next().await, "[{", "application/json; charset=utf-8"),
        (
            object.next().await,
            "{\"",
            "application/cloudevents+json; charset=utf-8",
        ),
    ];
    for (delivery, begin, content_type) in rows {
        let text = String::from_utf8(delivery.body.to_vec()).unwrap();
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains(&format!("\"data\":{ODD_DATA}")), "{text}");
        assert_eq!(delivery.header("content-type"), content_type);
    }
    server.stop_and_wait().await;
}

/// A receiver that writes these bytes after each request, then closes; says when it was asked.
async fn raw_receiver(answer: Vec<u8>, is_endless: bool) -> (String, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (asked, hits) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_raw(
                stream,
                answer.clone(),
                is_endless,
                asked.clone(),
            ));
        }
    });
    (url, hits)
}

async fn answer_raw(
    mut stream: TcpStream,
    answer: Vec<u8>,
    is_endless: bool,
    asked: mpsc::UnboundedSender<()>,
) {
    let mut request = Vec::new();
    // The one event of these tests ends its body.
    while !request.ends_with(b"}]") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    asked.send(()).unwrap_or_default();
    // The other side closes when it has read enough.
    let mut written = stream.write_all(&answer).await;
    while is_endless && written.is_ok() {
        written = stream.write_all(&[0xff, 0, 0x80, b'a'].repeat(4096)).await;
    }
}

/// FC-16, ED-122, ED-126, ED-127: one attempt each. The head decides; what is too long is cut off, a redirect is a failure.
#[tokio::test]
async fn each_odd_answer_costs_one_attempt() {
    let fillers = "x-filler: 0123456789abcdef\r\n".repeat(8192);
    let rows: [(&str, String, bool, bool, &str); 7] = [
        (
            "endless",
            "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            true,
            true,
            "",
        ),
        (
            "long",
            "HTTP/1.1 200 OK\r\ncontent-length: 52428800\r\n\r\n".to_owned(),
            true,
            true,
            "",
        ),
        (
            "short",
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort".to_owned(),
            false,
            true,
            "",
        ),
        (
            "chunked",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_owned(),
            false,
            true,
            "",
        ),
        (
            "heads",
            format!("HTTP/1.1 200 OK\r\n{fillers}"),
            true,
            false,
            "SocketError",
        ),
        (
            "redirect",
            "HTTP/1.1 307 Away\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
                .to_owned(),
            false,
            false,
            "GenericError",
        ),
        (
            "closing",
            "HTTP/1.1 200".to_owned(),
            false,
            false,
            "SocketError",
        ),
    ];
    let server = TestServer::start_with(|config| config.engine.validation.is_enabled = false).await;
    for (name, answer, is_endless, is_delivered, outcome) in rows {
        let key = server.topic(name).await;
        let (url, mut hits) = raw_receiver(answer.into_bytes(), is_endless).await;
        let mut body = webhook(&url);
        body["retryPolicy"] = json!({ "maxDeliveryAttempts": 1 });
        let made = server
            .admin("PUT", &subscription(name, "the-sub"), body)
            .await;
        assert_eq!(made.status, 201, "{}", made.text());
        server.accept(name, &key, event(name)).await;
        patiently("a request", hits.recv()).await.unwrap();
        let status = server
            .wait_for(name, "the-sub", |status| {
                status["pending"] == 0 && status["matched"] == 1
            })
            .await;
        let member = if is_delivered { "delivered" } else { "dropped" };
        assert_eq!(status[member], 1, "{name}: {status}");
        assert!(hits.try_recv().is_err(), "{name}: asked once");
        if !is_delivered {
            let path = format!("/api/v1/terminalRecords?topic={name}");
            let records = server.admin("GET", &path, Value::Null).await.json();
            assert_eq!(
                records["value"][0]["lastDeliveryOutcome"], outcome,
                "{name}: {records}"
            );
        }
    }
    server.stop_and_wait().await;
}
