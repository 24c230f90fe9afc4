//! `sim`: days on simulated time, one a seed. The simulator itself is hedgerow-simulator.
//!
//! With `--planted` it has to find faults: those of `xtask/planted.txt` are put into a copy of the tree, in the target folder,
//! all together and each asleep until the environment names it. So one build serves them all, and the product knows nothing of
//! them.

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;
use std::process::Command;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::mutants::list::{self, Mutant};
use crate::mutants::{Copy, read};
use crate::shell::{self, Workspace};

/// The list of planted faults, from the root.
const LIST: &str = "xtask/planted.txt";
/// Names the one that is awake.
const VARIABLE: &str = "HEDGEROW_PLANTED";
/// Within so many seeds each of them is found.
pub const PLANTED_SEEDS: u64 = 200;
/// Seeds of an ordinary run.
pub const SEEDS: u64 = 50;
/// Seeds of a slow run.
pub const SLOW_SEEDS: u64 = 1_000;

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let accepted = Accepted {
        flags: &["planted"],
        values: &["seeds", "from", "seed"],
    };
    let options = Options::read(arguments, accepted)?;
    let seeds = options.number("seeds")?;
    if seeds == Some(0) {
        return Err("--seeds counts from 1: no seed proves nothing".to_owned());
    }
    if options.has("planted") {
        return find_planted(workspace, seeds.unwrap_or(PLANTED_SEEDS));
    }
    if let Some(seed) = options.number::<u64>("seed")? {
        let mut replay = Command::new(build(workspace)?);
        replay.args(["--seed", &seed.to_string()]);
        return shell::run(replay);
    }
    prove(
        workspace,
        seeds.unwrap_or(SEEDS),
        options.number("from")?.unwrap_or(0),
    )
}

/// Runs so many days, from a seed on.
pub fn prove(workspace: &Workspace, seeds: u64, from: u64) -> Result<(), Failure> {
    let mut days = Command::new(build(workspace)?);
    days.args(["--seeds", &seeds.to_string(), "--from", &from.to_string()]);
    shell::run(days)
}

/// Fails unless every planted fault is found within so many seeds, and nothing without one.
pub fn find_planted(workspace: &Workspace, seeds: u64) -> Result<(), Failure> {
    let faults = list::read(&read(&workspace.root.join(LIST))?)?;
    let copy = Copy::new(workspace)?;
    let program = copy.with_all(&faults, awake, build)?;
    let mut missed = Vec::new();
    for fault in &faults {
        let mut days = Command::new(&program);
        days.args(["--seeds", &seeds.to_string()]);
        days.env(VARIABLE, &fault.name);
        let found = days
            .output()
            .map_err(|error| format!("cannot run the simulator: {error}"))?;
        let said = String::from_utf8_lossy(&found.stderr);
        let is_found = !found.status.success() && said.starts_with("seed ");
        println!(
            "{:<10} {}: {}",
            if is_found { "found" } else { "MISSED" },
            fault.name,
            said.lines().next().unwrap_or(&fault.about)
        );
        if !is_found {
            missed.push(fault.name.as_str());
        }
    }
    let count = faults.len();
    println!("planted: {count} faults, {} found", count - missed.len());
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "not found within {seeds} seeds: {}",
        missed.join(", ")
    ))
}

/// The fault with what wakes it: in the list, `PLANTED` is whether the line is as it should be.
fn awake(fault: &Mutant) -> Mutant {
    let is_asleep = format!(
        "std::env::var_os(\"{VARIABLE}\").is_none_or(|awake| awake != \"{}\")",
        fault.name
    );
    fault.replacing("PLANTED", &is_asleep)
}

/// Builds the simulator and says where it is.
fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let mut build = workspace.cargo(["build", "-p", "hedgerow-simulator"]);
    // The copy has a folder of its own.
    build.env("CARGO_TARGET_DIR", &workspace.target);
    shell::run(build)?;
    let name = format!("hedgerow-simulator{EXE_SUFFIX}");
    Ok(workspace.target.join("debug").join(name))
}

#[cfg(test)]
mod tests {
    use super::{LIST, awake, list, read};
    use crate::shell::Workspace;

    /// The list fits the code as it stands, and every fault can sleep.
    #[test]
    fn every_planted_fault_has_its_line() {
        let workspace = Workspace::find().unwrap();
        let faults = list::read(&read(&workspace.root.join(LIST)).unwrap()).unwrap();
        for fault in &faults {
            let text = read(&workspace.root.join(&fault.file)).unwrap();
            let planted = awake(fault).apply(&text).unwrap();
            assert!(planted.contains(&format!("awake != \"{}\"", fault.name)));
        }
        let names = faults.iter().map(|fault| fault.name.as_str());
        for kind in [
            "ack-before-sync",
            "lost-due-entry",
            "double-trial",
            "cursor-past-unsettled",
        ] {
            assert!(names.clone().any(|name| name == kind), "{kind}");
        }
    }
}
