//! Dead letters that are delivered again (ED-265): each step is of letters that were kept, to whom it was asked for, no faster than
//! was asked for, and none is taken after somebody was told that no more is; what has come to its end was all delivered again.

use std::collections::BTreeMap;

use hedgerow_core::dead_letter::{BlobName, Span};
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::ReplayTarget;
use hedgerow_core::time::Timestamp;
use hedgerow_io::dead_letter::Blob;
use hedgerow_store::catalog::ReplayState;
use hedgerow_store::record::{Events, PackedEvents, unpack_event};
use tokio::time::Instant;

use super::Oracle;
use crate::model::{Known, Replay, State};

/// Events of one step, at most.
const STEP_EVENTS_MAX: u32 = 100;

/// What is known of dead letters and of their replays.
#[derive(Default)]
pub(super) struct Replays {
    /// What was kept, by its UUID.
    letters: BTreeMap<String, Letter>,
    /// How often each event of a letter was appended again, durably.
    appended: BTreeMap<(String, String), u64>,
    /// The newest step of each replay.
    steps: BTreeMap<u32, Step>,
    /// How often an event of a letter was taken, by the same task.
    taken: BTreeMap<(u32, (u64, u32), String, String), usize>,
    /// Replays of which somebody was told that they do not go on.
    halted: Vec<u32>,
}

/// A blob.
struct Letter {
    subscription: String,
    written: Timestamp,
    /// Some may be in it more than once, as an event and as it was delivered again.
    ids: Vec<String>,
}

/// Events that were appended together.
struct Step {
    at: Instant,
    events: u32,
    /// Whose: the opening, and how often the replay had been stopped or resumed.
    task: (u64, u32),
}

impl Oracle {
    /// The dead-letter store keeps these events.
    pub fn kept_letters(&mut self, now: Timestamp, blob: &Blob, ids: Vec<String>) {
        for id in &ids {
            let key = (blob.subscription.clone(), id.clone());
            *self.letters.entry(key).or_default() += 1;
        }
        let Some(name) = BlobName::parse(&blob.name) else {
            return self.fail(format!("ED-249: {} is no name of a blob", blob.name));
        };
        let letter = Letter {
            subscription: blob.subscription.clone(),
            written: now,
            ids,
        };
        self.replays.letters.insert(name.uuid.to_owned(), letter);
    }

    /// Whether the dead-letter store has as many letters of an event as ended there, with another one now.
    pub(super) fn is_letter_kept(&self, id: SubscriptionId, seq: u64) -> bool {
        let Some(subscription) = self.live.subscriptions.get(&id) else {
            return true;
        };
        let event = self.event_id(id, seq);
        let places = self.places.get(event).into_iter().flatten();
        let written = places.filter(|place| {
            let delivery = subscription.deliveries.get(&place.seq);
            place.topic == subscription.topic
                && delivery.is_some_and(|delivery| delivery.state == State::DeadLettered)
        });
        let key = (subscription.name.clone(), event.to_owned());
        self.letters.get(&key).copied().unwrap_or_default() > written.count() as u64
    }

    /// Somebody was told that a replay goes on, or does not.
    pub fn told_of_replay(&mut self, id: u32, goes_on: bool) {
        self.replays.halted.retain(|halted| *halted != id);
        if !goes_on {
            self.replays.halted.push(id);
        }
    }

    /// The engine appends events: those of a replay are looked at.
    pub fn appending(&mut self, packed: &PackedEvents) {
        let slices = packed.slices().flatten();
        let unpacked: Vec<_> = slices
            .filter_map(|bytes| unpack_event(&bytes).ok().map(|event| Known::of(&event)))
            .collect();
        if unpacked.iter().all(|event| event.letter.is_none()) {
            return;
        }
        if let Err(wrong) = self.take_step(&unpacked) {
            let ids: Vec<_> = unpacked.iter().map(|event| &event.id).collect();
            self.fail(format!("ED-265: {ids:?} are delivered again: {wrong}"));
        }
    }

    fn take_step(&mut self, events: &[Known]) -> Result<(), String> {
        let first = events.first().and_then(|event| event.letter.as_ref());
        let uuid = first.ok_or("of no dead letter")?;
        let letter = self.replays.letters.get(uuid);
        let letter = letter.ok_or("of a dead letter that nobody kept")?;
        let (id, replay) = self.replay_of(letter).ok_or("nobody asked for that")?;
        if self.replays.halted.contains(&id) {
            return Err("somebody was told that it is not".to_owned());
        }
        let to = replay.spec.target == ReplayTarget::EventSubscription;
        let only = to.then_some(replay.subscription);
        for event in events {
            if event.letter.as_ref() != Some(uuid) || !letter.ids.contains(&event.id) {
                return Err(format!("{} is not of that dead letter", event.id));
            }
            if event.only != only {
                let found = event.only;
                return Err(format!("{} is for {found:?}, not for {only:?}", event.id));
            }
        }
        let count = events.len() as u32;
        let per_second = replay.spec.events_per_second;
        if count > per_second.min(STEP_EVENTS_MAX) {
            return Err(format!("{count} at once, {per_second} a second"));
        }
        if replay.spec.is_dry_run {
            return Err("only to be counted".to_owned());
        }
        let task = (self.tally.openings, replay.sets);
        let step = Step {
            at: Instant::now(),
            events: count,
            task,
        };
        let wait = |step: &Step| std::time::Duration::from_secs(1) * step.events / per_second;
        if let Some(before) = self.replays.steps.get(&id)
            && before.task == task
            && step.at < before.at + wait(before)
        {
            let (before, after) = (before.events, step.at - before.at);
            return Err(format!("{after:?} after {before}, {per_second} a second"));
        }
        for event in events {
            let key = (id, task, uuid.clone(), event.id.clone());
            let taken = self.replays.taken.entry(key).or_default();
            *taken += 1;
            let there = letter.ids.iter().filter(|one| **one == event.id).count();
            if *taken > there {
                return Err(format!("{} for the second time", event.id));
            }
        }
        self.replays.steps.insert(id, step);
        self.tally.replayed += u64::from(count);
        Ok(())
    }

    /// The replay that a letter may be taken for: there is one at a time.
    fn replay_of(&self, letter: &Letter) -> Option<(u32, &Replay)> {
        let is_it = |replay: &Replay| {
            let state = replay.state;
            // The change that ends it may be durable before the engine has seen it.
            state != ReplayState::Completed && self.has_letter(replay, letter)
        };
        let mut replays = self.durable.replays.iter().rev();
        let found = replays.find(|(_, replay)| is_it(replay))?;
        Some((*found.0, found.1))
    }

    /// Whether a letter is among those that a replay was asked for.
    fn has_letter(&self, replay: &Replay, letter: &Letter) -> bool {
        let subscription = self.durable.subscriptions.get(&replay.subscription);
        let Span { from, to } = replay.spec.span();
        let is_late = to.is_some_and(|to| letter.written >= to);
        subscription.is_some_and(|subscription| subscription.name == letter.subscription)
            && letter.written < replay.created
            && from.is_none_or(|from| letter.written >= from)
            && !is_late
    }

    /// Events that are delivered again are durable: they are what they were.
    pub(super) fn judge_replayed(&mut self, events: &Events) {
        let Some(topic) = self.durable.topics.get(&events.topic) else {
            return;
        };
        let mut wrong = Vec::new();
        for event in &topic.events[events.first_seq as usize - 1..] {
            let Some(uuid) = &event.letter else { continue };
            let key = (uuid.clone(), event.id.clone());
            *self.replays.appended.entry(key).or_default() += 1;
            let first = self.places.get(&event.id).and_then(|places| places.first());
            let former = first.and_then(|first| {
                let topic = self.durable.topics.get(&first.topic)?;
                topic.events.get(first.seq as usize - 1)
            });
            let text = |event: &Known| {
                let Known {
                    event_type,
                    subject,
                    data_key,
                    domain_topic,
                    ..
                } = event.clone();
                (event_type, subject, data_key, domain_topic)
            };
            if former.map(text) != Some(text(event)) {
                let (former, again) = (former.map(text), text(event));
                wrong.push(format!(
                    "ED-265: {} was {former:?}, and is delivered again as {again:?}",
                    event.id
                ));
            }
        }
        for wrong in wrong {
            self.fail(wrong);
        }
    }

    /// Replays that have not come to an end, at most a few.
    pub(super) fn open_replays(&self) -> impl Iterator<Item = String> {
        let all = self.durable.replays.iter();
        let open = all.filter(|(_, replay)| !replay.state.is_end());
        open.map(|(id, replay)| format!("replay {id} is {:?}", replay.state))
    }

    /// ED-265: what has come to its end was all delivered again, once for each time that it was asked for.
    pub(super) fn wrong_replays(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        self.tally.replays += self.durable.replays.len() as u64;
        for (uuid, letter) in &self.replays.letters {
            let replays = self.durable.replays.iter().filter(|(_, replay)| {
                let is_over = replay.state == ReplayState::Completed && !replay.spec.is_dry_run;
                let blob = replay.spec.blob.as_ref();
                let is_it = blob.is_none_or(|blob| blob.contains(uuid));
                is_over && is_it && self.has_letter(replay, letter)
            });
            let wanted = replays.count() as u64;
            for id in &letter.ids {
                let key = (uuid.clone(), id.clone());
                let found = self.replays.appended.get(&key).copied().unwrap_or_default();
                let there = letter.ids.iter().filter(|one| *one == id).count() as u64;
                if found < wanted * there {
                    wrong.push(format!(
                        "ED-265: {id} of {} was delivered again {found} times, and was to be {wanted} times",
                        letter.subscription
                    ));
                }
            }
        }
        wrong
    }
}
