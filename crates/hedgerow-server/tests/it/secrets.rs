//! Design D11: topic keys, the addresses of endpoints, secret headers and signing secrets are nowhere in the open: not in the data directory, the log's
//! lines or answers; and without their key the server does not start.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hedgerow_server::{Config, Server, ServerError, ServerOptions};
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Receiver, TestServer, config, event, files, subscription, webhook};
use crate::waits;

/// Every line that the process logs, at every level.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn frequent(data: &Path) -> Config {
    let mut config = config(data);
    config.engine.checkpoint_interval = Duration::from_millis(1);
    config
}

/// Answers to everything that shows something, and to mistakes.
async fn answers(server: &TestServer, closed: &str) -> String {
    let mut texts = String::new();
    for path in [
        "/healthz",
        "/api/v1/topics",
        "/api/v1/topics/orders",
        "/api/v1/topics/orders/eventSubscriptions",
        "/api/v1/topics/orders/eventSubscriptions/billing",
        "/api/v1/terminalRecords",
        "/api/v1/events/1/attempts",
        "/api/v1/events/1/explanation",
        "/api/v1/store",
        "/metrics",
    ] {
        let answer = server.admin("GET", path, Value::Null).await;
        assert_eq!(answer.status, 200, "{path}");
        texts.push_str(answer.text());
    }
    for wrong in [closed, "http://no scheme", "ftp://host/path"] {
        let query = closed.split_once('?').unwrap().1;
        let body = with_header(&format!("{wrong}?{query}"));
        let path = subscription("orders", "wrong");
        let answer = server.admin("PUT", &path, body).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        texts.push_str(answer.text());
    }
    texts
}

/// A webhook with a header that is a secret (ED-149), and what is sent is signed.
fn with_header(endpoint: &str) -> Value {
    let mut body = webhook(endpoint);
    body["destination"]["properties"]["deliveryAttributeMappings"] = json!([
        { "name": "X-Canary", "type": "Static", "properties": {
            "value": "Bearer canary-header-5c", "isSecret": true,
        } },
    ]);
    let [secret, previous] = SIGNING.map(|bytes| format!("whsec_{}", STANDARD.encode(bytes)));
    body["signing"] = json!({ "secret": secret, "previousSecret": previous });
    body
}

/// The secrets that it is signed with (ED-142).
const SIGNING: [&[u8]; 2] = [
    b"canary-signing-one-0123456789",
    b"canary-signing-two-0123456789",
];

/// A declaration in which the masks that were shown stand in the place of secrets.
async fn masked(server: &TestServer, path: &str, endpoint: &str) -> Value {
    let present = server.admin("GET", path, Value::Null).await.json();
    let attributes = "/destination/properties/deliveryAttributeMappings";
    let mut put = webhook(endpoint);
    put["destination"]["properties"]["deliveryAttributeMappings"] =
        present.pointer(attributes).unwrap().clone();
    put["signing"] = present["signing"].clone();
    put
}

#[tokio::test]
async fn secrets_are_nowhere_in_the_open() {
    let lines = Lines::default();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(lines.clone())
        .init();
    let data = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    receiver.answer(500);
    let (first_query, second_query) = ("code=canary-8d1f-one", "code=canary-8d1f-two");
    let endpoint = |query| format!("http://{}/canary-path?{query}", receiver.address);
    let closed = "http://169.254.169.254/x?code=canary-8d1f-three";

    let server = TestServer::run(frequent(data.path()), ServerOptions::default()).await;
    let mut keys = vec![server.topic("orders").await];
    let path = subscription("orders", "billing");
    let made = server.admin("PUT", &path, with_header(&endpoint(first_query)));
    assert_eq!(made.await.status, 201);
    let regenerate = "/api/v1/topics/orders/regenerateKey";
    let made = server.admin("POST", regenerate, json!({"keyName": "key1"}));
    let made = made.await.json();
    for name in ["key1", "key2"] {
        keys.push(made[name].as_str().unwrap().to_owned());
    }
    let published = server.publish("orders", &keys[1], event("1")).await;
    assert_eq!(published.status, 200);
    let mut shown = answers(&server, closed).await;
    // Until the catalog was written down, with the keys as they are now.
    let second_catalog = data.path().join("catalog/0000000000000004.json");
    let is_there = async || second_catalog.exists();
    waits::until("the catalog's file", is_there, |is_there| *is_there).await;
    let put = masked(&server, &path, &endpoint(second_query)).await;
    assert_eq!(server.admin("PUT", &path, put).await.status, 200);
    server.stop_and_wait().await;

    let server = TestServer::run(frequent(data.path()), ServerOptions::default()).await;
    receiver.answer(200);
    server
        .wait_for("orders", "billing", |status| status["delivered"] == 1)
        .await;
    let published = server.publish("orders", &keys[2], event("2")).await;
    assert_eq!(published.status, 200, "keys are what they were");
    let refused = server.publish("orders", &keys[0], event("3")).await;
    assert_eq!(refused.status, 401);
    shown.push_str(refused.text());
    loop {
        let delivery = receiver.next().await;
        let header = delivery.header("x-canary");
        assert_eq!(header, "Bearer canary-header-5c", "it is sent, and kept");
        let signatures = delivery.header("webhook-signature");
        assert_eq!(signatures.split(' ').count(), 2, "both secrets are kept");
        if delivery.id() == "2" {
            break;
        }
    }
    shown.push_str(&answers(&server, closed).await);
    server.stop_and_wait().await;

    let mut canaries: Vec<Vec<u8>> = ["canary-8d1f", "canary-path", "canary-header-5c"]
        .map(Into::into)
        .into();
    // What completes a handshake.
    for asked in receiver.handshakes() {
        canaries.push(asked.token().into_bytes());
    }
    assert_eq!(canaries.len(), 5);
    for secret in SIGNING {
        canaries.push(secret.to_vec());
        canaries.push(STANDARD.encode(secret).into_bytes());
    }
    for key in &keys {
        canaries.push(key.as_bytes().to_vec());
        canaries.push(STANDARD.decode(key).unwrap());
    }
    let files = files(data.path());
    assert!(
        files
            .iter()
            .any(|path| path.starts_with(data.path().join("log")))
    );
    assert!(
        files
            .iter()
            .any(|path| path.starts_with(data.path().join("view")))
    );
    assert!(files.contains(&second_catalog));
    let lines = lines.0.lock().unwrap().clone();
    assert!(contains(&lines, b"admin request"), "lines are captured");
    for canary in &canaries {
        let text = String::from_utf8_lossy(canary);
        for path in &files {
            // An endpoint may answer with its address; only the query of it is struck out (ED-121).
            if text == "canary-path" && path.starts_with(data.path().join("history")) {
                continue;
            }
            let content = std::fs::read(path).unwrap();
            assert!(!contains(&content, canary), "{text} in {}", path.display());
        }
        assert!(!contains(&lines, canary), "{text} in the log's lines");
        // The path of an endpoint may be shown, and is (ED-121).
        if text != "canary-path" {
            assert!(!contains(shown.as_bytes(), canary), "{text} in answers");
        }
    }
    let key = std::fs::metadata(data.path().join("KEY")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

/// What a server that cannot start says.
async fn refusal(config: Config) -> String {
    let error = match Server::bind(config, ServerOptions::default()).await {
        Ok(server) => server.run(std::future::pending()).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, ServerError::Store(_)), "{error}");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    format!("{error} {}", source.unwrap_or_default())
}

/// The message names the file, and the id of the key that is needed; with the right one back, all is as before.
#[tokio::test]
async fn without_its_key_a_server_does_not_start() {
    let data = tempfile::tempdir().unwrap();
    let (file, aside) = (data.path().join("KEY"), data.path().join("aside"));
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let key = server.topic("orders").await;
    server.stop_and_wait().await;

    std::fs::rename(&file, &aside).unwrap();
    let missing = refusal(config(data.path())).await;
    let name = file.display().to_string();
    assert!(
        missing.contains(&name) && missing.contains("is missing"),
        "{missing}"
    );
    assert!(!file.exists(), "no other key takes its place");
    let catalog = std::fs::read_dir(data.path().join("catalog")).unwrap();
    let catalog = catalog.last().unwrap().unwrap().path();
    let catalog = std::fs::read_to_string(catalog).unwrap();
    let id = catalog
        .split("v1.")
        .nth(1)
        .unwrap()
        .split('.')
        .next()
        .unwrap();
    assert!(missing.contains(id), "{missing}");

    std::fs::write(&file, STANDARD.encode([9; 32])).unwrap();
    let wrong = refusal(config(data.path())).await;
    assert!(wrong.contains(&name) && wrong.contains(id), "{wrong}");
    std::fs::write(&file, "no key").unwrap();
    let no_key = refusal(config(data.path())).await;
    assert!(
        no_key.contains(&name) && no_key.contains("holds no key"),
        "{no_key}"
    );

    std::fs::remove_file(&file).unwrap();
    let mut elsewhere = config(data.path());
    elsewhere.key_file = Some(aside.with_extension("none"));
    let unreadable = refusal(elsewhere).await;
    assert!(unreadable.contains("aside.none"), "{unreadable}");
    let mut elsewhere = config(data.path());
    elsewhere.key_file = Some(aside);
    let server = TestServer::run(elsewhere, ServerOptions::default()).await;
    assert_eq!(server.publish("orders", &key, event("1")).await.status, 200);
    server.stop_and_wait().await;
    assert!(!file.exists(), "the settings name another file");
}
