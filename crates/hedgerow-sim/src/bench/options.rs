//! What the benchmark is started with.

use std::path::PathBuf;
use std::time::Duration;

/// Seconds of load of each case in a round, and rounds, when none are asked for.
const SECONDS: u64 = 5;
const ROUNDS: usize = 3;
/// The same with `--quick`.
const QUICK_SECONDS: u64 = 2;
const QUICK_ROUNDS: usize = 2;
/// Pending retries for each second of load, and at most, when no number is asked for.
const PENDING_PER_SECOND: u64 = 200_000;
const PENDING_MAX: u64 = 1_000_000;

/// Events that one is explained among, for each second of load, and at most, when no number is asked for.
const EXPLAIN_PER_SECOND: u64 = 100_000;
const EXPLAIN_MAX: u64 = 500_000;

/// The options of `bench`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The server under test, a release build.
    pub binary: PathBuf,
    /// Where data directories are made; they go at the end.
    pub directory: PathBuf,
    /// How long each case is under load in a round.
    pub time: Duration,
    /// How often each case is measured.
    pub rounds: usize,
    /// Parts of names of cases; empty for all.
    pub only: Vec<String>,
    /// Deliveries that wait in the case `pending`.
    pub pending: u64,
    /// Events in the case `explain`.
    pub explain: u64,
    /// Where the figures are written too.
    pub json: Option<PathBuf>,
}

impl Options {
    /// Reads them.
    pub fn read(arguments: &[String]) -> Result<Self, String> {
        let is_quick = arguments.iter().any(|argument| argument == "--quick");
        let (mut binary, mut directory, mut json) = (None, None, None);
        let (mut pending, mut explain) = (None, None);
        let mut seconds = if is_quick { QUICK_SECONDS } else { SECONDS };
        let mut rounds = if is_quick { QUICK_ROUNDS } else { ROUNDS };
        let mut only = Vec::new();
        let mut arguments = arguments.iter().filter(|argument| *argument != "--quick");
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            let number = || match value.parse::<u64>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{name} needs a number from 1 on")),
            };
            match name.as_str() {
                "--binary" => binary = Some(PathBuf::from(value)),
                "--directory" => directory = Some(PathBuf::from(value)),
                "--seconds" => seconds = number()?,
                "--rounds" => rounds = usize::try_from(number()?).map_err(|_| "too many rounds")?,
                "--only" => only = value.split(',').map(str::to_owned).collect(),
                "--pending" => pending = Some(number()?),
                "--explain" => explain = Some(number()?),
                "--json" => json = Some(PathBuf::from(value)),
                _ => return Err(format!("{name} is no option of bench")),
            }
        }
        Ok(Self {
            binary: binary.ok_or("bench needs --binary PATH, the server under test")?,
            directory: directory.ok_or("bench needs --directory PATH, where data may be kept")?,
            time: Duration::from_secs(seconds),
            rounds,
            only,
            explain: explain.unwrap_or(EXPLAIN_MAX.min(seconds * EXPLAIN_PER_SECOND)),
            pending: pending.unwrap_or(PENDING_MAX.min(seconds * PENDING_PER_SECOND)),
            json,
        })
    }

    /// Whether a case was asked for.
    pub fn wants(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| case.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let line = format!("--binary b --directory d {line}");
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::read(&arguments)
    }

    #[test]
    fn short_runs_have_few_pending_retries() {
        let all = read("").unwrap();
        assert_eq!((all.rounds, all.pending), (3, 1_000_000));
        assert!(all.wants("ingest-64"));
        let quick = read("--quick --only ingest,pending").unwrap();
        assert_eq!((quick.rounds, quick.pending), (2, 400_000));
        assert_eq!((all.explain, quick.explain), (500_000, 200_000));
        assert!(quick.wants("ingest-64") && !quick.wants("raw-log"));
        assert_eq!(
            read("--seconds 1 --pending 5000000").unwrap().pending,
            5_000_000
        );
        assert!(read("--seconds 0").is_err() && read("--json").is_err());
    }
}
