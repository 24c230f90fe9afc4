//! The admin API as the tools use it: declares topics and subscriptions, reads counters and terminal records.

use std::net::SocketAddr;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::{Answer, Call, Connection};

/// Terminal records of one page.
const PAGE_LEN: usize = 500;

/// The admin API of a running server.
#[derive(Debug)]
pub struct Api {
    connection: Connection,
    token: String,
}

/// `status` of a subscription (ED-304).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Events that it was owed.
    pub matched: u64,
    /// Delivered.
    pub delivered: u64,
    /// Ended without a dead-letter destination.
    pub dropped: u64,
    /// Ended with one.
    pub dead_lettered: u64,
    /// Not ended.
    pub pending: u64,
    /// Attempts that run.
    pub in_flight: u64,
    /// Events that it has not come to.
    pub behind: u64,
}

impl Status {
    /// What waits: deliveries that have not ended, and events that it has not come to.
    pub const fn waiting(&self) -> u64 {
        self.pending + self.behind
    }

    /// Deliveries that are owed no more.
    pub const fn ended(&self) -> u64 {
        self.delivered + self.dropped + self.dead_lettered
    }
}

/// A delivery that ended undelivered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalRecord {
    /// The subscription's name.
    pub event_subscription: String,
    /// The event's id.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// The event's subject.
    pub subject: String,
    /// Why it ended.
    pub reason: String,
    /// How many attempts were made.
    pub delivery_attempts: u16,
    /// The status of the last one.
    #[serde(default)]
    pub last_http_status_code: Option<u16>,
}

/// How full the store is, and what it did to make room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreUsage {
    /// Bytes that cannot be forgotten yet.
    pub used_bytes: u64,
    /// Bytes of kept files.
    pub kept_bytes: u64,
    /// Whether publishing is refused.
    pub is_full: bool,
    /// Segments that were read before they were forgotten, since the store was opened.
    pub cleaned_segments: u64,
    /// Events that were copied from them.
    pub copied_events: u64,
    /// Kept files that were written anew.
    pub compacted_files: u64,
}

/// What the store holds, and what it wrote since the server began.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names)] // As the API calls them.
pub struct Storage {
    /// Bytes of log that cannot be forgotten yet.
    pub used_bytes: u64,
    /// Bytes that the store wrote; those of the view's table are not in it.
    pub written_bytes: u64,
    /// Bytes that it read, from the system's cache or from the device.
    pub read_bytes: u64,
}

#[derive(Deserialize)]
struct Page<T> {
    value: Vec<T>,
    #[serde(default)]
    next: Option<Value>,
}

impl Api {
    /// The API at an address.
    pub const fn new(address: SocketAddr, token: String) -> Self {
        Self {
            connection: Connection::new(address),
            token,
        }
    }

    /// Declares a topic and returns its first key.
    pub async fn put_topic(&mut self, topic: &str) -> Result<String, String> {
        let path = format!("/api/v1/topics/{topic}");
        self.call(Method::PUT, &path, Some(json!({}))).await?;
        let keys = self
            .call(Method::POST, &format!("{path}/listKeys"), None)
            .await?;
        let key = keys["key1"].as_str();
        key.map(str::to_owned)
            .ok_or_else(|| format!("listKeys answered {keys}"))
    }

    /// Declares a group of origins that speak HTTP, and an edge route to it for all hosts.
    pub async fn put_group(&mut self, name: &str, origins: &[SocketAddr]) -> Result<(), String> {
        let named = |(number, origin): (usize, &SocketAddr)| {
            json!({
                "name": format!("origin-{number}"),
                "host": origin.ip().to_string(),
                "http_port": origin.port(),
            })
        };
        let origins: Vec<Value> = origins.iter().enumerate().map(named).collect();
        let group = json!({ "origins": origins, "probe": { "interval_s": 5 } });
        let path = format!("/api/v1/origin-groups/{name}");
        self.call(Method::PUT, &path, Some(group)).await?;
        let route = json!({
            "hosts": ["127.0.0.1"],
            "origin_group": name,
            "forwarding_protocol": "http",
        });
        let path = format!("/api/v1/routes/{name}");
        self.call(Method::PUT, &path, Some(route)).await?;
        Ok(())
    }

    /// How many origins of a group are healthy.
    pub async fn healthy_origins(&mut self, name: &str) -> Result<usize, String> {
        let path = format!("/api/v1/origin-groups/{name}/status");
        let status = self.call(Method::GET, &path, None).await?;
        let origins = status["status"]["origins"].as_array();
        let healthy = origins
            .into_iter()
            .flatten()
            .filter(|origin| origin["state"] == "healthy");
        Ok(healthy.count())
    }

    /// Declares a subscription.
    pub async fn put_subscription(
        &mut self,
        topic: &str,
        name: &str,
        declaration: Value,
    ) -> Result<(), String> {
        self.call(
            Method::PUT,
            &subscription_path(topic, name),
            Some(declaration),
        )
        .await
        .map(drop)
    }

    /// Deletes a subscription.
    pub async fn delete_subscription(&mut self, topic: &str, name: &str) -> Result<(), String> {
        self.call(Method::DELETE, &subscription_path(topic, name), None)
            .await
            .map(drop)
    }

    /// Pauses, resumes, resets or purges a subscription.
    pub async fn act(&mut self, topic: &str, name: &str, action: &str) -> Result<(), String> {
        let path = format!("{}/{action}", subscription_path(topic, name));
        self.call(Method::POST, &path, None).await.map(drop)
    }

    /// Asks for an event again, for one subscription. Returns what was begun, `None` if the event cannot be had.
    pub async fn resend(
        &mut self,
        topic: &str,
        id: &str,
        subscription: &str,
    ) -> Result<Option<String>, String> {
        let path = format!("/api/v1/topics/{topic}/events/{id}/resend");
        let body = json!({ "eventSubscription": subscription });
        let answer = self.answer(Method::POST, &path, Some(body)).await?;
        match answer.status {
            200 => {
                let told: Value = serde_json::from_slice(&answer.body)
                    .map_err(|error| format!("{path}: {error} in {}", answer.text()))?;
                let result = told["value"][0]["result"].as_str();
                let result = result.ok_or_else(|| format!("{path} answered {told}"))?;
                Ok(Some(result.to_owned()))
            }
            404 | 409 | 410 => Ok(None),
            status => Err(format!("{path}: {status} {}", answer.text())),
        }
    }

    /// What is said of an event and a subscription: `state` and `dropReason`. `None` if the event
    /// is not known.
    pub async fn explained(
        &mut self,
        topic: &str,
        id: &str,
        subscription: &str,
    ) -> Result<Option<(String, Option<String>)>, String> {
        let query = format!("topic={topic}&eventSubscription={subscription}");
        let path = format!("/api/v1/events/{id}/explanation?{query}");
        let told = self.call(Method::GET, &path, None).await?;
        let delivery = &told["value"][0]["eventSubscriptions"][0];
        let text = |member: &str| delivery[member].as_str().map(str::to_owned);
        // Of an event that was passed over unread, and is forgotten, only the sentence tells what became of it.
        let sentence = text("explanation").unwrap_or_default();
        let was_passed = delivery["matched"].is_null() && sentence.starts_with("purged by");
        let reason = text("dropReason").or_else(|| was_passed.then(|| "Purged".to_owned()));
        Ok(text("state").map(|state| (state, reason)))
    }

    /// The same API over a connection of its own.
    pub fn another(&self) -> Self {
        Self {
            connection: self.connection.another(),
            token: self.token.clone(),
        }
    }

    /// The names of a topic's subscriptions.
    pub async fn subscriptions(&mut self, topic: &str) -> Result<Vec<String>, String> {
        let path = format!("/api/v1/topics/{topic}/eventSubscriptions");
        let list = self.call(Method::GET, &path, None).await?;
        let page: Page<Value> = parse(&path, list)?;
        Ok(page
            .value
            .iter()
            .filter_map(|one| one["name"].as_str().map(str::to_owned))
            .collect())
    }

    /// The counters of a subscription.
    pub async fn status(&mut self, topic: &str, name: &str) -> Result<Status, String> {
        let path = subscription_path(topic, name);
        let mut subscription = self.call(Method::GET, &path, None).await?;
        parse(&path, subscription["status"].take())
    }

    /// How full the store is.
    pub async fn store_usage(&mut self) -> Result<StoreUsage, String> {
        let path = "/api/v1/store";
        let usage = self.call(Method::GET, path, None).await?;
        parse(path, usage)
    }

    /// What the store holds and wrote.
    pub async fn storage(&mut self) -> Result<Storage, String> {
        let path = "/api/v1/store";
        let storage = self.call(Method::GET, path, None).await?;
        parse(path, storage)
    }

    /// Asks why an event did or did not arrive; says whether the event is known. Its id stands in a path as it is.
    pub async fn is_explained(&mut self, id: &str) -> Result<bool, String> {
        let path = format!("/api/v1/events/{id}/explanation");
        let told = self.call(Method::GET, &path, None).await?;
        Ok(told["value"]
            .as_array()
            .is_some_and(|events| !events.is_empty()))
    }

    /// All terminal records of a topic.
    pub async fn terminal_records(&mut self, topic: &str) -> Result<Vec<TerminalRecord>, String> {
        let mut records = Vec::new();
        let mut after = None;
        loop {
            let mut path = format!("/api/v1/terminalRecords?topic={topic}&limit={PAGE_LEN}");
            if let Some(after) = after {
                path = format!("{path}&after={after}");
            }
            let list = self.call(Method::GET, &path, None).await?;
            let page: Page<TerminalRecord> = parse(&path, list)?;
            records.extend(page.value);
            after = match page.next {
                None | Some(Value::Null) => return Ok(records),
                Some(Value::String(next)) => Some(next),
                Some(next) => Some(next.to_string()),
            };
        }
    }

    async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, String> {
        let answer = self.answer(method.clone(), path, body).await?;
        match answer.status {
            200..=202 => serde_json::from_slice(&answer.body)
                .map_err(|error| format!("{method} {path}: {error} in {}", answer.text())),
            204 => Ok(Value::Null),
            status => Err(format!("{method} {path}: {status} {}", answer.text())),
        }
    }

    async fn answer(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer, String> {
        let call = Call {
            method: method.clone(),
            path: path.to_owned(),
            header: ("authorization", format!("Bearer {}", self.token)),
            body: body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string())),
        };
        let answer = self.connection.send(call).await;
        answer.map_err(|error| format!("{method} {path}: {error}"))
    }
}

fn subscription_path(topic: &str, name: &str) -> String {
    format!("/api/v1/topics/{topic}/eventSubscriptions/{name}")
}

fn parse<T: for<'de> Deserialize<'de>>(path: &str, value: Value) -> Result<T, String> {
    let text = value.to_string();
    serde_json::from_value(value).map_err(|error| format!("{path}: {error} in {text}"))
}
