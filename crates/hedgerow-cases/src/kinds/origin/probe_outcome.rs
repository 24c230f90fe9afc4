//! `probe_outcome`: what a probe met, and whether that is a success (HP-020, HP-040 to HP-045).

use std::time::Duration;

use hedgerow_origin::outcome::{BodyEnd, Demands, Observation, Reason, Response};
use serde::Deserialize;
use serde_json::json;

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    result: String,
    status: Option<u16>,
    #[serde(default)]
    elapsed_ms: u64,
    timeout_s: Option<u64>,
    #[serde(default)]
    header_bytes: u32,
    #[serde(default = "yes")]
    complete: bool,
}

const fn yes() -> bool {
    true
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let elapsed = Duration::from_millis(input.elapsed_ms);
    let observation = if input.result == "response" {
        let response = Response {
            head_bytes: input.header_bytes,
            body: if input.complete {
                BodyEnd::Complete
            } else {
                BodyEnd::Cut
            },
            ..Response::complete(input.status.ok_or("a response has a status")?)
        };
        Observation::response(Duration::ZERO, elapsed, response)
    } else {
        let result = &input.result;
        let reason = Reason::named(result).ok_or_else(|| format!("unknown result {result}"))?;
        Observation::failure(Duration::ZERO, elapsed, reason)
    };
    let default = Demands::default();
    let demands = Demands {
        timeout: input.timeout_s.map_or(default.timeout, Duration::from_secs),
        ..default
    };
    let judged = observation.judge(&demands);
    Ok(Run::result(json!({
        "ok": judged.is_ok(),
        "reason": judged.map_or_else(Reason::as_str, |_| "ok"),
    })))
}
