//! What the data directory shows of what happened in the server: segments and the epoch. Read from outside, by the
//! format on disk, so that the proof does not rest on what the server says of itself.

use std::fs;
use std::path::Path;

/// What was seen in a data directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traces {
    /// The highest number of a segment.
    pub segment: u64,
    /// Segments that are there.
    pub segments: u64,
    /// The store's epoch, which every start raises.
    pub epoch: u32,
}

impl Traces {
    /// Looks at a data directory.
    pub fn read(data: &Path) -> Result<Self, String> {
        let log = data.join("log");
        let names = fs::read_dir(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut traces = Self::default();
        for entry in names {
            let name = entry
                .map_err(|error| format!("{}: {error}", log.display()))?
                .file_name();
            if let Some(number) = segment_number(&name.to_string_lossy()) {
                traces.segments += 1;
                traces.segment = traces.segment.max(number);
            }
        }
        traces.epoch = epoch(data, "SUPER.a").max(epoch(data, "SUPER.b"));
        Ok(traces)
    }

    /// Segments that were there once and are no more: their files were recycled or removed.
    pub const fn recycled(&self) -> u64 {
        self.segment.saturating_sub(self.segments)
    }
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name
        .strip_suffix(".seg")
        .filter(|digits| digits.len() == 8)?;
    u64::from_str_radix(digits, 16).ok()
}

/// The epoch stands at byte 32 of 64; a file that is not whole has none.
fn epoch(data: &Path, name: &str) -> u32 {
    let bytes = fs::read(data.join(name)).unwrap_or_default();
    let field = bytes.get(32..36).filter(|_| bytes.starts_with(b"HEDGEROW"));
    field.map_or(0, |field| {
        u32::from_le_bytes(field.try_into().expect("four bytes"))
    })
}
