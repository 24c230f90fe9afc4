//! The only place where an error becomes a status and a code.
//!
//! The publish route answers in the vendor's shape ([`Refusal`]), everything else in ours ([`ApiError`]). Codes are stable
//! and never reused.

use std::time::Duration;

use axum::response::{IntoResponse, Response as AxumResponse};
use bytes::Bytes;
use hedgerow_core::name::NameError;
use hedgerow_core::spec::SpecError;
use hedgerow_delivery::command::CommandError;
use hedgerow_dialect::event_grid::{self, ErrorCode, PublishError, Report};
use hedgerow_dialect::sas::SasError;
use hedgerow_store::StoreError;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::access::{Grant, Right};
use crate::apply::{Applied, Fault};
use crate::body::BodyError;
use crate::guard::Foreign;
use crate::publish::credential::KeyRefused;
use crate::state::{Phase, Unavailable};
use crate::tokens::TokenError;

/// How long publishers wait while the store is full: room is made by deliveries and cleaning, which takes a while.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(10);
/// How long they wait for what is over in a moment.
const SOON: Duration = Duration::from_secs(1);
/// The code of a change of what somebody changed meanwhile.
const CHANGED: &str = "Changed";
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
            BodyError::Broken => {
                let message = "The body ended before its end.";
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

/// An error of the admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: String,
    /// Further faults, in the form of `details`.
    details: Vec<Value>,
    retry_after: Option<Duration>,
}

impl ApiError {
    fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (message, hint) = (message.into(), hint.into());
        Self {
            status,
            code,
            message,
            hint,
            details: Vec::new(),
            retry_after: None,
        }
    }

    /// Whether a change met something that was changed meanwhile: it can be made anew.
    pub fn is_changed(&self) -> bool {
        self.code == CHANGED
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// 400: declarations that belong together and are wrong in these places.
    pub fn faults(faults: &[Fault]) -> Self {
        let count = faults.len();
        let noun = if count == 1 {
            "member is"
        } else {
            "members are"
        };
        let detail = |fault: &Fault| json!({ "code": "InvalidInput", "target": fault.path, "message": fault.message });
        Self {
            details: faults.iter().map(detail).collect(),
            ..Self::invalid(
                format!("{count} {noun} wrong; nothing was declared"),
                "correct what the details name, and apply all of it again",
            )
        }
    }

    /// 409: declarations that were right, of which only some could be made.
    pub fn incomplete(done: &[Applied], failed: &[Fault]) -> Self {
        let failed_one = |fault: &Fault| json!({ "code": "NotApplied", "target": fault.path, "message": fault.message });
        let made = |applied: &Applied| json!({ "code": "Applied", "message": applied.told() });
        let (count, all) = (failed.len(), failed.len() + done.len());
        let details = failed.iter().map(failed_one).chain(done.iter().map(made));
        Self {
            details: details.collect(),
            ..Self::new(
                StatusCode::CONFLICT,
                "Incomplete",
                format!("{count} of {all} could not be declared, or are not in force"),
                "mend what the details name, and apply all of it again: what is in force stays as it is",
            )
        }
    }

    /// 503.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(SOON),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Unavailable",
                message,
                "try again in a moment",
            )
        }
    }

    /// 413.
    pub fn body_too_large(bytes_max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "BodyTooLarge",
            format!("the body is larger than {bytes_max} bytes"),
            "send a smaller one",
        )
    }

    /// 400: something of the request, named in the message.
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidInput", message, hint)
    }

    /// 400: an endpoint was asked and did not consent.
    pub fn not_validated(message: impl Into<String>, hint: impl Into<String>) -> Self {
        let status = StatusCode::BAD_REQUEST;
        Self::new(status, "EndpointValidationFailed", message, hint)
    }

    /// 404: there is no such path.
    pub fn no_route(path: &str) -> Self {
        let message = format!("there is nothing at \"{}\"", shorten(path));
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            message,
            "the admin API is below /api/v1",
        )
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "the token is missing, wrong or expired",
            "send \"Authorization: Bearer TOKEN\"; the first token is in the file admin-token of the data directory",
        )
    }

    /// 400: a member of the body.
    pub fn member(name: &str, message: &str) -> Self {
        SpecError {
            field: shorten(name).to_owned(),
            message: message.to_owned(),
        }
        .into()
    }

    /// 403: the token does not have a right.
    pub fn without_right(grant: &Grant, right: Right) -> Self {
        let message = format!(
            "the token \"{}\" does not have the right \"{right}\"",
            grant.name
        );
        let hint = "use a token that has it; `hedgerow token list` shows them";
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, hint)
    }

    /// 403: what is no topic's, asked for with a token of some topics.
    pub fn of_the_grid(grant: &Grant) -> Self {
        let message = format!(
            "the token \"{}\" holds for topics that begin with \"{}\", and this concerns all",
            grant.name,
            grant.prefix.as_str()
        );
        let hint = "use a token without a topic prefix";
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, hint)
    }

    /// 403: a topic cannot be made with this token, whether there is one or not.
    pub fn beyond_prefix(grant: &Grant) -> Self {
        let prefix = grant.prefix.as_str();
        let message = format!(
            "the token \"{}\" holds for topics that begin with \"{prefix}\" only",
            grant.name
        );
        let hint = format!("let the name begin with \"{prefix}\"");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, hint)
    }

    /// 404: there is no such topic, or none for this token.
    pub fn no_topic(name: &str) -> Self {
        CommandError::NotFound {
            what: "topic",
            name: name.to_owned(),
        }
        .into()
    }

    /// 500: a task of ours ended without a result.
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            "the server made a mistake",
            "please report it with the log",
        )
    }

    /// 503: all requests of the admin API at a time are taken (design D6).
    pub fn beyond_share() -> Self {
        let message = "too many requests of the admin API are under way";
        let hint = "try again in a moment";
        Self {
            retry_after: Some(SOON),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "Unavailable",
                message,
                hint,
            )
        }
    }

    /// 405; the router adds `Allow`.
    pub fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "this path does not take this method",
            "the header Allow names those that it takes",
        )
    }
}

impl From<Unavailable> for ApiError {
    fn from(unavailable: Unavailable) -> Self {
        Self::unavailable(unavailable.to_string())
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NotFound { what, name } => Self::new(
                StatusCode::NOT_FOUND,
                "NotFound",
                format!("{what} \"{}\" does not exist", shorten(&name)),
                "list what there is, or create it first",
            ),
            CommandError::Invalid(error) => error.into(),
            error @ CommandError::Changed { .. } => Self::new(
                StatusCode::CONFLICT,
                CHANGED,
                error.to_string(),
                "look at it, and change it again",
            ),
            CommandError::Limit(message) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "LimitReached",
                message,
                "delete what is not used any more",
            ),
            CommandError::Conflict(message) => Self::new(
                StatusCode::CONFLICT,
                "Conflict",
                message,
                "nothing was changed",
            ),
            CommandError::Unavailable => Unavailable(Phase::Recovering).into(),
        }
    }
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        let message = error.to_string();
        let (status, code, hint) = match error {
            TokenError::Exists(_) => (
                StatusCode::CONFLICT,
                "Conflict",
                "delete it first, or choose another name; its secret cannot be shown again",
            ),
            TokenError::First => (StatusCode::CONFLICT, "Conflict", "delete other tokens only"),
            TokenError::NotFound(_) => (
                StatusCode::NOT_FOUND,
                "NotFound",
                "list what there is, or create it first",
            ),
            TokenError::Limit(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "LimitReached",
                "delete what is not used any more",
            ),
            TokenError::File(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "StorageFailed",
                "nothing was changed; look at the disk of the data directory",
            ),
        };
        Self::new(status, code, message, hint)
    }
}

impl From<SpecError> for ApiError {
    fn from(error: SpecError) -> Self {
        let hint = if error.field.is_empty() {
            "send one JSON object".to_owned()
        } else {
            format!("correct \"{}\"", error.field)
        };
        Self::invalid(error.to_string(), hint)
    }
}

impl From<NameError> for ApiError {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string(), "choose another name")
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::body_too_large(hedgerow_core::limits::SPEC_BYTES_MAX),
            BodyError::TimedOut => Self::new(
                StatusCode::REQUEST_TIMEOUT,
                "BodyTimedOut",
                "the body did not come in time",
                "send it again",
            ),
            BodyError::Broken => Self::invalid("the body ended before its end", "send it again"),
        }
    }
}

impl From<Foreign> for ApiError {
    fn from(foreign: Foreign) -> Self {
        let (message, hint) = match foreign {
            Foreign::Host => (
                "this server answers on this machine only, and the Host of the request is another one",
                "call it as localhost or 127.0.0.1",
            ),
            Foreign::Origin => (
                "this server does not answer pages of other origins",
                "call it from the command line, or from its own pages",
            ),
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, hint)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> AxumResponse {
        let mut body = json!({ "error": {
            "code": self.code, "message": self.message, "hint": self.hint,
        }});
        if !self.details.is_empty() {
            body["error"]["details"] = Value::Array(self.details);
        }
        let mut response = (self.status, axum::Json(body)).into_response();
        if let Some(wait) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

const fn sentence(phase: Phase) -> &'static str {
    match phase {
        Phase::Serving | Phase::Recovering => "The store is being opened",
        Phase::Stopping => "The server is stopping",
    }
}

/// A text of the request, short enough to repeat.
fn shorten(text: &str) -> &str {
    hedgerow_core::text::beginning(text, hedgerow_core::limits::NAME_IN_MESSAGE_BYTES_MAX)
}
