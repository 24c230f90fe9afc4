//! The head of a request of HTTP/2, read as strictly as one of HTTP/1 (HP-168): what cannot be said in HTTP/1.1 the same way is
//! refused.

use http::{HeaderName, HeaderValue};

use crate::guard::{Framing, Refusal, decimal};
use crate::limits;
use crate::names::{Known, known};

/// A request, as far as it is of interest.
pub(crate) struct Asks {
    pub method: http::Method,
    pub host: String,
    pub path: String,
    pub query: Option<String>,
    /// Names, values, and what they mean.
    fields: Vec<(HeaderName, HeaderValue, Known)>,
    pub framing: Framing,
}

impl Asks {
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8], Known)> + Clone {
        self.fields
            .iter()
            .map(|(name, value, known)| (name.as_str().as_bytes(), value.as_bytes(), *known))
    }

    /// Reads the head, strictly.
    pub(crate) fn read(parts: http::request::Parts, has_ended: bool) -> Result<Self, Refusal> {
        let uri = &parts.uri;
        let mut hosts = parts.headers.get_all(http::header::HOST).iter();
        let host = match (uri.authority(), hosts.next(), hosts.next()) {
            (_, _, Some(_)) | (None, None, _) => return Err(Refusal::Host),
            (Some(authority), said, None) => {
                let host = authority.as_str();
                if host.contains('@') || said.is_some_and(|said| said.as_bytes() != host.as_bytes())
                {
                    return Err(Refusal::Host);
                }
                host.to_owned()
            }
            (None, Some(said), None) => said.to_str().map_err(|_| Refusal::Host)?.to_owned(),
        };
        let query = uri.query();
        if uri.path().len() + query.map_or(0, str::len) > limits::URL_BYTES_MAX
            || query.is_some_and(|query| query.len() > limits::QUERY_BYTES_MAX)
        {
            return Err(Refusal::UriTooLong);
        }
        if parts.headers.len() > limits::FIELDS_MAX {
            return Err(Refusal::HeadTooLarge);
        }
        let mut length: Option<u64> = None;
        let mut fields = Vec::with_capacity(parts.headers.len());
        for (name, value) in &parts.headers {
            let meaning = known(name.as_str().as_bytes());
            fields.push((name.clone(), value.clone(), meaning));
            let value = value.as_bytes();
            match meaning {
                Known::Disguised => return Err(Refusal::Disguised),
                Known::TransferEncoding => return Err(Refusal::TransferEncoding),
                // Nothing of a connection may be said in HTTP/2, but that trailers are taken (RFC 9113, 8.2.2).
                Known::Connection | Known::Upgrade => return Err(Refusal::FieldName),
                Known::HopByHop if name != "te" && name != "trailer" => {
                    return Err(Refusal::FieldName);
                }
                Known::ContentLength => {
                    let given = decimal(value).ok_or(Refusal::ContentLength)?;
                    if length.is_some_and(|length| length != given) {
                        return Err(Refusal::ContentLength);
                    }
                    length = Some(given);
                }
                _ => {}
            }
        }
        let framing = match length {
            _ if has_ended => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        };
        Ok(Self {
            host,
            path: uri.path().to_owned(),
            query: query.map(str::to_owned),
            method: parts.method,
            fields,
            framing,
        })
    }
}
