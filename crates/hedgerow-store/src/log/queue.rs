//! What waits to be written, in order.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use hedgerow_core::position::TopicId;
use tokio::sync::oneshot;

use super::lock;
use crate::Appended;
use crate::error::StoreError;
use crate::record::codec::{FRAME_HEADER_BYTES, encode_record, events_frame_bytes};
use crate::record::{PackedEvents, Record};

/// One thing to write.
pub(crate) enum Work {
    /// Events; `reply` is told when they are durable.
    Append {
        topic: TopicId,
        events: PackedEvents,
        reply: oneshot::Sender<Appended>,
    },
    /// Another record, and its frame.
    Journal { record: Record, frame: Vec<u8> },
}

impl Work {
    /// A record and its frame, made here so that the commit thread only copies it.
    pub(crate) fn journal(record: Record) -> Self {
        let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + 64);
        encode_record(&record, &mut frame);
        Self::Journal { record, frame }
    }

    /// The size of its frame.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Append { events, .. } => events_frame_bytes(events),
            Self::Journal { frame, .. } => frame.len(),
        }
    }
}

/// The queue between those who append and the one who writes.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    bytes: u64,
    /// Nothing is taken in any more.
    closed: bool,
    /// The writer sleeps.
    waiting: bool,
}

impl Queue {
    /// The sum of what waits.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.state).bytes
    }

    /// Adds work at the end, if `admit` agrees when it hears how many bytes wait already.
    pub(crate) fn push(
        &self,
        work: Work,
        admit: impl FnOnce(u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(StoreError::Closed);
        }
        admit(state.bytes)?;
        state.bytes += work.bytes() as u64;
        state.work.push_back(work);
        if std::mem::take(&mut state.waiting) {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Moves the oldest work to `batch`: as much as has `bytes_max` bytes together, but at least one.
    pub(crate) fn take(&self, bytes_max: usize, batch: &mut Vec<Work>) {
        lock(&self.state).take(bytes_max, batch);
    }

    /// The same, after waiting for work. Takes nothing when the queue is closed and empty.
    pub(crate) fn wait_and_take(&self, bytes_max: usize, batch: &mut Vec<Work>) {
        let mut state = lock(&self.state);
        while state.work.is_empty() && !state.closed {
            state.waiting = true;
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.take(bytes_max, batch);
    }

    /// Takes nothing in any more. What is queued can still be taken out.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        self.filled.notify_all();
    }

    /// Takes nothing in any more and drops what is queued, with everybody's reply.
    pub(crate) fn discard(&self) {
        self.close();
        let dropped = {
            let mut state = lock(&self.state);
            state.bytes = 0;
            std::mem::take(&mut state.work)
        };
        drop(dropped);
    }
}

impl State {
    fn take(&mut self, bytes_max: usize, batch: &mut Vec<Work>) {
        let mut bytes = 0;
        while let Some(work) = self.work.front() {
            let more = work.bytes();
            if !batch.is_empty() && bytes + more > bytes_max {
                break;
            }
            bytes += more;
            batch.extend(self.work.pop_front());
        }
        self.bytes -= bytes as u64;
    }
}
