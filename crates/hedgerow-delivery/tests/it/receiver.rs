//! The endpoint of the tests: every host is it, it does what a script says, and it remembers what it was asked.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hedgerow_core::time::Timestamp;
use hedgerow_io::clock::Clock;
use hedgerow_io::http::ConnectError;
use hedgerow_io::http::scripted::{ScriptedNetwork, serve};
use serde_json::json;

/// What the receiver does with one attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Meet {
    /// Answers after a while.
    Answer {
        status: u16,
        after: Duration,
        retry_after: Option<String>,
    },
    /// Answers with this JSON at once.
    Json { status: u16, body: String },
    /// Answers 200 with this body at once, declared as so much.
    Said {
        content_type: Option<&'static str>,
        body: String,
    },
    /// Takes the request and says nothing.
    Silence,
    /// The name is not found.
    NoName,
    /// Nobody listens.
    Refused,
    /// Accepts the connection and reads nothing of the request.
    NeverReads,
}

impl Meet {
    pub fn status(status: u16) -> Self {
        Self::Answer {
            status,
            after: Duration::ZERO,
            retry_after: None,
        }
    }

    pub fn late(status: u16, seconds: u64) -> Self {
        Self::Answer {
            status,
            after: Duration::from_secs(seconds),
            retry_after: None,
        }
    }
}

/// One request the receiver got.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Since the start of the world.
    pub at: Duration,
    /// The server's time.
    pub time: Timestamp,
    pub host: String,
    /// Those of a batch with commas between them.
    pub event_id: String,
    pub delivery_count: u32,
    pub headers: HashMap<String, String>,
    pub body: String,
}

/// One handshake request the receiver got.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Since the start of the world.
    pub at: Duration,
    pub host: String,
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Asked {
    fn of(receiver: &Receiver, host: String, request: &http::Request<Bytes>) -> Self {
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        Self {
            at: receiver.begun.elapsed(),
            host,
            method: request.method().to_string(),
            path: request.uri().to_string(),
            headers: request
                .headers()
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            body: String::from_utf8(request.body().to_vec()).expect("text"),
        }
    }

    /// The code of a validation event.
    pub fn code(&self) -> String {
        self.data("validationCode")
    }

    /// The secret at the end of the URL that completes the handshake.
    pub fn token(&self) -> String {
        let callback = self.headers.get("webhook-request-callback").cloned();
        let url = callback.unwrap_or_else(|| self.data("validationUrl"));
        let (base, token) = url.rsplit_once('/').expect("a path");
        assert_eq!(base, "https://events.example/validate");
        token.to_owned()
    }

    fn data(&self, member: &str) -> String {
        let events: serde_json::Value = serde_json::from_str(&self.body).expect("a JSON body");
        events[0]["data"][member]
            .as_str()
            .expect("a text")
            .to_owned()
    }
}

/// What the receiver does with a handshake.
#[derive(Debug, Clone, PartialEq)]
pub enum Greet {
    /// Answers 200 with the code.
    Code,
    /// Answers this.
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
        after: Duration,
    },
    /// Takes the request and says nothing.
    Silence,
}

impl Greet {
    pub fn status(status: u16) -> Self {
        Self::answer(status, &[])
    }

    pub fn answer(status: u16, headers: &[(&'static str, &str)]) -> Self {
        Self::Answer {
            status,
            headers: headers
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            body: String::new(),
            after: Duration::ZERO,
        }
    }
}

type Script = dyn Fn(&str, usize) -> Meet + Send + Sync;
type Greeting = dyn Fn(&Asked, usize) -> Greet + Send + Sync;

#[derive(Clone)]
pub struct Receiver {
    clock: Arc<dyn Clock>,
    begun: tokio::time::Instant,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Attempts so far, by host and event.
    attempts: Arc<Mutex<HashMap<(String, String), usize>>>,
    /// Attempts that met no receiver: they have no request, only a time.
    refused: Arc<Mutex<Vec<Duration>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    greeting: Arc<Mutex<Arc<Greeting>>>,
    /// Notices of deletions, and what is done with them.
    notices: Arc<Mutex<Vec<Asked>>>,
    parting: Arc<Mutex<Meet>>,
    script: Arc<Script>,
    /// What single hosts do, whatever the script says.
    hosts: Arc<Mutex<HashMap<String, Meet>>>,
}

impl Receiver {
    /// One that meets attempt `n` of an event as the script says, and answers each handshake with the code.
    pub fn new(
        clock: Arc<dyn Clock>,
        begun: tokio::time::Instant,
        script: impl Fn(&str, usize) -> Meet + Send + Sync + 'static,
    ) -> Self {
        Self {
            clock,
            begun,
            seen: Arc::default(),
            attempts: Arc::default(),
            refused: Arc::default(),
            asked: Arc::default(),
            greeting: Arc::new(Mutex::new(Arc::new(|_: &Asked, _| Greet::Code))),
            notices: Arc::default(),
            parting: Arc::new(Mutex::new(Meet::status(200))),
            script: Arc::new(script),
            hosts: Arc::default(),
        }
    }

    /// From now on this host does this with every attempt, whatever the script says; `None` for what that says.
    pub fn host(&self, host: &str, meet: Option<Meet>) {
        let mut hosts = self.hosts.lock().unwrap();
        match meet {
            Some(meet) => drop(hosts.insert(host.to_owned(), meet)),
            None => drop(hosts.remove(host)),
        }
    }

    /// Requests so far, in order of their time.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// From now on it does this with handshake `n` (from 0) of all.
    pub fn greet(&self, greeting: impl Fn(&Asked, usize) -> Greet + Send + Sync + 'static) {
        *self.greeting.lock().unwrap() = Arc::new(greeting);
    }

    /// Handshake requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// From now on it does this with notices of deletions.
    pub fn part(&self, parting: Meet) {
        *self.parting.lock().unwrap() = parting;
    }

    /// Notices of deletions so far.
    pub fn notices(&self) -> Vec<Asked> {
        self.notices.lock().unwrap().clone()
    }

    /// Times of the attempts that found nobody.
    pub fn refused(&self) -> Vec<Duration> {
        self.refused.lock().unwrap().clone()
    }
}

/// The network on which every host is the receiver.
pub fn network(receiver: Receiver) -> ScriptedNetwork {
    ScriptedNetwork::new(Arc::new(move |target, stream| {
        let attempts = receiver.refused.lock().unwrap().len();
        let own = receiver.hosts.lock().unwrap();
        let own = own.get(&target.host().to_string()).cloned();
        let meet = own.unwrap_or_else(|| (receiver.script)("refused", attempts));
        if let Meet::NoName | Meet::Refused = meet {
            receiver
                .refused
                .lock()
                .unwrap()
                .push(receiver.begun.elapsed());
            let error = std::io::Error::other("scripted");
            return Err(if meet == Meet::NoName {
                ConnectError::Resolution(error)
            } else {
                ConnectError::Connect(error)
            });
        }
        if meet == Meet::NeverReads {
            receiver
                .refused
                .lock()
                .unwrap()
                .push(receiver.begun.elapsed());
            tokio::spawn(async move {
                let _open = stream;
                std::future::pending::<()>().await;
            });
            return Ok(());
        }
        let receiver = receiver.clone();
        let host = target.host().to_string();
        serve(stream, move |request| {
            let (receiver, host) = (receiver.clone(), host.clone());
            async move {
                let event_type = request.headers().get("aeg-event-type");
                match event_type.map(http::HeaderValue::as_bytes) {
                    Some(b"SubscriptionValidation") => greet(&receiver, host, &request).await,
                    Some(b"SubscriptionDeletion") => part(&receiver, host, &request).await,
                    _ => answer(&receiver, host, &request).await,
                }
            }
        });
        Ok(())
    }))
}

async fn greet(
    receiver: &Receiver,
    host: String,
    request: &http::Request<Bytes>,
) -> http::Response<Bytes> {
    let asked = Asked::of(receiver, host, request);
    let number = {
        let mut all = receiver.asked.lock().unwrap();
        all.push(asked.clone());
        all.len() - 1
    };
    let greeting = Arc::clone(&receiver.greeting.lock().unwrap());
    let (status, headers, body, after) = match greeting(&asked, number) {
        Greet::Code => {
            let body = json!({ "validationResponse": asked.code() }).to_string();
            (200, Vec::new(), body, Duration::ZERO)
        }
        Greet::Answer {
            status,
            headers,
            body,
            after,
        } => (status, headers, body, after),
        Greet::Silence => std::future::pending().await,
    };
    tokio::time::sleep(after).await;
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body.into()).expect("a response")
}

async fn part(
    receiver: &Receiver,
    host: String,
    request: &http::Request<Bytes>,
) -> http::Response<Bytes> {
    let notice = Asked::of(receiver, host, request);
    receiver.notices.lock().unwrap().push(notice);
    let parting = receiver.parting.lock().unwrap().clone();
    let Meet::Answer { status, after, .. } = parting else {
        return std::future::pending().await;
    };
    tokio::time::sleep(after).await;
    let response = http::Response::builder().status(status);
    response.body(Bytes::new()).expect("a response")
}

fn answer(
    receiver: &Receiver,
    host: String,
    request: &http::Request<Bytes>,
) -> impl Future<Output = http::Response<Bytes>> + use<> {
    let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let headers: HashMap<_, _> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect();
    let body = String::from_utf8(request.body().to_vec()).expect("a JSON body");
    let parsed: serde_json::Value = serde_json::from_str(&body).expect("a JSON body");
    // A CloudEvent is an object, anything else an array.
    let events = parsed
        .as_array()
        .map_or(std::slice::from_ref(&parsed), Vec::as_slice);
    let ids = events
        .iter()
        .map(|event| event["id"].as_str().unwrap_or("custom"));
    let event_id = ids.collect::<Vec<_>>().join(",");
    let delivery_count = headers["aeg-delivery-count"].parse().expect("a number");
    let at = receiver.begun.elapsed();
    let mut attempts = receiver.attempts.lock().unwrap();
    let attempt = attempts
        .entry((host.clone(), event_id.clone()))
        .or_default();
    let own = receiver.hosts.lock().unwrap().get(&host).cloned();
    let meet = own.unwrap_or_else(|| (receiver.script)(&event_id, *attempt));
    *attempt += 1;
    drop(attempts);
    let seen = Seen {
        at,
        time: receiver.clock.now().timestamp,
        host,
        event_id,
        delivery_count,
        headers,
        body,
    };
    receiver.seen.lock().unwrap().push(seen);
    async move {
        match meet {
            Meet::Answer {
                status,
                after,
                retry_after,
            } => {
                tokio::time::sleep(after).await;
                let mut response = http::Response::new(Bytes::new());
                *response.status_mut() = status.try_into().expect("a status");
                if let Some(value) = retry_after {
                    response
                        .headers_mut()
                        .insert("retry-after", value.parse().unwrap());
                }
                response
            }
            Meet::Json { status, body } => {
                let mut response = http::Response::new(body.into());
                *response.status_mut() = status.try_into().expect("a status");
                let json = http::HeaderValue::from_static("application/json");
                response.headers_mut().insert("content-type", json);
                response
            }
            Meet::Said { content_type, body } => {
                let mut response = http::Response::new(body.into());
                if let Some(content_type) = content_type {
                    let value = http::HeaderValue::from_static(content_type);
                    response.headers_mut().insert("content-type", value);
                }
                response
            }
            _ => std::future::pending().await,
        }
    }
}
