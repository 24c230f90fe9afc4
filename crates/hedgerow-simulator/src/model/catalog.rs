//! Changes of the catalog, in the model.

use std::collections::BTreeMap;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_store::catalog::{Change, ReplayState, ValidationState};
use tokio::time::Instant;

use super::{Counts, Model, Replay, Subscription, Topic};

impl Model {
    /// The next change of the catalog, in the log's order.
    pub fn fold_change(&mut self, change: &Change) {
        match change {
            Change::TopicCreated { id, .. } => drop(self.topics.insert(*id, Topic::default())),
            Change::SubscriptionCreated { .. } => self.fold_creation(change),
            Change::SubscriptionUpdated { .. } | Change::SubscriptionValidated { .. } => {
                self.fold_update(change);
            }
            Change::SubscriptionPaused { id, is_paused, .. } => {
                if let Some(subscription) = self.subscriptions.get_mut(id) {
                    subscription.is_paused = *is_paused;
                }
            }
            Change::SubscriptionReset { id } => {
                if let Some(subscription) = self.subscriptions.get_mut(id) {
                    subscription.probation = None;
                    subscription.trial = None;
                    subscription.row = None;
                    let endpoint = subscription.spec.destination.endpoint();
                    self.windows.remove(endpoint);
                }
            }
            // Up to here, whether it was read or not.
            Change::SubscriptionPurged { id, .. } => {
                if let Some(subscription) = self.subscriptions.get_mut(id) {
                    let events = &self.topics[&subscription.topic].events;
                    subscription.purged_to = events.len() as u64 + 1;
                }
            }
            Change::SubscriptionDeleted { id } => self.forget(*id),
            Change::ReplayCreated {
                replay,
                subscription,
                spec,
                created,
                ..
            } => {
                let begun = Replay {
                    subscription: *subscription,
                    spec: (**spec).clone(),
                    created: *created,
                    state: ReplayState::Running,
                    sets: 0,
                };
                self.replays.insert(*replay, begun);
            }
            Change::ReplaySet { replay, state, .. } => {
                if let Some(replay) = self.replays.get_mut(replay) {
                    replay.state = *state;
                    replay.sets += 1;
                }
            }
            _ => {}
        }
    }

    fn fold_creation(&mut self, change: &Change) {
        let Change::SubscriptionCreated {
            id,
            topic,
            domain_topic,
            name,
            spec,
            validation,
            ..
        } = change
        else {
            return;
        };
        let is_active = validation.is_none();
        // Nothing is owed before its endpoint has consented.
        let next_seq = self.topics[topic].events.len() as u64 + 1;
        let from_seq = if is_active { next_seq } else { u64::MAX };
        let subscription = Subscription {
            id: *id,
            name: name.as_str().to_owned(),
            topic: *topic,
            domain_topic: domain_topic
                .as_ref()
                .map(|name| name.as_str().to_ascii_lowercase()),
            from_seq,
            purged_to: 0,
            looked_to: from_seq,
            is_paused: false,
            is_active,
            update: None,
            former: None,
            probation: None,
            trial: None,
            generation: 0,
            row: None,
            deliveries: BTreeMap::new(),
            counts: Counts::default(),
            attempts_allowed: (u16::MAX, 0),
            minutes_allowed: (u64::MAX, 0),
            spec: (**spec).clone(),
        };
        self.subscriptions.insert(*id, subscription);
        self.note_limits(*id, spec);
    }

    /// A subscription is declared anew, or its endpoint has consented.
    fn fold_update(&mut self, change: &Change) {
        match change {
            Change::SubscriptionUpdated {
                id,
                spec,
                validation,
            } => {
                let Some(subscription) = self.subscriptions.get_mut(id) else {
                    return;
                };
                subscription.update = None;
                match (subscription.is_active, validation.is_some()) {
                    // ED-163: what is in force stays so.
                    (true, true) => subscription.update = Some(spec.clone()),
                    (true, false) => self.update(*id, spec),
                    (false, true) => {
                        subscription.spec = (**spec).clone();
                        self.note_limits(*id, spec);
                    }
                    (false, false) => {
                        subscription.spec = (**spec).clone();
                        self.note_limits(*id, spec);
                        self.begin(*id);
                    }
                }
            }
            Change::SubscriptionValidated { id, state, .. } => {
                if *state != ValidationState::Succeeded {
                    return;
                }
                let subscription = self.subscriptions.get_mut(id);
                match subscription.and_then(|subscription| subscription.update.take()) {
                    Some(spec) => self.update(*id, &spec),
                    None => self.begin(*id),
                }
            }
            _ => {}
        }
    }

    /// A subscription receives what is published from here on.
    fn begin(&mut self, id: SubscriptionId) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if !subscription.is_active {
            let next_seq = self.topics[&subscription.topic].events.len() as u64 + 1;
            subscription.is_active = true;
            subscription.from_seq = next_seq;
            subscription.looked_to = next_seq;
        }
    }

    /// A subscription is another one from here on. What held it at another endpoint does not here (ED-232).
    fn update(&mut self, id: SubscriptionId, spec: &SubscriptionSpec) {
        self.note_limits(id, spec);
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        let former = std::mem::replace(&mut subscription.spec, spec.clone()).destination;
        if former == spec.destination {
            return;
        }
        subscription.former = Some((former.endpoint().to_owned(), Instant::now()));
        subscription.probation = None;
        subscription.trial = None;
        subscription.row = None;
        self.windows.retain(|_, window| window.keeper != id);
        for window in self.windows.values_mut() {
            window.trial = window.trial.filter(|(of, _)| *of != id);
        }
    }

    /// A subscription is gone, with what was owed to it. A window that stands in its records stands in nobody's until another one
    /// writes it down.
    fn forget(&mut self, id: SubscriptionId) {
        let Some(gone) = self.subscriptions.remove(&id) else {
            return;
        };
        self.gone.insert(id, gone);
        self.replays.retain(|_, replay| replay.subscription != id);
        self.windows.retain(|_, window| window.keeper != id);
        for window in self.windows.values_mut() {
            window.trial = window.trial.filter(|(of, _)| *of != id);
        }
    }

    fn note_limits(&mut self, id: SubscriptionId, spec: &SubscriptionSpec) {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            let attempts = spec.retry_policy.max_delivery_attempts;
            let minutes = spec.retry_policy.event_time_to_live.as_secs() / 60;
            let (least, most) = subscription.attempts_allowed;
            subscription.attempts_allowed = (least.min(attempts), most.max(attempts));
            let (least, most) = subscription.minutes_allowed;
            subscription.minutes_allowed = (least.min(minutes), most.max(minutes));
        }
    }
}
