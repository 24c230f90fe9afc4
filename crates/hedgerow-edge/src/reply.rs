//! The head of an origin's response as the client gets it (HP-166, HP-164, HP-160, HP-167).

use std::io::Write as _;

use crate::decide::About;
use crate::forward::{field, is_named};
use crate::guard::{Framing, Version};
use crate::names::Known;
use crate::profile::HeaderProfile;
use crate::response::ResponseHead;

/// How the body of a response is sent to a client of HTTP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// With its length, or not at all.
    AsDeclared,
    /// In chunks.
    Chunked,
    /// Up to the end of the connection, to clients that know no chunks.
    UntilClose,
}

impl Sent {
    /// How a response is sent to a client of this version.
    pub(crate) const fn of(framing: Framing, version: Version) -> Self {
        match (framing, version) {
            (Framing::None | Framing::Length(_), _) => Self::AsDeclared,
            (_, Version::Http10) => Self::UntilClose,
            _ => Self::Chunked,
        }
    }
}

/// Fields of a response that are passed on.
pub(crate) fn passed(head: &ResponseHead) -> impl Iterator<Item = (&[u8], &[u8], Known)> + Clone {
    let names_fields = head.names_fields;
    head.fields().filter(move |(name, _, known)| {
        let is_of_connection = matches!(
            known,
            Known::Connection
                | Known::HopByHop
                | Known::Upgrade
                | Known::TransferEncoding
                | Known::ContentLength
                | Known::Reference
        );
        let is_named = names_fields && is_named(name, head.fields());
        !(is_of_connection || is_named)
    })
}

/// Writes it. `cookies` are values of `Set-Cookie`.
pub(crate) fn write(
    out: &mut Vec<u8>,
    head: &ResponseHead,
    sent: Sent,
    profile: HeaderProfile,
    about: &About,
    cookies: &[String],
    closes: bool,
) {
    // Writing to memory does not fail.
    let _ = write!(out, "HTTP/1.1 {} ", head.status);
    out.extend_from_slice(head.reason());
    out.extend_from_slice(b"\r\n");
    for (name, value, _) in passed(head) {
        field(out, name, value);
    }
    let names = profile.names();
    field(out, names.reference.as_bytes(), about.reference.as_bytes());
    for cookie in cookies {
        field(out, b"Set-Cookie", cookie.as_bytes());
    }
    if about.shows_details {
        let _ = write!(out, "{}: {}\r\n", names.origin_status, head.status);
    }
    match sent {
        Sent::AsDeclared => {
            if let Some(length) = head
                .declared_length()
                .filter(|_| !matches!(head.status, 101 | 204))
            {
                let _ = write!(out, "Content-Length: {length}\r\n");
            }
        }
        Sent::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Sent::UntilClose => {}
    }
    if head.status == 101 {
        out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
    } else if closes {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
