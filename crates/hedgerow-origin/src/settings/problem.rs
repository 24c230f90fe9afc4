//! Why a group or a route is refused.

use std::fmt;

use serde::{Serialize, Serializer};

/// What is wrong, as machines read it: the codes of HP-005 in its order, then those that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// HP-016.
    IntervalOutOfRange,
    /// Section 1 of the specification.
    TimeoutOutOfRange,
    /// HP-021.
    TimeoutExceedsInterval,
    /// HP-010.
    MethodNotAllowed,
    /// HP-012.
    ProtocolNotAllowed,
    /// HP-014.
    PathNotAbsolute,
    /// HP-013.
    ProbePortNotConfigurable,
    /// HP-101.
    ProbesRequired,
    /// HP-113.
    ThresholdConflict,
    /// HP-064.
    SampleSizeOutOfRange,
    /// HP-064.
    SuccessfulSamplesOutOfRange,
    /// HP-124.
    LatencySensitivityOutOfRange,
    /// HP-122.
    PriorityOutOfRange,
    /// HP-127.
    WeightOutOfRange,
    /// HP-116.
    SettingGivenTwice,
    /// HP-001.
    OriginCountOutOfRange,
    /// HP-002, and names that cannot be used.
    NameNotAllowed,
    /// No host name and no address.
    HostNotAllowed,
    /// HP-019.
    HeaderNotAllowed,
    /// HP-040: not one to ten different statuses of 200 to 499.
    ExpectedStatusNotAllowed,
    /// HP-151: neither a host nor `*.` and a domain.
    RouteHostNotAllowed,
    /// HP-152: not absolute, or with `*` elsewhere than as a last `/*`.
    RoutePathNotAllowed,
    /// A route without protocols, hosts or paths, or with too many of them.
    PatternCountOutOfRange,
    /// HP-155: not one of the statuses that redirect.
    RedirectStatusNotAllowed,
    /// A route that names no group.
    OriginGroupRequired,
    /// Any other setting that has a range or a list of values.
    ValueOutOfRange,
    /// A text where a number belongs, and the like.
    WrongType,
    /// There is no such setting.
    UnknownSetting,
}

impl Code {
    /// The code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IntervalOutOfRange => "interval_out_of_range",
            Self::TimeoutOutOfRange => "timeout_out_of_range",
            Self::TimeoutExceedsInterval => "timeout_exceeds_interval",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::ProtocolNotAllowed => "protocol_not_allowed",
            Self::PathNotAbsolute => "path_not_absolute",
            Self::ProbePortNotConfigurable => "probe_port_not_configurable",
            Self::ProbesRequired => "probes_required",
            Self::ThresholdConflict => "threshold_conflict",
            Self::SampleSizeOutOfRange => "sample_size_out_of_range",
            Self::SuccessfulSamplesOutOfRange => "successful_samples_out_of_range",
            Self::LatencySensitivityOutOfRange => "latency_sensitivity_out_of_range",
            Self::PriorityOutOfRange => "priority_out_of_range",
            Self::WeightOutOfRange => "weight_out_of_range",
            Self::SettingGivenTwice => "setting_given_twice",
            Self::OriginCountOutOfRange => "origin_count_out_of_range",
            Self::NameNotAllowed => "name_not_allowed",
            Self::HostNotAllowed => "host_not_allowed",
            Self::HeaderNotAllowed => "header_not_allowed",
            Self::ExpectedStatusNotAllowed => "expected_status_not_allowed",
            Self::RouteHostNotAllowed => "route_host_not_allowed",
            Self::RoutePathNotAllowed => "route_path_not_allowed",
            Self::PatternCountOutOfRange => "pattern_count_out_of_range",
            Self::RedirectStatusNotAllowed => "redirect_status_not_allowed",
            Self::OriginGroupRequired => "origin_group_required",
            Self::ValueOutOfRange => "value_out_of_range",
            Self::WrongType => "wrong_type",
            Self::UnknownSetting => "unknown_setting",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What, for machines.
    pub code: Code,
    /// Where, as a path: `origins[1].weight`.
    pub field: String,
    /// What and what to do, for people; begins with "must" or "is", so that it reads on from the field.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} [{}]",
            self.field,
            self.message,
            self.code.as_str()
        )
    }
}

/// All that is wrong with a group or a route, in the order of the codes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Refusal {
    problems: Vec<Problem>,
}

impl Refusal {
    /// The problems, in order.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Their codes, each once, in the order of HP-005.
    #[must_use]
    pub fn codes(&self) -> Vec<Code> {
        let mut codes: Vec<Code> = self.problems.iter().map(|problem| problem.code).collect();
        codes.dedup();
        codes
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, code: Code, field: impl Into<String>, message: impl Into<String>) {
        let (field, message) = (field.into(), message.into());
        self.0.push(Problem {
            code,
            field,
            message,
        });
    }

    pub(crate) fn extend(&mut self, refusal: Refusal) {
        self.0.extend(refusal.problems);
    }

    /// `Ok` when nothing is wrong.
    pub(crate) fn into_result(mut self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by_key(|problem| problem.code);
        Err(Refusal { problems: self.0 })
    }
}
