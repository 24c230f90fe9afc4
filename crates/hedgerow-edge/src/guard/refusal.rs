//! Why a request is refused before anybody looks for a route (HP-168, HP-175, HP-183).

use std::fmt;

/// Why a request is refused. The connection is closed with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The first line is no method, target and `HTTP/1.0` or `HTTP/1.1` with one space between them.
    RequestLine,
    /// The target is neither a path nor a URL of the host that `Host` names.
    Target,
    /// A line ends without CR, or a CR stands alone.
    BareLineEnd,
    /// A field goes on in the next line.
    Folded,
    /// There is something between a field's name and its colon, or the name is none.
    FieldName,
    /// A control character in a value.
    FieldValue,
    /// No `Host` in HTTP/1.1, more than one, or one that is none.
    Host,
    /// Both `Content-Length` and `Transfer-Encoding`.
    BothFramings,
    /// Several lengths, or one that is no plain number.
    ContentLength,
    /// Another coding than one final `chunked`, or any in HTTP/1.0.
    TransferEncoding,
    /// A name that some take for one of the body's framing.
    Disguised,
    /// The size of a chunk, its line, or its end.
    Chunk,
    /// The trailer section.
    Trailer,
    /// The target or its query is too long.
    UriTooLong,
    /// The head is too long, or has too many fields.
    HeadTooLarge,
}

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::UriTooLong => 414,
            Self::HeadTooLarge => 431,
            _ => 400,
        }
    }

    /// The reason code of HP-175.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::UriTooLong => "uri_too_long",
            Self::HeadTooLarge => "header_too_large",
            _ => "bad_request",
        }
    }

    /// What is wrong.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::RequestLine => "the request line is not one of HTTP/1.1",
            Self::Target => "the request's target is not a path, or another host's",
            Self::BareLineEnd => "a line of the request does not end with CR LF",
            Self::Folded => "a header is folded into a second line",
            Self::FieldName => "the name of a header is not valid",
            Self::FieldValue => "the value of a header is not valid",
            Self::Host => "the request needs one header Host with a host in it",
            Self::BothFramings => "the request has both Content-Length and Transfer-Encoding",
            Self::ContentLength => "the request's Content-Length is not one number",
            Self::TransferEncoding => "the request's Transfer-Encoding is not chunked alone",
            Self::Disguised => "the name of a header could be taken for another one",
            Self::Chunk => "the chunked body is not valid",
            Self::Trailer => "the trailer of the body is not valid",
            Self::UriTooLong => "the request's URL or query is too long",
            Self::HeadTooLarge => "the request's head is too large",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Refusal {}
