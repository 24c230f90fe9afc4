//! `hedgerow-micro allocations` prints what each step allocates; `hedgerow-micro run STEP N` runs one N times, for tools that
//! count instructions; `hedgerow-micro steps` lists them.

// A tool: what it prints is its result.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use hedgerow_micro::{Allocations, Inputs, STEPS};

const USAGE: &str = "usage: hedgerow-micro steps | allocations | run STEP N";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["steps"] => {
            for step in &STEPS {
                println!("{:<20} {}", step.name, step.about);
            }
            true
        }
        ["allocations"] => {
            allocations();
            true
        }
        ["run", name, times] => times.parse().is_ok_and(|times| run(name, times)),
        _ => false,
    };
    if done {
        ExitCode::SUCCESS
    } else {
        eprintln!("{USAGE}");
        ExitCode::FAILURE
    }
}

fn allocations() {
    let mut inputs = Inputs::new();
    for step in &STEPS {
        let Allocations { count, bytes } = step.allocations(&mut inputs);
        println!("{} {count} {bytes}", step.name);
    }
}

fn run(name: &str, times: u32) -> bool {
    let Some(step) = STEPS.iter().find(|step| step.name == name) else {
        return false;
    };
    let mut inputs = Inputs::new();
    for _ in 0..times {
        (step.run)(&mut inputs);
    }
    true
}
