//! `bench`: builds the release binary and measures it. The benchmark itself is in hedgerow-sim.

use std::env::consts::EXE_SUFFIX;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::{self, Workspace};

/// The options, all of which are handed over.
const ACCEPTED: Accepted<'static> = Accepted {
    flags: &["quick", "full", "smoke", "check"],
    values: &[
        "seconds", "rounds", "only", "pending", "dead", "explain", "deletes", "idle", "json",
        "compare",
    ],
};
/// Those values that are numbers.
const NUMBERS: [&str; 7] = [
    "seconds", "rounds", "pending", "dead", "explain", "deletes", "idle",
];

/// Of these there is one at most, or none.
const SIZES: [&str; 3] = ["quick", "full", "smoke"];

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let handed_over = handed_over(arguments)?;
    let packages = ["-p", "hedgerow-cli", "-p", "hedgerow-sim"];
    let build = ["build", "--release"].into_iter().chain(packages);
    shell::run(workspace.cargo(build))?;
    let release = workspace.target.join("release");
    let program = |name: &str| release.join(format!("{name}{EXE_SUFFIX}"));
    // On the disk of the workspace: a temporary folder may be memory.
    let mut bench = std::process::Command::new(program("hedgerow-sim"));
    bench.arg("bench");
    bench.arg("--binary").arg(program("hedgerow"));
    bench.arg("--directory").arg(workspace.target.join("bench"));
    bench.args(handed_over);
    shell::run(bench)
}

/// Runs every case for a moment, with what the proofs were built to.
pub fn smoke(workspace: &Workspace) -> Result<(), Failure> {
    let release = workspace.target.join("crash").join("release");
    let program = |name: &str| release.join(format!("{name}{EXE_SUFFIX}"));
    let mut bench = std::process::Command::new(program("hedgerow-sim"));
    bench.args(["bench", "--smoke"]);
    bench.arg("--binary").arg(program("hedgerow"));
    bench.arg("--directory").arg(workspace.target.join("bench"));
    shell::run(bench)
}

/// The options as the benchmark reads them.
fn handed_over(arguments: &[String]) -> Result<Vec<String>, Failure> {
    let options = Options::read(arguments, ACCEPTED)?;
    for name in NUMBERS {
        if options.number::<u64>(name)? == Some(0) {
            return Err(format!("--{name} counts from 1"));
        }
    }
    if SIZES.iter().filter(|size| options.has(size)).count() > 1 {
        return Err("bench is one of --quick, --full and --smoke, or none".to_owned());
    }
    let mut handed_over = Vec::new();
    for flag in ACCEPTED.flags {
        if options.has(flag) {
            handed_over.push(format!("--{flag}"));
        }
    }
    for name in ACCEPTED.values {
        if let Some(value) = options.text(name) {
            handed_over.extend([format!("--{name}"), value.to_owned()]);
        }
    }
    Ok(handed_over)
}

#[cfg(test)]
mod tests {
    use super::handed_over;

    #[test]
    fn options_are_handed_over_in_one_spelling() {
        let read = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            handed_over(&arguments).map(|options| options.join(" "))
        };
        assert_eq!(read(""), Ok(String::new()));
        assert_eq!(
            read("--json=a.json --quick --only ingest,pending --seconds 1"),
            Ok("--quick --seconds 1 --only ingest,pending --json a.json".to_owned())
        );
        assert_eq!(
            read("--check --compare a.json --full"),
            Ok("--full --check --compare a.json".to_owned())
        );
        for line in [
            "--rounds 0",
            "--second 1",
            "--binary x",
            "--pending many",
            "--quick --full",
            "--full --smoke",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
