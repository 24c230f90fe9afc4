//! A client's connection of HTTP/1: reads its requests one after the other, forwards each, and answers.
//!
//! One task does all of it, the origin's connection included. What waits for the client or for an origin has a bound.

use std::borrow::Cow;
use std::sync::Arc;

use hedgerow_origin::outcome::Reason;
use hedgerow_origin::selector::Choice;
use hedgerow_origin::settings::Protocol;
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::affinity;
use crate::answer::{Own, phrase};
use crate::attempts::{Ask, Asked as AskedOrigins, Failed, Given, ask_origins};
use crate::decide::{About, Came, Decided, decide, is_idempotent};
use crate::edge::Shared;
use crate::exchange::{Answering, Wires};
use crate::forward::{Forwarded, Said, write_head};
use crate::guard::{Framing, Head, Piece, Refusal, RequestGuard};
use crate::limits;
use crate::observer::Exchange;
use crate::pool::{NotOpen, OriginConnection};
use crate::response::ResponseHead;
use crate::routing::{Entry, GroupState, Origins, Routes};
use crate::stream::ClientStream;
use crate::tunnel;
use crate::upstream::{Cut, NotSent, fill_request, flush};

/// A connection.
pub(crate) struct Http1<S> {
    shared: Arc<Shared>,
    stream: S,
    came: Came,
    /// As origins are told it.
    socket: String,
    closing: watch::Receiver<bool>,
    routes: watch::Receiver<Arc<Routes>>,
    guard: RequestGuard,
    head: Head,
    response: ResponseHead,
    /// What goes to the origin next.
    out: Vec<u8>,
    /// What goes to the client next.
    reply: Vec<u8>,
}

/// What comes next on a connection.
enum Next {
    Request,
    Refused(Refusal),
    /// A request was begun and does not come.
    Late,
    /// Nothing.
    Ended,
}

/// How a request's body is there.
enum Sending {
    None,
    /// As a whole, so that it can be sent again.
    Whole(Vec<u8>),
    /// As it comes.
    Stream,
}

/// How a request ended.
struct Ended {
    status: u16,
    reason: Option<&'static str>,
    origin: Option<String>,
    attempts: u32,
    after: After,
}

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Another request may follow.
    Next,
    /// It ends in order: the client gets to read its answer.
    Close,
    /// It ends at once.
    Drop,
}

impl After {
    const fn of(is_written: bool, closes: bool) -> Self {
        match (is_written, closes) {
            (false, _) => Self::Drop,
            (true, true) => Self::Close,
            (true, false) => Self::Next,
        }
    }
}

impl Ended {
    const fn new(status: u16, after: After) -> Self {
        Self {
            status,
            reason: None,
            origin: None,
            attempts: 0,
            after,
        }
    }

    fn own(own: &Own, after: After) -> Self {
        Self {
            reason: Some(own.code),
            ..Self::new(own.status, after)
        }
    }
}

impl<S: ClientStream> Http1<S> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stream: S,
        came: Came,
        closing: watch::Receiver<bool>,
    ) -> Self {
        let routes = shared.routes.subscribe();
        Self {
            socket: came.peer.ip().to_canonical().to_string(),
            shared,
            stream,
            came,
            closing,
            routes,
            guard: RequestGuard::new(),
            head: Head::default(),
            response: ResponseHead::default(),
            out: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Serves it until it ends.
    pub(crate) async fn run(mut self) {
        loop {
            match self.next().await {
                Next::Request => match self.answer().await {
                    After::Next => {}
                    After::Close => break,
                    After::Drop => return,
                },
                Next::Refused(refusal) => {
                    self.refuse(Own::refused(refusal)).await;
                    break;
                }
                Next::Late => {
                    self.refuse(Own::LATE).await;
                    break;
                }
                Next::Ended => return,
            }
        }
        self.linger().await;
    }

    /// Waits for the next request.
    async fn next(&mut self) -> Next {
        let options = &self.shared.options;
        let mut begun: Option<Instant> = None;
        loop {
            match self.guard.next_head(&mut self.head) {
                Ok(true) => return Next::Request,
                Ok(false) => {}
                Err(refusal) => return Next::Refused(refusal),
            }
            let has_begun = self.guard.buffered() > 0;
            let wait = if has_begun {
                let since = *begun.get_or_insert_with(Instant::now);
                options.request_timeout.saturating_sub(since.elapsed())
            } else if *self.closing.borrow() {
                return Next::Ended;
            } else {
                options.client_idle
            };
            let buffer = self.guard.buffer();
            if buffer.capacity() - buffer.len() < limits::READ_BYTES / 4 {
                buffer.reserve(limits::READ_BYTES);
            }
            let read = timeout(wait, self.stream.read_buf(buffer));
            let read = tokio::select! {
                biased;
                read = read => read,
                _ = self.closing.changed(), if !has_begun => return Next::Ended,
            };
            match read {
                Err(_) if has_begun => return Next::Late,
                Err(_) | Ok(Ok(0) | Err(_)) => return Next::Ended,
                Ok(Ok(_)) => {}
            }
        }
    }

    /// Answers a request that cannot be read; nothing behind it is.
    async fn refuse(&mut self, own: Own) {
        let about = About::new(&self.shared, self.came, std::iter::empty());
        self.write_own(&own, &about, false, true);
        let pause = self.shared.options.request_timeout;
        let _ = flush(&mut self.stream, &mut self.reply, pause).await;
        let ended = Ended::own(&own, After::Close);
        self.tell(&about, None, "", &ended, Instant::now());
    }

    fn write_own(&mut self, own: &Own, about: &About, is_head: bool, closes: bool) {
        let names = self.shared.options.profile.names();
        let mut fields = vec![(names.reference, about.reference.as_str())];
        if about.shows_details {
            fields.push((names.error, own.code));
        }
        own.write(&mut self.reply, &about.reference, is_head, &fields, closes);
    }

    /// Answers the request whose head was read.
    async fn answer(&mut self) -> After {
        let began = Instant::now();
        let about = About::new(&self.shared, self.came, self.head.fields());
        let shared = Arc::clone(&self.shared);
        let routes = Arc::clone(&self.routes.borrow_and_update());
        // The head is read by many and written by none until the next request.
        let head = std::mem::take(&mut self.head);
        let asked = (head.host(), head.path(), head.query());
        let decided = decide(
            &shared,
            &routes,
            self.came.scheme,
            &about,
            head.method(),
            asked,
        );
        let running = shared.begin();
        let (entry, ended) = match decided {
            _ if running.is_none() => (None, self.own(&head, &about, Own::OVERLOADED).await),
            Decided::Own(own, entry) => (entry, self.own(&head, &about, own).await),
            Decided::Redirect {
                entry,
                status,
                location,
            } => {
                let ended = self.redirect(&head, &about, status, &location).await;
                (Some(entry), ended)
            }
            Decided::Forward { entry, group, path } => {
                let ended = self.forward(&head, &about, &entry, &group, path).await;
                (Some(entry), ended)
            }
        };
        drop(running);
        let method = std::str::from_utf8(head.method()).unwrap_or_default();
        self.tell(&about, entry.as_deref(), method, &ended, began);
        self.head = head;
        match ended.after {
            After::Next if !self.guard.is_between_requests() => After::Close,
            after => after,
        }
    }

    fn tell(
        &self,
        about: &About,
        entry: Option<&Entry>,
        method: &str,
        ended: &Ended,
        began: Instant,
    ) {
        self.shared.observer.ended(&Exchange {
            route: entry.map(|entry| entry.name.as_str()),
            group: entry.map(|entry| entry.settings.origin_group.as_str()),
            origin: ended.origin.as_deref(),
            method,
            status: ended.status,
            reason: ended.reason,
            attempts: ended.attempts,
            reference: &about.reference,
            client: about.client,
            elapsed: began.elapsed(),
        });
    }

    /// Whether the connection ends with this answer: the client wants it, or its request was not read to the end.
    fn closes(&self, head: &Head) -> bool {
        !head.keeps_alive || !self.guard.is_between_requests() || *self.closing.borrow()
    }

    async fn own(&mut self, head: &Head, about: &About, own: Own) -> Ended {
        let closes = self.closes(head);
        self.write_own(&own, about, head.method() == b"HEAD", closes);
        let pause = self.shared.options.request_timeout;
        let is_written = flush(&mut self.stream, &mut self.reply, pause)
            .await
            .is_ok();
        Ended::own(&own, After::of(is_written, closes))
    }

    async fn redirect(&mut self, head: &Head, about: &About, status: u16, location: &str) -> Ended {
        let closes = self.closes(head);
        let reference = self.shared.options.profile.names().reference;
        let text = format!(
            "HTTP/1.1 {status} {}\r\nLocation: {location}\r\nContent-Length: 0\r\n{reference}: {}\r\n{}\r\n",
            phrase(status),
            about.reference,
            if closes { "Connection: close\r\n" } else { "" }
        );
        self.reply.extend_from_slice(text.as_bytes());
        let pause = self.shared.options.request_timeout;
        let is_written = flush(&mut self.stream, &mut self.reply, pause)
            .await
            .is_ok();
        Ended::new(status, After::of(is_written, closes))
    }

    /// Forwards a request to an origin of its group, and to others if need be.
    async fn forward(
        &mut self,
        head: &Head,
        about: &About,
        entry: &Entry,
        group: &Arc<GroupState>,
        path: Cow<'_, str>,
    ) -> Ended {
        let shared = Arc::clone(&self.shared);
        if let Framing::Length(length) = head.framing
            && length > shared.options.request_body_bytes_max
        {
            return self.own(head, about, Own::BODY_TOO_LARGE).await;
        }
        let sending = match self.take_body(head).await {
            Ok(sending) => sending,
            Err(not_sent) => return self.not_sent(head, about, not_sent).await,
        };
        let may_resend = is_idempotent(head.method()) && !matches!(sending, Sending::Stream);
        let request = Request {
            head,
            about,
            path: &path,
            sending,
            may_resend,
            protocol: entry
                .settings
                .forwarding_protocol
                .of_request(self.came.scheme),
            group,
        };
        let asking = Asking {
            connection: self,
            request: &request,
        };
        let asked = ask_origins(&shared, group, asking).await;
        let AskedOrigins {
            result,
            attempts,
            origin,
        } = asked;
        let ended = match result {
            Ok(ended) => ended,
            Err(Given::Own(own)) => self.own(head, about, own).await,
            Err(Given::Client(not_sent)) => self.not_sent(head, about, not_sent).await,
            Err(Given::Cut(cut)) => self.cut(cut),
        };
        Ended {
            origin,
            attempts,
            ..ended
        }
    }

    /// Takes a small body as a whole; a large one is passed on as it comes.
    async fn take_body(&mut self, head: &Head) -> Result<Sending, NotSent> {
        let options = &self.shared.options;
        if head.framing != Framing::None && head.expects_continue {
            let mut go_on = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
            let sent = flush(&mut self.stream, &mut go_on, options.request_timeout).await;
            sent.map_err(|_| NotSent::Gone)?;
        }
        let length = match head.framing {
            Framing::None | Framing::Length(0) | Framing::UntilClose => return Ok(Sending::None),
            Framing::Length(length) if length <= limits::REPLAY_BYTES_MAX as u64 => length,
            Framing::Length(_) | Framing::Chunked => return Ok(Sending::Stream),
        };
        let mut body = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        loop {
            match self.guard.next_piece().map_err(NotSent::Refused)? {
                Piece::Data(data) => body.extend_from_slice(&data),
                Piece::End => return Ok(Sending::Whole(body)),
                Piece::More => {
                    fill_request(&mut self.guard, &mut self.stream, options.request_timeout)
                        .await?;
                }
            }
        }
    }

    async fn not_sent(&mut self, head: &Head, about: &About, not_sent: NotSent) -> Ended {
        let own = match not_sent {
            NotSent::Refused(refusal) => Own::refused(refusal),
            NotSent::TooLarge => Own::BODY_TOO_LARGE,
            NotSent::Late => Own::LATE,
            NotSent::Origin => Own::failed(Reason::ConnectionReset),
            NotSent::Gone => return client_closed(),
        };
        let ended = self.own(head, about, own).await;
        let after = match ended.after {
            After::Next => After::Close,
            after => after,
        };
        Ended { after, ..ended }
    }

    /// The response was begun, and will not end (HP-176).
    fn cut(&mut self, cut: Cut) -> Ended {
        let Cut::Origin(_) = cut else {
            return client_closed();
        };
        if let Err(error) = self.stream.cut() {
            tracing::debug!(%error, "a connection cannot be cut");
        }
        Ended {
            reason: Some(Reason::IncompleteResponse.as_str()),
            ..Ended::new(self.response.status, After::Drop)
        }
    }

    /// Asks one origin.
    async fn attempt(
        &mut self,
        request: &Request<'_>,
        origins: &Origins,
        choice: Choice,
    ) -> Result<Ended, Failed> {
        let shared = Arc::clone(&self.shared);
        let settings = origins.settings(choice.place);
        let target = origins.target(choice.place, request.protocol);
        let (Some(settings), Some(target)) = (settings, target) else {
            return Err(Failed::NotOpen(NotOpen::Failed(Reason::DnsError)));
        };
        let host_header = Some(settings.host_header.as_str()).filter(|host| !host.is_empty());
        let mut kept = shared.pool.take(target);
        loop {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => shared.pool.open(target).await.map_err(Failed::NotOpen)?,
            };
            self.write_request(request, host_header);
            let asked = self.exchange(request, origins, choice, &mut connection);
            match asked.await {
                Ok(Done::Kept(ended)) => {
                    shared.pool.keep(target, connection);
                    return Ok(ended);
                }
                Ok(Done::Over(ended)) => return Ok(ended),
                Err(Failed::Broken(broken))
                    if request.may_resend && connection.may_have_been_stale(broken) => {}
                Err(failed) => return Err(failed),
            }
        }
    }

    fn write_request(&mut self, request: &Request<'_>, host_header: Option<&str>) {
        let Request { head, about, .. } = *request;
        let options = &self.shared.options;
        let client = about.client.to_string();
        self.out.clear();
        write_head(
            &mut self.out,
            &Forwarded {
                method: head.method(),
                path: request.path,
                query: head.query(),
                host: head.host(),
                version: head.version,
                framing: head.framing,
                // It was told to go on already.
                expects_continue: false,
                wants_websocket: head.wants_websocket,
                names_fields: head.names_fields,
            },
            &Said {
                profile: options.profile,
                scheme: self.came.scheme,
                socket: &self.socket,
                client: &client,
                reference: &about.reference,
                edge_id: &options.edge_id,
                hops: about.hops,
            },
            host_header,
            head.fields(),
        );
        if let Sending::Whole(body) = &request.sending {
            self.out.extend_from_slice(body);
        }
    }

    /// One exchange over one connection.
    async fn exchange(
        &mut self,
        request: &Request<'_>,
        origins: &Origins,
        choice: Choice,
        connection: &mut OriginConnection,
    ) -> Result<Done, Failed> {
        let shared = Arc::clone(&self.shared);
        let answering = Answering {
            options: &shared.options,
            head: request.head,
            about: request.about,
            origins,
            choice,
            group: request.group,
            is_closing: *self.closing.borrow(),
            is_https: self.came.scheme == Protocol::Https,
        };
        let mut wires = Wires {
            client: &mut self.stream,
            guard: &mut self.guard,
            origin: &mut connection.stream,
            reader: &mut connection.reader,
            response: &mut self.response,
            out: &mut self.out,
            reply: &mut self.reply,
        };
        let closes = match request.sending {
            Sending::Stream => answering.stream(&mut wires).await?,
            Sending::None | Sending::Whole(_) => match answering.whole(&mut wires).await? {
                Some(closes) => closes,
                None => return Ok(self.tunnel(connection, request.group, choice).await),
            },
        };
        let ended = Ended::new(self.response.status, After::of(true, closes));
        let reader = &connection.reader;
        let is_whole = reader.is_ended() && reader.is_empty() && self.guard.is_between_requests();
        Ok(if self.response.keeps_alive && is_whole {
            Done::Kept(ended)
        } else {
            Done::Over(ended)
        })
    }

    /// Passes bytes both ways after a 101.
    async fn tunnel(
        &mut self,
        connection: &mut OriginConnection,
        group: &GroupState,
        choice: Choice,
    ) -> Done {
        let options = &self.shared.options;
        let bounds = tunnel::Bounds {
            idle: options.websocket_idle,
            time_max: options.websocket_time_max,
            drain: options.drain,
        };
        let pause = options.request_timeout;
        let mut early = self.guard.take_rest().to_vec();
        let mut late = connection.reader.take_rest().to_vec();
        let passed = async {
            flush(&mut connection.stream, &mut early, pause).await?;
            flush(&mut self.stream, &mut late, pause).await
        };
        if passed.await.is_ok() {
            let reader = group.live.reader();
            tunnel::run(
                &mut self.stream,
                &mut connection.stream,
                bounds,
                reader,
                choice.id,
            )
            .await;
        }
        Done::Over(Ended::new(101, After::Drop))
    }

    /// Reads what a client still sends, within bounds, so that it gets to read its answer.
    async fn linger(mut self) {
        use tokio::io::AsyncWriteExt as _;
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let reading = async {
            let mut buffer = vec![0; limits::READ_BYTES];
            let mut length = 0;
            while length <= limits::LINGER_BYTES_MAX {
                match self.stream.read(&mut buffer).await {
                    Ok(read) if read > 0 => length += read,
                    _ => break,
                }
            }
        };
        let _ = timeout(limits::LINGER_TIME, reading).await;
    }
}

/// What became of an exchange that was answered.
enum Done {
    /// The origin takes another request on the connection.
    Kept(Ended),
    /// It does not.
    Over(Ended),
}

/// A client that went away before it was answered.
fn client_closed() -> Ended {
    Ended {
        reason: Some("client_closed"),
        ..Ended::new(499, After::Drop)
    }
}

/// A request on its way to origins.
struct Request<'r> {
    head: &'r Head,
    about: &'r About,
    /// The path that was matched.
    path: &'r str,
    sending: Sending,
    may_resend: bool,
    /// How origins are spoken to.
    protocol: Protocol,
    group: &'r GroupState,
}

/// A request, and the connection that it came on.
struct Asking<'a, S> {
    connection: &'a mut Http1<S>,
    request: &'a Request<'a>,
}

impl<S: ClientStream> Ask for Asking<'_, S> {
    type Answer = Ended;

    fn pinned(&self, origins: &Origins) -> Option<usize> {
        let mut values = affinity::values(self.request.head.fields());
        values.find_map(|value| origins.pinned(value))
    }

    fn may_resend(&self) -> bool {
        self.request.may_resend
    }

    async fn ask(&mut self, origins: &Origins, choice: Choice) -> Result<Ended, Failed> {
        self.connection.attempt(self.request, origins, choice).await
    }
}
