//! Who may get deliveries: an endpoint that has consented first (ED-152), and of a subscription whose endpoint is changed the old one
//! until the new one has (ED-163). A URL that is opened too late is of no effect (ED-158, ED-159).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::Change;
use tokio::time::Instant;

use super::{Oracle, Place};

/// ED-158.
const MANUAL_WINDOW: Duration = Duration::from_secs(300);
/// How long the engine may take at most until it acts on a change that is durable.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(30);

/// What is known of consents.
#[derive(Default)]
pub(super) struct Handshakes {
    /// Whether endpoints are asked at all.
    are_made: bool,
    /// Which hosts have consented to which subscriptions, by name.
    consents: BTreeSet<(String, String)>,
}

impl Handshakes {
    pub(super) fn new(are_made: bool) -> Self {
        Self {
            are_made,
            ..Self::default()
        }
    }

    /// One that is made anew has to be consented to anew.
    pub(super) fn follow(
        &mut self,
        change: &Change,
        names: &BTreeMap<String, Vec<SubscriptionId>>,
    ) {
        if let Change::SubscriptionDeleted { id } = change {
            let gone = names.iter().filter(|(_, ids)| ids.contains(id));
            for (gone, _) in gone {
                self.consents.retain(|(name, _)| name != gone);
            }
        }
    }
}

impl Oracle {
    /// An endpoint is asked.
    pub fn asked_for_consent(&mut self, name: &str, host: &str) {
        self.tally.handshakes += 1;
        let ids = self.subscriptions.get(name).into_iter().flatten();
        let known = ids.filter_map(|id| self.durable.known(*id));
        let specs = known.flat_map(|known| {
            let update = known.update.as_deref();
            update.into_iter().chain([&known.spec])
        });
        let mut endpoints = specs.map(|spec| spec.destination.endpoint());
        let is_its = endpoints.any(|endpoint| endpoint.contains(host));
        drop(endpoints);
        if !is_its {
            let message = format!("ED-152: {host} is asked for {name}, which never delivers there");
            self.fail(message);
        }
    }

    /// And consents, or somebody does for it.
    pub fn consented(&mut self, name: &str, host: &str) {
        let consent = (name.to_owned(), host.to_owned());
        self.handshakes.consents.insert(consent);
    }

    /// Somebody opened the URL of a handshake that was sent then, and that was of effect.
    pub fn opened(&mut self, now: Timestamp, sent: Timestamp, name: &str, host: &str) {
        let age = now.since(sent);
        if age >= MANUAL_WINDOW {
            self.fail(format!(
                "ED-159: a URL of {name} completes its handshake after {age:?}"
            ));
        }
        self.consented(name, host);
    }

    /// What is wrong with the host that a request arrived at.
    pub(super) fn wrong_host(&self, place: Place, name: &str, host: &str) -> Option<String> {
        let exchange = self.exchange_at(place);
        let is_it = |endpoint: &String| endpoint.contains(host);
        if !exchange.endpoints.iter().any(is_it) {
            let endpoints = &exchange.endpoints;
            return Some(format!(
                "ED-163: it is at {host}, and {endpoints:?} are its"
            ));
        }
        let consent = (name.to_owned(), host.to_owned());
        let has_consented = self.handshakes.consents.contains(&consent);
        (self.handshakes.are_made && !has_consented)
            .then(|| format!("ED-152: {host} has not consented"))
    }

    /// Where a request that begins now may go: to the former endpoint while the engine does not know of the new one.
    pub(super) fn endpoints_of(&self, id: SubscriptionId) -> Vec<String> {
        let Some(known) = self.live.known(id) else {
            return Vec::new();
        };
        let former = known.former.as_ref();
        let former = former.filter(|(_, at)| Instant::now() < *at + FOLLOWS_WITHIN);
        let former = former.map(|(endpoint, _)| endpoint.clone());
        let present = known.spec.destination.endpoint().to_owned();
        former.into_iter().chain([present]).collect()
    }

    /// Whether the endpoint of the subscription of this name has not consented.
    pub fn is_unconsented(&self, name: &str) -> bool {
        let mut all = self.durable.subscriptions.values();
        all.any(|one| one.name == name && !one.is_active)
    }

    /// Subscriptions whose endpoints have not consented.
    pub(super) fn unconsented(&self) -> impl Iterator<Item = String> {
        let all = self.durable.subscriptions.values();
        let asked = all.filter(|one| !one.is_active);
        asked.map(|one| format!("ED-152: the endpoint of {} has not consented", one.name))
    }
}
