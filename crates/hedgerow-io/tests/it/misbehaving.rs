//! Servers that break the protocol, or use it against us (FC-16): each ends in a clear class, within bounds.

use hedgerow_io::http::SendError;
use http::StatusCode;
use tokio::io::AsyncWriteExt;

use crate::server::{Server, client, read_request, request, wait_for_close};

/// What a server that writes `bytes` after the request, then closes, looks like.
async fn error_after(bytes: &'static [u8]) -> SendError {
    let server = Server::start(move |mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        let _ = stream.write_all(bytes).await;
    })
    .await;
    let client = client();
    let error = client
        .send(&server.target(), request("[]"))
        .await
        .unwrap_err();
    assert_eq!(server.accepted(), 1);
    assert_eq!(client.connections().open, 0);
    error
}

#[tokio::test]
async fn a_close_before_the_whole_head_is_a_reset() {
    for bytes in [
        &b""[..],
        b"H",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nserver: x\r\n",
    ] {
        let error = error_after(bytes).await;
        assert!(
            matches!(error, SendError::Reset(_)),
            "{}: {error:?}",
            bytes.escape_ascii()
        );
    }
    let closes_at_once = Server::start(|stream, _| async move { drop(stream) }).await;
    let error = client()
        .send(&closes_at_once.target(), request("[]"))
        .await
        .unwrap_err();
    assert!(matches!(error, SendError::Reset(_)), "{error:?}");
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_error() {
    let rows: &[&[u8]] = &[
        b"hello there, this is no HTTP\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x03\x00\x02\x02\x32",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n12",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    ];
    for bytes in rows {
        let error = error_after(bytes).await;
        assert!(
            matches!(error, SendError::Protocol(_)),
            "{}: {error:?}",
            bytes.escape_ascii()
        );
    }
}

/// FC-16: 50 MiB of headers, in one and in many.
#[tokio::test]
async fn an_oversized_head_is_a_protocol_error() {
    for line in [&b"x-filler: 0123456789abcdef\r\n"[..], b"0123456789abcdef"] {
        let server = Server::start(move |mut stream, _| async move {
            read_request(&mut stream).await.unwrap();
            let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\nx-first: ").await;
            let block = line.repeat(1024);
            for _ in 0..(50 << 20) / block.len() {
                if written.is_err() {
                    break;
                }
                written = stream.write_all(&block).await;
            }
        })
        .await;
        let error = client()
            .send(&server.target(), request("[]"))
            .await
            .unwrap_err();
        assert!(matches!(error, SendError::Protocol(_)), "{error:?}");
    }
}

/// The bound of a head holds to the byte, whether it comes whole or in pieces: hyper alone takes what one read brings (issue 4).
#[tokio::test]
async fn a_head_may_have_as_many_bytes_as_it_may_and_no_more_issue_4() {
    for start in [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 Quite All Right\r\n",
        "HTTP/1.1 200 \r\n",
    ] {
        for bytes in [65_535, 65_536, 65_537, 66_000, 100_000, 130_000] {
            for piece in [1_000, 1 << 20] {
                let rest = "content-length:0\r\nx:\r\n\r\n";
                let filler = "a".repeat(bytes - start.len() - rest.len());
                let head = format!("{start}content-length:0\r\nx:{filler}\r\n\r\n");
                assert_eq!(head.len(), bytes);
                let server = Server::start(move |mut stream, _| {
                    let head = head.clone();
                    async move {
                        read_request(&mut stream).await.unwrap();
                        for piece in head.as_bytes().chunks(piece) {
                            if stream.write_all(piece).await.is_err() {
                                break;
                            }
                        }
                    }
                })
                .await;
                let sent = client().send(&server.target(), request("[]")).await;
                match sent {
                    Ok(answer) => assert!(bytes <= 65_536, "{start:?} {bytes} {}", answer.status),
                    Err(SendError::Protocol(_)) => assert!(bytes > 65_536, "{start:?} {bytes}"),
                    Err(error) => panic!("{start:?} {bytes}: {error:?}"),
                }
            }
        }
    }
}

/// FC-16: the head settles the attempt; the rest is cut off.
#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let heads = [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 52428800\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3200000\r\n",
    ];
    for head in heads {
        let server = Server::start(move |mut stream, _| async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            // Binary, with NUL and what is not UTF-8.
            while stream
                .write_all(&[0xff, 0x00, 0x80, b'a'].repeat(4096))
                .await
                .is_ok()
            {}
        })
        .await;
        let client = client();
        let answer = client.send(&server.target(), request("[]")).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        let excerpt = answer.body.finish().await;
        assert!(!excerpt.is_complete);
        assert_eq!(excerpt.bytes, [0xff, 0x00, 0x80, b'a'].repeat(256));
        if head.contains("content-length") {
            assert_eq!(excerpt.body_bytes, 50 << 20);
        } else {
            assert!(
                (64 << 10..1 << 20).contains(&excerpt.body_bytes),
                "{}",
                excerpt.body_bytes
            );
        }
        assert_eq!(
            client.connections().open,
            0,
            "the connection must be closed"
        );
    }
}

/// FC-16: `Content-Length` larger than what is sent.
#[tokio::test]
async fn a_body_that_ends_early_is_no_error_of_the_attempt() {
    let server = Server::start(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort")
            .await
            .unwrap();
    })
    .await;
    let client = client();
    let answer = client.send(&server.target(), request("[]")).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    let excerpt = answer.body.finish().await;
    let seen = (&excerpt.bytes[..], excerpt.body_bytes, excerpt.is_complete);
    assert_eq!(seen, (&b"short"[..], 100, false));
    assert_eq!(client.connections().open, 0);
    let answer = client.send(&server.target(), request("[]")).await.unwrap();
    assert!(answer.body.collect(1000).await.is_err());
}

/// A server may refuse a large request without reading it: its answer counts.
#[tokio::test]
async fn an_answer_before_the_request_was_read_is_an_answer() {
    let server = Server::start(|mut stream, _| async move {
        stream
            .write_all(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        wait_for_close(&mut stream).await;
    })
    .await;
    let client = client();
    let mut large = request("");
    *large.body_mut() = vec![b'x'; 8 << 20].into();
    let answer = client.send(&server.target(), large).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    answer.body.finish().await;
    assert_eq!(
        client.connections().open,
        0,
        "half a request is on this connection"
    );
}

/// A 204 has no body, whatever its headers say.
#[tokio::test]
async fn a_204_leaves_its_connection_usable() {
    let server = Server::start(|mut stream, _| async move {
        while read_request(&mut stream).await.is_some() {
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .await
                .unwrap();
        }
    })
    .await;
    let client = client();
    for _ in 0..3 {
        let answer = client.send(&server.target(), request("[]")).await.unwrap();
        assert_eq!(answer.status, StatusCode::NO_CONTENT);
        assert!(answer.body.finish().await.is_complete);
    }
    assert_eq!(server.accepted(), 1);
}
