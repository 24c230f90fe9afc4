//! One attempt is one request on the wire, over connections that are used again.

use std::sync::Arc;
use std::sync::Mutex;

use bytes::Bytes;
use hedgerow_io::http::{Connections, SendError};
use http::{Request, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

use crate::server::{Server, client, read_request, request, wait_for_close};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn the_request_is_in_origin_form_with_its_query_and_length() {
    let (sent, mut received) = mpsc::channel(1);
    let server = Server::start(move |mut stream, _| {
        let sent = sent.clone();
        async move {
            sent.send(read_request(&mut stream).await.unwrap())
                .await
                .unwrap();
            stream.write_all(OK).await.unwrap();
        }
    })
    .await;
    let url = format!("http://{}/hook?code=s%2Fx", server.address);
    let request = Request::post(&url)
        .header("aeg-event-type", "Notification")
        .body(Bytes::from_static(b"[{}]"))
        .unwrap();
    client().send(&server.target(), request).await.unwrap();
    let expect = format!(
        "POST /hook?code=s%2Fx HTTP/1.1\r\naeg-event-type: Notification\r\nhost: {}\r\n\
         content-length: 4\r\n\r\n[{{}}]",
        server.address
    );
    assert_eq!(received.recv().await.unwrap(), expect);
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let server = Server::start(|mut stream, _| async move {
        while read_request(&mut stream).await.is_some() {
            stream.write_all(OK).await.unwrap();
        }
    })
    .await;
    let (client, target) = (client(), server.target());
    for _ in 0..5 {
        let answer = client.send(&target, request("[]")).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        let excerpt = answer.body.finish().await;
        assert_eq!(
            (&excerpt.bytes[..], excerpt.body_bytes, excerpt.is_complete),
            (&b"ok"[..], 2, true)
        );
    }
    assert_eq!(server.accepted(), 1);
    assert_eq!(
        client.connections_to(&target),
        Connections { open: 1, idle: 1 }
    );
    // Two at once take two connections.
    let one = client.send(&target, request("[]")).await.unwrap();
    let two = client.send(&target, request("[]")).await.unwrap();
    one.body.finish().await;
    drop(two.body);
    assert_eq!(server.accepted(), 2);
    assert_eq!(client.connections(), Connections { open: 1, idle: 1 });
}

/// ED-126.
#[tokio::test]
async fn chunked_answers_leave_their_connection_usable() {
    let server = Server::start(|mut stream, _| async move {
        while read_request(&mut stream).await.is_some() {
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head).await.unwrap();
            stream
                .write_all(b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\ntrailer: x\r\n\r\n")
                .await
                .unwrap();
        }
    })
    .await;
    let client = client();
    for _ in 0..3 {
        let answer = client.send(&server.target(), request("[]")).await.unwrap();
        let excerpt = answer.body.finish().await;
        assert_eq!(
            (&excerpt.bytes[..], excerpt.is_complete),
            (&b"abcde"[..], true)
        );
    }
    let answer = client.send(&server.target(), request("[]")).await.unwrap();
    assert_eq!(answer.body.collect(5).await.unwrap(), "abcde");
    let answer = client.send(&server.target(), request("[]")).await.unwrap();
    assert!(answer.body.collect(4).await.is_err());
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_connection_the_server_wants_closed_is_not_kept() {
    let closing: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ];
    for head in closing {
        let server = Server::start(move |mut stream, _| async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(head).await.unwrap();
            }
        })
        .await;
        let client = client();
        for _ in 0..2 {
            client
                .send(&server.target(), request("[]"))
                .await
                .unwrap()
                .body
                .finish()
                .await;
        }
        assert_eq!(server.accepted(), 2, "{}", head.escape_ascii());
        assert_eq!(client.connections().open, 0);
    }
}

/// The server closes an idle connection, or speaks unasked on it: the next request goes over a new one, and each request
/// is seen once.
#[tokio::test]
async fn a_connection_that_ended_while_idle_is_replaced() {
    for farewell in [
        &b""[..],
        b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (done, mut is_done) = mpsc::channel(1);
        let requests = Arc::clone(&seen);
        let server = Server::start(move |mut stream, number| {
            let (requests, done) = (Arc::clone(&requests), done.clone());
            async move {
                let request = read_request(&mut stream).await.unwrap();
                requests
                    .lock()
                    .unwrap()
                    .push((number, request.ends_with("[1]")));
                stream.write_all(OK).await.unwrap();
                stream.write_all(farewell).await.unwrap();
                stream.shutdown().await.unwrap();
                done.send(()).await.unwrap();
            }
        })
        .await;
        let client = client();
        client
            .send(&server.target(), request("[1]"))
            .await
            .unwrap()
            .body
            .finish()
            .await;
        is_done.recv().await.unwrap();
        // Lets the runtime look at its sockets, which it does not do between two tasks that are ready.
        tokio::task::yield_now().await;
        let answer = client.send(&server.target(), request("[2]")).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(*seen.lock().unwrap(), [(1, true), (2, false)]);
    }
}

/// Design D10: what may have been received is never sent again by the client.
#[tokio::test]
async fn a_request_that_met_a_close_is_not_sent_again() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let server = Server::start(move |mut stream, _| {
        let requests = Arc::clone(&requests);
        async move {
            let first = read_request(&mut stream).await.unwrap();
            stream.write_all(OK).await.unwrap();
            let second = read_request(&mut stream).await.unwrap();
            requests.lock().unwrap().extend([first, second]);
        }
    })
    .await;
    let client = client();
    client
        .send(&server.target(), request("[1]"))
        .await
        .unwrap()
        .body
        .finish()
        .await;
    let error = client
        .send(&server.target(), request("[2]"))
        .await
        .unwrap_err();
    assert!(matches!(error, SendError::Reset(_)), "{error:?}");
    assert_eq!(seen.lock().unwrap().len(), 2);
    assert_eq!(server.accepted(), 1);
    assert_eq!(client.connections().open, 0);
}

/// ED-122.
#[tokio::test]
async fn redirects_are_returned_and_not_followed() {
    let elsewhere = Server::start(|_, _| async {}).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("http://{}/", elsewhere.address);
        let server = Server::start(move |mut stream, _| {
            let answer = format!(
                "HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            );
            async move {
                read_request(&mut stream).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        })
        .await;
        let answer = client()
            .send(&server.target(), request("[]"))
            .await
            .unwrap();
        assert_eq!(answer.status, status);
        answer.body.finish().await;
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test]
async fn informational_answers_are_skipped() {
    let server = Server::start(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        let answers = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n\
            HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answers).await.unwrap();
        wait_for_close(&mut stream).await;
    })
    .await;
    let answer = client()
        .send(&server.target(), request("[]"))
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::ACCEPTED);
}

/// Dropped while the answer is awaited, and after its head: both close the connection at once.
#[tokio::test]
async fn dropping_an_exchange_closes_its_connection() {
    for answers in [false, true] {
        let (got, mut has_got) = mpsc::channel(1);
        let (closed, is_closed) = oneshot::channel();
        let closed = Arc::new(Mutex::new(Some(closed)));
        let server = Server::start(move |mut stream, _| {
            let (got, closed) = (got.clone(), closed.lock().unwrap().take().unwrap());
            async move {
                read_request(&mut stream).await.unwrap();
                if answers {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
                        .await
                        .unwrap();
                }
                got.send(()).await.unwrap();
                wait_for_close(&mut stream).await;
                closed.send(()).unwrap();
            }
        })
        .await;
        let (client, target) = (client(), server.target());
        if answers {
            drop(client.send(&target, request("[]")).await.unwrap());
        } else {
            tokio::select! {
                _ = client.send(&target, request("[]")) => panic!("there is no answer"),
                _ = has_got.recv() => {}
            }
        }
        is_closed.await.unwrap();
        assert_eq!(client.connections(), Connections::default());
    }
}

/// Exchanges may be spawned and clients shared between threads.
#[tokio::test]
async fn a_client_can_be_used_from_every_thread() {
    fn is_send(_: &impl Send) {}
    fn is_shared(_: &(impl Clone + Send + Sync + 'static)) {}
    let (client, target) = (client(), crate::server::target("http://127.0.0.1:9/"));
    is_shared(&client);
    is_send(&client.send(&target, request("[]")));
    is_send(&async {
        client
            .send(&target, request("[]"))
            .await
            .unwrap()
            .body
            .finish()
            .await
    });
}
