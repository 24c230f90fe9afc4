//! How every subscription is doing, in numbers.

use hedgerow_store::StoreError;
use hedgerow_store::catalog::{Subscription, Topic};
use hedgerow_store::view::BEHIND_IN_FLIGHT;

use super::Engine;
use crate::gauges::{EndpointCredits, GaugesFrom, GaugesPage, Load, SubscriptionGauges};
use crate::metrics::SubscriptionNames;
use crate::plan::To;
use crate::runner::Runner;

/// Rows of the due index that one look goes through for dead letters, over all subscriptions.
const COUNTED_ROWS_MAX: usize = 10_000;
/// Subscriptions of one page: a look at 10,000 of them must not keep deliveries waiting.
const PAGE: usize = 256;

impl Engine {
    /// How the next subscriptions are doing, by id.
    pub(super) fn gauges(&self, from: Option<GaugesFrom>) -> Result<GaugesPage, StoreError> {
        let after = from.map(|from| from.after);
        let mut rows_left = from.map_or(COUNTED_ROWS_MAX, |from| from.rows_left);
        let all = self.view.catalog().subscriptions_behind(after);
        let mut gauges = Vec::with_capacity(PAGE);
        for found in all.take(PAGE) {
            gauges.push(self.gauges_of(found, &mut rows_left)?);
        }
        let last = gauges.last().filter(|_| gauges.len() == PAGE);
        let next = last.map(|last| GaugesFrom {
            after: last.subscription,
            rows_left,
        });
        Ok(GaugesPage { gauges, next })
    }

    fn gauges_of(
        &self,
        found: &Subscription,
        rows_left: &mut usize,
    ) -> Result<SubscriptionGauges, StoreError> {
        let load = self.load(found);
        let hold = self.hold_info(found, load.owed());
        // Whatever has a runner is counted under its names.
        let is_counted = self.runners.contains_key(&found.id);
        Ok(SubscriptionGauges {
            subscription: found.id,
            topic: found.topic,
            names: (!is_counted).then(|| self.names_of(found)),
            inactive: (!found.is_active()).then(|| found.newest_provisioning()),
            hold: hold.state,
            held: hold.held,
            load,
            limits: found.spec.endpoint_limits,
            endpoint: self.credits_of(found),
            oldest: self.oldest_owed(found),
            pending_dead_letters: self.count_dead_letters(found, rows_left)?,
        })
    }

    /// What a subscription is called where it is counted.
    pub(super) fn names_of(&self, found: &Subscription) -> SubscriptionNames {
        let topic = self.view.catalog().topic(found.topic);
        SubscriptionNames {
            topic: self.view.catalog().source_of(found),
            subscription: found.name.as_str().to_owned(),
            is_of_domain: found.domain_topic.is_none() && topic.is_some_and(Topic::is_domain),
        }
    }

    /// How many attempts run at the endpoint of a subscription, and how many may; nothing if it does not deliver yet.
    pub(super) fn credits_of(&self, found: &Subscription) -> Option<EndpointCredits> {
        let runner = self.runners.get(&found.id)?;
        match &runner.plan.to {
            To::Endpoint { endpoint, .. } => Some(self.endpoints.credits(endpoint)),
            To::Group(_) => Some(self.credits_of_group(runner)),
        }
    }

    /// How much there is to do for a subscription.
    pub(super) fn load(&self, subscription: &Subscription) -> Load {
        let (counters, open) = self.view.counters(subscription.id);
        let runner = self.runners.get(&subscription.id);
        let head = self.view.next_seq(subscription.topic);
        let behind_at = runner.and_then(|runner| runner.behind_at);
        // A delivery whose start is queued is in flight, and in the view not begun yet.
        let waiting = runner.map_or(0, |runner| {
            runner.waiting_len() + runner.gathering_unbegun() + self.unbegun(runner)
        }) as u64;
        Load {
            counters,
            pending: open + waiting,
            waiting,
            in_flight: runner.map_or(0, |runner| runner.in_flight() as u64),
            behind: behind_at.map_or(0, |at| head.saturating_sub(at)),
        }
    }

    fn unbegun(&self, runner: &Runner) -> usize {
        let flights = runner.flight_seqs();
        let unbegun = flights.filter(|seq| !self.view.is_open(runner.id, *seq));
        unbegun.count()
    }

    /// The first event that is owed, and its time where that is at hand.
    fn oldest_owed(
        &self,
        subscription: &Subscription,
    ) -> Option<(u64, Option<hedgerow_core::time::Timestamp>)> {
        let waiting = self
            .runners
            .get(&subscription.id)
            .and_then(Runner::oldest_waiting)
            .map(|(seq, published)| (seq, Some(published)));
        let open = self.view.first_open(subscription.id);
        let open = open.map(|seq| (seq, None));
        waiting.into_iter().chain(open).min_by_key(|(seq, _)| *seq)
    }

    fn count_dead_letters(
        &self,
        subscription: &Subscription,
        rows_left: &mut usize,
    ) -> Result<u64, StoreError> {
        let id = subscription.id;
        // Of most there is nothing: that is known without a look at the index.
        let has_any = self.view.first_open(id).is_some();
        if subscription.spec.dead_letter_destination.is_none() || !has_any || *rows_left == 0 {
            return Ok(0);
        }
        let limit = *rows_left;
        let page = self
            .view
            .pending_dead_letters(id, BEHIND_IN_FLIGHT, limit, rows_left)?;
        Ok(page.rows.len() as u64)
    }
}
