//! What the HTTP library lets pass and RFC 9112 does not: whoever stands before this server may see another request in it.

use http::header::{HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Version};

/// Judges the head of a request; the reason if it is refused.
pub fn judge(request: &Parts) -> Result<(), &'static str> {
    let hosts = request.headers.get_all(HOST).iter().count();
    if hosts > 1 {
        return Err("The request has more than one header 'Host'.");
    }
    if hosts == 0 && request.version == Version::HTTP_11 {
        return Err("The request has no header 'Host'.");
    }
    let mut codings = request.headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_some_and(|first| !is_chunked(first)) || codings.next().is_some() {
        return Err("The request's Transfer-Encoding is another than 'chunked' alone.");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_others_may_read_otherwise_are_refused() {
        const HOST: (&str, &str) = ("host", "x");
        const CODING: &str = "transfer-encoding";
        type Headers = &'static [(&'static str, &'static str)];
        let rows: &[(Version, Headers, bool)] = &[
            (Version::HTTP_11, &[HOST], true),
            (Version::HTTP_11, &[("host", "")], true),
            (Version::HTTP_11, &[], false),
            (Version::HTTP_10, &[], true),
            (Version::HTTP_11, &[HOST, HOST], false),
            (Version::HTTP_10, &[HOST, HOST], false),
            (Version::HTTP_11, &[HOST, (CODING, "Chunked")], true),
            (Version::HTTP_11, &[HOST, (CODING, "gzip, chunked")], false),
            (
                Version::HTTP_11,
                &[HOST, (CODING, "gzip"), (CODING, "chunked")],
                false,
            ),
            (
                Version::HTTP_11,
                &[HOST, (CODING, "chunked"), (CODING, "chunked")],
                false,
            ),
        ];
        for (version, headers, is_taken) in rows {
            let mut request = http::Request::get("/").version(*version);
            for (name, value) in *headers {
                request = request.header(*name, *value);
            }
            let request = request.body(()).unwrap().into_parts().0;
            assert_eq!(
                judge(&request).is_ok(),
                *is_taken,
                "{version:?} {headers:?}"
            );
        }
    }
}
