//! The task that owns the groups of a node: it hands in what happens, sends the probes that are due, and publishes what
//! changed.
//!
//! ```text
//!   handle: set, remove, status, save --.                .--> probes, each a task of its own
//!   live groups: used, met, drained ----+--> Prober ----+--> live groups: what selections see
//!   probes that ended ------------------'   (a Node)    '--> observer: logs and metrics
//! ```
//!
//! Schedules follow the injected clock; deadlines and latencies are real (HP-029).

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hedgerow_io::clock::Clock;
use hedgerow_io::http::Connect;
use hedgerow_origin::budget::SelfCheck;
use hedgerow_origin::limits::PROBES_PER_SECOND;
use hedgerow_origin::node::{Due, Event, Fed, GroupStatus, Node, Saved, StreamId};
use hedgerow_origin::outcome::Observation;
use hedgerow_origin::settings::Group;
use hedgerow_origin::target::ProbeTarget;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::live::{Current, LiveGroup, Signal};
use crate::probe::{Aborted, Exchange, probe};

/// Commands that wait for the prober; whoever gives more waits.
const COMMANDS_MAX: usize = 64;
/// What requests met and the prober has not heard of yet. What is above is not told: it hears of the next failures.
const SIGNALS_MAX: usize = 4_096;
/// How often groups are asked whether they were used, by the injected clock.
const USES_ASKED_EVERY: Duration = Duration::from_secs(1);
/// And by real time at most so often.
const USES_ASKED_REAL_MIN: Duration = Duration::from_millis(50);
/// Real time between two probes of one stream at least, however fast the clock is (HP-029).
const REAL_SPACING_MIN: Duration = Duration::from_millis(250);

/// How a [`Prober`] is set up.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Decides phases and jitter (HP-080).
    pub seed: u64,
    /// How many probes are sent in a second at most (HP-190).
    pub probes_per_second: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            probes_per_second: PROBES_PER_SECOND,
        }
    }
}

/// A probe that ended with a sample.
#[derive(Debug)]
pub struct Probed<'p> {
    /// The number of the probe, of those of this prober.
    pub id: u64,
    /// What was probed.
    pub target: &'p ProbeTarget,
    /// Whom it was for, and how each judged it.
    pub fed: &'p [Fed<'p>],
    /// What it met.
    pub observation: &'p Observation,
    /// The address that was connected to, or tried last.
    pub peer: Option<SocketAddr>,
    /// How long it had waited for the budget (HP-190).
    pub delayed: Duration,
}

/// A probe that ended without one (HP-049).
#[derive(Debug)]
pub struct AbortedProbe<'p> {
    /// The number of the probe.
    pub id: u64,
    /// What was probed.
    pub target: &'p ProbeTarget,
    /// Whom it was for; nobody any more, if that is why.
    pub fed: &'p [Fed<'p>],
    /// Why it is no sample.
    pub why: &'p str,
}

/// Is told what the prober does, for logs and metrics. It is called from the prober's task and must not block.
pub trait Observer: Send + Sync + 'static {
    /// A probe ended with a sample.
    fn probed(&self, _probed: &Probed<'_>) {}

    /// A probe ended without one.
    fn aborted(&self, _aborted: &AbortedProbe<'_>) {}

    /// Something changed. `now` is a time since 1970.
    fn happened(&self, _event: &Event, _now: Duration) {}
}

/// Nobody.
impl Observer for () {}

/// Probes the origins of a node's groups while it is [run](Prober::run).
pub struct Prober {
    node: Node,
    connector: Arc<dyn Connect>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    groups: BTreeMap<String, Known>,
    shared: Groups,
    wake: Arc<Notify>,
    commands: mpsc::Receiver<Command>,
    signals: mpsc::Receiver<Signal>,
    signalling: mpsc::Sender<Signal>,
    probes: JoinSet<Result<Exchange, Aborted>>,
    in_flight: HashMap<Id, InFlight>,
    streams: HashMap<StreamId, Stream>,
    last_probe: u64,
    uses_asked_at: Option<Instant>,
}

type Groups = Arc<RwLock<HashMap<String, Arc<LiveGroup>>>>;

struct Known {
    group: Arc<Group>,
    live: Arc<LiveGroup>,
}

/// A probe that was sent.
struct InFlight {
    id: u64,
    due: Due,
}

/// What is known of a stream beside what the node knows.
#[derive(Default)]
struct Stream {
    check: SelfCheck,
    started: Option<Instant>,
    probe: Option<AbortHandle>,
}

enum Command {
    Restore(Saved, oneshot::Sender<()>),
    Set(String, Arc<Group>, oneshot::Sender<()>),
    Remove(String, oneshot::Sender<()>),
    Status(String, oneshot::Sender<Option<GroupStatus>>),
    Save(oneshot::Sender<Saved>),
}

impl Prober {
    /// A prober without groups, and what steers it while it is run.
    #[must_use]
    pub fn new(
        connector: Arc<dyn Connect>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
        options: Options,
    ) -> (Self, ProberHandle) {
        let (commanding, commands) = mpsc::channel(COMMANDS_MAX);
        let (signalling, signals) = mpsc::channel(SIGNALS_MAX);
        let shared = Groups::default();
        let handle = ProberHandle {
            commands: commanding,
            groups: Arc::clone(&shared),
        };
        let prober = Self {
            node: Node::new(options.seed, options.probes_per_second),
            connector,
            clock,
            observer,
            groups: BTreeMap::new(),
            shared,
            wake: Arc::new(Notify::new()),
            commands,
            signals,
            signalling,
            probes: JoinSet::new(),
            in_flight: HashMap::new(),
            streams: HashMap::new(),
            last_probe: 0,
            uses_asked_at: None,
        };
        (prober, handle)
    }

    /// Probes until `shutdown` ends. Returns what is to be kept for the next run (HP-197).
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Saved {
        let mut shutdown = pin!(shutdown);
        let wake = Arc::clone(&self.wake);
        loop {
            let wake_in = self.step();
            let sleep = async {
                match wake_in {
                    Some(span) => tokio::time::sleep(span).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => return self.stop(),
                Some(ended) = self.probes.join_next_with_id() => self.ended(ended),
                Some(command) = self.commands.recv() => self.command(command),
                Some(signal) = self.signals.recv() => self.signal(signal),
                () = wake.notified() => self.uses_asked_at = None,
                () = sleep => {}
            }
            while let Some(ended) = self.probes.try_join_next_with_id() {
                self.ended(ended);
            }
            while let Ok(signal) = self.signals.try_recv() {
                self.signal(signal);
            }
        }
    }

    /// Does what is due now, and says how long there is nothing more to do.
    fn step(&mut self) -> Option<Duration> {
        let now = self.now();
        self.ask_for_uses(now);
        while let Some(due) = self.node.poll(now) {
            self.send(due);
        }
        self.publish(now);
        let wake_at = self.node.wake_at();
        let wake = wake_at.map(|at| self.clock.wait(at.saturating_sub(now)));
        let asks_at = self.uses_asked_at.filter(|_| !self.groups.is_empty());
        let asks = asks_at.map(|asked| {
            let next = asked + self.clock.wait(USES_ASKED_EVERY).max(USES_ASKED_REAL_MIN);
            next.saturating_duration_since(Instant::now())
        });
        wake.into_iter().chain(asks).min()
    }

    fn now(&self) -> Duration {
        now(&*self.clock)
    }

    fn ask_for_uses(&mut self, now: Duration) {
        let every = self.clock.wait(USES_ASKED_EVERY).max(USES_ASKED_REAL_MIN);
        let is_early = |asked: Instant| asked.elapsed() < every;
        if self.uses_asked_at.is_some_and(is_early) {
            return;
        }
        self.uses_asked_at = Some(Instant::now());
        for (name, known) in &self.groups {
            if known.live.take_used() {
                self.node.used(name, now);
            }
        }
    }

    fn send(&mut self, due: Due) {
        self.last_probe += 1;
        let stream = self.streams.entry(due.stream).or_default();
        let mut start = Instant::now();
        if let Some(before) = stream.started {
            start = start.max(before + REAL_SPACING_MIN);
        }
        stream.started = Some(start);
        let (connector, clock) = (Arc::clone(&self.connector), Arc::clone(&self.clock));
        let (target, demands) = (Arc::clone(&due.target), due.demands);
        let sent = self.probes.spawn(async move {
            if start > Instant::now() {
                tokio::time::sleep_until(start).await;
            }
            let at = || now(&*clock);
            probe(&*connector, &target, &demands, at).await
        });
        let id = self.last_probe;
        self.in_flight.insert(sent.id(), InFlight { id, due });
        stream.probe = Some(sent);
    }

    fn ended(&mut self, ended: Result<(Id, Result<Exchange, Aborted>), JoinError>) {
        let (task, result) = match ended {
            Ok((task, result)) => (task, result),
            Err(error) => {
                let why = error.to_string();
                (error.id(), Err(Aborted { why }))
            }
        };
        // One that was dropped with its stream is not known any more.
        let Some(InFlight { id, due }) = self.in_flight.remove(&task) else {
            return;
        };
        let stream = self.streams.entry(due.stream).or_default();
        stream.probe = None;
        let result = result.and_then(|exchange| {
            let (late, timeout) = (exchange.late, due.demands.timeout);
            if late.is_zero() {
                stream.check.passed();
            } else if stream.check.is_own_fault(late, timeout) {
                let why = format!("the prober noticed the deadline {late:?} late");
                return Err(Aborted { why });
            }
            Ok(exchange)
        });
        match result {
            Ok(exchange) => {
                self.node
                    .finished(due.stream, exchange.observation, self.now());
                self.observer.probed(&Probed {
                    id,
                    target: &due.target,
                    fed: &self.node.fed(due.stream),
                    observation: &exchange.observation,
                    peer: exchange.peer,
                    delayed: due.delayed,
                });
            }
            Err(Aborted { why }) => {
                self.node.aborted(due.stream);
                self.observer.aborted(&AbortedProbe {
                    id,
                    target: &due.target,
                    fed: &self.node.fed(due.stream),
                    why: &why,
                });
            }
        }
    }

    fn signal(&mut self, signal: Signal) {
        let now = self.now();
        match signal {
            Signal::Met { group, origin, met } => self.node.met(&group, origin, met, now),
            Signal::Drained { group, origin } => self.node.drained(&group, origin),
        }
    }

    fn command(&mut self, command: Command) {
        // Whoever has given up waiting for the answer does not want it.
        match command {
            Command::Restore(saved, done) => {
                self.node.restore(saved);
                let _ = done.send(());
            }
            Command::Set(name, group, done) => {
                self.set(name, group);
                let _ = done.send(());
            }
            Command::Remove(name, done) => {
                self.remove(&name);
                let _ = done.send(());
            }
            Command::Status(name, answer) => {
                let now = self.now();
                let _ = answer.send(self.node.status(&name, now));
            }
            Command::Save(answer) => {
                let _ = answer.send(self.node.save());
            }
        }
    }

    fn set(&mut self, name: String, group: Arc<Group>) {
        let now = self.now();
        self.node.set(&name, Arc::clone(&group), now);
        if let Some(known) = self.groups.get_mut(&name) {
            known.group = group;
        } else if let Some(snapshot) = self.node.snapshot(&name) {
            let current = Current {
                group: Arc::clone(&group),
                snapshot,
            };
            let (wake, signals) = (Arc::clone(&self.wake), self.signalling.clone());
            let live = Arc::new(LiveGroup::new(&name, current, wake, signals));
            let known = Known {
                group,
                live: Arc::clone(&live),
            };
            self.groups.insert(name.clone(), known);
            let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
            shared.insert(name, live);
        }
        self.publish(now);
    }

    fn remove(&mut self, name: &str) {
        let now = self.now();
        self.node.remove(name, now);
        if let Some(known) = self.groups.remove(name) {
            known.live.end();
        }
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        shared.remove(name);
        drop(shared);
        self.publish(now);
    }

    /// Shows selections first, then people, what has changed.
    fn publish(&mut self, now: Duration) {
        for (name, snapshot) in self.node.snapshots(now) {
            if let Some(known) = self.groups.get(&*name) {
                let group = Arc::clone(&known.group);
                known.live.publish(Current { group, snapshot });
            }
        }
        for event in self.node.take_events() {
            match &event {
                Event::StreamEnded(id) => self.drop_stream(*id),
                Event::Idle { group, level } => {
                    if let Some(known) = self.groups.get(group) {
                        known.live.set_idle(*level > 0);
                    }
                }
                Event::Changed { .. }
                | Event::GroupAllUnhealthy { .. }
                | Event::Draining { .. } => {}
            }
            self.observer.happened(&event, now);
        }
    }

    /// HP-006: nobody waits for its probe any more.
    fn drop_stream(&mut self, id: StreamId) {
        let stream = self.streams.remove(&id);
        let Some(probe) = stream.and_then(|stream| stream.probe) else {
            return;
        };
        probe.abort();
        if let Some(InFlight { id, due }) = self.in_flight.remove(&probe.id()) {
            self.observer.aborted(&AbortedProbe {
                id,
                target: &due.target,
                fed: &[],
                why: "its origin is no longer probed",
            });
        }
    }

    fn stop(self) -> Saved {
        for InFlight { id, due } in self.in_flight.values() {
            self.observer.aborted(&AbortedProbe {
                id: *id,
                target: &due.target,
                fed: &self.node.fed(due.stream),
                why: "the prober stops",
            });
        }
        let groups = self.groups.values();
        groups.for_each(|known| known.live.end());
        self.node.save()
    }
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// Steers a [`Prober`] that is run. Clones steer the same one. When it has stopped, there are no groups.
#[derive(Debug, Clone)]
pub struct ProberHandle {
    commands: mpsc::Sender<Command>,
    groups: Groups,
}

impl ProberHandle {
    /// Hands in what an earlier run of the process kept. Groups that come later begin with it (HP-197).
    pub async fn restore(&self, saved: Saved) {
        self.ask(|done| Command::Restore(saved, done)).await;
    }

    /// Takes a group, a new one or a change of one. Returns when selections see it.
    pub async fn set(&self, name: &str, group: Arc<Group>) {
        self.ask(|done| Command::Set(name.to_owned(), group, done))
            .await;
    }

    /// Takes a group away. Its probes have stopped when this returns.
    pub async fn remove(&self, name: &str) {
        self.ask(|done| Command::Remove(name.to_owned(), done))
            .await;
    }

    /// What people see of a group (HP-207). Times in it are times since 1970.
    pub async fn status(&self, name: &str) -> Option<GroupStatus> {
        self.ask(|answer| Command::Status(name.to_owned(), answer))
            .await
            .flatten()
    }

    /// What is to be kept for the next run of the process.
    pub async fn save(&self) -> Saved {
        self.ask(Command::Save).await.unwrap_or_default()
    }

    /// A group that requests are to go to. Does not wait for the prober; whoever has the group keeps it, until it
    /// [is gone](LiveGroup::is_gone).
    #[must_use]
    pub fn group(&self, name: &str) -> Option<Arc<LiveGroup>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        groups.get(name).cloned()
    }

    async fn ask<A>(&self, command: impl FnOnce(oneshot::Sender<A>) -> Command) -> Option<A> {
        let (sender, answer) = oneshot::channel();
        self.commands.send(command(sender)).await.ok()?;
        answer.await.ok()
    }
}

/// A time since 1970, as windows that outlive the process need it.
fn now(clock: &dyn Clock) -> Duration {
    Duration::from_millis(clock.now().timestamp.as_millis())
}
