//! What the guard takes and what it refuses, one by one; the same from a table is in `cases/edge_framing`.

use proptest::prelude::*;

use super::{Fed, Framing, Refusal, RequestGuard};

fn feed(text: &[u8]) -> Result<Vec<Fed>, Refusal> {
    RequestGuard::new().feed(text)
}

/// HP-168: bytes may come as they like; what is read is the same.
#[test]
fn reads_alike_in_any_pieces() {
    let text = b"POST /a?b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
        5;name=\"v\"\r\nhello\r\n00a\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\nGET / HTTP/1.1\r\nHost: y\r\n\r\n";
    let body = |fed: &[Fed]| -> Vec<u8> {
        let data = fed.iter().filter_map(|fed| match fed {
            Fed::Data(data) => Some(data.to_vec()),
            Fed::Head(_) => None,
        });
        data.flatten().collect()
    };
    let whole = feed(text).unwrap();
    assert_eq!(body(&whole), b"hello0123456789");
    for size in 1..text.len() {
        let mut guard = RequestGuard::new();
        let mut fed = Vec::new();
        for piece in text.chunks(size) {
            fed.extend(guard.feed(piece).unwrap());
        }
        assert_eq!(body(&fed), b"hello0123456789", "{size}");
        let heads = fed.iter().filter(|fed| matches!(fed, Fed::Head(_))).count();
        assert_eq!(heads, 2, "{size}");
    }
}

/// HP-168: what is behind a refused request is never read.
#[test]
fn nothing_is_read_behind_a_refusal() {
    let mut guard = RequestGuard::new();
    let bad =
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(guard.feed(bad), Err(Refusal::BothFramings));
    assert_eq!(
        guard.feed(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        Err(Refusal::BothFramings)
    );
}

/// HP-183: limits are exact.
#[test]
fn limits_are_exact() {
    let with_url = |length: usize| {
        let path = "/".to_owned() + &"a".repeat(length - 1);
        feed(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).map(|_| ())
    };
    assert_eq!(with_url(8_192), Ok(()));
    assert_eq!(with_url(8_193), Err(Refusal::UriTooLong));
    let with_query = |length: usize| {
        let query = "a".repeat(length);
        feed(format!("GET /?{query} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).map(|_| ())
    };
    assert_eq!(with_query(4_096), Ok(()));
    assert_eq!(with_query(4_097), Err(Refusal::UriTooLong));
    let frame = "GET / HTTP/1.1\r\nHost: x\r\nA: \r\n\r\n".len();
    let with_head = |length: usize| {
        let value = "a".repeat(length - frame);
        feed(format!("GET / HTTP/1.1\r\nHost: x\r\nA: {value}\r\n\r\n").as_bytes()).map(|_| ())
    };
    assert_eq!(with_head(65_536), Ok(()));
    assert_eq!(with_head(65_537), Err(Refusal::HeadTooLarge));
    // An endless first line is one of a URL, endless fields are those of a head.
    assert_eq!(feed(&[b'a'; 9_000]), Err(Refusal::UriTooLong));
    let endless = "GET / HTTP/1.1\r\nHost: x\r\n".to_owned() + &"A: b\r\n".repeat(20_000);
    assert_eq!(feed(endless.as_bytes()), Err(Refusal::HeadTooLarge));
    let many = "GET / HTTP/1.1\r\nHost: x\r\n".to_owned() + &"A: b\r\n".repeat(256) + "\r\n";
    assert_eq!(feed(many.as_bytes()), Err(Refusal::HeadTooLarge));
}

/// HP-168: a chunk's line, its extensions and the trailer have bounds, before they are whole.
#[test]
fn chunks_have_bounds() {
    let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let rows = [
        (format!("{head}{}", "0".repeat(17)), Refusal::Chunk),
        (format!("{head}5;{}", "a".repeat(300)), Refusal::Chunk),
        (
            format!(
                "{head}{}",
                format!("1;{}\r\nx\r\n", "a".repeat(200)).repeat(100)
            ),
            Refusal::Chunk,
        ),
        (format!("{head}ffffffffffffffff\r\n"), Refusal::Chunk),
        (
            format!("{head}0\r\nA: {}", "b".repeat(9_000)),
            Refusal::Trailer,
        ),
    ];
    for (text, expect) in rows {
        assert_eq!(feed(text.as_bytes()), Err(expect), "{}", &text[..120]);
    }
}

/// HP-154, HP-168: what is read of a head.
#[test]
fn a_head_is_read() {
    let text = b"\r\nPUT http://Shop.example:81/a/b?c=d HTTP/1.1\r\nhOST:\tshop.EXAMPLE:81 \r\nConnection: keep-alive, X-A\r\n\
        Expect: 100-continue\r\nContent-Length: 2\r\nContent-Length: 2\r\nA:\r\n\r\nhi";
    let fed = feed(text).unwrap();
    let [Fed::Head(head), Fed::Data(data)] = &fed[..] else {
        panic!("{fed:?}");
    };
    assert_eq!(
        (head.method(), head.path(), head.query()),
        (&b"PUT"[..], "/a/b", Some("c=d"))
    );
    assert_eq!(head.host(), "shop.EXAMPLE:81");
    assert_eq!(head.framing, Framing::Length(2));
    assert!(head.keeps_alive && head.expects_continue && head.names_fields);
    assert_eq!(&data[..], b"hi");
    let websocket = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nConnection: Keep-Alive, Upgrade\r\n\r\n";
    let fed = feed(websocket).unwrap();
    let [Fed::Head(head)] = &fed[..] else {
        panic!("{fed:?}");
    };
    assert!(head.wants_websocket && !head.names_fields);
}

/// HP-181: what is not a WebSocket is no upgrade: through `h2c` an origin would be reached past the edge.
#[test]
fn other_upgrades_are_none() {
    for fields in [
        "Upgrade: h2c\r\nConnection: Upgrade\r\n",
        "Upgrade: websocket\r\n",
        "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n",
        "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 5\r\n",
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let fed = feed(text.as_bytes()).unwrap();
        let Some(Fed::Head(head)) = fed.first() else {
            panic!("{fields}");
        };
        assert!(!head.wants_websocket, "{fields}");
    }
}

proptest! {
    /// HP-168: no bytes whatever bring the guard to a stop, and pieces do not matter.
    #[test]
    fn any_bytes_are_read_alike(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        size in 1_usize..50,
    ) {
        let mut text = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        text.extend(bytes);
        let whole = feed(&text).map(|_| ());
        let mut guard = RequestGuard::new();
        let mut pieces = Ok(());
        for piece in text.chunks(size) {
            if let Err(refusal) = guard.feed(piece) {
                pieces = Err(refusal);
                break;
            }
        }
        prop_assert_eq!(whole.is_err(), pieces.is_err());
    }
}
