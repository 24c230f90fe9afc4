//! `hedgerow-cases FILE...`: a line for each case that fails, and how many of each kind were run.

#![allow(clippy::print_stdout)] // What it prints is its result.

use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() || files.iter().any(|file| file.starts_with('-')) {
        eprintln!("usage: hedgerow-cases FILE...");
        return ExitCode::from(2);
    }
    match hedgerow_cases::run(&files) {
        Ok(report) => {
            println!("{report}");
            if report.failed.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
