//! Operators at work while the server is killed: one subscription is purged, paused and resumed, events of another are
//! asked for again. The ledger keeps what they asked and how it was answered.

use std::ops::RangeInclusive;

use hedgerow_store::catalog::PURGES_MAX;
use tokio::time::sleep;

use super::api::Api;
use super::ledger::{Ledger, Outcome};
use super::plan::{SUBSCRIPTIONS, TOPICS};
use crate::random::Random;

/// In so many of a hundred lives there is a purge, and in fewer if that would be too many.
const PURGES_PERCENT_MAX: u64 = 70;
/// In so many of a hundred of them the subscription is paused before, so that much waits.
const PAUSED_PERCENT: u64 = 60;
/// Purges of a run: as many as explanations know of.
const PURGES_OF_A_RUN: usize = PURGES_MAX;
/// So many resends of a life come before its purge.
const RESENDS_BEFORE: RangeInclusive<u64> = 0..=3;
/// The newest events that a receiver took, among which one is asked for again.
const TAKEN_LOOKED_AT: usize = 12;

/// The operators.
#[derive(Debug)]
pub struct Operators {
    random: Random,
    purges_percent: u64,
}

impl Operators {
    /// The operators of a seed, whose purges are spread over a run of so many rounds.
    pub fn new(seed: u64, rounds: u32) -> Self {
        let spread = 100 * PURGES_OF_A_RUN as u64 / u64::from(rounds.max(1));
        Self {
            random: Random::of(&[seed, 0x6f70_6572]),
            purges_percent: spread.min(PURGES_PERCENT_MAX),
        }
    }

    /// Works until the server dies: dropping this leaves what was asked last unanswered.
    pub async fn work(&mut self, api: &mut Api, ledger: &Ledger, life: usize) {
        resume(api).await;
        // Many lives are short: until one purge was answered, each begins with one.
        let is_first = ledger.entries().purges_answered() == 0;
        let is_purging = is_first || self.random.percent(self.purges_percent);
        let before = if is_first {
            0
        } else {
            self.random.between(RESENDS_BEFORE)
        };
        for resends in 0.. {
            if is_purging && resends == before {
                self.purge(api, ledger, life).await;
            }
            sleep(self.random.millis(5..=60)).await;
            self.resend(api, ledger).await;
        }
    }

    async fn purge(&mut self, api: &mut Api, ledger: &Ledger, life: usize) {
        for (index, subscription) in purged() {
            let (topic, name) = (TOPICS[subscription.topic], subscription.name);
            if ledger.entries().purges.len() >= PURGES_OF_A_RUN {
                continue;
            }
            if self.random.percent(PAUSED_PERCENT) {
                let _ = api.act(topic, name, "pause").await;
                sleep(self.random.millis(20..=200)).await;
            }
            let purge = ledger.purge(index, life);
            if api.act(topic, name, "purge").await.is_ok() {
                ledger.purged(purge);
            }
        }
        resume(api).await;
    }

    async fn resend(&mut self, api: &mut Api, ledger: &Ledger) {
        let all = SUBSCRIPTIONS.iter().enumerate();
        for (index, subscription) in all.filter(|(_, one)| one.is_resent) {
            let taken = ledger.entries().newest_taken(index, TAKEN_LOOKED_AT);
            if taken.is_empty() {
                continue;
            }
            let id = taken[self.random.between(0..=taken.len() as u64 - 1) as usize];
            let (topic, name) = (TOPICS[subscription.topic], subscription.name);
            let resend = ledger.resend((index, id));
            let outcome = match api.resend(topic, &id.to_string(), name).await {
                Ok(Some(result)) if result == "Resent" => Outcome::Begun,
                // The event is being delivered, or is not known any more.
                Ok(_) => Outcome::Nothing,
                Err(_) => continue,
            };
            ledger.resent(resend, outcome);
        }
    }
}

/// The subscriptions that are purged, and their indexes.
fn purged() -> impl Iterator<Item = (usize, &'static super::plan::Subscription)> {
    let all = SUBSCRIPTIONS.iter().enumerate();
    all.filter(|(_, one)| one.is_purged)
}

/// Ends pauses, also those of a life before. The server may die meanwhile.
pub async fn resume(api: &mut Api) {
    for (_, subscription) in purged() {
        let topic = TOPICS[subscription.topic];
        let _ = api.act(topic, subscription.name, "resume").await;
    }
}
