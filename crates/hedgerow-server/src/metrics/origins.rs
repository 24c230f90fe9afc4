//! What is told of origin groups (HP-106, HP-208): what was counted of each origin, and how it is doing.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_origin::node::{GroupStatus, OriginStatus};
use hedgerow_origin::snapshot::Mode;

use super::text::{Family, Kind, Label, Value};
use crate::origins::{Counts, OriginCounts, Origins};

/// States of an origin.
const STATES: [&str; 3] = ["unknown", "healthy", "unhealthy"];
/// Stands for no origin: none could be chosen, or it has gone since.
const NONE: &str = "";

/// One look at all groups.
pub struct OriginScrape {
    counts: Counts,
    /// By group.
    statuses: BTreeMap<String, GroupStatus>,
    /// By group: origin, mode, count.
    selections: BTreeMap<String, Vec<(String, Mode, u64)>>,
    /// Origins with series of their own.
    origins_max: usize,
}

/// An origin that is told of.
struct Told<'s> {
    group: &'s str,
    is_single_origin: bool,
    status: &'s OriginStatus,
    counts: Option<&'s OriginCounts>,
}

impl Told<'_> {
    fn labels(&self) -> Vec<Label> {
        vec![
            ("origin_group", self.group.to_owned()),
            ("origin", self.status.name.clone()),
        ]
    }

    fn and(&self, name: &'static str, value: impl Into<String>) -> Vec<Label> {
        let mut labels = self.labels();
        labels.push((name, value.into()));
        labels
    }
}

impl OriginScrape {
    /// Asks the prober.
    pub async fn of(origins: &Origins, origins_max: usize) -> Self {
        let counts = origins.story.counts();
        let (mut statuses, mut selections) = (BTreeMap::new(), BTreeMap::new());
        for name in counts.groups.keys() {
            if let Some(status) = origins.prober.status(name).await {
                statuses.insert(name.clone(), status);
            }
            if let Some(live) = origins.prober.group(name) {
                let current = live.current();
                let views = current.snapshot.origins().iter();
                let pairs = views.zip(&current.group.settings().origins);
                let names: BTreeMap<u32, &str> = pairs
                    .map(|(view, settings)| (view.id, settings.name.as_str()))
                    .collect();
                let counted = live.selections().into_iter().map(|(id, mode, count)| {
                    let name = id.and_then(|id| names.get(&id).copied());
                    (name.unwrap_or(NONE).to_owned(), mode, count)
                });
                selections.insert(name.clone(), counted.collect());
            }
        }
        Self {
            counts,
            statuses,
            selections,
            origins_max,
        }
    }

    /// Every family; none while there are no groups, so that those who have none see none.
    pub fn families(&self) -> Vec<Family> {
        if self.counts.groups.is_empty() {
            return Vec::new();
        }
        let all = self.statuses.iter().flat_map(|(group, status)| {
            let counted = self.counts.groups.get(group);
            status.origins.iter().map(move |origin| Told {
                group,
                is_single_origin: status.single_origin,
                status: origin,
                counts: counted.and_then(|counted| counted.origins.get(&origin.name)),
            })
        });
        let all: Vec<Told<'_>> = all.collect();
        let told = all.get(..self.origins_max).unwrap_or(&all);
        let mut families = of_counters(told);
        families.extend(of_states(told));
        families.push(self.of_selections());
        families.extend(self.of_groups());
        families.push(one(
            "hedgerow_origins_left_out",
            Kind::Gauge,
            "Origins without series, as there are more than metrics.origins_max.",
            vec![(Vec::new(), Value::Whole((all.len() - told.len()) as u64))],
        ));
        families
    }

    fn of_selections(&self) -> Family {
        let mut sum: BTreeMap<Vec<Label>, u64> = BTreeMap::new();
        for (group, counted) in &self.selections {
            for (origin, mode, count) in counted {
                let labels = vec![
                    ("origin_group", group.clone()),
                    ("origin", origin.clone()),
                    ("mode", mode.as_str().to_owned()),
                ];
                *sum.entry(labels).or_default() += count;
            }
        }
        let samples = sum.into_iter();
        let samples = samples.take(self.origins_max * 6);
        one(
            "hedgerow_origin_selections",
            Kind::Counter,
            "Choices of an origin for a request or a delivery attempt, by mode; none could be chosen where no origin is named.",
            samples
                .map(|(labels, count)| (labels, Value::Whole(count)))
                .collect(),
        )
    }

    fn of_groups(&self) -> Vec<Family> {
        let of_each = |value: &dyn Fn(&crate::origins::GroupCounts) -> u64| {
            let groups = self.counts.groups.iter();
            let samples = groups.map(|(name, counts)| {
                let labels = vec![("origin_group", name.clone())];
                (labels, Value::Whole(value(counts)))
            });
            samples.collect()
        };
        vec![
            one(
                "hedgerow_group_all_unhealthy",
                Kind::Gauge,
                "Whether all enabled origins of a group are unhealthy.",
                of_each(&|counts| u64::from(counts.is_all_unhealthy)),
            ),
            one(
                "hedgerow_group_all_unhealthy_entered",
                Kind::Counter,
                "How often they became so.",
                of_each(&|counts| counts.all_unhealthy_entered),
            ),
            one(
                "hedgerow_probes_delayed",
                Kind::Counter,
                "Probes that waited for the budget of the node.",
                vec![(Vec::new(), Value::Whole(self.counts.delayed))],
            ),
            one(
                "hedgerow_probe_budget_delay_seconds",
                Kind::Counter,
                "How long they waited, in all.",
                vec![(
                    Vec::new(),
                    Value::Part(self.counts.budget_delay.as_secs_f64()),
                )],
            ),
        ]
    }
}

const fn one(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: Vec<(Vec<Label>, Value)>,
) -> Family {
    Family {
        name,
        vendor: None,
        kind,
        help,
        samples,
    }
}

fn of_counters(told: &[Told<'_>]) -> Vec<Family> {
    let counted = || {
        let counted = told.iter();
        counted.filter_map(|one| Some((one, one.counts?)))
    };
    let probes = counted().flat_map(|(one, counts)| {
        let results = counts.probes.iter();
        results.map(|(result, count)| (one.and("result", *result), Value::Whole(*count)))
    });
    let aborted = counted().map(|(one, counts)| (one.labels(), Value::Whole(counts.aborted)));
    let changes = counted().flat_map(|(one, counts)| {
        counts.changes.iter().map(|((from, to), count)| {
            let mut labels = one.and("from", *from);
            labels.push(("to", (*to).to_owned()));
            (labels, Value::Whole(*count))
        })
    });
    let in_state = counted().flat_map(|(one, counts)| {
        STATES.into_iter().map(|state| {
            let time = counts
                .in_state
                .get(state)
                .copied()
                .unwrap_or(Duration::ZERO);
            (one.and("state", state), Value::Part(time.as_secs_f64()))
        })
    });
    let seconds = counted().filter_map(|(one, counts)| {
        let seconds = counts.seconds.clone()?;
        Some((one.labels(), Value::Histogram(seconds)))
    });
    let skipped = told.iter();
    let skipped = skipped.map(|one| (one.labels(), Value::Whole(one.status.skipped_ticks)));
    vec![
        one(
            "hedgerow_origin_probes",
            Kind::Counter,
            "Probes by result, as the group judges them: success, or the reason of the failure.",
            probes.collect(),
        ),
        one(
            "hedgerow_origin_probes_aborted",
            Kind::Counter,
            "Probes that were no samples, as the node could not do its part.",
            aborted.collect(),
        ),
        one(
            "hedgerow_origin_probe_seconds",
            Kind::Histogram,
            "How long probes took, whatever they met.",
            seconds.collect(),
        ),
        one(
            "hedgerow_origin_state_changes",
            Kind::Counter,
            "Changes of the state of an origin.",
            changes.collect(),
        ),
        one(
            "hedgerow_origin_time_in_state_seconds",
            Kind::Counter,
            "How long an origin had which state.",
            in_state.collect(),
        ),
        one(
            "hedgerow_origin_skipped_ticks",
            Kind::Counter,
            "Ticks that were skipped, as the probe before had not ended.",
            skipped.collect(),
        ),
    ]
}

fn of_states(told: &[Told<'_>]) -> Vec<Family> {
    let states = told.iter().flat_map(|one| {
        STATES.into_iter().map(|state| {
            let is_it = one.status.state.as_str() == state;
            (
                one.and("hedgerow_origin_state", state),
                Value::Whole(u64::from(is_it)),
            )
        })
    });
    let latency = told.iter().filter_map(|one| {
        let micros = one.status.latency_us?;
        Some((one.labels(), Value::Part(micros as f64 / 1e6)))
    });
    let percentages = told.iter().flat_map(|one| {
        let spans = [
            ("1m", one.status.health_percentage_1m),
            ("5m", one.status.health_percentage_5m),
        ];
        spans.into_iter().filter_map(move |(span, percentage)| {
            let mut labels = one.and("window", span);
            labels.push(("single_origin", one.is_single_origin.to_string()));
            Some((labels, Value::Part(percentage?)))
        })
    });
    vec![
        one(
            "hedgerow_origin_state",
            Kind::StateSet,
            "What an origin is: 1 for the state that it has.",
            states.collect(),
        ),
        one(
            "hedgerow_origin_latency_seconds",
            Kind::Gauge,
            "The lower median of the successes in the window, by which requests are routed.",
            latency.collect(),
        ),
        one(
            "hedgerow_origin_health_percentage",
            Kind::Gauge,
            "Good samples of the last minute, and of the last five. In a group with single_origin=true a dip changes no routing.",
            percentages.collect(),
        ),
    ]
}
