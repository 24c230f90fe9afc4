//! What the benchmark is started with, and how much of everything there is in a short, an ordinary and a full run.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::cases::CASES;

/// How much of everything there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// How long each case is under load in a round.
    pub time: Duration,
    /// How often each case is measured.
    pub rounds: usize,
    /// Deliveries that wait in the case `pending`.
    pub pending: u64,
    /// Events that are held in the case `held`.
    pub held: u64,
    /// Deliveries that wait in the case `dead`.
    pub dead: u64,
    /// Events in the case `explain`.
    pub explain: u64,
    /// Retries that are settled in the case `next-due`.
    pub deletes: u64,
    /// Subscriptions of a server that has nothing to do, and how long it is looked at.
    pub idle_subscriptions: usize,
    /// See [`Size::idle_subscriptions`].
    pub idle: Duration,
    /// How long a server rests before its memory is read.
    pub rest: Duration,
}

/// Without an option: all of it ends in less than ten minutes.
const USUAL: Size = Size {
    time: Duration::from_millis(2_500),
    rounds: 3,
    pending: 1_000_000,
    held: 200_000,
    dead: 500_000,
    explain: 1_000_000,
    deletes: 1_000_000,
    idle_subscriptions: 10_000,
    idle: Duration::from_secs(30),
    rest: AFTER_CHECKPOINT,
};
/// `--quick`: in less than two.
const QUICK: Size = Size {
    time: Duration::from_millis(500),
    rounds: 2,
    pending: 40_000,
    held: 40_000,
    dead: 40_000,
    explain: 100_000,
    deletes: 200_000,
    idle_subscriptions: 1_000,
    idle: Duration::from_secs(3),
    rest: Duration::from_secs(1),
};
/// `--full`: as many as the figures are meant for, for as long as it takes.
const FULL: Size = Size {
    pending: 5_000_000,
    held: 1_000_000,
    dead: 5_000_000,
    explain: 10_000_000,
    deletes: 5_000_000,
    idle: Duration::from_secs(60),
    ..USUAL
};
/// `--smoke`: everything once and as little as shows that it works.
const SMOKE: Size = Size {
    time: Duration::from_millis(200),
    rounds: 1,
    pending: 2_000,
    held: 2_000,
    dead: 2_000,
    explain: 2_000,
    deletes: 2_000,
    idle_subscriptions: 20,
    idle: Duration::from_millis(200),
    rest: Duration::from_millis(300),
};
/// Longer than the time between two checkpoints of the view, so that what is owed to it is written.
const AFTER_CHECKPOINT: Duration = Duration::from_secs(6);

/// What the disk has to hold of each event that waits, with the records about it; of one that nobody waits for; and besides.
const WAITING_EVENT_BYTES: u64 = 2_560;
const EVENT_BYTES: u64 = 1_100;
const BESIDES_BYTES: u64 = 2 << 30;
/// More is not kept of events that nobody waits for.
const STORE_BYTES: u64 = 8 << 30;

impl Size {
    /// What the largest case takes of the disk.
    fn disk_bytes(&self) -> u64 {
        let waits = self.pending.max(self.held).max(self.dead);
        let waiting = waits.saturating_mul(WAITING_EVENT_BYTES);
        let forgotten = self.explain.saturating_mul(EVENT_BYTES).min(STORE_BYTES);
        waiting.max(forgotten).saturating_add(BESIDES_BYTES)
    }
}

/// The options of `bench`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The server under test, a release build.
    pub binary: PathBuf,
    /// Where data directories are made; they go at the end.
    pub directory: PathBuf,
    /// How much of everything.
    pub size: Size,
    /// Parts of names of cases; empty for all.
    pub only: Vec<String>,
    /// Whether it is only looked whether it works.
    pub is_smoke: bool,
    /// Whether it has to be short: rows that no figure to reach needs are left out.
    pub is_quick: bool,
    /// Where the figures are written too.
    pub json: Option<PathBuf>,
    /// An earlier run that `json` was written of, to be shown beside this one.
    pub compare: Option<PathBuf>,
    /// Whether it fails when a figure to reach is missed.
    pub is_check: bool,
}

impl Options {
    /// Reads them.
    pub fn read(arguments: &[String]) -> Result<Self, String> {
        let (mut binary, mut directory, mut json, mut compare) = (None, None, None, None);
        let (mut is_smoke, mut is_quick, mut is_full, mut is_check) = (false, false, false, false);
        let mut numbers: Vec<(&str, u64)> = Vec::new();
        let mut only = Vec::new();
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(name) = rest.next() {
            match name {
                "--smoke" => is_smoke = true,
                "--quick" => is_quick = true,
                "--full" => is_full = true,
                "--check" => is_check = true,
                _ => {
                    let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
                    match name {
                        "--binary" => binary = Some(PathBuf::from(value)),
                        "--directory" => directory = Some(PathBuf::from(value)),
                        "--json" => json = Some(PathBuf::from(value)),
                        "--compare" => compare = Some(PathBuf::from(value)),
                        "--only" => only = parts(value)?,
                        _ => numbers.push((name, positive(name, value)?)),
                    }
                }
            }
        }
        if u8::from(is_smoke) + u8::from(is_quick) + u8::from(is_full) > 1 {
            return Err("bench is one of --smoke, --quick and --full, or none".to_owned());
        }
        let mut size = match (is_smoke, is_quick, is_full) {
            (true, ..) => SMOKE,
            (_, true, _) => QUICK,
            (.., true) => FULL,
            _ => USUAL,
        };
        for (name, number) in numbers {
            match name {
                "--seconds" => size.time = Duration::from_secs(number),
                "--rounds" => {
                    size.rounds = usize::try_from(number).map_err(|_| "too many rounds")?;
                }
                "--pending" => (size.pending, size.held) = (number, number),
                "--dead" => size.dead = number,
                "--explain" => size.explain = number,
                "--deletes" => size.deletes = number,
                "--idle" => size.idle = Duration::from_secs(number),
                _ => return Err(format!("{name} is no option of bench")),
            }
        }
        Ok(Self {
            binary: binary.ok_or("bench needs --binary PATH, the server under test")?,
            directory: directory.ok_or("bench needs --directory PATH, where data may be kept")?,
            size,
            only,
            is_smoke,
            is_quick,
            json,
            compare,
            is_check,
        })
    }

    /// How long a server rests before its memory is read.
    pub const fn rest(&self) -> Duration {
        self.size.rest
    }

    /// How long it takes until the view is written down, at most.
    pub const fn after_checkpoint(&self) -> Duration {
        if self.is_smoke {
            self.size.rest
        } else {
            AFTER_CHECKPOINT
        }
    }

    /// Fails when the disk has less room than the largest case takes.
    pub fn check_room(&self) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", self.directory.display());
        let room =
            rustix::fs::statvfs(&self.directory).map_err(|error| failed(error.to_string()))?;
        let (free, needed) = (room.f_bavail * room.f_frsize, self.size.disk_bytes());
        if free < needed {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let (free, needed) = (gib(free), gib(needed));
            return Err(failed(format!(
                "{free:.1} GiB are free, and the benchmark takes {needed:.1} of them"
            )));
        }
        Ok(())
    }

    /// How it was measured, for whoever reads the figures later.
    pub fn about(&self) -> Value {
        let size = &self.size;
        json!({
            "secondsPerCase": size.time.as_secs_f64(),
            "rounds": size.rounds,
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "pending": size.pending,
            "dead": size.dead,
            "explain": size.explain,
            "deletes": size.deletes,
            "idleSeconds": size.idle.as_secs_f64(),
        })
    }

    /// How often a case that is measured in one round compares two things.
    pub const fn turns(&self) -> usize {
        self.size.rounds
    }

    const fn is_short(&self) -> bool {
        self.is_smoke || self.is_quick
    }

    /// After which time an attempt that is answered 500 is made again, at most.
    pub const fn due_after(&self) -> Duration {
        if self.is_short() {
            Duration::from_secs(4)
        } else {
            // 10 s, and a tenth of that by chance; and one second more.
            Duration::from_secs(12)
        }
    }

    /// Settings under which that is so.
    pub const fn due_settings(&self) -> &'static str {
        if self.is_short() {
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

/// Parts of names of cases, each of them in at least one: nobody wants to measure nothing.
fn parts(value: &str) -> Result<Vec<String>, String> {
    for part in value.split(',') {
        if part.is_empty() || !CASES.iter().any(|case| case.name.contains(part)) {
            let names = CASES.map(|case| case.name).join(", ");
            return Err(format!(
                "--only: no case has \"{part}\" in its name; the cases are {names}"
            ));
        }
    }
    Ok(value.split(',').map(str::to_owned).collect())
}

fn positive(name: &str, value: &str) -> Result<u64, String> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{name} needs a number from 1 on")),
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
    fn short_runs_have_little_and_full_ones_all() {
        let usual = read("").unwrap();
        assert_eq!(usual.size, USUAL);
        assert!(usual.wants("ingest-64") && !usual.is_check);
        let quick = read("--quick --only ingest,pending").unwrap();
        assert_eq!(quick.size, QUICK);
        assert!(quick.wants("ingest-64") && !quick.wants("raw-log"));
        let full = read("--full --check").unwrap();
        assert_eq!(
            (full.size.pending, full.size.explain),
            (5_000_000, 10_000_000)
        );
        assert!(full.is_check);
        let smoke = read("--smoke").unwrap();
        assert!(smoke.rest() < usual.rest() && smoke.due_after() < usual.due_after());
        assert_eq!((smoke.turns(), usual.turns()), (1, 3));
    }

    #[test]
    fn what_does_not_fit_on_the_disk_is_refused() {
        assert!(SMOKE.disk_bytes() < 3 << 30 && USUAL.disk_bytes() < 6 << 30);
        assert!((13 << 30..15 << 30).contains(&FULL.disk_bytes()));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        let mut options = read(&format!("--full --directory {path}")).unwrap();
        options.size.pending = 1 << 48;
        let failure = options.check_room().unwrap_err();
        assert!(failure.contains("GiB are free"), "{failure}");
        for option in ["--pending", "--dead"] {
            let most = read(&format!("{option} {} --directory {path}", u64::MAX)).unwrap();
            assert!(most.check_room().is_err(), "{option}");
        }
    }

    #[test]
    fn numbers_change_what_they_name() {
        let some = read("--seconds 1 --rounds 2 --pending 70 --quick --idle 60").unwrap();
        assert_eq!(some.size.time, Duration::from_secs(1));
        assert_eq!(
            (some.size.rounds, some.size.pending, some.size.held),
            (2, 70, 70)
        );
        assert_eq!(some.size.idle, Duration::from_secs(60));
        assert_eq!(some.size.dead, QUICK.dead);
        for line in [
            "--seconds 0",
            "--json",
            "--quick --full",
            "--many 3",
            "--rounds x",
            "--only nonsense",
            "--only raw-log,nonsense",
            "--only raw-log,",
            "--only ,",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
