//! Replays: dead letters of a subscription that are delivered again, one after the other (ED-265). What was asked for and how far
//! it has come are declared like everything else, so that a replay goes on after a crash where it stood.

use hedgerow_core::limits;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::ReplaySpec;
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Catalog, Change};

/// A replay, and how far it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Never reused.
    pub id: u32,
    /// The topic.
    pub topic: TopicId,
    /// Whose dead letters.
    pub subscription: SubscriptionId,
    /// What somebody asked for.
    pub spec: ReplaySpec,
    /// When.
    pub created: Timestamp,
    /// Whether it goes on.
    pub state: ReplayState,
    /// Up to where everything was looked at; `None` at its begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<ReplayPlace>,
    /// What that came to.
    pub counts: ReplayCounts,
    /// When it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// Whether a replay goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayState {
    /// It goes on.
    Running,
    /// Somebody stopped it, and may let it go on.
    Stopped,
    /// Everything was looked at.
    Completed,
    /// Somebody ended it before that.
    Canceled,
}

impl ReplayState {
    /// The name that users see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Stopped => "Stopped",
            Self::Completed => "Completed",
            Self::Canceled => "Canceled",
        }
    }

    /// Whether it never goes on again.
    #[must_use]
    pub const fn is_end(self) -> bool {
        match self {
            Self::Running | Self::Stopped => false,
            Self::Completed | Self::Canceled => true,
        }
    }
}

/// A place among the dead letters of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayPlace {
    /// The name of a blob.
    pub blob: String,
    /// So many of its records were looked at.
    pub records: u32,
}

/// What was looked at, and what became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayCounts {
    /// Blobs that were looked at to their end.
    pub blobs: u64,
    /// Events that were delivered again; of a dry run, that would have been.
    pub replayed: u64,
    /// Events that were not asked for.
    pub skipped: u64,
    /// Records and blobs that could not be read.
    pub unreadable: u64,
}

impl Catalog {
    /// The id that the next replay is made with.
    #[must_use]
    pub fn next_replay_id(&self) -> u32 {
        self.last_replay_id + 1
    }

    /// All replays, by id.
    pub fn replays(&self) -> impl Iterator<Item = &Replay> {
        self.replays.values()
    }

    /// The replay with this id.
    #[must_use]
    pub fn replay(&self, id: u32) -> Option<&Replay> {
        self.replays.get(&id)
    }

    /// Applies a change that is about replays.
    pub(super) fn follow_replay(&mut self, change: Change) {
        match change {
            Change::ReplayCreated {
                replay,
                topic,
                subscription,
                spec,
                created,
            } => self.add_replay(Replay {
                id: replay,
                topic,
                subscription,
                spec: *spec,
                created,
                state: ReplayState::Running,
                place: None,
                counts: ReplayCounts::default(),
                ended: None,
            }),
            Change::ReplayMoved {
                replay,
                place,
                counts,
            } => {
                if let Some(replay) = self.replays.get_mut(&replay) {
                    replay.place = Some(place);
                    replay.counts = counts;
                }
            }
            Change::ReplaySet { replay, state, at } => {
                if let Some(replay) = self.replays.get_mut(&replay) {
                    replay.state = state;
                    replay.ended = state.is_end().then_some(at);
                }
            }
            _ => {}
        }
    }

    fn add_replay(&mut self, replay: Replay) {
        self.last_replay_id = replay.id;
        self.replays.insert(replay.id, replay);
        let ended = self.replays().filter(|replay| replay.ended.is_some());
        let ended: Vec<_> = ended.map(|replay| replay.id).collect();
        let too_many = ended.len().saturating_sub(limits::REPLAYS_ENDED_MAX);
        for oldest in &ended[..too_many] {
            self.replays.remove(oldest);
        }
    }

    /// The subscription is gone, and nobody can be given anything again.
    pub(super) fn forget_replays_of(&mut self, gone: SubscriptionId) {
        self.replays.retain(|_, replay| replay.subscription != gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is stored has these names, and earlier versions wrote all but the last one.
    #[test]
    fn states_are_stored_under_their_names() {
        for (state, is_end) in [
            (ReplayState::Running, false),
            (ReplayState::Stopped, false),
            (ReplayState::Completed, true),
            (ReplayState::Canceled, true),
        ] {
            let stored = serde_json::json!(state.as_str());
            assert_eq!(serde_json::to_value(state).unwrap(), stored);
            let read: ReplayState = serde_json::from_value(stored).unwrap();
            assert_eq!((read, read.is_end()), (state, is_end));
        }
    }
}
