//! Publishing, whatever the topic's schema (sections 1.1, 1.4, 1.9, 1.10).
//!
//! Checks come in this order: method, topic, credential, `api-version`, coding, size, body, rate (ED-028, ED-029, ED-061). Success is answered
//! only when everything is durable (ED-010).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::limits;
use hedgerow_core::rate::Cost;
use hedgerow_core::spec::InputSchema;
use hedgerow_delivery::command::PublishTopic;
use hedgerow_dialect::event_grid::{PublishError, Report};
use hedgerow_dialect::publish::{self, Published, Request};
use hedgerow_io::chance;
use hedgerow_store::record::PackedEvents;
use http::header::{ALLOW, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use crate::body::{self, BodyError};
use crate::error::{PUBLISH_METHODS, Refusal};
use crate::publish::bearer::{self, Judged};
use crate::publish::credential::{authenticate, has_no_other_value};
use crate::publish::{Route, outcome};
use crate::state::App;

/// The one version there is (ED-006).
const API_VERSION: &str = "2018-01-01";
/// From this size on a body is read into events on a thread that may be busy: reading takes milliseconds.
const LARGE_BODY_BYTES: usize = 256 << 10;

/// Answers a request for the publish route.
pub async fn answer(
    app: &App,
    Route { topic }: Route<'_>,
    request: &Parts,
    mut body: Incoming,
    request_id: &str,
) -> Response<Full<Bytes>> {
    if request.method == Method::OPTIONS {
        return options();
    }
    let began = Instant::now();
    let mut known = Known::default();
    let taken = take(app, topic, request, &mut body, &mut known).await;
    if let Some(data_plane) = &app.data_plane {
        data_plane.note(app, request, &known, taken.as_ref().err());
    }
    match taken {
        Ok(()) => {
            outcome::accepted(&known, began.elapsed(), request_id);
            let mut response = Response::new(Full::default());
            if let Some(id) = known.event_id {
                response.headers_mut().insert(EVENT_ID, id);
            }
            response
        }
        Err(refusal) => {
            outcome::refused(app, &known, &refusal, request_id);
            refuse(app, refusal, request, body, request_id)
        }
    }
}

/// Answers a request for a path at which there is nothing, in the shape in which publishers are answered: it is nearly always
/// one of theirs.
pub fn answer_nowhere(
    app: &App,
    request: &Parts,
    body: Incoming,
    request_id: &str,
) -> Response<Full<Bytes>> {
    let refusal = Refusal::no_path(request.uri.path());
    if request.method == Method::POST {
        outcome::refused(app, &Known::default(), &refusal, request_id);
    }
    refuse(app, refusal, request, body, request_id)
}

fn refuse(
    app: &App,
    refusal: Refusal,
    request: &Parts,
    body: Incoming,
    request_id: &str,
) -> Response<Full<Bytes>> {
    if !refusal.closes() && !is_waiting_for_leave(request) {
        body::discard(body);
    }
    let report = Report {
        request_id,
        number: 0,
        time: app.time(),
    };
    refusal.into_response(&report)
}

/// The id of a single custom event: it was found by the topic's mapping, or made here, and its publisher has no other way to know
/// what to ask for.
const EVENT_ID: HeaderName = HeaderName::from_static("hedgerow-event-id");

/// What is known of a request so far, whatever becomes of it.
#[derive(Default)]
pub(super) struct Known {
    /// The topic, if there is one.
    pub(super) topic: Option<Arc<PublishTopic>>,
    /// How many events it has, once they are read.
    pub(super) events: u32,
    /// What [`EVENT_ID`] says.
    event_id: Option<HeaderValue>,
}

/// Stores the events of a request.
async fn take(
    app: &App,
    topic: Option<&str>,
    request: &Parts,
    body: &mut Incoming,
    known: &mut Known,
) -> Result<(), Refusal> {
    if request.method != Method::POST {
        return Err(Refusal::method());
    }
    let engine = app.engine()?;
    let topics = engine.topics();
    let found = topic.and_then(|name| topics.get(&*lower_case(name)));
    let found = found.cloned().ok_or_else(|| Refusal::no_topic(topic))?;
    let judged = bearer::judge(app, request, &found.name);
    if matches!(judged, Some(Judged::Beyond)) {
        // Not a failure of the other one's topic either.
        return Err(Refusal::no_topic(topic));
    }
    if found.spec.source.is_some() {
        return Err(Refusal::system_topic(&found.name));
    }
    let topic = &*known.topic.insert(found);
    match judged {
        Some(Judged::Allowed) => {}
        Some(_) => return Err(Refusal::may_not_publish()),
        None => authenticate(app, request, topic)?,
    }
    if !has_no_other_value(request, "api-version", API_VERSION) {
        return Err(Refusal::api_version());
    }
    if let Some(coding) = body::coding(&request.headers) {
        return Err(Refusal::coding(&coding));
    }
    let packed = {
        let announced = body.size_hint().exact();
        let bytes_max = announced
            .and_then(|bytes| usize::try_from(bytes).ok())
            .map_or(limits::PUBLISH_BODY_BYTES_MAX, |bytes| {
                bytes.min(limits::PUBLISH_BODY_BYTES_MAX)
            });
        let _room = app
            .room_for_body(bytes_max)
            .await
            .ok_or_else(Refusal::no_room)?;
        let read = body::read(body, limits::PUBLISH_BODY_BYTES_MAX, app.body_timeout).await;
        let bytes = read.map_err(|error| match error {
            BodyError::TooLarge => PublishError::body_too_large(announced).into(),
            other => Refusal::from(other),
        })?;
        let bytes_taken = bytes.len() as u64;
        let packed = decode(bytes, request, topic, app.publish_rates.is_some()).await?;
        if let Some(name) = packed.long_extension {
            app.note_long_extension(topic, &name);
        }
        known.event_id = packed.event_id;
        known.events = packed.events.count();
        if let Some(rates) = app.publish_rates.as_ref().filter(|_| known.events > 0) {
            let cost = Cost {
                units: packed.units,
                bytes: bytes_taken,
            };
            rates.take(topic.id, cost)?;
        }
        packed.events
    };
    if packed.count() > 0 {
        // What is packed is shared, not copied.
        let append = || engine.store().append(topic.id, packed.clone());
        let appending = app.store_room.append(append).await?;
        appending.await.map_err(|_| Refusal::lost())?;
    }
    Ok(())
}

/// The events of a request.
struct Packed {
    /// As they are stored.
    events: PackedEvents,
    /// A name of an extension that is longer than it should be.
    long_extension: Option<String>,
    /// What they count as where the rate is limited (ED-060); else 0.
    units: u64,
    /// What [`EVENT_ID`] says.
    event_id: Option<HeaderValue>,
}

/// Reads events out of a body, into the form in which they are stored.
async fn decode(
    body: Bytes,
    request: &Parts,
    topic: &Arc<PublishTopic>,
    counts_units: bool,
) -> Result<Packed, Refusal> {
    if body.len() < LARGE_BODY_BYTES {
        return Ok(pack(&body, &request.headers, topic, counts_units)?);
    }
    let (headers, topic) = (request.headers.clone(), Arc::clone(topic));
    let packing = tokio::task::spawn_blocking(move || pack(&body, &headers, &topic, counts_units));
    Ok(packing.await.map_err(|_| Refusal::internal())??)
}

fn pack(
    body: &[u8],
    headers: &HeaderMap,
    topic: &PublishTopic,
    counts_units: bool,
) -> Result<Packed, PublishError> {
    let request = Request {
        headers,
        topic: &topic.spec,
        topic_path: &topic.path,
        domain: topic.spec.domain.map(|_| topic.path.as_str()),
    };
    let Published {
        events,
        long_extension,
        ..
    } = publish::decode(body, &request, &mut chance::uuid)?;
    let is_custom = topic.spec.input_schema == InputSchema::CustomEventSchema;
    let event_id = match &*events {
        // An id that no header can hold was the publisher's own.
        [event] if is_custom => HeaderValue::from_str(&event.id).ok(),
        _ => None,
    };
    let units = if counts_units {
        publish::units(body, events.len())
    } else {
        0
    };
    Ok(Packed {
        events: PackedEvents::pack(&events),
        units,
        long_extension,
        event_id,
    })
}

/// ED-009.
fn options() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(PUBLISH_METHODS));
    response
}

/// Whether the client sends its body only when it is told to: then there is nothing to let run out.
fn is_waiting_for_leave(request: &Parts) -> bool {
    request.headers.contains_key(EXPECT) && request.headers.contains_key(CONTENT_LENGTH)
}

fn lower_case(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    Cow::Borrowed(name)
}
