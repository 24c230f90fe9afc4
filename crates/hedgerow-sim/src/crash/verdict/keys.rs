//! What an ordered subscription promises: of events with one key only one is under way, and none is sent after one that was
//! accepted behind it. What was accepted first is known where the one publish request was answered before the other was sent,
//! and inside one request.

use std::collections::HashMap;

use super::super::ledger::{Entries, Pair};
use super::super::plan::{Event, SUBSCRIPTIONS, Sending};

/// An event of a key that was sent.
struct Sent {
    pair: Pair,
    /// The publish request that it came in.
    request: u32,
    /// When it was sent first, and last.
    first: u64,
    last: u64,
}

/// What ordered subscriptions got otherwise. `again` is what was sent again because of a crash, and the life that it ended.
pub fn problems(seed: u64, entries: &Entries, again: &[(Pair, usize)]) -> Vec<String> {
    let mut problems = Vec::new();
    let key_of = |(index, id): Pair| (index, Event::of(seed, id).subject);
    let mut by_key: HashMap<(usize, String), Vec<Sent>> = HashMap::new();
    for (pair, exchanges) in &entries.exchanges {
        let published = &entries.published[pair.1.topic];
        let known = published.get(pair.1.number as usize);
        let is_ordered = is_ordered(*pair);
        let all = exchanges.first().zip(exchanges.last());
        let (Some(published), Some((first, last))) = (known, all.filter(|_| is_ordered)) else {
            continue;
        };
        by_key.entry(key_of(*pair)).or_default().push(Sent {
            pair: *pair,
            request: published.request,
            first: first.tick,
            last: last.tick,
        });
    }
    for ((index, key), mut sent) in by_key {
        sent.sort_unstable_by_key(|one| one.pair.1);
        for (place, behind) in sent.iter().enumerate() {
            // Numbers are taken in the order in which requests are sent.
            let passed = sent[..place].iter().find(|ahead| {
                entries.is_accepted_before(ahead.request, behind.request)
                    && ahead.last >= behind.first
            });
            if let Some(passed) = passed {
                let name = SUBSCRIPTIONS[index].name;
                problems.push(format!(
                    "{name}: event {} of key {key} was sent after {}, which was accepted behind it",
                    passed.pair.1, behind.pair.1
                ));
            }
        }
    }
    let mut counts: HashMap<_, u64> = HashMap::new();
    for (pair, crash) in again.iter().filter(|(pair, _)| is_ordered(*pair)) {
        *counts.entry((key_of(*pair), *crash)).or_default() += 1;
    }
    for (((index, key), crash), count) in counts.into_iter().filter(|(_, count)| *count > 1) {
        let name = SUBSCRIPTIONS[index].name;
        problems.push(format!(
            "{name}: {count} events of key {key} sent again after the end of life {crash}, one at a time is under way"
        ));
    }
    problems
}

fn is_ordered((index, _): Pair) -> bool {
    SUBSCRIPTIONS[index].sending == Sending::Ordered
}

impl Entries {
    /// Whether all events of a publish request have a place before those of another, or before later ones of the same.
    fn is_accepted_before(&self, request: u32, other: u32) -> bool {
        let times = |request: u32| self.requests.get(request as usize).copied();
        request == other
            || times(request)
                .zip(times(other))
                .is_some_and(|(before, behind)| {
                    before.1.is_some_and(|answered| answered < behind.0)
                })
    }
}
