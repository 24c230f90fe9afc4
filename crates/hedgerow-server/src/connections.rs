//! Who is connected: so many at a time, and publishing and the admin API have shares of their own (design D6).
//!
//! A connection is *quiet* while no request of its runs: before its first one, and between two. When there is no room for a new
//! one, the connection that was quiet for longest is let go; so idle connections keep nobody out. Requests that run are left
//! alone, and each kind may take its share only: when all of one kind's are taken, its next request is refused, and there is
//! room for the other kind. `/healthz` belongs to neither and is never refused.
//!
//! Handshakes of TLS are bounded too: when there are too many, the one that was begun first is let go.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long a quiet connection that is let go gets to end: what it still has to write is in its buffer.
pub const LET_GO_TIME: Duration = Duration::from_secs(1);

/// What [`Member::since`] is while a request runs.
const BUSY: u64 = 0;
/// What it is once the connection was let go.
const LET_GO: u64 = u64::MAX;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Publish,
    Admin,
    Health,
}

/// Requests of each kind at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    publish: usize,
    admin: usize,
}

impl Shares {
    /// An eighth for the admin API, a little that nobody takes, so that there is always one to let go, the rest for
    /// publishing.
    fn of(connections_max: usize) -> Self {
        let admin = (connections_max / 8).max(1);
        let spare = (connections_max / 64).max(1);
        Self {
            publish: connections_max.saturating_sub(admin + spare).max(1),
            admin,
        }
    }
}

/// All connections.
pub struct Connections {
    shares: Shares,
    slots: Arc<Semaphore>,
    shaking: Arc<Semaphore>,
    /// Gone through only when there is no room.
    members: Mutex<HashMap<u64, Arc<Member>>>,
    /// Counts connections, and the moments at which they become quiet.
    ticks: AtomicU64,
    publishing: AtomicUsize,
    asking: AtomicUsize,
    /// Whether somebody waits for a connection to become quiet.
    is_wanted: AtomicBool,
    became_quiet: Notify,
}

/// What is known of a connection.
struct Member {
    /// The tick at which it became quiet, [`BUSY`] or [`LET_GO`].
    since: AtomicU64,
    is_shaking: AtomicBool,
    requests: AtomicU32,
    let_go: Notify,
}

impl Connections {
    pub fn new(connections_max: usize, handshakes_max: usize) -> Arc<Self> {
        let connections_max = connections_max.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            shares: Shares::of(connections_max),
            slots: Arc::new(Semaphore::new(connections_max)),
            shaking: Arc::new(Semaphore::new(handshakes_max.min(connections_max).max(1))),
            members: Mutex::default(),
            ticks: AtomicU64::new(BUSY + 1),
            publishing: AtomicUsize::new(0),
            asking: AtomicUsize::new(0),
            is_wanted: AtomicBool::new(false),
            became_quiet: Notify::new(),
        })
    }

    /// Waits until there is room for another connection, and makes it. Dropped midway, nothing was taken.
    pub async fn admit(self: &Arc<Self>) -> Connection {
        let slot = self.slot().await;
        let id = self.tick();
        let member = Arc::new(Member {
            since: AtomicU64::new(id),
            is_shaking: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            let_go: Notify::new(),
        });
        self.members().insert(id, Arc::clone(&member));
        Connection {
            connections: Arc::clone(self),
            id,
            member,
            _slot: slot,
        }
    }

    async fn slot(&self) -> OwnedSemaphorePermit {
        let acquire = || async {
            let slot = Arc::clone(&self.slots).acquire_owned().await;
            slot.expect("the semaphore is never closed")
        };
        loop {
            if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
                return slot;
            }
            let mut became_quiet = pin!(self.became_quiet.notified());
            became_quiet.as_mut().enable();
            self.is_wanted.store(true, Ordering::SeqCst);
            let got = if self.let_go_of_first(|_| true) {
                // It ends within this time, unless a request of its has just begun.
                tokio::time::timeout(LET_GO_TIME, acquire()).await.ok()
            } else {
                tokio::select! {
                    slot = acquire() => Some(slot),
                    () = became_quiet => None,
                }
            };
            self.is_wanted.store(false, Ordering::SeqCst);
            if let Some(slot) = got {
                return slot;
            }
        }
    }

    /// Lets go of the connection that has been quiet for longest, of those that are wanted. Returns whether there was one.
    fn let_go_of_first(&self, is_wanted: impl Fn(&Member) -> bool) -> bool {
        let members = self.members();
        loop {
            let quiet = members.values().filter(|member| is_wanted(member));
            let quiet = quiet.map(|member| (member.since.load(Ordering::SeqCst), member));
            let quiet = quiet.filter(|(since, _)| !matches!(*since, BUSY | LET_GO));
            let Some((since, member)) = quiet.min_by_key(|(since, _)| *since) else {
                return false;
            };
            let let_go =
                member
                    .since
                    .compare_exchange(since, LET_GO, Ordering::SeqCst, Ordering::SeqCst);
            if let_go.is_ok() {
                member.let_go.notify_one();
                return true;
            }
        }
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    fn members(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every connection has ended.
    pub async fn ended(&self, connections_max: usize) {
        let all = u32::try_from(connections_max.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let _all = self.slots.acquire_many(all).await;
    }

    fn taken(&self, kind: Kind) -> Option<(&AtomicUsize, usize)> {
        match kind {
            Kind::Publish => Some((&self.publishing, self.shares.publish)),
            Kind::Admin => Some((&self.asking, self.shares.admin)),
            Kind::Health => None,
        }
    }
}

/// A connection that was let in; it takes its room until it is dropped.
pub struct Connection {
    connections: Arc<Connections>,
    id: u64,
    member: Arc<Member>,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    /// Resolves when its room is wanted for another one.
    pub async fn let_go(&self) {
        self.member.let_go.notified().await;
    }

    /// Whether a request of its runs.
    pub fn is_busy(&self) -> bool {
        self.member.since.load(Ordering::SeqCst) == BUSY
    }

    /// Whether it never had a request: nothing of an answer can be on its way then.
    pub fn is_fresh(&self) -> bool {
        self.member.requests.load(Ordering::SeqCst) == 0
    }

    /// Begins a handshake, which is under way until the guard is dropped. If there are too many, the first of them ends.
    pub async fn begin_handshake(&self) -> Handshake<'_> {
        let connections = &self.connections;
        let shaking = Arc::clone(&connections.shaking);
        let place = if let Ok(place) = Arc::clone(&shaking).try_acquire_owned() {
            place
        } else {
            connections.let_go_of_first(|member| member.is_shaking.load(Ordering::SeqCst));
            let place = shaking.acquire_owned().await;
            place.expect("the semaphore is never closed")
        };
        self.member.is_shaking.store(true, Ordering::SeqCst);
        Handshake {
            member: &self.member,
            _place: place,
        }
    }

    /// Begins a request; `None` if all requests of its kind are taken.
    pub fn begin(self: &Arc<Self>, kind: Kind) -> Option<Request> {
        if let Some((count, max)) = self.connections.taken(kind)
            && count.fetch_add(1, Ordering::SeqCst) >= max
        {
            count.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        self.member.requests.fetch_add(1, Ordering::SeqCst);
        self.member.since.store(BUSY, Ordering::SeqCst);
        Some(Request {
            connection: Arc::clone(self),
            kind,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.members().remove(&self.id);
    }
}

/// A handshake that is under way.
pub struct Handshake<'c> {
    member: &'c Member,
    _place: OwnedSemaphorePermit,
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.member.is_shaking.store(false, Ordering::SeqCst);
    }
}

/// A request that runs until this is dropped, with the last of its answer.
pub struct Request {
    connection: Arc<Connection>,
    kind: Kind,
}

impl Drop for Request {
    fn drop(&mut self) {
        let connections = &self.connection.connections;
        if let Some((count, _)) = connections.taken(self.kind) {
            count.fetch_sub(1, Ordering::SeqCst);
        }
        let tick = connections.tick();
        self.connection.member.since.store(tick, Ordering::SeqCst);
        if connections.is_wanted.load(Ordering::SeqCst) {
            connections.became_quiet.notify_one();
        }
    }
}

/// The body of an answer, with which its request ends.
pub struct Answered<B> {
    body: B,
    _request: Option<Request>,
}

impl<B> Answered<B> {
    pub const fn new(body: B, request: Option<Request>) -> Self {
        Self {
            body,
            _request: request,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_one_to_let_go() {
        for (connections_max, publish, admin) in [
            (4096, 3520, 512),
            (64, 55, 8),
            (8, 6, 1),
            (3, 1, 1),
            (1, 1, 1),
        ] {
            assert_eq!(Shares::of(connections_max), Shares { publish, admin });
            assert!(connections_max < 3 || publish + admin < connections_max);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_quiet_for_longest_is_let_go() {
        let connections = Connections::new(3, 1);
        let first = Arc::new(connections.admit().await);
        let second = Arc::new(connections.admit().await);
        let third = Arc::new(connections.admit().await);
        // The first is quiet since later than the second, and the third is busy.
        drop(first.begin(Kind::Health));
        let request = third.begin(Kind::Publish).unwrap();
        let admitted = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.admit().await }
        });
        second.let_go().await;
        assert!(second.is_fresh() && !second.is_busy());
        drop(second);
        let fourth = Arc::new(admitted.await.unwrap());
        assert!(third.is_busy() && !first.is_fresh());

        // Nobody is quiet: the next one waits until somebody is.
        let (one, two) = (first.begin(Kind::Health), fourth.begin(Kind::Admin));
        let admitted = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.admit().await }
        });
        tokio::task::yield_now().await;
        assert!(!admitted.is_finished());
        drop(request);
        third.let_go().await;
        drop(third);
        admitted.await.unwrap();
        drop((one, two));
    }

    #[tokio::test]
    async fn each_kind_has_its_share() {
        let connections = Connections::new(3, 1);
        let connection = Arc::new(connections.admit().await);
        let publish = connection.begin(Kind::Publish);
        assert!(publish.is_some() && connection.begin(Kind::Publish).is_none());
        let admin = connection.begin(Kind::Admin);
        assert!(admin.is_some() && connection.begin(Kind::Admin).is_none());
        assert!(connection.begin(Kind::Health).is_some());
        drop(publish);
        assert!(connection.begin(Kind::Publish).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_of_too_many_handshakes_is_let_go() {
        let connections = Connections::new(8, 1);
        let (slow, quick) = (connections.admit().await, connections.admit().await);
        let handshake = slow.begin_handshake().await;
        let begun = tokio::spawn(async move {
            drop(quick.begin_handshake().await);
        });
        slow.let_go().await;
        assert!(!begun.is_finished());
        drop(handshake);
        begun.await.unwrap();
    }
}
