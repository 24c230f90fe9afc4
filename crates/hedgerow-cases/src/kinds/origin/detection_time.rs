//! `detection_time`: how long a fault or a recovery stays unnoticed at worst (HP-065).

use serde::Deserialize;

use super::{described, thresholds};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    sample_size: Option<u32>,
    successful_samples_required: Option<u32>,
    #[serde(default = "thirty")]
    interval_s: u64,
    #[serde(default = "five")]
    timeout_s: u64,
}

const fn thirty() -> u64 {
    30
}

const fn five() -> u64 {
    5
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let thresholds = thresholds(input.sample_size, input.successful_samples_required)?;
    let (interval_s, timeout_s) = (input.interval_s, input.timeout_s);
    Ok(Run::result(described(thresholds, interval_s, timeout_s)))
}
