//! The local default of dead letters (ED-313): a directory for subscriptions that do not name a destination, which the server
//! makes, and from which it removes what is old. Directories that somebody named are theirs.

use std::path::PathBuf;
use std::time::Duration;

use hedgerow_core::spec::ContainerPath;
use hedgerow_io::old_files;

use crate::config::Config;
use crate::server::ServerError;

/// Where those of subscriptions without a destination go, below the directory of dead letters.
const LOCAL: &str = "default";
/// How long they are kept (ED-313).
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often old ones are looked for.
const INTERVAL: Duration = Duration::from_secs(3600);

/// The destination of subscriptions that do not name one.
///
/// # Panics
/// Never: the name is a valid path.
#[must_use]
pub fn local_container() -> ContainerPath {
    ContainerPath::parse(LOCAL).expect("the name is a valid path")
}

/// Its directory, if there is a local default.
pub(crate) fn directory(config: &Config) -> Option<PathBuf> {
    let is_wanted = config.dead_letter.local_default;
    is_wanted.then(|| config.dead_letter_directory().join(LOCAL))
}

/// Makes it, and the default directory of all dead letters; another one is its operator's.
pub(crate) fn make(config: &Config) -> Result<(), ServerError> {
    let default = config.dead_letter.directory.is_none();
    let own = default.then(|| config.dead_letter_directory());
    for path in own.into_iter().chain(directory(config)) {
        std::fs::create_dir_all(&path).map_err(|source| ServerError::File {
            doing: "make",
            path,
            source,
        })?;
    }
    Ok(())
}

/// Removes what is old, for ever. Never ends.
pub(crate) async fn keep_tidy(directory: Option<PathBuf>) {
    let Some(directory) = directory else {
        return std::future::pending().await;
    };
    loop {
        let looked_at = directory.clone();
        let removing =
            tokio::task::spawn_blocking(move || old_files::remove(&looked_at, RETENTION));
        match removing.await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(removed)) => tracing::info!(removed, "old dead letters removed"),
            Ok(Err(error)) => tracing::warn!(
                %error,
                directory = %directory.display(),
                "old dead letters cannot be removed"
            ),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
