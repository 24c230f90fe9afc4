//! What an endpoint is asked, and handshakes that are only tried (ED-312): those run beside the loop, answer whoever asked, and
//! leave nothing behind.

use std::sync::Arc;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{DeliverySchema, Destination, SubscriptionSpec};
use hedgerow_core::validation::ValidationSettings;
use hedgerow_dialect::event_grid;

use super::Engine;
use super::declarations::reply;
use super::validations::new_token;
use crate::command::{Answer, CommandError};
use crate::dry_run::{DryRun, DryRunQuery};
use crate::handshake::{self, Form, HandshakeJob};
use crate::plan::endpoint;

/// Of no subscription: ids begin at 1, and nobody can complete a handshake of this one.
const NONE: SubscriptionId = SubscriptionId(0);

/// What a handshake is made of.
pub(super) struct Asked<'a> {
    pub(super) id: SubscriptionId,
    /// The topic's name.
    pub(super) topic: &'a str,
    pub(super) name: &'a str,
    pub(super) spec: &'a SubscriptionSpec,
    /// The secret of the URL that completes it.
    pub(super) token: &'a str,
    pub(super) settings: Arc<ValidationSettings>,
}

impl Engine {
    /// What the endpoint is to be asked; the reason if no request can be made for it.
    pub(super) fn handshake_job(&self, asked: Asked<'_>) -> Result<HandshakeJob, String> {
        let Destination::WebHook { endpoint_url, tls } = &asked.spec.destination;
        let (target, path_and_query) = endpoint(endpoint_url, tls)?;
        let form = match asked.spec.event_delivery_schema {
            DeliverySchema::CloudEventSchemaV1_0 => Form::Options {
                origin: self.settings.webhook_origin.clone(),
            },
            DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => Form::Event {
                topic_path: event_grid::topic_path(asked.topic),
            },
        };
        Ok(HandshakeJob {
            subscription: asked.id,
            subscription_name: asked.name.to_owned(),
            upper_case_name: self.settings.subscription_name_upper_case,
            target,
            path_and_query,
            form,
            url: format!("{}/validate/{}", self.settings.public_url, asked.token),
            token: asked.token.to_owned(),
            settings: asked.settings,
            client: Arc::clone(&self.context.client),
            clock: Arc::clone(&self.clock),
        })
    }

    /// Asks an endpoint once, and answers what it came to.
    pub(super) fn dry_run(&self, query: &DryRunQuery, mut answer: Answer<DryRun>) {
        let DryRunQuery { topic, name, spec } = query;
        if let Err(refused) = self.check_subscription(topic, None, name, spec) {
            return reply(answer, Err(refused));
        }
        let settings = ValidationSettings {
            // Whoever asks can ask again, and is waiting.
            tries_max: 1,
            ..(*self.validations.settings).clone()
        };
        let job = self.handshake_job(Asked {
            id: NONE,
            topic,
            name: name.as_str(),
            spec,
            token: &new_token(NONE),
            settings: Arc::new(settings),
        });
        // It was judged above, by the same rules.
        let Ok(job) = job else {
            return reply(answer, Err(CommandError::Unavailable));
        };
        let Ok(place) = Arc::clone(&self.validations.dry_runs_asked).try_acquire_owned() else {
            let message = "too many endpoints are being tried already".to_owned();
            return reply(answer, Err(CommandError::Busy(message)));
        };
        let dry_runs = Arc::clone(&self.validations.dry_runs);
        self.spawner.spawn(async move {
            let _place = place;
            let asking = async {
                let _permit = dry_runs.acquire_owned().await;
                handshake::run(job).await
            };
            let report = tokio::select! {
                report = asking => report,
                () = answer.closed() => return,
            };
            reply(answer, Ok(DryRun::of(report)));
        });
    }
}
