//! Keeps dead letters: whole blobs in containers, each written in one atomic operation (ED-251, ED-252).
//!
//! | implementation | is |
//! | --- | --- |
//! | [`LocalDirectory`] | a directory; containers are directories in it, blobs are files |
//!
//! Decides nothing about when and what: that is [`hedgerow_core::dead_letter`]'s and the caller's.

use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use hedgerow_core::spec::ContainerPath;

use crate::chance;

/// What a store answers, some time.
pub type Answered<'a> = Pin<Box<dyn Future<Output = Result<(), DeadLetterError>> + Send + 'a>>;

/// Where dead letters are kept.
pub trait DeadLetterStore: Send + Sync {
    /// Keeps a blob: all of it or nothing, durable when it is answered. A blob whose answer did not come may be there.
    fn write(&self, blob: Blob) -> Answered<'_>;

    /// Writes and deletes a small object in a container, to see whether that can be done (ED-319).
    fn probe(&self, container: ContainerPath) -> Answered<'_>;
}

/// A blob to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// In which container.
    pub container: ContainerPath,
    /// Its name there, with `/` between its parts (ED-249). No other blob has it.
    pub name: String,
    /// Its content: JSON.
    pub bytes: Vec<u8>,
    /// What stores that have metadata keep with it (ED-251): the subscription's name.
    pub subscription: String,
    /// The topic's name.
    pub topic: String,
    /// How many events it holds.
    pub count: usize,
}

/// Why a blob could not be kept. The message names the store, and what is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DeadLetterError {
    /// For people.
    pub message: String,
    /// Whether the container does not exist.
    pub is_not_found: bool,
}

/// The begin of the names of files that are being written, and of probes: no reader takes them for blobs.
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// A directory of this machine. Containers are directories in it that somebody else made: one that is missing may be a
/// disk that is not mounted, and must not be replaced by an empty directory beneath.
#[derive(Debug, Clone)]
pub struct LocalDirectory {
    root: PathBuf,
}

impl LocalDirectory {
    /// A store whose containers lie in `root`.
    #[must_use]
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn container(&self, container: &ContainerPath) -> Result<PathBuf, DeadLetterError> {
        let path = self.root.join(container.as_str());
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => Ok(path),
            Ok(_) => Err(DeadLetterError {
                message: format!("{} is no directory", path.display()),
                is_not_found: true,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DeadLetterError {
                message: format!("the directory {} does not exist; make it", path.display()),
                is_not_found: true,
            }),
            Err(error) => Err(cannot("look at", &path, &error)),
        }
    }

    fn write_now(&self, blob: &Blob) -> Result<(), DeadLetterError> {
        let container = self.container(&blob.container)?;
        let path = container.join(&blob.name);
        let directory = path.parent().unwrap_or(&container);
        make_directories(&container, directory)?;
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = directory.join(format!("{UNFINISHED_PREFIX}{file_name}"));
        let written = write_synced(&unfinished, &blob.bytes)
            .map_err(|error| cannot("write to", directory, &error))
            .and_then(|()| {
                fs::rename(&unfinished, &path)
                    .map_err(|error| cannot("rename in", directory, &error))
            });
        if written.is_err() {
            // What is left of it has a name that nobody reads.
            let _ = fs::remove_file(&unfinished);
        }
        written?;
        sync_directory(directory)
    }

    fn probe_now(&self, container: &ContainerPath) -> Result<(), DeadLetterError> {
        let directory = self.container(container)?;
        let path = directory.join(format!("{UNFINISHED_PREFIX}{}", chance::uuid()));
        write_synced(&path, b"[]").map_err(|error| cannot("write to", &directory, &error))?;
        fs::remove_file(&path).map_err(|error| cannot("delete from", &directory, &error))
    }
}

impl DeadLetterStore for LocalDirectory {
    fn write(&self, blob: Blob) -> Answered<'_> {
        let store = self.clone();
        on_a_thread(move || store.write_now(&blob))
    }

    fn probe(&self, container: ContainerPath) -> Answered<'_> {
        let store = self.clone();
        on_a_thread(move || store.probe_now(&container))
    }
}

fn on_a_thread(
    work: impl FnOnce() -> Result<(), DeadLetterError> + Send + 'static,
) -> Answered<'static> {
    Box::pin(async move {
        let ended = tokio::task::spawn_blocking(work).await;
        ended.unwrap_or_else(|_| {
            Err(DeadLetterError {
                message: "the thread that writes ended".to_owned(),
                is_not_found: false,
            })
        })
    })
}

/// Makes the directories between the container and a blob, each durable in its parent.
fn make_directories(container: &Path, directory: &Path) -> Result<(), DeadLetterError> {
    if directory == container || directory.is_dir() {
        return Ok(());
    }
    let parent = directory.parent().unwrap_or(container);
    make_directories(container, parent)?;
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(cannot("make", directory, &error))
        }
        _ => sync_directory(parent),
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_directory(path: &Path) -> Result<(), DeadLetterError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| cannot("sync", path, &error))
}

fn cannot(doing: &str, path: &Path, error: &io::Error) -> DeadLetterError {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; the user that the server runs as needs the permission to write there"
        }
        _ => "",
    };
    DeadLetterError {
        message: format!("cannot {doing} {}: {error}{hint}", path.display()),
        is_not_found: false,
    }
}
