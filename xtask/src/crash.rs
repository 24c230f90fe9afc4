//! `crash` and `volume`: build and start the proofs that nothing acknowledged is lost. The proofs themselves are in hedgerow-sim.
//!
//! They are built in the release profile, in a target folder of their own, because the server under test carries the
//! feature `failpoints`, which no other build has.

use std::env::consts::EXE_SUFFIX;

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::{self, Workspace};

/// Rounds when none are asked for: those that a release has to pass.
const KILL_ROUNDS: u32 = 50;
/// The same for power cuts, which are quicker.
const POWER_ROUNDS: u32 = 200;

/// What is done to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The process is killed; the kernel keeps what it was given.
    Kill,
    /// The disk loses what was not synced.
    Power,
    /// More is published than the disk may hold.
    Volume,
}

/// How much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Rounds.
    Rounds(u32),
    /// A few GiB.
    Quick,
    /// Many.
    Slow,
}

/// One run of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    fault: Fault,
    extent: Extent,
    seed: Option<u64>,
}

impl Proof {
    /// Kills the real server that often.
    pub const fn kill(rounds: u32) -> Self {
        Self {
            fault: Fault::Kill,
            extent: Extent::Rounds(rounds),
            seed: None,
        }
    }

    /// Cuts the power of the log and the view that often, in process.
    pub const fn power(rounds: u32) -> Self {
        Self {
            fault: Fault::Power,
            extent: Extent::Rounds(rounds),
            seed: None,
        }
    }

    /// Sends more through the real server than its disk may hold.
    pub const fn volume(is_slow: bool) -> Self {
        Self {
            fault: Fault::Volume,
            extent: if is_slow { Extent::Slow } else { Extent::Quick },
            seed: None,
        }
    }

    fn read(arguments: &[String]) -> Result<Self, Failure> {
        let accepted = Accepted {
            flags: &["power"],
            values: &["rounds", "seed"],
        };
        let options = Options::read(arguments, accepted)?;
        let rounds = options.number("rounds")?;
        if rounds == Some(0) {
            return Err("--rounds counts from 1: no round proves nothing".to_owned());
        }
        let proof = if options.has("power") {
            Self::power(rounds.unwrap_or(POWER_ROUNDS))
        } else {
            Self::kill(rounds.unwrap_or(KILL_ROUNDS))
        };
        Ok(Self {
            seed: options.number("seed")?,
            ..proof
        })
    }
}

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    prove(workspace, Proof::read(arguments)?)
}

/// The command `volume`.
pub fn run_volume(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let accepted = Accepted {
        flags: &["slow"],
        values: &[],
    };
    let options = Options::read(arguments, accepted)?;
    prove(workspace, Proof::volume(options.has("slow")))
}

/// Builds what the proof needs and runs it. The proof prints its ledger and fails above its bounds.
pub fn prove(workspace: &Workspace, proof: Proof) -> Result<(), Failure> {
    let target = workspace.target.join("crash");
    let target_text = target.to_string_lossy();
    let mut line = vec![
        "run",
        "--release",
        "--target-dir",
        &target_text,
        "-p",
        "hedgerow-sim",
        "--",
    ];
    let binary = target.join("release").join(format!("hedgerow{EXE_SUFFIX}"));
    let binary_text = binary.to_string_lossy();
    // On the disk of the workspace: a temporary folder may be memory.
    let data = workspace.target.join("volume");
    let data_text = data.to_string_lossy();
    match proof.fault {
        Fault::Kill | Fault::Volume => {
            let build = [
                "build",
                "--release",
                "-p",
                "hedgerow-cli",
                "--features",
                "failpoints",
            ];
            let mut build = workspace.cargo(build);
            build.arg("--target-dir").arg(&target);
            shell::run(build)?;
            line.push(if proof.fault == Fault::Kill {
                "crash"
            } else {
                "volume"
            });
            line.extend(["--binary", &binary_text]);
        }
        Fault::Power => line.push("power"),
    }
    if proof.fault == Fault::Volume {
        line.extend(["--directory", &data_text]);
    }
    let rounds;
    match proof.extent {
        Extent::Rounds(count) => {
            rounds = count.to_string();
            line.extend(["--rounds", &rounds]);
        }
        Extent::Quick => {}
        Extent::Slow => line.push("--slow"),
    }
    let seed = proof.seed.map(|seed| seed.to_string());
    if let Some(seed) = &seed {
        line.extend(["--seed", seed]);
    }
    shell::run(workspace.cargo(line))
}

#[cfg(test)]
mod tests {
    use super::Proof;

    fn read(line: &str) -> Result<Proof, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Proof::read(&arguments)
    }

    #[test]
    fn a_proof_is_read_from_its_options() {
        assert_eq!(read(""), Ok(Proof::kill(50)));
        assert_eq!(read("--power"), Ok(Proof::power(200)));
        assert_eq!(
            read("--power --rounds 7 --seed 11"),
            Ok(Proof {
                seed: Some(11),
                ..Proof::power(7)
            })
        );
        assert!(read("--rounds 0").is_err());
        assert!(read("--power 200").is_err());
    }
}
