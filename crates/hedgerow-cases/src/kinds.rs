//! How each kind of case is run, a file each; those of origin groups stand in `origin/`. A new kind is a module and a line in
//! [`KINDS`].

mod batch;
mod convert;
mod custom_mapping;
mod dead_letter_record;
mod delivery_attributes;
mod delivery_headers;
mod filter;
mod filter_config;
mod origin;
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
pub const KINDS: [(&str, Judge); 25] = [
    ("batch", batch::judge),
    ("config", origin::config::judge),
    ("convert", convert::judge),
    ("custom_mapping", custom_mapping::judge),
    ("dead_letter_record", dead_letter_record::judge),
    ("delivery_attributes", delivery_attributes::judge),
    ("delivery_headers", delivery_headers::judge),
    ("detection_time", origin::detection_time::judge),
    ("effective_interval", origin::effective_interval::judge),
    ("filter", filter::judge),
    ("filter_config", filter_config::judge),
    ("health_window", origin::health_window::judge),
    ("latency", origin::latency::judge),
    ("outcome", outcome::judge),
    ("probation", probation::judge),
    ("probe_outcome", origin::probe_outcome::judge),
    ("probe_sharing", origin::probe_sharing::judge),
    ("publish_validation", publish_validation::judge),
    ("retry_policy_config", retry_policy_config::judge),
    ("route_match", origin::route_match::judge),
    ("sas", sas::judge),
    ("selection", origin::selection::judge),
    ("timeline", timeline::judge),
    ("unhealthy_threshold", origin::unhealthy_threshold::judge),
    ("volume_estimate", origin::volume_estimate::judge),
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
