//! What an endpoint is asked, by a subscription or to try it out.

use std::sync::Arc;

use hedgerow_core::spec::{DeliverySchema, Destination, SubscriptionSpec};
use hedgerow_core::validation::ValidationSettings;
use hedgerow_dialect::delivery::{CustomHeaders, Signer};

use super::Engine;
use crate::handshake::{Form, HandshakeJob};
use crate::plan::{endpoint, path_of_group};

/// What a handshake is made of.
pub(super) struct Asked<'a> {
    /// The resource path of what the subscription is made for.
    pub(super) source_path: String,
    pub(super) name: &'a str,
    pub(super) spec: &'a SubscriptionSpec,
    /// The secret of the URL that completes it.
    pub(super) token: &'a str,
    pub(super) settings: Arc<ValidationSettings>,
}

impl Engine {
    /// What the endpoint is to be asked, or of a group the origin at this address; the reason if no request can be made for it.
    pub(super) fn handshake_job(
        &self,
        asked: Asked<'_>,
        address: Option<&str>,
    ) -> Result<HandshakeJob, String> {
        let (target, path_and_query, host_header) = match &asked.spec.destination {
            Destination::WebHook { endpoint_url, tls } => {
                let (target, path_and_query) = endpoint(endpoint_url, tls)?;
                (target, path_and_query, None)
            }
            Destination::OriginGroup(to) => {
                let mut origins = self.enabled_origins(to).into_iter();
                let origin = origins.find(|origin| Some(&*origin.address) == address);
                let origin = origin.ok_or("there is no such origin any more")?;
                let path_and_query = path_of_group(to)?;
                (
                    origin.target.clone(),
                    path_and_query,
                    origin.host_header.clone(),
                )
            }
        };
        let form = match asked.spec.event_delivery_schema {
            DeliverySchema::CloudEventSchemaV1_0 => Form::Options {
                origin: self.settings.webhook_origin.clone(),
            },
            DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => Form::Event {
                topic_path: asked.source_path,
            },
        };
        Ok(HandshakeJob {
            subscription_name: asked.name.to_owned(),
            upper_case_name: self.settings.subscription_name_upper_case,
            target,
            path_and_query,
            host_header,
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
