//! The volume proof: more is published to the real `serve` binary than the disk may hold, and it must neither refuse what
//! it has room for, nor take more disk than it may, nor lose anything (design D1, D9).
//!
//! | case | what |
//! | --- | --- |
//! | `live` | ten times `store.bytes_max` goes through to a live receiver, at most 64 MiB undelivered: nothing is refused |
//! | `dead` | the same beside a topic with 1 % of the bytes whose receiver is down: the disk holds that topic's bytes |
//! | `full` | nothing is accepted until publishing is refused; deliveries go on, and publishing resumes by itself |
//!
//! The server is a black box: what is looked at is its answers, what arrives, and the files in its data directory.

mod cases;
mod disk;
mod load;
mod options;
mod receiver;
mod stream;
mod subject;

use std::time::Instant;

pub use self::options::Options;

/// The name of a case, and what runs it.
const CASES: [&str; 3] = ["live", "dead", "full"];

/// Runs the proof and prints what was measured.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::read(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = run_cases(&options) => result,
            _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
        }
    });
    // Receivers end with the process.
    runtime.shutdown_background();
    result
}

async fn run_cases(options: &Options) -> Result<(), String> {
    let mut failed = Vec::new();
    for name in CASES.into_iter().filter(|name| options.wants(name)) {
        println!("volume proof: {name}");
        let began = Instant::now();
        let case = match name {
            "live" => cases::live(options).await,
            "dead" => cases::dead(options).await,
            _ => cases::full(options).await,
        };
        let seconds = began.elapsed().as_secs();
        match case {
            Ok(()) => println!("PASS (volume, {name}, {seconds} s)"),
            Err(error) => {
                println!("  problem: {error}\nFAIL (volume, {name}, {seconds} s)");
                failed.push(name);
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("FAIL (volume): {}", failed.join(", ")))
    }
}

/// Prints one figure.
fn line(name: &str, value: impl std::fmt::Display) {
    println!("  {name:<38} {value}");
}

/// Bytes in whole MiB, for people.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
