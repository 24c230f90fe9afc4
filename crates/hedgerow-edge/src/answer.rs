//! Answers that the edge makes itself (HP-175, HP-177): short, in JSON, with the reference and the reason, and without any name
//! or address of an origin.

use std::io::Write as _;
use std::time::Duration;

use hedgerow_origin::outcome::Reason;
use hedgerow_origin::snapshot::Refused;

use crate::guard::Refusal;

/// Why the edge answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Own {
    pub status: u16,
    pub code: &'static str,
    pub message: &'static str,
    /// When it is worth asking again.
    pub retry_after: Option<Duration>,
}

impl Own {
    const fn new(status: u16, code: &'static str, message: &'static str) -> Self {
        Self {
            status,
            code,
            message,
            retry_after: None,
        }
    }

    pub(crate) const fn refused(refusal: Refusal) -> Self {
        Self::new(refusal.status(), refusal.code(), refusal.message())
    }

    pub(crate) const fn no_route(status: u16) -> Self {
        Self::new(status, "no_route", "no route has this host and path")
    }

    pub(crate) const BAD_PATH: Self = Self::new(
        400,
        "bad_request",
        "the request's path is not validly encoded",
    );
    pub(crate) const BAD_METHOD: Self =
        Self::new(400, "bad_request", "the request's method is not forwarded");
    pub(crate) const LATE: Self =
        Self::new(408, "client_timeout", "the request did not come in time");
    pub(crate) const BODY_TOO_LARGE: Self =
        Self::new(413, "body_too_large", "the request's body is too large");
    pub(crate) const LOOP: Self = Self::new(508, "loop", "the request has passed too many edges");
    pub(crate) const OVERLOADED: Self = Self {
        retry_after: Some(Duration::from_secs(1)),
        ..Self::new(503, "overloaded", "there are too many requests at a time")
    };
    pub(crate) const NO_ORIGIN: Self = Self {
        retry_after: Some(Duration::from_secs(5)),
        ..Self::new(503, "no_origin", "there is nothing that could answer")
    };

    /// Nothing could be chosen. `interval` is that of the group's probes.
    pub(crate) const fn unchosen(refused: Refused, interval: Duration) -> Self {
        Self {
            retry_after: Some(interval),
            ..Self::new(
                503,
                refused.code(),
                "there is nothing that could answer now",
            )
        }
    }

    /// No origin gave a usable answer.
    pub(crate) const fn failed(reason: Reason) -> Self {
        match reason {
            Reason::ConnectTimeout | Reason::DnsTimeout => Self::new(
                504,
                "connect_timeout",
                "what could answer was not reached in time",
            ),
            Reason::Timeout => Self::new(504, "timeout", "there was no answer in time"),
            reason => Self::new(502, reason.as_str(), "there was no usable answer"),
        }
    }

    /// The body.
    pub(crate) fn body(&self, reference: &str) -> String {
        format!(
            "{{\"error\":{{\"code\":\"{}\",\"message\":\"{}\",\"reference\":\"{reference}\"}}}}\n",
            self.code, self.message
        )
    }

    /// Writes it for HTTP/1. `fields` are whole lines.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        reference: &str,
        is_head: bool,
        fields: &[(&str, &str)],
        closes: bool,
    ) {
        let body = self.body(reference);
        // Writing to memory does not fail.
        let _ = write!(
            out,
            "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            self.status,
            phrase(self.status),
            body.len()
        );
        if let Some(after) = self.retry_after {
            let _ = write!(out, "Retry-After: {}\r\n", after.as_secs().max(1));
        }
        for (name, value) in fields {
            let _ = write!(out, "{name}: {value}\r\n");
        }
        out.extend_from_slice(if closes {
            b"Connection: close\r\n\r\n"
        } else {
            b"\r\n"
        });
        if !is_head {
            out.extend_from_slice(body.as_bytes());
        }
    }
}

/// The reason phrase of a status.
pub(crate) fn phrase(status: u16) -> &'static str {
    let known = http::StatusCode::from_u16(status).ok();
    known
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Unknown")
}
