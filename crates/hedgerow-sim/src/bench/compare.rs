//! A run beside an earlier one, from the JSON that it left: what changed by more than either run's own spread.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::cases::Case;
use super::goals::GOALS;
use super::statistics::Spread;
use super::table::Table;

/// Figures of a case that are always shown, beside those to reach.
const SHOWN: [&str; 4] = ["rate", "p50_ms", "p99_ms", "server_cpu_us"];
/// What says how the machine was, and how much was done: no figure of the server.
const NOT_COMPARED: [&str; 9] = [
    "others_cores",
    "pending",
    "held",
    "waiting",
    "events",
    "deletes",
    "deliveries",
    "refused",
    "missed",
];
/// A change that is smaller than this says nothing, however small the spread.
const CHANGE_MIN: f64 = 0.05;
/// The same for what both runs measured once: nobody knows its spread.
const CHANGE_MIN_ONCE: f64 = 0.2;

/// An earlier run.
#[derive(Debug)]
pub struct Earlier(Value);

impl Earlier {
    /// Reads the file that `--json` wrote.
    pub fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read(path).map_err(|error| failed(&error))?;
        let value: Value = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
        match value["version"].as_u64() {
            Some(1) => Ok(Self(value)),
            _ => Err(failed(&"it is no file of bench --json")),
        }
    }

    fn spread(&self, case: &str, figure: &str) -> Option<Spread> {
        let cases = self.0["cases"].as_array()?;
        let case = cases.iter().find(|one| one["name"] == case)?;
        let figure = case["figures"].get(figure)?;
        let number = |name: &str| figure[name].as_f64();
        Some(Spread {
            median: number("median")?,
            min: number("min")?,
            max: number("max")?,
        })
    }

    /// The two runs, figure by figure. What did not leave the spread of both is shown only for the figures that matter.
    /// `about` is how the one of now was measured.
    pub fn beside(&self, cases: &[Case], table: &Table, about: &Value) -> String {
        let mut text = format!(
            "{:<22}{:<30}{:>14}{:>14}{:>9}  {}\n",
            "beside the earlier", "figure", "earlier", "now", "ratio", "verdict"
        );
        if let Some(why) = self.0["void"].as_str() {
            writeln!(text, "the earlier run is {why}").expect("writing to a String cannot fail");
        }
        let otherwise = self.otherwise(about);
        if !otherwise.is_empty() {
            writeln!(
                text,
                "the earlier run was measured otherwise, so that a change may be of that: {}",
                otherwise.join(", ")
            )
            .expect("writing to a String cannot fail");
        }
        let mut is_any_in_both = false;
        for case in cases {
            for (figure, _) in table.figures(case.name) {
                let (Some(earlier), Some(now)) = (
                    self.spread(case.name, figure),
                    table.spread(case.name, figure),
                ) else {
                    continue;
                };
                is_any_in_both = true;
                let is_goal = GOALS
                    .iter()
                    .any(|goal| (goal.case, goal.figure) == (case.name, figure));
                let change = change(figure, &earlier, &now);
                if NOT_COMPARED.contains(&figure)
                    || !(is_goal || SHOWN.contains(&figure) || change != Change::None)
                {
                    continue;
                }
                let ratio = if earlier.median == 0.0 {
                    "-".to_owned()
                } else {
                    format!("{:.2}", now.median / earlier.median)
                };
                let noise = table.noise(case.name).filter(|_| change != Change::None);
                let noise = noise.map_or_else(String::new, |noise| format!("; {noise}"));
                writeln!(
                    text,
                    "{:<22}{figure:<30}{:>14.3}{:>14.3}{ratio:>9}  {}{noise}",
                    case.name,
                    earlier.median,
                    now.median,
                    change.text()
                )
                .expect("writing to a String cannot fail");
            }
        }
        if !is_any_in_both {
            text.push_str("nothing was measured in both runs\n");
        }
        text
    }

    /// What the earlier run says of itself that is otherwise in the run of now.
    fn otherwise(&self, about: &Value) -> Vec<String> {
        let now = about.as_object().into_iter().flatten();
        now.filter_map(|(name, now)| {
            let earlier = self.0["run"].get(name)?;
            (earlier != now).then(|| format!("{name} {earlier}, now {now}"))
        })
        .collect()
    }
}

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Not more than the spreads.
    None,
    Better,
    Worse,
}

impl Change {
    const fn text(self) -> &'static str {
        match self {
            Self::None => "within the spread",
            Self::Better => "better",
            Self::Worse => "WORSE",
        }
    }
}

/// Both runs' values have to be apart, and their medians by a twentieth; by a fifth where there is one value of each.
fn change(figure: &str, earlier: &Spread, now: &Spread) -> Change {
    let is_more = now.min > earlier.max;
    let is_less = now.max < earlier.min;
    let by = (now.median - earlier.median).abs();
    let is_once = earlier.max <= earlier.min && now.max <= now.min;
    let least = if is_once { CHANGE_MIN_ONCE } else { CHANGE_MIN };
    if !(is_more || is_less) || by < least * earlier.median.abs() {
        Change::None
    } else if is_more == is_higher_better(figure) {
        Change::Better
    } else {
        Change::Worse
    }
}

/// Rates and parts of rates are better when they are higher; times, memory and bytes are not.
fn is_higher_better(figure: &str) -> bool {
    figure == "rate"
        || figure.starts_with("of_raw_")
        || figure.starts_with("rate_")
        || figure.ends_with("_per_s")
        || matches!(figure, "generator_of_wrk" | "found_of_1000")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cases::CASES;
    use super::*;

    fn spread(min: f64, median: f64, max: f64) -> Spread {
        Spread { median, min, max }
    }

    #[test]
    fn what_stays_within_the_spread_is_no_change() {
        let earlier = spread(90.0, 100.0, 110.0);
        for (figure, now, expected) in [
            ("rate", spread(105.0, 130.0, 140.0), Change::None),
            ("rate", spread(120.0, 130.0, 140.0), Change::Better),
            ("rate", spread(60.0, 70.0, 80.0), Change::Worse),
            ("of_raw_http", spread(60.0, 70.0, 80.0), Change::Worse),
            ("server_cpu_us", spread(60.0, 70.0, 80.0), Change::Better),
            ("p99_of_without", spread(120.0, 130.0, 140.0), Change::Worse),
        ] {
            assert_eq!(change(figure, &earlier, &now), expected, "{figure} {now:?}");
        }
        let once = |value| spread(value, value, value);
        assert_eq!(
            change("memory_mib", &once(100.0), &once(119.0)),
            Change::None
        );
        assert_eq!(
            change("memory_mib", &once(100.0), &once(121.0)),
            Change::Worse
        );
    }

    #[test]
    fn the_runs_are_shown_side_by_side() {
        let earlier = Earlier(json!({ "version": 1, "cases": [
            { "name": "ingest-256", "figures": {
                "rate": { "median": 100.0, "min": 90.0, "max": 110.0 },
                "commit_cpu_us": { "median": 5.0, "min": 4.0, "max": 6.0 },
                "others_cores": { "median": 0.0, "min": 0.0, "max": 0.0 },
            }},
            { "name": "gone", "figures": { "rate": { "median": 1.0, "min": 1.0, "max": 1.0 } } },
        ]}));
        let mut table = Table::default();
        for rate in [150.0, 160.0, 155.0] {
            table.add("ingest-256", "rate", rate);
            table.add("ingest-256", "commit_cpu_us", 5.5);
            table.add("ingest-256", "others_cores", 1.0);
            table.add("ingest-64", "rate", rate);
        }
        let text = earlier.beside(&CASES, &table, &json!({ "rounds": 3 }));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let cells: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "ingest-256",
                "rate",
                "100.000",
                "155.000",
                "1.55",
                "better;",
                "others",
                "used",
                "the",
                "machine"
            ]
        );
    }

    #[test]
    fn runs_that_cannot_be_compared_say_so() {
        let earlier = Earlier(
            json!({ "version": 1, "run": { "rounds": 3, "pending": 1_000_000 }, "cases": [
                { "name": "raw-log", "figures": {
                    "rate": { "median": 1.0, "min": 1.0, "max": 1.0 },
                }},
            ]}),
        );
        let mut table = Table::default();
        table.add("ingest-64", "rate", 1.0);
        let about = json!({ "rounds": 3, "pending": 40_000 });
        let text = earlier.beside(&CASES, &table, &about);
        assert!(text.contains("pending 1000000, now 40000"), "{text}");
        assert!(!text.contains("rounds"), "{text}");
        assert!(text.contains("nothing was measured in both runs"), "{text}");
        table.add("raw-log", "rate", 1.0);
        let text = earlier.beside(&CASES, &table, &earlier.0["run"]);
        assert!(!text.contains("otherwise"), "{text}");
        assert!(!text.contains("nothing was"), "{text}");
    }

    #[test]
    fn only_files_of_a_run_are_compared() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        assert!(Earlier::read(&path).is_err());
        fs::write(&path, r#"{ "version": 2 }"#).unwrap();
        assert!(
            Earlier::read(&path)
                .unwrap_err()
                .contains("no file of bench")
        );
        fs::write(&path, r#"{ "version": 1, "cases": [] }"#).unwrap();
        assert!(Earlier::read(&path).is_ok());
    }
}
