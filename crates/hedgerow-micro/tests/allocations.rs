//! Holds what each step allocates to `counts.txt`. A change that allocates more, or less, is seen in review: the file changes
//! with it, by `cargo xtask counts --write`.

use hedgerow_micro::{Allocations, Inputs, STEPS};

const FILE: &str = include_str!("../counts.txt");
/// What a count may be off from the file, in a hundred.
const TOLERANCE_PERCENT: u64 = 5;

/// The line of a step in the file.
fn recorded(name: &str) -> Allocations {
    let mut lines = FILE.lines();
    let line = lines.find(|line| line.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} is not in counts.txt"));
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse().expect("it is a number");
    Allocations {
        count: number(1),
        bytes: number(2),
    }
}

fn is_near(recorded: u64, now: u64) -> bool {
    recorded.abs_diff(now) * 100 <= recorded * TOLERANCE_PERCENT
}

#[test]
fn every_step_allocates_what_the_file_says() {
    let mut inputs = Inputs::new();
    let off: Vec<String> = STEPS
        .iter()
        .filter_map(|step| {
            let (before, now) = (recorded(step.name), step.allocations(&mut inputs));
            let is_near = is_near(before.count, now.count) && is_near(before.bytes, now.bytes);
            (!is_near).then(|| format!("{}: {before:?} in the file, {now:?} now", step.name))
        })
        .collect();
    assert!(
        off.is_empty(),
        "if that is meant: `cargo xtask counts --write`, and say why in the commit\n{}",
        off.join("\n")
    );
}

/// The counts are no accident of one run.
#[test]
fn steps_allocate_the_same_each_time() {
    let mut inputs = Inputs::new();
    for step in &STEPS {
        let first = step.allocations(&mut inputs);
        assert_eq!(step.allocations(&mut inputs), first, "{}", step.name);
    }
}

#[test]
fn the_file_has_no_other_steps() {
    for line in FILE.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split_whitespace().next();
        assert!(STEPS.iter().any(|step| Some(step.name) == name), "{line}");
    }
}
