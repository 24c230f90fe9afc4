//! One handshake with an endpoint: asks it whether it wants deliveries, as often as the rules say, and reports what it
//! answered. Decides nothing: what the report means is judged by the engine.
//!
//! The answer is read whole, within its time and a bound (ED-127): it is what the endpoint says. What is kept of it for
//! people has none of the secrets that an endpoint may repeat.

use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::limits;
use hedgerow_core::time::Timestamp;
use hedgerow_core::validation::{Consent, TryMet, ValidationSettings};
use hedgerow_dialect::delivery::{CustomHeaders, Signer};
use hedgerow_dialect::handshake::{cloud_events, event_grid};
use hedgerow_io::chance;
use hedgerow_io::clock::Clock;
use hedgerow_io::http::watch::Mark;
use hedgerow_io::http::{BodyError, Client, Scheme, SendError, Target, Watch};
use hedgerow_store::catalog::Exchange;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request};

use crate::in_full;
use crate::plan::secret_headers;
use crate::strike::Secrets;
use crate::wire::{Seen, WireAnswer, WireRequest};

/// One handshake to make.
pub(crate) struct HandshakeJob {
    pub(crate) subscription_name: String,
    pub(crate) upper_case_name: bool,
    pub(crate) target: Target,
    /// Path and query of the endpoint, sent unchanged (ED-121, ED-164).
    pub(crate) path_and_query: PathAndQuery,
    /// What is asked for as `Host`, if that is not the target's own (HP-165).
    pub(crate) host_header: Option<HeaderValue>,
    pub(crate) form: Form,
    /// Those of the subscription's deliveries that do not depend on an event are sent here too (ED-151).
    pub(crate) custom_headers: CustomHeaders,
    /// What a validation event is signed with, as deliveries are: who verifies those verifies this one too (ED-142).
    pub(crate) signer: Option<Signer>,
    /// The secret at the end of `url`.
    pub(crate) token: String,
    /// What completes the handshake when it is opened.
    pub(crate) url: String,
    pub(crate) settings: Arc<ValidationSettings>,
    pub(crate) client: Arc<Client>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether the report tells what was sent, and how long it took.
    pub(crate) is_watched: bool,
}

/// How the endpoint is asked.
pub(crate) enum Form {
    /// A validation event about a topic with this path is posted.
    Event { topic_path: String },
    /// `OPTIONS` is sent in the name of this origin.
    Options { origin: String },
}

/// What became of a handshake.
pub(crate) struct HandshakeReport {
    /// Of the handshake that it reports about.
    pub(crate) token: String,
    /// When the last try was sent.
    pub(crate) sent: Timestamp,
    /// What the endpoint says; a failed try is a refusal.
    pub(crate) consent: Consent,
    pub(crate) exchange: Exchange,
    /// What was sent in the last try, if that was asked for.
    pub(crate) wire: Option<WireRequest>,
    /// What went wrong first in the last try; `None` if the endpoint consents.
    pub(crate) failed_at: Option<Step>,
    /// Whether the connection was to be encrypted.
    pub(crate) has_tls: bool,
    /// Whether there was a connection at all is not known: the time was over before anything came back.
    pub(crate) is_connection_unknown: bool,
}

/// What one try goes through, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The host's name has addresses.
    Name,
    /// They are open to us (FC-15).
    Address,
    /// One of them takes a connection.
    Connection,
    /// It is encrypted, and the other side is who it should be.
    Tls,
    /// An answer comes, whole and in time.
    Answer,
    /// It says that deliveries are welcome.
    Consent,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Name,
        Self::Address,
        Self::Connection,
        Self::Tls,
        Self::Answer,
        Self::Consent,
    ];

    /// Where a try without a whole answer ended; `None` if there is one.
    const fn of(asked: &Result<(), NoAnswer>) -> Option<Self> {
        let error = match asked {
            Ok(()) | Err(NoAnswer::Body(BodyError::TooLong { .. })) => return None,
            Err(NoAnswer::Body(_) | NoAnswer::Time) => return Some(Self::Answer),
            Err(NoAnswer::Send(error)) => error,
        };
        Some(match error {
            SendError::Resolution(_) => Self::Name,
            SendError::Denied(_) => Self::Address,
            SendError::Connect(_) | SendError::TooManyConnections { .. } => Self::Connection,
            SendError::Tls(_) => Self::Tls,
            _ => Self::Answer,
        })
    }
}

/// Why there is no whole answer.
enum NoAnswer {
    Send(SendError),
    Body(BodyError),
    Time,
}

/// Makes the handshake.
pub(crate) async fn run(job: HandshakeJob) -> HandshakeReport {
    let mut tries = 0;
    loop {
        tries += 1;
        // A new one each time: nobody answers a try with the code of another.
        let code = chance::uuid();
        let sent = job.clock.now().timestamp;
        let mut seen = Seen::default();
        let sent_max = limits::ENDPOINT_TEST_SENT_BYTES_MAX;
        let watch = job.is_watched.then(|| Watch::begin(sent_max));
        let asking = ask(&job, &code, sent, watch.as_ref(), &mut seen);
        let asked = tokio::time::timeout(job.settings.timeout, asking).await;
        let asked = asked.unwrap_or(Err(NoAnswer::Time));
        let is_whole = asked.is_ok();
        let ended_at = Step::of(&asked);
        let is_connection_unknown = matches!(asked, Err(NoAnswer::Time)) && seen.head.is_none();
        let secrets = secrets(&job, &code);
        let wire = watch.map(|watch| {
            watch.mark(Mark::Over);
            WireRequest::of(&watch, &secrets, &fixed_headers(&job))
        });
        let (met, consent, error) = judge(&job, &code, asked, &seen, &secrets);
        if job.settings.is_tried_again(tries, met) {
            tokio::time::sleep(job.settings.retry_delay).await;
            continue;
        }
        let message = match &consent {
            Consent::Given(_) => String::new(),
            Consent::ByHand(message) | Consent::Refused(message) => message.clone(),
        };
        let kept = limits::RESPONSE_EXCERPT_BYTES_MAX;
        let shown = WireAnswer::of(&seen, &secrets, kept, is_whole);
        let (status, headers, body) = match shown {
            Some(answer) => (Some(answer.status), answer.headers, answer.body),
            None => (None, Vec::new(), String::new()),
        };
        let exchange = Exchange {
            time: job.clock.now().timestamp,
            message,
            tries,
            status,
            headers,
            body,
            error,
        };
        return HandshakeReport {
            token: job.token,
            sent,
            failed_at: match &consent {
                Consent::Given(_) => None,
                Consent::ByHand(_) | Consent::Refused(_) => ended_at.or(Some(Step::Consent)),
            },
            has_tls: job.target.scheme() == Scheme::Https,
            is_connection_unknown,
            consent,
            exchange,
            wire,
        };
    }
}

/// Sends one request and reads its answer whole; what arrived is in `seen`, whatever happens.
async fn ask(
    job: &HandshakeJob,
    code: &str,
    now: Timestamp,
    watch: Option<&Watch>,
    seen: &mut Seen,
) -> Result<(), NoAnswer> {
    let _open = job.clock.open_exchange();
    let request = request(job, code, now);
    let sent = match watch {
        Some(watch) => job.client.send_watched(&job.target, request, watch).await,
        None => job.client.send(&job.target, request).await,
    };
    let answer = sent.map_err(NoAnswer::Send)?;
    seen.head = Some((answer.status, answer.headers));
    answer
        .body
        .read_into(&mut seen.body, limits::HANDSHAKE_BODY_BYTES_MAX)
        .await
        .map_err(NoAnswer::Body)
}

fn request(job: &HandshakeJob, code: &str, now: Timestamp) -> Request<Bytes> {
    let name = &job.subscription_name;
    let (method, mut headers, body) = match &job.form {
        Form::Event { topic_path } => {
            let id = chance::uuid();
            let event = event_grid::ValidationEvent {
                id: &id,
                topic_path,
                time: now,
                code,
                url: &job.url,
            };
            let mut headers = event_grid::headers(&id, name, job.upper_case_name);
            let body = event_grid::body(&event);
            if let Some(signer) = &job.signer {
                signer.sign(&id, job.clock.wall(), &body, &mut headers);
            }
            (Method::POST, headers, body)
        }
        Form::Options { origin } => {
            let headers = cloud_events::headers(origin, &job.url, name, job.upper_case_name);
            (Method::OPTIONS, headers, Vec::new())
        }
    };
    for (name, value) in job.custom_headers.fixed() {
        // What the handshake itself says is not said otherwise.
        if !name.as_str().starts_with("webhook-request-") {
            headers.insert(name, value.clone());
        }
    }
    if let Some(host) = &job.host_header {
        headers.insert(http::header::HOST, host.clone());
    }
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = job.path_and_query.clone().into();
    *request.headers_mut() = headers;
    request
}

/// What a try met, what the endpoint says, and what exactly went wrong if it does not say anything.
fn judge(
    job: &HandshakeJob,
    code: &str,
    asked: Result<(), NoAnswer>,
    seen: &Seen,
    secrets: &Secrets,
) -> (TryMet, Consent, Option<String>) {
    let no_answer = |met, error: String| {
        let what = match job.form {
            Form::Event { .. } => "the validation event",
            Form::Options { .. } => "OPTIONS",
        };
        let message = format!("the endpoint did not answer {what}: {error}");
        (met, Consent::Refused(message), Some(error))
    };
    let is_whole = match asked {
        Ok(()) => true,
        // It is an answer, and longer than one that says something.
        Err(NoAnswer::Body(BodyError::TooLong { .. })) => false,
        Err(NoAnswer::Body(error)) => return no_answer(TryMet::NoAnswer, in_full(&error)),
        Err(NoAnswer::Time) => {
            let missing = match seen.head {
                None => "no answer",
                Some(_) => "not the whole answer",
            };
            let error = format!("{missing} in {:?}", job.settings.timeout);
            return no_answer(TryMet::NoAnswer, error);
        }
        Err(NoAnswer::Send(error)) => {
            let met = match error {
                SendError::Denied(_) => TryMet::OurRefusal,
                _ => TryMet::NoAnswer,
            };
            return no_answer(met, in_full(&error));
        }
    };
    let Some((status, headers)) = &seen.head else {
        return no_answer(TryMet::NoAnswer, "no answer".to_owned());
    };
    let status = status.as_u16();
    let consent = match &job.form {
        Form::Event { .. } => {
            let body = is_whole.then_some(&*seen.body);
            event_grid::judge(status, body, code, job.settings.is_name_lenient)
        }
        Form::Options { origin } => match cloud_events::judge(status, headers, origin) {
            // It may repeat what the endpoint said.
            Consent::Refused(_) => {
                cloud_events::judge(status, &without_secrets(headers, secrets), origin)
            }
            other => other,
        },
    };
    (TryMet::Status(status), consent, None)
}

/// What an endpoint may repeat of what it was asked, and nobody is shown.
fn secrets(job: &HandshakeJob, code: &str) -> Secrets {
    let query = job.path_and_query.query().unwrap_or_default();
    let ours = format!("token={}&code={code}", job.token);
    let headers = secret_headers(&job.custom_headers);
    Secrets::of_endpoint(job.path_and_query.path(), &[query, &ours], &headers)
}

/// Those custom headers that every request has.
fn fixed_headers(job: &HandshakeJob) -> HeaderMap {
    let fixed = job.custom_headers.fixed();
    fixed
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn without_secrets(headers: &HeaderMap, secrets: &Secrets) -> HeaderMap {
    let struck = headers.iter().filter_map(|(name, value)| {
        let text = secrets.strike(&String::from_utf8_lossy(value.as_bytes()), false);
        Some((name.clone(), HeaderValue::from_str(&text).ok()?))
    });
    struck.collect()
}
