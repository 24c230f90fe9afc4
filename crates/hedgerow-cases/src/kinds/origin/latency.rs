//! `latency`: the lower median of the successful samples (HP-055).

use hedgerow_origin::window::{Rules, Window};
use serde::Deserialize;
use serde_json::json;

use super::{failure, success, thresholds};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    sample_size: Option<u32>,
    samples_us: Vec<Option<u64>>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    // How many must be good does not matter for the latency; one is possible with every n.
    let thresholds = thresholds(input.sample_size, Some(1))?;
    let mut window = Window::new(thresholds);
    for sample in input.samples_us {
        window.push(sample.map_or_else(failure, success));
    }
    let rules = Rules {
        thresholds,
        ..Rules::default()
    };
    let latency_us = window.judge(&rules).latency_us;
    Ok(Run::result(json!({ "latency_us": latency_us })))
}
