//! What can go wrong in the store, told apart by what the caller does about it.

use std::error::Error;
use std::fmt;
use std::io;

use hedgerow_core::position::{Mark, Position};

use crate::log::lost::Loss;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Publishing is refused until room was made. It resumes by itself.
    #[error("cannot append: {0}")]
    Full(Fullness),
    /// More waits to be written than may wait. Come back in a moment.
    #[error(
        "cannot append: {queued_bytes} bytes wait to be written, {queue_bytes_max} may; publish \
         again in a moment"
    )]
    Busy {
        /// What waits.
        queued_bytes: u64,
        /// What may wait.
        queue_bytes_max: u64,
    },
    /// One record is larger than a group can be. It never fits: publish less at once.
    #[error(
        "cannot append: {bytes} bytes in one record, {bytes_max} are possible; send less at once"
    )]
    TooLarge {
        /// The record's size.
        bytes: usize,
        /// The largest size that fits.
        bytes_max: usize,
    },
    /// The store failed a write or a sync, or was closed. Open it again from disk.
    #[error("the store is closed; it has to be opened again")]
    Closed,
    /// Another owner has taken the store over. This one has stopped for good: opening it again would take it back, and
    /// the two would go on taking turns. A person must act.
    #[error(
        "{store} was taken over by another server ({found}, this server is epoch {epoch}); this server stops; see to it \
         that one server at a time uses it, then start that one"
    )]
    Fenced {
        /// What is owned: the data directory, or how else the store is called.
        store: String,
        /// The epoch of the owner that was.
        epoch: u32,
        /// What was found in place of it.
        found: String,
    },
    /// What was asked for is not in the log any more, or not yet.
    #[error(
        "{what} is not in the log, which begins behind {oldest}; it was delivered or is unknown"
    )]
    Forgotten {
        /// The place that was asked for.
        what: Place,
        /// The end of what was forgotten.
        oldest: Mark,
    },
    /// Bytes that were safely stored have changed or are missing. A person must act.
    #[error(
        "{what} is damaged; `hedgerow store check` says what else is; restore the data directory from a backup"
    )]
    Damaged {
        /// The object and what is wrong with it.
        what: String,
    },
    /// The view's bytes have changed or are missing. It can be built again from the rest of the data directory.
    #[error(
        "{what} is damaged; run `hedgerow recover`, which builds it again from the log, and if that is refused, restore the \
         whole data directory from a backup"
    )]
    ViewDamaged {
        /// What of it, and what is wrong.
        what: String,
    },
    /// The data was written by a newer version of Hedgerow.
    #[error("{what} was written by a newer version; start that version or a newer one")]
    Newer {
        /// The object and the version found.
        what: String,
    },
    /// The data was written by a build from before the format was final.
    #[error(
        "{what} is of a build from before the format was final and cannot be read; name an empty data directory, and \
         declare topics and subscriptions anew"
    )]
    Older {
        /// The object and the version found.
        what: String,
    },
    /// Another process uses the directory.
    #[error(
        "data directory {directory} is in use by another server; stop it, or choose another directory"
    )]
    Locked {
        /// The directory.
        directory: String,
    },
    /// There is no store in the directory.
    #[error("there is no store in {directory}; name the data directory of a server")]
    Missing {
        /// The directory.
        directory: String,
    },
    /// What is sealed in the data directory cannot be read with the key that is there. A person must act.
    #[error("key file {file} {problem}")]
    Key {
        /// The key's file.
        file: String,
        /// What is wrong, the ids of the keys, and what to do.
        problem: String,
    },
    /// The file system refused.
    #[error(
        "cannot {doing} {path}; check the disk, its space and the permissions of the data directory"
    )]
    Io {
        /// The verb.
        doing: &'static str,
        /// The file or directory, relative to the data directory.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The view is ahead of the log: one of the two is of another time.
    #[error(
        "the view stands at {stamp} and the log ends at {end}: view/ is newer than log/; bring back the log/ that \
         belongs to it, or restore the whole data directory from one backup; `hedgerow recover` says what is lost"
    )]
    ViewAhead {
        /// Where the view stands.
        stamp: Mark,
        /// Where the log ends.
        end: Mark,
    },
    /// Events that were acknowledged are missing at the end of the log, and the view is to be built without them. A person
    /// must decide.
    #[error(
        "{0}; bring back the log/ that belongs to it, or restore the whole data directory from one backup; `hedgerow recover \
         --accept-loss` gives up what is lost and goes on with what is there"
    )]
    Lost(Box<Loss>),
    /// The log has forgotten what the view has not seen: one of the two is of another time.
    #[error(
        "the view stands at {stamp} and the log begins behind {oldest}: view/ is older than log/ or missing; run \
         `hedgerow recover`, which builds it again"
    )]
    ViewBehind {
        /// Where the view stands.
        stamp: Mark,
        /// The end of what the log has forgotten.
        oldest: Mark,
    },
    /// What the view was checkpointed with is not there: one of the two is of another time.
    #[error(
        "{path} is missing: view/ is older than catalog/, or the file was lost; run `hedgerow recover`, which builds the \
         view again, and if it says this too, restore the whole data directory from a backup"
    )]
    CatalogMissing {
        /// The file, relative to the data directory.
        path: String,
    },
    /// What was declared stands in the log too, as far as that goes back.
    #[error(
        "{path} is damaged ({problem}); run `hedgerow recover`, which writes it again from the log, and if it says this too, \
         restore the whole data directory from a backup"
    )]
    CatalogDamaged {
        /// The file, relative to the data directory.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A view cannot be built for this log.
    #[error(
        "the log begins with segment {segment} and baseline/ has none for it: the view cannot be built again; restore \
         the whole data directory from a backup"
    )]
    Unrecoverable {
        /// The oldest segment.
        segment: u32,
    },
    /// The table under the view refused.
    #[error("cannot {doing} the view; check the disk, then start again")]
    View {
        /// The verb.
        doing: &'static str,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    /// An error of the file system about `path`.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// Whether it says that the disk is full, which passes by itself when space is made.
    pub(crate) fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ))
    }

    /// An error about damaged bytes.
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}

/// Why publishing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fullness {
    /// The log has grown to its watermark.
    Log {
        /// Bytes that cannot be forgotten yet.
        used_bytes: u64,
        /// At how many of them publishing is refused.
        watermark_bytes: u64,
    },
    /// The disk has too little space left.
    Disk {
        /// Bytes free on the disk.
        free_bytes: u64,
        /// How many of them are kept for settling.
        reserve_bytes: u64,
    },
}

impl fmt::Display for Fullness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log {
                used_bytes,
                watermark_bytes,
            } => write!(
                f,
                "the log holds {used_bytes} bytes that are still owed, {watermark_bytes} are allowed; \
                 let subscriptions catch up or raise store.bytes_max"
            ),
            Self::Disk {
                free_bytes,
                reserve_bytes,
            } => write!(
                f,
                "the disk has {free_bytes} bytes left and {reserve_bytes} are kept for settling (store.disk_reserve_bytes); \
                 free space"
            ),
        }
    }
}

/// A place in the log, in either numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A place in the order of all records.
    Mark(Mark),
    /// One event.
    Position(Position),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mark(mark) => write!(f, "the group at {mark}"),
            Self::Position(position) => {
                write!(
                    f,
                    "event {} of topic number {}",
                    position.seq, position.topic.0
                )
            }
        }
    }
}
