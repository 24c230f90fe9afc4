//! What the proof is started with.

use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// The options of `volume`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server under test.
    pub binary: PathBuf,
    /// Where data directories are made; a temporary folder may be memory.
    pub directory: PathBuf,
    /// Whether the long sizes are run.
    pub is_slow: bool,
    /// The only case to be run; all without it.
    only: Option<String>,
}

/// How much goes through how small a store.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Bytes that are published.
    pub published_bytes: u64,
    /// `store.bytes_max`.
    pub bytes_max: u64,
    /// `store.segment_bytes`.
    pub segment_bytes: u64,
}

impl Options {
    /// Reads them.
    pub fn read(arguments: &[String]) -> Result<Self, String> {
        let (mut binary, mut directory, mut is_slow, mut only) = (None, None, false, None);
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            if name == "--slow" {
                is_slow = true;
                continue;
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--binary" => binary = Some(PathBuf::from(value)),
                "--directory" => directory = Some(PathBuf::from(value)),
                "--only" => only = Some(value.clone()),
                _ => return Err(format!("{name} is no option of volume")),
            }
        }
        if let Some(name) = only.as_ref()
            && !super::CASES.contains(&name.as_str())
        {
            return Err(format!("{name} is no case; there are {:?}", super::CASES));
        }
        Ok(Self {
            binary: binary.ok_or("volume needs --binary PATH, the server under test")?,
            directory: directory.ok_or("volume needs --directory PATH, for data")?,
            is_slow,
            only,
        })
    }

    /// Whether a case is to be run.
    pub fn wants(&self, case: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == case)
    }

    /// What goes through in `live` and `dead`.
    pub const fn size(&self) -> Size {
        if self.is_slow {
            Size {
                published_bytes: 20 * 1024 * MIB,
                bytes_max: 2 * 1024 * MIB,
                segment_bytes: 64 * MIB,
            }
        } else {
            Size {
                published_bytes: 2 * 1024 * MIB,
                bytes_max: 200 * MIB,
                segment_bytes: 4 * MIB,
            }
        }
    }
}
