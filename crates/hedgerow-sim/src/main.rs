//! Crash and power-cut proofs, and the benchmark: `crash` kills the real server, `power` cuts the power of log and view in
//! process. Each runs for a number of rounds, keeps a ledger of what was acknowledged and fails if anything of it was
//! lost. `volume` sends more through the real server than its disk may hold. `bench` measures it beside what the machine
//! can do without it, and `profile` shows where its time goes.

// All of them are tools: what they print is their result.
#![allow(clippy::print_stdout)]

mod bench;
mod crash;
mod harness;
mod power;
mod random;
mod volume;

use std::process::ExitCode;

const USAGE: &str = "usage: hedgerow-sim crash --binary PATH [--rounds N] [--seed S]
       hedgerow-sim power [--rounds N] [--seed S]
       hedgerow-sim volume --binary PATH --directory PATH [--slow] [--only CASE]
       hedgerow-sim bench --binary PATH --directory PATH [--quick | --full | --smoke] [--check] [--compare FILE] [--json FILE]
                          [--only NAMES] [--seconds N] [--rounds N] [--pending N] [--dead N] [--explain N] [--deletes N]
                          [--idle N]
       hedgerow-sim profile --binary PATH --directory PATH --svg FILE [--load NAME] [--seconds N]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, rest)) if command == "crash" => crash::run(rest),
        Some((command, rest)) if command == "power" => power::run(rest),
        Some((command, rest)) if command == "volume" => volume::run(rest),
        Some((command, rest)) if command == "bench" => bench::run(rest),
        Some((command, rest)) if command == "profile" => bench::profile(rest),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
