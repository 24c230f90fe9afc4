//! Which families there are, and what is in them.

use std::collections::BTreeMap;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::HoldState;
use hedgerow_delivery::gauges::SubscriptionGauges;
use hedgerow_delivery::metrics::{
    Histogram, HistogramSnapshot, Metrics, SubscriptionMetrics, SubscriptionNames as Names,
    TopicMetrics,
};
use hedgerow_store::Usage;
use hedgerow_store::catalog::Provisioning;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::text::{Family, Kind, Label, Value};

/// States of a subscription (ED-303), and the one of an endpoint that did not consent.
const STATES: [&str; 8] = [
    "healthy",
    "probation",
    "delayed",
    "awaiting_trial",
    "paused",
    "gone",
    "validation_pending",
    "validation_failed",
];
/// What holds events back.
const HOLDS: [HoldState; 5] = [
    HoldState::Probation,
    HoldState::Delayed,
    HoldState::AwaitingTrial,
    HoldState::Paused,
    HoldState::Gone,
];

/// Stands for the subscriptions beyond the bound.
const OTHER: &str = "_other";

/// What one look at the metrics tells.
pub struct Scrape<'a> {
    pub metrics: &'a Metrics,
    /// By id; none while there is no engine.
    pub gauges: &'a [SubscriptionGauges],
    pub usage: Option<Usage>,
    pub now: Timestamp,
    /// Subscriptions with series of their own.
    pub subscriptions_max: usize,
}

/// The labels of a subscription, or of those beyond the bound together.
trait Labels {
    fn labels(&self) -> Vec<Label>;

    fn and(&self, name: &'static str, value: impl Into<String>) -> Vec<Label> {
        let mut labels = self.labels();
        labels.push((name, value.into()));
        labels
    }
}

impl Labels for Names {
    /// One of all of a domain has its name under another label (ED-297).
    fn labels(&self) -> Vec<Label> {
        let label = if self.is_of_domain {
            "domain_event_subscription_name"
        } else {
            "event_subscription_name"
        };
        vec![
            ("topic", self.topic.clone()),
            (label, self.subscription.clone()),
        ]
    }
}

/// Samples of several subscriptions, those with the same labels added up.
#[derive(Default)]
struct Sum(BTreeMap<Vec<Label>, Value>);

impl Sum {
    fn add(&mut self, labels: Vec<Label>, value: Value) {
        match self.0.entry(labels) {
            std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(value)),
            std::collections::btree_map::Entry::Occupied(mut taken) => {
                match (taken.get_mut(), value) {
                    (Value::Whole(sum), Value::Whole(more)) => *sum += more,
                    // The oldest of several is the oldest.
                    (Value::Part(oldest), Value::Part(other)) => *oldest = oldest.max(other),
                    (Value::Histogram(sum), Value::Histogram(more)) => sum.add(&more),
                    _ => {}
                }
            }
        }
    }

    fn samples(self) -> Vec<(Vec<Label>, Value)> {
        self.0.into_iter().collect()
    }
}

impl Scrape<'_> {
    /// Every family.
    pub fn families(&self) -> Vec<Family> {
        let topics = self.metrics.topics();
        let subscriptions = self.metrics.subscriptions();
        let names = self.names(&subscriptions);
        let mut families = self.of_topics(&topics);
        families.extend(of_counters(&subscriptions, &names));
        families.extend(self.of_gauges(&names));
        families.extend(self.of_limits(&names));
        families.push(self.of_states(&names));
        families.extend(self.of_store());
        families
    }

    /// The names under which subscriptions are told of: their own, for as many as may have series of their own, those
    /// that exist first.
    fn names(&self, counted: &[Arc<SubscriptionMetrics>]) -> BTreeMap<SubscriptionId, Names> {
        let mut all: Vec<_> = counted
            .iter()
            .map(|one| (one.is_gone(), one.id, one.names.clone()))
            .collect();
        let known: std::collections::BTreeSet<_> = all.iter().map(|one| one.1).collect();
        for gauges in self.gauges {
            if let Some(names) = &gauges.names
                && !known.contains(&gauges.subscription)
            {
                all.push((false, gauges.subscription, names.clone()));
            }
        }
        all.sort_unstable();
        let names = all.into_iter().enumerate();
        names
            .map(|(at, (_, id, names))| {
                let names = if at < self.subscriptions_max {
                    names
                } else {
                    Names {
                        topic: OTHER.to_owned(),
                        subscription: OTHER.to_owned(),
                        is_of_domain: false,
                    }
                };
                (id, names)
            })
            .collect()
    }

    fn of_topics(&self, topics: &[Arc<TopicMetrics>]) -> Vec<Family> {
        let of_each = |value: &dyn Fn(&TopicMetrics) -> Value| {
            let samples = topics
                .iter()
                .map(|topic| (vec![("topic", topic.name.clone())], value(topic)));
            samples.collect()
        };
        let mut failed = Sum::default();
        let nowhere = self.metrics.nowhere.counts();
        let of_topics = topics
            .iter()
            .map(|topic| (topic.name.clone(), topic.publish_failed.counts()));
        for (topic, counts) in of_topics.chain([(String::new(), nowhere)]) {
            for ((error_type, error), count) in counts {
                let labels = vec![
                    ("topic", topic.clone()),
                    ("error_type", error_type.to_owned()),
                    ("error", error.to_owned()),
                ];
                failed.add(labels, Value::Whole(count));
            }
        }
        vec![
            Family {
                name: "hedgerow_publish_success_count",
                vendor: Some("PublishSuccessCount"),
                kind: Kind::Counter,
                help: "Events that were accepted.",
                samples: of_each(&|topic| Value::Whole(topic.published.load(Relaxed))),
            },
            Family {
                name: "hedgerow_publish_fail_count",
                vendor: Some("PublishFailCount"),
                kind: Kind::Counter,
                help: "Events that were refused; a request whose events could not be read counts as one.",
                samples: failed.samples(),
            },
            Family {
                name: "hedgerow_publish_success_latency_in_ms",
                vendor: Some("PublishSuccessLatencyInMs"),
                kind: Kind::Counter,
                help: "From a publish request to its answer, summed over the requests that were accepted.",
                samples: of_each(&|topic| {
                    Value::Part(topic.publish_micros.load(Relaxed) as f64 / 1_000.0)
                }),
            },
            Family {
                name: "hedgerow_unmatched_event_count",
                vendor: Some("UnmatchedEventCount"),
                kind: Kind::Counter,
                help: "Events that no subscription wanted.",
                samples: of_each(&|topic| Value::Whole(topic.unmatched.load(Relaxed))),
            },
        ]
    }

    fn of_each_gauge(
        &self,
        names: &BTreeMap<SubscriptionId, Names>,
        name: &'static str,
        help: &'static str,
        samples: &dyn Fn(&SubscriptionGauges, &Names, &mut Sum),
    ) -> Family {
        let mut sum = Sum::default();
        for gauges in self.gauges {
            if let Some(names) = names.get(&gauges.subscription) {
                samples(gauges, names, &mut sum);
            }
        }
        Family {
            name,
            vendor: None,
            kind: Kind::Gauge,
            help,
            samples: sum.samples(),
        }
    }

    /// What keeps attempts of a subscription from starting: its own limits, and those of its endpoint (design D7).
    fn of_limits(&self, names: &BTreeMap<SubscriptionId, Names>) -> Vec<Family> {
        let of_each = |name, help, samples: &dyn Fn(&SubscriptionGauges, &Names, &mut Sum)| {
            self.of_each_gauge(names, name, help, samples)
        };
        vec![
            of_each(
                "hedgerow_endpoint_attempts",
                "Attempts that run at the endpoint of a subscription, of all subscriptions behind it.",
                &|gauges, names, sum| {
                    if let Some(endpoint) = gauges.endpoint {
                        let counts = [("quick", endpoint.open), ("slow", endpoint.slow_open)];
                        for (lane, count) in counts {
                            sum.add(names.and("lane", lane), Value::Whole(count.into()));
                        }
                    }
                },
            ),
            of_each(
                "hedgerow_endpoint_attempts_limit",
                "How many of them may run.",
                &|gauges, names, sum| {
                    if let Some(endpoint) = gauges.endpoint {
                        let limits = [("quick", endpoint.limit), ("slow", endpoint.slow_limit)];
                        for (lane, limit) in limits {
                            sum.add(names.and("lane", lane), Value::Whole(limit.into()));
                        }
                    }
                },
            ),
            of_each(
                "hedgerow_subscription_limit",
                "What a subscription asks of its endpoint at most, where it is declared.",
                &|gauges, names, sum| {
                    let limits = [
                        ("max_concurrency", gauges.limits.max_concurrency),
                        (
                            "max_requests_per_second",
                            gauges.limits.max_requests_per_second,
                        ),
                    ];
                    for (name, limit) in limits {
                        if let Some(limit) = limit {
                            sum.add(names.and("limit", name), Value::Whole(limit.get().into()));
                        }
                    }
                },
            ),
        ]
    }

    fn of_gauges(&self, names: &BTreeMap<SubscriptionId, Names>) -> Vec<Family> {
        let of_each = |name, help, samples: &dyn Fn(&SubscriptionGauges, &Names, &mut Sum)| {
            self.of_each_gauge(names, name, help, samples)
        };
        vec![
            of_each(
                "hedgerow_deliveries",
                "What became of the events that a subscription wanted, as the store keeps it: matched is the sum of the others.",
                &|gauges, names, sum| {
                    for (state, count) in deliveries(gauges) {
                        sum.add(names.and("state", state), Value::Whole(count));
                    }
                },
            ),
            of_each(
                "hedgerow_pending_events",
                "Events that are owed to a subscription.",
                &|gauges, names, sum| {
                    sum.add(names.labels(), Value::Whole(gauges.load.pending));
                },
            ),
            of_each(
                "hedgerow_held_events",
                "Events of them that wait for the end of what holds the subscription back.",
                &|gauges, names, sum| {
                    for state in HOLDS {
                        let count = if gauges.hold == state { gauges.held } else { 0 };
                        sum.add(names.and("held_by", hold_name(state)), Value::Whole(count));
                    }
                },
            ),
            of_each(
                "hedgerow_oldest_pending_age_seconds",
                "How long ago the oldest event that is owed was accepted; 0 if none is.",
                &|gauges, names, sum| {
                    let published = gauges.oldest.and_then(|(_, published)| published);
                    let age =
                        published.map_or(0.0, |published| self.now.since(published).as_secs_f64());
                    sum.add(names.labels(), Value::Part(age));
                },
            ),
            of_each(
                "hedgerow_unread_events",
                "Events of the topic that were not offered to a subscription yet.",
                &|gauges, names, sum| {
                    sum.add(names.labels(), Value::Whole(gauges.load.behind));
                },
            ),
            of_each(
                "hedgerow_running_attempts",
                "Attempts that run.",
                &|gauges, names, sum| {
                    sum.add(names.labels(), Value::Whole(gauges.load.in_flight));
                },
            ),
            of_each(
                "hedgerow_pending_dead_letters",
                "Dead letters that wait to be written; at least so many if they are more than 10,000.",
                &|gauges, names, sum| {
                    sum.add(names.labels(), Value::Whole(gauges.pending_dead_letters));
                },
            ),
        ]
    }

    /// The state of each subscription (ED-303): 1 for the one that it is in.
    fn of_states(&self, names: &BTreeMap<SubscriptionId, Names>) -> Family {
        let mut sum = Sum::default();
        for gauges in self.gauges {
            let Some(names) = names.get(&gauges.subscription) else {
                continue;
            };
            let is = state(gauges.inactive, gauges.hold);
            for state in STATES {
                let labels = names.and("hedgerow_subscription_state", state);
                sum.add(labels, Value::Whole(u64::from(state == is)));
            }
        }
        Family {
            name: "hedgerow_subscription_state",
            vendor: None,
            kind: Kind::StateSet,
            help: "What a subscription does: 1 for the state that it is in.",
            samples: sum.samples(),
        }
    }

    fn of_store(&self) -> Vec<Family> {
        let Some(usage) = self.usage else {
            return Vec::new();
        };
        let one = |name, help, value| Family {
            name,
            vendor: None,
            kind: Kind::Gauge,
            help,
            samples: vec![(Vec::new(), Value::Whole(value))],
        };
        vec![
            one(
                "hedgerow_store_used_bytes",
                "Bytes of the store that cannot be forgotten yet.",
                usage.used_bytes,
            ),
            one(
                "hedgerow_store_watermark_bytes",
                "At how many of them publishing is refused.",
                usage.watermark_bytes,
            ),
        ]
    }
}

/// The state that a subscription is in; `inactive` says how far the handshake has come if it gets no events yet.
fn state(inactive: Option<Provisioning>, hold: HoldState) -> &'static str {
    match inactive {
        Some(Provisioning::Creating | Provisioning::AwaitingManualAction) => "validation_pending",
        Some(Provisioning::Failed) => "validation_failed",
        Some(Provisioning::Succeeded) | None => hold_name(hold),
    }
}

fn hold_name(hold: HoldState) -> &'static str {
    match hold {
        HoldState::Healthy => "healthy",
        HoldState::Probation => "probation",
        HoldState::Delayed => "delayed",
        HoldState::AwaitingTrial => "awaiting_trial",
        HoldState::Paused => "paused",
        HoldState::Gone => "gone",
    }
}

/// ED-304: the first is the sum of the others.
fn deliveries(gauges: &SubscriptionGauges) -> [(&'static str, u64); 6] {
    let counters = gauges.load.counters;
    [
        ("matched", counters.matched + gauges.load.waiting),
        ("delivered", counters.delivered),
        ("dead_lettered", counters.dead_lettered),
        ("dropped", counters.dropped),
        ("given_up", counters.given_up),
        ("pending", gauges.load.pending),
    ]
}

fn of_counters(
    subscriptions: &[Arc<SubscriptionMetrics>],
    names: &BTreeMap<SubscriptionId, Names>,
) -> Vec<Family> {
    let of_each =
        |name, vendor, kind, help, samples: &dyn Fn(&SubscriptionMetrics, &Names, &mut Sum)| {
            let mut sum = Sum::default();
            for one in subscriptions {
                if let Some(names) = names.get(&one.id) {
                    samples(one, names, &mut sum);
                }
            }
            Family {
                name,
                vendor,
                kind,
                help,
                samples: sum.samples(),
            }
        };
    let histogram = |snapshot: HistogramSnapshot| Value::Histogram(snapshot);
    let mut families = vec![
        of_each(
            "hedgerow_matched_event_count",
            Some("MatchedEventCount"),
            Kind::Counter,
            "Events that a subscription's filter wanted.",
            &|one, names, sum| sum.add(names.labels(), Value::Whole(one.matched())),
        ),
        of_each(
            "hedgerow_advanced_filter_evaluation_count",
            Some("AdvancedFilterEvaluationCount"),
            Kind::Counter,
            "Advanced filters that were evaluated.",
            &|one, names, sum| sum.add(names.labels(), Value::Whole(one.evaluated())),
        ),
        of_each(
            "hedgerow_delivery_success_count",
            Some("DeliverySuccessCount"),
            Kind::Counter,
            "Events that an endpoint accepted.",
            &|one, names, sum| sum.add(names.labels(), Value::Whole(one.delivered())),
        ),
        of_each(
            "hedgerow_delivery_attempt_fail_count",
            Some("DeliveryAttemptFailCount"),
            Kind::Counter,
            "Events of attempts that failed.",
            &|one, names, sum| {
                for (error, count) in one.failed.counts() {
                    let mut labels = names.and("error", error.error());
                    labels.push(("error_type", error.error_type().to_owned()));
                    sum.add(labels, Value::Whole(count));
                }
            },
        ),
        of_each(
            "hedgerow_destination_processing_duration_in_ms",
            Some("DestinationProcessingDurationInMs"),
            Kind::Histogram,
            "From the start of an attempt to the head of its answer, of those that succeeded.",
            &|one, names, sum| sum.add(names.labels(), histogram(one.processing.snapshot())),
        ),
        of_each(
            "hedgerow_dropped_event_count",
            Some("DroppedEventCount"),
            Kind::Counter,
            "Events that were given up and dropped.",
            &|one, names, sum| {
                for (reason, count) in one.dropped.counts() {
                    sum.add(names.and("drop_reason", reason), Value::Whole(count));
                }
            },
        ),
        of_each(
            "hedgerow_dead_lettered_count",
            Some("DeadLetteredCount"),
            Kind::Counter,
            "Events that were given up and written to the dead-letter store.",
            &|one, names, sum| {
                for (reason, count) in one.dead_lettered.counts() {
                    sum.add(names.and("dead_letter_reason", reason), Value::Whole(count));
                }
            },
        ),
    ];
    let histograms = HISTOGRAMS.map(|(name, help, of)| {
        of_each(name, None, Kind::Histogram, help, &|one, names, sum| {
            sum.add(names.labels(), histogram(of(one).snapshot()));
        })
    });
    families.extend(histograms);
    families
}

/// Histograms of each subscription that the vendor lacks.
type OwnHistogram = (
    &'static str,
    &'static str,
    fn(&SubscriptionMetrics) -> &Histogram,
);
const HISTOGRAMS: [OwnHistogram; 3] = [
    (
        "hedgerow_publish_to_delivered_latency_seconds",
        "From the acceptance of an event to its delivery.",
        |one| &one.latency,
    ),
    (
        "hedgerow_attempts_per_delivered_event",
        "Attempts that a delivered event took.",
        |one| &one.attempts,
    ),
    (
        "hedgerow_events_per_batch",
        "Events of a request, where they travel together.",
        |one| &one.batches,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-303: one state of each subscription, and all of them are among those that are written.
    #[test]
    fn a_subscription_is_in_one_state() {
        for (inactive, hold, expected) in [
            (None, HoldState::Healthy, "healthy"),
            (None, HoldState::Probation, "probation"),
            (None, HoldState::Delayed, "delayed"),
            (None, HoldState::AwaitingTrial, "awaiting_trial"),
            (None, HoldState::Paused, "paused"),
            (None, HoldState::Gone, "gone"),
            (
                Some(Provisioning::Creating),
                HoldState::Healthy,
                "validation_pending",
            ),
            (
                Some(Provisioning::AwaitingManualAction),
                HoldState::Paused,
                "validation_pending",
            ),
            (
                Some(Provisioning::Failed),
                HoldState::Healthy,
                "validation_failed",
            ),
        ] {
            assert_eq!(state(inactive, hold), expected);
            assert!(STATES.contains(&expected));
        }
    }
}
