//! Connections to origins: opened through the guarded connector, kept while they idle, and never used again after anything
//! that was not in order (HP-171, HP-186, HP-188).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt as _};
use hedgerow_io::http::{Connect, Connection, Target};
use hedgerow_origin::outcome::Reason;
use hedgerow_prober::failure::{Own, of_connect};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use crate::limits;
use crate::response::ResponseReader;
use crate::upstream::Broken;

/// A connection to an origin.
#[derive(Debug)]
pub(crate) struct OriginConnection {
    pub stream: Connection,
    pub reader: ResponseReader,
    /// Whether a request was answered on it before.
    pub is_reused: bool,
    opened: Instant,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOpen {
    /// The origin's fault, as far as we know.
    Failed(Reason),
    /// Ours: no descriptor, for example.
    Own,
}

impl OriginConnection {
    /// Whether the origin has neither closed it nor said anything unasked.
    fn is_quiet(&mut self) -> bool {
        if !self.reader.is_empty() {
            return false;
        }
        let mut byte = [0; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        let polled = std::pin::Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer);
        matches!(polled, Poll::Pending)
    }
}

impl OriginConnection {
    /// Whether the origin may have closed it while the request was on its way, which says nothing about the origin: a new
    /// connection may be tried, where the request may be sent twice.
    pub(crate) fn may_have_been_stale(&self, broken: Broken) -> bool {
        self.is_reused && broken.is_silent && broken.reason == Reason::ConnectionReset
    }
}

/// Connections that idle, by where they go, each with since when; the last that came at the end.
type Idle = HashMap<Arc<Target>, VecDeque<(Instant, OriginConnection)>>;

/// Opens and keeps connections.
pub(crate) struct Pool {
    connector: Arc<dyn Connect>,
    connect_timeout: Duration,
    idle_time_max: Duration,
    idle: Mutex<Idle>,
}

impl Pool {
    pub(crate) fn new(
        connector: Arc<dyn Connect>,
        connect_timeout: Duration,
        idle_time_max: Duration,
    ) -> Self {
        Self {
            connector,
            connect_timeout,
            idle_time_max,
            idle: Mutex::new(HashMap::new()),
        }
    }

    /// One that idles and is in order, if there is one. The last one that came is the first to go: those that are too many
    /// grow old.
    pub(crate) fn take(&self, target: &Arc<Target>) -> Option<OriginConnection> {
        loop {
            let (since, mut connection) = self.idle().get_mut(target)?.pop_back()?;
            if since.elapsed() < self.idle_time_max && connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    /// Opens one.
    pub(crate) async fn open(&self, target: &Target) -> Result<OriginConnection, NotOpen> {
        let opening = self.connector.connect(target);
        match tokio::time::timeout(self.connect_timeout, opening).await {
            Ok(Ok(stream)) => Ok(OriginConnection {
                stream,
                reader: ResponseReader::new(),
                is_reused: false,
                opened: Instant::now(),
            }),
            Ok(Err(error)) => {
                tracing::debug!(%error, "no connection to an origin");
                Err(match of_connect(&error) {
                    Ok(reason) => NotOpen::Failed(reason),
                    Err(Own(_)) => NotOpen::Own,
                })
            }
            Err(_) => Err(NotOpen::Failed(Reason::ConnectTimeout)),
        }
    }

    /// Keeps one on which a response has ended in order, unless it is old: its address may be none of the name's any more.
    pub(crate) fn keep(&self, target: &Arc<Target>, mut connection: OriginConnection) {
        if connection.opened.elapsed() > limits::ORIGIN_CONNECTION_AGE_MAX {
            return;
        }
        connection.is_reused = true;
        let mut idle = self.idle();
        let of_target = idle.entry(Arc::clone(target)).or_default();
        if of_target.len() < limits::IDLE_PER_ORIGIN_MAX {
            of_target.push_back((Instant::now(), connection));
        }
    }

    /// Closes what has idled for too long, and all to targets that are not wanted now (HP-188).
    pub(crate) fn sweep(&self, is_wanted: impl Fn(&Target) -> bool) {
        let mut idle = self.idle();
        idle.retain(|target, connections| {
            if !is_wanted(target) {
                return false;
            }
            let is_old = |(since, connection): &(Instant, OriginConnection)| {
                since.elapsed() >= self.idle_time_max
                    || connection.opened.elapsed() > limits::ORIGIN_CONNECTION_AGE_MAX
            };
            connections.retain(|connection| !is_old(connection));
            !connections.is_empty()
        });
    }

    /// How many idle.
    pub(crate) fn idle_count(&self) -> usize {
        self.idle().values().map(VecDeque::len).sum()
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
