//! The threads of a log: one that commits, one that makes segments ahead of time and the indexes of those that are full, and
//! one that cleans. They are apart because a cleaning is long, and the next segment must be there in time.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::shared::Shared;
use super::writer::Writer;

/// Wishes of the commit thread that may wait.
const WISHES_MAX: usize = 2;

/// What the commit thread leaves to the one that tends the segments.
enum Wish {
    /// This segment is needed soon.
    Segment(u32),
    /// A segment was sealed.
    Indexes,
}

/// Wakes the thread that cleans; it ends when this is dropped.
pub(super) struct Cleaner(mpsc::SyncSender<()>);

impl Cleaner {
    /// There is a plan. One that finds the thread at work is carried out behind the one before.
    pub(super) fn wake(&self) {
        let _ = self.0.try_send(());
    }
}

/// Starts them all.
pub(super) fn start(shared: &Arc<Shared>, writer: Writer) -> (Vec<JoinHandle<()>>, Cleaner) {
    let (wishes, heard) = mpsc::sync_channel(WISHES_MAX);
    let (plans, planned) = mpsc::sync_channel(1);
    let [tending, cleaning, committing] = [(); 3].map(|()| Arc::clone(shared));
    let threads = vec![
        spawn("hedgerow-tend", move || tend_segments(&tending, &heard)),
        spawn("hedgerow-clean", move || {
            while planned.recv().is_ok() {
                cleaning.clean_as_planned();
            }
        }),
        spawn("hedgerow-commit", move || {
            commit_groups(&committing, writer, &wishes);
        }),
    ];
    (threads, Cleaner(plans))
}

/// Closes the log when the thread that writes ends, in whichever way.
struct CloseAtEnd<'a>(&'a Shared);

impl Drop for CloseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Takes all that is queued, without lingering, until the queue is closed and empty.
fn commit_groups(shared: &Shared, mut writer: Writer, wishes: &mpsc::SyncSender<Wish>) {
    let _close = CloseAtEnd(shared);
    let bytes_max = shared.options.batch_bytes_max();
    let mut batch = Vec::new();
    loop {
        shared.queue.wait_and_take(bytes_max, &mut batch);
        if batch.is_empty() {
            return;
        }
        if let Err(error) = writer.commit(&mut batch) {
            return shared.close_for(&error);
        }
        // A wish that is not heard now is repeated after the next group, or granted with another one.
        if let Some(number) = writer.next_segment() {
            let _ = wishes.try_send(Wish::Segment(number));
        } else if shared.lacks_indexes() {
            let _ = wishes.try_send(Wish::Indexes);
        }
    }
}

fn tend_segments(shared: &Shared, wished: &mpsc::Receiver<Wish>) {
    if let Err(error) = shared
        .pool
        .fill(shared.options.zeroed_segments, || shared.room_for_advance())
    {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(cause, "{error}");
    }
    shared.write_indexes();
    while let Ok(wish) = wished.recv() {
        if let Wish::Segment(number) = wish {
            shared.prepare(number);
        }
        shared.write_indexes();
    }
    // Written even if the log has failed: they tell of what was durable before.
    shared.write_indexes();
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body);
    thread.expect("the system can start a thread")
}
