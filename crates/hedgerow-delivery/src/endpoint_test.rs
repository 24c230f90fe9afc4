//! One test event for an endpoint, and what the engine would make of the answer (ED-312). Nothing of it is stored or counted.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::dead_letter;
use hedgerow_core::limits;
use hedgerow_core::outcome::{DeadLetterReason, Failure, Met, Outcome, Verdict, classify};
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::retry::{self, DeliveryKey, FailedAttempt, Jitter, RetrySettings};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::delivery::{self, BatchBody, Content};
use hedgerow_dialect::event_grid::path_of;
use hedgerow_io::chance;
use hedgerow_io::http::Watch;
use hedgerow_io::http::watch::Mark;
use hedgerow_store::record::unpack_event;
use hedgerow_store::{StoreError, StoredEvent};
use http::HeaderMap;
use tokio::time::timeout;

use crate::attempt::{self, Context, Found, Job};
use crate::batch_answer::{self, Entries};
use crate::command::{Command, CommandError, EngineHandle};
use crate::dry_run::{DryRun, DryRunQuery};
use crate::origins::Route;
use crate::plan::Plan;
use crate::wire::{Seen, WireAnswer, WireRequest};

/// Which endpoint is to be tested, and with which event.
#[derive(Debug, Clone)]
pub struct EndpointTestQuery {
    /// The endpoint.
    pub endpoint: DryRunQuery,
    /// What it is sent.
    pub event: StoredEvent,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct EndpointTest {
    /// The handshake; `None` if none would be made there.
    pub handshake: Option<DryRun>,
    /// The test event; `None` if it was not sent, because the endpoint has not consented.
    pub delivery: Option<TestDelivery>,
}

/// What became of the test event.
#[derive(Debug, Clone)]
pub struct TestDelivery {
    /// The request as it was sent, and how long its parts took.
    pub wire: WireRequest,
    /// The answer, if there was one.
    pub answer: Option<WireAnswer>,
    /// Why there was none.
    pub error: Option<String>,
    /// Whether we did not connect, by a rule or a limit of our own.
    pub is_our_refusal: bool,
    /// What a delivery would have come to.
    pub outcome: Option<Outcome>,
    /// What would be next.
    pub next: TestNext,
    /// Whether the subscription would be paused, because its endpoint is gone (ED-186).
    pub pauses: bool,
    /// What a success says about the event, if it does not take it (`batch.perEntryAcknowledgement`).
    pub entry: Option<String>,
}

/// What would be next for an event that met this answer on its first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestNext {
    /// Nothing: it is delivered.
    Delivered,
    /// Another attempt, so long after the outcome is known and not before; more by jitter, and by what else holds it.
    Retry {
        /// How long.
        after: Duration,
    },
    /// Its time to live would be over when the next attempt is due, so long after the outcome.
    Expired {
        /// How long.
        after: Duration,
    },
    /// It would be written to the dead-letter destination, so long after the outcome.
    DeadLettered {
        /// Why.
        reason: DeadLetterReason,
        /// How long.
        after: Duration,
    },
    /// It would be dropped: there is no dead-letter destination.
    Dropped {
        /// Why it would be given up.
        reason: DeadLetterReason,
    },
}

impl EngineHandle {
    /// Makes the handshake with an endpoint as it would be made, and sends it one event once. Changes nothing.
    ///
    /// # Errors
    /// If such a subscription could not be declared. What the endpoint does is no error.
    pub async fn test_endpoint(
        &self,
        query: EndpointTestQuery,
    ) -> Result<EndpointTest, CommandError> {
        self.ask(|answer| Command::TestEndpoint { query, answer })
            .await
    }
}

/// Of no subscription: ids begin at 1.
pub(crate) const NONE: SubscriptionId = SubscriptionId(0);

/// The event to send, and by which rules its answer is judged.
pub(crate) struct TestJob {
    pub(crate) context: Arc<Context>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) topic: TopicId,
    pub(crate) event: StoredEvent,
    pub(crate) retry: RetrySettings,
    /// The origin that is tried, of a group.
    pub(crate) route: Option<Arc<Route>>,
}

/// Sends it, once.
pub(crate) async fn run(test: TestJob) -> Result<TestDelivery, StoreError> {
    let TestJob {
        context,
        plan,
        topic,
        event,
        retry,
        route,
    } = test;
    // Its system id is like no other's: a receiver takes none for one that it had.
    let seq = chance::number();
    let position = Position { topic, seq };
    let job = Job {
        key: DeliveryKey {
            subscription: NONE,
            seq,
        },
        topic,
        attempt: 1,
        plan: Arc::clone(&plan),
        route,
        started: context.clock.now(),
        exchange: context.clock.open_exchange(),
    };
    let request = request(&context, &job, position, &event)?;
    let watch = Watch::begin(limits::ENDPOINT_TEST_SENT_BYTES_MAX);
    // A group is tried origin by origin.
    let target = attempt::target(job.route.as_deref(), &plan).ok_or(StoreError::Closed)?;
    let sending = context.client.send_watched(target, request, &watch);
    let late = attempt::sleep_past(&*context.clock, job.started, plan.response_timeout);
    let (found, answer) = tokio::select! {
        biased;
        result = sending => attempt::judge(result, context.clock.wall()),
        () = late => (no_answer(&plan), None),
    };
    let ended = match found.met {
        // F is the timeout, whenever the timer came round (ED-177).
        Met::Failure(Failure::Timeout) => job.started.timestamp.plus(plan.response_timeout),
        _ => context.clock.now().timestamp,
    };
    let mut seen = Seen::default();
    let mut is_whole = false;
    let mut entries = Entries::All;
    if let Some(answer) = answer {
        let names_entries = batch_answer::may_name_entries(&plan, &found.met, &answer);
        let bytes_max = if names_entries {
            limits::BATCH_ANSWER_BYTES_MAX
        } else {
            limits::RESPONSE_BODY_BYTES_MAX
        };
        seen.head = Some((answer.status, answer.headers));
        let reading = answer.body.read_into(&mut seen.body, bytes_max);
        is_whole = matches!(
            timeout(limits::RESPONSE_BODY_WAIT_MAX, reading).await,
            Ok(Ok(()))
        );
        if names_entries {
            entries = batch_answer::entries_of(&seen.body, is_whole, &event);
        }
    }
    watch.mark(Mark::Over);
    let secrets = plan.secrets();
    let fixed = plan.custom_headers.fixed();
    let fixed: HeaderMap = fixed
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let verdict = verdict(&plan, &found, &entries, &retry);
    let judged = Judged {
        plan: &plan,
        job: &job,
        published: event.published,
        ended,
        retry,
    };
    let status = found.met.status();
    Ok(TestDelivery {
        wire: WireRequest::of(&watch, secrets, &fixed),
        answer: WireAnswer::of(
            &seen,
            secrets,
            limits::ENDPOINT_TEST_BODY_BYTES_MAX,
            is_whole,
        ),
        error: found.detail.map(|detail| secrets.strike(&detail, false)),
        is_our_refusal: found.is_our_refusal,
        outcome: verdict.outcome(),
        next: judged.next(&verdict),
        pauses: status == attempt::GONE && plan.disable_on_gone,
        entry: entries.reason(),
    })
}

/// What is sent: the same as a delivery, in batch form if the subscription has batches (ED-132).
fn request(
    context: &Context,
    job: &Job,
    position: Position,
    event: &StoredEvent,
) -> Result<http::Request<bytes::Bytes>, StoreError> {
    let plan = &job.plan;
    if plan.batch.is_none() {
        return attempt::request(context, job, position, event);
    }
    let unpacked = unpack_event(&event.bytes)?;
    let mut body = BatchBody::begin(plan.delivery_schema, &plan.topic_path, event.bytes.len());
    body.push(&unpacked, event.published);
    let path = path_of(&plan.topic_path, &unpacked);
    let custom = attempt::resolved_headers(plan, &unpacked, &path);
    let sent = Content::Batch {
        events: 1,
        data_version: Some(unpacked.data_version.as_deref().unwrap_or_default()),
    };
    let trace = attempt::trace(&unpacked, |incoming| attempt::next_trace(&incoming));
    let id = || {
        let system_id = delivery::system_id(&context.store_id, job.key.subscription, position);
        delivery::batch_id([system_id])
    };
    let body = body.finish();
    Ok(attempt::post(
        context,
        job,
        body,
        sent,
        &custom,
        trace.as_deref(),
        id,
    ))
}

fn no_answer(plan: &Plan) -> Found {
    Found {
        met: Met::Failure(Failure::Timeout),
        is_our_refusal: false,
        detail: Some(format!("no answer in {:?}", plan.response_timeout)),
    }
}

/// The verdict of the rule table; an answer that does not take the event is judged as one of a batch.
fn verdict(plan: &Plan, found: &Found, entries: &Entries, retry: &RetrySettings) -> Verdict {
    match classify(plan.kind, &found.met, &plan.overrides, &retry.floors) {
        Verdict::Success if !entries.accepts(0) => Verdict::Retry {
            outcome: Outcome::GenericError,
            status: found.met.status(),
            floor: retry.floors.other,
            retry_after: None,
        },
        verdict => verdict,
    }
}

struct Judged<'a> {
    plan: &'a Plan,
    job: &'a Job,
    published: Timestamp,
    ended: Timestamp,
    retry: RetrySettings,
}

impl Judged<'_> {
    fn next(self, verdict: &Verdict) -> TestNext {
        let failed = |floor, retry_after| FailedAttempt {
            key: self.job.key,
            attempts: 1,
            first_attempt: self.job.started.timestamp,
            started: self.job.started.timestamp,
            ended: self.ended,
            floor,
            retry_after,
            hold_until: None,
        };
        // What chance adds is drawn for each event.
        let settings = RetrySettings {
            jitter: Jitter::OFF,
            ..self.retry
        };
        let next = match *verdict {
            Verdict::Success => return TestNext::Delivered,
            Verdict::Retry {
                floor, retry_after, ..
            } => retry::after_failure(&settings, &self.plan.policy, &failed(floor, retry_after)),
            Verdict::Final { reason, .. } if self.plan.blocks => {
                let failed = failed(Duration::ZERO, None);
                attempt::never_dead(&settings, retry::Next::Dead(reason), &failed)
            }
            Verdict::Final { reason, .. } => retry::Next::Dead(reason),
        };
        match next {
            retry::Next::Due(due) => {
                let after = due.since(self.ended);
                if due.since(self.published) >= self.plan.policy.event_time_to_live {
                    TestNext::Expired { after }
                } else {
                    TestNext::Retry { after }
                }
            }
            retry::Next::Dead(reason) if self.plan.dead_letter_destination.is_none() => {
                TestNext::Dropped { reason }
            }
            retry::Next::Dead(reason) => {
                let due = dead_letter::write_due(&self.plan.dead_letter, self.ended);
                TestNext::DeadLettered {
                    reason,
                    after: due.since(self.ended),
                }
            }
        }
    }
}
