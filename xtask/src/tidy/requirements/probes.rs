//! The specification of origin groups, health probes and routing: its sections, and why some of its requirements have no test.

use crate::tidy::requirements::Specification;

const CLIENT: &str = "the publisher client is not built";
const EDGE: &str = "the edge is there, and no test names it yet";
const PROBER: &str = "the prober is there, and no test names it yet";
const GUIDE: &str = "a rule for the guide";
const MEASURED: &str = "not measured yet: the benchmark has no row for it";

/// HP-001 to HP-209.
pub const PROBES: Specification = Specification {
    prefix: "HP-",
    number_max: 209,
    sections: &[
        ("1 Group and origin settings", &[1..=7]),
        ("2 The probe request", &[10..=29]),
        ("3 Which origins are probed", &[30..=32]),
        ("4 What counts as success", &[40..=49]),
        ("5 Latency", &[50..=55]),
        ("6 Health window", &[60..=67]),
        ("7 Sharing probes between groups", &[70..=76]),
        ("8 Schedule and volume", &[80..=88]),
        ("9 When every origin is unhealthy", &[90..=95]),
        ("10 Probes off, and single origins", &[100..=106]),
        ("11 Slow-starting origins", &[110..=118]),
        ("12 Choosing an origin", &[120..=131]),
        ("13 Session affinity", &[140..=146]),
        ("14 Routes and redirects", &[150..=155]),
        ("15 Forwarded headers", &[160..=168]),
        ("16 Timeouts, retries, errors", &[170..=177]),
        ("17 Protocols and limits", &[180..=188]),
        ("18 Extensions", &[190..=198]),
        ("19 Subscriptions, publisher client, status", &[200..=209]),
    ],
    without: &[
        (4..=4, PROBER),
        (17..=17, PROBER),
        (22..=26, PROBER),
        (29..=29, PROBER),
        (87..=87, MEASURED),
        (
            112..=112,
            "says why there is only one state machine; how it is written is checked as HP-113",
        ),
        (118..=118, GUIDE),
        (144..=146, EDGE),
        (160..=168, EDGE),
        (170..=177, EDGE),
        (180..=188, EDGE),
        (202..=203, "subscriptions do not deliver to groups yet"),
        (204..=205, CLIENT),
    ],
};
