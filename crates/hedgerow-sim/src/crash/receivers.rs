//! Receivers: one for each subscription, in this process, on loopback. They check what they get and answer as the seed
//! says; six of fourteen fail at times. A batch is answered as one, and noted for each of its events.
//!
//! Each request belongs to the *life* of the server that sent it. After a server died, [`Receivers::settle`] waits until
//! everything it had sent was read, so that no request is taken for one of the next life.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::{TcpListener, TcpStream};

use super::http::{Call, Connection};
use super::ledger::{Answer, Headers, Ledger};
use super::plan::{
    DATA_VERSION, EVENT_TIME, Event, EventId, SUBSCRIPTIONS, Sending, Subscription, Trouble,
};
use crate::random::Random;

/// The path by which the proof asks a receiver whether it has accepted all earlier connections.
const FENCE: &str = "/fence";
/// Bytes of a request.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long the connections of a dead server may take to close.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(20);

/// All receivers.
#[derive(Debug)]
pub struct Receivers {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
}

#[derive(Debug)]
struct Shared {
    seed: u64,
    ledger: Arc<Ledger>,
    life: AtomicUsize,
    is_healthy: AtomicBool,
    connections: Arc<AtomicUsize>,
}

impl Receivers {
    /// Starts them.
    pub async fn start(seed: u64, ledger: &Arc<Ledger>) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            seed,
            ledger: Arc::clone(ledger),
            life: AtomicUsize::new(0),
            is_healthy: AtomicBool::new(false),
            connections: Arc::default(),
        });
        let mut addresses = Vec::new();
        for index in 0..SUBSCRIPTIONS.len() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
            let listener =
                listener.map_err(|error| format!("a receiver cannot listen: {error}"))?;
            let address = listener.local_addr();
            addresses.push(address.map_err(|error| format!("a receiver has no address: {error}"))?);
            tokio::spawn(accept(Arc::clone(&shared), index, listener));
        }
        Ok(Self { shared, addresses })
    }

    /// The endpoint for a subscription.
    pub fn endpoint(&self, index: usize) -> String {
        format!("http://{}/events?code=s3cret", self.addresses[index])
    }

    /// From now on requests come from this life of the server.
    pub fn begin_life(&self, life: usize) {
        self.shared.life.store(life, Ordering::SeqCst);
    }

    /// From now on everything is taken at once.
    pub fn recover(&self) {
        self.shared.is_healthy.store(true, Ordering::SeqCst);
    }

    /// Waits until everything that a dead server sent was read and its connections are closed.
    pub async fn settle(&self) -> Result<(), String> {
        for address in &self.addresses {
            // Connections are accepted in their order: when this one is served, all earlier ones were accepted.
            let call = Call {
                method: Method::GET,
                path: FENCE.to_owned(),
                header: ("accept", "*/*".to_owned()),
                body: Bytes::new(),
            };
            Connection::new(*address).send(call).await?;
        }
        let closed = async {
            while self.shared.connections.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(SETTLE_WAIT_MAX, closed)
            .await
            .map_err(|_| {
                let left = self.shared.connections.load(Ordering::SeqCst);
                format!("{left} connections of the dead server do not close")
            })
    }
}

async fn accept(shared: Arc<Shared>, index: usize, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely; they come back.
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        // Counted before the next one is accepted: see `settle`.
        let counted = Counted::new(&shared.connections);
        tokio::spawn(serve(Arc::clone(&shared), index, stream, counted));
    }
}

async fn serve(shared: Arc<Shared>, index: usize, stream: TcpStream, counted: Counted) {
    // An answer that waits for others would look like a slow receiver.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| receive(Arc::clone(&shared), index, request));
    // How a connection ended says nothing: the requests on it are what counts.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
    drop(counted);
}

async fn receive(
    shared: Arc<Shared>,
    index: usize,
    request: Request<Incoming>,
) -> io::Result<Response<Full<Bytes>>> {
    if request.uri().path() == FENCE {
        return Ok(answer(204));
    }
    let (head, body) = request.into_parts();
    // What did not come whole is no request.
    let body = Limited::new(body, BODY_BYTES_MAX)
        .collect()
        .await
        .map_err(io::Error::other)?
        .to_bytes();
    if let Some(consent) = consent(&head.headers, &body) {
        return Ok(consent);
    }
    if is_deletion_notice(&head.headers) {
        return Ok(answer(200));
    }
    let (ids, known) = match check(shared.seed, &SUBSCRIPTIONS[index], &head.headers, &body) {
        Ok(checked) => checked,
        Err(error) => {
            let name = SUBSCRIPTIONS[index].name;
            shared
                .ledger
                .offence(format!("{name} got what it should not: {error}"));
            return Ok(answer(200));
        }
    };
    let life = shared.life.load(Ordering::SeqCst);
    let received = ids
        .iter()
        .map(|id| shared.ledger.received((index, *id), life, known));
    let tickets: Vec<_> = received.collect();
    if ids.len() > 1 {
        shared.ledger.batched(ids.len());
    }
    let decision = shared.decide(index, ids[0], tickets[0].nth);
    if decision.hangs {
        for ticket in &tickets {
            shared.ledger.hangs(*ticket);
        }
    }
    if decision.wait > Duration::ZERO {
        tokio::time::sleep(decision.wait).await;
    }
    for ticket in tickets {
        shared.ledger.answers(ticket, decision.answer);
    }
    match decision.answer {
        Answer::Status(status) => Ok(answer(status)),
        // Hyper closes the connection.
        Answer::Closed | Answer::None => Err(io::Error::other("closed instead of an answer")),
    }
}

/// The answer to a handshake, if it is one: every receiver wants deliveries.
fn consent(headers: &HeaderMap, body: &[u8]) -> Option<Response<Full<Bytes>>> {
    if headers.get("aeg-event-type")? != "SubscriptionValidation" {
        return None;
    }
    let events: serde_json::Value = serde_json::from_slice(body).ok()?;
    let code = &events[0]["data"]["validationCode"];
    let body = serde_json::json!({ "validationResponse": code }).to_string();
    Some(Response::new(Full::from(body)))
}

/// Whether it tells of the end of a subscription (ED-171) and is no event that somebody published.
fn is_deletion_notice(headers: &HeaderMap) -> bool {
    headers
        .get("aeg-event-type")
        .is_some_and(|kind| kind == "SubscriptionDeletion")
}

fn answer(status: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() =
        hyper::StatusCode::from_u16(status).expect("statuses are written here");
    response
}

/// What a receiver does with a request.
struct Decision {
    wait: Duration,
    answer: Answer,
    hangs: bool,
}

impl Shared {
    /// Decides by the seed, the pair and how often it came, and by nothing else.
    fn decide(&self, index: usize, id: EventId, nth: usize) -> Decision {
        let numbers = [
            self.seed,
            index as u64,
            id.topic as u64,
            u64::from(id.number),
            nth as u64,
        ];
        let mut random = Random::of(&numbers);
        let at_once = |answer| Decision {
            wait: Duration::ZERO,
            answer,
            hangs: false,
        };
        if self.is_healthy.load(Ordering::SeqCst) {
            return at_once(Answer::Status(200));
        }
        let subscription = &SUBSCRIPTIONS[index];
        let slow = Decision {
            wait: random.millis(5..=60),
            answer: Answer::Status(202),
            hangs: false,
        };
        let chance = random.between(0..=99);
        if subscription.trouble == Trouble::None {
            return if chance < 5 {
                slow
            } else {
                at_once(Answer::Status(200))
            };
        }
        match chance {
            0..=1 if subscription.trouble == Trouble::Hanging => Decision {
                wait: Duration::from_secs(subscription.timeout_seconds.into())
                    + random.millis(100..=800),
                answer: Answer::Status(200),
                hangs: true,
            },
            0..=11 => slow,
            12..=23 => at_once(Answer::Status(500)),
            24..=35 => at_once(Answer::Status(503)),
            36..=39 => at_once(Answer::Status(400)),
            40..=45 => at_once(Answer::Closed),
            _ => at_once(Answer::Status(200)),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delivered<'a> {
    id: &'a str,
    event_time: &'a str,
    event_type: &'a str,
    data_version: &'a str,
    metadata_version: &'a str,
    #[serde(rename = "topic")]
    _topic: &'a str,
    subject: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Checks a request and returns its events, of which there is at least one, and what its headers say.
fn check(
    seed: u64,
    subscription: &Subscription,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Vec<EventId>, Headers), String> {
    let delivered: Vec<Delivered<'_>> = serde_json::from_slice(body)
        .map_err(|error| format!("{error} in {}", String::from_utf8_lossy(body)))?;
    let max = subscription.events_per_request();
    if !(1..=max).contains(&(delivered.len() as u64)) {
        let count = delivered.len();
        return Err(format!("{count} events in a request, {max} allowed"));
    }
    let events = delivered.iter();
    let ids: Vec<_> = events
        .map(|delivered| check_event(seed, subscription, delivered))
        .collect::<Result<_, _>>()?;
    let mut known = HashSet::new();
    if let Some(twice) = ids.iter().find(|id| !known.insert(**id)) {
        return Err(format!("event {twice} twice in one request"));
    }
    Ok((ids, check_headers(subscription, headers, delivered.len())?))
}

fn check_event(
    seed: u64,
    subscription: &Subscription,
    delivered: &Delivered<'_>,
) -> Result<EventId, String> {
    let text = delivered.id;
    let id = EventId::parse(text).ok_or_else(|| format!("event {text}, which nobody published"))?;
    let event = Event::of(seed, id);
    if !subscription.wants(id, &event) {
        return Err(format!("event {id}, which its filter refuses"));
    }
    let is_whole = delivered.event_type == event.type_name
        && delivered.subject == event.subject
        && delivered.data.get() == event.data
        && delivered.event_time == EVENT_TIME
        && delivered.data_version == DATA_VERSION
        && delivered.metadata_version == "1";
    if !is_whole {
        return Err(format!(
            "event {id} changed: {delivered:?} instead of {}",
            event.to_json(id)
        ));
    }
    Ok(id)
}

/// What the headers of a request with so many events say.
fn check_headers(
    subscription: &Subscription,
    headers: &HeaderMap,
    events: usize,
) -> Result<Headers, String> {
    let name = header(headers, "aeg-subscription-name")?;
    if !name.eq_ignore_ascii_case(subscription.name) {
        return Err(format!("a request for subscription {name}"));
    }
    let count = header(headers, "aeg-delivery-count")?;
    let count: u16 = count
        .parse()
        .map_err(|_| format!("delivery count {count}"))?;
    if count >= subscription.attempts_max {
        let max = subscription.attempts_max;
        return Err(format!("delivery count {count}, of {max} attempts at most"));
    }
    if let Sending::Batched { .. } = subscription.sending {
        let size = header(headers, "hedgerow-batch-size")?;
        if size != events.to_string() {
            return Err(format!("{events} events as a batch of {size}"));
        }
        let system_id = None;
        return Ok(Headers { count, system_id });
    }
    let system_id = header(headers, "aeg-output-event-id")?;
    let digits = system_id.replace('-', "");
    let system_id =
        u128::from_str_radix(&digits, 16).map_err(|_| format!("system id {system_id}"))?;
    let system_id = Some(system_id);
    Ok(Headers { count, system_id })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, String> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| format!("a request without {name}"))
}

/// Counts as one as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
