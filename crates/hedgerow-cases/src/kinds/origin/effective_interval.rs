//! `effective_interval`: how often a group probes (HP-082, HP-083, HP-103).

use std::time::Duration;

use hedgerow_origin::interval::IdleSettings;
use serde::Deserialize;
use serde_json::json;

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "thirty")]
    interval_s: u64,
    #[serde(default)]
    idle_s: u64,
    #[serde(default = "two")]
    enabled_origins: usize,
    idle_after_s: Option<u32>,
    idle_max_level: Option<u32>,
    idle_cap_s: Option<u32>,
}

const fn thirty() -> u64 {
    30
}

const fn two() -> usize {
    2
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let default = IdleSettings::default();
    let idle = IdleSettings {
        after_s: input.idle_after_s.unwrap_or(default.after_s),
        max_level: input.idle_max_level.unwrap_or(default.max_level),
        cap_s: input.idle_cap_s.unwrap_or(default.cap_s),
    };
    let level = idle.level(Duration::from_secs(input.idle_s));
    let interval = Duration::from_secs(input.interval_s);
    let effective = idle.effective_interval(interval, level, input.enabled_origins == 1);
    Ok(Run::result(json!({
        "idle_level": level,
        "effective_interval_s": effective.as_secs_f64(),
    })))
}
