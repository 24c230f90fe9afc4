//! `config`: which groups are accepted (HP-005 and the ranges). The groups are partial: names and hosts of origins are filled
//! in, so that what is judged is what a case gives.

use hedgerow_origin::settings::{Code, Group, Refusal};
use serde_json::{Value, json};

use crate::table::{Case, Run};

pub fn judge(case: &Case) -> Result<Run, String> {
    let mut declared: Value = case.input()?;
    let origins = declared.get_mut("origins").and_then(Value::as_array_mut);
    for (origin, number) in origins.into_iter().flatten().zip(1..) {
        let origin = origin.as_object_mut().ok_or("an origin is an object")?;
        origin
            .entry("name")
            .or_insert_with(|| json!(format!("origin-{number}")));
        origin
            .entry("host")
            .or_insert_with(|| json!(format!("origin-{number}.example")));
    }
    let read = Group::read(&declared);
    let codes = read.as_ref().err().map(Refusal::codes);
    let errors: Vec<&str> = codes
        .iter()
        .flatten()
        .map(|code| Code::as_str(*code))
        .collect();
    Ok(Run::result(json!({
        "accepted": read.is_ok(),
        "errors": errors,
    })))
}
