//! A client's connection of HTTP/2 (HP-180): hyper speaks it, and each of its requests is forwarded over HTTP/1.1.
//!
//! What cannot be said in HTTP/1.1 the same way is refused before it is written (HP-168): fields of a connection, names that
//! could be taken for others, a host that is said twice.

mod answers;
mod asks;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hedgerow_origin::outcome::{Met, Reason, Response as Told};
use hedgerow_origin::selector::Choice;
use hedgerow_origin::settings::Protocol;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use self::answers::{Body, Cut, Log};
use self::asks::Asks;
use crate::affinity;
use crate::answer::Own;
use crate::attempts::{Ask, Asked as AskedOrigins, Failed, Given, ask_origins};
use crate::decide::{About, Came, Decided, decide, is_idempotent};
use crate::edge::{Running, Shared};
use crate::forward::{Forwarded, Said, write_head};
use crate::guard::{Framing, Piece, Refusal, Version};
use crate::limits;
use crate::pool::{NotOpen, OriginConnection};
use crate::reply;
use crate::response::{Asked, ResponseHead, ResponseReader};
use crate::routing::{GroupState, Origins};
use crate::stream::ClientStream;
use crate::upstream::{self, Allowance, Broken, NotSent};

/// Parts of a body that wait for the client: what it does not take is not read from the origin (HP-185).
const PARTS_WAITING: usize = 1;

/// Serves a connection until it ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: impl ClientStream,
    came: Came,
    mut closing: watch::Receiver<bool>,
) {
    let running = Arc::new(AtomicUsize::new(0));
    let service = service_fn({
        let (shared, running) = (Arc::clone(&shared), Arc::clone(&running));
        move |request| {
            let (shared, running) = (Arc::clone(&shared), Arc::clone(&running));
            async move {
                running.fetch_add(1, Ordering::Relaxed);
                let response = answer(shared, came, request).await;
                running.fetch_sub(1, Ordering::Relaxed);
                Ok::<_, Infallible>(response)
            }
        }
    });
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::H2_STREAMS_MAX)
        .initial_stream_window_size(limits::H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::H2_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(limits::H2_SEND_BUFFER_BYTES)
        .max_header_list_size(limits::HEAD_BYTES_MAX as u32)
        .max_pending_accept_reset_streams(limits::H2_RESETS_PENDING_MAX)
        // Who does not answer a ping for so long is gone.
        .keep_alive_interval(shared.options.client_idle)
        .keep_alive_timeout(shared.options.request_timeout)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    let idles = async {
        let mut idle_since = Instant::now();
        loop {
            tokio::time::sleep(limits::SWEEP_INTERVAL).await;
            if running.load(Ordering::Relaxed) > 0 {
                idle_since = Instant::now();
            } else if idle_since.elapsed() >= shared.options.client_idle {
                return;
            }
        }
    };
    let ended = tokio::select! {
        ended = served.as_mut() => Some(ended),
        () = idles => None,
        _ = closing.wait_for(|closing| *closing) => None,
    };
    let ended = match ended {
        None => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        Some(ended) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of HTTP/2 broke");
    }
}

/// How a request's body is there.
enum Sending {
    /// As a whole, or there is none.
    Whole(Bytes),
    /// As it comes; gone once it was begun to be sent.
    Stream(Option<Incoming>),
}

async fn answer(shared: Arc<Shared>, came: Came, request: Request<Incoming>) -> Response<Body> {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let asks = match Asks::read(parts, body.is_end_stream()) {
        Ok(asks) => asks,
        Err(refusal) => {
            let about = About::new(&shared, came, std::iter::empty());
            let own = Own::refused(refusal);
            let log = Log::new(&shared, about, None, "", began);
            return log.own(&own, 0, None);
        }
    };
    let about = About::new(&shared, came, asks.fields());
    let routes = Arc::clone(&shared.routes.borrow());
    let method = asks.method.as_str();
    let of = (
        asks.host.as_str(),
        asks.path.as_str(),
        asks.query.as_deref(),
    );
    let decided = decide(&shared, &routes, came.scheme, &about, method.as_bytes(), of);
    let running = shared.begin();
    let log = |entry| Log::new(&shared, about.clone(), entry, method, began);
    match decided {
        _ if running.is_none() => log(None).own(&Own::OVERLOADED, 0, None),
        Decided::Own(own, entry) => log(entry).own(&own, 0, None),
        Decided::Redirect {
            entry,
            status,
            location,
        } => log(Some(entry)).redirect(status, &location),
        Decided::Forward { entry, group, path } => {
            let log = log(Some(Arc::clone(&entry)));
            let sending = match take_body(&shared, &asks, body).await {
                Ok(sending) => sending,
                Err(not_sent) => return log.not_sent(not_sent, 0, None),
            };
            let path = path.into_owned();
            let forwarding = Forwarding {
                shared: &shared,
                came,
                about: &about,
                asks: &asks,
                path: &path,
                protocol: entry.settings.forwarding_protocol.of_request(came.scheme),
                group: &group,
            };
            forwarding.forward(sending, log, running).await
        }
    }
}

async fn take_body(shared: &Shared, asks: &Asks, mut body: Incoming) -> Result<Sending, NotSent> {
    let length = match asks.framing {
        Framing::Length(length) if length > shared.options.request_body_bytes_max => {
            return Err(NotSent::TooLarge);
        }
        Framing::Length(length) if length <= limits::REPLAY_BYTES_MAX as u64 => length,
        Framing::None | Framing::UntilClose => return Ok(Sending::Whole(Bytes::new())),
        Framing::Length(_) | Framing::Chunked => return Ok(Sending::Stream(Some(body))),
    };
    let mut whole = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    while let Some(data) = next_data(&mut body, shared).await? {
        whole.extend_from_slice(&data);
    }
    if whole.len() as u64 != length {
        return Err(NotSent::Refused(Refusal::ContentLength));
    }
    Ok(Sending::Whole(whole.into()))
}

/// The next part of a client's body. Trailers are dropped.
async fn next_data(body: &mut Incoming, shared: &Shared) -> Result<Option<Bytes>, NotSent> {
    loop {
        let frame = timeout(shared.options.request_timeout, body.frame()).await;
        match frame.map_err(|_| NotSent::Late)? {
            None => return Ok(None),
            Some(Err(_)) => return Err(NotSent::Gone),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// A request on its way to origins.
struct Forwarding<'r> {
    shared: &'r Arc<Shared>,
    came: Came,
    about: &'r About,
    asks: &'r Asks,
    path: &'r str,
    protocol: Protocol,
    group: &'r Arc<GroupState>,
}

/// What an origin answered.
struct Answered {
    head: ResponseHead,
    cookies: Vec<String>,
    rest: Rest,
}

/// The body of an origin's response.
enum Rest {
    Whole(Bytes),
    /// It comes; how its connection is read, and what becomes of that.
    Comes(ResponseReader, Box<dyn tokio::io::AsyncRead + Send + Unpin>),
}

/// The same, with its body.
struct Asking<'a> {
    forwarding: &'a Forwarding<'a>,
    sending: Sending,
    may_resend: bool,
}

impl Ask for Asking<'_> {
    type Answer = Answered;

    fn pinned(&self, origins: &Origins) -> Option<usize> {
        let mut values = affinity::values(self.forwarding.asks.fields());
        values.find_map(|value| origins.pinned(value))
    }

    fn may_resend(&self) -> bool {
        self.may_resend
    }

    async fn ask(&mut self, origins: &Origins, choice: Choice) -> Result<Answered, Failed> {
        let (forwarding, may_resend) = (self.forwarding, self.may_resend);
        forwarding
            .attempt(origins, choice, &mut self.sending, may_resend)
            .await
    }
}

impl Forwarding<'_> {
    async fn forward(self, sending: Sending, log: Log, running: Option<Running>) -> Response<Body> {
        let is_stream = matches!(sending, Sending::Stream(_));
        let may_resend = is_idempotent(self.asks.method.as_str().as_bytes()) && !is_stream;
        let asking = Asking {
            forwarding: &self,
            sending,
            may_resend,
        };
        let asked = ask_origins(self.shared, self.group, asking).await;
        let AskedOrigins {
            result,
            attempts,
            origin,
        } = asked;
        match result {
            Ok(answered) => self.pass_on(answered, log, attempts, origin, running),
            Err(Given::Own(own)) => log.own(&own, attempts, origin.as_deref()),
            Err(Given::Client(not_sent)) => log.not_sent(not_sent, attempts, origin.as_deref()),
            Err(Given::Cut(_)) => log.own(
                &Own::failed(Reason::IncompleteResponse),
                attempts,
                origin.as_deref(),
            ),
        }
    }

    async fn attempt(
        &self,
        origins: &Origins,
        choice: Choice,
        sending: &mut Sending,
        may_resend: bool,
    ) -> Result<Answered, Failed> {
        let pool = &self.shared.pool;
        let settings = origins.settings(choice.place);
        let target = origins.target(choice.place, self.protocol);
        let (Some(settings), Some(target)) = (settings, target) else {
            return Err(Failed::NotOpen(NotOpen::Failed(Reason::DnsError)));
        };
        let host_header = Some(settings.host_header.as_str()).filter(|host| !host.is_empty());
        let out = self.request_head(host_header);
        let mut kept = pool.take(target);
        loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => pool.open(target).await.map_err(Failed::NotOpen)?,
            };
            let mut head = ResponseHead::default();
            let body = match sending {
                Sending::Stream(body) => {
                    let body = body.take();
                    let body = body.ok_or(Failed::Client(NotSent::Gone))?;
                    let rest = self.stream(connection, out, body, &mut head).await?;
                    let cookies = self.note(origins, choice, &head);
                    return Ok(Answered {
                        head,
                        cookies,
                        rest,
                    });
                }
                Sending::Whole(body) => body,
            };
            match self.exchange(&mut connection, &out, body, &mut head).await {
                Ok(()) => {}
                Err(broken) if may_resend && connection.may_have_been_stale(broken) => continue,
                Err(broken) => return Err(Failed::Broken(broken)),
            }
            let cookies = self.note(origins, choice, &head);
            let rest = match whole(&mut connection.reader).map_err(|reason| {
                Failed::Broken(Broken {
                    reason,
                    is_silent: false,
                })
            })? {
                Some(body) => {
                    if head.keeps_alive && connection.reader.is_empty() {
                        pool.keep(target, connection);
                    }
                    Rest::Whole(body)
                }
                None => Rest::Comes(connection.reader, Box::new(connection.stream)),
            };
            return Ok(Answered {
                head,
                cookies,
                rest,
            });
        }
    }

    fn request_head(&self, host_header: Option<&str>) -> Vec<u8> {
        let options = &self.shared.options;
        let (socket, client) = (
            self.came.peer.ip().to_canonical().to_string(),
            self.about.client.to_string(),
        );
        let mut out = Vec::new();
        write_head(
            &mut out,
            &Forwarded {
                method: self.asks.method.as_str().as_bytes(),
                path: self.path,
                query: self.asks.query.as_deref(),
                host: &self.asks.host,
                version: Version::Http2,
                framing: self.asks.framing,
                expects_continue: false,
                wants_websocket: false,
                names_fields: false,
            },
            &Said {
                profile: options.profile,
                scheme: self.came.scheme,
                socket: &socket,
                client: &client,
                reference: &self.about.reference,
                edge_id: &options.edge_id,
                hops: self.about.hops,
            },
            host_header,
            self.asks.fields(),
        );
        out
    }

    const fn asked(&self) -> Asked {
        Asked {
            is_head: matches!(self.asks.method, http::Method::HEAD),
            wants_websocket: false,
        }
    }

    async fn exchange(
        &self,
        connection: &mut OriginConnection,
        out: &[u8],
        body: &Bytes,
        head: &mut ResponseHead,
    ) -> Result<(), Broken> {
        let pause = self.shared.options.response_timeout;
        let broken = |reason| Broken {
            reason,
            is_silent: true,
        };
        let OriginConnection { stream, reader, .. } = connection;
        let sending = async {
            stream.write_all(out).await?;
            upstream::send(stream, body).await
        };
        match timeout(pause, sending).await {
            Err(_) => return Err(broken(Reason::Timeout)),
            Ok(Err(_)) => return Err(broken(Reason::ConnectionReset)),
            Ok(Ok(())) => {}
        }
        upstream::read_head(stream, reader, head, self.asked(), pause).await
    }

    /// Passes a body on as it comes. It goes on being sent while the response is read.
    async fn stream(
        &self,
        connection: OriginConnection,
        out: Vec<u8>,
        mut body: Incoming,
        head: &mut ResponseHead,
    ) -> Result<Rest, Failed> {
        let options = &self.shared.options;
        let OriginConnection {
            stream, mut reader, ..
        } = connection;
        let (mut read, mut write) = tokio::io::split(stream);
        let (tell, told) = tokio::sync::oneshot::channel();
        let (shared, is_chunked) = (
            Arc::clone(self.shared),
            self.asks.framing == Framing::Chunked,
        );
        tokio::spawn(async move {
            let mut allowance = Allowance::new(shared.options.request_body_bytes_max);
            let sent = async {
                write.write_all(&out).await.map_err(|_| NotSent::Origin)?;
                while let Some(data) = next_data(&mut body, &shared).await? {
                    allowance.take(data.len())?;
                    let mut piece = Vec::with_capacity(data.len() + 16);
                    upstream::add_piece(&mut piece, &data, is_chunked);
                    let pause = shared.options.request_timeout;
                    let sent = timeout(pause, upstream::send(&mut write, &piece)).await;
                    let sent = sent.map_err(|_| NotSent::Origin)?;
                    sent.map_err(|_| NotSent::Origin)?;
                }
                let end: &[u8] = if is_chunked {
                    upstream::LAST_CHUNK
                } else {
                    b""
                };
                let sent = upstream::send(&mut write, end).await;
                sent.map_err(|_| NotSent::Origin)
            };
            let sent = sent.await;
            if matches!(sent, Err(NotSent::Gone | NotSent::Late | NotSent::TooLarge)) {
                // What was sent must not look whole.
                let _ = write.shutdown().await;
            }
            let _ = tell.send(sent);
        });
        let patience = upstream::NO_DEADLINE;
        let reading = upstream::read_head(&mut read, &mut reader, head, self.asked(), patience);
        let no_answer = async {
            match told.await {
                Ok(Err(not_sent)) if not_sent != NotSent::Origin => Failed::Client(not_sent),
                // Its answer has its time from now on.
                _ => {
                    tokio::time::sleep(options.response_timeout).await;
                    Failed::Broken(Broken {
                        reason: Reason::Timeout,
                        is_silent: true,
                    })
                }
            }
        };
        tokio::select! {
            biased;
            read = reading => read.map_err(Failed::Broken)?,
            no_answer = no_answer => return Err(no_answer),
        }
        Ok(Rest::Comes(reader, Box::new(read)))
    }

    /// Tells the group what came, and makes the cookies of the session.
    fn note(&self, origins: &Origins, choice: Choice, head: &ResponseHead) -> Vec<String> {
        let live = &self.group.live;
        live.met(choice.id, Met::Response(Told::complete(head.status)));
        if head.drains {
            live.drained(choice.id);
        }
        let method = self.asks.method.as_str().as_bytes();
        if !choice.set_affinity || !affinity::is_uncacheable(method, head.status, head.fields()) {
            return Vec::new();
        }
        let Some(pin) = origins.pin(choice.place) else {
            return Vec::new();
        };
        let (same_site, cross_site) =
            affinity::set_cookies(pin, self.came.scheme == Protocol::Https);
        std::iter::once(same_site).chain(cross_site).collect()
    }

    fn pass_on(
        &self,
        answered: Answered,
        log: Log,
        attempts: u32,
        origin: Option<String>,
        running: Option<Running>,
    ) -> Response<Body> {
        let Answered {
            head,
            cookies,
            rest,
        } = answered;
        let status = head.status;
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        let headers = response.headers_mut();
        let mut add = |name: &[u8], value: &[u8]| {
            let name = HeaderName::from_bytes(name);
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
                headers.append(name, value);
            }
        };
        for (name, value, _) in reply::passed(&head) {
            add(name, value);
        }
        let names = self.shared.options.profile.names();
        add(names.reference.as_bytes(), self.about.reference.as_bytes());
        for cookie in &cookies {
            add(b"set-cookie", cookie.as_bytes());
        }
        if self.about.shows_details {
            add(
                names.origin_status.as_bytes(),
                status.to_string().as_bytes(),
            );
        }
        if let Some(length) = head.declared_length() {
            add(b"content-length", length.to_string().as_bytes());
        }
        match rest {
            Rest::Whole(body) => {
                if !body.is_empty() {
                    *response.body_mut() = Body::Whole(Some(body));
                }
                log.ended(status, None, attempts, origin.as_deref());
            }
            Rest::Comes(reader, read) => {
                let (tell, parts) = mpsc::channel(PARTS_WAITING);
                let pause = self.shared.options.response_timeout;
                tokio::spawn(async move {
                    let reason = pass_parts(reader, read, tell, pause).await;
                    log.ended(status, reason, attempts, origin.as_deref());
                    drop(running);
                });
                *response.body_mut() = Body::Parts(parts);
            }
        }
        response
    }
}

/// Passes the parts of a body on, and says why it did not come to its end, if it did not.
async fn pass_parts(
    mut reader: ResponseReader,
    mut read: Box<dyn tokio::io::AsyncRead + Send + Unpin>,
    tell: mpsc::Sender<Result<Bytes, Cut>>,
    pause: std::time::Duration,
) -> Option<&'static str> {
    loop {
        match upstream::next_data(&mut read, &mut reader, pause).await {
            Ok(None) => return None,
            Ok(Some(data)) => {
                if tell.send(Ok(data)).await.is_err() {
                    return Some("client_closed");
                }
            }
            Err(reason) => {
                let _ = tell.send(Err(Cut(reason))).await;
                return Some(Reason::IncompleteResponse.as_str());
            }
        }
    }
}

/// The whole body, if all of it has come already.
fn whole(reader: &mut ResponseReader) -> Result<Option<Bytes>, Reason> {
    if reader.is_ended() {
        return Ok(Some(Bytes::new()));
    }
    let mut ahead = reader.clone();
    let mut body = Vec::new();
    loop {
        match ahead.next_piece()? {
            Piece::Data(data) => body.extend_from_slice(&data),
            Piece::End => {
                *reader = ahead;
                return Ok(Some(body.into()));
            }
            Piece::More => return Ok(None),
        }
    }
}
