//! Takes paths and queries apart; what cannot be is refused in the API's own shape.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query, RawPathParams};
use hedgerow_core::name::DomainTopicName;
use hedgerow_core::spec::topic_meant;
use hedgerow_store::catalog::source_name;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::access::Grant;
use crate::error::ApiError;
use crate::state::SharedApp;

/// The names in a path, decoded.
pub struct Names<T>(pub T);

impl<T, S> FromRequestParts<S> for Names<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(error) => {
                let message = format!("path: {}", error.body_text());
                Err(ApiError::invalid(
                    message,
                    "names have letters, digits and hyphens",
                ))
            }
        }
    }
}

/// What a path is about, as the engine names it: a topic, a domain or a topic of a domain. A topic's path is none for a domain,
/// and the other way round.
pub struct Source(pub String);

/// The same with the name that stands behind it: of a subscription, of an event.
pub struct SourceAnd(pub String, pub String);

impl FromRequestParts<SharedApp> for Source {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        let SourceAnd(source, _) = SourceAnd::from_request_parts(parts, app).await?;
        Ok(Self(source))
    }
}

impl FromRequestParts<SharedApp> for SourceAnd {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, ApiError> {
        let names = RawPathParams::from_request_parts(parts, app).await;
        let names = names.map_err(|error| {
            let message = format!("path: {}", error.body_text());
            ApiError::invalid(message, "names have letters, digits and hyphens")
        })?;
        let (mut topic, mut domain, mut domain_topic, mut name) = (None, None, None, "");
        for (of, value) in &names {
            match of {
                "topic" => topic = Some(value),
                "domain" => domain = Some(value),
                "domainTopic" => domain_topic = Some(value),
                _ => name = value,
            }
        }
        let engine = app.engine()?;
        let topics = engine.topics();
        let is_domain = |name: &str| {
            let found = topics.get(&name.to_ascii_lowercase());
            found.map(|topic| topic.spec.domain.is_some())
        };
        let source = match (topic, domain, domain_topic) {
            (_, Some(domain), _) if is_domain(domain) != Some(true) => {
                return Err(ApiError::none("domain", domain));
            }
            (_, Some(domain), None) => domain.to_owned(),
            (_, Some(domain), Some(topic)) => {
                let parsed: Result<DomainTopicName, _> = topic.parse();
                let topic = parsed.map_err(|_| ApiError::none("domain topic", topic))?;
                source_name(domain, Some(&topic))
            }
            // The resource id of a topic, or of the storage account (ED-318).
            (Some(id), None, _) if id.starts_with('/') => {
                let meant = topic_meant(id).filter(|name| is_domain(name) != Some(true));
                let meant = meant.ok_or_else(|| ApiError::no_topic(id))?;
                meant.to_owned()
            }
            (Some(topic), None, _) if topic.contains('/') || is_domain(topic) == Some(true) => {
                return Err(ApiError::no_topic(topic));
            }
            (topic, None, _) => topic.unwrap_or_default().to_owned(),
        };
        Ok(Self(source, name.to_owned()))
    }
}

/// What the bearer of the request's token may do.
pub struct Bearer(pub Arc<Grant>);

impl<S: Send + Sync> FromRequestParts<S> for Bearer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // It is there on every path that needs a token; without it nobody may do anything.
        let grant = parts.extensions.get::<Arc<Grant>>();
        grant.cloned().map(Self).ok_or_else(ApiError::unauthorized)
    }
}

/// Entries of a page, if the request does not say it, and at most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Which page of a list is asked for, and of whose.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only of this subscription; the topic is there then.
    pub subscription: Option<String>,
    /// Where the page before ended.
    pub after: Option<String>,
    /// Entries at most.
    pub limit: usize,
}

impl<S: Send + Sync> FromRequestParts<S> for PageQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Self::of(parameters),
            Err(error) => {
                let message = format!("query: {}", error.body_text());
                Err(ApiError::invalid(
                    message,
                    "correct the query of the request",
                ))
            }
        }
    }
}

impl PageQuery {
    fn of(parameters: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut query = Self {
            limit: LIMIT_DEFAULT,
            ..Self::default()
        };
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in parameters {
            if seen.contains(&name) {
                return Err(invalid(&name, "stands twice in the query"));
            }
            match name.as_str() {
                "topic" => query.topic = Some(value),
                "eventSubscription" => query.subscription = Some(value),
                "after" => query.after = Some(value),
                "limit" => {
                    let limit = value.parse().ok();
                    let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    let rule = format!("must be a whole number from 1 to {LIMIT_MAX}");
                    query.limit = limit.ok_or_else(|| invalid(&name, &rule))?;
                }
                _ => {
                    let known =
                        "is no parameter; known are topic, eventSubscription, after and limit";
                    return Err(invalid(&name, known));
                }
            }
            seen.push(name);
        }
        if query.subscription.is_some() && query.topic.is_none() {
            return Err(invalid("eventSubscription", "needs the parameter topic"));
        }
        Ok(query)
    }

    /// Refuses what only lists of several topics are limited to.
    pub fn of_one_list(self) -> Result<Self, ApiError> {
        match (&self.topic, &self.subscription) {
            (None, None) => Ok(self),
            _ => Err(invalid(
                "topic",
                "is no parameter here; known are after and limit",
            )),
        }
    }

    /// Refuses a topic that the bearer does not reach, in the words for one that is not there.
    pub fn judge(&self, grant: &Grant) -> Result<(), ApiError> {
        match &self.topic {
            Some(topic) if !grant.reaches(topic) => Err(ApiError::no_topic(topic)),
            _ => Ok(()),
        }
    }

    /// Refuses names where the path has them.
    pub fn refuse_names(&self) -> Result<(), ApiError> {
        match &self.topic {
            Some(_) => Err(invalid("topic", "stands in the path already")),
            None => Ok(()),
        }
    }

    /// Where the page before ended, read by `place`; the beginning if the request does not say it.
    pub fn after<T: Default>(&self, place: impl Fn(&str) -> Option<T>) -> Result<T, ApiError> {
        match &self.after {
            None => Ok(T::default()),
            Some(text) => place(text).ok_or_else(|| invalid("after", "must be the next of a page")),
        }
    }
}

fn invalid(name: &str, message: &str) -> ApiError {
    ApiError::invalid(
        format!("{name}: {message}"),
        "correct the query of the request",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_queries_are_refused() {
        let parse = |text: &str| {
            let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
            let query = PageQuery::of(
                pairs
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            )?;
            query.after(|text| text.parse::<u64>().ok())
        };
        for text in ["", "topic=orders&eventSubscription=a&after=7&limit=1000"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in [
            "limit=0",
            "limit=1001",
            "limit=x",
            "after=-1",
            "after=",
            "topics=orders",
            "topic=a&topic=b",
            "eventSubscription=a",
        ] {
            assert!(parse(text).is_err(), "{text} is accepted");
        }
    }
}
