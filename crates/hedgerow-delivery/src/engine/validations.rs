//! Handshakes with endpoints: which are to be made, which wait for somebody to open their URL, what their ends mean.
//!
//! A handshake runs as a task beside the loop and reports back. What it means becomes a change of the catalog like any
//! other, so that every state survives a crash: one that was being made is made again, one that waits keeps its deadline.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use hedgerow_core::limits;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{DeliverySchema, Destination, SubscriptionSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_core::validation::{AllowedRate, Consent, ValidationSettings};
use hedgerow_io::chance;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::{
    Change, Exchange, Provisioning, Subscription, Validation, ValidationState,
};
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::declarations::{Answered, reply};
use super::handshakes::Asked;
use super::{Engine, Internal, Phase};
use crate::command::{Answer, CommandError, SubscriptionInfo};
use crate::handshake::{self, HandshakeReport};
use crate::source::source_path;
use crate::validation::{Callback, Called};

/// The handshakes of all subscriptions.
pub(super) struct Validations {
    pub(super) settings: Arc<ValidationSettings>,
    /// Those that are only tried, at a time.
    pub(super) dry_runs: Arc<Semaphore>,
    /// The same, with those that wait for their turn.
    pub(super) dry_runs_asked: Arc<Semaphore>,
    /// Those that are to be made, in order.
    queue: VecDeque<Asks>,
    /// Those that were not ended when the server did. They wait with the deliveries.
    found: Vec<Asks>,
    running: HashMap<Asks, Running>,
    /// When those that wait for somebody end.
    deadlines: BTreeSet<(Timestamp, Asks)>,
    /// Who wants to know how the handshake of a subscription ends.
    waiting: HashMap<SubscriptionId, Waiting>,
}

/// Which handshake: of a subscription with its endpoint, or with the origin of its group at this address (HP-202).
pub(super) type Asks = (SubscriptionId, Option<String>);

/// Who waits for the end of a handshake.
struct Waiting {
    /// The subscription's name, which nobody else knows once it is gone.
    name: String,
    answers: Vec<Answer<SubscriptionInfo>>,
}

impl Waiting {
    /// Adds one, and forgets those that have gone away: clients come back for as long as an endpoint is silent.
    fn add(&mut self, answer: Answer<SubscriptionInfo>) {
        self.answers.retain(|answer| !answer.is_closed());
        self.answers.push(answer);
    }
}

struct Running {
    token: String,
    abort: AbortHandle,
    /// It has reported, and what that means is on its way to the catalog.
    is_over: bool,
}

/// What a handshake has come to, if it is still under way when this is looked at.
pub(super) struct Conclusion {
    of: Asks,
    token: String,
    state: ValidationState,
    allowed_rate: Option<NonZeroU32>,
    /// Whoever called its URL.
    answer: Option<Answer<Called>>,
}

impl Validations {
    pub(super) fn new(settings: ValidationSettings) -> Self {
        Self {
            settings: Arc::new(settings),
            dry_runs: Arc::new(Semaphore::new(limits::HANDSHAKE_DRY_RUNS_MAX)),
            dry_runs_asked: Arc::new(Semaphore::new(
                limits::HANDSHAKE_DRY_RUNS_MAX + limits::HANDSHAKE_DRY_RUNS_WAITING_MAX,
            )),
            queue: VecDeque::new(),
            found: Vec::new(),
            running: HashMap::new(),
            deadlines: BTreeSet::new(),
            waiting: HashMap::new(),
        }
    }

    /// When the next one ends by itself.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Ends all tasks. What they did not report is asked again by the next engine.
    pub(super) fn abort_all(&mut self) {
        for running in self.running.values() {
            running.abort.abort();
        }
    }

    /// Whether an endpoint has to consent before it gets anything.
    pub(super) fn is_needed_for(&self, spec: &SubscriptionSpec) -> bool {
        let Destination::WebHook { endpoint_url, .. } = &spec.destination else {
            return false;
        };
        let host = url::Url::parse(endpoint_url.as_str())
            .ok()
            .and_then(|url| url.host_str().map(str::to_owned));
        self.settings
            .is_needed_at(host.as_deref().unwrap_or_default())
    }

    fn running_count(&self) -> usize {
        let running = self.running.values();
        running.filter(|running| !running.is_over).count()
    }

    fn abort(&mut self, of: &Asks) {
        if let Some(running) = self.running.remove(of) {
            running.abort.abort();
        }
    }
}

impl Engine {
    /// The handshake that has to come before a declaration holds, if one has to (ED-152, ED-163).
    pub(super) fn handshake_for(
        &self,
        id: SubscriptionId,
        existing: Option<&Subscription>,
        spec: &SubscriptionSpec,
    ) -> Option<Validation> {
        let is_consented = existing
            .is_some_and(|existing| existing.is_active() && existing.spec.is_consented_with(spec));
        if is_consented {
            return None;
        }
        if let Destination::OriginGroup(to) = &spec.destination {
            return Some(self.handshakes_for_group(id, to));
        }
        let is_needed = self.validations.is_needed_for(spec);
        is_needed.then(|| Validation::new(new_token(id)))
    }

    /// Takes up a handshake where the server left it.
    pub(super) fn take_up_validation(&mut self, id: SubscriptionId) -> Result<(), StoreError> {
        let Some((subscription, validation)) = self.validation(id) else {
            return Ok(());
        };
        if !validation.origins.is_empty() {
            for (of, _, state) in self.handshakes_of(id) {
                match state {
                    ValidationState::AwaitingManualAction { until, .. } => {
                        self.validations.deadlines.insert((until, of));
                    }
                    ValidationState::Creating => self.validations.found.push(of),
                    ValidationState::Succeeded | ValidationState::Failed { .. } => {}
                }
            }
            return Ok(());
        }
        if !validation.state.is_open() {
            return Ok(());
        }
        if !self.validations.is_needed_for(subscription.newest()) {
            // The settings ask for it no longer.
            let conclusion = Conclusion {
                of: (id, None),
                token: validation.token.clone(),
                state: ValidationState::Succeeded,
                allowed_rate: None,
                answer: None,
            };
            return self.conclude(conclusion);
        }
        let of = (id, None);
        if let ValidationState::AwaitingManualAction { until, .. } = validation.state {
            self.validations.deadlines.insert((until, of));
        } else {
            self.validations.found.push(of);
        }
        Ok(())
    }

    /// Makes the handshakes that were found at the start, now that deliveries begin.
    pub(super) fn release_validations(&mut self) {
        let found = std::mem::take(&mut self.validations.found);
        self.validations.queue.extend(found);
    }

    /// Does what the catalog now asks for: begins handshakes, waits for their ends, or forgets them.
    pub(super) fn follow_validation(&mut self, id: SubscriptionId) {
        self.validations
            .deadlines
            .retain(|(_, (other, _))| *other != id);
        let handshakes = self.handshakes_of(id);
        let known = |of: &Asks| handshakes.iter().any(|(known, ..)| known == of);
        let running = self.validations.running.keys();
        let mut gone: Vec<_> = running
            .filter(|of| of.0 == id && !known(of))
            .cloned()
            .collect();
        gone.sort_unstable();
        for of in gone {
            self.validations.abort(&of);
        }
        for (of, token, state) in handshakes {
            self.follow_handshake(of, &token, &state);
        }
        self.tell_waiting(id);
    }

    /// Those of a subscription: with its endpoint, or with each origin of its group.
    fn handshakes_of(&self, id: SubscriptionId) -> Vec<(Asks, String, ValidationState)> {
        let Some((_, validation)) = self.validation(id) else {
            return Vec::new();
        };
        if validation.token.is_empty() {
            let origins = validation.origins.iter();
            let handshakes = origins.map(|(address, origin)| {
                let of = (id, Some(address.clone()));
                (of, origin.token.clone(), origin.state.clone())
            });
            return handshakes.collect();
        }
        let (token, state) = (validation.token.clone(), validation.state.clone());
        vec![((id, None), token, state)]
    }

    fn follow_handshake(&mut self, of: Asks, token: &str, state: &ValidationState) {
        let running = self.validations.running.get(&of);
        let is_running = running.is_some_and(|running| running.token == token);
        let is_queued = self.validations.queue.contains(&of);
        if *state == ValidationState::Creating && (is_running || is_queued) {
            return;
        }
        if let Some(subscription) = self.view.catalog().subscription(of.0) {
            let source = self.view.catalog().source_of(subscription);
            log(&source, subscription, of.1.as_deref(), state);
        }
        self.validations.abort(&of);
        match state {
            ValidationState::Creating => self.validations.queue.push_back(of),
            ValidationState::AwaitingManualAction { until, .. } => {
                self.validations.deadlines.insert((*until, of));
            }
            ValidationState::Succeeded | ValidationState::Failed { .. } => {}
        }
    }

    /// Forgets the handshakes of subscriptions that are gone.
    pub(super) fn forget_validations_of_the_gone(&mut self) {
        let catalog = self.view.catalog();
        let validations = &self.validations;
        let running = validations.running.keys().map(|(id, _)| id);
        let known = running.chain(validations.waiting.keys());
        let late = validations.deadlines.iter().map(|(_, (id, _))| id);
        let gone: BTreeSet<_> = known
            .chain(late)
            .filter(|id| catalog.subscription(**id).is_none())
            .copied()
            .collect();
        for id in gone {
            self.follow_validation(id);
        }
    }

    /// Makes handshakes until no more may run.
    pub(super) fn start_handshakes(&mut self) -> Result<(), StoreError> {
        while self.phase != Phase::Stopping
            && self.validations.running_count() < limits::HANDSHAKES_MAX
        {
            let Some(of) = self.validations.queue.pop_front() else {
                break;
            };
            self.start_handshake(of)?;
        }
        Ok(())
    }

    fn start_handshake(&mut self, of: Asks) -> Result<(), StoreError> {
        let Some((subscription, token, state)) = self.handshake(&of) else {
            return Ok(());
        };
        let is_running = self.validations.running.contains_key(&of);
        if is_running || *state != ValidationState::Creating {
            return Ok(());
        }
        let token = token.to_owned();
        let topic = self.view.catalog().topic(subscription.topic);
        let asked = Asked {
            source_path: topic
                .map(|topic| source_path(topic, subscription.domain_topic.as_ref()))
                .unwrap_or_default(),
            name: subscription.name.as_str(),
            spec: subscription.newest(),
            token: &token,
            settings: Arc::clone(&self.validations.settings),
        };
        let job = match self.handshake_job(asked, of.1.as_deref()) {
            Ok(job) => job,
            // It was judged when it was declared; the rules became stricter since. Nothing else would end the handshake.
            Err(error) => {
                let exchange = Exchange {
                    time: self.now(),
                    message: format!("the endpoint cannot be used: {error}"),
                    ..Exchange::default()
                };
                return self.conclude(Conclusion {
                    of,
                    token,
                    state: ValidationState::Failed { exchange },
                    allowed_rate: None,
                    answer: None,
                });
            }
        };
        let task = self
            .spawner
            .spawn(async move { Ok(handshake::run(job).await) });
        let abort = task.abort_handle();
        let told_token = token.clone();
        let running = Running {
            token,
            abort,
            is_over: false,
        };
        let told_of = of.clone();
        self.validations.running.insert(of, running);
        let told = move |report| Internal::HandshakeEnded {
            of: told_of,
            token: told_token,
            report,
        };
        self.tell_end(task, told);
        Ok(())
    }

    /// Takes what became of a handshake.
    pub(super) fn handshake_ended(
        &mut self,
        of: Asks,
        token: &str,
        report: Result<HandshakeReport, StoreError>,
    ) -> Result<(), StoreError> {
        // One that was ended by us says nothing: the catalog knows what is next.
        let running = self.validations.running.get_mut(&of);
        let Some(running) = running.filter(|running| running.token == token) else {
            return Ok(());
        };
        running.is_over = true;
        let report = report?;
        let (state, rate) = match report.consent {
            Consent::Given(rate) => (ValidationState::Succeeded, rate),
            Consent::ByHand(_) => {
                let until = self.manual_until(report.sent);
                let exchange = report.exchange;
                let state = ValidationState::AwaitingManualAction { until, exchange };
                (state, AllowedRate::Unlimited)
            }
            Consent::Refused(_) => {
                let exchange = report.exchange;
                (ValidationState::Failed { exchange }, AllowedRate::Unlimited)
            }
        };
        let allowed_rate = self.ceiling(of.0, rate);
        self.conclude(Conclusion {
            of,
            token: report.token,
            state,
            allowed_rate,
            answer: None,
        })
    }

    /// When the URL of a handshake that was sent then is refused. People open it: where server time runs at a multiple of
    /// theirs, it has as much more of it.
    fn manual_until(&self, sent: Timestamp) -> Timestamp {
        let window = self.validations.settings.manual_window;
        sent.plus(window.saturating_mul(self.clock.speed().get()))
    }

    /// A rate that cannot be read is ignored, with a warning (ED-167).
    fn ceiling(&self, id: SubscriptionId, rate: AllowedRate) -> Option<NonZeroU32> {
        if rate == AllowedRate::Unreadable
            && let Some(subscription) = self.view.catalog().subscription(id)
        {
            tracing::warn!(
                subscription = %subscription.name,
                "the endpoint's WebHook-Allowed-Rate is neither a positive integer nor *; it is ignored"
            );
        }
        rate.per_minute()
    }

    /// Ends the handshakes whose URL was not opened in time (ED-158).
    pub(super) fn expire_validations(&mut self) -> Result<(), StoreError> {
        let now = self.now();
        while let Some((until, _)) = self.validations.deadlines.first()
            && *until <= now
            && let Some((_, of)) = self.validations.deadlines.pop_first()
        {
            let Some((_, token, state)) = self.handshake(&of) else {
                continue;
            };
            let ValidationState::AwaitingManualAction { exchange, .. } = state else {
                continue;
            };
            let exchange = Exchange {
                time: now,
                message: format!(
                    "nobody opened the validation URL in {:?}; before, {}",
                    self.validations.settings.manual_window, exchange.message
                ),
                ..exchange.clone()
            };
            let conclusion = Conclusion {
                token: token.to_owned(),
                of,
                state: ValidationState::Failed { exchange },
                allowed_rate: None,
                answer: None,
            };
            self.conclude(conclusion)?;
        }
        Ok(())
    }

    /// Somebody called the URL of a handshake (ED-158, ED-168).
    pub(super) fn call_back(
        &mut self,
        callback: &Callback,
        answer: Answer<Called>,
    ) -> Result<(), StoreError> {
        let Some((of, subscription, state)) = self.validation_of(&callback.token) else {
            reply(answer, Ok(Called::Unknown));
            return Ok(());
        };
        let takes_post =
            subscription.newest().event_delivery_schema == DeliverySchema::CloudEventSchemaV1_0;
        let refused = match *state {
            _ if callback.is_post && !takes_post => Some(Called::GetOnly),
            ValidationState::Succeeded => Some(Called::Used),
            ValidationState::Failed { .. } => Some(Called::Expired),
            ValidationState::AwaitingManualAction { until, .. } if until <= self.now() => {
                Some(Called::Expired)
            }
            ValidationState::Creating | ValidationState::AwaitingManualAction { .. } => None,
        };
        if let Some(refused) = refused {
            reply(answer, Ok(refused));
            return Ok(());
        }
        let rate = if takes_post {
            callback.rate
        } else {
            AllowedRate::Unlimited
        };
        let allowed_rate = self.ceiling(of.0, rate);
        self.conclude(Conclusion {
            of,
            token: callback.token.clone(),
            state: ValidationState::Succeeded,
            allowed_rate,
            answer: Some(answer),
        })
    }

    /// Answers when the handshake of a subscription has ended, or waits for somebody.
    pub(super) fn await_validation(
        &mut self,
        id: SubscriptionId,
        name: String,
        answer: Answer<SubscriptionInfo>,
    ) {
        let waiting = self.validations.waiting.entry(id).or_insert(Waiting {
            name,
            answers: Vec::new(),
        });
        waiting.add(answer);
        self.tell_waiting(id);
    }

    /// Tells who waits, if there is nothing to wait for any more.
    fn tell_waiting(&mut self, id: SubscriptionId) {
        let found = self.view.catalog().subscription(id);
        if found.is_some_and(|found| found.newest_provisioning() == Provisioning::Creating) {
            return;
        }
        let Some(Waiting { name, answers }) = self.validations.waiting.remove(&id) else {
            return;
        };
        for answer in answers {
            let info = found.map(|found| self.info(found));
            let gone = || CommandError::NotFound {
                what: "event subscription",
                name: name.clone(),
            };
            reply(answer, info.ok_or_else(gone));
        }
    }

    /// The change that a conclusion asks for; `None` if its handshake is over, or another one by now.
    pub(super) fn change_for_conclusion(
        &self,
        conclusion: Conclusion,
    ) -> Option<(Change, Answered)> {
        let Conclusion {
            of,
            token,
            state,
            allowed_rate,
            answer,
        } = conclusion;
        let found = self.handshake(&of);
        let found = found.filter(|(_, present, _)| *present == token);
        let Some((subscription, ..)) = found.filter(|(.., state)| state.is_open()) else {
            if let Some(answer) = answer {
                let called = match found {
                    Some(_) => Called::Used,
                    None => Called::Unknown,
                };
                reply(answer, Ok(called));
            }
            return None;
        };
        let called = Called::Completed {
            topic: self.view.catalog().source_of(subscription),
            subscription: subscription.name.as_str().to_owned(),
        };
        let change = match of {
            (id, None) => Change::SubscriptionValidated {
                id,
                state,
                allowed_rate,
            },
            (id, Some(origin)) => Change::OriginValidated {
                id,
                origin,
                state,
                allowed_rate,
            },
        };
        let answered: Answered = Box::new(move |made| {
            if let Some(answer) = answer {
                reply(answer, made.map(|_| called));
            }
        });
        Some((change, answered))
    }

    fn validation(&self, id: SubscriptionId) -> Option<(&Subscription, &Validation)> {
        let subscription = self.view.catalog().subscription(id)?;
        Some((subscription, subscription.validation.as_ref()?))
    }

    /// The token and the state of a handshake.
    fn handshake(&self, of: &Asks) -> Option<(&Subscription, &str, &ValidationState)> {
        let (subscription, validation) = self.validation(of.0)?;
        Some(match &of.1 {
            None => (subscription, &validation.token, &validation.state),
            Some(address) => {
                let origin = validation.origins.get(address)?;
                (subscription, &origin.token, &origin.state)
            }
        })
    }

    /// The handshake with this token. It is compared in constant time; the id before it is no secret.
    fn validation_of(&self, token: &str) -> Option<(Asks, &Subscription, &ValidationState)> {
        let (id, _) = token.split_once('.')?;
        let id = SubscriptionId(id.parse().ok()?);
        let (subscription, validation) = self.validation(id)?;
        let is_it = |other: &str| bool::from(other.as_bytes().ct_eq(token.as_bytes()));
        if is_it(&validation.token) {
            return Some(((id, None), subscription, &validation.state));
        }
        let mut origins = validation.origins.iter();
        let (address, origin) = origins.find(|(_, origin)| is_it(&origin.token))?;
        Some(((id, Some(address.clone())), subscription, &origin.state))
    }
}

/// The secret of a handshake: the subscription's number, so that it is found, and 256 bits of chance.
pub(super) fn new_token(id: SubscriptionId) -> String {
    use base64::Engine as _;
    let chance = chance::bytes::<32>();
    let secret = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(chance);
    format!("{}.{secret}", id.0)
}

/// One line for each step of a handshake.
fn log(topic: &str, subscription: &Subscription, origin: Option<&str>, state: &ValidationState) {
    let name = subscription.name.as_str();
    let is_update = subscription.update.is_some();
    let provisioning = state.provisioning().as_str();
    match state.exchange() {
        None => tracing::info!(
            topic,
            subscription = name,
            origin,
            is_update,
            provisioning,
            "endpoint validation"
        ),
        Some(exchange) => tracing::warn!(
            topic,
            subscription = name,
            origin,
            is_update,
            provisioning,
            status = exchange.status,
            error = exchange.error,
            tries = exchange.tries,
            reason = exchange.message,
            "endpoint validation"
        ),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn who_has_gone_away_is_forgotten() {
        let mut waiting = Waiting {
            name: "billing".to_owned(),
            answers: Vec::new(),
        };
        let (stays, _answered) = oneshot::channel();
        waiting.add(stays);
        for _ in 0..1_000 {
            let (goes, answered) = oneshot::channel();
            waiting.add(goes);
            drop(answered);
        }
        assert!(waiting.answers.len() <= 2, "{}", waiting.answers.len());
        assert!(!waiting.answers[0].is_closed());
    }
}
