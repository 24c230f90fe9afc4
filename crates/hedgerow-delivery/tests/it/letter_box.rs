//! A dead-letter store that does what a test says.

use std::sync::Mutex;
use std::time::Duration;

use hedgerow_core::spec::ContainerPath;
use hedgerow_io::dead_letter::{Answered, Blob, DeadLetterError, DeadLetterStore};

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Works,
    Fails,
    NotFound,
    /// Has no room.
    Full,
    /// Never answers, and keeps nothing.
    Silent,
    /// Keeps the blob and never answers.
    Mute,
}

/// The store; outlives engines.
pub struct LetterBox {
    begun: tokio::time::Instant,
    mood: Mutex<Mood>,
    /// Each with the time since the start of the world.
    blobs: Mutex<Vec<(Duration, Blob)>>,
    tries: Mutex<Vec<Duration>>,
}

impl LetterBox {
    pub fn new(begun: tokio::time::Instant) -> Self {
        Self {
            begun,
            mood: Mutex::new(Mood::Works),
            blobs: Mutex::default(),
            tries: Mutex::default(),
        }
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn blobs(&self) -> Vec<(Duration, Blob)> {
        self.blobs.lock().unwrap().clone()
    }

    /// When it was asked to keep something.
    pub fn tries(&self) -> Vec<Duration> {
        self.tries.lock().unwrap().clone()
    }

    fn answer(&self, blob: Option<Blob>) -> Answered<'_> {
        let mood = *self.mood.lock().unwrap();
        if let Some(blob) = blob
            && matches!(mood, Mood::Works | Mood::Mute)
        {
            let kept = (self.begun.elapsed(), blob);
            self.blobs.lock().unwrap().push(kept);
        }
        let refused = move |is_not_found| DeadLetterError {
            message: "scripted".to_owned(),
            is_not_found,
            is_full: mood == Mood::Full,
        };
        match mood {
            Mood::Works => Box::pin(async { Ok(()) }),
            Mood::Fails | Mood::Full => Box::pin(async move { Err(refused(false)) }),
            Mood::NotFound => Box::pin(async move { Err(refused(true)) }),
            Mood::Silent | Mood::Mute => Box::pin(std::future::pending()),
        }
    }
}

impl DeadLetterStore for LetterBox {
    fn write(&self, blob: Blob) -> Answered<'_> {
        self.tries.lock().unwrap().push(self.begun.elapsed());
        self.answer(Some(blob))
    }

    fn probe(&self, _: ContainerPath) -> Answered<'_> {
        self.answer(None)
    }
}
