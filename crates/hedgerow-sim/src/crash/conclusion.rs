//! The end of a run: everything is delivered, the server says what became of it, and says the same after a restart.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::api::{Api, Status};
use super::ledger::{Entries, Fate, Pair};
use super::plan::{Event, EventId, SUBSCRIPTIONS, TOPICS};
use super::verdict::Account;

/// How long the server may go on without ending any delivery.
const PROGRESS_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long it may take altogether.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(300);
/// How often it is asked.
const POLL: Duration = Duration::from_millis(100);
/// It must say the same so often: events in doubt may be stored and not matched yet.
const QUIET_POLLS: u32 = 10;
/// How often the rest is shown.
const TOLD: Duration = Duration::from_secs(5);

/// Waits until nothing is pending, as long as there is progress. What is left then is for the verdict.
pub async fn drain(api: &mut Api, owed: &[u64]) -> Result<(), String> {
    let began = Instant::now();
    let (mut progressed, mut told) = (began, began);
    let (mut ended_before, mut quiet) = (0, 0);
    loop {
        let statuses = statuses(api).await?;
        let pending: u64 = statuses.iter().map(Status::waiting).sum();
        let ended = statuses.iter().map(Status::ended).sum();
        let is_all = statuses
            .iter()
            .zip(owed)
            .all(|(status, owed)| status.matched >= *owed);
        if ended != ended_before {
            (ended_before, progressed, quiet) = (ended, Instant::now(), 0);
        } else if pending == 0 && is_all {
            quiet += 1;
        }
        let is_stuck = progressed.elapsed() > PROGRESS_WAIT_MAX || began.elapsed() > DRAIN_WAIT_MAX;
        if quiet >= QUIET_POLLS || is_stuck {
            return Ok(());
        }
        if told.elapsed() > TOLD {
            told = Instant::now();
            println!("delivering the rest: {pending} pending, {ended} ended");
        }
        sleep(POLL).await;
    }
}

/// How many acknowledged events each subscription wants; none of those that are purged, which may never have come to some.
pub fn acknowledged(seed: u64, entries: &Entries) -> Vec<u64> {
    let mut owed = vec![0; SUBSCRIPTIONS.len()];
    for (topic, published) in entries.published.iter().enumerate() {
        for (number, published) in published.iter().enumerate() {
            if published.fate != Fate::Acknowledged {
                continue;
            }
            let id = EventId {
                topic,
                number: number as u32,
            };
            let event = Event::of(seed, id);
            for (subscription, owed) in SUBSCRIPTIONS.iter().zip(&mut owed) {
                let is_certain = !subscription.is_purged;
                *owed += u64::from(is_certain && subscription.wants(id, &event));
            }
        }
    }
    owed
}

/// What the server says of every subscription, and of these events.
pub async fn account(api: &mut Api, unsure: &[Pair]) -> Result<Account, String> {
    let mut told = HashMap::new();
    for (index, id) in unsure {
        let subscription = &SUBSCRIPTIONS[*index];
        let topic = TOPICS[subscription.topic];
        let event = id.to_string();
        let explained = api.explained(topic, &event, subscription.name);
        if let Some(state) = explained.await? {
            told.insert((*index, *id), state);
        }
    }
    let mut terminal = Vec::new();
    for topic in TOPICS {
        terminal.append(&mut api.terminal_records(topic).await?);
    }
    Ok(Account {
        statuses: statuses(api).await?,
        terminal,
        told,
    })
}

/// The counters of every subscription.
pub async fn statuses(api: &mut Api) -> Result<Vec<Status>, String> {
    let mut statuses = Vec::new();
    for subscription in &SUBSCRIPTIONS {
        statuses.push(
            api.status(TOPICS[subscription.topic], subscription.name)
                .await?,
        );
    }
    Ok(statuses)
}
