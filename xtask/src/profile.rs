//! `profile`: a flame graph of the server under a load, as an SVG. The server is built with frame pointers, in a target folder
//! of its own, so that `perf` can follow its calls; the rest is in hedgerow-sim.

use std::env::consts::EXE_SUFFIX;
use std::process::Command;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::{self, Workspace};

/// What is looked at when nothing else is asked for: single events in and out.
const LOAD: &str = "deliver";
/// The loads that there are, in hedgerow-sim: a wrong name is better known before that is built.
const LOADS: [&str; 5] = [
    "ingest",
    "ingest-arrays",
    "deliver",
    "deliver-arrays",
    "batches",
];
/// Without them `perf` sees the innermost call only.
const FLAGS: &str = "-C force-frame-pointers=yes";

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let accepted = Accepted {
        flags: &[],
        values: &["load", "seconds", "svg"],
    };
    let options = Options::read(arguments, accepted)?;
    let seconds = options.number::<u64>("seconds")?;
    if seconds == Some(0) {
        return Err("--seconds counts from 1".to_owned());
    }
    let load = options.text("load").unwrap_or(LOAD);
    if !LOADS.contains(&load) {
        return Err(format!(
            "--load is one of {}, not \"{load}\"",
            LOADS.join(", ")
        ));
    }
    if !shell::succeeds(Command::new("perf").arg("--version")) {
        return Err(
            "perf is not installed; Debian has it in the package linux-perf, Ubuntu in linux-tools-generic"
                .to_owned(),
        );
    }
    let target = workspace.target.join("profile");
    let packages = ["-p", "hedgerow-cli", "-p", "hedgerow-sim"];
    let mut build = workspace.cargo(["build", "--release"].into_iter().chain(packages));
    build
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", FLAGS);
    shell::run(build)?;
    let program = |name: &str| target.join("release").join(format!("{name}{EXE_SUFFIX}"));
    let mut profile = Command::new(program("hedgerow-sim"));
    profile.arg("profile").args(["--load", load]);
    profile.arg("--binary").arg(program("hedgerow"));
    profile
        .arg("--directory")
        .arg(workspace.target.join("bench"));
    if let Some(seconds) = seconds {
        profile.args(["--seconds", &seconds.to_string()]);
    }
    profile.arg("--svg");
    match options.text("svg") {
        Some(svg) => profile.arg(svg),
        None => profile.arg(target.join(format!("{load}.svg"))),
    };
    shell::run(profile)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_loads_are_those_of_the_program_that_makes_them() {
        let root = Workspace::find().unwrap().root;
        let source = root.join("crates/hedgerow-sim/src/bench/profile.rs");
        let text = fs::read_to_string(source).unwrap();
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\","))
            .collect();
        assert_eq!(names, LOADS);
    }
}
