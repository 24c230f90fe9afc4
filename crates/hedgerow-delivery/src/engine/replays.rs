//! Replays of dead letters: what is asked about them, and a task for each that goes on ([`crate::replay`]).
//!
//! What was asked for and how far it has come are changes of the catalog, so that the next engine goes on with what this one leaves.
//! A task that was stopped notes what it has done; one that goes on again waits for that.

use std::collections::HashMap;

use hedgerow_core::limits;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::ReplaySpec;
use hedgerow_store::catalog::{Change, Replay, ReplayState, Subscription};
use tokio::task::JoinHandle;

use super::declarations::{Answered, found_or_answered, reply};
use super::{Engine, Phase};
use crate::command::{Answer, CommandError};
use crate::replay::{self, ReplayCommand, ReplayInfo, ReplayOrder, Stop};
use crate::source::path_of_topic;
use crate::written_letters::LetterShelf;

/// The tasks of replays.
#[derive(Default)]
pub(super) struct Replays {
    tasks: HashMap<u32, Task>,
    /// Why some of them cannot go on now.
    problems: HashMap<u32, String>,
}

struct Task {
    stop: Stop,
    join: JoinHandle<()>,
}

impl Replays {
    /// Lets all tasks end after their step. The next engine goes on with them.
    pub(super) fn stop_all(&self) {
        self.tasks.values().for_each(|task| task.stop.set());
    }

    /// Ends all tasks at once.
    pub(super) fn abort_all(&mut self) {
        self.stop_all();
        self.tasks.drain().for_each(|(_, task)| task.join.abort());
    }
}

impl Engine {
    /// Answers what changes nothing; gives back what does.
    pub(super) fn ask_about_replays(&mut self, command: ReplayCommand) -> Option<ReplayCommand> {
        match command {
            ReplayCommand::List { answer } => {
                let all = self.view.catalog().replays();
                reply(answer, Ok(all.map(|one| self.replay_info(one)).collect()));
            }
            ReplayCommand::Get { id, answer } => reply(answer, self.replay_named(id)),
            ReplayCommand::Shelf {
                topic,
                subscription,
                answer,
            } => {
                let found = self.subscription_named(&topic, &subscription);
                reply(answer, found.and_then(|found| self.shelf_of(&found)));
            }
            ReplayCommand::Order { id, answer } => reply(answer, Ok(self.replay_order(id))),
            ReplayCommand::Problem {
                id,
                problem,
                answer,
            } => {
                match problem {
                    Some(problem) => drop(self.replays.problems.insert(id, problem)),
                    None => drop(self.replays.problems.remove(&id)),
                }
                reply(answer, Ok(()));
            }
            change @ (ReplayCommand::Create { .. }
            | ReplayCommand::Set { .. }
            | ReplayCommand::Move { .. }
            | ReplayCommand::Complete { .. }) => return Some(change),
        }
        None
    }

    /// The change that a command asks for; `None` if it was answered.
    pub(super) fn change_for_replay(&self, command: ReplayCommand) -> Option<(Change, Answered)> {
        match command {
            ReplayCommand::Create {
                topic,
                subscription,
                spec,
                answer,
            } => {
                let found = self.subscription_named(&topic, &subscription);
                let judged = found.and_then(|found| {
                    self.judge_replay(&found, &spec)?;
                    Ok(found)
                });
                let (found, answer) = found_or_answered(judged, answer)?;
                let id = self.view.catalog().next_replay_id();
                let change = Change::ReplayCreated {
                    replay: id,
                    topic: found.topic,
                    subscription: found.id,
                    spec,
                    created: self.now(),
                };
                Some((change, told(id, answer)))
            }
            ReplayCommand::Set { id, steer, answer } => {
                let state = steer.state();
                let (found, answer) = found_or_answered(self.replay_named(id), answer)?;
                if found.replay.state == state {
                    reply(answer, Ok(found));
                    return None;
                }
                let (_, answer) = found_or_answered(refuse_ended(found), answer)?;
                Some((self.replay_set(id, state), told(id, answer)))
            }
            ReplayCommand::Move {
                id,
                place,
                counts,
                answer,
            } => {
                let found = self.replay_named(id);
                let (_, answer) = found_or_answered(found, answer)?;
                let change = Change::ReplayMoved {
                    replay: id,
                    place,
                    counts,
                };
                let answered: Answered = Box::new(move |made| {
                    let goes_on = made.map(|engine| {
                        let found = engine.view.catalog().replay(id);
                        found.is_some_and(|replay| replay.state == ReplayState::Running)
                    });
                    reply(answer, goes_on);
                });
                Some((change, answered))
            }
            ReplayCommand::Complete { id, answer } => {
                let found = self.replay_named(id);
                let (found, answer) = found_or_answered(found, answer)?;
                if found.replay.ended.is_some() {
                    // It was canceled when everything had been looked at.
                    reply(answer, Ok(()));
                    return None;
                }
                let change = self.replay_set(id, ReplayState::Completed);
                let answered: Answered = Box::new(move |made| reply(answer, made.map(|_| ())));
                Some((change, answered))
            }
            ReplayCommand::List { .. }
            | ReplayCommand::Get { .. }
            | ReplayCommand::Shelf { .. }
            | ReplayCommand::Order { .. }
            | ReplayCommand::Problem { .. } => None,
        }
    }

    fn replay_set(&self, replay: u32, state: ReplayState) -> Change {
        Change::ReplaySet {
            replay,
            state,
            at: self.now(),
        }
    }

    fn judge_replay(&self, found: &Subscription, spec: &ReplaySpec) -> Result<(), CommandError> {
        let letters = self.shelf_of(found)?;
        self.settings.filter_limits.judge(&spec.filter, "filter")?;
        if let Some(blob) = &spec.blob
            && letters.name_of(blob).is_none()
        {
            return Err(CommandError::NotFound {
                what: "dead letter",
                name: blob.clone(),
            });
        }
        let open = self.view.catalog().replays();
        let open = open.filter(|replay| replay.ended.is_none()).count();
        if open >= limits::REPLAYS_OPEN_MAX {
            let message = format!(
                "{open} replays have not ended, and no more may at a time, those that are stopped among them"
            );
            return Err(CommandError::ReplayLimit(message));
        }
        Ok(())
    }

    fn replay_named(&self, id: u32) -> Result<ReplayInfo, CommandError> {
        let found = self.view.catalog().replay(id);
        let found = found.map(|replay| self.replay_info(replay));
        found.ok_or_else(|| CommandError::NotFound {
            what: "replay",
            name: id.to_string(),
        })
    }

    fn replay_info(&self, replay: &Replay) -> ReplayInfo {
        let catalog = self.view.catalog();
        let topic = catalog.topic(replay.topic);
        let subscription = catalog.subscription(replay.subscription);
        ReplayInfo {
            replay: replay.clone(),
            topic_name: topic.map_or_else(String::new, |topic| topic.name.to_string()),
            subscription_name: subscription.map_or_else(String::new, |one| one.name.to_string()),
            problem: self.replays.problems.get(&replay.id).cloned(),
        }
    }

    fn replay_order(&self, id: u32) -> Option<ReplayOrder> {
        let replay = self.view.catalog().replay(id)?;
        if replay.state != ReplayState::Running || self.phase != Phase::Running {
            return None;
        }
        let found = self.view.catalog().subscription(replay.subscription)?;
        let letters = self.shelf_of(found).ok()?;
        let has_problem = self.replays.problems.contains_key(&id);
        let rules = self.settings.filter_rules;
        Some(ReplayOrder::new(
            replay.clone(),
            letters,
            rules,
            has_problem,
        ))
    }

    fn shelf_of(&self, found: &Subscription) -> Result<LetterShelf, CommandError> {
        let catalog = self.view.catalog();
        let topic = catalog
            .topic(found.topic)
            .ok_or(CommandError::Unavailable)?;
        let Some(destination) = &found.spec.dead_letter_destination else {
            let message = format!(
                "event subscription \"{}\" has no dead-letter destination, so nothing of it is kept",
                found.name
            );
            return Err(CommandError::Conflict(message));
        };
        let mut others = catalog.subscriptions();
        let is_only_of_name = !others.any(|other| other.name == found.name && other.id != found.id);
        Ok(LetterShelf {
            store: self.letter_writes.store(),
            store_id: self.context.store_id,
            topic: topic.id,
            source: self.letter_source(found),
            topic_name: topic.name.to_string(),
            topic_path: path_of_topic(topic),
            is_domain: topic.is_domain(),
            domain_topic: found.domain_topic.clone(),
            input: topic.spec.input_schema,
            subscription: found.id,
            subscription_name: found.name.to_string(),
            container: destination.container().clone(),
            extra: self.settings.dead_letter_members_of(topic.spec.profile),
            is_only_of_name,
        })
    }

    /// Goes on with the replays that were under way when the server ended.
    pub(super) fn take_up_replays(&mut self) {
        let all = self.view.catalog().replays();
        let running = all.filter(|replay| replay.state == ReplayState::Running);
        for id in running.map(|replay| replay.id).collect::<Vec<_>>() {
            self.go_on_with_replay(id);
        }
    }

    /// A change of replays holds.
    pub(super) fn follow_replay(&mut self, id: u32) {
        let state = self.view.catalog().replay(id).map(|replay| replay.state);
        match state {
            Some(ReplayState::Running) if self.phase == Phase::Running => {
                self.go_on_with_replay(id);
            }
            Some(ReplayState::Running) => {}
            Some(ReplayState::Stopped | ReplayState::Completed | ReplayState::Canceled) | None => {
                self.replays.problems.remove(&id);
                if let Some(task) = self.replays.tasks.get(&id) {
                    task.stop.set();
                }
            }
        }
    }

    /// Ends the replays of subscriptions that are gone.
    pub(super) fn end_gone_replays(&mut self) {
        let ids: Vec<_> = self.replays.tasks.keys().copied().collect();
        for id in ids {
            if self.view.catalog().replay(id).is_none() {
                self.follow_replay(id);
            }
        }
    }

    /// A subscription is declared otherwise: a replay that could not go on may be able to.
    pub(super) fn wake_replays_of(&mut self, id: SubscriptionId) {
        let all = self.view.catalog().replays();
        let of = all.filter(|one| one.subscription == id && one.state == ReplayState::Running);
        for id in of.map(|replay| replay.id).collect::<Vec<_>>() {
            if self.phase == Phase::Running {
                self.go_on_with_replay(id);
            }
        }
    }

    fn go_on_with_replay(&mut self, id: u32) {
        let present = self.replays.tasks.get(&id);
        if present.is_some_and(|task| !task.join.is_finished() && !task.stop.is_set()) {
            return;
        }
        let former = self.replays.tasks.remove(&id);
        let stop = Stop::default();
        let former = former.map(|task| task.join);
        let task = replay::run(self.handle.clone(), id, stop.clone(), former);
        let join = self.spawner.spawn(task);
        self.replays.tasks.insert(id, Task { stop, join });
    }
}

fn refuse_ended(info: ReplayInfo) -> Result<ReplayInfo, CommandError> {
    if info.replay.ended.is_none() {
        return Ok(info);
    }
    let message = if info.replay.state == ReplayState::Canceled {
        format!("replay {} was canceled", info.replay.id)
    } else {
        format!("replay {} has come to its end", info.replay.id)
    };
    Err(CommandError::Conflict(message))
}

fn told(id: u32, answer: Answer<ReplayInfo>) -> Answered {
    Box::new(move |made| reply(answer, made.and_then(|engine| engine.replay_named(id))))
}
