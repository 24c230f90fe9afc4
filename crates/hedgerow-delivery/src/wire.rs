//! What went over the wire, for people: a request as it was sent, the beginning of its answer, and neither with secrets
//! (ED-121, ED-149).

use bytes::BytesMut;
use hedgerow_core::limits;
use hedgerow_io::http::Watch;
use http::{HeaderMap, StatusCode};

use crate::strike::{STRUCK_OUT, Secrets};

pub use hedgerow_io::http::Timings;

/// A request as it was sent, and how long its parts took.
#[derive(Debug, Clone)]
pub struct WireRequest {
    /// What was sent; `None` if nothing was.
    pub sent: Option<SentRequest>,
    /// How long the parts took.
    pub timings: Timings,
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRequest {
    /// The request line, without the query's value.
    pub line: String,
    /// The headers in their order, names as they were sent.
    pub headers: Vec<(String, String)>,
    /// The body, or the beginning of a longer one.
    pub body: String,
    /// Whether there was more than is shown.
    pub is_cut: bool,
}

/// The beginning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers, as far as they are kept.
    pub headers: Vec<(String, String)>,
    /// The beginning of its body.
    pub body: String,
    /// Whether there was more, or may have been: it was too long, too slow, or the connection broke.
    pub is_cut: bool,
}

/// What arrived of an answer.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) head: Option<(StatusCode, HeaderMap)>,
    pub(crate) body: BytesMut,
}

impl WireRequest {
    /// What a watch saw. The values of headers in `custom` that are marked as secrets are left out whole.
    pub(crate) fn of(watch: &Watch, secrets: &Secrets, custom: &HeaderMap) -> Self {
        let (sent, bytes) = watch.sent();
        let is_cut = bytes > sent.len() as u64;
        Self {
            sent: (!sent.is_empty()).then(|| SentRequest::read(&sent, is_cut, secrets, custom)),
            timings: watch.timings(),
        }
    }
}

impl SentRequest {
    fn read(sent: &[u8], is_cut: bool, secrets: &Secrets, custom: &HeaderMap) -> Self {
        const END: &[u8] = b"\r\n\r\n";
        let end = sent.windows(END.len()).position(|bytes| bytes == END);
        let (head, body) = match end {
            Some(at) => (&sent[..at], &sent[at + END.len()..]),
            None => (sent, &[][..]),
        };
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let line = without_query(lines.next().unwrap_or_default());
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            let is_secret = custom
                .get(name)
                .is_some_and(http::HeaderValue::is_sensitive);
            let value = if is_secret {
                STRUCK_OUT.to_owned()
            } else {
                secrets.strike(value, is_cut)
            };
            (name.to_owned(), value)
        });
        Self {
            line: secrets.strike(&line, is_cut),
            headers: headers.collect(),
            body: secrets.strike(&String::from_utf8_lossy(body), is_cut),
            is_cut,
        }
    }
}

/// The line without what stands in its query, which is a secret whatever its length (ED-121).
fn without_query(line: &str) -> String {
    let Some((before, behind)) = line.split_once('?') else {
        return line.to_owned();
    };
    let version = behind.split_once(' ').map_or("", |(_, version)| version);
    format!("{before}?{STRUCK_OUT} {version}")
        .trim_end()
        .to_owned()
}

impl WireAnswer {
    /// The answer for people: its beginning, without secrets; `None` if there is none.
    pub(crate) fn of(
        seen: &Seen,
        secrets: &Secrets,
        body_bytes_max: usize,
        is_whole: bool,
    ) -> Option<Self> {
        let (status, headers) = seen.head.as_ref()?;
        let mut left = limits::EXCHANGE_HEADERS_BYTES_MAX;
        let mut shown = Vec::new();
        for (name, value) in headers {
            let text = String::from_utf8_lossy(value.as_bytes());
            let bytes = name.as_str().len() + text.len();
            if bytes > left {
                break;
            }
            left -= bytes;
            shown.push((name.to_string(), secrets.strike(&text, false)));
        }
        let kept = seen.body.len().min(body_bytes_max);
        let is_cut = kept < seen.body.len() || !is_whole;
        Some(Self {
            status: status.as_u16(),
            headers: shown,
            body: secrets.strike(&String::from_utf8_lossy(&seen.body[..kept]), is_cut),
            is_cut,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strike::Secrets;

    /// ED-121, ED-149: nothing of a query, whatever its length, and no secret header, wherever it stands.
    #[test]
    fn a_request_is_shown_without_its_secrets() {
        let mut value = http::HeaderValue::from_static("abc");
        value.set_sensitive(true);
        let custom = HeaderMap::from_iter([(http::HeaderName::from_static("x-key"), value)]);
        let secrets = Secrets::of_endpoint("/hook", &["c=1"], &["abc".to_owned()]);
        let sent = b"POST /hook?c=1 HTTP/1.1\r\nhost: a.example\r\nx-key: abc\r\n\r\n[1]";
        let read = SentRequest::read(sent, false, &secrets, &custom);
        assert_eq!(read.line, "POST /hook?*** HTTP/1.1");
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = [header("host", "a.example"), header("x-key", "***")];
        assert_eq!(read.headers, headers);
        assert_eq!(read.body, "[1]");
        let cut = SentRequest::read(b"POST /hook?c", true, &secrets, &custom);
        assert_eq!(cut.line, "POST /hook?***");
        assert!(cut.is_cut && cut.headers.is_empty() && cut.body.is_empty());
    }
}
