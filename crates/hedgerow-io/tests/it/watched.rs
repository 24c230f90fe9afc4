//! Exchanges that somebody watches: what went out byte for byte, and how long each part took (ED-312).

use std::time::Duration;

use hedgerow_io::http::watch::Mark;
use hedgerow_io::http::{SendError, Timings, Watch};
use tokio::io::AsyncWriteExt;

use crate::guarded::{client_trusting, https, tls_server};
use crate::server::{Server, client, client_allowing, read_request, request, target};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Over TLS every part has its time, and together they are not more than the whole.
#[tokio::test]
async fn every_part_has_its_time_and_nothing_is_kept() {
    let (server, root) = tls_server("localhost").await;
    let client = client_trusting(vec![root]);
    for connections in 1..=2 {
        let watch = Watch::begin(1 << 10);
        let target = https(&server, "localhost");
        let answer = client.send_watched(&target, request("[7]"), &watch).await;
        answer.unwrap().body.finish().await;
        watch.mark(Mark::Over);
        let timings = watch.timings();
        let Timings {
            name: Some(name),
            connect: Some(connect),
            tls: Some(tls),
            first_byte: Some(first_byte),
            total: Some(total),
        } = timings
        else {
            panic!("{timings:?}")
        };
        assert!(name + connect + tls + first_byte <= total, "{timings:?}");
        let (sent, bytes) = watch.sent();
        let sent = String::from_utf8(sent).unwrap();
        assert!(
            sent.starts_with("POST /hook?code=1 HTTP/1.1\r\n"),
            "{sent:?}"
        );
        assert!(sent.ends_with("\r\n\r\n[7]"), "{sent:?}");
        assert_eq!(bytes, sent.len() as u64);
        assert_eq!(
            server.accepted(),
            connections,
            "each has a connection of its own"
        );
        assert_eq!(client.connections().open, 0, "and it is not kept");
    }
}

/// What was reached has a time, and what was not has none: no TLS, no name, no answer.
#[tokio::test]
async fn what_is_not_reached_has_no_time() {
    let silent = Server::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    let watch = Watch::begin(20);
    let (client, there, sent) = (client(), silent.target(), request("[]"));
    let sending = client.send_watched(&there, sent, &watch);
    let waited = tokio::time::timeout(Duration::from_millis(200), sending).await;
    waited.unwrap_err();
    watch.mark(Mark::Over);
    let timings = watch.timings();
    assert_eq!((timings.name, timings.tls), (None, None));
    assert!(timings.connect.is_some() && timings.first_byte.is_none());
    assert!(timings.total.unwrap() >= Duration::from_millis(200));
    let (sent, bytes) = watch.sent();
    assert_eq!(sent, b"POST /hook?code=1 HT", "no more than is asked for");
    assert!(bytes > 20);
}

/// The same addresses are refused as without somebody who watches (FC-15).
#[tokio::test]
async fn what_is_closed_stays_closed() {
    let server = Server::start(|mut stream, _| async move {
        let _ = stream.write_all(OK).await;
    })
    .await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let watch = Watch::begin(1 << 10);
        let target = target(&format!("http://{host}:{}/", server.address.port()));
        let client = client_allowing(&[]);
        let sent = client.send_watched(&target, request("[]"), &watch).await;
        assert!(matches!(sent, Err(SendError::Denied(_))), "{sent:?}");
        assert_eq!(watch.timings().connect, None);
        assert!(watch.sent().0.is_empty());
    }
    assert_eq!(server.accepted(), 0);
}
