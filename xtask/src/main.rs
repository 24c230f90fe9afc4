//! House automation: everything that people and CI run, as one program, so that a machine with cargo has it all.
//!
//! `cargo xtask` alone lists the commands. This file names them and hands over; each command has a file of its own. The
//! program uses the standard library only, so that it is built in seconds.
#![allow(
    clippy::print_stdout,
    reason = "the terminal is this program's only output"
)]

mod arguments;
mod bench;
mod cases;
mod check;
mod clients;
mod counts;
mod crash;
mod fuzz;
mod mutants;
mod profile;
mod setup;
mod shell;
mod sim;
mod test;
mod tidy;

use std::fmt::Write as _;
use std::process::ExitCode;

use crate::shell::Workspace;

/// What went wrong and what to do, ready to print.
pub type Failure = String;

/// One thing that `cargo xtask` can do.
struct Command {
    name: &'static str,
    options: &'static str,
    about: &'static str,
    run: fn(&Workspace, &[String]) -> Result<(), Failure>,
}

/// Options that are longer than this do not stand in the list of commands.
const OPTIONS_WIDTH: usize = 40;

const COMMANDS: [Command; 14] = [
    Command {
        name: "setup",
        options: "[--deny]",
        about: "installs what is missing; --deny builds cargo-deny too (minutes)",
        run: setup::run,
    },
    Command {
        name: "check",
        options: "",
        about: "rustfmt, tidy, clippy, and cargo-deny when it is installed",
        run: check::run,
    },
    Command {
        name: "test",
        options: "",
        about: "all tests, published clients, short crash proofs; HEDGEROW_SLOW=1: long ones",
        run: test::run,
    },
    Command {
        name: "clients",
        options: "[PYTEST-OPTION...]",
        about: "the tests with published clients alone",
        run: clients::run_alone,
    },
    Command {
        name: "cases",
        options: "[FILE...]",
        about: "runs tables of cases against the real code; without files, all of cases/",
        run: cases::run,
    },
    Command {
        name: "crash",
        options: "[--power] [--rounds N] [--seed S]",
        about: "kills the server and counts what was lost; --power: power cuts",
        run: crash::run,
    },
    Command {
        name: "sim",
        options: "[--seeds N] [--from N] [--seed N] [--planted]",
        about: "days on simulated time, one a seed; --seed replays one; --planted finds faults",
        run: sim::run,
    },
    Command {
        name: "mutants",
        options: "[--only NAMES]",
        about: "puts faults into the rules, one at a time: the tests must notice each",
        run: mutants::run,
    },
    Command {
        name: "fuzz",
        options: "[--seconds N] [--keep | --replay] [TARGET...]",
        about: "feeds parsers and rules what nobody thought of; needs a C++ compiler",
        run: fuzz::run,
    },
    Command {
        name: "volume",
        options: "[--slow]",
        about: "sends more through the server than its disk may hold; --slow: 20 GiB",
        run: crash::run_volume,
    },
    Command {
        name: "bench",
        options: "[--quick | --full | --smoke] [--check] [--json FILE] [--compare FILE] [--only NAMES] [--seconds N] [--rounds N] \
                  [--pending N] [--dead N] [--explain N] [--deletes N] [--idle N]",
        about: "measures the server beside bare HTTP and a bare log; CONTRIBUTING.md says what each option does",
        run: bench::run,
    },
    Command {
        name: "counts",
        options: "[--write]",
        about: "allocations and instructions of the hot path, beside the file of them",
        run: counts::run,
    },
    Command {
        name: "profile",
        options: "[--load NAME] [--seconds N] [--svg FILE]",
        about: "a flame graph of the server under a load; needs perf",
        run: profile::run,
    },
    Command {
        name: "tidy",
        options: "[--write]",
        about: "the house rules; --write renews generated parts of pages",
        run: tidy::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", listing());
        return ExitCode::SUCCESS;
    };
    if name == "help" || is_help(name) {
        print!("{}", listing());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprintln!("error: there is no command \"{name}\"\n\n{}", listing());
        return ExitCode::from(2);
    };
    // What follows may be for another program, as with `clients`; the first is for this one.
    if rest.first().is_some_and(|first| is_help(first)) {
        print!("{}", usage(command));
        return ExitCode::SUCCESS;
    }
    match Workspace::find().and_then(|workspace| (command.run)(&workspace, rest)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn is_help(argument: &str) -> bool {
    matches!(argument, "--help" | "-h")
}

/// How one command is called, as `--help` after it prints it.
fn usage(command: &Command) -> String {
    let line = format!("Usage: cargo xtask {} {}", command.name, command.options);
    format!("{}\n\n{}\n", line.trim_end(), command.about)
}

/// The list of commands, as `cargo xtask` alone prints it.
fn listing() -> String {
    let mut text = String::from("Usage: cargo xtask COMMAND [OPTIONS]\n\n");
    for Command {
        name,
        options,
        about,
        ..
    } in &COMMANDS
    {
        // One that takes many options is shown in full by `--help` after it.
        let options = if options.len() > OPTIONS_WIDTH {
            "[OPTIONS]"
        } else {
            options
        };
        let usage = format!("{name} {options}");
        writeln!(text, "  {usage:<50}{about}").expect("writing to a String cannot fail");
    }
    text.push_str("\n`cargo xtask COMMAND --help` shows one command with all of its options.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, listing, usage};

    #[test]
    fn the_listing_names_every_command() {
        let listing = listing();
        for command in &COMMANDS {
            assert!(
                listing.contains(&format!("  {} ", command.name)),
                "{listing}"
            );
            let usage = usage(command);
            let line = format!("Usage: cargo xtask {}", command.name);
            assert!(
                usage.starts_with(&line) && usage.contains(command.options),
                "{usage}"
            );
        }
    }
}
