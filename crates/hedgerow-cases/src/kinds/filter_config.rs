//! `filter_config`: which filters are accepted (ED-086, ED-087, ED-096 to ED-099, ED-116 to ED-118).

use hedgerow_core::spec::FilterSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use super::filter::ADVANCED;
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    filter: Value,
    #[serde(default)]
    #[allow(dead_code)] // Only with advanced filters.
    settings: Option<Value>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    if input.filter.get("advancedFilters").is_some() {
        return Ok(Run::LeftOut(ADVANCED));
    }
    let result = match FilterSpec::check(&input.filter, "") {
        Ok(_) => json!({ "accepted": true, "operators": [] }),
        Err(error) => json!({ "accepted": false, "status": 400, "field": error.field }),
    };
    Ok(Run::result(result))
}
