//! The head of a request, read strictly (HP-168): what two readers could take for different things is refused.

use bytes::BytesMut;

use crate::limits;
use crate::names::Known;

use super::body::Framing;
use super::fields::{Field, LineEnd, Span, decimal, is_token, members, read_fields};
use super::refusal::Refusal;

/// A version of HTTP that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2.
    Http2,
}

impl Version {
    /// As `Via` names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
        }
    }
}

/// The head of a request. It is used again for the next one.
#[allow(clippy::struct_excessive_bools)] // Each is what the head says about something else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    pub(crate) bytes: BytesMut,
    method: Span,
    path: Span,
    query: Option<Span>,
    host: Span,
    fields: Vec<Field>,
    /// Its version.
    pub version: Version,
    /// How its body is framed.
    pub framing: Framing,
    /// Whether the client wants another request on the connection.
    pub keeps_alive: bool,
    /// Whether it waits for `100 Continue` before its body.
    pub expects_continue: bool,
    /// Whether it asks for a WebSocket (HP-181).
    pub wants_websocket: bool,
    /// Whether `Connection` names fields that are no matter of the edge.
    pub names_fields: bool,
}

impl Head {
    /// The method.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.method.of(&self.bytes)
    }

    /// The raw path.
    #[must_use]
    pub fn path(&self) -> &str {
        text(self.path.of(&self.bytes))
    }

    /// The raw query without `?`, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.map(|query| text(query.of(&self.bytes)))
    }

    /// What `Host` says; empty where there is none.
    #[must_use]
    pub fn host(&self) -> &str {
        text(self.host.of(&self.bytes))
    }

    /// Its fields: names, values and what they mean.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8], Known)> + Clone {
        let field = |field: &Field| {
            let (name, value) = (field.name.of(&self.bytes), field.value.of(&self.bytes));
            (name, value, field.known)
        };
        self.fields.iter().map(field)
    }

    /// The value of the first field that means this.
    #[must_use]
    pub fn first(&self, known: Known) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        let found = fields.find(|field| field.known == known)?;
        Some(found.value.of(&self.bytes))
    }

    /// Reads a whole head.
    pub(crate) fn read(&mut self, bytes: BytesMut) -> Result<(), Refusal> {
        let line = request_line(&bytes)?;
        let mut fields = std::mem::take(&mut self.fields);
        let read = read_fields(
            &bytes,
            line.ends,
            LineEnd::Strict,
            limits::FIELDS_MAX,
            &mut fields,
        );
        self.fields = fields;
        read?;
        self.bytes = bytes;
        self.method = line.method;
        self.version = line.version;
        self.judge_fields()?;
        self.take_target(line.target)
    }

    /// What the fields say about the connection, the host and the body.
    fn judge_fields(&mut self) -> Result<(), Refusal> {
        let bytes = &self.bytes;
        let is_11 = self.version == Version::Http11;
        let (mut host, mut length, mut chunked): (Option<Span>, Option<u64>, bool) =
            (None, None, false);
        let (mut keeps_alive, mut closes, mut upgrades) = (false, false, false);
        let mut is_websocket = false;
        (self.expects_continue, self.names_fields) = (false, false);
        for field in &self.fields {
            let value = field.value.of(bytes);
            match field.known {
                Known::Host if host.is_none() && is_host(value) => host = Some(field.value),
                Known::Host => return Err(Refusal::Host),
                Known::ContentLength => {
                    let given = decimal(value).ok_or(Refusal::ContentLength)?;
                    if length.is_some_and(|length| length != given) {
                        return Err(Refusal::ContentLength);
                    }
                    length = Some(given);
                }
                Known::TransferEncoding => {
                    if chunked || !is_11 || !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Refusal::TransferEncoding);
                    }
                    chunked = true;
                }
                Known::Disguised => return Err(Refusal::Disguised),
                Known::Connection => {
                    for member in members(value) {
                        if member.eq_ignore_ascii_case(b"close") {
                            closes = true;
                        } else if member.eq_ignore_ascii_case(b"keep-alive") {
                            keeps_alive = true;
                        } else if member.eq_ignore_ascii_case(b"upgrade") {
                            upgrades = is_11;
                        } else {
                            self.names_fields = true;
                        }
                    }
                }
                Known::Upgrade => is_websocket |= value.eq_ignore_ascii_case(b"websocket"),
                Known::Expect => {
                    self.expects_continue = is_11 && value.eq_ignore_ascii_case(b"100-continue");
                }
                _ => {}
            }
        }
        if host.is_none() && is_11 {
            return Err(Refusal::Host);
        }
        self.host = host.unwrap_or_default();
        self.framing = match (length, chunked) {
            (Some(_), true) => return Err(Refusal::BothFramings),
            (None, true) => Framing::Chunked,
            (Some(length), false) => Framing::Length(length),
            (None, false) => Framing::None,
        };
        // `close` stands above everything else.
        self.keeps_alive = (is_11 || keeps_alive) && !closes;
        let has_body = !matches!(self.framing, Framing::None | Framing::Length(0));
        self.wants_websocket = upgrades && is_websocket && !has_body && self.method() == b"GET";
        Ok(())
    }

    /// Path and query; of a URL only those, if it is one of the host that `Host` names.
    fn take_target(&mut self, target: Span) -> Result<(), Refusal> {
        let whole = target.of(&self.bytes);
        let mut path_at = 0;
        if !whole.starts_with(b"/") {
            let (length, authority) = absolute(whole).ok_or(Refusal::Target)?;
            if !authority.eq_ignore_ascii_case(self.host.of(&self.bytes)) {
                return Err(Refusal::Target);
            }
            path_at = length;
        }
        let rest = whole.get(path_at..).unwrap_or_default();
        if rest.contains(&b'#') {
            return Err(Refusal::Target);
        }
        let path_length = memchr::memchr(b'?', rest);
        let begin = target.start() + path_at;
        let end = target.start() + whole.len();
        if !rest.starts_with(b"/") {
            // A URL without a path.
            return Err(Refusal::Target);
        }
        let path_end = path_length.map_or(end, |length| begin + length);
        self.path = Span::new(begin, path_end);
        self.query = path_length.map(|_| Span::new(path_end + 1, end));
        let query_length = end - path_end;
        // The question mark does not count.
        if query_length > limits::QUERY_BYTES_MAX + 1 {
            return Err(Refusal::UriTooLong);
        }
        Ok(())
    }
}

struct RequestLine {
    method: Span,
    target: Span,
    version: Version,
    /// Where the next line begins.
    ends: usize,
}

/// Method, target and version, with one space between them.
fn request_line(head: &[u8]) -> Result<RequestLine, Refusal> {
    let line_feed = memchr::memchr(b'\n', head).ok_or(Refusal::RequestLine)?;
    let line = head.get(..line_feed).unwrap_or_default();
    let line = line.strip_suffix(b"\r").ok_or(Refusal::BareLineEnd)?;
    let method_length = line.iter().position(|byte| !is_token(*byte));
    let method_length = method_length.ok_or(Refusal::RequestLine)?;
    let is_method = (1..=limits::METHOD_BYTES_MAX).contains(&method_length)
        && line.get(method_length) == Some(&b' ');
    if !is_method {
        return Err(Refusal::RequestLine);
    }
    let target_at = method_length + 1;
    let rest = line.get(target_at..).unwrap_or_default();
    let target_length = rest.iter().position(|byte| !matches!(byte, b'!'..=b'~'));
    let target_length = target_length.ok_or(Refusal::RequestLine)?;
    if target_length > limits::URL_BYTES_MAX {
        return Err(Refusal::UriTooLong);
    }
    let version = match rest.get(target_length..).unwrap_or_default() {
        b" HTTP/1.1" => Version::Http11,
        b" HTTP/1.0" => Version::Http10,
        _ => return Err(Refusal::RequestLine),
    };
    if target_length == 0 {
        return Err(Refusal::RequestLine);
    }
    // A request to open a tunnel: this is no proxy of that kind.
    if line.starts_with(b"CONNECT ") {
        return Err(Refusal::Target);
    }
    Ok(RequestLine {
        method: Span::new(0, method_length),
        target: Span::new(target_at, target_at + target_length),
        version,
        ends: line_feed + 1,
    })
}

/// The bytes of `http://authority` in front of a URL's path, and the authority.
fn absolute(url: &[u8]) -> Option<(usize, &[u8])> {
    let scheme = url.iter().position(|byte| *byte == b':')?;
    let is_http = url.get(..scheme).is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https")
    });
    let rest = url.get(scheme..)?.strip_prefix(b"://")?;
    let length = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let authority = rest.get(..length?)?;
    (is_http && !authority.is_empty()).then_some((scheme + 3 + authority.len(), authority))
}

/// Whether it can be a host with or without a port: no user, no path, no list.
fn is_host(host: &[u8]) -> bool {
    host.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(byte))
}

/// Everything that is read here is ASCII.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
