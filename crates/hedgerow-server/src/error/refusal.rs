//! Refused publish requests, in the vendor's shape (ED-064 to ED-067).

use std::time::Duration;

use bytes::Bytes;
use hedgerow_dialect::event_grid::{self, ErrorCode, PublishError, Report};
use hedgerow_dialect::sas::SasError;
use hedgerow_store::StoreError;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;

use super::{SOON, shorten};
use crate::body::BodyError;
use crate::guard::Foreign;
use crate::publish::credential::KeyRefused;
use crate::state::{Phase, Unavailable};

/// How long publishers wait while the store is full: room is made by deliveries and cleaning, which takes a while.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(10);
/// ED-009.
pub const PUBLISH_METHODS: &str = "POST, OPTIONS";

/// A refused publish request.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: PublishError,
    closes: bool,
}

impl Refusal {
    /// No topic is meant, or none is there.
    pub fn no_topic(name: Option<&str>) -> Self {
        let message = match name {
            Some(name) => format!("There is no topic '{}'.", shorten(name)),
            None => "No topic is named; publish to '/TOPIC/api/events'.".to_owned(),
        };
        PublishError::new(ErrorCode::NotFound, message).into()
    }

    /// A topic whose events come from the server itself (ED-263, ED-318).
    pub fn system_topic(name: &str) -> Self {
        let message = format!(
            "The topic '{}' tells of what the server does: nobody publishes to it.",
            shorten(name)
        );
        PublishError::new(ErrorCode::Forbidden, message).into()
    }

    /// There is nothing at this path.
    pub fn no_path(path: &str) -> Self {
        let message = format!(
            "There is nothing at '{}'; events are published to '/TOPIC/api/events', and the admin API is below '/api/v1'.",
            shorten(path)
        );
        PublishError::new(ErrorCode::NotFound, message).into()
    }

    /// ED-009.
    pub fn method() -> Self {
        let error = PublishError::new(ErrorCode::BadRequest, "Only POST publishes events.");
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            error,
            closes: false,
        }
    }

    /// ED-006.
    pub fn api_version() -> Self {
        let message = "The api-version is unknown; leave it out or use '2018-01-01'.";
        PublishError::new(ErrorCode::BadRequest, message).into()
    }

    /// The body is coded in a way in which none is taken.
    pub fn coding(coding: &str) -> Self {
        let message = format!(
            "The body's Content-Encoding '{}' is not supported; send it without one.",
            shorten(coding)
        );
        let error = PublishError::new(ErrorCode::BadRequest, message);
        Self {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            error,
            closes: false,
        }
    }

    /// It is not the HTTP that it says; whoever reads it otherwise may see another request in it. So the connection ends.
    pub fn framing(message: &str) -> Self {
        Self {
            closes: true,
            ..PublishError::new(ErrorCode::BadRequest, message).into()
        }
    }

    /// Too many published bodies are in memory.
    pub fn no_room() -> Self {
        let message = "Too many requests are being read; publish again in a moment.";
        PublishError::retry_after(ErrorCode::ServiceUnavailable, message, SOON).into()
    }

    /// The store closed while the events were on their way.
    pub fn lost() -> Self {
        let message = "The store closed before the events were known to be durable; they may be stored or not. Publish again.";
        PublishError::retry_after(ErrorCode::ServiceUnavailable, message, SOON).into()
    }

    /// All requests that may publish at a time are taken (design D6).
    pub fn beyond_share() -> Self {
        let message = "Too many requests are under way; publish again in a moment.";
        PublishError::retry_after(ErrorCode::ServiceUnavailable, message, SOON).into()
    }

    /// The topic takes no more now (ED-061). The wait is told in whole seconds, and never too short.
    pub fn too_fast(rate: &str, setting: &str, wait: Duration) -> Self {
        let message = format!(
            "The topic takes {rate} a second, and has taken as many (rate_limits.{setting}); nothing was stored."
        );
        let wait = Duration::from_secs(wait.as_nanos().div_ceil(1_000_000_000) as u64);
        PublishError::retry_after(ErrorCode::TooManyRequests, message, wait).into()
    }

    /// The token is valid and does not allow it (ED-027).
    pub fn may_not_publish() -> Self {
        let message = "The token does not have the right 'publish' for this topic.";
        PublishError::new(ErrorCode::Forbidden, message).into()
    }

    /// A task of ours ended without a result.
    pub fn internal() -> Self {
        PublishError::new(ErrorCode::InternalServerError, "The server made a mistake.").into()
    }

    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The name of the error in the body (ED-066).
    pub const fn code(&self) -> &'static str {
        self.error.code.as_str()
    }

    /// What is wrong, for people.
    pub fn message(&self) -> &str {
        &self.error.message
    }

    /// How many events the request has, if it could be read; else 0.
    pub const fn events(&self) -> usize {
        self.error.events
    }

    /// Whether the connection ends with the answer: what is left of the body is not waited for.
    pub const fn closes(&self) -> bool {
        self.closes
    }

    /// The vendor's answer (ED-065 to ED-067).
    pub fn into_response(self, report: &Report<'_>) -> Response<Full<Bytes>> {
        let body = self.error.to_body(report);
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(event_grid::CONTENT_TYPE),
        );
        if let Some(wait) = self.error.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static(PUBLISH_METHODS));
        }
        if self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if self.closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<PublishError> for Refusal {
    fn from(error: PublishError) -> Self {
        Self {
            status: error.status(),
            error,
            closes: false,
        }
    }
}

impl From<Foreign> for Refusal {
    fn from(foreign: Foreign) -> Self {
        let (message, hint) = foreign.told();
        PublishError::new(ErrorCode::Forbidden, format!("{message}; {hint}.")).into()
    }
}

impl From<Unavailable> for Refusal {
    fn from(Unavailable(phase): Unavailable) -> Self {
        let message = format!("{}; publish again in a moment.", sentence(phase));
        PublishError::retry_after(ErrorCode::ServiceUnavailable, message, SOON).into()
    }
}

impl From<KeyRefused> for Refusal {
    fn from(refused: KeyRefused) -> Self {
        let message = match refused {
            KeyRefused::Missing => {
                "The request has no credential; send one of the topic's keys as header 'aeg-sas-key'.".to_owned()
            }
            KeyRefused::Disabled => {
                "Publishing by key or signature is disabled for this topic (disableLocalAuth).".to_owned()
            }
            KeyRefused::Wrong => "The key is none of the topic's keys.".to_owned(),
            KeyRefused::Signature(SasError::Malformed) => {
                return PublishError::new(ErrorCode::BadRequest, SasError::Malformed.to_string())
                    .into();
            }
            KeyRefused::Signature(error) => error.to_string(),
            KeyRefused::Bearer => {
                "The bearer token is none of this server's, and tokens of other issuers are not \
                 taken yet; send one of the topic's keys as header 'aeg-sas-key'."
                    .to_owned()
            }
            KeyRefused::Scheme => {
                "The scheme of the header 'Authorization' is neither 'SharedAccessSignature' nor \
                 'Bearer'."
                    .to_owned()
            }
        };
        PublishError::new(ErrorCode::Unauthorized, message).into()
    }
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => PublishError::body_too_large(None).into(),
            BodyError::TimedOut => {
                let message = "The body did not come in time.";
                let error = PublishError::new(ErrorCode::BadRequest, message);
                Self {
                    status: StatusCode::REQUEST_TIMEOUT,
                    error,
                    closes: true,
                }
            }
            BodyError::Broken | BodyError::Unframed => {
                let message = if error == BodyError::Broken {
                    "The body ended before its end."
                } else {
                    "The body's chunks cannot be read, or their extensions or trailers are longer than 16 KiB."
                };
                let error = PublishError::new(ErrorCode::BadRequest, message);
                Self {
                    status: error.status(),
                    error,
                    closes: true,
                }
            }
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let unavailable = |message: String, wait| {
            PublishError::retry_after(ErrorCode::ServiceUnavailable, message, wait).into()
        };
        match error {
            StoreError::Full(fullness) => {
                unavailable(format!("The store is full: {fullness}."), FULL_RETRY_AFTER)
            }
            StoreError::Busy { .. } => unavailable(
                "Too much waits to be written; publish again in a moment.".to_owned(),
                SOON,
            ),
            StoreError::TooLarge { bytes_max, .. } => PublishError::new(
                ErrorCode::RequestEntityTooLarge,
                format!(
                    "The events of one request may take {bytes_max} bytes in this server's log."
                ),
            )
            .into(),
            StoreError::Closed => Unavailable(Phase::Recovering).into(),
            // The engine ends, and the process with it.
            StoreError::Fenced { .. } => Unavailable(Phase::Stopping).into(),
            other => {
                tracing::error!(error = %other, "events cannot be appended");
                Self::internal()
            }
        }
    }
}

const fn sentence(phase: Phase) -> &'static str {
    match phase {
        Phase::Serving | Phase::Recovering => "The store is being opened",
        Phase::Stopping => "The server is stopping",
    }
}
