//! Errors of the admin API, with a hint of what to do.

use std::time::Duration;

use axum::response::{IntoResponse, Response as AxumResponse};
use hedgerow_core::name::NameError;
use hedgerow_core::spec::{SpecError, UNSUPPORTED_MEMBER};
use hedgerow_delivery::command::CommandError;
use hedgerow_origin::settings::{Problem, Refusal};
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use super::{SOON, shorten};
use crate::access::{Grant, Right};
use crate::apply::{Applied, Fault};
use crate::body::BodyError;
use crate::guard::Foreign;
use crate::state::Unavailable;
use crate::tokens::TokenError;

/// The code of a change of what somebody changed meanwhile.
const CHANGED: &str = "Changed";

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

    /// 400: an origin group or a route that is not accepted, with all codes at once (HP-005).
    pub fn refusal(what: &str, refusal: &Refusal) -> Self {
        let problems = refusal.problems();
        let detail = |problem: &Problem| json!({ "code": problem.code.as_str(), "target": problem.field, "message": problem.message });
        let first = problems.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        let message = match problems.len() {
            0 | 1 => format!("the {what} is not accepted: {first}"),
            count => format!("the {what} has {count} settings that are wrong; the first: {first}"),
        };
        Self {
            details: problems.iter().map(detail).collect(),
            ..Self::invalid(
                message,
                "correct what the details name; nothing was changed",
            )
        }
    }

    /// 409: declarations that were right, of which only some could be made.
    pub fn incomplete(done: &[Applied], failed: &[Fault], warnings: &[Fault]) -> Self {
        let warning = |fault: &Fault| json!({ "code": "Warning", "target": fault.path, "message": fault.message });
        let failed_one = |fault: &Fault| json!({ "code": "NotApplied", "target": fault.path, "message": fault.message });
        let made = |applied: &Applied| json!({ "code": "Applied", "message": applied.told() });
        let (count, all) = (failed.len(), failed.len() + done.len());
        let details = failed.iter().map(failed_one);
        let details = details.chain(warnings.iter().map(warning));
        let details = details.chain(done.iter().map(made));
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

    /// 415: the body is coded in a way in which none is taken.
    pub fn coding(coding: &str) -> Self {
        let message = format!(
            "the body's Content-Encoding \"{}\" is not supported",
            shorten(coding)
        );
        let hint = "send it without one";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, "UnsupportedEncoding", message, hint)
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
        Self::none("topic", name)
    }

    /// 404: there is no such thing, or none that the bearer of the token reaches.
    pub fn none(what: &'static str, name: &str) -> Self {
        CommandError::NotFound {
            what,
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
            CommandError::ReplayLimit(message) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "LimitReached",
                message,
                "wait for one, or cancel one: `hedgerow dead-letter replays` lists them, and --cancel ID ends one",
            ),
            CommandError::FilterLimit(message) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "LimitReached",
                message,
                "a filter goes when its events are delivered: resume the subscription and let it catch up, or purge it",
            ),
            CommandError::Busy(message) => Self {
                retry_after: Some(SOON),
                ..Self::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "Busy",
                    message,
                    "ask again in a moment",
                )
            },
            CommandError::Conflict(message) => Self::new(
                StatusCode::CONFLICT,
                "Conflict",
                message,
                "nothing was changed",
            ),
            CommandError::Forgotten(message) => Self::new(
                StatusCode::GONE,
                "EventForgotten",
                message,
                "publish it again; an event is kept while it is owed to somebody, and a while longer",
            ),
            CommandError::Unavailable => {
                Self::unavailable("the server is stopping, or its store is being opened again")
            }
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
            TokenError::First => (StatusCode::CONFLICT, "Conflict", "name another token"),
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
        } else if error.message == UNSUPPORTED_MEMBER {
            format!(
                "leave \"{}\" out: this version has no such member",
                error.field
            )
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
            BodyError::Unframed => Self::invalid(
                "the body's chunks cannot be read, or their extensions or trailers are longer than 16 KiB",
                "mend the client, or send the body with a Content-Length",
            ),
        }
    }
}

impl From<Foreign> for ApiError {
    fn from(foreign: Foreign) -> Self {
        let (message, hint) = foreign.told();
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
