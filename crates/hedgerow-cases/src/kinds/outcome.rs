//! `outcome`: one attempt, classified by the rule table (ED-174 to ED-186, ED-225).

use hedgerow_core::hold::ProbationDurations;
use hedgerow_core::outcome::{
    DeadLetterReason, Failure, Floors, Met, Outcome, Overrides, Verdict, classify, is_success,
    parse_retry_after,
};
use hedgerow_core::retry::{RetrySettings, is_late_success};
use hedgerow_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::read_values::{Kind, span, timestamp};
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    kind: Kind,
    status: Option<u16>,
    failure: Option<Failure>,
    retry_after: Option<String>,
    now: Option<String>,
    #[serde(default)]
    after_s: f64,
    #[serde(default)]
    already_final: bool,
    #[serde(default = "thirty")]
    response_timeout_s: f64,
    #[serde(default)]
    settings: Statuses,
    amqp: Option<Value>,
}

fn thirty() -> f64 {
    30.0
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Statuses {
    #[serde(rename = "retry.finalStatuses")]
    final_statuses: Vec<u16>,
    #[serde(rename = "retry.retriableStatuses")]
    retriable_statuses: Vec<u16>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    if input.amqp.is_some() {
        return Ok(Run::LeftOut("needs destinations that speak AMQP (ED-271)"));
    }
    let timeout = span(input.response_timeout_s);
    let elapsed = span(input.after_s);
    let in_time = elapsed <= timeout;
    let now = input
        .now
        .as_deref()
        .map_or(Ok(Timestamp::ZERO), timestamp)?;
    let met = match (input.status, input.failure) {
        (Some(status), None) if in_time => Met::Response {
            status,
            retry_after: input
                .retry_after
                .and_then(|text| parse_retry_after(&text, now)),
        },
        (Some(_), None) => Met::Failure(Failure::Timeout),
        (None, Some(failure)) => Met::Failure(failure),
        _ => return Err("one of status and failure".to_owned()),
    };
    let overrides = Overrides {
        final_statuses: input.settings.final_statuses,
        retriable_statuses: input.settings.retriable_statuses,
    };
    let window = RetrySettings::default().late_success_window;
    let late = input.status.is_some_and(is_success) && is_late_success(elapsed, timeout, window);
    let verdict = classify(input.kind.into(), &met, &overrides, &Floors::default());
    let (result, floor, reason) = match verdict {
        Verdict::Success => ("success", None, None),
        Verdict::Retry {
            floor, retry_after, ..
        } => (
            "retry",
            Some(floor.max(retry_after.unwrap_or_default())),
            None,
        ),
        Verdict::Final { reason, .. } => ("final", None, Some(reason)),
    };
    let probation = verdict
        .outcome()
        .and_then(|outcome| ProbationDurations::default().of(outcome))
        .unwrap_or_default();
    Ok(Run::result(json!({
        "result": result,
        "outcome": verdict.outcome().map(Outcome::as_str),
        "floor_s": floor.map(|floor| floor.as_secs_f64()),
        "reason": reason.map(DeadLetterReason::as_str),
        "counts": !matches!(met, Met::Failure(failure) if !failure.counts()),
        "late_success": late && !input.already_final,
        "probation_s": probation.as_secs_f64(),
    })))
}
