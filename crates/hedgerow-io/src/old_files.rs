//! Removes files that were written long ago, and the folders that become empty by that.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Removes the files below a directory that were written longer ago than `age`. The directory itself stays, symbolic links
/// are left alone. Returns how many were removed. Blocks.
///
/// # Errors
/// The first thing that could not be done; what was removed before is gone.
pub fn remove(directory: &Path, age: Duration) -> io::Result<u64> {
    match SystemTime::now().checked_sub(age) {
        Some(before) => remove_before(directory, before),
        None => Ok(0),
    }
}

fn remove_before(directory: &Path, before: SystemTime) -> io::Result<u64> {
    let mut removed = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let inner = remove_before(&entry.path(), before)?;
            removed += inner;
            // A folder that was empty already may be one that a file is about to be written to.
            if inner > 0 && std::fs::read_dir(entry.path())?.next().is_none() {
                match std::fs::remove_dir(entry.path()) {
                    Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
        } else if kind.is_file() && entry.metadata()?.modified()? < before {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn only_old_files_go() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("A/2030/1")).unwrap();
        fs::create_dir_all(at("B")).unwrap();
        fs::create_dir_all(at("empty")).unwrap();
        for name in ["A/2030/1/old.json", "B/old.json", "B/new.json"] {
            let file = File::create(at(name)).unwrap();
            if name.contains("old") {
                let then = SystemTime::now() - Duration::from_secs(100);
                file.set_modified(then).unwrap();
            }
        }
        assert_eq!(remove(place.path(), Duration::from_secs(1_000)).unwrap(), 0);
        assert_eq!(remove(place.path(), Duration::from_secs(50)).unwrap(), 2);
        assert!(!at("A").exists(), "folders that became empty go too");
        assert!(at("B/new.json").exists() && at("empty").exists());
        assert!(remove(&at("missing"), Duration::ZERO).is_err());
    }
}
