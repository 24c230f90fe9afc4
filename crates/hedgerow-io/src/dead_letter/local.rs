//! A directory of this machine. Containers are directories in it that somebody else made: one that is missing may be a disk
//! that is not mounted, and must not be replaced by an empty directory beneath.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_core::spec::ContainerPath;
use object_store::local::LocalFileSystem;

use super::{Answered, Blob, DeadLetterError, DeadLetterStore, Objects, Place};

/// A store whose containers are directories.
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

    async fn write_now(&self, blob: Blob) -> Result<(), DeadLetterError> {
        let (path, objects) = self.container(&blob.container).await?;
        objects.write(&blob).await?;
        let name = blob.name;
        on_a_thread(move || sync_above(&path, &name)).await
    }

    async fn probe_now(&self, container: &ContainerPath) -> Result<(), DeadLetterError> {
        self.container(container).await?.1.probe().await
    }

    /// A container, if it is there.
    async fn container(
        &self,
        container: &ContainerPath,
    ) -> Result<(PathBuf, Objects), DeadLetterError> {
        let path = self.root.join(container.as_str());
        on_a_thread(move || open(&path).map(|objects| (path, objects))).await
    }
}

impl DeadLetterStore for LocalDirectory {
    fn write(&self, blob: Blob) -> Answered<'_> {
        Box::pin(self.write_now(blob))
    }

    fn probe(&self, container: ContainerPath) -> Answered<'_> {
        Box::pin(async move { self.probe_now(&container).await })
    }
}

fn open(path: &Path) -> Result<Objects, DeadLetterError> {
    let missing = |message| DeadLetterError {
        message,
        is_not_found: true,
    };
    let failed = |error: &dyn std::fmt::Display| DeadLetterError {
        message: format!("cannot look at {}: {error}", path.display()),
        is_not_found: false,
    };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(missing(format!("{} is no directory", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("the directory {} does not exist; make it", path.display());
            return Err(missing(message));
        }
        Err(error) => return Err(failed(&error)),
    }
    let files = LocalFileSystem::new_with_prefix(path).map_err(|error| failed(&error))?;
    Ok(Objects::new(
        Arc::new(files.with_fsync(true)),
        Place {
            store: path.display().to_string(),
            credential: "the user that the server runs as".to_owned(),
            has_attributes: false,
        },
    ))
}

/// Syncs the directories between a container and a blob that was written. Whoever made one of them may have failed or
/// ended before its name was durable, and the one who writes into it next sees only that it is there.
fn sync_above(container: &Path, name: &str) -> Result<(), DeadLetterError> {
    let path = container.join(name);
    let above = path.ancestors().skip(2);
    for directory in above.take_while(|directory| directory.starts_with(container)) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| DeadLetterError {
            message: format!("cannot sync {}: {error}", directory.display()),
            is_not_found: false,
        })?;
    }
    Ok(())
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DeadLetterError> + Send + 'static,
) -> Result<T, DeadLetterError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|_| {
        Err(DeadLetterError {
            message: "the thread that writes ended".to_owned(),
            is_not_found: false,
        })
    })
}
