//! What finding the subscriptions of an event costs, by how many there are: the index alone, in this process. Three want the
//! event, or the one there is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hedgerow_core::event::{Data, Event};
use hedgerow_core::filter::{Filter, FilterEvent, FilterIndex, FilterRules};
use hedgerow_core::spec::FilterSpec;
use serde_json::{Value, json};

use super::{Bench, Figures};

/// How many subscriptions, with the figure's name.
const COUNTS: [(usize, &str); 3] = [(1, "ns_of_1"), (100, "ns_of_100"), (10_000, "ns_of_10000")];
/// Each count is measured so often in turn, and its best time counts: the others had company.
const TURNS: u32 = 15;
/// More time than this makes them no better.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Subscriptions that want the event.
const WANTED: usize = 3;

/// How the filters differ.
#[derive(Debug, Clone, Copy)]
pub enum Differ {
    /// In the event type.
    Type,
    /// In one value of an advanced filter; all else is equal.
    StringIn,
    /// In the beginning of the subject, by text and by length.
    Prefix,
}

impl Differ {
    fn filter(self, number: usize) -> Value {
        match self {
            Self::Type => json!({ "includedEventTypes": [format!("Orders.Type{number}")] }),
            Self::StringIn => json!({
                "includedEventTypes": ["Orders.Type7"],
                "subjectBeginsWith": "/orders/",
                "advancedFilters": [
                    { "operatorType": "StringIn", "key": "data.tenant", "values": [format!("tenant-{number}")] },
                ],
            }),
            Self::Prefix => {
                let deep = "/x".repeat(number % 40);
                json!({ "subjectBeginsWith": format!("/orders/7{deep}/{number}") })
            }
        }
    }
}

/// Measures it.
pub fn run(bench: &Bench, differ: Differ) -> Result<Figures, String> {
    let rules = FilterRules::default();
    let event = Event {
        id: "1524831183200260097".into(),
        source: None,
        event_type: "Orders.Type7".into(),
        subject: Some("/orders/7/x/x/x/x/x/x/x/7/lines/12".into()),
        time: None,
        data_version: Some("1.0".into()),
        data_content_type: None,
        data_schema: None,
        extensions: Vec::new(),
        data: Data::Json(
            r#"{"order": {"number": 7, "lines": [1, 2, 3]}, "tenant": "Tenant-7", "note": "as usual"}"#
                .into(),
        ),
    };
    let event = FilterEvent::new(&event, "/topics/orders");
    let mut indexes = Vec::new();
    for (count, name) in COUNTS {
        let mut index = FilterIndex::new(rules);
        for id in 0..count {
            // The last ones want what number 7 wants; with one subscription it is that.
            let number = if id + WANTED > count || id == 7 {
                7
            } else {
                id
            };
            let spec = FilterSpec::check(&differ.filter(number), "").map_err(|e| e.to_string())?;
            index.insert(id, 0..u64::MAX, Filter::new(&spec, rules));
        }
        let mut found = 0;
        index.ask(
            1,
            &event,
            |_| true,
            |answer| found += usize::from(answer.result.is_ok()),
        );
        if found != WANTED.min(count) {
            return Err(format!("{found} of {count} subscriptions want the event"));
        }
        indexes.push((index, name, f64::INFINITY));
    }
    let time = bench.options.size.time.min(TIME_MAX) / (TURNS * COUNTS.len() as u32);
    for _ in 0..TURNS {
        for (index, _, best) in &mut indexes {
            *best = best.min(nanoseconds(index, &event, time));
        }
    }
    let mut figures = Figures::default();
    for (_, name, best) in &indexes {
        figures.set(name, *best);
    }
    let [_, (.., few), (.., many)] = &indexes[..] else {
        return Err("there are three counts".to_owned());
    };
    figures.set("rate", 1e9 / many);
    figures.set("of_10000_to_100", many / few);
    Ok(figures)
}

/// For one event.
fn nanoseconds(index: &FilterIndex<usize>, event: &FilterEvent<'_>, time: Duration) -> f64 {
    const BLOCK: u32 = 64;
    let began = Instant::now();
    let mut events = 0_u32;
    loop {
        for _ in 0..BLOCK {
            let mut wanted = 0;
            index.ask(
                1,
                black_box(event),
                |_| true,
                |answer| {
                    wanted += usize::from(answer.result.is_ok());
                },
            );
            black_box(wanted);
        }
        events += BLOCK;
        let passed = began.elapsed();
        if passed >= time {
            return passed.as_secs_f64() * 1e9 / f64::from(events);
        }
    }
}
