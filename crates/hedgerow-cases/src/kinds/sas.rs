//! `sas`: which shared access signatures are accepted (ED-016 to ED-025).

use std::time::Duration;

use hedgerow_dialect::sas::{Endpoint, SasError, SasRules, verify};
use serde::Deserialize;
use serde_json::json;

use crate::read_values::timestamp;
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    key1: String,
    key2: String,
    endpoint: String,
    token: String,
    now: String,
    #[serde(default)]
    skew_s: u64,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let endpoint = Endpoint::parse(&input.endpoint).ok_or("the endpoint is no URL")?;
    let rules = SasRules {
        keys: [&input.key1, &input.key2],
        endpoints: &[endpoint],
        now: timestamp(&input.now)?,
        clock_skew: Duration::from_secs(input.skew_s),
    };
    let status = match verify(input.token.as_bytes(), &rules) {
        Ok(()) => 200,
        Err(SasError::Malformed) => 400,
        Err(_) => 401,
    };
    Ok(Run::result(json!({ "status": status })))
}
