//! What came out of a run: a line for each case that failed, and how many of each kind were run.

use std::collections::BTreeMap;
use std::fmt;

use crate::kinds::NOT_COMPARED;
use crate::table::{Case, Run};

/// The results so far.
#[derive(Default)]
pub struct Report {
    /// How many cases of each kind were run.
    pub ran: BTreeMap<String, usize>,
    /// A line for each that failed.
    pub failed: Vec<String>,
    /// Cases of rules that are not built yet, by kind and reason.
    pub left_out: BTreeMap<(String, &'static str), Vec<String>>,
}

impl Report {
    /// Takes note of what became of a case.
    pub fn add(&mut self, case: &Case, run: Result<Run, String>) {
        let differences = match run {
            Ok(Run::LeftOut(reason)) => {
                let key = (case.kind.clone(), reason);
                self.left_out.entry(key).or_default().push(case.id.clone());
                return;
            }
            Ok(Run::Result(result)) => case.differences(&result),
            Err(error) => vec![error],
        };
        *self.ran.entry(case.kind.clone()).or_default() += 1;
        if !differences.is_empty() {
            let (kind, id, title) = (&case.kind, &case.id, &case.title);
            let differences = differences.join("; ");
            self.failed
                .push(format!("{kind} {id} ({title}): {differences}"));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.failed {
            writeln!(f, "FAILED {line}")?;
        }
        for (kind, count) in &self.ran {
            writeln!(f, "{kind}: {count} cases run")?;
        }
        for ((kind, reason), ids) in &self.left_out {
            let (count, first) = (ids.len(), &ids[0]);
            writeln!(
                f,
                "{kind}: {count} left out, {first} the first of them: {reason}"
            )?;
        }
        for (kind, member) in NOT_COMPARED {
            if self.ran.contains_key(kind) {
                writeln!(f, "{kind}: {member} is not compared")?;
            }
        }
        let (ran, failed) = (self.ran.values().sum::<usize>(), self.failed.len());
        let left_out: usize = self.left_out.values().map(Vec::len).sum();
        write!(f, "{ran} cases run, {failed} failed, {left_out} left out")
    }
}
