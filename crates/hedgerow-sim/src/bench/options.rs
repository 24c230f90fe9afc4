//! What the benchmark is started with.

use std::path::PathBuf;
use std::time::Duration;

/// Seconds of load of each case in a round, and rounds, when none are asked for: all cases end in ten minutes.
const SECONDS: u64 = 3;
const ROUNDS: usize = 3;
/// The same with `--quick`.
const QUICK_SECONDS: u64 = 2;
const QUICK_ROUNDS: usize = 2;
/// Pending retries for each second of load in short runs, and else, when no number is asked for.
const PENDING_PER_SECOND: u64 = 200_000;
const PENDING: u64 = 1_000_000;
/// With `--smoke`: everything once and as little as shows that it works.
const SMOKE_TIME: Duration = Duration::from_millis(200);
const SMOKE_EVENTS: u64 = 2_000;

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
    /// Whether it is only looked whether it works.
    pub is_smoke: bool,
    /// Deliveries that wait in the cases `pending` and `held`.
    pub pending: u64,
    /// Deliveries that wait in the case `dead`.
    pub dead: u64,
    /// Events in the case `explain`.
    pub explain: u64,
    /// Where the figures are written too.
    pub json: Option<PathBuf>,
}

impl Options {
    /// Reads them.
    pub fn read(arguments: &[String]) -> Result<Self, String> {
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        let (is_quick, is_smoke) = (has("--quick"), has("--smoke"));
        let (mut binary, mut directory, mut json) = (None, None, None);
        let (mut pending, mut explain, mut dead) = (None, None, None);
        let mut seconds = if is_quick { QUICK_SECONDS } else { SECONDS };
        let mut rounds = if is_quick { QUICK_ROUNDS } else { ROUNDS };
        let mut only = Vec::new();
        let mut arguments = arguments
            .iter()
            .filter(|argument| !matches!(argument.as_str(), "--quick" | "--smoke"));
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
                "--dead" => dead = Some(number()?),
                "--explain" => explain = Some(number()?),
                "--json" => json = Some(PathBuf::from(value)),
                _ => return Err(format!("{name} is no option of bench")),
            }
        }
        let is_short = seconds < SECONDS;
        let waiting = if is_smoke {
            SMOKE_EVENTS
        } else if is_short {
            seconds * PENDING_PER_SECOND
        } else {
            PENDING
        };
        let time = if is_smoke {
            SMOKE_TIME
        } else {
            Duration::from_secs(seconds)
        };
        let explained = if is_smoke {
            SMOKE_EVENTS
        } else {
            EXPLAIN_MAX.min(seconds * EXPLAIN_PER_SECOND)
        };
        Ok(Self {
            is_smoke,
            dead: dead.unwrap_or(waiting),
            binary: binary.ok_or("bench needs --binary PATH, the server under test")?,
            directory: directory.ok_or("bench needs --directory PATH, where data may be kept")?,
            time,
            rounds: if is_smoke { 1 } else { rounds },
            only,
            explain: explain.unwrap_or(explained),
            pending: pending.unwrap_or(waiting),
            json,
        })
    }

    /// Longer than the time between two checkpoints of the view, so that what is owed to it is written.
    pub fn rest(&self) -> Duration {
        if self.is_smoke {
            Duration::from_millis(300)
        } else {
            Duration::from_secs(6)
        }
    }

    /// After which time an attempt that is answered 500 is made again, at most.
    pub fn due_after(&self) -> Duration {
        if self.is_smoke {
            Duration::from_secs(4)
        } else {
            // 10 s, and a tenth of that by chance; and one second more.
            Duration::from_secs(12)
        }
    }

    /// Settings under which that is so.
    pub fn due_settings(&self) -> &'static str {
        if self.is_smoke {
            "[retry]\nslots = [\"3s\"]\njitter_percent = 0\n\n[retry.floors]\nother = \"1s\"\n"
        } else {
            "[retry.floors]\n"
        }
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
        assert_eq!((all.explain, quick.explain), (300_000, 200_000));
        let smoke = read("--smoke").unwrap();
        assert_eq!((smoke.rounds, smoke.pending, smoke.dead), (1, 2_000, 2_000));
        assert!(smoke.rest() < all.rest() && smoke.due_after() < all.due_after());
        assert!(quick.wants("ingest-64") && !quick.wants("raw-log"));
        assert_eq!(
            read("--seconds 1 --pending 5000000").unwrap().pending,
            5_000_000
        );
        assert!(read("--seconds 0").is_err() && read("--json").is_err());
    }
}
