//! How each kind of case is run, a file each. A new kind is a module and a line in [`KINDS`].

mod batch;
mod convert;
mod custom_mapping;
mod dead_letter_record;
mod delivery_attributes;
mod delivery_headers;
mod filter;
mod filter_config;
mod outcome;
mod probation;
mod publish_validation;
mod retry_policy_config;
mod sas;
mod timeline;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::table::{Case, Run};

/// How a case is run.
type Judge = fn(&Case) -> Result<Run, String>;

/// The kinds by name.
pub const KINDS: [(&str, Judge); 14] = [
    ("batch", batch::judge),
    ("convert", convert::judge),
    ("custom_mapping", custom_mapping::judge),
    ("dead_letter_record", dead_letter_record::judge),
    ("delivery_attributes", delivery_attributes::judge),
    ("delivery_headers", delivery_headers::judge),
    ("filter", filter::judge),
    ("filter_config", filter_config::judge),
    ("outcome", outcome::judge),
    ("probation", probation::judge),
    ("publish_validation", publish_validation::judge),
    ("retry_policy_config", retry_policy_config::judge),
    ("sas", sas::judge),
    ("timeline", timeline::judge),
];

/// Members that are expected and not compared, because what they say is not built yet, by kind.
pub const NOT_COMPARED: [(&str, &str); 0] = [];

/// Runs a case.
///
/// # Errors
///
/// If its kind is unknown, its input is not understood, or the code panics.
pub fn judge(case: &Case) -> Result<Run, String> {
    let Some((_, judge)) = KINDS.iter().find(|(name, _)| *name == case.kind) else {
        return Err(format!("unknown kind {}", case.kind));
    };
    catch_unwind(AssertUnwindSafe(|| judge(case)))
        .unwrap_or_else(|_| Err("the code panicked".to_owned()))
}
