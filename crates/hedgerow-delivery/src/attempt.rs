//! One attempt: one HTTP request for a delivery, or for a batch of them that [`crate::gather`] has made, always with a deadline.
//! Reads the event, encodes it, sends it, reports what it met. Decides nothing: what the report means is judged by the engine.
//!
//! The outcome is fixed by the complete response head (ED-127). At the timeout the attempt is reported as timed out;
//! its exchange stays open for a late success (ED-178) until the window ends or the engine ends it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hedgerow_core::event::{Event, TRACEPARENT_HEADER};
use hedgerow_core::limits;
use hedgerow_core::outcome::{DeadLetterReason, Failure, Met, parse_retry_after};
use hedgerow_core::position::{Position, TopicId};
use hedgerow_core::retry::{
    self, DeliveryKey, FailedAttempt, RetryPolicy, RetrySettings, is_late_success,
};
use hedgerow_core::time::{Now, Timestamp};
use hedgerow_dialect::delivery::{self, Content, DeliveryHeaders, ResolvedHeaders, Unusable};
use hedgerow_dialect::event_grid::path_of;
use hedgerow_io::chance;
use hedgerow_io::clock::{Clock, OpenExchange};
use hedgerow_io::http::{Answer, Client, SendError, Target};
use hedgerow_store::history::HistoryHandle;
use hedgerow_store::record::unpack_event;
use hedgerow_store::{Store, StoreError, StoredEvent};
use tokio::sync::mpsc;

use crate::batch_answer::{self, Entries};
use crate::gather::Gathered;
use crate::in_full;
use crate::origins::{self, AttemptMet, Origins, Route};
use crate::plan::{Plan, To};
use crate::remember::{self, RecordTo};

/// What an endpoint answers that is gone for good (ED-186).
pub(crate) const GONE: u16 = 410;

/// What all attempts share.
pub(crate) struct Context {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) client: Arc<Client>,
    pub(crate) history: Option<HistoryHandle>,
    /// Which store it is: system ids are derived from it.
    pub(crate) store_id: [u8; 16],
    pub(crate) late_success_window: Duration,
    pub(crate) subscription_name_upper_case: bool,
    /// `WebHook-Request-Origin`; empty for none.
    pub(crate) webhook_origin: String,
    /// Who is told what attempts at origins of groups met.
    pub(crate) origins: Arc<dyn Origins>,
}

/// One attempt to make.
pub(crate) struct Job {
    pub(crate) key: DeliveryKey,
    pub(crate) topic: TopicId,
    /// Which attempt, from 1.
    pub(crate) attempt: u16,
    pub(crate) plan: Arc<Plan>,
    pub(crate) started: Now,
    /// The origin that it goes to, if its destination is a group.
    pub(crate) route: Option<Arc<Route>>,
    /// Begun when it started.
    pub(crate) exchange: OpenExchange,
}

/// Where an attempt goes; `None` if it is for a group, and no origin was chosen: none is made without.
pub(crate) fn target<'j>(route: Option<&'j Route>, plan: &'j Plan) -> Option<&'j Target> {
    match (route, &plan.to) {
        (Some(route), _) => Some(&route.origin.target),
        (None, To::Endpoint { target, .. }) => Some(target),
        (None, To::Group(_)) => None,
    }
}

/// What became of it.
pub(crate) struct Report {
    pub(crate) key: DeliveryKey,
    pub(crate) kind: ReportKind,
}

pub(crate) enum ReportKind {
    /// A batch is ready to be sent.
    Gathered(Gathered),
    /// An event for a batch could not be read.
    NotGathered {
        token: u64,
        seq: u64,
        error: StoreError,
    },
    /// The outcome is known. `stays_open`: the exchange goes on, for a late success.
    Ended { end: AttemptEnd, stays_open: bool },
    /// A success came after the timeout.
    LateSuccess(AttemptEnd),
    /// The exchange that was open after the timeout ended without a success.
    LateClosed { attempt: u16 },
    /// The event of a delivery that ends without another attempt was read.
    ReadToEnd {
        reason: DeadLetterReason,
        event: StoredEvent,
    },
    /// The event could not be read: for this attempt, or to end the delivery.
    Unreadable {
        attempt: Option<u16>,
        error: StoreError,
    },
}

/// The end of an attempt.
pub(crate) struct AttemptEnd {
    /// Which attempt, from 1.
    pub(crate) attempt: u16,
    pub(crate) found: Found,
    pub(crate) started: Timestamp,
    /// F: when the outcome was known.
    pub(crate) ended: Timestamp,
    /// From the start to that.
    pub(crate) duration: Duration,
    pub(crate) event: StoredEvent,
    /// Whether it was a batch, of one event or more.
    pub(crate) is_batch: bool,
    /// The other events of a batch, with their numbers in the topic.
    pub(crate) others: Vec<(u64, StoredEvent)>,
    /// What a success says about each of them.
    pub(crate) entries: Entries,
    /// The origin that it went to, if its destination is a group.
    pub(crate) route: Option<Arc<Route>>,
    /// Whoever adds the answer's excerpt to the history's record; `None` if there is none to come.
    pub(crate) record_to: Option<RecordTo>,
}

/// What an attempt met.
pub(crate) struct Found {
    pub(crate) met: Met,
    /// We did not connect, by a rule or a limit of our own.
    pub(crate) is_our_refusal: bool,
    /// What exactly went wrong, for people; `None` if there was an answer.
    pub(crate) detail: Option<String>,
}

impl AttemptEnd {
    /// How many events the request had.
    pub(crate) fn events(&self) -> usize {
        1 + self.others.len()
    }
}

/// Makes the attempt and reports; dropping it closes the connection.
pub(crate) async fn run(context: Arc<Context>, job: Job, reports: mpsc::Sender<Report>) {
    let position = Position {
        topic: job.topic,
        seq: job.key.seq,
    };
    let (event, request) = match prepare(&context, &job, position).await {
        Ok(prepared) => prepared,
        Err(error) => {
            let attempt = Some(job.attempt);
            let kind = ReportKind::Unreadable { attempt, error };
            // The engine may be gone, and then nobody is left to tell.
            let told = reports.send(Report { key: job.key, kind }).await;
            return told.unwrap_or_default();
        }
    };
    exchange(&context, job, event, Vec::new(), request, reports).await;
}

/// Sends the request and reports what it meets. `others` are the events of a batch beside the first one.
#[allow(clippy::too_many_lines)] // Two ends of one exchange, which share all that it needs.
pub(crate) async fn exchange(
    context: &Context,
    job: Job,
    event: StoredEvent,
    others: Vec<(u64, StoredEvent)>,
    request: http::Request<Bytes>,
    reports: mpsc::Sender<Report>,
) {
    let tell = |kind| async {
        reports
            .send(Report { key: job.key, kind })
            .await
            .unwrap_or_default();
    };
    let Some(target) = target(job.route.as_deref(), &job.plan) else {
        return;
    };
    let send = context.client.send(target, request);
    tokio::pin!(send);
    let timeout = job.plan.response_timeout;
    let in_time = tokio::select! {
        biased;
        result = &mut send => Some(result),
        () = sleep_past(&*context.clock, job.started, timeout) => None,
    };
    let ended = context.clock.now();
    // From here on nothing is measured that fast time could spoil: an exchange that goes on is no longer young.
    drop(job.exchange);
    let met = |met| {
        if let Some(route) = &job.route {
            context.origins.met(&route.group, route.id, met);
        }
    };
    let end = |found, ended, duration, (event, others)| AttemptEnd {
        attempt: job.attempt,
        found,
        started: job.started.timestamp,
        ended,
        duration,
        event,
        is_batch: job.plan.batch.is_some(),
        others,
        entries: Entries::All,
        route: job.route.clone(),
        record_to: None,
    };
    let events = (event, others);
    let history = context.history.as_ref();
    if let Some(result) = in_time {
        let duration = context.clock.passed(job.started, ended);
        met(origins::met_of(&result));
        let (found, answer) = judge(result, context.clock.wall());
        let (entries, rest) = batch_answer::read(&job.plan, &found.met, answer, &events).await;
        let (record_to, record) = remember::channel(rest.as_ref());
        tell(ReportKind::Ended {
            end: AttemptEnd {
                entries,
                record_to,
                ..end(found, ended.timestamp, duration, events)
            },
            stays_open: false,
        })
        .await;
        return remember::finish(rest, &job.plan, history, record).await;
    }
    met(AttemptMet::TimedOut);
    let window = context.late_success_window;
    let stays_open = timeout < window;
    // F is the timeout, whenever the timer came round (ED-177).
    let ended = job.started.timestamp.plus(timeout);
    let timed_out = Found {
        met: Met::Failure(Failure::Timeout),
        is_our_refusal: false,
        detail: Some(format!("no answer in {timeout:?}")),
    };
    tell(ReportKind::Ended {
        end: end(timed_out, ended, timeout, events.clone()),
        stays_open,
    })
    .await;
    if !stays_open {
        return;
    }
    let late = tokio::select! {
        biased;
        result = &mut send => Some(result),
        () = sleep_past(&*context.clock, job.started, window) => None,
    };
    let ended = context.clock.now();
    let elapsed = context.clock.passed(job.started, ended);
    match late.map(|result| judge(result, context.clock.wall())) {
        Some((found, answer))
            if found.met.is_success() && is_late_success(elapsed, timeout, window) =>
        {
            let (entries, rest) = batch_answer::read(&job.plan, &found.met, answer, &events).await;
            let (record_to, record) = remember::channel(rest.as_ref());
            tell(ReportKind::LateSuccess(AttemptEnd {
                entries,
                record_to,
                ..end(found, ended.timestamp, elapsed, events)
            }))
            .await;
            remember::finish(rest, &job.plan, history, record).await;
        }
        _ => {
            tell(ReportKind::LateClosed {
                attempt: job.attempt,
            })
            .await;
        }
    }
}

async fn prepare(
    context: &Context,
    job: &Job,
    position: Position,
) -> Result<(StoredEvent, http::Request<Bytes>), StoreError> {
    let event = read(&context.store, position).await?;
    let request = request(context, job, position, &event)?;
    Ok((event, request))
}

/// Reads the event at a position, from memory if it is recent.
pub(crate) async fn read(
    store: &Arc<dyn Store>,
    position: Position,
) -> Result<StoredEvent, StoreError> {
    if let Some(event) = store.read_recent(position) {
        return Ok(event);
    }
    let store = Arc::clone(store);
    tokio::task::spawn_blocking(move || store.read(position))
        .await
        .unwrap_or(Err(StoreError::Closed))
}

/// Waits until `span` after `start` has passed by at least one tick: an answer at exactly that time is in time.
pub(crate) async fn sleep_past(clock: &dyn Clock, start: Now, span: Duration) {
    loop {
        let elapsed = clock.passed(start, clock.now());
        if elapsed > span {
            return;
        }
        let left = span.saturating_sub(elapsed) + Duration::from_millis(1);
        tokio::time::sleep(clock.wait(left)).await;
    }
}

/// The request for one event.
pub(crate) fn request(
    context: &Context,
    job: &Job,
    position: Position,
    event: &StoredEvent,
) -> Result<http::Request<Bytes>, StoreError> {
    let plan = &job.plan;
    let unpacked = unpack_event(&event.bytes)?;
    let body = delivery::body(
        plan.delivery_schema,
        &unpacked,
        &plan.topic_path,
        event.published,
    );
    let path = path_of(&plan.topic_path, &unpacked);
    let custom = resolved_headers(plan, &unpacked, &path);
    let system_id = delivery::system_id(&context.store_id, job.key.subscription, position);
    let sent = Content::One {
        system_id: &system_id,
        data_version: unpacked.data_version.as_deref(),
    };
    let traceparent = trace(&unpacked, |incoming| next_trace(&incoming));
    let traceparent = traceparent.as_deref();
    let id = || system_id.clone();
    Ok(post(context, job, body, sent, &custom, traceparent, id))
}

/// The request with this body. `message_id` is what signatures name it by.
pub(crate) fn post(
    context: &Context,
    job: &Job,
    body: Vec<u8>,
    sent: Content<'_>,
    custom: &ResolvedHeaders,
    traceparent: Option<&str>,
    message_id: impl FnOnce() -> String,
) -> http::Request<Bytes> {
    let plan = &job.plan;
    let mut headers = delivery::headers(&DeliveryHeaders {
        schema: plan.delivery_schema,
        subscription_name: &plan.subscription_name,
        upper_case_name: context.subscription_name_upper_case,
        attempts_made: job.attempt - 1,
        origin: Some(context.webhook_origin.as_str()).filter(|origin| !origin.is_empty()),
        content: sent,
        traceparent,
        custom,
        is_signed: plan.signer.is_some(),
    });
    if let Some(signer) = &plan.signer {
        // Each attempt has its own time, and it is the one that receivers have (FC-13).
        signer.sign(&message_id(), context.clock.wall(), &body, &mut headers);
    }
    let mut request = http::Request::new(Bytes::from(body));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = plan.path_and_query.clone().into();
    if let Some(host) = job
        .route
        .as_ref()
        .and_then(|route| route.origin.host_header.clone())
    {
        headers.insert(http::header::HOST, host);
    }
    *request.headers_mut() = headers;
    request
}

/// The custom headers that an event is sent with (ED-143 to ED-146): events with different ones never share a request.
pub(crate) fn resolved_headers(
    plan: &Plan,
    event: &Event<'_>,
    topic_path: &str,
) -> ResolvedHeaders {
    let declared = declared_headers(plan, event, topic_path);
    match event.replay_of() {
        None => declared,
        Some(letter) => declared.of_replay(letter),
    }
}

fn declared_headers(plan: &Plan, event: &Event<'_>, topic_path: &str) -> ResolvedHeaders {
    if plan.custom_headers.is_empty() {
        return ResolvedHeaders::none();
    }
    let (topic, subscription) = (&*plan.topic_name, &*plan.subscription_name);
    plan.custom_headers
        .resolve(event, topic_path, |header, why| {
            let event_id = &*event.id;
            let problem = match why {
                Unusable::TooLong { bytes } => format!(
                    "its value has {bytes} bytes, {} are possible",
                    limits::HEADER_VALUE_BYTES_MAX
                ),
                Unusable::Characters => {
                    "its value has line breaks or control characters".to_owned()
                }
            };
            tracing::warn!(
                topic,
                subscription,
                event_id,
                %header,
                problem,
                "an event is sent without one of its headers"
            );
        })
}

/// What is made of the trace that the event was published in, or else of the one it carries (ED-141).
pub(crate) fn trace(event: &Event<'_>, make: impl Fn(String) -> Option<String>) -> Option<String> {
    [TRACEPARENT_HEADER, "traceparent"]
        .into_iter()
        .find_map(|wanted| {
            let (_, json) = event.extensions.iter().find(|(name, _)| name == wanted)?;
            make(serde_json::from_str(json).ok()?)
        })
}

/// The header for an attempt: the same trace with a new span; `None` if it is no trace.
pub(crate) fn next_trace(incoming: &str) -> Option<String> {
    delivery::next_traceparent(incoming, chance::number())
}

/// What the attempt met, and the answer if there was one.
pub(crate) fn judge(result: Result<Answer, SendError>, wall: Timestamp) -> (Found, Option<Answer>) {
    match result {
        Ok(answer) => {
            let retry_after = answer
                .headers
                .get(http::header::RETRY_AFTER)
                .and_then(|value| value.to_str().ok())
                .and_then(|text| parse_retry_after(text, wall));
            let status = answer.status.as_u16();
            let met = Met::Response {
                status,
                retry_after,
            };
            (
                Found {
                    met,
                    is_our_refusal: false,
                    detail: None,
                },
                Some(answer),
            )
        }
        Err(error) => {
            let found = Found {
                met: Met::Failure(failure(&error)),
                is_our_refusal: matches!(
                    error,
                    SendError::Denied(_) | SendError::TooManyConnections { .. }
                ),
                detail: Some(in_full(&error)),
            };
            (found, None)
        }
    }
}

/// What follows an attempt for an event that may not end: the next slot of its schedule, whatever it met. One that was in
/// flight in too many crashes ends all the same.
pub(crate) fn never_dead(
    settings: &RetrySettings,
    next: retry::Next,
    failed: &FailedAttempt,
) -> retry::Next {
    match next {
        retry::Next::Dead(reason)
            if reason != DeadLetterReason::UndeliverableDueToRepeatedCrash =>
        {
            let policy = RetryPolicy {
                max_delivery_attempts: u16::MAX,
                ..RetryPolicy::default()
            };
            let failed = FailedAttempt {
                floor: failed.floor.max(settings.floors.other),
                ..*failed
            };
            retry::after_failure(settings, &policy, &failed)
        }
        next => next,
    }
}

fn failure(error: &SendError) -> Failure {
    match error {
        SendError::Resolution(_) => Failure::Dns,
        SendError::Tls(_) => Failure::Tls,
        SendError::Reset(_) => Failure::Reset,
        SendError::Protocol(_) => Failure::Protocol,
        // Our own refusal is met like a connection that is not to be had.
        _ => Failure::Connect,
    }
}
