//! Reads the tables in `cases/`. Values stay text until a runner reads them: they carry numbers no float holds.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One row of a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    kind: String,
    #[allow(dead_code)] // For people.
    refs: Vec<String>,
    pub title: String,
    input: Box<RawValue>,
    pub expect: BTreeMap<String, Value>,
}

impl Case {
    /// The input; a member that `T` does not know fails the run.
    pub fn input<'a, T: Deserialize<'a>>(&'a self) -> T {
        serde_json::from_str(self.input.get())
            .unwrap_or_else(|error| panic!("{}: input is not understood: {error}", self.id))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    format: String,
    #[allow(dead_code)] // For people.
    title: String,
    cases: Vec<Case>,
}

/// What a runner does with a case.
pub enum Run {
    /// The members of the result.
    Result(BTreeMap<String, Value>),
    /// It is not run, for this reason.
    Skipped(&'static str),
}

/// Runs every case of a kind and fails with all differences. Members of `expect` named in `not_compared` are left out.
pub fn run(kind: &str, not_compared: &[&str], judge: impl Fn(&Case) -> Run) {
    let mut failures = Vec::new();
    let mut skipped: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut ran, mut left_out) = (0, 0);
    for case in load(kind) {
        let result = match judge(&case) {
            Run::Result(result) => result,
            Run::Skipped(reason) => {
                skipped.entry(reason).or_default().push(case.id);
                continue;
            }
        };
        ran += 1;
        for (name, expected) in &case.expect {
            if not_compared.contains(&name.as_str()) {
                left_out += 1;
                continue;
            }
            let actual = result.get(name);
            if !actual.is_some_and(|actual| same(actual, expected)) {
                let actual = actual.map_or("nothing".to_owned(), Value::to_string);
                let (id, title) = (&case.id, &case.title);
                failures.push(format!(
                    "{id} ({title}): {name} is {actual}, not {expected}"
                ));
            }
        }
    }
    println!("{kind}: {ran} cases run, {left_out} members not compared ({not_compared:?})");
    for (reason, ids) in &skipped {
        println!("{kind}: {} skipped, {reason}: {}", ids.len(), ids.join(" "));
    }
    assert!(ran > 0, "no case of kind {kind} was run");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn load(kind: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../cases")
        .join(kind);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let table: Table = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(
            table.format,
            "hedgerow-delivery-cases/1",
            "{}",
            file.display()
        );
        cases.extend(table.cases);
    }
    for case in &cases {
        assert_eq!(
            case.kind, kind,
            "{} stands in the folder of another kind",
            case.id
        );
    }
    cases
}

/// Equal, where 1 and 1.0 are one number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Times in the tables are seconds with up to three decimals.
pub fn millis(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds)
        .map(|time| (time + std::time::Duration::from_micros(500)).as_millis() as u64)
        .expect("times are not negative")
}

/// Makes the members of a result from a JSON object.
pub fn members(value: Value) -> BTreeMap<String, Value> {
    let Value::Object(members) = value else {
        panic!("a result is an object")
    };
    members.into_iter().collect()
}
