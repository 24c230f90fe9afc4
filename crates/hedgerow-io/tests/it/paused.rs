//! What depends on time, on tokio's paused clock and a network in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hedgerow_io::http::scripted::ScriptedNetwork;
use hedgerow_io::http::{Client, ClientOptions, ConnectError, Connections, SendError};
use http::{Response, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, advance};

use crate::server::{read_request, request, target, wait_for_close};

/// A client in a network where everybody answers 200, and the number of requests answered.
fn answering(options: ClientOptions) -> (Client, Arc<AtomicUsize>) {
    let answered = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&answered);
    let network = ScriptedNetwork::answering(move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Response::new(Bytes::from_static(b"ok")) }
    });
    (Client::new(Arc::new(network), options), answered)
}

async fn deliver(client: &Client, url: &str) {
    let answer = client.send(&target(url), request("[]")).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    answer.body.finish().await;
}

/// ED-127: 2 s for the body, however little of it comes.
#[tokio::test(start_paused = true)]
async fn a_slow_body_is_cut_off_after_two_seconds() {
    let network = ScriptedNetwork::new(Arc::new(|_, mut stream| {
        tokio::spawn(async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            while stream.write_all(b".").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        });
        Ok(())
    }));
    let client = Client::new(Arc::new(network), ClientOptions::default());
    let answer = client
        .send(&target("http://a.example/"), request("[]"))
        .await
        .unwrap();
    let begun = Instant::now();
    let excerpt = answer.body.finish().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    assert_eq!(
        (&excerpt.bytes[..], excerpt.is_complete),
        (&b"......."[..], false)
    );
    assert_eq!(client.connections(), Connections::default());
}

#[tokio::test(start_paused = true)]
async fn idle_connections_expire() {
    let (client, answered) = answering(ClientOptions::default());
    let idle = || client.connections_to(&target("http://a.example/")).idle;
    deliver(&client, "http://a.example/").await;
    advance(Duration::from_millis(3_999)).await;
    deliver(&client, "http://a.example/").await;
    assert_eq!(client.connections(), Connections { open: 1, idle: 1 });
    advance(Duration::from_millis(3_999)).await;
    client.sweep();
    assert_eq!(idle(), 1);
    advance(Duration::from_millis(1)).await;
    client.sweep();
    assert_eq!(client.connections(), Connections::default());
    // Traffic to one target drops the expired connections to others.
    deliver(&client, "http://a.example/").await;
    advance(Duration::from_secs(4)).await;
    deliver(&client, "http://b.example/").await;
    assert_eq!(
        (client.connections(), idle()),
        (Connections { open: 1, idle: 1 }, 0)
    );
    assert_eq!(answered.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_bounded_per_target_and_in_total() {
    let options = ClientOptions {
        idle_per_target_max: 2,
        idle_max: 3,
        ..ClientOptions::default()
    };
    let (client, _) = answering(options);
    for (host, idle_expected, open_expected) in [("a", 2, 2), ("b", 1, 3), ("c", 0, 3)] {
        let target = target(&format!("http://{host}.example/"));
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(client.send(&target, request("[]")).await.unwrap());
        }
        assert_eq!(
            client.connections_to(&target),
            Connections { open: 4, idle: 0 }
        );
        for answer in answers {
            answer.body.finish().await;
        }
        assert_eq!(client.connections_to(&target).idle, idle_expected, "{host}");
        assert_eq!(client.connections().open, open_expected, "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_process_has_a_limit_and_idle_connections_make_room() {
    let options = ClientOptions {
        connections_max: 2,
        ..ClientOptions::default()
    };
    let (client, answered) = answering(options);
    let in_use = client
        .send(&target("http://a.example/"), request("[]"))
        .await
        .unwrap();
    deliver(&client, "http://b.example/").await;
    assert_eq!(client.connections(), Connections { open: 2, idle: 1 });
    let also = client
        .send(&target("http://c.example/"), request("[]"))
        .await
        .unwrap();
    assert_eq!(client.connections(), Connections { open: 2, idle: 0 });
    let error = client
        .send(&target("http://d.example/"), request("[]"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, SendError::TooManyConnections { connections_max: 2 }),
        "{error:?}"
    );
    assert_eq!(answered.load(Ordering::SeqCst), 3);
    drop((in_use, also));
    deliver(&client, "http://d.example/").await;
}

/// A refusal or failure to connect gives the connection's place back.
#[tokio::test(start_paused = true)]
async fn connect_errors_keep_their_kind_and_no_place() {
    let network = ScriptedNetwork::new(Arc::new(|target, _| {
        let error = std::io::Error::other("scripted");
        Err(match target.port() {
            1 => ConnectError::Resolution(error),
            2 => ConnectError::Connect(error),
            _ => ConnectError::Tls("scripted".into()),
        })
    }));
    let client = Client::new(Arc::new(network), ClientOptions::default());
    for port in 1..=3 {
        let target = target(&format!("https://a.example:{port}/"));
        let error = client.send(&target, request("[]")).await.unwrap_err();
        let as_expected = match error {
            SendError::Resolution(_) => port == 1,
            SendError::Connect(_) => port == 2,
            SendError::Tls(_) => port == 3,
            _ => false,
        };
        assert!(as_expected, "{port}: {error:?}");
    }
    assert_eq!(client.connections(), Connections::default());
}

/// The client has no deadline of its own: an exchange may stay open for as long as its caller waits (ED-178).
#[tokio::test(start_paused = true)]
async fn an_answer_may_take_as_long_as_the_caller_waits() {
    let closed = Arc::new(Mutex::new(false));
    let is_closed = Arc::clone(&closed);
    let network = ScriptedNetwork::new(Arc::new(move |_, mut stream| {
        let closed = Arc::clone(&closed);
        tokio::spawn(async move {
            read_request(&mut stream).await.unwrap();
            tokio::time::sleep(Duration::from_secs(179)).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            wait_for_close(&mut stream).await;
            *closed.lock().unwrap() = true;
        });
        Ok(())
    }));
    let client = Client::new(Arc::new(network), ClientOptions::default());
    let begun = Instant::now();
    let answer = client
        .send(&target("http://a.example/"), request("[]"))
        .await
        .unwrap();
    assert_eq!(
        (answer.status, begun.elapsed()),
        (StatusCode::OK, Duration::from_secs(179))
    );
    drop(answer);
    tokio::task::yield_now().await;
    assert!(*is_closed.lock().unwrap());
}

/// The same as on loopback, but the server closes at once: an answer that has arrived counts for more than the failure
/// to write the rest of the request.
#[tokio::test(start_paused = true)]
async fn an_answer_before_a_close_is_an_answer() {
    let network = ScriptedNetwork::new(Arc::new(|_, mut stream| {
        tokio::spawn(async move {
            let head = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(head).await.unwrap();
        });
        Ok(())
    }));
    let client = Client::new(Arc::new(network), ClientOptions::default());
    let mut large = request("");
    *large.body_mut() = vec![b'x'; 8 << 20].into();
    let answer = client
        .send(&target("http://a.example/"), large)
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.body.finish().await.is_complete);
    assert_eq!(client.connections(), Connections::default());
}
