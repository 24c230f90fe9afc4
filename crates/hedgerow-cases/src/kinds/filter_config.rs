//! `filter_config`: which filters are accepted (ED-086, ED-087, ED-096 to ED-099, ED-116 to ED-118).

use hedgerow_core::spec::{FilterLimits, FilterSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::read_values::expand;
use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    filter: Value,
    #[serde(default)]
    settings: Settings,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(rename = "filter.maxAdvancedFilters")]
    max_advanced_filters: Option<usize>,
    #[serde(rename = "filter.maxValues")]
    max_values: Option<usize>,
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let defaults = FilterLimits::default();
    let max_advanced_filters = input.settings.max_advanced_filters;
    let limits = FilterLimits {
        max_advanced_filters: max_advanced_filters.unwrap_or(defaults.max_advanced_filters),
        max_values: input.settings.max_values.unwrap_or(defaults.max_values),
    };
    let checked = FilterSpec::check(&expand(input.filter)?, "");
    let judged = checked.and_then(|spec| limits.judge(&spec, "").map(|()| spec));
    let result = match judged {
        Ok(spec) => {
            let stored = serde_json::to_value(&spec).map_err(|error| error.to_string())?;
            let read: FilterSpec =
                serde_json::from_value(stored).map_err(|error| error.to_string())?;
            if read != spec {
                return Err("the filter is another one after it was stored".to_owned());
            }
            let operators = spec.advanced_filters.iter();
            let operators: Vec<_> = operators.map(|one| one.operator().as_str()).collect();
            json!({ "accepted": true, "operators": operators })
        }
        Err(error) => json!({ "accepted": false, "status": 400, "field": error.field }),
    };
    Ok(Run::result(result))
}
