//! The edge's reader of requests (HP-168): pieces of any size give the same as all at once, and whatever it takes, httparse and a
//! plain reading of RFC 9112 take for the same requests: as many, with the same methods, targets and bodies.
#![no_main]

use hedgerow_edge::guard::{Fed, Refusal, RequestGuard};
use libfuzzer_sys::fuzz_target;

/// Sizes of pieces, in turn.
const SIZES: usize = 3;
/// More than the guard takes.
const HEADERS_MAX: usize = 1_000;

/// A request as both readers see it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    method: Vec<u8>,
    target: Vec<u8>,
    body: Vec<u8>,
}

fuzz_target!(|data: &[u8]| {
    let Some((sizes, bytes)) = data.split_at_checked(SIZES) else {
        return;
    };
    let (whole, end) = guarded(std::iter::once(bytes));
    let (in_pieces, end_in_pieces) = guarded(pieces(bytes, sizes));
    assert_eq!(end, end_in_pieces, "in pieces of {sizes:?}");
    if end.is_ok() {
        assert_eq!(whole, in_pieces, "in pieces of {sizes:?}");
    }
    let plain = plainly_read(bytes);
    for (number, seen) in in_pieces.iter().enumerate() {
        let known = plain.get(number).expect("a request that no other reader finds");
        assert_eq!(seen.method, known.method);
        assert_eq!(seen.target, known.target);
        // That of the last one may still be on its way.
        assert!(known.body.starts_with(&seen.body));
        if number + 1 < in_pieces.len() {
            assert_eq!(seen.body, known.body);
        }
    }
});

fn pieces<'b>(bytes: &'b [u8], sizes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
    let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
    std::iter::from_fn(move || {
        let size = usize::from(*sizes.next()?).max(1).min(rest.len());
        let (piece, left) = rest.split_at(size);
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

/// What the guard takes, and what it refuses at last.
fn guarded<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> (Vec<Seen>, Result<(), Refusal>) {
    let mut guard = RequestGuard::new();
    let mut seen: Vec<Seen> = Vec::new();
    for piece in pieces {
        let fed = match guard.feed(piece) {
            Ok(fed) => fed,
            Err(refusal) => return (seen, Err(refusal)),
        };
        for fed in fed {
            match fed {
                Fed::Head(head) => {
                    let mut target = head.path().as_bytes().to_vec();
                    if let Some(query) = head.query() {
                        target.push(b'?');
                        target.extend_from_slice(query.as_bytes());
                    }
                    seen.push(Seen {
                        method: head.method().to_vec(),
                        target,
                        body: Vec::new(),
                    });
                }
                Fed::Data(data) => {
                    let last = seen.last_mut().expect("a body has a head");
                    last.body.extend_from_slice(&data);
                }
            }
        }
    }
    (seen, Ok(()))
}

/// The requests as httparse reads heads and chunk sizes.
fn plainly_read(bytes: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut rest = bytes;
    loop {
        rest = rest.strip_prefix(b"\r\n").unwrap_or(rest);
        let mut headers = vec![httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = request.parse(rest) else {
            return seen;
        };
        let named = |name: &str| {
            let found = request.headers.iter();
            let mut found = found.filter(|header| header.name.eq_ignore_ascii_case(name));
            found.next().map(|header| header.value)
        };
        let length_of_body = named("content-length").map(|value| {
            let text = std::str::from_utf8(value).unwrap_or_default();
            text.trim().parse::<usize>().unwrap_or(usize::MAX)
        });
        let is_chunked = named("transfer-encoding").is_some();
        let target = request.path.unwrap_or_default();
        let mut this = Seen {
            method: request.method.unwrap_or_default().as_bytes().to_vec(),
            target: path_of(target).as_bytes().to_vec(),
            body: Vec::new(),
        };
        rest = rest.get(length..).unwrap_or_default();
        let is_whole = if is_chunked {
            read_chunks(&mut rest, &mut this.body)
        } else {
            let length = length_of_body.unwrap_or(0);
            let body = rest.get(..length.min(rest.len())).unwrap_or_default();
            this.body.extend_from_slice(body);
            let is_whole = body.len() == length;
            rest = rest.get(body.len()..).unwrap_or_default();
            is_whole
        };
        seen.push(this);
        if !is_whole {
            return seen;
        }
    }
}

/// The path and the query of a target, which may be a whole URL.
fn path_of(target: &str) -> String {
    let Some((_, behind)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target.to_owned();
    };
    match behind.find(['/', '?']) {
        Some(at) if behind[at..].starts_with('?') => format!("/{}", &behind[at..]),
        Some(at) => behind[at..].to_owned(),
        None => "/".to_owned(),
    }
}

/// Whether the body ended.
fn read_chunks(rest: &mut &[u8], body: &mut Vec<u8>) -> bool {
    loop {
        let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(rest) else {
            return false;
        };
        *rest = rest.get(line..).unwrap_or_default();
        if size == 0 {
            let mut trailer = vec![httparse::EMPTY_HEADER; HEADERS_MAX];
            let Ok(httparse::Status::Complete((end, _))) =
                httparse::parse_headers(rest, &mut trailer)
            else {
                return false;
            };
            *rest = rest.get(end..).unwrap_or_default();
            return true;
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let data = rest.get(..size.min(rest.len())).unwrap_or_default();
        body.extend_from_slice(data);
        if data.len() < size {
            return false;
        }
        let Some(behind) = rest.get(size..).and_then(|behind| behind.strip_prefix(b"\r\n")) else {
            return false;
        };
        *rest = behind;
    }
}
