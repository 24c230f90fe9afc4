//! What waits to be written. It is the only buffer: the writer lets records gather here and takes all of them at once.

use std::mem::take;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::ids::Run;
use super::lock;
use super::record::HistoryRecord;

/// The queue between those who record and the writer.
pub(super) struct Queue {
    state: Mutex<State>,
    /// The writer has something to do.
    called: Condvar,
    /// A flush was done.
    flushed: Condvar,
    bytes_max: usize,
    /// At how many waiting bytes the writer is called.
    call_bytes: usize,
}

#[derive(Default)]
pub(super) struct State {
    /// In order.
    pub records: Vec<HistoryRecord>,
    bytes: usize,
    /// Ids of accepted events, in order. They have bytes of their own: many of them keep no attempt away.
    pub runs: Vec<Run>,
    runs_bytes: usize,
    /// Nothing is taken in any more.
    is_closed: bool,
    /// Nobody takes anything out any more.
    has_ended: bool,
    /// Flushes that were asked for.
    flushes: u64,
    /// Flushes that were done.
    flushes_done: u64,
}

/// What the writer took out.
pub(super) struct Taken {
    pub records: Vec<HistoryRecord>,
    pub runs: Vec<Run>,
    /// To be handed back to [`Queue::done`].
    pub flushes: u64,
    /// Nothing comes after this.
    pub is_last: bool,
}

impl Queue {
    pub(super) fn new(bytes_max: usize, call_bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            called: Condvar::new(),
            flushed: Condvar::new(),
            bytes_max,
            call_bytes,
        }
    }

    /// Adds a record; false if there is no room for it.
    pub(super) fn push(&self, record: HistoryRecord) -> bool {
        let bytes = record.memory_bytes();
        let mut state = self.lock();
        if state.is_closed || state.bytes + bytes > self.bytes_max {
            return false;
        }
        let before = state.waiting_bytes();
        state.bytes += bytes;
        state.records.push(record);
        self.call(before, state.waiting_bytes());
        true
    }

    /// Adds records; says how many of them there was no room for.
    pub(super) fn push_all(&self, records: Vec<HistoryRecord>) -> usize {
        let mut lost = 0;
        let mut state = self.lock();
        let before = state.waiting_bytes();
        for record in records {
            let bytes = record.memory_bytes();
            if state.is_closed || state.bytes + bytes > self.bytes_max {
                lost += 1;
            } else {
                state.bytes += bytes;
                state.records.push(record);
            }
        }
        self.call(before, state.waiting_bytes());
        lost
    }

    /// Adds the ids of accepted events; says how many of them there was no room for.
    pub(super) fn push_runs(&self, runs: Vec<Run>) -> usize {
        let mut lost = 0;
        let mut state = self.lock();
        let before = state.waiting_bytes();
        for run in runs {
            let bytes = run.memory_bytes();
            if state.is_closed || state.runs_bytes + bytes > self.bytes_max {
                lost += run.len();
            } else {
                state.runs_bytes += bytes;
                state.runs.push(run);
            }
        }
        self.call(before, state.waiting_bytes());
        lost
    }

    /// Calls the writer for the first one and when enough has gathered, not for each: waking a thread is what costs here.
    fn call(&self, before: usize, after: usize) {
        let is_first = before == 0 && after > 0;
        if is_first || (before < self.call_bytes && after >= self.call_bytes) {
            self.called.notify_one();
        }
    }

    /// Waits until there is something to write, but not longer than `idle`; then lets records gather for `gather`, or
    /// until there are enough. Takes nothing out.
    pub(super) fn wait(&self, gather: Duration, idle: Duration) {
        let has_nothing = |state: &mut State| state.waiting_bytes() == 0 && !state.is_urgent();
        let waited = self
            .called
            .wait_timeout_while(self.lock(), idle, has_nothing);
        let Ok((state, _)) = waited else {
            return;
        };
        if state.waiting_bytes() == 0 {
            return;
        }
        let call_bytes = self.call_bytes;
        let is_little =
            |state: &mut State| state.waiting_bytes() < call_bytes && !state.is_urgent();
        let waited = self.called.wait_timeout_while(state, gather, is_little);
        drop(waited);
    }

    /// Takes everything out.
    pub(super) fn take(&self) -> Taken {
        let mut state = self.lock();
        (state.bytes, state.runs_bytes) = (0, 0);
        Taken {
            records: take(&mut state.records),
            runs: take(&mut state.runs),
            flushes: state.flushes,
            is_last: state.is_closed,
        }
    }

    /// Everything that was taken is written or lost.
    pub(super) fn done(&self, flushes: u64) {
        let mut state = self.lock();
        if state.flushes_done < flushes {
            state.flushes_done = flushes;
            self.flushed.notify_all();
        }
    }

    /// Waits until everything pushed before is written or lost.
    pub(super) fn flush(&self) {
        let mut state = self.lock();
        if state.has_ended {
            return;
        }
        state.flushes += 1;
        let flush = state.flushes;
        self.called.notify_one();
        let waits = |state: &mut State| state.flushes_done < flush && !state.has_ended;
        let waited = self.flushed.wait_while(state, waits);
        drop(waited);
    }

    /// Takes nothing in any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.called.notify_one();
    }

    /// The writer has ended.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.has_ended = true;
        self.flushed.notify_all();
    }

    /// For looking at what waits.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn waiting_bytes(&self) -> usize {
        self.bytes + self.runs_bytes
    }

    fn is_urgent(&self) -> bool {
        self.is_closed || self.flushes > self.flushes_done
    }
}
