//! A dead-letter store with moods.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::spec::ContainerPath;
use hedgerow_io::dead_letter::{
    Answered, Blob, BlobQuery, Content, DeadLetterError, DeadLetterStore, Listed,
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
            self.world.oracle().kept_letters(&blob.subscription, &ids);
        }
        let refused = move |is_not_found| DeadLetterError {
            message: "simulated".to_owned(),
            is_not_found,
            is_full: mood == LetterMood::Full,
        };
        match mood {
            _ if !is_alive => Box::pin(std::future::pending()),
            LetterMood::Works => Box::pin(async { Ok(()) }),
            LetterMood::Fails | LetterMood::Full => Box::pin(async move { Err(refused(false)) }),
            LetterMood::NotFound => Box::pin(async move { Err(refused(true)) }),
            LetterMood::Silent | LetterMood::Mute => Box::pin(async move {
                tokio::time::sleep(SILENCE).await;
                Err(refused(false))
            }),
        }
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
            Err(DeadLetterError {
                message: "simulated".to_owned(),
                is_not_found: false,
                is_full,
            })
        })
    }

    fn url(&self, container: &ContainerPath, name: &str) -> String {
        format!("simulated:///{}/{name}", container.as_str())
    }

    /// Nothing: nobody replays here.
    fn list(&self, _: BlobQuery) -> Listed<'_> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read(&self, _: ContainerPath, name: String) -> Content<'_> {
        Box::pin(async move {
            Err(DeadLetterError {
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
