//! Endpoints that are only tried (ED-312): handshakes and test events run beside the loop, answer whoever asked, and leave
//! nothing behind.

use std::sync::Arc;

use hedgerow_core::spec::{Destination, SubscriptionSpec};
use hedgerow_core::validation::ValidationSettings;
use hedgerow_store::catalog::Subscription;
use tokio::sync::OwnedSemaphorePermit;

use super::Engine;
use super::checks::Beside;
use super::declarations::reply;
use super::handshakes::Asked;
use super::validations::new_token;
use crate::command::{Answer, CommandError};
use crate::dry_run::{DryRun, DryRunQuery};
use crate::endpoint_test::{self, EndpointTest, EndpointTestQuery, NONE, TestJob};
use crate::handshake::{self, HandshakeJob};
use crate::origins::{Origin, Route};
use crate::plan::Plan;

/// What testing an endpoint takes.
struct Test {
    /// `None` if none would be made there.
    handshake: Option<HandshakeJob>,
    /// Whether the endpoint gets events of this subscription already.
    is_consented: bool,
    event: TestJob,
}

impl Engine {
    /// Asks an endpoint once, and answers what it came to.
    pub(super) fn dry_run(&self, query: &DryRunQuery, answer: Answer<DryRun>) {
        let job = match self.tried_handshake(query, false) {
            Ok(job) => job,
            Err(refused) => return reply(answer, Err(refused)),
        };
        self.try_out(answer, async { Ok(DryRun::of(handshake::run(job).await)) });
    }

    /// Makes the handshake as it would be made, sends one event if the endpoint consents or did before, and answers what each
    /// came to.
    pub(super) fn test_endpoint(&self, query: EndpointTestQuery, answer: Answer<EndpointTest>) {
        let test = match self.test_of(query) {
            Ok(test) => test,
            Err(refused) => return reply(answer, Err(refused)),
        };
        self.try_out(answer, async move {
            let handshake = match test.handshake {
                Some(job) => Some(DryRun::of(handshake::run(job).await)),
                None => None,
            };
            let asked = handshake.as_ref();
            let consents = asked.is_none_or(|handshake| handshake.failed_at.is_none());
            let delivery = if consents || test.is_consented {
                let sent = endpoint_test::run(test.event).await;
                Some(sent.map_err(|_| CommandError::Unavailable)?)
            } else {
                None
            };
            Ok(EndpointTest {
                handshake,
                delivery,
            })
        });
    }

    /// Does this when it has its turn, and answers; ends when nobody waits for the answer any more.
    fn try_out<T: Send + 'static>(
        &self,
        mut answer: Answer<T>,
        trying: impl Future<Output = Result<T, CommandError>> + Send + 'static,
    ) {
        let asked = Arc::clone(&self.validations.dry_runs_asked);
        let Ok(place) = asked.try_acquire_owned() else {
            let message = "too many endpoints are being tried already".to_owned();
            return reply(answer, Err(CommandError::Busy(message)));
        };
        let dry_runs = Arc::clone(&self.validations.dry_runs);
        self.spawner.spawn(async move {
            let _place: OwnedSemaphorePermit = place;
            let trying = async {
                let _permit = dry_runs.acquire_owned().await;
                trying.await
            };
            let tried = tokio::select! {
                tried = trying => tried,
                () = answer.closed() => return,
            };
            reply(answer, tried);
        });
    }

    /// The handshake with an endpoint as somebody would declare it, once.
    fn tried_handshake(
        &self,
        query: &DryRunQuery,
        is_watched: bool,
    ) -> Result<HandshakeJob, CommandError> {
        let DryRunQuery {
            topic,
            name,
            spec,
            origin,
        } = query;
        self.check_subscription(topic, Beside::default(), name, spec)?;
        let settings = ValidationSettings {
            // Whoever asks can ask again, and is waiting.
            tries_max: 1,
            ..(*self.validations.settings).clone()
        };
        let asked = Asked {
            source_path: self.source_path(topic),
            name: name.as_str(),
            spec,
            token: &new_token(NONE),
            settings: Arc::new(settings),
        };
        let origin = self.tried_origin(spec, origin.as_deref())?;
        let address = origin.as_ref().map(|origin| &*origin.address);
        let job = self.handshake_job(asked, address);
        // It was judged above, by the same rules.
        let job = job.map_err(|_| CommandError::Unavailable)?;
        Ok(HandshakeJob { is_watched, ..job })
    }

    /// The origin that is tried; `None` of an endpoint.
    fn tried_origin(
        &self,
        spec: &SubscriptionSpec,
        name: Option<&str>,
    ) -> Result<Option<Arc<Origin>>, CommandError> {
        let Destination::OriginGroup(to) = &spec.destination else {
            return Ok(None);
        };
        let mut origins = self.enabled_origins(to).into_iter();
        let found = origins.find(|origin| Some(&*origin.name) == name);
        found.map(Some).ok_or_else(|| CommandError::NotFound {
            what: "enabled origin",
            name: name.unwrap_or_default().to_owned(),
        })
    }

    fn test_of(&self, query: EndpointTestQuery) -> Result<Test, CommandError> {
        let EndpointTestQuery { endpoint, event } = query;
        let handshake = self.tried_handshake(&endpoint, true)?;
        let DryRunQuery {
            topic,
            name,
            spec,
            origin,
        } = endpoint;
        let origin = self.tried_origin(&spec, origin.as_deref())?;
        let is_needed = match &origin {
            None => self.validations.is_needed_for(&spec),
            Some(origin) => self.validations.is_needed_at(origin),
        };
        let existing = self.subscription_named(&topic, name.as_str()).ok();
        let is_consented = existing.is_some_and(|existing| {
            let has_consent = |origin: &Arc<Origin>| existing.has_consent_of(&origin.address);
            existing.is_active()
                && existing.spec.is_consented_with(&spec)
                && origin.as_ref().is_none_or(has_consent)
        });
        let group = spec.destination.origin_group();
        let group = group.map_or("", |group| group.as_str()).to_owned();
        let route = origin.map(|origin| Arc::new(Route::tried(&group, origin)));
        let (topic, domain_topic) = self.source_named(&topic)?;
        let subscription = Subscription {
            domain_topic,
            ..Subscription::new(NONE, topic.id, name, *spec, self.now())
        };
        let plan = Plan::new(topic, &subscription).map_err(|_| CommandError::Unavailable)?;
        Ok(Test {
            handshake: is_needed.then_some(handshake),
            is_consented,
            event: TestJob {
                context: Arc::clone(&self.context),
                plan: Arc::new(plan),
                topic: topic.id,
                event,
                retry: self.settings.retry.clone(),
                route,
            },
        })
    }
}
