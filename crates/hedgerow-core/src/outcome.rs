//! What an answer or a failure means: the outcome of an attempt, and whether the delivery goes on.
//!
//! Decides sections 4.1, 4.3, 4.4 and 8.4 of the delivery specification (ED-174, ED-182 to ED-190). Does not decide
//! *when* the next attempt is; that is [`crate::retry`].

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// What a subscription delivers to, as far as the rule table cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationKind {
    /// Kind W: an endpoint of a customer.
    Webhook,
    /// Kind R: a resource that a cloud manages.
    Managed,
}

/// What an attempt met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// A complete response head, in time.
    Response {
        /// The HTTP status.
        status: u16,
        /// The `Retry-After` header as a time from F on (see [`parse_retry_after`]); `None` if there was none, or an
        /// invalid one.
        retry_after: Option<Duration>,
    },
    /// No response.
    Failure(Failure),
}

/// Why there was no response, or what stands for a status where there is none. Tables of cases name them: `token_unavailable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No response in time.
    Timeout,
    /// The endpoint's name was not found.
    Dns,
    /// No connection.
    Connect,
    /// The connection broke.
    Reset,
    /// TLS failed.
    Tls,
    /// The answer was no HTTP.
    Protocol,
    /// The entity is disabled for sending.
    EntityDisabled,
    /// The entity's quota is used up.
    EntityQuota,
    /// The server throttles.
    ServerThrottling,
    /// The entity does not take events of this size.
    MessageTooLarge,
    /// A session entity, and the event has no session id.
    SessionMissing,
    /// The function has no event trigger.
    FunctionWithoutTrigger,
    /// A relay without a listener (ED-290).
    NoListener,
    /// No token could be obtained: the attempt was not started (ED-295).
    TokenUnavailable,
    /// The origin group has no enabled origin: the attempt was not started (HP-094).
    NoOrigin,
}

impl Failure {
    /// Says whether there was an attempt at all. What was not started is counted nowhere and goes on with
    /// [`crate::retry::after_no_start`] (ED-315).
    #[must_use]
    pub const fn counts(self) -> bool {
        !matches!(self, Self::TokenUnavailable | Self::NoOrigin)
    }
}

/// What an attempt's end means for its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered.
    Success,
    /// Failed; another attempt is made if the limits allow it ([`crate::retry::after_failure`]).
    Retry {
        /// What was met.
        outcome: Outcome,
        /// The HTTP status, 0 for none.
        status: u16,
        /// The least time between G (ED-195) and the next attempt.
        floor: Duration,
        /// The least time between F and the next attempt, if the endpoint asked for one.
        retry_after: Option<Duration>,
    },
    /// Failed for good.
    Final {
        /// What was met.
        outcome: Outcome,
        /// The HTTP status, 0 for none.
        status: u16,
        /// Why it is given up.
        reason: DeadLetterReason,
    },
}

impl Verdict {
    /// What the attempt met, `None` for a success.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Success => None,
            Self::Retry { outcome, .. } | Self::Final { outcome, .. } => Some(*outcome),
        }
    }
}

impl Met {
    /// The HTTP status, 0 for none.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Response { status, .. } => *status,
            Self::Failure(_) => 0,
        }
    }

    /// Whether the endpoint took the event (ED-174).
    #[must_use]
    pub const fn is_success(&self) -> bool {
        is_success(self.status())
    }
}

/// The least waits of the rule table (section 4.3), and the cap of `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floors {
    /// Every failure that has no floor of its own.
    pub other: Duration,
    /// 401, where it is retried.
    pub unauthorized: Duration,
    /// 404, and a relay without a listener.
    pub not_found: Duration,
    /// 408.
    pub request_timeout: Duration,
    /// 429 without a longer `Retry-After`.
    pub too_many_requests: Duration,
    /// 503 without a longer `Retry-After`.
    pub unavailable: Duration,
    /// A function without event trigger.
    pub function_without_trigger: Duration,
    /// No token (ED-295).
    pub token_unavailable: Duration,
    /// A longer `Retry-After` is cut to this (ED-185).
    pub retry_after_max: Duration,
}

impl Default for Floors {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            other: seconds(10),
            unauthorized: seconds(300),
            not_found: seconds(300),
            request_timeout: seconds(120),
            too_many_requests: seconds(10),
            unavailable: seconds(30),
            function_without_trigger: seconds(300),
            token_unavailable: seconds(60),
            retry_after_max: seconds(6 * 3600),
        }
    }
}

/// Statuses that a subscription treats otherwise than the rule table (ED-184). Success codes are not among them; no
/// code is in both lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overrides {
    /// `retry.finalStatuses`.
    pub final_statuses: Vec<u16>,
    /// `retry.retriableStatuses`.
    pub retriable_statuses: Vec<u16>,
}

/// Says whether `status` means that the endpoint took the event (ED-174).
#[must_use]
pub const fn is_success(status: u16) -> bool {
    matches!(status, 200..=204)
}

/// Judges the end of an attempt by the rule table of section 4.3.
#[must_use]
pub fn classify(
    kind: DestinationKind,
    met: &Met,
    overrides: &Overrides,
    floors: &Floors,
) -> Verdict {
    match *met {
        Met::Response { status, .. } if is_success(status) => Verdict::Success,
        Met::Response {
            status,
            retry_after,
        } => classify_status(kind, status, retry_after, overrides, floors),
        Met::Failure(failure) => classify_failure(failure, floors),
    }
}

/// Reads a `Retry-After` header: whole seconds or an HTTP date, the date relative to `now` and zero when it has passed.
/// `None` for anything else, which is ignored (ED-185). The cap is [`classify`]'s.
#[must_use]
pub fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number beyond u64 is still a valid number, and far beyond the cap.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let millis = date.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let millis = u64::try_from(millis).unwrap_or(u64::MAX);
    Some(Timestamp::from_millis(millis).since(now))
}

fn classify_status(
    kind: DestinationKind,
    status: u16,
    retry_after: Option<Duration>,
    overrides: &Overrides,
    floors: &Floors,
) -> Verdict {
    let outcome = status_outcome(status);
    let is_final = if overrides.retriable_statuses.contains(&status) {
        false
    } else {
        overrides.final_statuses.contains(&status) || is_final_status(kind, status)
    };
    if is_final {
        return Verdict::Final {
            outcome,
            status,
            reason: status_reason(status),
        };
    }
    // Only the two statuses that say "later" are asked when (ED-185).
    let retry_after = retry_after
        .filter(|_| matches!(status, 429 | 503))
        .map(|wait| wait.min(floors.retry_after_max));
    Verdict::Retry {
        outcome,
        status,
        floor: status_floor(status, floors),
        retry_after,
    }
}

const fn status_outcome(status: u16) -> Outcome {
    match status {
        400 => Outcome::BadRequest,
        401 => Outcome::Unauthorized,
        403 => Outcome::Forbidden,
        404 => Outcome::NotFound,
        408 => Outcome::TimedOut,
        413 => Outcome::PayloadTooLarge,
        429 | 503 => Outcome::Busy,
        _ => Outcome::GenericError,
    }
}

const fn is_final_status(kind: DestinationKind, status: u16) -> bool {
    match status {
        400 | 403 | 413 => true,
        401 => matches!(kind, DestinationKind::Webhook),
        _ => false,
    }
}

/// The reason of section 8.4 for a status, whatever the kind (ED-184).
const fn status_reason(status: u16) -> DeadLetterReason {
    match status {
        400 => DeadLetterReason::UndeliverableDueToHttpBadRequest,
        401 => DeadLetterReason::UndeliverableDueToHttpUnauthorized,
        403 => DeadLetterReason::UndeliverableDueToHttpForbidden,
        413 => DeadLetterReason::UndeliverableDueToHttpRequestEntityTooLarge,
        _ => DeadLetterReason::UndeliverableDueToClientError,
    }
}

const fn status_floor(status: u16, floors: &Floors) -> Duration {
    match status {
        401 => floors.unauthorized,
        404 => floors.not_found,
        408 => floors.request_timeout,
        429 => floors.too_many_requests,
        503 => floors.unavailable,
        _ => floors.other,
    }
}

fn classify_failure(failure: Failure, floors: &Floors) -> Verdict {
    let retry = |outcome, floor| Verdict::Retry {
        outcome,
        status: 0,
        floor,
        retry_after: None,
    };
    let give_up = |outcome| Verdict::Final {
        outcome,
        status: 0,
        reason: DeadLetterReason::UndeliverableDueToClientError,
    };
    match failure {
        Failure::Timeout => retry(Outcome::TimedOut, floors.other),
        Failure::Dns => retry(Outcome::ResolutionError, floors.other),
        Failure::Connect | Failure::Reset | Failure::Tls | Failure::Protocol => {
            retry(Outcome::SocketError, floors.other)
        }
        Failure::EntityDisabled => retry(Outcome::Disabled, floors.other),
        Failure::EntityQuota => retry(Outcome::Full, floors.other),
        Failure::ServerThrottling => retry(Outcome::Busy, floors.other),
        Failure::MessageTooLarge => give_up(Outcome::PayloadTooLarge),
        Failure::SessionMissing => give_up(Outcome::SessionQueueNotSupported),
        Failure::FunctionWithoutTrigger => retry(
            Outcome::InvalidAzureFunctionDestination,
            floors.function_without_trigger,
        ),
        Failure::NoListener => retry(Outcome::NotFound, floors.not_found),
        Failure::TokenUnavailable => retry(Outcome::Unauthorized, floors.token_unavailable),
        // "Keeps its place in the retry schedule" (HP-094): no floor.
        Failure::NoOrigin => retry(Outcome::Disabled, Duration::ZERO),
    }
}

/// `lastDeliveryOutcome`: what an attempt met (section 4.4, spelled exactly so on every surface: ED-188).
///
/// Stored by variant number (postcard): the order of the variants is frozen, new ones go at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The destination does not exist.
    NotFound,
    /// The destination has receiving disabled.
    Disabled,
    /// The destination's quota is used up.
    Full,
    /// The destination did not accept our credentials.
    Unauthorized,
    /// The destination called the request malformed.
    BadRequest,
    /// No answer in time.
    TimedOut,
    /// The destination is busy.
    Busy,
    /// The event is larger than the destination allows.
    PayloadTooLarge,
    /// Not attempted, the subscription was on probation.
    Probation,
    /// The subscription was deleted, disabled or pointed elsewhere while the attempt ran (ED-189).
    Canceled,
    /// The router itself ended the attempt (ED-189).
    Aborted,
    /// Connecting, TLS or the protocol failed.
    SocketError,
    /// The name of the endpoint was not found.
    ResolutionError,
    /// The attempt has no recorded end (ED-190).
    Delivering,
    /// A session entity got an event without session id.
    SessionQueueNotSupported,
    /// The endpoint refused us.
    Forbidden,
    /// The function has no event trigger.
    InvalidAzureFunctionDestination,
    /// Any other error.
    GenericError,
}

impl Outcome {
    /// Every value, in stored order.
    pub const ALL: [Self; 18] = [
        Self::NotFound,
        Self::Disabled,
        Self::Full,
        Self::Unauthorized,
        Self::BadRequest,
        Self::TimedOut,
        Self::Busy,
        Self::PayloadTooLarge,
        Self::Probation,
        Self::Canceled,
        Self::Aborted,
        Self::SocketError,
        Self::ResolutionError,
        Self::Delivering,
        Self::SessionQueueNotSupported,
        Self::Forbidden,
        Self::InvalidAzureFunctionDestination,
        Self::GenericError,
    ];

    /// The name on every surface (ED-188).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::Disabled => "Disabled",
            Self::Full => "Full",
            Self::Unauthorized => "Unauthorized",
            Self::BadRequest => "BadRequest",
            Self::TimedOut => "TimedOut",
            Self::Busy => "Busy",
            Self::PayloadTooLarge => "PayloadTooLarge",
            Self::Probation => "Probation",
            Self::Canceled => "Canceled",
            Self::Aborted => "Aborted",
            Self::SocketError => "SocketError",
            Self::ResolutionError => "ResolutionError",
            Self::Delivering => "Delivering",
            Self::SessionQueueNotSupported => "SessionQueueNotSupported",
            Self::Forbidden => "Forbidden",
            Self::InvalidAzureFunctionDestination => "InvalidAzureFunctionDestination",
            Self::GenericError => "GenericError",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `deadLetterReason`: why a delivery was given up (section 8.4; the set is closed: ED-262).
///
/// Stored by variant number (postcard): the order of the variants is frozen, new ones go at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeadLetterReason {
    /// The attempt limit was reached.
    MaxDeliveryAttemptsExceeded,
    /// The time to live had passed when the delivery was due.
    TimeToLiveExceeded,
    /// 400.
    UndeliverableDueToHttpBadRequest,
    /// Held on probation that a client error caused.
    UndeliverableDueToProbationCausedByClientError,
    /// 401 from a webhook.
    UndeliverableDueToHttpUnauthorized,
    /// 403.
    UndeliverableDueToHttpForbidden,
    /// 413.
    UndeliverableDueToHttpRequestEntityTooLarge,
    /// Any other final failure.
    UndeliverableDueToClientError,
    /// In flight during three crashes of the router (ED-190).
    UndeliverableDueToRepeatedCrash,
}

impl DeadLetterReason {
    /// Every value, in stored order.
    pub const ALL: [Self; 9] = [
        Self::MaxDeliveryAttemptsExceeded,
        Self::TimeToLiveExceeded,
        Self::UndeliverableDueToHttpBadRequest,
        Self::UndeliverableDueToProbationCausedByClientError,
        Self::UndeliverableDueToHttpUnauthorized,
        Self::UndeliverableDueToHttpForbidden,
        Self::UndeliverableDueToHttpRequestEntityTooLarge,
        Self::UndeliverableDueToClientError,
        Self::UndeliverableDueToRepeatedCrash,
    ];

    /// The name on every surface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxDeliveryAttemptsExceeded => "MaxDeliveryAttemptsExceeded",
            Self::TimeToLiveExceeded => "TimeToLiveExceeded",
            Self::UndeliverableDueToHttpBadRequest => "UndeliverableDueToHttpBadRequest",
            Self::UndeliverableDueToProbationCausedByClientError => {
                "UndeliverableDueToProbationCausedByClientError"
            }
            Self::UndeliverableDueToHttpUnauthorized => "UndeliverableDueToHttpUnauthorized",
            Self::UndeliverableDueToHttpForbidden => "UndeliverableDueToHttpForbidden",
            Self::UndeliverableDueToHttpRequestEntityTooLarge => {
                "UndeliverableDueToHttpRequestEntityTooLarge"
            }
            Self::UndeliverableDueToClientError => "UndeliverableDueToClientError",
            Self::UndeliverableDueToRepeatedCrash => "UndeliverableDueToRepeatedCrash",
        }
    }
}

impl fmt::Display for DeadLetterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
