//! What the log says, in plain maps: each record is one small change. Nothing is cached, layered or coalesced.

mod catalog;

use std::borrow::Cow;
use std::collections::BTreeMap;

use hedgerow_core::event::{DOMAIN_TOPIC, Data, Event};
use hedgerow_core::hold::Period;
use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{SubscriptionId, TopicId};
use hedgerow_core::spec::{ReplaySpec, SubscriptionSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::ReplayState;
use hedgerow_store::record::{Dead, DeadThen, Divided, Events, Record, unpack_event};
use serde_json::Value;
use tokio::time::Instant;

/// Everything there is.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub topics: BTreeMap<TopicId, Topic>,
    pub subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Those that were deleted.
    pub gone: BTreeMap<SubscriptionId, Subscription>,
    /// Delayed delivery, by endpoint.
    pub windows: BTreeMap<String, Window>,
    pub replays: BTreeMap<u32, Replay>,
}

/// Dead letters that are delivered again.
#[derive(Debug, Clone)]
pub struct Replay {
    pub subscription: SubscriptionId,
    pub spec: ReplaySpec,
    pub created: Timestamp,
    pub state: ReplayState,
    /// How often it was begun, stopped and resumed.
    pub sets: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Topic {
    /// From number 1 on.
    pub events: Vec<Known>,
}

/// An event.
#[derive(Debug, Clone)]
pub struct Known {
    pub id: String,
    pub event_type: String,
    /// What it can be ordered by: its subject, and its key in the data.
    pub subject: Option<String>,
    pub data_key: Option<String>,
    /// The topic of the domain that it names.
    pub domain_topic: Option<String>,
    /// The UUID of the dead letter that it is delivered again of.
    pub letter: Option<String>,
    /// The one subscription that it is for then, whatever it wants otherwise.
    pub only: Option<SubscriptionId>,
}

impl Known {
    pub fn of(event: &Event<'_>) -> Self {
        let data = match &event.data {
            Data::Json(json) => serde_json::from_str(json).unwrap_or_default(),
            _ => Value::Null,
        };
        // Two texts of different types are two keys only if they differ.
        let data_key = match &data["order"]["key"] {
            Value::String(text) => Some(text.clone()),
            key @ (Value::Number(_) | Value::Bool(_)) => Some(key.to_string()),
            _ => None,
        };
        Self {
            id: event.id.clone().into_owned(),
            event_type: event.event_type.clone().into_owned(),
            subject: event.subject.clone().map(Cow::into_owned),
            data_key,
            domain_topic: event
                .extensions
                .iter()
                .find(|(name, _)| name == DOMAIN_TOPIC)
                .map(|(_, json)| json.trim_matches('"').to_ascii_lowercase()),
            letter: event.replay_of().map(str::to_owned),
            only: event.replayed_to(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Subscription {
    pub id: SubscriptionId,
    pub name: String,
    pub topic: TopicId,
    /// The one topic of the domain that it is for.
    pub domain_topic: Option<String>,
    pub spec: SubscriptionSpec,
    /// The first event that it is owed.
    pub from_seq: u64,
    /// What was not begun before this is dropped.
    pub purged_to: u64,
    /// Everything before that it wants was begun, or dropped: looked at so far.
    pub looked_to: u64,
    pub is_paused: bool,
    /// Whether its endpoint has consented, or does not have to.
    pub is_active: bool,
    /// What was declared since, and waits for the consent of its endpoint.
    pub update: Option<Box<SubscriptionSpec>>,
    /// Where it delivered before, and until when.
    pub former: Option<(String, Instant)>,
    pub probation: Option<Period>,
    /// The delivery that is tried alone on it.
    pub trial: Option<u64>,
    /// Counts its periods.
    pub generation: u32,
    /// The outcome that the newest attempts had in common, and how many they were.
    pub row: Option<(Outcome, u32)>,
    pub deliveries: BTreeMap<u64, Delivery>,
    pub counts: Counts,
    /// The least and the most that its limits ever were: attempts, and minutes.
    pub attempts_allowed: (u16, u16),
    pub minutes_allowed: (u64, u64),
}

/// The counters of ED-304.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub matched: u64,
    pub delivered: u64,
    pub dead_lettered: u64,
    pub dropped: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    pub state: State,
    pub attempts: u16,
    pub first: Timestamp,
    pub started: Timestamp,
    /// That of the subscription's probation when the newest attempt started.
    pub generation: u32,
    /// When the first try failed to write its dead letter.
    pub first_unwritten: Option<Timestamp>,
    /// The part of a batch that came apart that it travels in next.
    pub part: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Waiting(Timestamp),
    Flying,
    Letter(Timestamp),
    Delivered,
    DeadLettered,
    Dropped,
}

impl State {
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Waiting(_) | Self::Flying | Self::Letter(_))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// In whose records it stands.
    pub keeper: SubscriptionId,
    pub period: Period,
    pub trial: Option<(SubscriptionId, u64)>,
}

impl Model {
    /// A new engine begins: it knows of no attempt that runs, and of no row.
    pub fn restart(&mut self) {
        for subscription in self.subscriptions.values_mut() {
            subscription.trial = None;
            subscription.row = None;
        }
        for window in self.windows.values_mut() {
            window.trial = None;
        }
    }

    /// A subscription that there is, or was.
    pub fn known(&self, id: SubscriptionId) -> Option<&Subscription> {
        self.subscriptions.get(&id).or_else(|| self.gone.get(&id))
    }

    /// The delivery, if it was begun.
    pub fn delivery(&self, id: SubscriptionId, seq: u64) -> Option<&Delivery> {
        self.subscriptions.get(&id)?.deliveries.get(&seq)
    }

    /// The window that holds a subscription, if delayed delivery is on for it.
    pub fn window_of(&self, subscription: &Subscription) -> Option<&Window> {
        let is_on = subscription.spec.delayed_delivery.enabled;
        let endpoint = subscription.spec.destination.endpoint();
        self.windows.get(endpoint).filter(|_| is_on)
    }

    /// An attempt starts that nothing holds: where a hold is over and no success came since, it is tried alone.
    pub fn note_trial(&mut self, id: SubscriptionId, seq: u64) {
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if subscription.probation.is_some() {
            subscription.trial = Some(seq);
        }
        let endpoint = subscription.spec.destination.endpoint();
        let is_on = subscription.spec.delayed_delivery.enabled;
        if let Some(window) = self.windows.get_mut(endpoint).filter(|_| is_on) {
            window.trial = Some((id, seq));
        }
    }

    /// The end of what holds a subscription at that time.
    pub fn held_until(&self, id: SubscriptionId, now: Timestamp) -> Option<Timestamp> {
        let subscription = self.subscriptions.get(&id)?;
        let window = self.window_of(subscription).map(|window| window.period);
        let periods = subscription.probation.into_iter().chain(window);
        periods
            .map(|period| period.until)
            .filter(|until| now < *until)
            .max()
    }

    /// The next record that is no change of the catalog, in the log's order.
    pub fn fold(&mut self, record: &Record) {
        match record {
            Record::Events(events) => self.fold_events(events),
            Record::Started(started) => {
                for one in &started.deliveries {
                    let Some(subscription) = self.subscriptions.get_mut(&started.subscription)
                    else {
                        return;
                    };
                    let generation = subscription.generation;
                    let delivery = subscription.begin(one.seq, one.progress.published);
                    delivery.state = State::Flying;
                    delivery.attempts = one.progress.attempts;
                    delivery.first = one.progress.first_attempt;
                    delivery.started = one.progress.last_attempt;
                    delivery.generation = generation;
                    delivery.part = None;
                }
            }
            Record::Failed(failed) => {
                for one in &failed.deliveries {
                    self.land(failed.subscription, one.seq);
                    if let Some(delivery) = self.open(failed.subscription, one.seq) {
                        delivery.state = State::Waiting(one.due);
                    }
                }
            }
            Record::Moved(moved) => {
                for one in &moved.deliveries {
                    if let Some(delivery) = self.open(moved.subscription, one.seq) {
                        delivery.state = State::Waiting(one.due);
                        // Whoever was held follows its own schedule from then on, and stays apart.
                        delivery.part = one.part;
                    }
                }
            }
            Record::Settled(settled) => {
                for (seq, _) in &settled.deliveries {
                    self.land(settled.subscription, *seq);
                    self.end(settled.subscription, *seq, State::Delivered);
                }
            }
            Record::Dead(dead) => self.fold_dead(dead),
            Record::Purged(purged) => {
                if let Some(subscription) = self.subscriptions.get_mut(&purged.subscription) {
                    subscription.counts.matched += purged.unbegun;
                    subscription.counts.dropped += purged.unbegun;
                }
                for (seq, _) in &purged.deliveries {
                    self.land(purged.subscription, *seq);
                    self.end(purged.subscription, *seq, State::Dropped);
                }
            }
            Record::Begun(begun) => {
                if let Some(subscription) = self.subscriptions.get_mut(&begun.subscription) {
                    for (seq, published) in &begun.events {
                        subscription.begin(*seq, *published);
                    }
                }
            }
            Record::Hold(hold) => self.fold_hold(hold),
            Record::Divided(divided) => self.fold_divided(divided),
            _ => {}
        }
    }

    fn fold_divided(&mut self, divided: &Divided) {
        for one in &divided.deliveries {
            self.land(divided.subscription, one.seq);
            if let Some(delivery) = self.open(divided.subscription, one.seq) {
                delivery.state = State::Waiting(one.due);
                delivery.attempts = one.progress.attempts;
                delivery.first = one.progress.first_attempt;
                delivery.started = one.progress.last_attempt;
                delivery.part = Some(one.part);
            }
        }
    }

    fn fold_events(&mut self, events: &Events) {
        let Some(topic) = self.topics.get_mut(&events.topic) else {
            return;
        };
        assert_eq!(
            topic.events.len() as u64 + 1,
            events.first_seq,
            "the numbers of a topic have no gap"
        );
        for stored in events.packed.slices() {
            let stored = stored.expect("the log gives whole events");
            let event = unpack_event(&stored).expect("the log gives whole events");
            topic.events.push(Known::of(&event));
        }
    }

    fn fold_dead(&mut self, dead: &Dead) {
        self.land(dead.subscription, dead.seq);
        let Some(subscription) = self.subscriptions.get_mut(&dead.subscription) else {
            return;
        };
        if dead.due.is_none() {
            subscription.begin(dead.seq, dead.published);
        }
        match dead.then {
            DeadThen::WriteDue(due, write) => {
                if let Some(delivery) = self.open(dead.subscription, dead.seq) {
                    delivery.state = State::Letter(due);
                    delivery.first_unwritten = write.first_failed;
                }
            }
            DeadThen::Written => self.end(dead.subscription, dead.seq, State::DeadLettered),
            DeadThen::Dropped(_) => self.end(dead.subscription, dead.seq, State::Dropped),
        }
    }

    fn fold_hold(&mut self, hold: &hedgerow_store::record::Hold) {
        let Some(subscription) = self.subscriptions.get_mut(&hold.subscription) else {
            return;
        };
        let probation = hold.holds.probation.filter(|period| !period.is_over());
        if subscription.probation != probation {
            subscription.probation = probation;
            subscription.trial = None;
            subscription.generation += u32::from(probation.is_some());
        }
        let endpoint = subscription.spec.destination.endpoint().to_owned();
        let window = hold.holds.window.filter(|period| !period.is_over());
        let known = self.windows.get(&endpoint);
        match window {
            Some(period) if known.is_none_or(|known| known.period != period) => {
                let window = Window {
                    keeper: hold.subscription,
                    period,
                    trial: None,
                };
                self.windows.insert(endpoint, window);
            }
            None if known.is_some_and(|known| known.keeper == hold.subscription) => {
                self.windows.remove(&endpoint);
            }
            _ => {}
        }
    }

    fn open(&mut self, id: SubscriptionId, seq: u64) -> Option<&mut Delivery> {
        let delivery = self.subscriptions.get_mut(&id)?.deliveries.get_mut(&seq)?;
        delivery.state.is_open().then_some(delivery)
    }

    /// Its attempt ended: if it was tried alone, it is no longer.
    fn land(&mut self, id: SubscriptionId, seq: u64) {
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            subscription.trial = subscription.trial.filter(|trial| *trial != seq);
        }
        for window in self.windows.values_mut() {
            window.trial = window.trial.filter(|trial| *trial != (id, seq));
        }
    }

    fn end(&mut self, id: SubscriptionId, seq: u64, state: State) {
        let Some(delivery) = self.open(id, seq) else {
            return;
        };
        delivery.state = state;
        if let Some(subscription) = self.subscriptions.get_mut(&id) {
            let counts = &mut subscription.counts;
            *match state {
                State::Delivered => &mut counts.delivered,
                State::DeadLettered => &mut counts.dead_lettered,
                _ => &mut counts.dropped,
            } += 1;
        }
    }
}

impl Subscription {
    fn begin(&mut self, seq: u64, published: Timestamp) -> &mut Delivery {
        let counts = &mut self.counts;
        self.deliveries.entry(seq).or_insert_with(|| {
            counts.matched += 1;
            Delivery {
                state: State::Waiting(published),
                attempts: 0,
                first: published,
                started: published,
                generation: 0,
                first_unwritten: None,
                part: None,
            }
        })
    }
}
