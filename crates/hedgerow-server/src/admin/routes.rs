//! The routes of the admin API, each with the right that it asks for and with whom it concerns. A route cannot be added
//! without the two; here they are enforced, before a handler runs.
//!
//! Rights are judged first, and say nothing of what exists: 403. Then the scope: a topic that the bearer does not reach answers
//! 404, as one that does not exist; making such a topic answers 403, whether there is one or not.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use http::Method;

use super::extract::Bearer;
use crate::access::{Grant, Right};
use crate::error::ApiError;
use crate::state::SharedApp;

/// Whom a route concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The topic or domain in its path.
    Topic,
    /// The topic or domain in its path, which it makes.
    NewTopic,
    /// Several topics: its handler leaves out those that the bearer does not reach.
    Lists,
    /// No topic: only bearers without a prefix.
    Grid,
}

/// A route, and who may ask it.
#[derive(Debug, Clone)]
pub struct Rule {
    pub method: Method,
    pub path: &'static str,
    pub right: Right,
    pub reach: Reach,
}

/// Routes as they are added.
#[derive(Default)]
pub struct Routes {
    router: Router<SharedApp>,
    rules: Vec<Rule>,
}

impl Routes {
    /// Adds a route.
    pub fn add<H, T>(
        mut self,
        (method, path): (Method, &'static str),
        (right, reach): (Right, Reach),
        handler: H,
    ) -> Self
    where
        H: Handler<T, SharedApp>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone())
            .expect("routes of the admin API have the usual methods");
        let rule = Rule {
            method,
            path,
            right,
            reach,
        };
        let judged = from_fn_with_state(Arc::new(rule.clone()), judge);
        let route = on(filter, handler).route_layer(judged);
        self.router = self.router.route(path, route);
        self.rules.push(rule);
        self
    }

    /// The router, and what was added.
    pub fn finish(self) -> (Router<SharedApp>, Vec<Rule>) {
        (self.router, self.rules)
    }
}

impl Rule {
    /// Refuses what a grant does not allow. A path whose names cannot be decoded is refused by the handler.
    fn judge(&self, grant: &Grant, names: Option<&RawPathParams>) -> Result<(), ApiError> {
        if !grant.rights.has(self.right) {
            return Err(ApiError::without_right(grant, self.right));
        }
        let mut names = names.into_iter().flatten();
        let topic = names.find(|(name, _)| matches!(*name, "topic" | "domain"));
        let is_domain = topic.is_some_and(|(name, _)| name == "domain");
        let topic = topic.map(|(_, value)| value);
        match (self.reach, topic) {
            (Reach::Grid, _) if !grant.is_whole() => Err(ApiError::of_the_grid(grant)),
            (Reach::Topic, Some(topic)) if !grant.reaches(topic) => {
                let what = if is_domain { "domain" } else { "topic" };
                Err(ApiError::none(what, topic))
            }
            (Reach::NewTopic, Some(topic)) if !grant.reaches(topic) => {
                Err(ApiError::beyond_prefix(grant))
            }
            // Whose route it is is not known: nobody with a prefix gets there.
            (Reach::Topic | Reach::NewTopic, None) if !grant.is_whole() => {
                Err(ApiError::beyond_prefix(grant))
            }
            _ => Ok(()),
        }
    }
}

async fn judge(
    State(rule): State<Arc<Rule>>,
    Bearer(grant): Bearer,
    names: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let Err(refused) = rule.judge(&grant, names.ok().as_ref()) {
        let (token, method, right) = (&grant.name, &rule.method, rule.right);
        tracing::info!(%token, %method, path = rule.path, %right, "refused by its scope");
        return Err(refused);
    }
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests;
