//! A server to test, a client that sends what it is told, and a receiver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hedgerow_server::edge::EdgeAddresses;
use hedgerow_server::{Config, Server, ServerError, ServerHandle, ServerOptions};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::waits::{self, patiently};

/// Settings for tests: any free port, loopback receivers, small files, retries within moments.
pub fn config(data: &Path) -> Config {
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        data: data.to_owned(),
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        ..Config::default()
    };
    config.store.segment_bytes = 4 << 20;
    config.store.bytes_max = 64 << 20;
    config.store.disk_reserve_bytes = 0;
    config.store.zeroed_segments = 0;
    let retry = &mut config.engine.retry;
    retry.slots = vec![Duration::from_millis(100)];
    retry.repeat = Duration::from_millis(100);
    retry.jitter.percent = 0;
    retry.crash_delay = Duration::ZERO;
    retry.floors.other = Duration::ZERO;
    retry.floors.unavailable = Duration::ZERO;
    config
}

pub struct TestServer {
    pub address: SocketAddr,
    pub token: String,
    pub handle: ServerHandle,
    /// Where the edge listens, if the test lets it.
    pub edge: EdgeAddresses,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ServerError>>,
    /// Goes with the server, if it is the server's own.
    data: Option<TempDir>,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = config(data.path());
        change(&mut config);
        let mut server = Self::run(config, ServerOptions::default()).await;
        server.data = Some(data);
        server
    }

    pub async fn run(config: Config, options: ServerOptions) -> Self {
        let server = Server::bind(config, options).await.unwrap();
        let (address, token) = (server.local_addr(), server.admin_token().to_owned());
        let (handle, edge) = (server.handle(), server.edge_addresses());
        waits::note_server(address, &token);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        patiently("a server that is ready", handle.ready())
            .await
            .unwrap();
        Self {
            address,
            token,
            handle,
            edge,
            stop,
            running,
            data: None,
        }
    }

    /// Says that the server shall stop, and gives what it ended with.
    pub fn stop(self) -> JoinHandle<Result<(), ServerError>> {
        self.stop.send(()).unwrap();
        self.running
    }

    pub async fn stop_and_wait(self) {
        let data = self.data;
        self.stop.send(()).unwrap();
        let ended = patiently("the end of a server", self.running).await;
        ended.unwrap().unwrap();
        drop(data);
    }

    pub async fn send(&self, request: http::request::Builder, body: impl Into<Bytes>) -> Answer {
        send(self.address, request, body).await
    }

    /// A request of the admin API with the right token.
    pub async fn admin(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(&body).unwrap()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token));
        self.send(request, body).await
    }

    /// Makes a topic and gives its first key.
    pub async fn topic(&self, name: &str) -> String {
        self.topic_with(name, json!({})).await
    }

    /// The same with a declaration.
    pub async fn topic_with(&self, name: &str, spec: Value) -> String {
        let path = format!("/api/v1/topics/{name}");
        let made = self.admin("PUT", &path, spec).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let keys = self
            .admin("POST", &format!("{path}/listKeys"), Value::Null)
            .await
            .json();
        keys["key1"].as_str().unwrap().to_owned()
    }

    /// Makes a subscription to everything of a topic. Its endpoint has consented then, and it gets what is published from now
    /// on.
    pub async fn subscribe(&self, topic: &str, name: &str, endpoint: &str) -> Value {
        let answer = self
            .admin("PUT", &subscription(topic, name), webhook(endpoint))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let made = answer.json();
        assert_eq!(made["provisioningState"], "Succeeded", "{made}");
        made
    }

    pub async fn status(&self, topic: &str, name: &str) -> Value {
        let mut answer = self
            .admin("GET", &subscription(topic, name), Value::Null)
            .await
            .json();
        answer["status"].take()
    }

    /// Asks again and again until the status is as wanted.
    #[track_caller]
    pub fn wait_for(
        &self,
        topic: &str,
        name: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        let ask = async || self.status(topic, name).await;
        waits::until("a status", ask, is_wanted)
    }

    /// The same for what a route answers.
    #[track_caller]
    pub fn list_until(
        &self,
        path: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        let ask = async || {
            let answer = self.admin("GET", path, Value::Null).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.json()
        };
        waits::until(path, ask, is_wanted)
    }

    /// Publishes what has to be accepted.
    pub async fn accept(&self, topic: &str, key: &str, body: impl Into<Bytes>) -> Answer {
        let answer = self.publish(topic, key, body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    }

    pub async fn publish(&self, topic: &str, key: &str, body: impl Into<Bytes>) -> Answer {
        let request = Request::post(format!("/{topic}/api/events")).header("aeg-sas-key", key);
        self.send(request, body).await
    }
}

pub fn subscription(topic: &str, name: &str) -> String {
    format!("/api/v1/topics/{topic}/eventSubscriptions/{name}")
}

pub fn webhook(endpoint: &str) -> Value {
    json!({ "destination": {
        "endpointType": "WebHook", "properties": { "endpointUrl": endpoint },
    }})
}

/// The body of a publish request with one event.
pub fn event(id: &str) -> String {
    format!(
        r#"[{{"id":"{id}","subject":"orders/1","eventType":"Order.Placed","eventTime":"2030-01-02T03:04:05Z","data":{{"n": 1.50}},"dataVersion":"1"}}]"#
    )
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }

    pub fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// Sends one request over a connection of its own.
#[track_caller]
pub fn send(
    address: SocketAddr,
    request: http::request::Builder,
    body: impl Into<Bytes>,
) -> impl Future<Output = Answer> {
    patiently("an answer", async move {
        let asked = (request.method_ref().cloned(), request.uri_ref().cloned());
        let answer = exchange(address, request, body).await.unwrap();
        if let (Some(method), Some(uri)) = asked {
            waits::note_answer(method.as_str(), &uri.to_string(), &answer);
        }
        answer
    })
}

/// The same, for as long as it takes.
pub async fn exchange(
    address: SocketAddr,
    request: http::request::Builder,
    body: impl Into<Bytes>,
) -> Result<Answer, Box<dyn std::error::Error>> {
    let stream = TcpStream::connect(address).await?;
    let io = TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    tokio::spawn(connection);
    let mut request = request.body(Full::new(body.into()))?;
    if !request.headers().contains_key("host") {
        request
            .headers_mut()
            .insert("host", address.to_string().parse()?);
    }
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
    })
}

/// Writes bytes as they are and reads until the other side closes. What is written ends with `Connection: close`.
pub async fn send_raw(address: SocketAddr, text: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    patiently("the end of an answer", read).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// What a receiver got.
#[derive(Debug)]
pub struct Delivery {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Delivery {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name}: {self:?}"))
            .to_str()
            .unwrap()
    }

    pub fn id(&self) -> String {
        let events: Value = serde_json::from_slice(&self.body).unwrap();
        events[0]["id"].as_str().unwrap().to_owned()
    }
}

/// A request that asks an endpoint whether it wants deliveries.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// The URL that completes it.
    pub url: String,
    /// The code of a validation event.
    code: Option<String>,
    /// The origin of `OPTIONS`.
    origin: Option<String>,
    /// The path that a validation event has as its topic.
    pub topic: Option<String>,
}

impl Handshake {
    /// Reads it, if it is one.
    pub fn of(head: &http::request::Parts, body: &[u8]) -> Option<Self> {
        let header = |name: &str| {
            let value = head.headers.get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        if header("aeg-event-type")? != "SubscriptionValidation" {
            return None;
        }
        if head.method == http::Method::OPTIONS {
            return Some(Self {
                url: header("webhook-request-callback").unwrap(),
                code: None,
                origin: header("webhook-request-origin"),
                topic: None,
            });
        }
        let events: Value = serde_json::from_slice(body).unwrap();
        let text = |member: &str| events[0]["data"][member].as_str().unwrap().to_owned();
        Some(Self {
            url: text("validationUrl"),
            code: Some(text("validationCode")),
            origin: None,
            topic: events[0]["topic"].as_str().map(str::to_owned),
        })
    }

    /// The secret at the end of the URL.
    pub fn token(&self) -> String {
        self.url.rsplit('/').next().unwrap().to_owned()
    }

    /// The answer's body that has the code.
    pub fn answer_body(&self) -> String {
        json!({ "validationResponse": self.code }).to_string()
    }

    /// The answer of an endpoint that wants deliveries.
    pub fn consent(&self) -> Response<Full<Bytes>> {
        match &self.origin {
            None => Response::new(Full::from(self.answer_body())),
            Some(origin) => {
                let answer = Response::builder().header("webhook-allowed-origin", origin);
                answer.body(Full::default()).unwrap()
            }
        }
    }
}

/// An endpoint on loopback.
pub struct Receiver {
    pub address: SocketAddr,
    deliveries: mpsc::UnboundedReceiver<Delivery>,
    status: Arc<AtomicU16>,
    gate: Arc<Semaphore>,
    handshakes: Arc<Mutex<Vec<Handshake>>>,
}

impl Receiver {
    /// Answers 200.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (got, deliveries) = mpsc::unbounded_channel();
        let status = Arc::new(AtomicU16::new(200));
        let gate = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let (status_now, gate_now) = (Arc::clone(&status), Arc::clone(&gate));
        let handshakes: Arc<Mutex<Vec<Handshake>>> = Arc::default();
        let handshakes_now = Arc::clone(&handshakes);
        tokio::spawn(async move {
            loop {
                // Whoever waits for a delivery would not learn that nobody accepts any more.
                let (stream, _) = listener.accept().await.expect("it accepts");
                let (got, status, gate) =
                    (got.clone(), Arc::clone(&status_now), Arc::clone(&gate_now));
                let handshakes = Arc::clone(&handshakes_now);
                let service = service_fn(move |request: Request<Incoming>| {
                    let handshakes = Arc::clone(&handshakes);
                    let (got, status, gate) = (got.clone(), Arc::clone(&status), Arc::clone(&gate));
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await?.to_bytes();
                        if let Some(asked) = Handshake::of(&head, &body) {
                            let consent = asked.consent();
                            handshakes.lock().unwrap().push(asked);
                            return Ok(consent);
                        }
                        let secret = head.headers.get("x-canary");
                        let secret = secret.map(|value| value.to_str().unwrap());
                        let secret = secret.map_or(String::new(), |secret| format!(" {secret}"));
                        // A test that looks at no more deliveries has let go of its end.
                        let _ = got.send(Delivery {
                            headers: head.headers,
                            body,
                        });
                        let _leave = gate.acquire().await;
                        let status = status.load(Ordering::SeqCst);
                        let answer = Response::builder().status(status);
                        // A refusal says what was asked for, as many servers do.
                        let said = match status {
                            200..400 => Bytes::new(),
                            _ => format!("cannot do {}{secret}", head.uri).into(),
                        };
                        Ok::<_, hyper::Error>(answer.body(Full::<Bytes>::new(said)).unwrap())
                    }
                });
                let io = TokioIo::new(stream);
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(io, service),
                );
            }
        });
        Self {
            address,
            deliveries,
            status,
            gate,
            handshakes,
        }
    }

    /// Handshakes so far: it consents to all.
    pub fn handshakes(&self) -> Vec<Handshake> {
        self.handshakes.lock().unwrap().clone()
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook?code=secret", self.address)
    }

    pub fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Answers nothing until [`Receiver::go_on`].
    pub fn hold(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub fn go_on(&self) {
        self.gate
            .add_permits(Semaphore::MAX_PERMITS - self.gate.available_permits());
    }

    /// Whether every delivery that has come was taken.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    #[track_caller]
    pub fn next(&mut self) -> impl Future<Output = Delivery> {
        let next = patiently("a delivery", self.deliveries.recv());
        async { next.await.unwrap() }
    }
}

/// All files below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
