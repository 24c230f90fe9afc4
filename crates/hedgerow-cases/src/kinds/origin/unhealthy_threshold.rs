//! `unhealthy_threshold`: another way to write n and x (HP-113).

use hedgerow_origin::threshold::Thresholds;
use serde::Deserialize;

use super::described;
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "four")]
    sample_size: u32,
    unhealthy_threshold: u32,
    #[serde(default = "thirty")]
    interval_s: u64,
    #[serde(default = "five")]
    timeout_s: u64,
}

const fn four() -> u32 {
    4
}

const fn thirty() -> u64 {
    30
}

const fn five() -> u64 {
    5
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let (size, unhealthy) = (input.sample_size, input.unhealthy_threshold);
    let thresholds = Thresholds::from_unhealthy_threshold(size, unhealthy)
        .ok_or_else(|| format!("{unhealthy} is no threshold"))?;
    let (interval_s, timeout_s) = (input.interval_s, input.timeout_s);
    Ok(Run::result(described(thresholds, interval_s, timeout_s)))
}
