//! `selection`: which origins are kept, and which of them are chosen (HP-063, HP-090 to HP-094, HP-104, HP-120 to HP-128,
//! HP-142 to HP-144).

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_origin::selector::Selector;
use hedgerow_origin::settings::{FailOpen, Strategy};
use hedgerow_origin::snapshot::{Choosing, Mode, OriginView, Snapshot};
use hedgerow_origin::window::State;
use serde::Deserialize;
use serde_json::json;

use crate::table::{Case, Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(default = "fifty")]
    additional_latency_ms: u64,
    #[serde(default = "all")]
    fail_open: String,
    #[serde(default = "yes")]
    probes_enabled: bool,
    #[serde(default)]
    session_affinity: bool,
    affinity: Option<String>,
    #[serde(default)]
    picks: usize,
    origins: Vec<Origin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    id: String,
    #[serde(default = "yes")]
    enabled: bool,
    health: Option<State>,
    #[serde(default = "one")]
    priority: u32,
    latency_ms: Option<f64>,
    #[serde(default = "fifty_u32")]
    weight: u32,
}

const fn fifty() -> u64 {
    50
}

const fn fifty_u32() -> u32 {
    50
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

fn all() -> String {
    "all".to_owned()
}

pub fn judge(case: &Case) -> Result<Run, String> {
    let input: Input = case.input()?;
    let snapshot = snapshot(&input)?;
    let pinned = input.affinity.as_ref().and_then(|pinned| {
        let mut origins = (0..).zip(&input.origins);
        origins.find_map(|(id, origin)| (origin.id == *pinned).then_some(id))
    });
    let name = |place: usize| input.origins[place].id.as_str();
    let mut selector = Selector::new();
    let Ok(first) = selector.clone().select(&snapshot, pinned) else {
        return Ok(Run::result(json!({
            "mode": Mode::None.as_str(),
            "candidates": [],
            "shares": {},
            "set_affinity": false,
            "status": 503,
        })));
    };
    let shares: BTreeMap<&str, String> = if first.mode == Mode::Affinity {
        BTreeMap::from([(name(first.place), "1".to_owned())])
    } else {
        let shares = snapshot.shares().into_iter();
        shares
            .map(|(place, of, sum)| (name(place), fraction(of, sum)))
            .collect()
    };
    let in_order = input.origins.iter().map(|origin| origin.id.as_str());
    let candidates: Vec<&str> = in_order.filter(|id| shares.contains_key(id)).collect();
    let sequence: Vec<&str> = (0..input.picks)
        .map_while(|_| selector.select(&snapshot, pinned).ok())
        .map(|choice| name(choice.place))
        .collect();
    Ok(Run::result(json!({
        "mode": first.mode.as_str(),
        "candidates": candidates,
        "shares": shares,
        "set_affinity": first.set_affinity,
        "sequence": sequence,
    })))
}

fn snapshot(input: &Input) -> Result<Snapshot, String> {
    let choosing = Choosing {
        additional_latency_ms: input.additional_latency_ms,
        fail_open: match input.fail_open.as_str() {
            "all" => FailOpen::All,
            "top_priority" => FailOpen::TopPriority,
            "none" => FailOpen::None,
            other => return Err(format!("unknown fail_open {other}")),
        },
        has_probes: input.probes_enabled,
        has_affinity: input.session_affinity,
        strategy: Strategy::Weighted,
        retry_after: Duration::from_secs(30),
    };
    let origins = (0..).zip(&input.origins).map(|(id, origin)| {
        let latency = origin.latency_ms.map(|ms| ms / 1_000.0);
        let latency = latency.map(Duration::try_from_secs_f64).transpose();
        let latency = latency.map_err(|error| error.to_string())?;
        // Whole microseconds: 20.2 ms is not quite 0.0202 s.
        let latency_us = latency.map(|latency| {
            let rounded = latency + Duration::from_nanos(500);
            u64::try_from(rounded.as_micros()).unwrap_or(u64::MAX)
        });
        let state = origin.health.unwrap_or(State::Healthy);
        Ok(OriginView {
            is_enabled: origin.enabled,
            priority: origin.priority,
            weight: origin.weight,
            ramp_weight: origin.weight,
            ..OriginView::new(id, state, latency_us)
        })
    });
    let origins: Vec<OriginView> = origins.collect::<Result<_, String>>()?;
    Ok(Snapshot::new(choosing, origins))
}

/// As the tables have it, in lowest terms.
fn fraction(of: u64, sum: u64) -> String {
    match sum {
        1 => of.to_string(),
        sum => format!("{of}/{sum}"),
    }
}
