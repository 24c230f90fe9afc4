//! Responses byte by byte and at once, good and bad.

use proptest::prelude::*;

use super::*;

const HEAD_BYTES_MAX: u32 = 4_096;

fn demands() -> Demands {
    Demands {
        head_bytes_max: HEAD_BYTES_MAX,
        ..Demands::default()
    }
}

/// What is met at the end of these bytes, in pieces of this size; the connection is closed in order behind them.
fn met_in_pieces(method: Method, bytes: &[u8], size: usize) -> Met {
    let mut reader = ResponseReader::new(method, &demands());
    for piece in bytes.chunks(size.max(1)) {
        if let Some(met) = reader.feed(piece) {
            return met;
        }
    }
    reader.end(true)
}

fn met(method: Method, bytes: &[u8]) -> Met {
    let at_once = met_in_pieces(method, bytes, bytes.len());
    let byte_by_byte = met_in_pieces(method, bytes, 1);
    assert_eq!(at_once, byte_by_byte, "{}", String::from_utf8_lossy(bytes));
    at_once
}

/// The status and how the body ended, or why there is none.
fn judged(method: Method, text: &str) -> Result<(u16, BodyEnd), Reason> {
    match met(method, text.as_bytes()) {
        Met::Response(response) => Ok((response.status, response.body)),
        Met::Failure(reason) => Err(reason),
    }
}

const OK: Result<(u16, BodyEnd), Reason> = Ok((200, BodyEnd::Complete));
const CUT: Result<(u16, BodyEnd), Reason> = Ok((200, BodyEnd::Cut));
const MALFORMED: Result<(u16, BodyEnd), Reason> = Err(Reason::MalformedResponse);

/// HP-040, HP-042, HP-043, HP-047, HP-048: heads.
#[test]
fn heads() {
    let rows = [
        ("HTTP/1.1 200 OK\r\n\r\n", OK),
        ("HTTP/1.1 200 OK\r\n\r\nwhatever else", OK),
        ("HTTP/1.1 200\r\n\r\n", OK),
        ("HTTP/1.1 200 \r\n\r\n", OK),
        ("HTTP/1.1 200 Not at all\r\n\r\n", OK),
        ("HTTP/1.0 200 OK\r\n\r\n", OK),
        ("HTTP/1.1 200 OK\n\n", OK),
        ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", OK),
        (
            "HTTP/1.1 204 No Content\r\n\r\n",
            Ok((204, BodyEnd::Complete)),
        ),
        (
            "HTTP/1.1 101 Switching\r\n\r\n",
            Ok((101, BodyEnd::Complete)),
        ),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", OK),
        ("", Err(Reason::ConnectionReset)),
        ("HTTP/1.1 200 OK\r\nServ", Err(Reason::ConnectionReset)),
        (
            "HTTP/1.1 100 Continue\r\n\r\n",
            Err(Reason::ConnectionReset),
        ),
        ("hello", MALFORMED),
        ("SSH-2.0-OpenSSH_9.6\r\n", MALFORMED),
        ("<html>hello</html>", MALFORMED),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", MALFORMED),
        ("HTTP/2 200 OK\r\n\r\n", MALFORMED),
        ("HTTP/1.x 200 OK\r\n\r\n", MALFORMED),
        ("http/1.1 200 OK\r\n\r\n", MALFORMED),
        ("HTTP/1.1  200 OK\r\n\r\n", MALFORMED),
        ("HTTP/1.1 20 OK\r\n\r\n", MALFORMED),
        ("HTTP/1.1 2000 OK\r\n\r\n", MALFORMED),
        ("HTTP/1.1 099 OK\r\n\r\n", MALFORMED),
        ("HTTP/1.1 600 OK\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200OK\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 O\rK\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nA: b\r\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nA:\x0cb\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nA:\t b \t\r\n\r\n", OK),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", MALFORMED),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", MALFORMED),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\n",
            OK,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            MALFORMED,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            MALFORMED,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            MALFORMED,
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            MALFORMED,
        ),
    ];
    for (text, expect) in rows {
        assert_eq!(judged(Method::Head, text), expect, "{text:?}");
    }
}

/// HP-011, HP-044, HP-046: bodies.
#[test]
fn bodies() {
    let length = |length: u64, body: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let chunked =
        |body: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n{body}");
    let large = Ok((200, BodyEnd::TooLarge));
    let mebibyte = "x".repeat(1 << 20);
    let rows = [
        (length(0, ""), OK),
        (length(5, "hello"), OK),
        (length(5, "hello, and more"), OK),
        (length(6, "hello"), CUT),
        (length(1 << 20, &mebibyte), OK),
        (length((1 << 20) + 1, ""), large),
        (length(u64::MAX, ""), large),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the close".to_owned(), OK),
        (format!("HTTP/1.1 200 OK\r\n\r\n{mebibyte}"), OK),
        (format!("HTTP/1.1 200 OK\r\n\r\n{mebibyte}x"), large),
        (chunked("0\r\n\r\n"), OK),
        (chunked("5\r\nhello\r\n0\r\n\r\n"), OK),
        (chunked("5;a=b\r\nhello\r\n00\r\nA: b\r\n\r\nmore"), OK),
        (chunked("A\r\n0123456789\r\n0\r\n\r\n"), OK),
        (chunked(""), CUT),
        (chunked("5\r\nhello\r\n"), CUT),
        (chunked("5\r\nhello\r\n0\r\n"), CUT),
        (chunked("5\r\nhello!\r\n0\r\n\r\n"), CUT),
        (chunked("\r\n"), CUT),
        (chunked("-5\r\nhello\r\n"), CUT),
        (chunked("x\r\n"), CUT),
        (chunked("ffffffffffffffff\r\n"), CUT),
        (chunked("100001\r\n"), large),
        (chunked(&format!("100000\r\n{mebibyte}\r\n1\r\n")), large),
        (
            "HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n".to_owned(),
            Ok((500, BodyEnd::Complete)),
        ),
    ];
    for (text, expect) in rows {
        let shown: String = text.chars().take(90).collect();
        assert_eq!(judged(Method::Get, &text), expect, "{shown:?}");
    }
    // A body that only a close ends is cut by a reset.
    let mut reader = ResponseReader::new(Method::Get, &demands());
    assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\n\r\nhalf"), None);
    assert!(matches!(
        reader.end(false),
        Met::Response(Response {
            body: BodyEnd::Cut,
            ..
        })
    ));
}

/// HP-045: a head of exactly the limit is read, one byte more is too much, also where it never ends.
#[test]
fn the_longest_head() {
    let head_of = |bytes: usize| {
        let mut head = "HTTP/1.1 200 OK\r\nA: ".to_owned();
        head.push_str(&"b".repeat(bytes - head.len() - 4));
        head.push_str("\r\n\r\n");
        head
    };
    let longest = met(Method::Head, head_of(4_096).as_bytes());
    assert!(matches!(
        longest,
        Met::Response(Response {
            head_bytes: 4_096,
            ..
        })
    ));
    let too_long = [
        head_of(4_097),
        head_of(70_000),
        head_of(9_000)[..8_000].to_owned(),
    ];
    for text in too_long {
        assert_eq!(judged(Method::Head, &text), Err(Reason::HeaderTooLarge));
    }
    let wrong_and_too_long = head_of(4_097).replacen("HTTP", "H1/T", 1);
    assert_eq!(
        judged(Method::Head, &wrong_and_too_long),
        Err(Reason::MalformedResponse)
    );
}

/// HP-042: eight interim responses are skipped, nine are not HTTP any more; they count for themselves.
#[test]
fn interim_responses_are_few() {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\n\r\n";
    let eight = met(
        Method::Head,
        format!("{}{ok}", interim.repeat(8)).as_bytes(),
    );
    assert!(matches!(
        eight,
        Met::Response(Response {
            interim: 8,
            head_bytes: 19,
            ..
        })
    ));
    let nine = format!("{}{ok}", interim.repeat(9));
    assert_eq!(judged(Method::Head, &nine), MALFORMED);
}

/// HP-198: the header that asks not to be used.
#[test]
fn an_origin_may_drain() {
    for (value, expect) in [("1", true), ("0", false), ("", false), ("11", false)] {
        let text = format!("HTTP/1.1 200 OK\r\nx-hedgerow-drain: {value}\r\n\r\n");
        let Met::Response(response) = met(Method::Head, text.as_bytes()) else {
            panic!("{text}")
        };
        assert_eq!(response.drains, expect, "{value}");
    }
}

proptest! {
    /// Whatever comes, and in whatever pieces: no panic, and the same result.
    #[test]
    fn pieces_do_not_matter(
        text in "HTTP/1\\.[01] (100|200|404) (OK)?\r?\n(Content-Length: [0-9]{1,2}\r\n|Transfer-Encoding: chunked\r\n|[ -~]{0,9}\r?\n){0,3}\r?\n[0-9a-f;\r\nx]{0,30}",
        size in 1_usize..9,
        cut in any::<prop::sample::Index>(),
        is_get in any::<bool>(),
    ) {
        let method = if is_get { Method::Get } else { Method::Head };
        let bytes = &text.as_bytes()[..cut.index(text.len() + 1)];
        prop_assert_eq!(
            met_in_pieces(method, bytes, bytes.len()),
            met_in_pieces(method, bytes, size)
        );
    }

    /// No bytes whatever make it panic.
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        met_in_pieces(Method::Get, &bytes, 7);
    }
}

/// FC-24, HP-011: the body of every expected status is read, that of another is not; 204 and 304 have none.
#[test]
fn bodies_of_expected_statuses_are_read() {
    let demands = Demands {
        expected: Statuses::of([204, 304, 401]),
        ..demands()
    };
    for (status, expect) in [
        (200, Some(BodyEnd::Complete)),
        (401, None),
        (204, Some(BodyEnd::Complete)),
        (304, Some(BodyEnd::Complete)),
        (404, Some(BodyEnd::Complete)),
    ] {
        let head = format!("HTTP/1.1 {status} \r\ncontent-length: 3\r\n\r\n");
        let mut reader = ResponseReader::new(Method::Get, &demands);
        let read = reader.feed(head.as_bytes()).map(|met| match met {
            Met::Response(response) => response.body,
            Met::Failure(reason) => panic!("{reason}"),
        });
        assert_eq!(read, expect, "{status}");
    }
}
