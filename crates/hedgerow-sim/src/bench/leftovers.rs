//! What a benchmark finds and leaves on the machine: directories of runs that were killed, their servers, and how many files may
//! be open.
//!
//! A run that is interrupted clears up behind itself. One that gets SIGKILL cannot: the next one does it, unless another one
//! runs in the same place.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// What the names of directories begin with that go at the end.
pub const PREFIX: &str = "bench-";
/// The file that runs hold.
const LOCK: &str = "lock";

/// Says that a run works in a directory, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Hold(#[allow(dead_code)] File); // Closing it gives it up.

impl Hold {
    /// Takes it, and removes what earlier runs left there if there is no other one now.
    pub fn take(directory: &Path) -> Result<Self, String> {
        let path = directory.join(LOCK);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let options = File::options().append(true).create(true).open(&path);
        let file = options.map_err(failed)?;
        if file.try_lock().is_ok() {
            // As it stands in the command lines of servers.
            let directory = fs::canonicalize(directory).map_err(failed)?;
            for left in left_behind(&directory).map_err(failed)? {
                println!("removing {}, which an earlier run left", left.display());
                end_servers(&left);
                fs::remove_dir_all(&left)
                    .map_err(|error| format!("{}: {error}", left.display()))?;
            }
        }
        // From here on others run beside this one, and remove nothing.
        file.lock_shared().map_err(failed)?;
        Ok(Self(file))
    }
}

fn left_behind(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && entry.file_type()?.is_dir() {
            left.push(entry.path());
        }
    }
    Ok(left)
}

/// Ends the servers whose configuration lies in a directory: a run that was killed ended none.
fn end_servers(directory: &Path) {
    let Ok(processes) = fs::read_dir("/proc") else {
        return;
    };
    for process in processes.flatten() {
        let id = process.file_name().to_string_lossy().parse().ok();
        let Some(id) = id.and_then(Pid::from_raw) else {
            continue;
        };
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if is_server_of(&line, directory) {
            // It may end by itself in this moment.
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

/// Whether a command line, its arguments with zeros behind them, is that of a server whose configuration lies in a directory.
fn is_server_of(line: &[u8], directory: &Path) -> bool {
    let line = String::from_utf8_lossy(line);
    let mut arguments = line.split('\0').skip_while(|one| *one != "--config");
    let config = arguments.nth(1);
    config.is_some_and(|config| Path::new(config).starts_with(directory))
}

/// Lets this process and those it starts open as many files as the system allows: a thousand endpoints are more than many
/// shells do.
pub fn allow_files() -> Result<(), String> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, most)
        .map_err(|error| format!("the limit of open files cannot be raised: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_goes_unless_another_one_runs() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join("bench-left");
        let leave = || fs::create_dir_all(left.join("shared-1")).unwrap();
        let other = directory.path().join("run.json");
        fs::write(&other, "").unwrap();
        leave();
        let first = Hold::take(directory.path()).unwrap();
        assert!(!left.exists() && other.exists());
        leave();
        let second = Hold::take(directory.path()).unwrap();
        drop(first);
        let third = Hold::take(directory.path()).unwrap();
        assert!(left.exists(), "it may be that of a run beside this one");
        drop((second, third));
        Hold::take(directory.path()).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn servers_are_known_by_their_configuration() {
        let directory = Path::new("/b/bench-1");
        for (line, is_one) in [
            (
                &b"hedgerow\0serve\0--config\0/b/bench-1/shared-1/hedgerow.toml\0"[..],
                true,
            ),
            (
                b"hedgerow\0serve\0--config\0/b/bench-12/hedgerow.toml\0",
                false,
            ),
            (b"tail\0/b/bench-1/shared-1/server-0.log\0", false),
            (b"hedgerow\0serve\0--config\0", false),
            (b"", false),
        ] {
            assert_eq!(is_server_of(line, directory), is_one);
        }
    }
}
