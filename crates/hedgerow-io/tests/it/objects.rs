//! Dead letters in an object store, over guarded connections (ED-251, ED-252, ED-319, FC-09): the real client of S3 against
//! a server in this process that speaks as much of it as is needed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hedgerow_core::spec::ContainerPath;
use hedgerow_io::dead_letter::{Blob, Objects, Place};
use hedgerow_io::http::ObjectHttp;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object_store::RetryConfig;
use object_store::aws::AmazonS3Builder;

use crate::server::{Server, client_allowing};

/// How the store is.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Works,
    /// Answers with this status and says why.
    Answers(u16, &'static str),
    /// Says nothing.
    Hangs,
    /// Answers without end.
    Endless,
}

#[derive(Default)]
struct Seen {
    requests: usize,
    objects: BTreeMap<String, (HeaderMap, Bytes)>,
}

struct Bucket {
    server: Server,
    mood: Arc<Mutex<Mood>>,
    seen: Arc<Mutex<Seen>>,
}

type AnyBody = BoxBody<Bytes, Infallible>;

struct EndlessBody;

impl Body for EndlessBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 4096])))))
    }
}

fn answer(status: u16, body: &'static str) -> Response<AnyBody> {
    let mut response = Response::new(Full::from(body).boxed());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

async fn serve(
    request: Request<Incoming>,
    mood: Mood,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<AnyBody>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    seen.lock().unwrap().requests += 1;
    match mood {
        Mood::Works => {}
        Mood::Answers(status, why) => {
            let mut answer = answer(status, why);
            if status == 307 {
                let away = "http://127.0.0.1:1/elsewhere".parse().unwrap();
                answer.headers_mut().insert("location", away);
            }
            return Ok(answer);
        }
        Mood::Hangs => std::future::pending().await,
        Mood::Endless => {
            return Ok(Response::new(EndlessBody.boxed()));
        }
    }
    let name = head.uri.path().strip_prefix("/bucket/").unwrap().to_owned();
    let mut seen = seen.lock().unwrap();
    match head.method {
        Method::PUT => {
            seen.objects.insert(name, (head.headers, body));
            let mut answer = Response::new(Empty::new().boxed());
            answer
                .headers_mut()
                .insert("etag", "\"1\"".parse().unwrap());
            Ok(answer)
        }
        Method::DELETE => {
            seen.objects.remove(&name).expect("it was there");
            Ok(answer(204, ""))
        }
        other => panic!("nobody asked for {other}"),
    }
}

impl Bucket {
    async fn start() -> Self {
        let mood = Arc::new(Mutex::new(Mood::Works));
        let seen = Arc::<Mutex<Seen>>::default();
        let (mood_now, seen_now) = (Arc::clone(&mood), Arc::clone(&seen));
        let server = Server::start(move |stream, _| {
            let (mood, seen) = (Arc::clone(&mood_now), Arc::clone(&seen_now));
            let service = service_fn(move |request| {
                let mood = *mood.lock().unwrap();
                serve(request, mood, Arc::clone(&seen))
            });
            async move {
                let io = TokioIo::new(stream);
                let serving =
                    hyper::server::conn::http1::Builder::new().serve_connection(io, service);
                // A client that has had enough closes its connection.
                let _ = serving.await;
            }
        })
        .await;
        Self { server, mood, seen }
    }

    fn objects(&self, allowed: &[&str]) -> Objects {
        objects_at(self.server.address, allowed)
    }

    fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().requests
    }
}

fn objects_at(address: SocketAddr, allowed: &[&str]) -> Objects {
    let retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let http = ObjectHttp::new(client_allowing(allowed), Duration::from_millis(500));
    let store = AmazonS3Builder::new()
        .with_http_connector(http)
        .with_endpoint(format!("http://{address}"))
        .with_allow_http(true)
        .with_region("eu-1")
        .with_bucket_name("bucket")
        .with_access_key_id("the-key")
        .with_secret_access_key("never-shown")
        .with_disable_bulk_delete(true)
        .with_retry(retry)
        .build()
        .unwrap();
    let place = Place {
        store: "bucket \"bucket\" of s3.example".to_owned(),
        credential: "access key \"the-key\"".to_owned(),
        has_attributes: true,
    };
    Objects::new(Arc::new(store), place)
}

fn blob() -> Blob {
    Blob {
        container: ContainerPath::parse("deadletter").unwrap(),
        name: "MY-SUB/2030/1/2/3/1b4e28ba-2fa1-11d2-883f-0016d3cca427.json".to_owned(),
        bytes: b"[{\"id\":\"1\"}]".to_vec(),
        subscription: "my-sub".to_owned(),
        topic: "orders".to_owned(),
        count: 1,
    }
}

const LOOPBACK: &[&str] = &["127.0.0.0/8"];

/// ED-251, ED-252: one object with its content type and metadata, in one request.
#[tokio::test]
async fn a_blob_is_an_object_with_metadata() {
    let bucket = Bucket::start().await;
    let objects = bucket.objects(LOOPBACK);
    objects.write(&blob()).await.unwrap();
    let seen = bucket.seen.lock().unwrap();
    assert_eq!((seen.requests, seen.objects.len()), (1, 1));
    let (headers, body) = &seen.objects[&blob().name];
    assert_eq!(body[..], blob().bytes);
    for (name, value) in [
        ("content-type", "application/json"),
        ("content-length", "12"),
        ("x-amz-meta-subscription", "my-sub"),
        ("x-amz-meta-topic", "orders"),
        ("x-amz-meta-count", "1"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    let signed = headers["authorization"].to_str().unwrap();
    assert!(signed.starts_with("AWS4-HMAC-SHA256 "), "{signed}");
}

/// ED-319: a try writes and deletes, and leaves nothing.
#[tokio::test]
async fn a_probe_leaves_nothing() {
    let bucket = Bucket::start().await;
    bucket.objects(LOOPBACK).probe().await.unwrap();
    let seen = bucket.seen.lock().unwrap();
    assert_eq!((seen.requests, seen.objects.len()), (2, 0));
}

/// FC-09, ED-319: a store that is away, in each of its ways, is asked once each time and told apart; then it works again.
#[tokio::test]
async fn what_keeps_a_store_from_being_written_to_is_said() {
    const DENIED: &str = "<Error><Code>AccessDenied</Code></Error>";
    const NO_BUCKET: &str = "<Error><Code>NoSuchBucket</Code></Error>";
    let bucket = Bucket::start().await;
    let objects = bucket.objects(LOOPBACK);
    let rows: [(Mood, bool, &[&str]); 8] = [
        (Mood::Answers(503, "busy"), false, &["503", "busy"]),
        (Mood::Answers(500, "oh"), false, &["500"]),
        (Mood::Hangs, false, &["deadline has elapsed"]),
        (
            Mood::Answers(403, DENIED),
            false,
            &["access key \"the-key\" has no permission", "AccessDenied"],
        ),
        (
            Mood::Answers(401, "who"),
            false,
            &["access key \"the-key\" is not accepted"],
        ),
        (
            Mood::Answers(404, NO_BUCKET),
            true,
            &["there is no such container", "NoSuchBucket"],
        ),
        (Mood::Answers(307, ""), false, &["307"]),
        (Mood::Endless, false, &["longer than 1048576 bytes"]),
    ];
    for (index, (mood, is_not_found, said)) in rows.into_iter().enumerate() {
        bucket.set(mood);
        let error = objects.write(&blob()).await.unwrap_err();
        assert_eq!(error.is_not_found, is_not_found, "{error}");
        let place = "cannot write to bucket \"bucket\" of s3.example: ";
        assert!(error.message.starts_with(place), "{error}");
        for part in said {
            assert!(error.message.contains(part), "{part}: {error}");
        }
        assert!(!error.message.contains("never-shown"), "{error}");
        assert!(error.message.len() <= 1_024);
        assert_eq!(bucket.requests(), index + 1, "asked once: {error}");
    }
    bucket.set(Mood::Works);
    objects.write(&blob()).await.unwrap();
    let nobody = objects_at("127.0.0.1:1".parse().unwrap(), LOOPBACK);
    let refused = nobody.write(&blob()).await.unwrap_err();
    assert!(refused.message.contains("cannot connect"), "{refused}");
}

/// FC-15: an object store is judged as a webhook is.
#[tokio::test]
async fn a_store_in_a_private_network_is_not_connected_to() {
    let bucket = Bucket::start().await;
    let error = bucket.objects(&[]).write(&blob()).await.unwrap_err();
    assert!(error.message.contains("the rule \"loopback\""), "{error}");
    assert_eq!((bucket.server.accepted(), bucket.requests()), (0, 0));
}
