//! Writes what was not delivered to the dead-letter store: a directory below the server's own (ED-243, ED-249 to ED-252).
//! Decides nothing: when it is written, and what follows a failure, is the engine's.

use std::io;
use std::sync::Arc;

use hedgerow_core::dead_letter::{BLOB_BYTES_MAX, blob_path};
use hedgerow_core::event::Event;
use hedgerow_core::position::{Position, TopicId};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::{self, DeadLetter};
use hedgerow_io::chance;
use hedgerow_store::disk::Disk;
use hedgerow_store::record::{PendingDeadLetter, dead_text, unpack_event};
use hedgerow_store::{Store, StoreError};

use crate::runner::DueKey;

/// Opens the directory that containers stand in.
pub type OpenDeadLetters = Arc<dyn Fn() -> io::Result<Arc<dyn Disk>> + Send + Sync>;

/// Events of one subscription to be written together.
pub(crate) struct Batch {
    pub(crate) topic: TopicId,
    pub(crate) topic_name: String,
    pub(crate) subscription_name: String,
    /// The directory.
    pub(crate) container: String,
    pub(crate) rows: Vec<(DueKey, PendingDeadLetter)>,
}

/// What became of a batch. Events that no longer fitted into the blob are not among `texts`: they are due still.
pub(crate) struct Written {
    pub(crate) rows: Vec<(DueKey, PendingDeadLetter)>,
    /// What each terminal record says of its event.
    pub(crate) texts: Vec<Texts>,
    /// Where they stand now; `None` if they were not to be written.
    pub(crate) result: Result<Option<String>, WriteError>,
}

/// An event's texts, as a terminal record has them.
pub(crate) struct Texts {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) subject: String,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is no such container.
    #[error("the directory {0} is not there; make it")]
    NotFound(String),
    /// Anything else.
    #[error("cannot write to the directory {container}")]
    Unavailable {
        /// The directory.
        container: String,
        /// Why.
        source: io::Error,
    },
}

/// Reads the events, and writes as many of them as one blob takes. Blocks.
///
/// # Errors
/// If an event cannot be read: the store has failed.
pub(crate) fn write(
    store: &dyn Store,
    open: &OpenDeadLetters,
    batch: Batch,
    now: Timestamp,
) -> Result<Written, StoreError> {
    let topic_path = event_grid::topic_path(&batch.topic_name);
    let mut blob = vec![b'['];
    let mut texts = Vec::new();
    for ((_, seq), pending) in &batch.rows {
        let position = Position {
            topic: batch.topic,
            seq: *seq,
        };
        let event = store.read(position)?;
        let unpacked = unpack_event(&event.bytes)?;
        let before = blob.len();
        if !texts.is_empty() {
            blob.push(b',');
        }
        push_record(&mut blob, &unpacked, &topic_path, pending);
        if blob.len() > BLOB_BYTES_MAX && !texts.is_empty() {
            blob.truncate(before);
            break;
        }
        texts.push(Texts::of(&unpacked));
    }
    blob.push(b']');
    let path = blob_path(&batch.subscription_name, now, &chance::uuid());
    let result = put(open, &batch.container, &path, &blob);
    Ok(Written {
        result: result.map(|()| Some(format!("{}/{path}", batch.container))),
        rows: batch.rows,
        texts,
    })
}

/// Reads what the terminal records of events say that have no destination any more. Blocks.
///
/// # Errors
/// As [`write`].
pub(crate) fn read_texts(store: &dyn Store, batch: Batch) -> Result<Written, StoreError> {
    let texts = batch.rows.iter().map(|((_, seq), _)| {
        let position = Position {
            topic: batch.topic,
            seq: *seq,
        };
        Ok(Texts::of(&unpack_event(&store.read(position)?.bytes)?))
    });
    let texts = texts.collect::<Result<_, StoreError>>()?;
    Ok(Written {
        texts,
        rows: batch.rows,
        result: Ok(None),
    })
}

impl Texts {
    fn of(event: &Event<'_>) -> Self {
        Self {
            event_id: dead_text(&event.id),
            event_type: dead_text(&event.event_type),
            subject: dead_text(event.subject.as_deref().unwrap_or_default()),
        }
    }
}

fn push_record(
    blob: &mut Vec<u8>,
    event: &Event<'_>,
    topic_path: &str,
    pending: &PendingDeadLetter,
) {
    let progress = pending.progress;
    let published = pending.published.to_string();
    let last_attempt = progress.map(|progress| progress.last_attempt.to_string());
    let dead = DeadLetter {
        reason: pending.reason.as_str(),
        attempts: progress.map_or(0, |progress| progress.attempts),
        last_outcome: progress.map(|progress| progress.last_outcome.as_str()),
        published: &published,
        last_attempt: last_attempt.as_deref(),
        last_status: progress
            .map(|progress| progress.last_status)
            .filter(|status| *status > 0),
    };
    event_grid::push_dead_letter(blob, event, topic_path, &dead);
}

/// Makes the container, and tries to write and to remove an object in it (ED-319). Blocks.
pub(crate) fn probe(open: &OpenDeadLetters, container: &str) -> Result<(), WriteError> {
    let tried = || {
        let disk = open()?;
        make_directories(&*disk, container)?;
        let path = format!("{container}/.probe-{}", chance::uuid());
        write_new(&*disk, &path, b"[]")?;
        disk.remove(&path)
    };
    tried().map_err(|source| WriteError::Unavailable {
        container: container.to_owned(),
        source,
    })
}

/// Writes a blob in one atomic operation: a new file gets its name when it is whole and synced (ED-252).
fn put(open: &OpenDeadLetters, container: &str, path: &str, blob: &[u8]) -> Result<(), WriteError> {
    let tried = || {
        let disk = open()?;
        let (directory, _) = path.rsplit_once('/').unwrap_or(("", path));
        make_directories_in(&*disk, container, directory)?;
        let new = format!("{container}/{path}.new");
        write_new(&*disk, &new, blob)?;
        disk.rename(&new, &format!("{container}/{path}"))?;
        disk.sync_dir(&format!("{container}/{directory}"))
    };
    tried().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => WriteError::NotFound(container.to_owned()),
        _ => WriteError::Unavailable {
            container: container.to_owned(),
            source,
        },
    })
}

fn write_new(disk: &dyn Disk, path: &str, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(path, true)?;
    file.write_at(0, bytes)?;
    file.sync_data()
}

fn make_directories(disk: &dyn Disk, path: &str) -> io::Result<()> {
    make_directories_in(disk, "", path)
}

/// Makes the directories of `path` below `container`, which is not made itself.
fn make_directories_in(disk: &dyn Disk, container: &str, path: &str) -> io::Result<()> {
    let mut parent = container.to_owned();
    for name in path.split('/') {
        let directory = if parent.is_empty() {
            name.to_owned()
        } else {
            format!("{parent}/{name}")
        };
        disk.create_dir(&directory)?;
        disk.sync_dir(&parent)?;
        parent = directory;
    }
    Ok(())
}
