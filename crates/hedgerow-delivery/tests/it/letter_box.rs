//! A dead-letter store that does what a test says.

use std::sync::Mutex;
use std::time::Duration;

use hedgerow_core::dead_letter::{BlobName, Hour};
use hedgerow_core::spec::ContainerPath;
use hedgerow_io::dead_letter::{
    Answered, Blob, BlobQuery, Content, DeadLetterError, DeadLetterStore, FoundBlob, Listed,
};

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
    /// A container that never answers, whatever the others do.
    hanging: Mutex<Option<ContainerPath>>,
    /// Each with the time since the start of the world.
    blobs: Mutex<Vec<(Duration, Blob)>>,
    tries: Mutex<Vec<Duration>>,
}

impl LetterBox {
    pub fn new(begun: tokio::time::Instant) -> Self {
        Self {
            begun,
            mood: Mutex::new(Mood::Works),
            hanging: Mutex::default(),
            blobs: Mutex::default(),
            tries: Mutex::default(),
        }
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// Lets a container hang.
    pub fn hang(&self, container: &str) {
        let container = ContainerPath::parse(container).unwrap();
        *self.hanging.lock().unwrap() = Some(container);
    }

    fn hangs(&self, container: &ContainerPath) -> bool {
        self.hanging.lock().unwrap().as_ref() == Some(container)
    }

    pub fn blobs(&self) -> Vec<(Duration, Blob)> {
        self.blobs.lock().unwrap().clone()
    }

    /// Puts a blob there that nobody wrote, in place of the one of its name.
    pub fn put(&self, blob: Blob) {
        let mut blobs = self.blobs.lock().unwrap();
        blobs.retain(|(_, other)| other.name != blob.name);
        blobs.push((Duration::ZERO, blob));
    }

    fn refusal(&self) -> Option<DeadLetterError> {
        let fails = *self.mood.lock().unwrap() == Mood::Fails;
        fails.then(|| DeadLetterError {
            message: "scripted".to_owned(),
            is_not_found: false,
            is_full: false,
        })
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
        if self.hangs(&blob.container) {
            return Box::pin(std::future::pending());
        }
        self.answer(Some(blob))
    }

    fn url(&self, container: &ContainerPath, name: &str) -> String {
        format!("box://letters/{}/{name}", container.as_str())
    }

    fn list(&self, query: BlobQuery) -> Listed<'_> {
        if let Some(error) = self.refusal() {
            return Box::pin(async { Err(error) });
        }
        let blobs = self.blobs.lock().unwrap();
        let here = blobs.iter().map(|(_, blob)| blob);
        let here = here.filter(|blob| blob.container == query.container);
        let after = query.after.as_deref().and_then(BlobName::parse);
        let mut found: Vec<_> = here
            .filter_map(|blob| Some((BlobName::parse(&blob.name)?, blob.bytes.len() as u64)))
            .filter(|(name, _)| name.is_of(&query.subscription))
            .filter(|(name, _)| after.is_none_or(|after| *name > after))
            .filter(|(name, _)| query.span.has_of(name.hour))
            .collect();
        found.sort();
        let found = found.into_iter().take(query.limit);
        let name = |name: BlobName<'_>| {
            let Hour(year, month, day, hour) = name.hour;
            let (of, uuid) = (name.subscription, name.uuid);
            format!("{of}/{year}/{month}/{day}/{hour}/{uuid}.json")
        };
        let found = found.map(|(parsed, bytes)| FoundBlob {
            name: name(parsed),
            bytes,
        });
        let found = found.collect();
        Box::pin(async { Ok(found) })
    }

    fn read(&self, container: ContainerPath, name: String) -> Content<'_> {
        if let Some(error) = self.refusal() {
            return Box::pin(async { Err(error) });
        }
        let blobs = self.blobs.lock().unwrap();
        let mut blobs = blobs.iter().map(|(_, blob)| blob);
        let found = blobs.find(|blob| blob.container == container && blob.name == name);
        let found = found.map(|blob| blob.bytes.clone().into());
        let found = found.ok_or_else(|| DeadLetterError {
            message: "gone".to_owned(),
            is_not_found: true,
            is_full: false,
        });
        Box::pin(async { found })
    }

    fn probe(&self, _: ContainerPath) -> Answered<'_> {
        self.answer(None)
    }
}
