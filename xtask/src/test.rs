//! `test`: all tests of the workspace, examples in documentation included, those with published clients, then days on simulated
//! time and the proofs against crashes, full disks and power cuts: a few rounds usually, the long ones when `HEDGEROW_SLOW=1`. At
//! the end every case of the benchmark runs once, for a moment.

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::bench;
use crate::clients;
use crate::crash::{self, Proof};
use crate::fuzz;
use crate::setup;
use crate::shell::{self, Workspace};
use crate::sim;

/// The proofs of an ordinary run: the tests and these stay within a few minutes.
const QUICK: [Proof; 3] = [Proof::kill(3), Proof::volume(false), Proof::power(200)];
/// The engine's tests of sections 3 to 8 that a profile could make a difference to; the others look at no answer and at no end.
const TOUCHED_BY_PROFILES: [&str; 10] = [
    "batch",
    "custom_headers",
    "dead_letters",
    "golden",
    "late",
    "notices",
    "ordering",
    "replay",
    "timelines",
    "validation",
];
/// The proofs of a slow run.
const SLOW: [Proof; 3] = [Proof::kill(50), Proof::volume(true), Proof::power(2000)];

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    Options::read(
        arguments,
        Accepted {
            flags: &[],
            values: &[],
        },
    )?;
    setup::ensure(workspace);
    setup::ensure_packages();
    shell::run(workspace.cargo(["test", "--workspace"]))?;
    // ED-317: what the engine's tests say holds in both profiles.
    let strict = [
        "test",
        "-q",
        "-p",
        "hedgerow-delivery",
        "--test",
        "it",
        "--",
    ];
    let mut strict = workspace.cargo(strict.iter().chain(&TOUCHED_BY_PROFILES));
    strict.env("HEDGEROW_TEST_PROFILE", "strict");
    shell::run(strict)?;
    clients::run(workspace, &[])?;
    let is_slow = std::env::var_os("HEDGEROW_SLOW").is_some_and(|value| value == "1");
    sim::prove(
        workspace,
        if is_slow { sim::SLOW_SEEDS } else { sim::SEEDS },
        0,
    )?;
    sim::find_planted(workspace, sim::PLANTED_SEEDS)?;
    for proof in if is_slow { SLOW } else { QUICK } {
        crash::prove(workspace, proof)?;
    }
    if is_slow {
        // Among the long ones, since it needs a C++ compiler.
        fuzz::replay(workspace)?;
    }
    // It measures nothing, and shows that every case still works.
    bench::smoke(workspace)
}
