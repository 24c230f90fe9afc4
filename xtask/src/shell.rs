//! Runs other programs: where the workspace is, which cargo to call, and what is said when a call fails.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// How often a program with a time limit is looked at.
const POLL: Duration = Duration::from_millis(100);

/// Where the commands work.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Where cargo builds: `CARGO_TARGET_DIR`, else `target` in the root.
    pub target: PathBuf,
    /// The cargo that started this program.
    cargo: OsString,
}

impl Workspace {
    /// Finds the workspace that this program belongs to.
    pub fn find() -> Result<Self, Failure> {
        let own = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = own
            .parent()
            .filter(|root| root.join("Cargo.toml").is_file())
            .ok_or("cannot find the workspace; start this program as `cargo xtask`")?
            .to_owned();
        let here =
            std::env::current_dir().map_err(|error| format!("no current folder: {error}"))?;
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .filter(|folder| !folder.is_empty())
            .map_or_else(|| root.join("target"), |folder| here.join(folder));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self {
            root,
            target,
            cargo,
        })
    }

    /// Another tree with another folder to build in.
    pub fn at(&self, root: PathBuf, target: PathBuf) -> Self {
        Self {
            root,
            target,
            cargo: self.cargo.clone(),
        }
    }

    /// Cargo, at the root, with `arguments`.
    pub fn cargo<I: AsRef<str>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(&self.root);
        command.args(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        if std::env::var_os("CARGO_TARGET_DIR").is_some() {
            // It may have been relative to another folder than the root.
            command.env("CARGO_TARGET_DIR", &self.target);
        }
        without_own_package(&mut command);
        command
    }
}

/// Takes away what cargo told this program about its own package: build scripts that watch those variables would
/// otherwise run again whenever cargo is called once from here and once from a terminal.
fn without_own_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let is_own = text.starts_with("CARGO_PKG_")
            || matches!(
                text,
                "CARGO_MANIFEST_DIR" | "CARGO_MANIFEST_PATH" | "CARGO_CRATE_NAME"
            );
        if is_own {
            command.env_remove(&name);
        }
    }
}

/// Shows the command, runs it to its end and fails if it fails.
pub fn run(mut command: Command) -> Result<(), Failure> {
    let line = spelled(&command);
    println!("\n> {line}");
    let status = command
        .status()
        .map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{line}` ended with {status}"))
    }
}

/// Whether the command can be run and succeeds; shows nothing.
pub fn succeeds(command: &mut Command) -> bool {
    silent(command)
        .status()
        .is_ok_and(|status| status.success())
}

/// Like [`succeeds`], but gives up after `limit` and ends the program, with those that it started.
pub fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let Ok(mut child) = silent(command).process_group(0).spawn() else {
        return false;
    };
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if start.elapsed() < limit => thread::sleep(POLL),
            Ok(None) | Err(_) => {
                // It may have ended by itself in between; then there is nothing to end or to wait for.
                end_group(&mut child);
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Ends a program that leads a group of its own, and the others of the group: cargo would leave its tests running.
fn end_group(leader: &mut Child) {
    // The shell's own `kill`: a small machine has no program of that name.
    let script = format!("kill -s KILL -- -{}", leader.id());
    if !succeeds(Command::new("sh").args(["-c", &script])) {
        let _ = leader.kill();
    }
}

fn silent(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

/// The command as one would type it.
fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_found_and_cargo_answers() {
        let workspace = Workspace::find().unwrap();
        assert!(workspace.root.join("xtask").is_dir());
        assert!(succeeds(&mut workspace.cargo(["--version"])));
        assert!(succeeds_within(
            &mut workspace.cargo(["--version"]),
            Duration::from_secs(90)
        ));
        assert!(!succeeds(&mut workspace.cargo(["no-such-command"])));
        assert!(!succeeds(&mut Command::new("there-is-no-such-program")));
    }

    #[test]
    fn a_command_is_spelled_as_one_would_type_it() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["test", "--workspace"]);
        assert_eq!(spelled(&command), "cargo test --workspace");
    }

    /// What a program started goes with it, before it has come to its end.
    #[test]
    fn what_a_program_started_ends_with_it() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "(sleep 60; echo left) & wait"]);
        command.process_group(0).stdout(writer);
        let mut child = command.spawn().unwrap();
        // It keeps an end of the pipe.
        drop(command);
        end_group(&mut child);
        child.wait().unwrap();
        assert_eq!(std::io::read_to_string(reader).unwrap(), "");
    }
}
