//! What is told of the edge listener.

use super::text::{Family, Kind, Value};
use crate::edge::Told;

/// The families of the edge; none without one.
pub fn families(told: &Told) -> Vec<Family> {
    let Some((running, idle)) = told.now() else {
        return Vec::new();
    };
    let counts = told.counts();
    let requests = counts.requests.into_iter().map(|(alike, count)| {
        let labels = vec![
            ("route", alike.route),
            ("code", alike.status.to_string()),
            ("reason", alike.reason.to_owned()),
        ];
        (labels, Value::Whole(count))
    });
    let retries = counts
        .retries
        .into_iter()
        .map(|(group, count)| (vec![("origin_group", group)], Value::Whole(count)));
    let gauge = |name, help, value: usize| Family {
        name,
        vendor: None,
        kind: Kind::Gauge,
        help,
        samples: vec![(Vec::new(), Value::Whole(value as u64))],
    };
    vec![
        Family {
            name: "hedgerow_edge_requests",
            vendor: None,
            kind: Kind::Counter,
            help: "Requests that ended at the edge, by route, status, and reason where no origin answered.",
            samples: requests.collect(),
        },
        Family {
            name: "hedgerow_edge_retries",
            vendor: None,
            kind: Kind::Counter,
            help: "Requests that went to another origin of their group.",
            samples: retries.collect(),
        },
        gauge(
            "hedgerow_edge_requests_running",
            "Requests that run at the edge.",
            running,
        ),
        gauge(
            "hedgerow_edge_idle_origin_connections",
            "Connections to origins that wait for a request.",
            idle,
        ),
    ]
}
