//! What an endpoint is asked, by a subscription or to try it out.

use std::sync::Arc;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{DeliverySchema, Destination, SubscriptionSpec};
use hedgerow_core::validation::ValidationSettings;
use hedgerow_dialect::delivery::{CustomHeaders, Signer};

use super::Engine;
use crate::handshake::{Form, HandshakeJob};
use crate::plan::endpoint;

/// What a handshake is made of.
pub(super) struct Asked<'a> {
    pub(super) id: SubscriptionId,
    /// The resource path of what the subscription is made for.
    pub(super) source_path: String,
    pub(super) name: &'a str,
    pub(super) spec: &'a SubscriptionSpec,
    /// The secret of the URL that completes it.
    pub(super) token: &'a str,
    pub(super) settings: Arc<ValidationSettings>,
}

impl Engine {
    /// What the endpoint is to be asked; the reason if no request can be made for it.
    pub(super) fn handshake_job(&self, asked: Asked<'_>) -> Result<HandshakeJob, String> {
        let Destination::WebHook { endpoint_url, tls } = &asked.spec.destination else {
            return Err("it is no endpoint".to_owned());
        };
        let (target, path_and_query) = endpoint(endpoint_url, tls)?;
        let form = match asked.spec.event_delivery_schema {
            DeliverySchema::CloudEventSchemaV1_0 => Form::Options {
                origin: self.settings.webhook_origin.clone(),
            },
            DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => Form::Event {
                topic_path: asked.source_path,
            },
        };
        Ok(HandshakeJob {
            subscription: asked.id,
            subscription_name: asked.name.to_owned(),
            upper_case_name: self.settings.subscription_name_upper_case,
            target,
            path_and_query,
            form,
            custom_headers: CustomHeaders::new(&asked.spec.delivery_attributes),
            signer: asked.spec.signing.as_ref().map(Signer::new),
            url: format!("{}/validate/{}", self.settings.public_url, asked.token),
            token: asked.token.to_owned(),
            settings: asked.settings,
            client: Arc::clone(&self.context.client),
            clock: Arc::clone(&self.clock),
            is_watched: false,
        })
    }
}
