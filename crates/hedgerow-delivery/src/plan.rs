//! What an attempt needs of its subscription. Made when the subscription is declared or changed, read when an attempt is
//! made: endpoint, headers, timeout and policy are never versioned by position (ED-085). What is, the filter, is not here.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::uri::{InvalidUri, PathAndQuery};

use hedgerow_core::batch::{AnswerSettings, BatchLimits};
use hedgerow_core::dead_letter::DeadLetterSettings;
use hedgerow_core::hold::DelayedDeliverySettings;
use hedgerow_core::outcome::{DestinationKind, Overrides};
use hedgerow_core::retry::RetryPolicy;
use hedgerow_core::spec::{
    DeadLetterDestination, DeliverySchema, Destination, EndpointLimits, EndpointUrl, OnFailure,
    OriginGroupEndpoint, ProbationSpec, Profile, WebhookTls,
};
use hedgerow_core::time::Timestamp;
use hedgerow_core::validation::start_interval;
use hedgerow_dialect::delivery::{CustomHeaders, Signer};
use hedgerow_io::http::{ExtraRoots, Target, TlsDemands};
use hedgerow_store::catalog::{Subscription, Topic, source_name};

use crate::origins::ToGroup;
use crate::source::{path_of_topic, source_path};
use crate::strike::Secrets;
use crate::windows::{At, EndpointKey};

/// What an attempt needs of its subscription.
#[allow(clippy::struct_excessive_bools)] // Each is declared by itself.
pub(crate) struct Plan {
    /// What the subscription is made for, as people name it: a topic, a domain, or a domain topic.
    pub(crate) topic_name: Arc<str>,
    /// The resource path of its topic, or of its domain whatever the topic.
    pub(crate) topic_path: String,
    /// The resource path of what the subscription is made for.
    pub(crate) source_path: String,
    /// Whether the topic tells of dead letters: what cannot be delivered of that must not go round in a circle (ED-264).
    pub(crate) is_of_notices: bool,
    pub(crate) subscription_name: Arc<str>,
    pub(crate) to: To,
    /// Path and query of the endpoint, sent unchanged (ED-121).
    pub(crate) path_and_query: PathAndQuery,
    pub(crate) kind: DestinationKind,
    pub(crate) policy: RetryPolicy,
    pub(crate) overrides: Overrides,
    /// An answer 410 pauses the subscription (ED-186).
    pub(crate) disable_on_gone: bool,
    pub(crate) response_timeout: Duration,
    /// The form of what is sent.
    pub(crate) delivery_schema: DeliverySchema,
    /// What it adds to the headers of what is sent (ED-143).
    pub(crate) custom_headers: CustomHeaders,
    /// What it asks of its endpoint at most.
    pub(crate) limits: EndpointLimits,
    /// What it is signed with, if it is (ED-142).
    pub(crate) signer: Option<Signer>,
    /// Where what is given up is written; `None` to drop it (ED-244).
    pub(crate) dead_letter_destination: Option<DeadLetterDestination>,
    pub(crate) dead_letter: DeadLetterSettings,
    /// Which defaults its topic has; `None` for the server's.
    pub(crate) profile: Option<Profile>,
    /// The least time between two starts, if the endpoint asked for one (ED-167).
    pub(crate) start_interval: Option<Duration>,
    pub(crate) probation: ProbationSpec,
    pub(crate) delayed_delivery: DelayedDeliverySettings,
    /// The endpoint as delayed delivery knows it.
    pub(crate) delayed_at: Arc<EndpointKey>,
    /// How much travels together; `None` if events are sent one by one.
    pub(crate) batch: Option<BatchLimits>,
    pub(crate) batch_answers: AnswerSettings,
    /// An event that fails for good is tried again, and those of its key wait.
    pub(crate) blocks: bool,
    /// Nothing is attempted (ED-312).
    pub(crate) is_paused: bool,
    /// From then on nothing is attempted either, and it is about to be deleted (ED-173).
    pub(crate) expiration: Option<Timestamp>,
    /// Made when an answer is first shown: most subscriptions have none at a time.
    secrets: OnceLock<Secrets>,
    path_secrets: OnceLock<Secrets>,
}

/// Where attempts go.
#[derive(PartialEq)]
pub(crate) enum To {
    /// To one endpoint.
    Endpoint {
        target: Target,
        /// The endpoint key of the target.
        endpoint: Target,
    },
    /// To an origin of this group, which each attempt chooses (HP-200).
    Group(ToGroup),
}

impl std::fmt::Display for To {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Endpoint { target, .. } => target.fmt(f),
            Self::Group(to) => write!(f, "origin-group:{}", to.name),
        }
    }
}

/// The limits of events that never end.
const NO_END: RetryPolicy = RetryPolicy {
    max_delivery_attempts: u16::MAX,
    event_time_to_live: Duration::MAX,
};

/// An endpoint that cannot be sent to. Refused when a subscription is declared; met again only if the rules for
/// endpoints became stricter since.
#[derive(Debug, thiserror::Error)]
#[error("endpoint of subscription \"{subscription}\" cannot be used: {reason}")]
pub(crate) struct PlanError {
    pub(crate) subscription: String,
    pub(crate) reason: String,
}

impl Plan {
    pub(crate) fn new(topic: &Topic, subscription: &Subscription) -> Result<Self, PlanError> {
        let refused = |reason: String| PlanError {
            subscription: subscription.name.as_str().to_owned(),
            reason,
        };
        let (to, path_and_query) = to(&subscription.spec.destination).map_err(refused)?;
        let delayed_at = Arc::new(EndpointKey {
            at: match &to {
                To::Endpoint { endpoint, .. } => At::Endpoint(endpoint.clone()),
                To::Group(to) => At::Group(to.clone()),
            },
            path: path_and_query.path().to_owned(),
        });
        let ordering = subscription.spec.ordering.as_ref();
        let blocks = ordering.is_some_and(|ordering| ordering.on_failure == OnFailure::Block);
        Ok(Self {
            topic_name: source_name(topic.name.as_str(), subscription.domain_topic.as_ref()).into(),
            topic_path: path_of_topic(topic),
            source_path: source_path(topic, subscription.domain_topic.as_ref()),
            is_of_notices: topic.spec.source.is_some(),
            subscription_name: subscription.name.as_str().into(),
            to,
            path_and_query,
            kind: subscription.spec.destination.kind(),
            policy: if blocks {
                NO_END
            } else {
                subscription.spec.retry_policy
            },
            blocks,
            overrides: subscription.spec.overrides.clone(),
            disable_on_gone: subscription.spec.disable_on_gone,
            response_timeout: subscription.spec.response_timeout,
            delivery_schema: subscription.spec.event_delivery_schema,
            custom_headers: CustomHeaders::new(&subscription.spec.delivery_attributes),
            limits: subscription.spec.endpoint_limits,
            signer: subscription.spec.signing.as_ref().map(Signer::new),
            dead_letter_destination: subscription.spec.dead_letter_destination.clone(),
            dead_letter: subscription.spec.dead_letter,
            profile: topic.spec.profile,
            start_interval: subscription.allowed_rate.map(start_interval),
            probation: subscription.spec.probation,
            delayed_delivery: subscription.spec.delayed_delivery,
            delayed_at,
            batch: subscription.spec.batch.limits(),
            batch_answers: subscription.spec.batch.answers,
            is_paused: subscription.is_paused,
            expiration: subscription.spec.expiration,
            secrets: OnceLock::new(),
            path_secrets: OnceLock::new(),
        })
    }

    /// What of the endpoint's URL (ED-121) and of the headers (ED-149) is shown nowhere.
    pub(crate) fn secrets(&self) -> &Secrets {
        let url = &self.path_and_query;
        let secrets = || {
            let headers = secret_headers(&self.custom_headers);
            Secrets::of_endpoint(url.path(), &[url.query().unwrap_or_default()], &headers)
        };
        self.secrets.get_or_init(secrets)
    }

    /// What of it stands in no log besides.
    pub(crate) fn path_secrets(&self) -> &Secrets {
        let path = || self.path_and_query.path();
        self.path_secrets.get_or_init(|| Secrets::of_path(path()))
    }

    /// Whether a notice that has been through these containers would come back to where it tells of (ED-264).
    pub(crate) fn is_circular(&self, containers: &BTreeSet<String>) -> bool {
        let destination = self.dead_letter_destination.as_ref();
        destination.is_some_and(|to| containers.contains(to.container().as_str()))
    }

    /// Whether both send to the same URL, or to the same path at the same group.
    pub(crate) fn is_same_endpoint(&self, other: &Self) -> bool {
        self.to == other.to && self.path_and_query == other.path_and_query
    }

    /// The group that it delivers to, if it does.
    pub(crate) const fn group(&self) -> Option<&ToGroup> {
        match &self.to {
            To::Endpoint { .. } => None,
            To::Group(to) => Some(to),
        }
    }
}

/// The values that are shown nowhere (ED-149).
pub(crate) fn secret_headers(headers: &CustomHeaders) -> Vec<String> {
    let fixed = headers.fixed().map(|(_, value)| value);
    let secret = fixed.filter(|value| value.is_sensitive());
    secret
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect()
}

/// Where attempts go, and what is asked for there.
fn to(destination: &Destination) -> Result<(To, PathAndQuery), String> {
    match destination {
        Destination::WebHook { endpoint_url, tls } => {
            let (target, path_and_query) = endpoint(endpoint_url, tls)?;
            let endpoint = target.endpoint();
            Ok((To::Endpoint { target, endpoint }, path_and_query))
        }
        Destination::OriginGroup(group) => {
            let to = ToGroup {
                name: group.group().clone(),
                protocol: group.protocol(),
            };
            Ok((To::Group(to), path_of_group(group)?))
        }
    }
}

/// What is asked for at each origin of a group.
pub(crate) fn path_of_group(group: &OriginGroupEndpoint) -> Result<PathAndQuery, String> {
    // It is in the form that a URL's path has.
    let path = group.path().as_str();
    path.parse().map_err(|error: InvalidUri| error.to_string())
}

/// Where requests to an endpoint go: who is connected to, and what is asked for there.
pub(crate) fn endpoint(
    endpoint_url: &EndpointUrl,
    tls: &WebhookTls,
) -> Result<(Target, PathAndQuery), String> {
    let url = url::Url::parse(endpoint_url.as_str()).map_err(|error| error.to_string())?;
    let target = Target::from_url(&url).map_err(|error| error.to_string())?;
    let path_and_query =
        path_and_query(endpoint_url.as_str(), &url).map_err(|error| error.to_string())?;
    Ok((target.with_tls(tls_demands(tls)?), path_and_query))
}

/// What a subscription asks of TLS; the reason if its certificates are none.
pub(crate) fn tls_demands(tls: &WebhookTls) -> Result<TlsDemands, String> {
    let extra_roots = tls.extra_ca_certificates.as_deref();
    Ok(TlsDemands {
        version_min: tls.version_min,
        extra_roots: extra_roots.map(ExtraRoots::from_pem).transpose()?,
        ..TlsDemands::default()
    })
}

/// Path and query as they were declared (ED-121). Only characters that no request line can carry are escaped, as `url` does.
fn path_and_query(declared: &str, url: &url::Url) -> Result<PathAndQuery, InvalidUri> {
    let behind_scheme = declared
        .split_once("://")
        .map_or(declared, |(_, rest)| rest);
    let raw = behind_scheme
        .find(['/', '?'])
        .map_or("/", |at| &behind_scheme[at..]);
    let raw = if raw.starts_with('?') {
        format!("/{raw}")
    } else {
        raw.to_owned()
    };
    raw.parse()
        .or_else(|_| url[url::Position::BeforePath..url::Position::AfterQuery].parse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_query_go_out_as_declared() {
        let rows = [
            ("https://a.example", "/"),
            (
                "https://a.example/hook?code=a'b+c/d==",
                "/hook?code=a'b+c/d==",
            ),
            ("https://a.example?code=1", "/?code=1"),
            ("https://a.example/a/../b?x=%7e", "/a/../b?x=%7e"),
        ];
        for (declared, sent) in rows {
            let url = url::Url::parse(declared).unwrap();
            let found = path_and_query(declared, &url).unwrap();
            assert_eq!(found.as_str(), sent, "{declared}");
        }
    }
}
