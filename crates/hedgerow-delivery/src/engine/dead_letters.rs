//! Writing dead letters: what is due is handed to a task that reads the events, spells them and writes one blob; what
//! became of it is journaled. One write of a subscription at a time, and few at all: deliveries come first.
//!
//! The rows in the view are what is owed. A write in flight at a crash is due again, and a try whose answer did not come
//! writes a new name: an event may be written twice, never not at all (ED-252).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hedgerow_core::dead_letter::{AfterFailedWrite, FailedWrite, LetterSource, after_failed_write};
use hedgerow_core::limits;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::ContainerPath;
use hedgerow_core::time::Timestamp;
use hedgerow_io::chance;
use hedgerow_io::dead_letter::{DeadLetterError, DeadLetterStore};
use hedgerow_store::StoreError;
use hedgerow_store::catalog::Subscription;
use hedgerow_store::history::{HistoryKind, HistoryNext, HistoryRecord};
use hedgerow_store::record::{
    Dead, DeadThen, DropReason, Owed, PackedEvents, PendingDeadLetter, PendingWrite, Record,
};
use hedgerow_store::view::BEHIND_IN_FLIGHT;

use super::{Engine, Internal, Phase};
use crate::command::{
    CommandError, DeadLetterInfo, DeadLetterPage, DeadLetterPlace, DeadLetterQuery,
};
use crate::letter_write::{self, Letter, LetterJob, LetterReport, Texts, WriteFault};
use crate::note::AttemptNote;
use crate::notice::{WrittenBlob, notice};
use crate::plan::Plan;
use crate::runner::Runner;

/// Rows that one page of a list looks at, at most: retries are among them.
const LISTED_ROWS_MAX: usize = 10_000;
/// How long dead letters for which there is no room wait before they are looked at again. Nothing is journaled of that: the
/// log takes the same room.
const NO_ROOM_REST: Duration = Duration::from_secs(10);

/// The writes of all subscriptions.
pub(super) struct LetterWrites {
    store: Arc<dyn DeadLetterStore>,
    /// Those that have something to write, in order.
    queue: VecDeque<SubscriptionId>,
    under_way: usize,
    /// The topics that tell of dead letters, whether or not anybody subscribes to them.
    told: Vec<TopicId>,
    /// Why the last write of a subscription failed, or its destination was found unusable when it was declared (ED-319).
    problems: HashMap<SubscriptionId, String>,
}

impl LetterWrites {
    pub(super) fn new(store: Arc<dyn DeadLetterStore>) -> Self {
        Self {
            store,
            queue: VecDeque::new(),
            under_way: 0,
            told: Vec::new(),
            problems: HashMap::new(),
        }
    }

    pub(super) fn store(&self) -> Arc<dyn DeadLetterStore> {
        Arc::clone(&self.store)
    }

    pub(super) const fn under_way(&self) -> usize {
        self.under_way
    }

    /// The topics that tell of dead letters are these from now on.
    pub(super) fn set_told(&mut self, told: Vec<TopicId>) {
        self.told = told;
    }

    /// Notices of the writes under way, which the store has to have room for, as for the records of an attempt each.
    pub(super) const fn notices_under_way(&self) -> usize {
        self.under_way * self.told.len()
    }

    pub(super) fn problem(&self, id: SubscriptionId) -> Option<&String> {
        self.problems.get(&id)
    }

    pub(super) fn note_problem(&mut self, id: SubscriptionId, problem: Option<String>) {
        match problem {
            Some(problem) => drop(self.problems.insert(id, problem)),
            None => drop(self.problems.remove(&id)),
        }
    }
}

impl Engine {
    /// Looks at the dead-letter destinations of all subscriptions, one after the other, beside everything else: what cannot be
    /// written to is told before something has to be written (ED-319).
    pub(super) fn look_at_destinations(&self) {
        let destinations = self.runners.values().filter_map(|runner| {
            let destination = runner.plan.dead_letter_destination.as_ref()?;
            Some(destination.container().clone())
        });
        let containers: BTreeSet<ContainerPath> = destinations.collect();
        let (store, events_to) = (
            Arc::clone(&self.letter_writes.store),
            self.events_to.clone(),
        );
        self.spawner.spawn(async move {
            for container in containers {
                let result = letter_write::in_time(store.probe(container.clone())).await;
                let told = Internal::DestinationLookedAt { container, result };
                if events_to.send(told).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Takes what a look at a destination came to. What a write said meanwhile is newer.
    pub(super) fn destination_looked_at(
        &mut self,
        container: &ContainerPath,
        result: Result<(), DeadLetterError>,
    ) {
        let Err(error) = result else { return };
        let is_theirs = |runner: &&Runner| {
            let destination = runner.plan.dead_letter_destination.as_ref();
            destination.is_some_and(|destination| destination.container() == container)
        };
        let ids: Vec<_> = self
            .runners
            .values()
            .filter(is_theirs)
            .map(|r| r.id)
            .collect();
        if ids.is_empty() {
            return;
        }
        tracing::warn!(
            container = container.as_str(),
            subscriptions = ids.len(),
            %error,
            "dead letters cannot be written there"
        );
        for id in ids {
            if self.letter_writes.problem(id).is_none() {
                self.letter_writes
                    .note_problem(id, Some(error.message.clone()));
            }
        }
    }

    /// Lets a subscription stand in line if it has dead letters to write now.
    pub(super) fn queue_letters(&mut self, id: SubscriptionId) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        let letters = &mut runner.letters;
        if self.phase == Phase::Running && !letters.is_queued && letters.is_ready(now) {
            letters.is_queued = true;
            self.letter_writes.queue.push_back(id);
        }
    }

    /// Starts writes until no more may run.
    pub(super) fn write_letters(&mut self) -> Result<(), StoreError> {
        while self.phase == Phase::Running
            && self.letter_writes.under_way < limits::DEAD_LETTER_WRITES_MAX
        {
            let Some(id) = self.letter_writes.queue.pop_front() else {
                break;
            };
            self.write_letters_of(id)?;
        }
        Ok(())
    }

    /// What a subscription is for, as the blobs of its dead letters tell it.
    pub(super) fn letter_source(&self, found: &Subscription) -> LetterSource {
        let store_id = &self.context.store_id;
        match &found.domain_topic {
            None => LetterSource::of_topic(found.topic),
            Some(name) => LetterSource::of_domain_topic(found.topic, name, store_id),
        }
    }

    fn write_letters_of(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let now = self.now();
        let Some(found) = self.view.catalog().subscription(id) else {
            return Ok(());
        };
        let source = self.letter_source(found);
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        runner.letters.is_queued = false;
        let mut letters: Vec<Letter> = Vec::new();
        for (due, seq) in runner.letters.take_batch(now) {
            match self.view.owed(id, due, seq)? {
                Some(Owed::DeadLetter(letter)) => letters.push(((due, seq), letter)),
                // The row went since.
                _ => runner.letters.drop_row(due, seq),
            }
        }
        if letters.is_empty() {
            return Ok(());
        }
        runner.letters.is_writing = true;
        let job = LetterJob {
            subscription: id,
            topic: runner.topic,
            source,
            plan: Arc::clone(&runner.plan),
            letters,
            extra_members: self.settings.dead_letter_members_of(runner.plan.profile),
            store: Arc::clone(&self.store),
            store_id: self.context.store_id,
            dead_letters: Arc::clone(&self.letter_writes.store),
            clock: Arc::clone(&self.clock),
        };
        self.letter_writes.under_way += 1;
        let writing = async move { Ok(letter_write::write(job).await) };
        self.tell_end(self.spawner.spawn(writing), Internal::LettersWritten);
        Ok(())
    }

    /// Takes what became of a write.
    pub(super) fn letters_written(
        &mut self,
        report: Result<LetterReport, StoreError>,
    ) -> Result<(), StoreError> {
        let report = report?;
        let id = report.subscription;
        self.letter_writes.under_way -= 1;
        let Some(runner) = self.runners.get_mut(&id) else {
            return Ok(());
        };
        let result = match report.result {
            Err(WriteFault::Unreadable(seq, error)) if self.view.is_open(id, seq) => {
                return Err(error);
            }
            result => result,
        };
        let plan = Arc::clone(&runner.plan);
        runner.letters.is_writing = false;
        let left = report.left.into_iter().map(|(row, _)| row);
        runner.letters.put_back(left.collect());
        let count = report.written.len();
        if !matches!(result, Err(WriteFault::NoRoom(_))) {
            runner.letters.end_rest();
        }
        match &result {
            Err(WriteFault::NoRoom(error)) => {
                if runner.letters.rest(report.ended.plus(NO_ROOM_REST)) {
                    tracing::warn!(
                        topic = &*plan.topic_name,
                        subscription = &*plan.subscription_name,
                        %error,
                        "dead letters wait until there is room for them"
                    );
                }
                self.letter_writes
                    .note_problem(id, Some(error.message.clone()));
            }
            Ok(()) => {
                tracing::info!(
                    topic = &*plan.topic_name,
                    subscription = &*plan.subscription_name,
                    count,
                    "dead letters written"
                );
                self.letter_writes.note_problem(id, None);
            }
            Err(WriteFault::Refused(error)) => {
                tracing::warn!(
                    topic = &*plan.topic_name,
                    subscription = &*plan.subscription_name,
                    count,
                    %error,
                    "dead letters cannot be written"
                );
                self.letter_writes
                    .note_problem(id, Some(error.message.clone()));
            }
            // One that nobody needs any more may be gone; the others are taken again.
            Err(WriteFault::NoDestination | WriteFault::Unreadable(..)) => {}
        }
        if let Some(blob) = &report.blob {
            self.tell_of_blob(blob, report.ended)?;
        }
        for (letter, texts) in report.circular {
            let then = DeadThen::Dropped(DropReason::NoDeadLetterDestination);
            self.count_letter(id, &letter.1, then);
            self.remember_letter(id, &letter, &texts, then, report.ended);
            self.journal_letter(id, letter, texts, then)?;
        }
        for (letter, texts) in report.written {
            let then = after_write(&plan, &letter.1, report.ended, &result);
            if then == DeadThen::Written && self.notes.receiver_count() > 0 {
                let (id, reason) = (&texts.event_id, letter.1.reason);
                let note = AttemptNote::of_dead_letter(&plan, id, reason, report.ended);
                // They may have gone in this moment.
                let _ = self.notes.send(note);
            }
            self.count_letter(id, &letter.1, then);
            self.remember_letter(id, &letter, &texts, then, report.ended);
            self.journal_letter(id, letter, texts, then)?;
        }
        self.queue_letters(id);
        self.plan_wake(id)
    }

    /// Publishes what tells of a blob that was written (ED-263), to every topic that is about such and subscribed to. Queued
    /// before the records that say that it was written: whoever finds those after a crash finds this too, and what a crash
    /// kept from being queued is written, and told of, again.
    fn tell_of_blob(&mut self, blob: &WrittenBlob, written: Timestamp) -> Result<(), StoreError> {
        for id in &self.letter_writes.told {
            let Some(topic) = self.view.catalog().topic(*id) else {
                continue;
            };
            let reader = self.readers.get(&topic.id);
            if reader.is_none_or(|reader| reader.subscriptions.is_empty()) {
                continue;
            }
            let event = notice(blob, chance::uuid(), written);
            let packed = PackedEvents::pack(std::slice::from_ref(&event));
            // Nobody waits for it: what follows is not seen before it.
            drop(self.store.append_own(topic.id, packed)?);
            let metrics = self.metrics.topic(topic.id, topic.name.as_str());
            metrics.published.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Pending dead letters (ED-248). A page may hold fewer than asked for although there are more.
    pub(super) fn pending_dead_letters(
        &self,
        query: &DeadLetterQuery,
    ) -> Result<Result<DeadLetterPage, CommandError>, StoreError> {
        let ids =
            match self.subscriptions_named(query.topic.as_deref(), query.subscription.as_deref()) {
                Ok(ids) => ids,
                Err(error) => return Ok(Err(error)),
            };
        let mut page = DeadLetterPage::default();
        let mut rows_left = LISTED_ROWS_MAX;
        let from = query.after.map(|place| place.subscription);
        for id in ids.into_iter().filter(|id| Some(*id) >= from) {
            let after = query.after.filter(|place| place.subscription == id);
            let after = after.map_or(BEHIND_IN_FLIGHT, |place| (place.due, place.seq));
            let limit = query.limit - page.letters.len();
            let found = self
                .view
                .pending_dead_letters(id, after, limit, &mut rows_left)?;
            let place = |due, seq| DeadLetterPlace {
                subscription: id,
                due,
                seq,
            };
            let letters = found.rows.into_iter();
            page.letters.extend(
                letters.filter_map(|(due, seq, letter)| self.letter_info(place(due, seq), letter)),
            );
            page.next = found.next.map(|(due, seq)| place(due, seq));
            if page.next.is_some() {
                break;
            }
        }
        Ok(Ok(page))
    }

    fn letter_info(
        &self,
        place: DeadLetterPlace,
        letter: PendingDeadLetter,
    ) -> Option<DeadLetterInfo> {
        let subscription = self.view.catalog().subscription(place.subscription)?;
        let topic = self.view.catalog().topic(subscription.topic)?;
        Some(DeadLetterInfo {
            place,
            topic: topic.id,
            topic_name: self.view.catalog().source_of(subscription),
            subscription_name: subscription.name.as_str().to_owned(),
            letter,
            event_id: String::new(),
        })
    }

    /// Counts what became of a dead letter, once nothing more is to come (ED-301).
    fn count_letter(&self, id: SubscriptionId, letter: &PendingDeadLetter, then: DeadThen) {
        let Some(runner) = self.runners.get(&id) else {
            return;
        };
        match then {
            DeadThen::Written => runner.metrics.note_dead_lettered(letter.reason),
            DeadThen::Dropped(why) => runner.metrics.note_dropped(why),
            DeadThen::WriteDue(..) => {}
        }
    }

    /// Tells the history what became of a dead letter, once nothing more is to come.
    fn remember_letter(
        &self,
        id: SubscriptionId,
        ((_, seq), letter): &Letter,
        texts: &Texts,
        then: DeadThen,
        ended: Timestamp,
    ) {
        let next = match then {
            DeadThen::Written => HistoryNext::DeadLettered(letter.reason),
            DeadThen::Dropped(why) => HistoryNext::Dropped(letter.reason, why),
            DeadThen::WriteDue(..) => return,
        };
        let runner = self.runners.get(&id);
        let (Some(history), Some(runner)) = (&self.context.history, runner) else {
            return;
        };
        history.record(HistoryRecord {
            kind: HistoryKind::DeadLetterEnd,
            event_id: texts.event_id.clone(),
            topic: runner.topic,
            topic_name: runner.plan.topic_name.clone(),
            subscription: id,
            subscription_name: runner.plan.subscription_name.clone(),
            seq: *seq,
            attempt: 0,
            published: letter.published,
            started: ended,
            ended,
            latency: Duration::ZERO,
            outcome: None,
            status: 0,
            detail: None,
            excerpt: None,
            to: None,
            next,
        });
    }

    fn journal_letter(
        &mut self,
        subscription: SubscriptionId,
        ((due, seq), letter): Letter,
        texts: Texts,
        then: DeadThen,
    ) -> Result<(), StoreError> {
        self.store.journal(Record::Dead(Dead {
            subscription,
            seq,
            due: Some(due),
            reason: letter.reason,
            decided: letter.decided,
            published: letter.published,
            progress: letter.progress,
            then,
            event_id: texts.event_id,
            event_type: texts.event_type,
            subject: texts.subject,
        }))
    }
}

/// What follows a write for one of its dead letters (ED-247).
fn after_write(
    plan: &Plan,
    letter: &PendingDeadLetter,
    ended: Timestamp,
    result: &Result<(), WriteFault>,
) -> DeadThen {
    let error = match result {
        Ok(()) => return DeadThen::Written,
        // Of those without room nothing was written.
        Err(WriteFault::NoDestination | WriteFault::Unreadable(..) | WriteFault::NoRoom(_)) => {
            return DeadThen::Dropped(DropReason::NoDeadLetterDestination);
        }
        Err(WriteFault::Refused(error)) => error,
    };
    let first_failed = letter.write.first_failed.unwrap_or(ended);
    let failed = FailedWrite {
        first_failed,
        failed: ended,
        is_not_found: error.is_not_found,
    };
    match after_failed_write(&plan.dead_letter, &failed) {
        AfterFailedWrite::Due(due) => {
            let write = PendingWrite {
                failed: letter.write.failed.saturating_add(1),
                first_failed: Some(first_failed),
            };
            DeadThen::WriteDue(due, write)
        }
        AfterFailedWrite::Unavailable => DeadThen::Dropped(DropReason::DeadLetterStoreUnavailable),
        AfterFailedWrite::NotFound => DeadThen::Dropped(DropReason::DeadLetterContainerNotFound),
    }
}
