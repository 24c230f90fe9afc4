//! What a check found.

use hedgerow_core::position::Mark;
use serde::{Serialize, Serializer};

/// What a check found. Healthy if there are no problems.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The store's epoch.
    pub epoch: u32,
    /// The end of what was forgotten.
    #[serde(serialize_with = "as_text")]
    pub oldest: Mark,
    /// The end of the log.
    #[serde(serialize_with = "as_text")]
    pub end: Mark,
    /// Each segment, oldest first.
    pub segments: Vec<SegmentCheck>,
    /// Files of what is kept of older segments.
    pub kept_files: usize,
    /// Events in them.
    pub kept_events: u64,
    /// Files of the catalog.
    pub catalog_files: usize,
    /// The view, if there is one that can be read.
    pub view: Option<ViewCheck>,
    /// Bytes of the log that were read.
    pub read_bytes: u64,
    /// What is damaged or does not fit.
    pub problems: Vec<Place>,
    /// What is worth knowing and no problem.
    pub notes: Vec<Place>,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentCheck {
    /// Its number.
    pub number: u32,
    /// The offset of the end of its last group.
    pub end: u32,
    /// Intact groups.
    pub groups: u64,
    /// Events in them.
    pub events: u64,
    /// Its index.
    pub index: IndexCheck,
    /// Problems in it.
    pub problems: usize,
}

/// The index of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum IndexCheck {
    /// There is none; the segment is read at the next start, as the newest one always is.
    None,
    /// It says what is in the segment.
    Right,
    /// It says something else, and is not trusted.
    Wrong,
    /// The segment is damaged, so there is nothing to compare it with.
    Unknown,
}

/// The view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewCheck {
    /// Where it stands.
    #[serde(serialize_with = "as_text")]
    pub stamp: Mark,
    /// Rows that were read.
    pub rows: u64,
}

/// Something about a file, or about a place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Relative to the data directory.
    pub path: String,
    /// Where in the file, in bytes.
    pub offset: Option<u64>,
    /// What is there.
    pub what: String,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn problem(
        &mut self,
        path: impl Into<String>,
        offset: Option<u64>,
        what: impl Into<String>,
    ) {
        self.problems.push(Place {
            path: path.into(),
            offset,
            what: what.into(),
        });
    }

    pub(super) fn note(&mut self, path: impl Into<String>, what: impl Into<String>) {
        self.notes.push(Place {
            path: path.into(),
            offset: None,
            what: what.into(),
        });
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, offset, what } = self;
        match offset {
            Some(offset) => write!(f, "{path} at {offset}: {what}"),
            None => write!(f, "{path}: {what}"),
        }
    }
}

pub(crate) fn as_text<T: std::fmt::Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
