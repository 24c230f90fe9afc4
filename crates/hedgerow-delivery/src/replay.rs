//! Delivering dead letters again (ED-265): a task for each replay reads one blob after the other, appends the events that are asked
//! for to their topic's log, and lets the catalog know how far it has come.
//!
//! An appended event is one like any other: durable, owed, with attempts and a time to live of its own. It carries what it is replayed
//! of, and whom it is for if it is for the subscription only. The catalog knows of a step after its events are durable: a crash in
//! between repeats that step, at most [`limits::REPLAY_STEP_EVENTS_MAX`] events of each replay, and loses none.
//!
//! ```text
//!   read a blob ──▶ take a step of its records ──▶ wait for the pace ──▶ append ──▶ durable ──▶ ReplayMoved ──▶ next step
//! ```
//!
//! A blob that is gone is passed over, a record that is none is counted; a container that cannot be read, or a log that is full, is
//! tried again until it can, with the reason shown.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hedgerow_core::dead_letter::{BlobName, Span};
use hedgerow_core::event::{DOMAIN_TOPIC, REPLAY_OF, REPLAY_TO};
use hedgerow_core::filter::{Filter, FilterEvent, FilterRules};
use hedgerow_core::limits;
use hedgerow_core::outcome::DeadLetterReason;
use hedgerow_core::spec::{ReplaySpec, ReplayTarget};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::dead_letter::read::{self, ReadLetter};
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Replay, ReplayCounts, ReplayPlace, ReplayState};
use hedgerow_store::record::{PackedEvents, PackedEventsBuilder};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::command::{Answer, Command, EngineHandle};
use crate::written_letters::{LetterShelf, Owner};

/// How long a replay waits that cannot go on.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The same where the log has no room.
const ROOM_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often what was looked at and not asked for is noted.
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// What is asked about replays.
pub enum ReplayCommand {
    /// Begins one.
    Create {
        /// The topic's name.
        topic: String,
        /// Whose dead letters.
        subscription: String,
        /// Which.
        spec: Box<ReplaySpec>,
        /// The replay, when it is durable.
        answer: Answer<ReplayInfo>,
    },
    /// All there are.
    List {
        /// By id.
        answer: Answer<Vec<ReplayInfo>>,
    },
    /// One.
    Get {
        /// Which.
        id: u32,
        /// The replay.
        answer: Answer<ReplayInfo>,
    },
    /// Stops one, lets it go on, or ends it.
    Set {
        /// Which.
        id: u32,
        /// What becomes of it.
        steer: ReplaySteer,
        /// The replay, when that is durable.
        answer: Answer<ReplayInfo>,
    },
    /// Where the dead letters of a subscription are.
    Shelf {
        /// The topic's name.
        topic: String,
        /// The subscription's name.
        subscription: String,
        /// How they are read.
        answer: Answer<LetterShelf>,
    },
    /// What the task of a replay is to do; `None` if nothing.
    Order {
        /// Which.
        id: u32,
        /// The order.
        answer: Answer<Option<ReplayOrder>>,
    },
    /// A task has come to a place.
    Move {
        /// Which.
        id: u32,
        /// Everything before it was looked at.
        place: ReplayPlace,
        /// What that came to.
        counts: ReplayCounts,
        /// When it is durable: whether to go on.
        answer: Answer<bool>,
    },
    /// A task has looked at everything.
    Complete {
        /// Which.
        id: u32,
        /// When it is durable.
        answer: Answer<()>,
    },
    /// A task cannot go on, or can again.
    Problem {
        /// Which.
        id: u32,
        /// Why it cannot.
        problem: Option<String>,
        /// When it is noted.
        answer: Answer<()>,
    },
}

/// What somebody does with a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaySteer {
    /// It goes no further until it is resumed.
    Stop,
    /// It goes on where it stood.
    Resume,
    /// It goes no further, and is over.
    Cancel,
}

impl ReplaySteer {
    pub(crate) const fn state(self) -> ReplayState {
        match self {
            Self::Stop => ReplayState::Stopped,
            Self::Resume => ReplayState::Running,
            Self::Cancel => ReplayState::Canceled,
        }
    }
}

/// A replay, for people.
#[derive(Debug, Clone)]
pub struct ReplayInfo {
    /// What was asked for, and how far it has come.
    pub replay: Replay,
    /// The topic's name.
    pub topic_name: String,
    /// The subscription's name.
    pub subscription_name: String,
    /// Why it cannot go on now, if it cannot.
    pub problem: Option<String>,
}

/// What a task is to do.
pub struct ReplayOrder {
    replay: Replay,
    shelf: LetterShelf,
    rules: FilterRules,
    /// Whether people are told that it cannot go on.
    has_problem: bool,
}

impl ReplayOrder {
    pub(crate) const fn new(
        replay: Replay,
        shelf: LetterShelf,
        rules: FilterRules,
        has_problem: bool,
    ) -> Self {
        Self {
            replay,
            shelf,
            rules,
            has_problem,
        }
    }

    /// When blobs have to be written: before it was asked for, so that what fails again is not replayed without end.
    fn span(&self) -> Span {
        let span = self.replay.spec.span();
        let to = span.to.unwrap_or(Timestamp::MAX);
        Span {
            to: Some(to.min(self.replay.created)),
            ..span
        }
    }
}

/// Says to a task that nothing more is wanted. What it has appended is noted still.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a task does not go on.
enum Pause {
    /// Somebody stopped it, or the engine ends.
    Ended,
    /// It is tried again.
    Problem(String),
    /// The log takes no request of so many bytes: fewer events belong to a step.
    TooLarge,
}

/// The task of a replay. `former` is the one before, which has to end first.
pub(crate) async fn run(handle: EngineHandle, id: u32, stop: Stop, former: Option<JoinHandle<()>>) {
    if let Some(former) = former {
        // How it ended does not matter: what it did is in the log.
        let _ = former.await;
    }
    while !stop.is_set() {
        let order = |answer| Command::Replay(ReplayCommand::Order { id, answer });
        let Ok(Some(order)) = handle.ask(order).await else {
            return;
        };
        let mut task = Task {
            place: order.replay.place.clone(),
            counts: order.replay.counts,
            is_noted: true,
            noted_at: Instant::now(),
            next_at: Instant::now(),
            step_bytes_max: limits::REPLAY_STEP_BYTES_MAX,
            has_problem: order.has_problem,
            order: &order,
            handle: &handle,
            stop: &stop,
        };
        match task.go_on().await {
            Ok(()) => {
                let complete = |answer| Command::Replay(ReplayCommand::Complete { id, answer });
                let _ = handle.ask(complete).await;
                return;
            }
            // A step of several is divided where it is taken, and one of a single event is a problem.
            Err(Pause::Ended | Pause::TooLarge) => return,
            Err(Pause::Problem(problem)) => {
                tracing::warn!(
                    replay = id,
                    topic = order.shelf.topic_name,
                    subscription = order.shelf.subscription_name,
                    problem,
                    "dead letters cannot be replayed now"
                );
                task.tell(Some(problem)).await;
                wait(AGAIN_AFTER, &stop).await;
            }
        }
    }
}

/// Sleeps, and looks at `stop` meanwhile.
async fn wait(span: Duration, stop: &Stop) {
    let end = Instant::now() + span;
    while !stop.is_set() && Instant::now() < end {
        let part = end.min(Instant::now() + Duration::from_millis(100));
        tokio::time::sleep_until(part).await;
    }
}

struct Task<'a> {
    order: &'a ReplayOrder,
    handle: &'a EngineHandle,
    stop: &'a Stop,
    place: Option<ReplayPlace>,
    counts: ReplayCounts,
    /// Whether the catalog knows the two.
    is_noted: bool,
    noted_at: Instant,
    /// When the next step may be taken.
    next_at: Instant,
    /// Bytes at which a step is full: fewer where the log's segments are too small for such ones.
    step_bytes_max: usize,
    has_problem: bool,
}

impl Task<'_> {
    fn spec(&self) -> &ReplaySpec {
        &self.order.replay.spec
    }

    /// Looks at everything that was not looked at yet.
    async fn go_on(&mut self) -> Result<(), Pause> {
        let letters = &self.order.shelf;
        let wanted = self.spec().blob.as_deref();
        let wanted = wanted.map(|blob| letters.name_of(blob));
        let is_one = wanted.is_some();
        let begun = self.place.clone();
        let first = begun.or_else(|| {
            wanted
                .flatten()
                .map(|blob| ReplayPlace { blob, records: 0 })
        });
        if let Some(place) = first.filter(|place| place.records != u32::MAX) {
            self.blob(&place.blob, place.records as usize).await?;
        }
        let mut after = self.place.as_ref().map(|place| place.blob.clone());
        loop {
            if is_one {
                break;
            }
            let page = letters.list(after.clone(), self.order.span()).await;
            let page = page.map_err(|error| Pause::Problem(error.message))?;
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            for found in &page {
                if found.bytes > limits::DEAD_LETTER_READ_BYTES_MAX {
                    // None of ours is so large.
                    self.counts.unreadable += 1;
                    self.passed(&found.name).await?;
                } else {
                    self.blob(&found.name, 0).await?;
                }
            }
        }
        self.note().await
    }

    /// Looks at the records of a blob from one of them on.
    async fn blob(&mut self, blob: &str, from: usize) -> Result<(), Pause> {
        let letters = &self.order.shelf;
        let Some(name) = BlobName::parse(blob) else {
            return Ok(());
        };
        let owner = letters.owner(&name);
        if owner == Owner::Other || !letters.is_in(&name, self.order.span()) {
            return Ok(());
        }
        let bytes = match letters.read(blob).await {
            Ok(bytes) => bytes,
            // Somebody removed it.
            Err(error) if error.is_not_found => return self.passed(blob).await,
            Err(error) => return Err(Pause::Problem(error.message)),
        };
        self.note_well().await;
        let Ok(records) = read::records(&bytes) else {
            self.counts.unreadable += 1;
            return self.passed(blob).await;
        };
        let filter = Filter::new(&self.spec().filter, self.order.rules);
        let mut at = from.min(records.len());
        while at < records.len() {
            let (mut step, begin) = (Step::default(), at);
            let events_max = self.spec().events_per_second;
            let events_max = events_max.min(limits::REPLAY_STEP_EVENTS_MAX as u32);
            while at < records.len() && !step.is_full(events_max, self.step_bytes_max) {
                let record = read::record(
                    records[at],
                    letters.input,
                    &letters.topic_path,
                    letters.extra,
                );
                at += 1;
                match record {
                    Err(_) if owner == Owner::Own => step.unreadable += 1,
                    Ok(letter) if letters.has(owner, &letter) => {
                        if self.wants(&filter, &letter) {
                            step.push(letter, name.uuid, self.order);
                        } else {
                            step.skipped += 1;
                        }
                    }
                    Ok(_) | Err(_) => {}
                }
            }
            let bytes = step.events.len_bytes();
            match self.take(step, blob, at).await {
                Err(Pause::TooLarge) => {
                    self.step_bytes_max = self.step_bytes_max.min(bytes) / 2;
                    at = begin;
                }
                taken => taken?,
            }
        }
        self.counts.blobs += 1;
        self.passed(blob).await
    }

    /// Whether an event is asked for.
    fn wants(&self, filter: &Filter, letter: &ReadLetter<'_>) -> bool {
        let spec = self.spec();
        let is_for = |reasons: &Vec<DeadLetterReason>| {
            reasons
                .iter()
                .any(|reason| reason.as_str() == letter.reason)
        };
        let event = &letter.event;
        let path = &self.order.shelf.topic_path;
        let path = letter.topic.as_deref().unwrap_or(path);
        let is_among = |ids: &Vec<String>| ids.iter().any(|id| *id == event.id);
        spec.reasons.as_ref().is_none_or(is_for)
            && spec.event_ids.as_ref().is_none_or(is_among)
            && filter.matches(&FilterEvent::new(event, path)).is_ok()
    }

    /// Appends the events of a step, and lets the catalog know.
    async fn take(&mut self, step: Step, blob: &str, at: usize) -> Result<(), Pause> {
        let (replayed, skipped, unreadable) = (step.count, step.skipped, step.unreadable);
        if replayed > 0 && !self.spec().is_dry_run {
            self.append(step.events.finish()).await?;
            let per_second = self.spec().events_per_second;
            self.next_at = Instant::now() + Duration::from_secs(1) * replayed / per_second;
        }
        self.counts.replayed += u64::from(replayed);
        self.counts.skipped += skipped;
        self.counts.unreadable += unreadable;
        self.place = Some(ReplayPlace {
            blob: blob.to_owned(),
            records: u32::try_from(at).unwrap_or(u32::MAX),
        });
        self.is_noted = false;
        if replayed > 0 && !self.spec().is_dry_run {
            return self.note().await;
        }
        self.note_sometimes().await
    }

    /// Everything of a blob was looked at.
    async fn passed(&mut self, blob: &str) -> Result<(), Pause> {
        self.place = Some(ReplayPlace {
            blob: blob.to_owned(),
            records: u32::MAX,
        });
        self.is_noted = false;
        self.note_sometimes().await
    }

    async fn append(&mut self, events: PackedEvents) -> Result<(), Pause> {
        let left = self.next_at.saturating_duration_since(Instant::now());
        wait(left, self.stop).await;
        loop {
            if self.stop.is_set() {
                return Err(Pause::Ended);
            }
            let topic = self.order.shelf.topic;
            match self.handle.store().append(topic, events.clone()) {
                Ok(appending) => {
                    appending.await.map_err(|_| Pause::Ended)?;
                    self.note_well().await;
                    let metrics = self
                        .handle
                        .metrics
                        .topic(topic, &self.order.shelf.topic_name);
                    let count = u64::from(events.count());
                    metrics.published.fetch_add(count, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error @ (StoreError::Full(_) | StoreError::Busy { .. })) => {
                    self.tell(Some(error.to_string())).await;
                    wait(ROOM_AGAIN_AFTER, self.stop).await;
                }
                Err(StoreError::Closed | StoreError::Fenced { .. }) => return Err(Pause::Ended),
                Err(StoreError::TooLarge { .. }) if events.count() > 1 => {
                    return Err(Pause::TooLarge);
                }
                Err(error) => return Err(Pause::Problem(error.to_string())),
            }
        }
    }

    async fn note_sometimes(&mut self) -> Result<(), Pause> {
        if self.noted_at.elapsed() >= NOTED_EVERY || self.stop.is_set() {
            return self.note().await;
        }
        Ok(())
    }

    /// Lets the catalog know how far it has come.
    async fn note(&mut self) -> Result<(), Pause> {
        let Some(place) = self.place.clone().filter(|_| !self.is_noted) else {
            return Ok(());
        };
        let (id, counts) = (self.order.replay.id, self.counts);
        let moved = |answer| {
            Command::Replay(ReplayCommand::Move {
                id,
                place,
                counts,
                answer,
            })
        };
        let goes_on = self.handle.ask(moved).await.map_err(|_| Pause::Ended)?;
        self.is_noted = true;
        self.noted_at = Instant::now();
        if goes_on && !self.stop.is_set() {
            Ok(())
        } else {
            Err(Pause::Ended)
        }
    }

    async fn note_well(&mut self) {
        if self.has_problem {
            self.tell(None).await;
        }
    }

    async fn tell(&mut self, problem: Option<String>) {
        self.has_problem = problem.is_some();
        let id = self.order.replay.id;
        let told = |answer| {
            Command::Replay(ReplayCommand::Problem {
                id,
                problem,
                answer,
            })
        };
        // The engine may be gone.
        let _ = self.handle.ask(told).await;
    }
}

/// Events that are appended together.
#[derive(Default)]
struct Step {
    events: PackedEventsBuilder,
    count: u32,
    skipped: u64,
    unreadable: u64,
}

impl Step {
    /// Whether no further event belongs to it.
    fn is_full(&self, events_max: u32, bytes_max: usize) -> bool {
        self.count >= events_max || self.events.len_bytes() >= bytes_max
    }

    fn push(&mut self, letter: ReadLetter<'_>, uuid: &str, order: &ReplayOrder) {
        let domain_topic = order.shelf.domain_topic_of(&letter);
        let mut event = letter.event;
        let mut know = |name, json: String| {
            let entry = (Cow::Borrowed(name), Cow::Owned(json));
            event.extensions.push(entry);
        };
        know(REPLAY_OF, format!("\"{uuid}\""));
        if let Some(topic) = domain_topic {
            know(DOMAIN_TOPIC, format!("\"{topic}\""));
        }
        if order.replay.spec.target == ReplayTarget::EventSubscription {
            know(REPLAY_TO, order.shelf.subscription.0.to_string());
        }
        self.events.push(&event);
        self.count += 1;
    }
}
