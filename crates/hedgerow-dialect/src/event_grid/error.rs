//! Why a publish request was refused, and the vendor's body that says so (ED-064 to ED-067).

use std::time::Duration;

use hedgerow_core::limits;
use hedgerow_core::time::Timestamp;
use http::StatusCode;
use serde::Serialize;

/// The content type of error bodies (ED-065).
pub const CONTENT_TYPE: &str = "application/json; charset=utf-8";

/// `error.code`: the closed set of ED-066.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// 400: no valid events.
    BadRequest,
    /// 401: no valid credential.
    Unauthorized,
    /// 403: a valid credential, and still not allowed.
    Forbidden,
    /// 404: no such topic or path.
    NotFound,
    /// 413: too large, or too many events.
    RequestEntityTooLarge,
    /// 429: too fast.
    TooManyRequests,
    /// 500: a fault of ours.
    InternalServerError,
    /// 503: cannot be stored now.
    ServiceUnavailable,
}

impl ErrorCode {
    /// The name in the body.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalServerError => "InternalServerError",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// The HTTP status that goes with it.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::RequestEntityTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::InternalServerError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// A refused publish request. Nothing of it was stored (ED-041).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct PublishError {
    /// What kind of refusal.
    pub code: ErrorCode,
    /// What is wrong, for people.
    pub message: String,
    /// Faults of the JSON, at most [`limits::INVALID_EVENTS_LISTED_MAX`].
    pub details: Vec<Detail>,
    /// For the `Retry-After` header; only with `TooManyRequests` and `ServiceUnavailable`. At least a second, because
    /// clients take 0 for none (AZ-022).
    pub retry_after: Option<Duration>,
    /// How many events the request has, if it could be read; else 0 (ED-299).
    pub events: usize,
}

/// One fault of the JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The event's place in the request, from 0; `None` if the body as a whole is meant.
    pub index: Option<usize>,
    /// What is wrong with it.
    pub message: String,
}

impl Detail {
    /// What is wrong with one event.
    pub(crate) fn of_event(index: usize, fault: &str) -> Self {
        Self {
            index: Some(index),
            message: format!("Event at index {index}: {fault}."),
        }
    }
}

/// What makes an answer findable: it stands in the message and in the logs (ED-067).
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The value of `x-ms-request-id`, a UUID.
    pub request_id: &'a str,
    /// Tells nodes apart.
    pub number: u32,
    /// When the request was answered.
    pub time: Timestamp,
}

impl PublishError {
    /// A refusal without details.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
            retry_after: None,
            events: 0,
        }
    }

    /// The same of a request with so many events.
    pub(crate) fn of(mut self, events: usize) -> Self {
        self.events = events;
        self
    }

    /// A refusal that asks to come again after `wait`.
    #[must_use]
    pub fn retry_after(code: ErrorCode, message: impl Into<String>, wait: Duration) -> Self {
        let retry_after = Some(wait.max(Duration::from_secs(1)));
        Self {
            retry_after,
            ..Self::new(code, message)
        }
    }

    /// The body as a whole is not what the topic takes.
    pub(crate) fn body(message: impl Into<String>) -> Self {
        let message = message.into();
        let detail = Detail {
            index: None,
            message: message.clone(),
        };
        Self {
            details: vec![detail],
            ..Self::new(ErrorCode::BadRequest, message)
        }
    }

    /// Some events are invalid. `details` are the first of `invalid` ones out of `total`.
    pub(crate) fn events(schema: &str, details: Vec<Detail>, invalid: usize, total: usize) -> Self {
        let message = format!(
            "{invalid} of {total} events do not conform to the '{schema}' schema; nothing was stored."
        );
        Self {
            details,
            ..Self::new(ErrorCode::BadRequest, message)
        }
    }

    /// The request is over a limit.
    fn too_large(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::RequestEntityTooLarge, message)
    }

    /// The request's body is over its limit. For the server, which stops reading there and may not know how large it is.
    #[must_use]
    pub fn body_too_large(bytes: Option<u64>) -> Self {
        let max = limits::PUBLISH_BODY_BYTES_MAX;
        Self::too_large(match bytes {
            Some(bytes) => {
                format!("The request has {bytes} bytes; the maximum is {max} bytes.")
            }
            None => format!("The request has more than the maximum of {max} bytes."),
        })
    }

    /// The request has more events than one may have.
    pub(crate) fn too_many() -> Self {
        let max = limits::EVENTS_PER_REQUEST_MAX;
        Self::too_large(format!(
            "The request has more than the maximum of {max} events; the first that is too many is the one at index {max}."
        ))
    }

    /// One event is over its limit.
    pub(crate) fn event_too_large(index: usize, bytes: usize) -> Self {
        let max = limits::EVENT_BYTES_MAX;
        Self::too_large(format!(
            "The event at index {index} has {bytes} bytes; the maximum is {max} bytes."
        ))
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.code.status()
    }

    /// The vendor's error body (ED-065), with the report id in the message (ED-067).
    #[must_use]
    #[allow(clippy::missing_panics_doc)] // It cannot.
    pub fn to_body(&self, report: &Report<'_>) -> Vec<u8> {
        let detail = |code, message| DetailBody {
            code,
            message: with_report(message, report),
        };
        let faults = self.details.iter();
        let mut details: Vec<_> = faults
            .map(|fault| detail("InputJsonInvalid", &fault.message))
            .collect();
        if details.is_empty() {
            // What is no fault of the JSON has one detail: itself, as in bodies of the vendor's.
            details.push(detail(self.code.as_str(), &self.message));
        }
        let body = Body {
            error: ErrorBody {
                code: self.code.as_str(),
                message: with_report(&self.message, report),
                details,
            },
        };
        serde_json::to_vec(&body).expect("texts in lists are always JSON")
    }
}

#[derive(Serialize)]
struct Body {
    error: ErrorBody,
}

#[derive(Serialize)]
struct ErrorBody {
    code: &'static str,
    message: String,
    details: Vec<DetailBody>,
}

#[derive(Serialize)]
struct DetailBody {
    code: &'static str,
    message: String,
}

/// The vendor's form: `Report '<uuid>:<n>:<M/d/yyyy h:mm:ss tt> (UTC)'`.
fn with_report(message: &str, report: &Report<'_>) -> String {
    let millis = i64::try_from(report.time.as_millis()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    let time = time.strftime("%-m/%-d/%Y %-I:%M:%S %p");
    let Report {
        request_id, number, ..
    } = report;
    format!("{message} Report '{request_id}:{number}:{time} (UTC)'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_the_vendors_form() {
        let error = PublishError::body("Unexpected \"x\".");
        let report = Report {
            request_id: "0f8fad5b-d9cb-469f-a165-70867728950e",
            number: 3,
            time: Timestamp::from_millis(1_893_553_445_006),
        };
        let body: serde_json::Value = serde_json::from_slice(&error.to_body(&report)).unwrap();
        let message = "Unexpected \"x\". \
            Report '0f8fad5b-d9cb-469f-a165-70867728950e:3:1/2/2030 3:04:05 AM (UTC)'";
        let expected = serde_json::json!({ "error": {
            "code": "BadRequest",
            "message": message,
            "details": [{ "code": "InputJsonInvalid", "message": message }],
        }});
        assert_eq!(body, expected);
    }

    /// ED-065: details are never missing.
    #[test]
    fn what_is_no_fault_of_the_json_has_itself_for_a_detail() {
        let report = Report {
            request_id: "0f8fad5b-d9cb-469f-a165-70867728950e",
            number: 0,
            time: Timestamp::from_millis(0),
        };
        for (error, code) in [
            (
                PublishError::new(ErrorCode::Unauthorized, "No."),
                "Unauthorized",
            ),
            (PublishError::too_many(), "RequestEntityTooLarge"),
        ] {
            let body: serde_json::Value = serde_json::from_slice(&error.to_body(&report)).unwrap();
            let error = &body["error"];
            assert_eq!(error["code"], code);
            let detail = serde_json::json!([{ "code": code, "message": error["message"] }]);
            assert_eq!(error["details"], detail);
        }
    }

    #[test]
    fn a_wait_is_never_shorter_than_a_second() {
        let wait = Duration::from_millis(200);
        let error = PublishError::retry_after(ErrorCode::ServiceUnavailable, "Full.", wait);
        assert_eq!(error.retry_after, Some(Duration::from_secs(1)));
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
