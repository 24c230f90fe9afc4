//! The file with what outlives a restart of the probes: the newest samples of each target (HP-197). It is worth little: one that
//! cannot be read is put aside, and one that cannot be written is tried again in a minute.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use hedgerow_origin::node::Saved;
use serde::{Deserialize, Serialize};

/// Its name in the data directory.
const NAME: &str = "probe-windows.json";
/// What one is called that could not be read.
const DAMAGED: &str = "probe-windows.json.damaged";
/// Bytes that are read at most: 50,000 origins with 255 samples each are less.
const BYTES_MAX: u64 = 4 << 30;

/// Where windows are kept.
pub struct WindowsFile {
    data: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stored<S> {
    windows: S,
}

impl WindowsFile {
    pub const fn new(data: PathBuf) -> Self {
        Self { data }
    }

    /// What was saved, if anything usable was. Blocks.
    pub fn load(&self) -> Option<Saved> {
        let path = self.data.join(NAME);
        match self.read() {
            Ok(saved) => saved,
            Err(error) => {
                let aside = self.data.join(DAMAGED);
                let moved = fs::rename(&path, &aside);
                tracing::warn!(
                    path = %path.display(), %error, is_put_aside = moved.is_ok(), aside = %aside.display(),
                    "the windows of probes cannot be read; origins are probed as new ones"
                );
                None
            }
        }
    }

    fn read(&self) -> io::Result<Option<Saved>> {
        let path = self.data.join(NAME);
        let length = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if length > BYTES_MAX {
            return Err(io::Error::other("it is far too large"));
        }
        let stored: Stored<Saved> = serde_json::from_slice(&fs::read(&path)?)?;
        Ok(Some(stored.windows))
    }

    /// Puts a file in place of the former one: there is either the old one or the new one. Blocks.
    pub fn save(&self, saved: &Saved) {
        if let Err(error) = self.write(saved) {
            let path = self.data.join(NAME);
            tracing::warn!(path = %path.display(), %error, "the windows of probes cannot be saved");
        }
    }

    fn write(&self, saved: &Saved) -> io::Result<()> {
        let json = serde_json::to_vec(&Stored { windows: saved })?;
        let beside = self.data.join(format!("{NAME}.new"));
        let mut file = File::create(&beside)?;
        file.write_all(&json)?;
        file.sync_all()?;
        fs::rename(&beside, self.data.join(NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-197: a file that is damaged keeps nothing from starting, and is put aside for whoever wants to look.
    #[test]
    fn a_damaged_file_is_put_aside() {
        let data = tempfile::tempdir().unwrap();
        let file = WindowsFile::new(data.path().to_owned());
        assert_eq!(file.load(), None);
        file.save(&Saved::default());
        assert_eq!(file.load(), Some(Saved::default()));
        let path = data.path().join(NAME);
        for damaged in [
            &b"{\"windows\":{\"streams\":[[1]]}}"[..],
            b"",
            b"\xff",
            b"{}",
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(file.load(), None);
            assert_eq!(fs::read(data.path().join(DAMAGED)).unwrap(), damaged);
            assert!(!path.exists());
        }
        file.save(&Saved::default());
        assert_eq!(file.load(), Some(Saved::default()));
    }
}
