//! Which events were accepted: the hash of each one's id and its position, so that an event is found by its id although
//! nobody was sent it.
//!
//! An id itself is not kept, only its hash of 64 bits. Whoever finds an event compares the id with that of the stored event,
//! as long as there is one; afterwards two ids with one hash cannot be told apart.

use hedgerow_core::position::{Position, TopicId};
use hedgerow_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::frame::FRAME_BYTES_MAX;
use super::index;
use super::kept::{Kept, Wanted};
use crate::record::Events;

/// Bytes of a hash in its stored form.
const HASH_BYTES: usize = 8;
/// Bytes of a run beside its hashes, at most: four numbers.
const RUN_BYTES_MAX: usize = 5 + 10 + 10 + 3;
/// Bytes of a frame that runs may fill.
const RUNS_BYTES_MAX: usize = FRAME_BYTES_MAX - 64;
/// Ids of one run: with its numbers it fits into a frame.
const RUN_IDS_MAX: usize = (RUNS_BYTES_MAX - RUN_BYTES_MAX) / HASH_BYTES;

/// An event that was accepted, as it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcceptedEvent {
    /// When: P of ED-203.
    pub published: Timestamp,
    /// Where it stands in the log, or stood.
    pub position: Position,
}

/// Events of one topic that follow each other and were accepted together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    topic: TopicId,
    first_seq: u64,
    published: Timestamp,
    /// Of their ids, in order; little-endian.
    hashes: Vec<[u8; HASH_BYTES]>,
}

/// Runs that stand in one frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Runs(Vec<Run>);

impl Run {
    /// The runs of a record of the log. Events that cannot be read end it: whoever reads them for their own sake says so.
    pub(super) fn of(events: &Events) -> Vec<Self> {
        let count = events.packed.count() as usize;
        let mut runs = Vec::with_capacity(count.div_ceil(RUN_IDS_MAX));
        let mut run = Self::at(events, 0, count.min(RUN_IDS_MAX));
        for (number, id) in events.packed.ids().map_while(Result::ok).enumerate() {
            if run.hashes.len() == RUN_IDS_MAX {
                let left = (count - number).min(RUN_IDS_MAX);
                runs.push(std::mem::replace(
                    &mut run,
                    Self::at(events, number as u64, left),
                ));
            }
            run.hashes.push(index::hash(id).to_le_bytes());
        }
        if !run.hashes.is_empty() {
            runs.push(run);
        }
        runs
    }

    fn at(events: &Events, number: u64, count: usize) -> Self {
        Self {
            topic: events.topic,
            first_seq: events.first_seq + number,
            published: events.published,
            hashes: Vec::with_capacity(count),
        }
    }

    /// About the memory it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.hashes.len() * HASH_BYTES
    }

    fn stored_bytes_max(&self) -> usize {
        RUN_BYTES_MAX + self.hashes.len() * HASH_BYTES
    }

    /// Adds the events with this hash, the newest first.
    pub(super) fn find(&self, hash: u64, found: &mut Vec<AcceptedEvent>) {
        let hash = hash.to_le_bytes();
        let all = self.hashes.iter().enumerate().rev();
        for (at, _) in all.filter(|(_, one)| **one == hash) {
            found.push(AcceptedEvent {
                published: self.published,
                position: Position {
                    topic: self.topic,
                    seq: self.first_seq + at as u64,
                },
            });
        }
    }

    /// How many events it tells of.
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }
}

impl Runs {
    /// Puts runs together so that each frame is as full as it can be.
    pub(super) fn gather(runs: Vec<Run>) -> Vec<Self> {
        let mut gathered = Vec::new();
        let (mut open, mut bytes) = (Self::default(), 0);
        for run in runs {
            if bytes + run.stored_bytes_max() > RUNS_BYTES_MAX && !open.0.is_empty() {
                gathered.push(std::mem::take(&mut open));
                bytes = 0;
            }
            bytes += run.stored_bytes_max();
            open.0.push(run);
        }
        if !open.0.is_empty() {
            gathered.push(open);
        }
        gathered
    }

    /// How many events they tell of.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Run::len).sum()
    }
}

impl Kept for Runs {
    const DIRECTORY: &'static str = "history-ids";
    const VERSION: u8 = 0x80;
    type Found = AcceptedEvent;

    fn ended(&self) -> Timestamp {
        let times = self.0.iter().map(|run| run.published);
        times.max().unwrap_or(Timestamp::ZERO)
    }

    fn hashes(&self) -> impl Iterator<Item = u64> {
        let hashes = self.0.iter().flat_map(|run| &run.hashes);
        hashes.map(|hash| u64::from_le_bytes(*hash))
    }

    fn find(self, wanted: &Wanted, found: &mut Vec<AcceptedEvent>) {
        for run in self.0.iter().rev() {
            run.find(wanted.hash, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::event::{Data, Event};

    use super::*;
    use crate::history::frame;
    use crate::record::PackedEvents;

    fn event(id: &str) -> Event<'_> {
        Event {
            id: id.into(),
            source: None,
            event_type: "T".into(),
            subject: Some("s".into()),
            time: None,
            data_version: None,
            data_content_type: None,
            data_schema: None,
            extensions: Vec::new(),
            data: Data::None,
        }
    }

    fn events(topic: u32, first_seq: u64, ids: &[String]) -> Events {
        let events: Vec<_> = ids.iter().map(|id| event(id)).collect();
        Events {
            topic: TopicId(topic),
            first_seq,
            published: Timestamp::MAX,
            packed: PackedEvents::pack(&events),
        }
    }

    /// The largest request, and thousands of small ones: every frame fits, and every event is found where it stands.
    #[test]
    fn runs_fit_into_frames_and_tell_of_every_event() {
        let ids = |name: &str, count: u64| {
            (0..count)
                .map(|at| format!("{name}-{at}"))
                .collect::<Vec<_>>()
        };
        let mut runs = Run::of(&events(u32::MAX, u64::MAX - 5_000, &ids("large", 5_000)));
        for at in 0..3_000 {
            runs.extend(Run::of(&events(
                7,
                at * 3 + 1,
                &ids(&format!("small-{at}"), 3),
            )));
        }
        let frames = Runs::gather(runs);
        assert_eq!(frames.iter().map(Runs::len).sum::<usize>(), 5_000 + 9_000);
        for frame in &frames {
            let mut bytes = Vec::new();
            frame::encode(frame, &mut bytes);
            assert!(bytes.len() <= FRAME_BYTES_MAX, "{} bytes", bytes.len());
            assert_eq!(
                frame::decode::<Runs>(&bytes),
                Some((frame.clone(), bytes.len()))
            );
        }
        let find = |id: &str| {
            let mut found = Vec::new();
            for frame in frames.clone() {
                frame.find(&Wanted::new(id), &mut found);
            }
            found
                .iter()
                .map(|event| (event.position.topic.0, event.position.seq))
                .collect::<Vec<_>>()
        };
        assert_eq!(find("large-0"), [(u32::MAX, u64::MAX - 5_000)]);
        assert_eq!(find("large-4999"), [(u32::MAX, u64::MAX - 1)]);
        assert_eq!(find("small-2999-1"), [(7, 2_999 * 3 + 2)]);
        assert_eq!(find("none"), []);
    }
}
