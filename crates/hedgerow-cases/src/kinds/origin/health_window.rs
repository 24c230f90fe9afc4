//! `health_window`: the state of an origin after each sample (HP-060 to HP-062).

use std::time::Duration;

use hedgerow_origin::health::{Change, Health, Terms};
use hedgerow_origin::window::{Rules, Window};
use serde::Deserialize;
use serde_json::json;

use super::{failure, success, thresholds};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    sample_size: Option<u32>,
    successful_samples_required: Option<u32>,
    samples: String,
    #[serde(default)]
    include_start: bool,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let thresholds = thresholds(input.sample_size, input.successful_samples_required)?;
    let terms = Terms {
        rules: Rules {
            thresholds,
            ..Rules::default()
        },
        ..Terms::default()
    };
    let mut window = Window::new(thresholds);
    let mut health = Health::new(Duration::ZERO);
    let (mut states, mut provisional) = (Vec::new(), Vec::new());
    if input.include_start {
        states.push(health.state().as_str());
        provisional.push(health.judgement().is_provisional);
    }
    let mut transitions = 0;
    for sample in input.samples.chars() {
        window.push(match sample {
            'S' => success(1_000),
            'F' => failure(),
            other => return Err(format!("unknown sample {other}")),
        });
        let change = health.judge(&window, &terms, Duration::ZERO);
        transitions += u32::from(change.as_ref().is_some_and(Change::is_transition));
        states.push(health.state().as_str());
        provisional.push(health.judgement().is_provisional);
    }
    Ok(Run::result(json!({
        "states": states,
        "provisional": provisional,
        "transitions": transitions,
    })))
}
