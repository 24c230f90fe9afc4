//! The `OpenMetrics` text format, version 1.0: families of samples, written out.

use std::fmt::Write as _;

use hedgerow_delivery::metrics::HistogramSnapshot;

/// What a response that carries the format says of itself.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How names are spelled (ED-302).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// `hedgerow_matched_event_count_total{topic="…"}`.
    Ours,
    /// `MatchedEventCount{Topic="…"}`: only what the vendor has a name for, without types that would change it.
    Vendors,
}

/// A label: its name in our spelling, and its value.
pub type Label = (&'static str, String);

/// Samples of one name.
#[derive(Debug)]
pub struct Family {
    /// In our spelling, without a suffix.
    pub name: &'static str,
    /// In the vendor's, if it has one.
    pub vendor: Option<&'static str>,
    pub kind: Kind,
    pub help: &'static str,
    pub samples: Vec<(Vec<Label>, Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// One sample for each state, 1 for the one that is.
    StateSet,
    Histogram,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Whole(u64),
    Part(f64),
    Histogram(HistogramSnapshot),
}

/// Writes families down.
pub fn write(families: &[Family], spelling: Spelling) -> String {
    let mut text = String::new();
    for family in families {
        match (spelling, family.vendor) {
            (Spelling::Ours, _) => write_ours(&mut text, family),
            (Spelling::Vendors, Some(name)) => write_vendors(&mut text, family, name),
            (Spelling::Vendors, None) => {}
        }
    }
    text.push_str("# EOF\n");
    text
}

fn write_ours(text: &mut String, family: &Family) {
    let name = family.name;
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::StateSet => "stateset",
        Kind::Histogram => "histogram",
    };
    head(text, name, kind, family.help);
    for (labels, value) in &family.samples {
        match value {
            Value::Histogram(histogram) => {
                for (bound, count) in &histogram.buckets {
                    let le = [("le", number(*bound))];
                    let labels = labels.iter().map(|(name, value)| (*name, value.clone()));
                    let labels: Vec<_> = labels.chain(le).collect();
                    sample(text, name, "_bucket", &labels, &count.to_string());
                }
                sample(text, name, "_count", labels, &histogram.count.to_string());
                sample(text, name, "_sum", labels, &number(histogram.sum));
            }
            Value::Whole(count) => {
                sample(text, name, suffix(family.kind), labels, &count.to_string());
            }
            Value::Part(value) => sample(text, name, suffix(family.kind), labels, &number(*value)),
        }
    }
}

const fn suffix(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "_total",
        Kind::Gauge | Kind::StateSet | Kind::Histogram => "",
    }
}

/// A counter's samples must end in `_total`; so in the vendor's spelling they are of unknown type, and averages are
/// summaries.
fn write_vendors(text: &mut String, family: &Family, name: &str) {
    let kind = match family.kind {
        Kind::Histogram => "summary",
        Kind::Counter | Kind::Gauge | Kind::StateSet => "unknown",
    };
    head(text, name, kind, family.help);
    for (labels, value) in &family.samples {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| (vendors_label(name), value.clone()))
            .collect();
        match value {
            Value::Histogram(histogram) => {
                sample(text, name, "_count", &labels, &histogram.count.to_string());
                sample(text, name, "_sum", &labels, &number(histogram.sum));
            }
            Value::Whole(count) => sample(text, name, "", &labels, &count.to_string()),
            Value::Part(value) => sample(text, name, "", &labels, &number(*value)),
        }
    }
}

fn vendors_label(name: &'static str) -> &'static str {
    match name {
        "topic" => "Topic",
        "event_subscription_name" => "EventSubscriptionName",
        "domain_event_subscription_name" => "DomainEventSubscriptionName",
        "error" => "Error",
        "error_type" => "ErrorType",
        "drop_reason" => "DropReason",
        "dead_letter_reason" => "DeadLetterReason",
        other => other,
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a text does not fail.
    let _ = writeln!(text, "# TYPE {name} {kind}");
    let _ = writeln!(text, "# HELP {name} {help}");
}

fn sample(text: &mut String, name: &str, suffix: &str, labels: &[Label], value: &str) {
    text.push_str(name);
    text.push_str(suffix);
    if !labels.is_empty() {
        text.push('{');
        for (at, (name, value)) in labels.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            let _ = write!(text, "{name}=\"{}\"", escaped(value));
        }
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for sign in value.chars() {
        match sign {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A number with a point, as bounds of buckets are written.
fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else {
        format!("{value:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let labels = || vec![("topic", "a\"b\\c\n".to_owned())];
        let histogram = HistogramSnapshot {
            buckets: vec![(5.0, 1), (f64::INFINITY, 3)],
            count: 3,
            sum: 1_007.5,
        };
        vec![
            Family {
                name: "hedgerow_matched_event_count",
                vendor: Some("MatchedEventCount"),
                kind: Kind::Counter,
                help: "Events.",
                samples: vec![(labels(), Value::Whole(7))],
            },
            Family {
                name: "hedgerow_destination_processing_duration_in_ms",
                vendor: Some("DestinationProcessingDurationInMs"),
                kind: Kind::Histogram,
                help: "Time.",
                samples: vec![(labels(), Value::Histogram(histogram))],
            },
            Family {
                name: "hedgerow_age_seconds",
                vendor: None,
                kind: Kind::Gauge,
                help: "Age.",
                samples: vec![(Vec::new(), Value::Part(0.25))],
            },
        ]
    }

    #[test]
    fn our_spelling_is_open_metrics() {
        let expect = r#"# TYPE hedgerow_matched_event_count counter
# HELP hedgerow_matched_event_count Events.
hedgerow_matched_event_count_total{topic="a\"b\\c\n"} 7
# TYPE hedgerow_destination_processing_duration_in_ms histogram
# HELP hedgerow_destination_processing_duration_in_ms Time.
hedgerow_destination_processing_duration_in_ms_bucket{topic="a\"b\\c\n",le="5.0"} 1
hedgerow_destination_processing_duration_in_ms_bucket{topic="a\"b\\c\n",le="+Inf"} 3
hedgerow_destination_processing_duration_in_ms_count{topic="a\"b\\c\n"} 3
hedgerow_destination_processing_duration_in_ms_sum{topic="a\"b\\c\n"} 1007.5
# TYPE hedgerow_age_seconds gauge
# HELP hedgerow_age_seconds Age.
hedgerow_age_seconds 0.25
# EOF
"#;
        assert_eq!(write(&families(), Spelling::Ours), expect);
    }

    /// ED-302: the alias has the vendor's names and labels.
    #[test]
    fn the_vendors_spelling_has_its_names_only() {
        let expect = r#"# TYPE MatchedEventCount unknown
# HELP MatchedEventCount Events.
MatchedEventCount{Topic="a\"b\\c\n"} 7
# TYPE DestinationProcessingDurationInMs summary
# HELP DestinationProcessingDurationInMs Time.
DestinationProcessingDurationInMs_count{Topic="a\"b\\c\n"} 3
DestinationProcessingDurationInMs_sum{Topic="a\"b\\c\n"} 1007.5
# EOF
"#;
        assert_eq!(write(&families(), Spelling::Vendors), expect);
    }
}
