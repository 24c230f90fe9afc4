//! One container of a store that the crate `object_store` speaks to: blobs with their metadata (ED-251), each written in one
//! atomic operation (ED-252), and errors that say what is missing (ED-319).

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::limits;
use hedgerow_core::text::cut;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, ListResult, ObjectStore, ObjectStoreExt, PutOptions,
};

use super::{Blob, DeadLetterError};
use crate::chance;

/// A container, opened with a credential.
#[derive(Debug)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    place: Place,
}

/// What people call a container.
#[derive(Debug, Clone)]
pub struct Place {
    /// The store and the container, without secrets.
    pub store: String,
    /// With which credential it is written to; its name, not the credential itself.
    pub credential: String,
    /// Whether objects have a content type and metadata there.
    pub has_attributes: bool,
}

/// The begin of the names of probes: no reader takes them for blobs.
const PROBE_PREFIX: &str = ".probe-";

impl Objects {
    /// The container that `store` writes to.
    #[must_use]
    pub const fn new(store: Arc<dyn ObjectStore>, place: Place) -> Self {
        Self { store, place }
    }

    /// Keeps a blob: all of it or nothing, durable when this returns. A blob whose answer did not come may be there.
    ///
    /// # Errors
    ///
    /// What kept it from being written. Nothing is tried again here.
    pub async fn write(&self, blob: &Blob) -> Result<(), DeadLetterError> {
        let attributes = if self.place.has_attributes {
            attributes(blob)
        } else {
            Attributes::new()
        };
        let options = PutOptions {
            attributes,
            ..PutOptions::default()
        };
        let path = Path::from(blob.name.as_str());
        let put = self
            .store
            .put_opts(&path, blob.bytes.clone().into(), options);
        match put.await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.cannot("write to", &error)),
        }
    }

    /// Writes and deletes a small object, to see whether that can be done (ED-319).
    ///
    /// # Errors
    ///
    /// What of it cannot be done.
    pub async fn probe(&self) -> Result<(), DeadLetterError> {
        let path = Path::from(format!("{PROBE_PREFIX}{}", chance::uuid()));
        let put = self.store.put(&path, "[]".into()).await;
        put.map_err(|error| self.cannot("write to", &error))?;
        let deleted = self.store.delete(&path).await;
        deleted.map_err(|error| self.cannot("delete from", &error))
    }

    /// The content of a blob.
    ///
    /// # Errors
    ///
    /// What kept it from being read; that it is larger than any of ours.
    pub async fn read(&self, name: &str) -> Result<Bytes, DeadLetterError> {
        let cannot = |error: Error| self.cannot("read from", &error);
        let found = self.store.get(&Path::from(name)).await.map_err(cannot)?;
        let (bytes, bytes_max) = (found.meta.size, limits::DEAD_LETTER_READ_BYTES_MAX);
        if bytes > bytes_max {
            return Err(DeadLetterError {
                message: format!(
                    "{name} has {bytes} bytes, and no blob of ours more than {bytes_max}"
                ),
                is_not_found: false,
                is_full: false,
            });
        }
        found.bytes().await.map_err(cannot)
    }

    /// What is directly below a place; nothing if the place is not there.
    pub(super) async fn level(&self, prefix: &str) -> Result<Option<ListResult>, DeadLetterError> {
        let prefix = Path::from(prefix);
        match self.store.list_with_delimiter(Some(&prefix)).await {
            Ok(listed) => Ok(Some(listed)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.cannot("list", &error)),
        }
    }

    fn cannot(&self, doing: &str, error: &Error) -> DeadLetterError {
        let Place {
            store, credential, ..
        } = &self.place;
        let denied = io_kind(error) == Some(io::ErrorKind::PermissionDenied)
            || matches!(error, Error::PermissionDenied { .. });
        let is_not_found = matches!(error, Error::NotFound { .. });
        let what = if denied {
            format!("{credential} has no permission to; it needs that to write and to delete there")
        } else if matches!(error, Error::Unauthenticated { .. }) {
            format!("{credential} is not accepted there")
        } else if is_not_found {
            "there is no such container; make it".to_owned()
        } else {
            String::new()
        };
        let separator = if what.is_empty() { "" } else { "; " };
        let mut message = format!(
            "cannot {doing} {store}: {what}{separator}{}",
            in_full(error)
        );
        cut(&mut message, limits::DEAD_LETTER_PROBLEM_BYTES_MAX);
        DeadLetterError {
            message,
            is_not_found,
            is_full: false,
        }
    }
}

fn attributes(blob: &Blob) -> Attributes {
    let metadata = |name: &'static str| Attribute::Metadata(name.into());
    Attributes::from_iter([
        (Attribute::ContentType, "application/json".to_owned()),
        (metadata("subscription"), blob.subscription.clone()),
        (metadata("topic"), blob.topic.clone()),
        (metadata("count"), blob.count.to_string()),
    ])
}

/// The kind of the system's error behind another one.
fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return Some(cause.kind());
        }
        source = cause.source();
    }
    None
}

/// An error with everything behind it that it does not say itself.
fn in_full(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}
