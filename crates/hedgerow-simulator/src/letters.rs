//! A dead-letter store with moods. What it took it keeps for good, in the order in which it came: that of the names, but for two of
//! one millisecond, whose names differ by chance.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hedgerow_core::dead_letter::BlobName;
use hedgerow_core::spec::ContainerPath;
use hedgerow_io::dead_letter::{
    Answered, Blob, BlobQuery, Content, DeadLetterError, DeadLetterStore, FoundBlob, Listed,
};
use serde_json::Value;

use crate::plan::LetterMood;
use crate::process::Process;
use crate::world::World;

/// After so long a time a store that says nothing gives up.
const SILENCE: Duration = Duration::from_secs(120);

/// The store as one process sees it.
pub struct Letters {
    pub world: Arc<World>,
    pub process: Arc<Process>,
}

impl Letters {
    fn answer(&self, blob: Option<Blob>) -> Answered<'_> {
        let mood = self.world.letter_mood();
        let is_alive = self.process.step();
        if let Some(blob) = blob
            && is_alive
            && matches!(mood, LetterMood::Works | LetterMood::Mute)
        {
            let ids = ids_in(&blob.bytes);
            self.world.note(format_args!(
                "dead letters of {}: {ids:?} ({mood:?})",
                blob.subscription
            ));
            let now = self.world.now();
            self.world.oracle().kept_letters(now, &blob, ids);
            self.world.shelf().push(blob);
        }
        match mood {
            _ if !is_alive => Box::pin(std::future::pending()),
            LetterMood::Works => Box::pin(async { Ok(()) }),
            LetterMood::Fails | LetterMood::Full => {
                Box::pin(async move { Err(refused(mood, false)) })
            }
            LetterMood::NotFound => Box::pin(async move { Err(refused(mood, true)) }),
            LetterMood::Silent | LetterMood::Mute => Box::pin(async move {
                tokio::time::sleep(SILENCE).await;
                Err(refused(mood, false))
            }),
        }
    }

    /// Whether what is kept can be read now. A container that is away says so when it is listed; whoever reads cannot tell that
    /// from a blob that somebody removed, so that it only fails then.
    async fn is_readable(&self, is_listed: bool) -> Result<(), DeadLetterError> {
        let mood = self.world.letter_mood();
        let what = if is_listed { "listed" } else { "read" };
        self.world
            .note(format_args!("dead letters are {what} ({mood:?})"));
        if !self.process.step() {
            std::future::pending::<()>().await;
        }
        match mood {
            LetterMood::Works | LetterMood::Full => Ok(()),
            LetterMood::Fails => Err(refused(mood, false)),
            LetterMood::NotFound => Err(refused(mood, is_listed)),
            LetterMood::Silent | LetterMood::Mute => {
                tokio::time::sleep(SILENCE).await;
                Err(refused(mood, false))
            }
        }
    }

    fn found(&self, query: &BlobQuery) -> Vec<FoundBlob> {
        let kept = self.world.shelf();
        let after = query.after.as_ref();
        let begin = after.and_then(|after| kept.iter().position(|blob| blob.name == *after));
        let behind = kept.iter().skip(begin.map_or(0, |place| place + 1));
        let is_it = |blob: &&Blob| {
            let name = BlobName::parse(&blob.name);
            blob.container == query.container
                && name.is_some_and(|name| {
                    name.is_of(&query.subscription) && query.span.has_of(name.hour)
                })
        };
        let found = behind.filter(is_it).take(query.limit);
        let found = found.map(|blob| FoundBlob {
            name: blob.name.clone(),
            bytes: blob.bytes.len() as u64,
        });
        found.collect()
    }
}

fn refused(mood: LetterMood, is_not_found: bool) -> DeadLetterError {
    DeadLetterError {
        message: "simulated".to_owned(),
        is_not_found,
        is_full: mood == LetterMood::Full,
    }
}

impl DeadLetterStore for Letters {
    fn write(&self, blob: Blob) -> Answered<'_> {
        self.answer(Some(blob))
    }

    fn has_room(&self, _: ContainerPath) -> Answered<'_> {
        let is_full = self.world.letter_mood() == LetterMood::Full;
        Box::pin(async move {
            if !is_full {
                return Ok(());
            }
            Err(refused(LetterMood::Full, false))
        })
    }

    fn url(&self, container: &ContainerPath, name: &str) -> String {
        format!("simulated:///{}/{name}", container.as_str())
    }

    fn list(&self, query: BlobQuery) -> Listed<'_> {
        Box::pin(async move {
            self.is_readable(true).await?;
            Ok(self.found(&query))
        })
    }

    fn read(&self, container: ContainerPath, name: String) -> Content<'_> {
        Box::pin(async move {
            self.is_readable(false).await?;
            let kept = self.world.shelf();
            let mut blobs = kept.iter();
            let found = blobs.find(|blob| blob.container == container && blob.name == name);
            let found = found.map(|blob| Bytes::from(blob.bytes.clone()));
            found.ok_or_else(|| DeadLetterError {
                message: format!("{name} is not kept here"),
                is_not_found: true,
                is_full: false,
            })
        })
    }

    fn probe(&self, _: ContainerPath) -> Answered<'_> {
        self.answer(None)
    }
}

/// The ids of the events of an array, or of one event.
pub fn ids_in(json: &[u8]) -> Vec<String> {
    let id_of = |event: &Value| event.get("id").and_then(Value::as_str).map(str::to_owned);
    match serde_json::from_slice(json) {
        Ok(Value::Array(events)) => events.iter().filter_map(id_of).collect(),
        Ok(event) => id_of(&event).into_iter().collect(),
        Err(_) => Vec::new(),
    }
}
