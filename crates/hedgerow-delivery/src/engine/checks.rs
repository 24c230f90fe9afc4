//! What keeps a declaration of a subscription from being made: judged when it is to be made, and before anything is for several
//! that are made together or not at all.

use hedgerow_core::limits;
use hedgerow_core::name::SubscriptionName;
use hedgerow_core::spec::{
    Destination, InputSchema, OriginGroupEndpoint, SpecError, SubscriptionSpec, TopicSpec,
};
use hedgerow_io::http::ExtraRoots;
use hedgerow_store::catalog::Subscription;

use super::Engine;
use crate::command::CommandError;
use crate::plan::{endpoint, path_of_group, tls_demands};

/// What is declared before a subscription, and is not there yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside<'d> {
    pub topic: Option<&'d TopicSpec>,
    pub has_domain_topic: bool,
    /// Its origin group, which is judged by itself.
    pub has_group: bool,
}

impl Engine {
    /// Judges a subscription as its declaration would, of what is there, or is declared before it.
    pub(super) fn check_subscription(
        &self,
        topic: &str,
        beside: Beside<'_>,
        name: &SubscriptionName,
        spec: &SubscriptionSpec,
    ) -> Result<(), CommandError> {
        let has_new_domain_topic = beside.has_domain_topic;
        let built_in = self.lacks_built_in(topic).then(TopicSpec::of_dead_letters);
        let new_topic = built_in.as_ref().or(beside.topic);
        let (input, existing) = match (self.source_named(topic), new_topic) {
            (Ok((found, domain_topic)), _) => {
                let of = domain_topic.as_ref();
                let existing = self
                    .view
                    .catalog()
                    .subscription_named(found.id, of, name.as_str());
                if existing.is_none() && !has_new_domain_topic {
                    self.judge_domain_topic(found, of)?;
                }
                (found.spec.input_schema, existing)
            }
            (Err(_), Some(new)) => {
                if !has_new_domain_topic && built_in.is_none() {
                    Self::check_new_source(topic, new)?;
                }
                (new.input_schema, None)
            }
            (Err(error), None) => return Err(error),
        };
        if !beside.has_group {
            self.judge_endpoint(spec)?;
        }
        self.judge_all_but_endpoint(input, existing, spec)
    }

    /// Judges a declaration for a topic whose events come in `input`, in place of `existing` if it is there.
    pub(super) fn judge(
        &self,
        input: InputSchema,
        existing: Option<&Subscription>,
        spec: &SubscriptionSpec,
    ) -> Result<(), CommandError> {
        self.judge_endpoint(spec)?;
        self.judge_all_but_endpoint(input, existing, spec)
    }

    fn judge_all_but_endpoint(
        &self,
        input: InputSchema,
        existing: Option<&Subscription>,
        spec: &SubscriptionSpec,
    ) -> Result<(), CommandError> {
        if spec.is_expired(self.now()) {
            let (field, message) = (
                "expirationTimeUtc".to_owned(),
                "must not be past".to_owned(),
            );
            return Err(CommandError::Invalid(SpecError { field, message }));
        }
        self.judge_rotation(existing, spec)?;
        if let Some(existing) = existing {
            Self::judge_filters_in_force(existing, spec)?;
        }
        let existing = existing.map(|existing| existing.spec.event_delivery_schema);
        // A delivery schema that the topic's events have no form in, or another one than before (ED-130, ED-131).
        let schema = spec.event_delivery_schema.check_for(input, existing);
        let (filter, limits) = (&spec.filter, self.settings.filter_limits);
        // A filter that asks for more than the server's settings allow (ED-116, ED-118), or for what the topic's events never
        // have (FC-03).
        schema
            .and_then(|()| limits.judge(filter, "filter"))
            .and_then(|()| filter.check_keys(input, "filter"))
            .map_err(CommandError::Invalid)
    }

    /// Refuses another filter for a subscription that stands before events of too many already (ED-085): none of them can be
    /// forgotten before it has come to the next one's events.
    fn judge_filters_in_force(
        existing: &Subscription,
        spec: &SubscriptionSpec,
    ) -> Result<(), CommandError> {
        let count = existing.filters.len();
        if count < limits::FILTERS_IN_FORCE_MAX || existing.spec.filter == spec.filter {
            return Ok(());
        }
        Err(CommandError::FilterLimit(format!(
            "event subscription \"{}\" has {count} filters in force, no more are possible: each decides about the events \
             that were published while it was declared and are still to be delivered",
            existing.name,
        )))
    }

    /// Refuses a secret before the newest one that does not hold any more (ED-142). What is declared already may be past by now, and is
    /// declared again with other changes.
    fn judge_rotation(
        &self,
        existing: Option<&Subscription>,
        spec: &SubscriptionSpec,
    ) -> Result<(), CommandError> {
        let until = |spec: &SubscriptionSpec| spec.signing.as_ref()?.previous.as_ref()?.until;
        let declared = until(spec);
        let is_past = declared.is_some_and(|until| until <= self.now());
        if !is_past || existing.and_then(|existing| until(existing.declared())) == declared {
            return Ok(());
        }
        Err(CommandError::Invalid(SpecError {
            field: "signing.previousSecretValidUntil".to_owned(),
            message: "must not be past".to_owned(),
        }))
    }

    /// Refuses a group that there is not, and one with an origin that no attempt could reach (ED-120).
    fn judge_group(&self, to: &OriginGroupEndpoint) -> Result<(), CommandError> {
        let refused = |message: String| {
            let field = "destination.properties.originGroup".to_owned();
            CommandError::Invalid(SpecError { field, message })
        };
        let name = to.group().as_str();
        if self.view.catalog().origin_group_named(name).is_none() {
            return Err(refused(format!("there is no origin group \"{name}\"")));
        }
        for origin in self.enabled_origins(to) {
            let url = url::Url::parse(&origin.target.to_string());
            let url = url.map_err(|error| refused(error.to_string()))?;
            self.guard.judge_url(&url).map_err(|denied| {
                refused(format!(
                    "its origin \"{}\" cannot be used: {denied}",
                    origin.name
                ))
            })?;
        }
        path_of_group(to).map(drop).map_err(refused)
    }

    /// Refuses an endpoint that no attempt could reach, in the words of the rule that closes it (FC-15).
    fn judge_endpoint(&self, spec: &SubscriptionSpec) -> Result<(), CommandError> {
        let (endpoint_url, tls) = match &spec.destination {
            Destination::WebHook { endpoint_url, tls } => (endpoint_url, tls),
            Destination::OriginGroup(to) => return self.judge_group(to),
        };
        let refused_at = |member: &str, message: String| {
            let field = format!("destination.properties.{member}");
            CommandError::Invalid(SpecError { field, message })
        };
        let refused = |message| refused_at("endpointUrl", message);
        let certificates = tls.extra_ca_certificates.as_deref();
        certificates
            .map_or(Ok(()), ExtraRoots::judge_blocks)
            .and_then(|()| tls_demands(tls).map(|_| ()))
            .map_err(|message| refused_at("extraCaCertificates", message))?;
        let url = url::Url::parse(endpoint_url.as_str()).map_err(|e| refused(e.to_string()))?;
        self.guard
            .judge_url(&url)
            .map_err(|denied| refused(denied.to_string()))?;
        endpoint(endpoint_url, tls).map(drop).map_err(refused)
    }
}
