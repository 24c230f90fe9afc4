//! The figures to reach, all of them: ratios to what was measured in the same run, or bounds of time and memory. What is
//! missed is named, with how far.
//!
//! | verdict | says |
//! | --- | --- |
//! | reached | the median keeps the bound |
//! | missed | it does not |
//! | under half | it is off by more than a factor of two |
//! | not measured | its case did not run, or gave no such figure |

use std::fmt::Write as _;

use super::options::Options;
use super::statistics::Spread;
use super::table::{NOISE, Table};

/// A generator that reaches less of `wrk`'s rate measures itself: nothing in its table counts.
pub const GENERATOR_OF_WRK_MIN: f64 = 0.8;
/// The case and the figure that say so; there is none where `wrk` is not installed.
pub const GENERATOR: (&str, &str) = ("wrk", "generator_of_wrk");

/// What a figure is held to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// It should be as high as this.
    AtLeast(f64),
    /// It should not be higher than this.
    AtMost(f64),
}

/// A figure to reach.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// What it is called.
    pub what: &'static str,
    /// The row that gives it.
    pub case: &'static str,
    /// Its name there.
    pub figure: &'static str,
    /// What it is held to.
    pub bound: Bound,
    /// Figures of the same row that say among how many and how long it was measured, and what it is meant for.
    pub among: &'static [(&'static str, f64)],
}

const fn goal(what: &'static str, case: &'static str, figure: &'static str, bound: Bound) -> Goal {
    Goal {
        what,
        case,
        figure,
        bound,
        among: &[],
    }
}

const fn among(goal: Goal, among: &'static [(&'static str, f64)]) -> Goal {
    Goal { among, ..goal }
}

use Bound::{AtLeast, AtMost};

/// All of them.
pub const GOALS: [Goal; 22] = [
    goal(
        "edge, HTTP/1.1, 64 connections, 1 KiB: requests a second of processor time, of HAProxy's",
        "edge-http",
        "of_haproxy",
        AtLeast(0.8),
    ),
    goal(
        "single events in, acknowledged after fsync, 256 publishers: of bare hyper ingest",
        "ingest-256",
        "of_raw_http",
        AtLeast(0.35),
    ),
    goal(
        "delivery keeps up: backlog of a burst of 256 publishers that is left once publishing is slowed",
        "backlog",
        "left_of_backlog",
        AtMost(1.0),
    ),
    goal(
        "arrays of 100 in, acknowledged after fsync: of the disk's rate of 64 KiB writes with fdatasync",
        "ingest-arrays",
        "of_raw_log",
        AtLeast(0.7),
    ),
    goal(
        "single in, single out: of raw HTTP posts at 64 connections",
        "end-to-end-1",
        "of_raw_http",
        AtLeast(0.22),
    ),
    goal(
        "arrays in, single out: of raw HTTP posts",
        "end-to-end-arrays",
        "of_raw_http",
        AtLeast(0.40),
    ),
    goal(
        "batches of 100 out: bytes a second, of raw HTTP posts of the same bodies",
        "batches-100",
        "of_raw_http_bytes",
        AtLeast(0.7),
    ),
    goal(
        "server CPU per event, single in and out: microseconds",
        "end-to-end-1",
        "server_cpu_us",
        AtMost(90.0),
    ),
    goal(
        "latency publish to receiver at 1,000/s: p50 of fdatasync p50 + 2 HTTP round trips",
        "latency-1000",
        "p50_of_sync_and_2_http",
        AtMost(2.0),
    ),
    among(
        goal(
            "next-due after 5 million deletes: microseconds",
            "next-due",
            "next_due_us",
            AtMost(50.0),
        ),
        &[("deletes", 5e6)],
    ),
    among(
        goal(
            "memory with 5 million pending retries: MiB",
            "pending",
            "memory_mib",
            AtMost(512.0),
        ),
        &[("pending", 5e6)],
    ),
    among(
        goal(
            "accepting again after kill -9 with 1 million pending: seconds",
            "pending",
            "healthy_after_s",
            AtMost(3.0),
        ),
        &[("pending", 1e6)],
    ),
    goal(
        "healthy endpoints' p99 beside 1 % dead and 10 % slow ones: of the run without them",
        "crowd",
        "p99_of_without",
        AtMost(1.5),
    ),
    goal(
        "healthy endpoints' p99 while a tenth of 1,000 hangs: of the run without them",
        "hanging",
        "p99_of_without",
        AtMost(1.2),
    ),
    goal(
        "written per ingested byte, log and view",
        "written",
        "bytes_per_byte",
        AtMost(1.4),
    ),
    among(
        goal(
            "ingest beside a dead match-all subscription with 5 million pending: of the run without it",
            "dead",
            "rate_of_without",
            AtLeast(0.9),
        ),
        &[("waiting", 5e6)],
    ),
    among(
        goal(
            "healthy p99 beside a dead match-all subscription with 5 million pending: of the run without it",
            "dead",
            "p99_of_without",
            AtMost(1.1),
        ),
        &[("waiting", 5e6)],
    ),
    goal(
        "bytes read per byte delivered, 50 laggards",
        "laggards",
        "read_per_delivered_byte",
        AtMost(3.0),
    ),
    among(
        goal(
            "explain among 10 million: milliseconds, p99",
            "explain",
            "p99_ms",
            AtMost(50.0),
        ),
        &[("events", 1e7)],
    ),
    goal(
        "hot path cost of history: server CPU per event, of that without it",
        "attempt-log",
        "cpu_of_without",
        AtMost(1.05),
    ),
    among(
        goal(
            "idle with 10,000 subscriptions and a million pending: percent of a core",
            "pending",
            "idle_percent_of_core",
            AtMost(0.1),
        ),
        &[
            ("pending", 1e6),
            ("idle_subscriptions", 1e4),
            ("idle_seconds", 60.0),
        ],
    ),
    goal(
        "an empty server, resident: MB",
        "empty",
        "memory_mb",
        AtMost(50.0),
    ),
];

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The median keeps the bound.
    Reached,
    /// It does not.
    Missed,
    /// It is off by more than a factor of two.
    UnderHalf,
}

impl Bound {
    /// Judges a median.
    pub fn judge(self, median: f64) -> Verdict {
        let (is_reached, is_near) = match self {
            AtLeast(bound) => (median >= bound, median >= bound / 2.0),
            AtMost(bound) => (median <= bound, median <= bound * 2.0),
        };
        match (is_reached, is_near) {
            (true, _) => Verdict::Reached,
            (false, true) => Verdict::Missed,
            (false, false) => Verdict::UnderHalf,
        }
    }

    /// Whether some of the values keep it and others do not.
    fn is_within(self, spread: &Spread) -> bool {
        self.judge(spread.min) != self.judge(spread.max)
    }

    /// As it is read.
    pub fn text(self) -> String {
        match self {
            AtLeast(bound) => format!(">= {bound}"),
            AtMost(bound) => format!("<= {bound}"),
        }
    }
}

impl Verdict {
    /// As it is read.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "MISSED",
            Self::UnderHalf => "MISSED, under half",
        }
    }
}

/// The figure, and what became of it; `None` if it was not measured.
pub fn judge(goal: &Goal, table: &Table) -> Option<(Spread, Verdict)> {
    let spread = table.spread(goal.case, goal.figure)?;
    Some((spread, goal.bound.judge(spread.median)))
}

/// Why nothing in the table counts, if that is so.
pub fn why_void(table: &Table) -> Option<String> {
    let of_wrk = table.spread(GENERATOR.0, GENERATOR.1)?.median;
    (of_wrk < GENERATOR_OF_WRK_MIN).then(|| {
        format!(
            "VOID: the generator reached {of_wrk:.2} of wrk's rate against the bare receiver, less than \
             {GENERATOR_OF_WRK_MIN}: it measures itself"
        )
    })
}

/// The figures beside their bounds, and how many are reached: those of the rows that were asked for.
pub fn to_text(table: &Table, options: &Options) -> String {
    let mut text = format!(
        "{:<20}{:<26}{:>9}{:>14}{:>28}  {}\n",
        "figures to reach", "figure", "bound", "median", "lowest .. highest", "verdict"
    );
    let mut notes = String::new();
    let (mut reached, mut measured, mut under_half) = (0, 0, 0);
    let goals = || GOALS.iter().filter(|goal| options.wants(goal.case));
    for goal in goals() {
        let head = format!(
            "{:<20}{:<26}{:>9}",
            goal.case,
            goal.figure,
            goal.bound.text()
        );
        let line = match judge(goal, table) {
            None => format!("{head}{:>14}{:>28}  not measured", "-", "-"),
            Some((spread, verdict)) => {
                measured += 1;
                reached += usize::from(verdict == Verdict::Reached);
                under_half += usize::from(verdict == Verdict::UnderHalf);
                let range = format!("{:.3} .. {:.3}", spread.min, spread.max);
                let remark = remark(goal, &spread, table);
                format!(
                    "{head}{:>14.3}{range:>28}  {}{remark}",
                    spread.median,
                    verdict.text()
                )
            }
        };
        writeln!(text, "{line}").expect("writing to a String cannot fail");
        writeln!(
            notes,
            "  {:<46}{}",
            format!("{} {}", goal.case, goal.figure),
            goal.what
        )
        .expect("writing to a String cannot fail");
    }
    let all = goals().count();
    if all == 0 {
        return "no figure to reach comes from these rows\n".to_owned();
    }
    writeln!(
        text,
        "{reached} of {measured} reached, {under_half} under half; {} of {all} not measured",
        all - measured
    )
    .expect("writing to a String cannot fail");
    text + &notes
}

/// What else has to be known of a figure: that it was measured among fewer, and that it was too noisy.
fn remark(goal: &Goal, spread: &Spread, table: &Table) -> String {
    let mut remark = String::new();
    for (figure, full) in goal.among {
        if let Some(counted) = table.spread(goal.case, figure)
            && counted.median < *full
        {
            write!(remark, "; {figure}: {:.0}, not {full:.0}", counted.median)
                .expect("writing to a String cannot fail");
        }
    }
    if goal.bound.is_within(spread) {
        remark.push_str("; the bound lies within the spread");
    }
    if let Some(noise) = table.noise(goal.case) {
        write!(remark, "; {noise}").expect("writing to a String cannot fail");
    } else if spread.width() > NOISE {
        remark.push_str("; too noisy to tell");
    }
    remark
}

/// Fails when the table is void, when a figure that was measured is missed, or when none was.
pub fn check(table: &Table) -> Result<(), String> {
    if let Some(why) = why_void(table) {
        return Err(why);
    }
    let judged: Vec<_> = GOALS
        .iter()
        .filter_map(|goal| Some((goal, judge(goal, table)?)))
        .collect();
    if judged.is_empty() {
        return Err("no figure to reach was measured".to_owned());
    }
    let missed: Vec<String> = judged
        .iter()
        .filter(|(_, (_, verdict))| *verdict != Verdict::Reached)
        .map(|(goal, (spread, verdict))| {
            format!(
                "  {} {} = {:.3}, {}: {} ({})",
                goal.case,
                goal.figure,
                spread.median,
                goal.bound.text(),
                verdict.text(),
                goal.what
            )
        })
        .collect();
    if missed.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{} of {} figures are missed\n{}",
            missed.len(),
            judged.len(),
            missed.join("\n")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::*;

    fn table(values: &[(&'static str, &'static str, &[f64])]) -> Table {
        let mut table = Table::default();
        for (case, figure, values) in values {
            for value in *values {
                table.add(case, figure, *value);
            }
        }
        table
    }

    #[test]
    fn every_figure_has_a_row_and_a_name() {
        for goal in &GOALS {
            assert!(CASES.iter().any(|case| case.name == goal.case), "{goal:?}");
            let same = GOALS
                .iter()
                .filter(|other| (other.case, other.figure) == (goal.case, goal.figure));
            assert_eq!(same.count(), 1, "{goal:?}");
        }
        assert!(CASES.iter().any(|case| case.name == GENERATOR.0));
    }

    #[test]
    fn a_median_is_held_to_its_bound() {
        for (bound, median, verdict) in [
            (AtLeast(0.35), 0.35, Verdict::Reached),
            (AtLeast(0.35), 0.34, Verdict::Missed),
            (AtLeast(0.35), 0.17, Verdict::UnderHalf),
            (AtMost(3.0), 3.0, Verdict::Reached),
            (AtMost(3.0), 6.0, Verdict::Missed),
            (AtMost(3.0), 6.1, Verdict::UnderHalf),
        ] {
            assert_eq!(bound.judge(median), verdict, "{bound:?} {median}");
        }
    }

    /// `--check` names the row that is under its figure, and no other.
    #[test]
    fn what_is_missed_is_named() {
        let good = table(&[
            ("ingest-256", "of_raw_http", &[0.3, 0.36, 0.4]),
            ("end-to-end-1", "server_cpu_us", &[89.0]),
        ]);
        assert_eq!(check(&good), Ok(()));
        let bad = table(&[
            ("ingest-256", "of_raw_http", &[0.3, 0.36, 0.4]),
            ("end-to-end-1", "server_cpu_us", &[91.0, 240.0, 90.5]),
            ("written", "bytes_per_byte", &[3.5]),
        ]);
        let failure = check(&bad).unwrap_err();
        assert!(
            failure.starts_with("2 of 3 figures are missed"),
            "{failure}"
        );
        assert!(failure.contains("end-to-end-1 server_cpu_us = 91.000, <= 90: MISSED ("));
        assert!(failure.contains("written bytes_per_byte = 3.500, <= 1.4: MISSED, under half"));
        assert!(!failure.contains("ingest-256"), "{failure}");
        assert!(check(&Table::default()).is_err());
    }

    /// A generator that is slower than 0.8 of `wrk` voids everything; where there is no `wrk`, nothing is said.
    #[test]
    fn a_slow_generator_voids_the_table() {
        let good = [("ingest-256", "of_raw_http", [0.5].as_slice())];
        assert_eq!(why_void(&table(&good)), None);
        let mut values = good.to_vec();
        values.push((GENERATOR.0, GENERATOR.1, &[0.82, 0.8, 0.5]));
        assert_eq!(check(&table(&values)), Ok(()));
        values[1].2 = &[0.82, 0.79, 0.5];
        let failure = check(&table(&values)).unwrap_err();
        assert!(
            failure.starts_with("VOID: the generator reached 0.79"),
            "{failure}"
        );
    }

    #[test]
    fn the_text_shows_the_spread_and_what_it_was_measured_among() {
        let table = table(&[
            ("ingest-256", "of_raw_http", &[0.3, 0.36, 0.4]),
            ("pending", "healthy_after_s", &[1.25]),
            ("pending", "pending", &[200_000.0]),
        ]);
        let options = |line: &str| {
            let line = format!("--binary b --directory d {line}");
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Options::read(&arguments).unwrap()
        };
        let text = to_text(&table, &options(""));
        let line = |start: &str| {
            let found = text.lines().find(|line| line.starts_with(start));
            found.unwrap_or_default().to_owned()
        };
        let ingest = line("ingest-256");
        assert!(
            ingest.contains(">= 0.35") && ingest.contains("0.300 .. 0.400"),
            "{text}"
        );
        assert!(
            ingest.ends_with("reached; the bound lies within the spread"),
            "{text}"
        );
        let pending = text.lines().find(|line| line.contains("healthy_after_s"));
        let pending = pending.unwrap();
        assert!(
            pending.ends_with("reached; pending: 200000, not 1000000"),
            "{text}"
        );
        assert!(
            text.contains("2 of 2 reached, 0 under half; 20 of 22 not measured"),
            "{text}"
        );
        // Of the rows that were asked for alone.
        let text = to_text(&table, &options("--only ingest"));
        assert!(
            text.contains("1 of 1 reached, 0 under half; 1 of 2 not measured"),
            "{text}"
        );
        assert!(!text.contains("pending"), "{text}");
        let text = to_text(&table, &options("--only raw-log"));
        assert_eq!(text, "no figure to reach comes from these rows\n");
    }
}
