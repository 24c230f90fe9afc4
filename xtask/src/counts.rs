//! `counts`: what each step of the hot path asks of the allocator and how many instructions it takes, beside the file that was
//! checked in. Neither depends on who else uses the machine, so that a change of a few per cent is seen.
//!
//! Instructions are counted by `valgrind --tool=callgrind`: of a run with many times the step, less those of one without it.
//! They belong to a compiler: with another one they are shown and not held to the file.

use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::arguments::{Accepted, Options};
use crate::shell::{self, Workspace};

/// The file, from the root of the workspace.
const FILE: &str = "crates/hedgerow-micro/counts.txt";
/// What a count may be off from the file, either way: what becomes better belongs into the file too.
const TOLERANCE: f64 = 0.05;
/// How often a step runs while its instructions are counted.
const TIMES: u64 = 200;
/// How a line of the file begins that names the compiler.
const COMPILER: &str = "# rustc ";

/// What was counted of a step each time it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    allocations: u64,
    bytes: u64,
    /// `None` where nobody could count them.
    instructions: Option<u64>,
}

type Steps = BTreeMap<String, Counts>;

/// The command.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let accepted = Accepted {
        flags: &["write"],
        values: &[],
    };
    let is_write = Options::read(arguments, accepted)?.has("write");
    shell::run(workspace.cargo(["build", "--release", "-p", "hedgerow-micro"]))?;
    let release = workspace.target.join("release");
    let program = release.join(format!("hedgerow-micro{EXE_SUFFIX}"));
    let path = workspace.root.join(FILE);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let recorded = parse(&text)?;
    let compiler = compiler();
    let mut steps = parse(&output(Command::new(&program).arg("allocations"))?)?;
    if shell::succeeds(Command::new("valgrind").arg("--version")) {
        count_instructions(&program, &mut steps)?;
    } else {
        println!("note: instructions are left out: valgrind is not installed");
        // They stay as they are.
        for (name, counts) in &mut steps {
            counts.instructions = recorded.get(name).and_then(|known| known.instructions);
        }
    }
    if is_write {
        fs::write(&path, to_file(&steps, &compiler))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("wrote {FILE}");
        return Ok(());
    }
    let is_same_compiler = text
        .lines()
        .filter_map(|line| line.strip_prefix(COMPILER))
        .any(|line| line == compiler);
    if !is_same_compiler {
        println!(
            "note: {FILE} is of another compiler than {compiler}: instructions are not held to it"
        );
    }
    let (table, off) = beside(&recorded, &steps, is_same_compiler);
    print!("{table}");
    if off.is_empty() {
        return Ok(());
    }
    Err(format!(
        "counts are off by more than {:.0} %: {}\n  if that is meant: `cargo xtask counts --write`, and say why in the commit",
        TOLERANCE * 100.0,
        off.join(", ")
    ))
}

/// The compiler's version, without its name.
fn compiler() -> String {
    let told = output(Command::new("rustc").arg("--version")).unwrap_or_default();
    told.trim().trim_start_matches("rustc ").to_owned()
}

fn count_instructions(program: &Path, steps: &mut Steps) -> Result<(), Failure> {
    for (name, counts) in steps {
        let [without, with] = [0, TIMES].map(|times| instructions(program, name, times));
        let more = with?.saturating_sub(without?);
        counts.instructions = Some(more.div_ceil(TIMES));
    }
    Ok(())
}

fn instructions(program: &Path, step: &str, times: u64) -> Result<u64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["run", step, &times.to_string()]);
    let told = valgrind
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    collected(&told).ok_or_else(|| format!("valgrind counted nothing for {step}:\n{told}"))
}

/// The number that callgrind prints at its end.
fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Lines with a name and two or three numbers; `-` for one that nobody counted.
fn parse(text: &str) -> Result<Steps, Failure> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let failed = || format!("{FILE}: this is no line of counts: {line}");
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, numbers) = words.split_first().ok_or_else(failed)?;
            let number = |at: usize| numbers.get(at)?.parse::<u64>().ok();
            let counts = Counts {
                allocations: number(0).ok_or_else(failed)?,
                bytes: number(1).ok_or_else(failed)?,
                instructions: number(2),
            };
            Ok(((*name).to_owned(), counts))
        })
        .collect()
}

fn to_file(steps: &Steps, compiler: &str) -> String {
    let mut text = format!(
        "# What each step of the hot path takes each time it runs. Written by `cargo xtask counts --write` with\n\
         {COMPILER}{compiler}\n\
         # in the release profile; allocations are the same in every profile, and `cargo test` holds them to this file.\n\
         # {:<22}{:>14}{:>14}{:>14}\n",
        "step", "allocations", "bytes", "instructions"
    );
    for (name, counts) in steps {
        let instructions = shown(counts.instructions);
        writeln!(
            text,
            "{name:<24}{:>14}{:>14}{instructions:>14}",
            counts.allocations, counts.bytes
        )
        .expect("writing to a String cannot fail");
    }
    text
}

fn shown(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

/// A table of what was recorded and what is now, and what of it is off.
fn beside(recorded: &Steps, steps: &Steps, holds_instructions: bool) -> (String, Vec<String>) {
    let mut text = format!(
        "{:<24}{:>22}{:>22}{:>26}\n",
        "step: recorded -> now", "allocations", "bytes", "instructions"
    );
    let mut off = Vec::new();
    for (name, now) in steps {
        let Some(before) = recorded.get(name) else {
            off.push(format!("{name} is not in the file"));
            continue;
        };
        let pair =
            |before: Option<u64>, now: Option<u64>| format!("{} -> {}", shown(before), shown(now));
        writeln!(
            text,
            "{name:<24}{:>22}{:>22}{:>26}",
            pair(Some(before.allocations), Some(now.allocations)),
            pair(Some(before.bytes), Some(now.bytes)),
            pair(before.instructions, now.instructions)
        )
        .expect("writing to a String cannot fail");
        let held = [
            (
                "allocations",
                Some(before.allocations),
                Some(now.allocations),
            ),
            ("bytes", Some(before.bytes), Some(now.bytes)),
            ("instructions", before.instructions, now.instructions),
        ];
        for (what, before, now) in held {
            let is_held = what != "instructions" || holds_instructions;
            if let (true, Some(before), Some(now)) = (is_held, before, now)
                && is_off(before, now)
            {
                off.push(format!("{name} {what} {before} -> {now}"));
            }
        }
    }
    let gone = recorded.keys().filter(|name| !steps.contains_key(*name));
    off.extend(gone.map(|name| format!("{name} is in the file and there is no such step")));
    (text, off)
}

#[allow(clippy::cast_precision_loss)] // Counts.
fn is_off(before: u64, now: u64) -> bool {
    before.abs_diff(now) as f64 > before as f64 * TOLERANCE
}

/// What a program prints.
fn output(command: &mut Command) -> Result<String, Failure> {
    let told = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if told.status.success() {
        Ok(String::from_utf8_lossy(&told.stdout).into_owned())
    } else {
        Err(format!("{command:?} ended with {}", told.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(lines: &str) -> Steps {
        parse(lines).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let all = steps("decode-1 3 1344 10788\npack-1 5 1149 -\n");
        let text = to_file(&all, "1.95.0 (59807616e 2026-04-14)");
        assert_eq!(parse(&text), Ok(all));
        assert!(text.contains("# rustc 1.95.0"), "{text}");
        assert!(parse("decode-1 many 2 3").is_err());
    }

    #[test]
    fn what_is_off_by_more_than_a_twentieth_is_named() {
        let recorded = steps("a 20 1000 1000\nb 0 0 1000\ngone 1 1 1");
        let now = steps("a 21 1051 1200\nb 1 1 1040\nnew 1 1 1");
        let (table, off) = beside(&recorded, &now, true);
        assert!(table.contains("20 -> 21"), "{table}");
        let expected = [
            "a bytes 1000 -> 1051",
            "a instructions 1000 -> 1200",
            "b allocations 0 -> 1",
            "b bytes 0 -> 1",
            "new is not in the file",
            "gone is in the file and there is no such step",
        ];
        assert_eq!(off, expected);
        let (_, off) = beside(&recorded, &now, false);
        assert!(
            !off.iter().any(|line| line.contains("instructions")),
            "{off:?}"
        );
    }

    #[test]
    fn the_number_is_found_in_what_valgrind_says() {
        let told = "==1== Events    : Ir\n==1== Collected : 7726929\n==1== \n";
        assert_eq!(collected(told), Some(7_726_929));
        assert_eq!(collected("valgrind: no"), None);
    }
}
