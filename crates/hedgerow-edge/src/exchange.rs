//! One exchange of a client of HTTP/1 with an origin: the request goes out, as a whole or as it comes, and the response is
//! passed on as it comes.

use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow_io::http::Connection;
use hedgerow_origin::outcome::{Met, Reason, Response};
use hedgerow_origin::selector::Choice;
use tokio::time::{Instant, sleep_until, timeout};

use crate::affinity;
use crate::attempts::Failed;
use crate::decide::About;
use crate::guard::{Framing, Head, RequestGuard};
use crate::options::EdgeOptions;
use crate::reply::{self, Sent};
use crate::response::{Asked, ResponseHead, ResponseReader};
use crate::routing::{GroupState, Origins};
use crate::stream::ClientStream;
use crate::upstream::{self, Allowance, Broken, Cut, NotSent, flush};

/// What is known of a request whose answer is passed on.
pub(crate) struct Answering<'r> {
    pub options: &'r EdgeOptions,
    pub head: &'r Head,
    pub about: &'r About,
    pub origins: &'r Origins,
    pub choice: Choice,
    pub group: &'r GroupState,
    /// The server stops: no other request follows.
    pub is_closing: bool,
    pub is_https: bool,
}

/// Both connections, how they are read, and what is to be written to them.
pub(crate) struct Wires<'c, S> {
    pub client: &'c mut S,
    pub guard: &'c mut RequestGuard,
    pub origin: &'c mut Connection,
    pub reader: &'c mut ResponseReader,
    pub response: &'c mut ResponseHead,
    pub out: &'c mut Vec<u8>,
    pub reply: &'c mut Vec<u8>,
}

impl Answering<'_> {
    fn asked(&self) -> Asked {
        Asked {
            is_head: self.head.method() == b"HEAD",
            wants_websocket: self.head.wants_websocket,
        }
    }

    /// Tells the group what came.
    fn note(&self, response: &ResponseHead) {
        let live = &self.group.live;
        live.met(
            self.choice.id,
            Met::Response(Response::complete(response.status)),
        );
        if response.drains {
            live.drained(self.choice.id);
        }
    }

    /// Writes the head that the client gets. Returns whether the body is sent in chunks, and whether the connection ends with
    /// it: it does where the request has not been read to its end.
    fn begin_reply(
        &self,
        reply: &mut Vec<u8>,
        response: &ResponseHead,
        is_read: bool,
    ) -> (bool, bool) {
        let sent = Sent::of(response.framing, self.head.version);
        let ends = self.is_closing || !self.head.keeps_alive || !is_read;
        let closes = ends || sent == Sent::UntilClose;
        reply.clear();
        let profile = self.options.profile;
        let cookies = self.cookies(response);
        reply::write(reply, response, sent, profile, self.about, &cookies, closes);
        (sent == Sent::Chunked, closes)
    }

    /// The cookies that pin the session to its origin, where they may be written (HP-141, HP-145).
    fn cookies(&self, response: &ResponseHead) -> Vec<String> {
        let (choice, method) = (self.choice, self.head.method());
        if !choice.set_affinity
            || !affinity::is_uncacheable(method, response.status, response.fields())
        {
            return Vec::new();
        }
        let Some(pin) = self.origins.pin(choice.place) else {
            return Vec::new();
        };
        let (same_site, cross_site) = affinity::set_cookies(pin, self.is_https);
        std::iter::once(same_site).chain(cross_site).collect()
    }

    /// An exchange whose request is there as a whole. Returns whether the client's connection ends with the answer; `None`
    /// after a 101.
    pub(crate) async fn whole<S: ClientStream>(
        &self,
        wires: &mut Wires<'_, S>,
    ) -> Result<Option<bool>, Failed> {
        let pause = self.options.response_timeout;
        let client_pause = self.options.request_timeout;
        let Wires {
            client,
            origin,
            reader,
            response,
            out,
            reply,
            ..
        } = wires;
        let failed = |reason| {
            Failed::Broken(Broken {
                reason,
                is_silent: true,
            })
        };
        match timeout(pause, upstream::send(origin, out)).await {
            Err(_) => return Err(failed(Reason::Timeout)),
            Ok(Err(_)) => return Err(failed(Reason::ConnectionReset)),
            Ok(Ok(())) => {}
        }
        let read = upstream::read_head(origin, reader, response, self.asked(), pause);
        read.await.map_err(Failed::Broken)?;
        self.note(response);
        let (is_chunked, closes) = self.begin_reply(reply, response, true);
        if response.status == 101 {
            let written = flush(*client, reply, client_pause).await;
            return written.map(|()| None).map_err(Failed::Cut);
        }
        let pauses = (pause, client_pause);
        let relayed = upstream::relay(origin, reader, *client, reply, is_chunked, pauses);
        relayed.await.map_err(Failed::Cut)?;
        Ok(Some(closes))
    }

    /// An exchange whose request is passed on as it comes, while the response is passed back. Returns whether the client's
    /// connection ends with the answer.
    pub(crate) async fn stream<S: ClientStream>(
        &self,
        wires: &mut Wires<'_, S>,
    ) -> Result<bool, Failed> {
        let options = self.options;
        let pauses = (options.response_timeout, options.request_timeout);
        let Wires {
            client,
            guard,
            origin,
            reader,
            response,
            out,
            reply,
        } = wires;
        let (mut client_read, mut client_write) = tokio::io::split(&mut **client);
        let (mut origin_read, mut origin_write) = tokio::io::split(&mut **origin);
        let up = upstream::upload(
            guard,
            &mut client_read,
            &mut origin_write,
            out,
            self.head.framing == Framing::Chunked,
            (
                Allowance::new(options.request_body_bytes_max),
                options.request_timeout,
            ),
        );
        let (is_sent, has_begun) = (AtomicBool::new(false), AtomicBool::new(false));
        let down = async {
            let (asked, pause) = (self.asked(), upstream::NO_DEADLINE);
            let read = upstream::read_head(&mut origin_read, reader, response, asked, pause);
            read.await.map_err(Failed::Broken)?;
            has_begun.store(true, Ordering::Relaxed);
            self.note(response);
            let is_read = is_sent.load(Ordering::Relaxed);
            let (is_chunked, closes) = self.begin_reply(reply, response, is_read);
            let relayed = upstream::relay(
                &mut origin_read,
                reader,
                &mut client_write,
                reply,
                is_chunked,
                pauses,
            );
            relayed.await.map_err(Failed::Cut)?;
            Ok(closes)
        };
        let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
        let mut is_uploading = true;
        // The response has its time from when the request was sent, however long that took.
        let mut due = Instant::now() + upstream::NO_DEADLINE;
        loop {
            tokio::select! {
                biased;
                closes = &mut down => {
                    return closes.map(|closes| closes || !is_sent.load(Ordering::Relaxed));
                }
                sent = &mut up, if is_uploading => {
                    is_uploading = false;
                    due = Instant::now() + options.response_timeout;
                    match sent {
                        Ok(()) => is_sent.store(true, Ordering::Relaxed),
                        // It may have answered without reading all.
                        Err(NotSent::Origin) => {}
                        Err(_) if has_begun.load(Ordering::Relaxed) => {
                            return Err(Failed::Cut(Cut::Client));
                        }
                        Err(not_sent) => return Err(Failed::Client(not_sent)),
                    }
                }
                () = sleep_until(due), if !is_uploading && !has_begun.load(Ordering::Relaxed) => {
                    return Err(Failed::Broken(Broken {
                        reason: Reason::Timeout,
                        is_silent: true,
                    }));
                }
            }
        }
    }
}
