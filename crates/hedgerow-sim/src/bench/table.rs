//! The figures over all rounds, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::cases::Case;
use super::statistics::Spread;

/// So many cores used by others change every figure.
const OTHERS_CORES: f64 = 0.3;
/// Above this, the highest and the lowest rate of a case are too far apart to tell a small change.
pub const NOISE: f64 = 0.5;
/// The figures that have columns: name, title, decimals.
const COLUMNS: [(&str, &str, usize); 7] = [
    ("rate", "per s", 0),
    ("p50_ms", "p50 ms", 2),
    ("p99_ms", "p99 ms", 2),
    ("of_raw_http", "x raw http", 3),
    ("of_raw_log", "x raw log", 3),
    ("server_cpu_us", "cpu us", 1),
    ("others_cores", "others", 1),
];
/// Figures that are worth a line only when they are not zero.
const TROUBLE: [&str; 2] = ["refused", "missed"];

/// The values of each figure of each case, by round.
#[derive(Debug, Default)]
pub struct Table {
    values: BTreeMap<(&'static str, &'static str), Vec<f64>>,
}

impl Table {
    /// Adds a figure of a round.
    pub fn add(&mut self, case: &'static str, figure: &'static str, value: f64) {
        self.values.entry((case, figure)).or_default().push(value);
    }

    /// A figure over the rounds; `None` if it was not measured.
    pub fn spread(&self, case: &'static str, figure: &'static str) -> Option<Spread> {
        Spread::of(self.values.get(&(case, figure))?)
    }

    /// Why a row tells little or nothing, if that is so.
    pub fn noise(&self, case: &'static str) -> Option<&'static str> {
        let others = self.spread(case, "others_cores");
        let rate = self.spread(case, "rate");
        if rate.is_some_and(|rate| rate.width() > NOISE) {
            Some("too noisy to tell")
        } else if others.is_some_and(|others| others.median > OTHERS_CORES) {
            Some("others used the machine")
        } else {
            None
        }
    }

    /// How many rows that is so of, and of how many.
    pub fn noisy_rows(&self, cases: &[Case]) -> (usize, usize) {
        let measured = |case: &&Case| self.figures(case.name).next().is_some();
        let rows: Vec<&Case> = cases.iter().filter(measured).collect();
        let noisy = rows.iter().filter(|case| self.noise(case.name).is_some());
        (noisy.count(), rows.len())
    }

    /// What was measured of a case.
    pub fn figures(&self, case: &'static str) -> impl Iterator<Item = (&'static str, &Vec<f64>)> {
        self.values
            .iter()
            .filter(move |((name, _), _)| *name == case)
            .map(|((_, figure), values)| (*figure, values))
    }

    /// As text: medians, and how far the rates of the rounds are apart.
    pub fn to_text(&self, cases: &[Case]) -> String {
        let mut text = format!("{:<20}", "");
        for (_, title, _) in COLUMNS {
            write!(text, "{title:>12}").expect("writing to a String cannot fail");
        }
        text.push_str("    spread\n");
        let mut notes = String::new();
        for case in cases {
            if self.figures(case.name).next().is_none() {
                continue;
            }
            self.row(case, &mut text, &mut notes);
        }
        text.push_str(&notes);
        for case in cases {
            if self.figures(case.name).next().is_some() {
                writeln!(text, "{:<20} {}", case.name, case.about)
                    .expect("writing to a String cannot fail");
            }
        }
        text
    }

    fn row(&self, case: &Case, text: &mut String, notes: &mut String) {
        write!(text, "{:<20}", case.name).expect("writing to a String cannot fail");
        for (figure, _, decimals) in COLUMNS {
            let shown = self
                .spread(case.name, figure)
                .map_or_else(String::new, |spread| {
                    format!("{:.decimals$}", spread.median)
                });
            write!(text, "{shown:>12}").expect("writing to a String cannot fail");
        }
        let width = self
            .spread(case.name, "rate")
            .map_or(0.0, |rate| rate.width());
        let noise = self.noise(case.name).unwrap_or_default();
        let line = format!("{:>9.0}%  {noise}", width * 100.0);
        writeln!(text, "{}", line.trim_end()).expect("writing to a String cannot fail");
        for (figure, values) in self.figures(case.name) {
            let has_column = COLUMNS.iter().any(|(name, ..)| *name == figure);
            let is_calm = TROUBLE.contains(&figure) && values.iter().all(|value| *value == 0.0);
            if let (false, false, Some(spread)) = (has_column, is_calm, Spread::of(values)) {
                writeln!(notes, "{:<20} {figure} = {:.3}", case.name, spread.median)
                    .expect("writing to a String cannot fail");
            }
        }
    }

    /// As JSON, with the values of every round. `about_run` says how it was measured, `void` why nothing of it counts.
    pub fn to_json(&self, cases: &[Case], about_run: &Value, void: Option<&str>) -> Value {
        let cases: Vec<Value> = cases
            .iter()
            .filter(|case| self.figures(case.name).next().is_some())
            .map(|case| {
                let figures: serde_json::Map<String, Value> = self
                    .figures(case.name)
                    .filter_map(|(figure, values)| {
                        let Spread { median, min, max } = Spread::of(values)?;
                        let shown = json!({
                            "median": median, "min": min, "max": max, "values": values,
                        });
                        Some((figure.to_owned(), shown))
                    })
                    .collect();
                json!({ "name": case.name, "about": case.about, "figures": figures })
            })
            .collect();
        json!({ "version": 1, "run": about_run, "void": void, "cases": cases })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        for (rate, ratio) in [(100.0, 0.25), (400.0, 0.5), (200.0, 0.75)] {
            table.add("ingest-64", "rate", rate);
            table.add("ingest-64", "of_raw_http", ratio);
            table.add("ingest-64", "refused", 0.0);
        }
        table.add("pending", "memory_mib", 12.5);
        table
    }

    #[test]
    fn the_table_shows_medians_and_noise() {
        let text = table().to_text(&CASES);
        let row = text.lines().find(|line| line.starts_with("ingest-64"));
        let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert_eq!(cells[..3], ["ingest-64", "200", "0.500"]);
        assert!(row.unwrap().ends_with("150%  too noisy to tell"), "{text}");
        assert!(text.contains("memory_mib = 12.500"), "{text}");
        assert!(
            !text.contains("refused") && !text.contains("raw-log"),
            "{text}"
        );
    }

    /// A wide spread says more than who made it.
    #[test]
    fn noise_is_said_of_a_row() {
        let mut table = table();
        assert_eq!(table.noise("ingest-64"), Some("too noisy to tell"));
        assert_eq!(table.noise("pending"), None);
        table.add("pending", "others_cores", 0.4);
        assert_eq!(table.noise("pending"), Some("others used the machine"));
        assert_eq!(table.noisy_rows(&CASES), (2, 2));
    }

    #[test]
    fn the_json_keeps_every_round() {
        let json = table().to_json(&CASES, &json!({ "rounds": 3 }), None);
        let cases = json["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 2);
        let rate = &cases[0]["figures"]["rate"];
        assert_eq!(rate["values"], json!([100.0, 400.0, 200.0]));
        assert_eq!(
            (&rate["median"], &rate["max"]),
            (&json!(200.0), &json!(400.0))
        );
    }
}
