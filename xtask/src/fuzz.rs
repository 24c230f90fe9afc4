//! `fuzz`: runs the fuzz targets of `fuzz/`, all of them or one, for so many seconds each. It needs no cargo-fuzz and no
//! nightly compiler: the compiler's own flags make the same instrumentation, and libFuzzer is built from its crate, with a
//! C++ compiler.
//!
//! What a run finds new is kept in `target/fuzz`; `--keep` takes it into `fuzz/corpus`, as few and as small files as reach the
//! same places. `--replay` only runs what is kept, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::{self, Workspace};

/// Seconds for each target, when none are asked for.
const SECONDS: u64 = 60;
/// Files of a target's kept corpus: what is checked out by everybody stays small.
const CORPUS_FILES_MAX: usize = 200;
/// Bytes of an input; what is found is found in short ones.
const INPUT_BYTES_MAX: u32 = 4_096;
/// A kept input is replayed by everybody: one that takes seconds is a fault.
const INPUT_SECONDS_MAX: u32 = 5;
/// What cargo-fuzz gives the compiler, without the address sanitizer: there is no unsafe code to sanitize, and it wants
/// nightly.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let all = targets(workspace)?;
    let (names, rest): (Vec<&String>, Vec<&String>) = arguments
        .iter()
        .partition(|argument| all.iter().any(|name| name == *argument));
    let rest: Vec<String> = rest.into_iter().cloned().collect();
    let accepted = Accepted {
        flags: &["keep", "replay"],
        values: &["seconds"],
    };
    let options = Options::read(&rest, accepted)
        .map_err(|failure| format!("{failure}\nthe targets are {}", all.join(", ")))?;
    let seconds = options.number::<u64>("seconds")?.unwrap_or(SECONDS);
    if seconds == 0 {
        return Err("--seconds counts from 1".to_owned());
    }
    let chosen: Vec<&String> = if names.is_empty() {
        all.iter().collect()
    } else {
        names
    };
    let folder = build(workspace, &chosen)?;
    let mut failures = Vec::new();
    for name in chosen {
        let target = Target::new(workspace, &folder, name);
        let done = if options.has("replay") {
            target.replay()
        } else {
            target.fuzz(seconds).and_then(|()| {
                if options.has("keep") {
                    target.keep()
                } else {
                    Ok(())
                }
            })
        };
        failures.extend(done.err());
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// Runs every kept input once.
pub fn replay(workspace: &Workspace) -> Result<(), Failure> {
    run(workspace, &["--replay".to_owned()])
}

/// The names of the targets, as their files have them.
fn targets(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds them and gives the folder that they are in.
fn build(workspace: &Workspace, names: &[&String]) -> Result<PathBuf, Failure> {
    let told = Command::new("rustc").arg("-vV").output();
    let told = told.map_err(|error| format!("cannot run rustc: {error}"))?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc does not say what it builds for")?;
    let target = workspace.target.join("fuzz").join("build");
    // Said with `--target`, the flags do not go to build scripts.
    let mut build = workspace.cargo(["build", "--release", "--locked", "--target", host]);
    build
        .args(["--manifest-path", "fuzz/Cargo.toml", "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", FLAGS.join(" "));
    for name in names {
        build.args(["--bin", name]);
    }
    shell::run(build)?;
    Ok(target.join(host).join("release"))
}

struct Target<'n> {
    name: &'n str,
    program: PathBuf,
    /// In the repository.
    kept: PathBuf,
    dictionary: PathBuf,
    /// What was found here.
    found: PathBuf,
    /// Where inputs go that fail.
    artifacts: PathBuf,
}

impl<'n> Target<'n> {
    fn new(workspace: &Workspace, programs: &Path, name: &'n str) -> Self {
        let own = workspace.root.join("fuzz");
        let work = workspace.target.join("fuzz");
        Self {
            name,
            program: programs.join(name),
            kept: own.join("corpus").join(name),
            dictionary: own.join("dictionaries").join(format!("{name}.txt")),
            found: work.join("corpus").join(name),
            artifacts: work.join("artifacts").join(name),
        }
    }

    fn command(&self) -> Result<Command, Failure> {
        for folder in [&self.kept, &self.found, &self.artifacts] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut command = Command::new(&self.program);
        command.arg(format!("-artifact_prefix={}/", self.artifacts.display()));
        command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        Ok(command)
    }

    fn fuzz(&self, seconds: u64) -> Result<(), Failure> {
        let mut command = self.command()?;
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.args(["-print_final_stats=1", "-verbosity=1"]);
        if self.dictionary.is_file() {
            command.arg(format!("-dict={}", self.dictionary.display()));
        }
        command.arg(&self.found).arg(&self.kept);
        shell::run(command).map_err(|failure| self.failed(&failure))
    }

    fn replay(&self) -> Result<(), Failure> {
        let mut command = self.command()?;
        command.args(["-runs=0"]).arg(&self.kept);
        shell::run(command).map_err(|failure| self.failed(&failure))
    }

    fn failed(&self, failure: &str) -> Failure {
        let artifacts = self.artifacts.display();
        format!("{}: {failure}; the input is in {artifacts}", self.name)
    }

    /// Renews the kept corpus: the fewest files that reach all that is reached, the smallest of them if they are too many.
    fn keep(&self) -> Result<(), Failure> {
        let merged = self.found.with_extension("merged");
        let failed = |error: std::io::Error| format!("{}: {error}", merged.display());
        if merged.exists() {
            fs::remove_dir_all(&merged).map_err(failed)?;
        }
        fs::create_dir_all(&merged).map_err(failed)?;
        let mut command = self.command()?;
        command.arg("-set_cover_merge=1").arg(&merged);
        command.arg(&self.kept).arg(&self.found);
        shell::run(command).map_err(|failure| self.failed(&failure))?;
        let mut files: Vec<(u64, PathBuf)> = fs::read_dir(&merged)
            .map_err(failed)?
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.len(), entry.path())))
            .collect();
        files.sort();
        files.truncate(CORPUS_FILES_MAX);
        fs::remove_dir_all(&self.kept).map_err(failed)?;
        fs::create_dir_all(&self.kept).map_err(failed)?;
        for (_, file) in &files {
            let name = file.file_name().unwrap_or_default();
            fs::copy(file, self.kept.join(name)).map_err(failed)?;
        }
        println!("{}: {} files are kept", self.name, files.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each target is a binary of the package, or it would never run; and what is kept of it is small.
    #[test]
    fn each_target_is_built_and_has_a_corpus() {
        let workspace = Workspace::find().unwrap();
        let manifest = fs::read_to_string(workspace.root.join("fuzz/Cargo.toml")).unwrap();
        for name in targets(&workspace).unwrap() {
            assert!(
                manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
                "{name}"
            );
            let kept = workspace.root.join("fuzz/corpus").join(&name);
            let count = fs::read_dir(&kept).unwrap().count();
            assert!((1..=CORPUS_FILES_MAX).contains(&count), "{name}: {count}");
        }
    }
}
