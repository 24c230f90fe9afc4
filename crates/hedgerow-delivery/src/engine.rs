//! The loop of one node: follows the durable log, folds it into the view, offers events to subscriptions, starts
//! attempts and records what became of them.
//!
//! One task owns everything here; nothing is locked. Each turn takes all inputs that are ready, then acts once:
//!
//! ```text
//! durable records --> fold into the view --> offer events, note retries      (engine/reader.rs)
//! reports         --> judge --> journal the settlement                       (engine/settlements.rs)
//! commands        --> journal a catalog change, or answer                    (engine/declarations.rs, engine/topics.rs,
//!                                                                             engine/origin_groups.rs)
//! declared        --> make, renew and remove readers and runners             (engine/subscriptions.rs)
//! pauses          --> look for what expires meanwhile                        (engine/pauses.rs)
//! purges          --> drop what is pending, bit by bit                        (engine/purges.rs)
//! sparse          --> begin what few events wait, so that others are forgotten  (engine/sparse.rs)
//! dead letters    --> write what is due, journal what became of it           (engine/dead_letters.rs)
//! handshakes      --> ask endpoints, journal what they said                   (engine/validations.rs)
//!                 --> choose origins of groups                             (engine/groups.rs)
//! the clock       --> refill due deliveries, write down places, checkpoint   (engine/upkeep.rs)
//!                 --> say of what was held when it is due                    (engine/holds.rs)
//!                 --> start whatever can start                               (engine/attempts.rs)
//!                     one after the other                                    (engine/ordering.rs)
//!                     several together                       (engine/gathering.rs, engine/batches.rs)
//!                 --> end what is not attempted any more                     (engine/endings.rs)
//! ```
//!
//! What is journaled counts only when it comes back as a durable record: a retry is put among the due ones then, and not
//! before (ED-207). The loop waits for no sync of the log; checkpoints and reads of old events are other threads' work.
//!
//! The engine is crash-only: when the store fails it returns, and [`crate::grid`] opens store and engine again. Running
//! attempts are then what they are after a crash.

mod attempts;
mod batches;
mod checks;
mod consents;
mod dead_letters;
mod declarations;
mod departures;
mod domains;
mod dry_runs;
mod endings;
mod explaining;
mod gathering;
mod gauging;
mod groups;
mod handshakes;
mod holds;
mod lookups;
mod lost_attempts;
mod ordering;
mod origin_groups;
mod pauses;
mod purges;
mod reader;
mod replays;
mod resends;
mod room;
mod settlements;
mod sparse;
mod starting;
mod subscriptions;
mod topics;
mod upkeep;
mod validations;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use hedgerow_core::retry::DeliveryKey;
use hedgerow_core::spec::ContainerPath;
use hedgerow_core::time::{Now, Timestamp};
use hedgerow_io::clock::Clock;
use hedgerow_io::dead_letter::{DeadLetterError, DeadLetterStore};
use hedgerow_io::http::{AddressGuard, Client};
use hedgerow_store::disk::Disk;
use hedgerow_store::history::HistoryHandle;
use hedgerow_store::view::View;
use hedgerow_store::{Store, StoreError};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;

use self::dead_letters::LetterWrites;
use self::declarations::Declarations;
use self::departures::Departures;
use self::endings::Endings;
use self::pauses::Pauses;
use self::purges::Purges;
use self::reader::TopicReader;
use self::replays::Replays;
use self::resends::{ResendRead, Resends};
use self::upkeep::Upkeep;
use self::validations::{Asks, Validations};
use crate::attempt::{Context, Report};
use crate::command::{Command, EngineHandle, TopicTable};
use crate::endpoints::Endpoints;
use crate::handshake::HandshakeReport;
use crate::letter_write::LetterReport;
use crate::metrics::Metrics;
use crate::note::AttemptNote;
use crate::origin_groups::OriginTable;
use crate::origins::{Groups, Origins};
use crate::runner::Runner;
use crate::settings::EngineSettings;
use crate::spawner::Spawner;
use crate::windows::Windows;

/// Inputs of one kind that one turn takes at most.
const INPUTS_PER_TURN: usize = 1024;
/// Reports and commands that may wait for the loop.
const QUEUE_LEN: usize = 4096;
/// Notes that a slow observer may be behind.
const NOTES_LEN: usize = 1024;
/// Server time may run so much faster than timers do (1 in 200, design D4): a wait that is shorter by this part is never
/// too long, and what is left of it is waited for again.
const SLEW_DIVISOR: u32 = 200;
/// The loop looks at the clock at least this often: timers stand still while the machine is suspended.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// How often endpoints that rest while the store is full are looked at.
const REST_LOOK: Duration = Duration::from_secs(1);

/// What an engine stands on.
pub struct Parts {
    /// Opened, and started behind everything that `view` has folded.
    pub store: Arc<dyn Store>,
    /// Folded to the end of the store.
    pub view: View,
    /// Where catalog files are written.
    pub disk: Arc<dyn Disk>,
    /// Where attempts are remembered for people, if anywhere.
    pub history: Option<HistoryHandle>,
    /// Where dead letters are written.
    pub dead_letters: Arc<dyn DeadLetterStore>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// How requests are sent.
    pub client: Arc<Client>,
    /// Where requests may be sent to.
    pub guard: Arc<AddressGuard>,
    /// How the origins of groups are.
    pub origins: Arc<dyn Origins>,
    /// Which store it is.
    pub store_id: [u8; 16],
    /// The store's epoch.
    pub epoch: u32,
    /// Where attempts run.
    pub spawner: Spawner,
    /// What this process counts.
    pub metrics: Arc<Metrics>,
    /// When this process began to deliver. What was in flight since then was ended by it when the store failed, and not lost
    /// in a crash (ED-189, ED-190).
    pub process_began: Timestamp,
    /// Until when an engine is known to have run with this store before.
    pub stopped: Timestamp,
}

/// The engine of one node.
pub struct Engine {
    settings: EngineSettings,
    store: Arc<dyn Store>,
    view: View,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    guard: Arc<AddressGuard>,
    spawner: Spawner,
    metrics: Arc<Metrics>,
    epoch: u32,
    process_began: Timestamp,
    /// The time of this turn: what became due in its course waits for the next one.
    turn: Now,
    /// When this engine began, and until when the one before is known to have run (ED-208).
    began: Timestamp,
    stopped: Timestamp,
    context: Arc<Context>,

    runners: HashMap<SubscriptionId, Runner>,
    readers: HashMap<TopicId, TopicReader>,
    /// Topics whose places may differ from those written down last.
    moved: BTreeSet<TopicId>,
    /// Topics with subscriptions that stand before their reader.
    behind: BTreeSet<TopicId>,
    /// Whether a read for those is under way.
    is_reading_behind: bool,
    /// Until when the disk is left alone after the last of them.
    behind_rests_until: Option<Instant>,
    /// The topic it was for.
    read_behind_last: TopicId,
    endpoints: Endpoints,
    groups: Groups,
    windows: Windows,
    /// Held rows that this turn may still move.
    moves_left: usize,
    endings: Endings,
    letter_writes: LetterWrites,
    departures: Departures,
    pauses: Pauses,
    purges: Purges,
    replays: Replays,
    resends: Resends,
    validations: Validations,
    /// When to look at a subscription again.
    wakes: BTreeSet<(Timestamp, SubscriptionId)>,
    /// Late exchanges in the order in which they timed out; those that closed since are among them.
    late_order: VecDeque<(DeliveryKey, u16)>,
    /// Shared with each open late exchange, so that its count is theirs.
    late_count: Arc<()>,
    /// Shared with each event of a batch under way but the first, so that its count is theirs.
    beside: Arc<()>,
    declarations: Declarations,
    upkeep: Upkeep,
    phase: Phase,
    /// As it was noted last.
    is_store_full: bool,

    commands: mpsc::Receiver<Command>,
    reports: mpsc::Receiver<Report>,
    report_to: mpsc::Sender<Report>,
    events: mpsc::Receiver<Internal>,
    events_to: mpsc::Sender<Internal>,
    topics: watch::Sender<Arc<TopicTable>>,
    origins: watch::Sender<Arc<OriginTable>>,
    notes: broadcast::Sender<AttemptNote>,
    /// Kept so that the queue never looks closed while nobody holds a handle.
    handle: EngineHandle,
}

/// What other threads did for the engine.
enum Internal {
    /// Events that subscriptions behind the reader asked for.
    ReadBehind {
        from: Position,
        /// The events, and how long reading took.
        result: Result<(Vec<(u64, hedgerow_store::StoredEvent)>, Duration), StoreError>,
    },
    /// The checkpoint under way was written, or not.
    Checkpointed(Result<(), StoreError>),
    /// An event that somebody wants delivered again.
    ResendRead(Result<ResendRead, StoreError>),
    /// What became of a write of dead letters.
    LettersWritten(Result<LetterReport, StoreError>),
    /// The keys of events that an ordered subscription had begun, each behind the event's number.
    KeysRead {
        subscription: SubscriptionId,
        result: Result<Vec<(u64, u64)>, StoreError>,
    },
    /// Whether a dead-letter destination can be written to.
    DestinationLookedAt {
        container: ContainerPath,
        result: Result<(), DeadLetterError>,
    },
    /// What became of a handshake of a subscription, by its token.
    HandshakeEnded {
        of: Asks,
        token: String,
        report: Result<HandshakeReport, StoreError>,
    },
}

/// The life of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Attempts wait for [`Command::StartDeliveries`].
    Held,
    /// Attempts are made.
    Running,
    /// No attempt starts any more; running ones get the drain time.
    Stopping,
    /// The record of the orderly stop is durable.
    Stopped,
}

/// What woke the loop.
enum Wake {
    Command(Command),
    Report(Report),
    Internal(Internal),
    Durable,
    StoreClosed,
    Stop,
    Clock,
}

impl Engine {
    /// An engine over an opened store.
    #[must_use]
    pub fn new(settings: EngineSettings, parts: Parts) -> Self {
        let (command_to, commands) = mpsc::channel(QUEUE_LEN);
        let (report_to, reports) = mpsc::channel(QUEUE_LEN);
        let (events_to, events) = mpsc::channel(QUEUE_LEN);
        let (topics, topics_seen) = watch::channel(Arc::default());
        let (origins, origins_seen) = watch::channel(Arc::default());
        let (notes, _) = broadcast::channel(NOTES_LEN);
        let now = parts.clock.now();
        let began = now.timestamp;
        let context = Arc::new(Context {
            store: Arc::clone(&parts.store),
            clock: Arc::clone(&parts.clock),
            client: parts.client,
            history: parts.history.clone(),
            store_id: parts.store_id,
            late_success_window: settings.retry.late_success_window,
            subscription_name_upper_case: settings.subscription_name_upper_case,
            webhook_origin: settings.webhook_origin.clone(),
            origins: Arc::clone(&parts.origins),
        });
        let handle = EngineHandle {
            store: Arc::clone(&parts.store),
            topics: topics_seen,
            origins: origins_seen,
            commands: command_to,
            notes: notes.clone(),
            history: parts.history,
            dead_letters: Arc::clone(&parts.dead_letters),
            metrics: Arc::clone(&parts.metrics),
        };
        let mut engine = Self {
            endpoints: Endpoints::new(settings.credits, settings.attempts_max),
            groups: Groups::new(Arc::clone(&parts.origins)),
            windows: Windows::default(),
            moves_left: 0,
            endings: Endings::default(),
            letter_writes: LetterWrites::new(parts.dead_letters),
            departures: Departures::default(),
            pauses: Pauses::default(),
            purges: Purges::default(),
            replays: Replays::default(),
            resends: Resends::default(),
            validations: Validations::new(settings.validation.clone()),
            upkeep: Upkeep::new(parts.view.mark(), parts.store.usage().watermark_bytes),
            is_store_full: false,
            phase: if settings.starts_held {
                Phase::Held
            } else {
                Phase::Running
            },
            settings,
            store: parts.store,
            view: parts.view,
            disk: parts.disk,
            clock: parts.clock,
            guard: parts.guard,
            spawner: parts.spawner,
            metrics: parts.metrics,
            epoch: parts.epoch,
            process_began: parts.process_began,
            stopped: parts.stopped,
            turn: now,
            began,
            context,
            runners: HashMap::default(),
            readers: HashMap::default(),
            moved: BTreeSet::new(),
            behind: BTreeSet::new(),
            is_reading_behind: false,
            behind_rests_until: None,
            read_behind_last: TopicId(0),
            wakes: BTreeSet::new(),
            late_order: VecDeque::new(),
            late_count: Arc::default(),
            beside: Arc::default(),
            declarations: Declarations::default(),
            commands,
            reports,
            report_to,
            events,
            events_to,
            topics,
            origins,
            notes,
            handle,
        };
        // Publishers ask as soon as they have the handle.
        engine.publish_topics();
        engine.publish_origins();
        engine
    }

    /// The way to ask this engine.
    #[must_use]
    pub fn handle(&self) -> EngineHandle {
        self.handle.clone()
    }

    /// Runs until `stop` says so or the store fails. On a stop, running attempts get the drain time, the rest is
    /// recorded as aborted, and the view is written down.
    ///
    /// # Errors
    /// What failed. The store has to be opened again.
    pub async fn run(mut self, stop: watch::Receiver<bool>) -> Result<(), StoreError> {
        let result = self.run_until_stopped(stop).await;
        self.drop_flights();
        // A checkpoint under way holds the table, which the next engine opens.
        let written = self.wait_for_checkpoint().await;
        result?;
        written?;
        self.last_checkpoint().await
    }

    async fn run_until_stopped(
        &mut self,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), StoreError> {
        self.take_up()?;
        let mut durable = self.store.durable();
        while self.phase != Phase::Stopped {
            let has_more = self.turn()?;
            let wake = if has_more {
                // Others on this thread get a chance between two turns.
                tokio::task::yield_now().await;
                if self.is_asked_to_stop(&stop) {
                    self.begin_to_stop()?;
                }
                continue;
            } else {
                let sleep = tokio::time::sleep(self.time_to_sleep());
                let is_stopping = self.phase == Phase::Stopping;
                let takes_commands = self.takes_commands();
                // Whatever wakes it, the next turn takes all that is ready; in order, so that nothing here is chance.
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop), if !is_stopping => Wake::Stop,
                    changed = durable.changed() => match changed {
                        Ok(()) => Wake::Durable,
                        Err(_) => Wake::StoreClosed,
                    },
                    Some(report) = self.reports.recv() => Wake::Report(report),
                    Some(internal) = self.events.recv() => Wake::Internal(internal),
                    Some(command) = self.commands.recv(), if takes_commands => {
                        Wake::Command(command)
                    }
                    () = sleep => Wake::Clock,
                }
            };
            self.take(wake)?;
        }
        Ok(())
    }

    fn is_asked_to_stop(&self, stop: &watch::Receiver<bool>) -> bool {
        matches!(self.phase, Phase::Held | Phase::Running) && *stop.borrow()
    }

    fn take(&mut self, wake: Wake) -> Result<(), StoreError> {
        self.turn = self.clock.now();
        match wake {
            Wake::Command(command) => self.command(command),
            Wake::Report(report) => self.report(report),
            Wake::Internal(internal) => self.internal(internal),
            Wake::Stop => self.begin_to_stop(),
            Wake::StoreClosed => Err(self.why_the_store_closed()),
            Wake::Durable | Wake::Clock => Ok(()),
        }
    }

    /// What a closed store answers: whether it may be opened again depends on it.
    fn why_the_store_closed(&self) -> StoreError {
        let answer = self.store.check_owner();
        answer.err().unwrap_or(StoreError::Closed)
    }

    /// Takes what is ready and acts. Returns whether there is more to take at once.
    fn turn(&mut self) -> Result<bool, StoreError> {
        self.turn = self.clock.now();
        self.moves_left = self.moves_of_a_turn();
        for _ in 0..INPUTS_PER_TURN {
            let Ok(report) = self.reports.try_recv() else {
                break;
            };
            self.report(report)?;
        }
        for _ in 0..INPUTS_PER_TURN {
            let Ok(internal) = self.events.try_recv() else {
                break;
            };
            self.internal(internal)?;
        }
        for _ in 0..INPUTS_PER_TURN {
            if !self.takes_commands() {
                break;
            }
            let Ok(command) = self.commands.try_recv() else {
                break;
            };
            self.command(command)?;
        }
        let has_more = self.follow()?;
        let has_more = self.go_on_purging()? || has_more;
        let has_more = self.look_for_expiries()? || has_more;
        self.read_behind();
        self.expire_subscriptions()?;
        self.wake_the_due()?;
        self.start_attempts()?;
        self.end_deliveries();
        self.write_letters()?;
        self.expire_validations()?;
        self.start_handshakes()?;
        self.upkeep()?;
        Ok(has_more)
    }

    fn internal(&mut self, internal: Internal) -> Result<(), StoreError> {
        match internal {
            Internal::ReadBehind { from, result } => self.take_read_behind(from, result),
            Internal::Checkpointed(result) => self.checkpointed(result),
            Internal::LettersWritten(report) => self.letters_written(report),
            Internal::DestinationLookedAt { container, result } => {
                self.destination_looked_at(&container, result);
                Ok(())
            }
            Internal::ResendRead(read) => self.resend_read(read?),
            Internal::KeysRead {
                subscription,
                result,
            } => self.keys_read(subscription, result?),
            Internal::HandshakeEnded { of, token, report } => {
                self.handshake_ended(of, &token, report)
            }
        }
    }

    /// Tells the loop how a task ended that runs beside it. One that panicked is a store that failed.
    fn tell_end<T: Send + 'static>(
        &self,
        task: JoinHandle<Result<T, StoreError>>,
        told: impl FnOnce(Result<T, StoreError>) -> Internal + Send + 'static,
    ) {
        let events_to = self.events_to.clone();
        self.spawner.spawn(async move {
            let result = task.await.unwrap_or(Err(StoreError::Closed));
            // The engine may be gone; the next one opens what is there.
            let _ = events_to.send(told(result)).await;
        });
    }

    fn report(&mut self, report: Report) -> Result<(), StoreError> {
        self.delivery_report(report.key, report.kind)
    }

    fn now(&self) -> Timestamp {
        self.turn.timestamp
    }

    /// The time of this turn for what the machine needs, and nobody's schedule.
    fn instant(&self) -> Instant {
        self.turn.instant
    }

    /// How long nothing will be due.
    fn time_to_sleep(&self) -> Duration {
        let now = self.clock.now();
        let wake = self.wakes.first().map(|(at, _)| *at);
        let goes = self.departures.next();
        let goes = goes.filter(|_| self.phase == Phase::Running);
        let wake = wake
            .into_iter()
            .chain(self.validations.next())
            .chain(goes)
            .min();
        let wake = wake.map(|at| at.since(now.timestamp));
        let wake = wake.map(|wait| self.clock.wait(wait.saturating_sub(wait / SLEW_DIVISOR)));
        let rest = self.endpoints.is_anybody_resting().then_some(REST_LOOK);
        let rests_until = self
            .behind_rests_until
            .filter(|until| *until > now.instant)
            .into_iter();
        // Nobody ends any before deliveries run, or once they stop.
        let endings = self.endings.next().filter(|_| self.phase == Phase::Running);
        let chores = rests_until
            .chain(self.upkeep.next())
            .chain(endings)
            .chain(self.endpoints.next_to_grow_old())
            .chain(self.endpoints.next_look_at_groups())
            .map(|at| at.saturating_duration_since(now.instant));
        let next = chores.chain(wake).chain(rest).min();
        next.map_or(SLEEP_MAX, |wait| wait.min(SLEEP_MAX))
    }
}
