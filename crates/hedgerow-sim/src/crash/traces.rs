//! What the data directory shows of what happened in the server: segments, kept files and the epoch. Read from outside, by the
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
    /// The last segment that was cleaned.
    pub cleaned_through: u64,
    /// Kept files that were ever made.
    pub kept_made: u64,
    /// Kept files that are there.
    pub kept: u64,
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
        traces.read_kept(&data.join("kept"));
        traces.epoch = epoch(data, "SUPER.a").max(epoch(data, "SUPER.b"));
        Ok(traces)
    }

    /// The manifest: behind 16 bytes and the store's id the last segment that was cleaned, and the number of the next
    /// file.
    fn read_kept(&mut self, kept: &Path) {
        let manifest = fs::read(kept.join("MANIFEST")).unwrap_or_default();
        let mut numbers = manifest.get(32..).unwrap_or_default();
        self.cleaned_through = varint(&mut numbers);
        self.kept_made = varint(&mut numbers);
        for class in ["owed", "behind"] {
            let names = fs::read_dir(kept.join(class));
            self.kept += names.map_or(0, |names| names.count() as u64);
        }
    }

    /// Kept files that were there once and are no more.
    pub const fn kept_removed(&self) -> u64 {
        self.kept_made.saturating_sub(self.kept)
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

/// The next number in seven bits a byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else {
            break;
        };
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    number
}

/// The epoch stands at byte 32 of 64; a file that is not whole has none.
fn epoch(data: &Path, name: &str) -> u32 {
    let bytes = fs::read(data.join(name)).unwrap_or_default();
    let field = bytes.get(32..36).filter(|_| bytes.starts_with(b"HEDGEROW"));
    field.map_or(0, |field| {
        u32::from_le_bytes(field.try_into().expect("four bytes"))
    })
}
