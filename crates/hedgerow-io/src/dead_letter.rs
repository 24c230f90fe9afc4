//! Keeps dead letters: whole blobs in containers, each written in one atomic operation (ED-251, ED-252).
//!
//! | implementation | is |
//! | --- | --- |
//! | [`LocalDirectory`] | a directory; containers are directories in it, blobs are files |
//! | [`Objects`] | one container of any store that the crate `object_store` speaks to; the directory uses it too |
//!
//! Decides nothing about when and what: that is [`hedgerow_core::dead_letter`]'s and the caller's.

mod list;
mod local;
mod objects;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use hedgerow_core::dead_letter::Span;
use hedgerow_core::spec::ContainerPath;

pub use local::{LocalDirectory, Reserve};
pub use objects::{Objects, Place};

/// What a store answers, some time.
pub type Answered<'a> = Pin<Box<dyn Future<Output = Result<(), DeadLetterError>> + Send + 'a>>;

/// The blobs that were found, some time.
pub type Listed<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<FoundBlob>, DeadLetterError>> + Send + 'a>>;

/// What stands in a blob, some time.
pub type Content<'a> = Pin<Box<dyn Future<Output = Result<Bytes, DeadLetterError>> + Send + 'a>>;

/// Which blobs are wanted.
#[derive(Debug, Clone)]
pub struct BlobQuery {
    /// Of which container.
    pub container: ContainerPath,
    /// Of a subscription of this name, in any case.
    pub subscription: String,
    /// Only blobs behind the one of this name.
    pub after: Option<String>,
    /// Only blobs of hours some of which lie in here.
    pub span: Span,
    /// At most so many.
    pub limit: usize,
}

/// A blob that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBlob {
    /// Its name in the container; [`BlobName`](hedgerow_core::dead_letter::BlobName) takes it apart.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Where dead letters are kept.
pub trait DeadLetterStore: Send + Sync {
    /// Keeps a blob: all of it or nothing, durable when it is answered. A blob whose answer did not come may be there.
    fn write(&self, blob: Blob) -> Answered<'_>;

    /// Whether a container may take anything now. Asked before events are read for it.
    fn has_room(&self, container: ContainerPath) -> Answered<'_> {
        drop(container);
        Box::pin(async { Ok(()) })
    }

    /// Where a blob is, for people and programs (ED-263).
    fn url(&self, container: &ContainerPath, name: &str) -> String;

    /// The blobs of a container that a query wants, in the order of their names' times, at most so many.
    fn list(&self, query: BlobQuery) -> Listed<'_>;

    /// The content of a blob.
    fn read(&self, container: ContainerPath, name: String) -> Content<'_>;

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
    /// Whether the disk would be too full with it: nothing failed, and the blob waits until there is room.
    pub is_full: bool,
}
