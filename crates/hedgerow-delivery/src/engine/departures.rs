//! Subscriptions that go: at their time (ED-173), and what their endpoints are told (ED-171, ED-172).
//!
//! A notice is best effort: one request, whose answer nobody looks at. It is made once the deletion is durable, of what the
//! catalog says before.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hedgerow_core::limits;
use hedgerow_core::position::SubscriptionId;
use hedgerow_core::spec::{DeliverySchema, Destination};
use hedgerow_core::time::Timestamp;
use hedgerow_dialect::deletion::{self, DeletionNotice};
use hedgerow_io::chance;
use hedgerow_io::http::Target;
use hedgerow_store::StoreError;
use hedgerow_store::catalog::Change;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request};
use tokio::sync::Semaphore;

use super::declarations::{Answered, nobody_waits};
use super::{Engine, Phase};
use crate::plan::{endpoint, path_of_group};
use crate::source::source_path;

/// When subscriptions go, and notices of those that went.
pub(super) struct Departures {
    /// When each goes that has a time, and the same in the order of time.
    of: HashMap<SubscriptionId, Timestamp>,
    times: BTreeSet<(Timestamp, SubscriptionId)>,
    /// Notices of those that go with the change that is being followed.
    leaving: Vec<Notice>,
    /// Notices that may be sent at a time, and those that may wait for that.
    sending: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// A notice to send.
struct Notice {
    name: String,
    source_path: String,
    target: Target,
    path_and_query: PathAndQuery,
    /// What is asked for as `Host`, if that is not the target's own (HP-165).
    host_header: Option<HeaderValue>,
}

impl Default for Departures {
    fn default() -> Self {
        Self {
            of: HashMap::new(),
            times: BTreeSet::new(),
            leaving: Vec::new(),
            sending: Arc::new(Semaphore::new(limits::DELETION_NOTICES_MAX)),
            waiting: Arc::new(Semaphore::new(limits::DELETION_NOTICES_WAITING_MAX)),
        }
    }
}

impl Departures {
    /// When the next one goes.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.times.first().map(|(at, _)| *at)
    }

    /// A subscription is gone.
    pub(super) fn forget(&mut self, id: SubscriptionId) {
        self.set(id, None);
    }

    fn set(&mut self, id: SubscriptionId, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.of.insert(id, at),
            None => self.of.remove(&id),
        };
        if let Some(before) = before {
            self.times.remove(&(before, id));
        }
        self.times.extend(at.map(|at| (at, id)));
    }
}

impl Engine {
    /// Takes note of when a subscription goes, or that it does not.
    pub(super) fn follow_expiration(&mut self, id: SubscriptionId) {
        let found = self.view.catalog().subscription(id);
        let at = found.and_then(|found| found.spec.expiration);
        self.departures.set(id, at);
    }

    /// Lets those go whose time has come. While deliveries are held since the start they stay: nothing is told to endpoints
    /// then.
    pub(super) fn expire_subscriptions(&mut self) -> Result<(), StoreError> {
        if self.phase != Phase::Running {
            return Ok(());
        }
        let now = self.now();
        while let Some((at, id)) = self.departures.times.first().copied()
            && at <= now
        {
            self.departures.forget(id);
            self.note_expiration(id)?;
        }
        Ok(())
    }

    /// The change that takes away a subscription whose time has come; `None` if it has another time by now, or is gone.
    pub(super) fn change_for_expiration(&self, id: SubscriptionId) -> Option<(Change, Answered)> {
        let found = self.view.catalog().subscription(id)?;
        if !found.spec.is_expired(self.now()) {
            return None;
        }
        let topic = self.view.catalog().source_of(found);
        tracing::info!(topic, subscription = %found.name, "event subscription expired");
        Some((Change::SubscriptionDeleted { id }, nobody_waits()))
    }

    /// Takes note of what the endpoint of a subscription is to be told that goes with the change to come.
    pub(super) fn note_departure(&mut self, id: SubscriptionId) {
        let catalog = self.view.catalog();
        let Some(found) = catalog.subscription(id).filter(|found| found.is_active()) else {
            return;
        };
        let Some(topic) = catalog.topic(found.topic) else {
            return;
        };
        // The other schemas know no such event.
        if found.spec.event_delivery_schema != DeliverySchema::EventGridSchema {
            return;
        }
        let reached = match &found.spec.destination {
            Destination::WebHook { endpoint_url, tls } => {
                let reached = endpoint(endpoint_url, tls).ok();
                reached.map(|(target, path_and_query)| (target, path_and_query, None))
            }
            // One request, as to an endpoint: to the first that gets deliveries.
            Destination::OriginGroup(to) => {
                let consents = self.validations.consents(catalog, id);
                let mut origins = self.enabled_origins(to).into_iter();
                let origin = origins.find(|origin| consents.has(origin));
                let path_and_query = path_of_group(to).ok();
                origin
                    .zip(path_and_query)
                    .map(|(origin, path)| (origin.target.clone(), path, origin.host_header.clone()))
            }
        };
        let Some((target, path_and_query, host_header)) = reached else {
            return;
        };
        let notice = Notice {
            name: found.name.as_str().to_owned(),
            source_path: source_path(topic, found.domain_topic.as_ref()),
            target,
            path_and_query,
            host_header,
        };
        self.departures.leaving.push(notice);
    }

    /// Sends the notices of those that are gone now.
    pub(super) fn send_notices(&mut self) {
        let leaving = std::mem::take(&mut self.departures.leaving);
        let mut left_out = 0;
        for notice in leaving {
            let Ok(place) = Arc::clone(&self.departures.waiting).try_acquire_owned() else {
                left_out += 1;
                continue;
            };
            if self.phase != Phase::Running {
                continue;
            }
            let sending = Arc::clone(&self.departures.sending);
            let client = Arc::clone(&self.context.client);
            let clock = Arc::clone(&self.clock);
            let timeout = self.settings.deletion_notice_timeout;
            let upper_case_name = self.settings.subscription_name_upper_case;
            self.spawner.spawn(async move {
                let _place = place;
                let _permit = sending.acquire_owned().await;
                let _open = clock.open_exchange();
                let request = notice.request(clock.now().timestamp, upper_case_name);
                let sent =
                    tokio::time::timeout(timeout, client.send(&notice.target, request)).await;
                notice.tell(sent.map(|sent| sent.map(|answer| answer.status)), timeout);
            });
        }
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "too many event subscriptions were deleted at once; their endpoints are not told"
            );
        }
    }
}

impl Notice {
    fn request(&self, now: Timestamp, upper_case_name: bool) -> Request<Bytes> {
        let notice = DeletionNotice {
            id: &chance::uuid(),
            source_path: &self.source_path,
            name: &self.name,
            time: now,
        };
        let mut request = Request::new(Bytes::from(deletion::body(&notice)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path_and_query.clone().into();
        *request.headers_mut() = deletion::headers(&notice, upper_case_name);
        if let Some(host) = &self.host_header {
            request
                .headers_mut()
                .insert(http::header::HOST, host.clone());
        }
        request
    }

    /// One line for what came of it.
    fn tell<T, E: std::error::Error>(
        &self,
        sent: Result<Result<T, E>, tokio::time::error::Elapsed>,
        timeout: Duration,
    ) where
        T: std::fmt::Display,
    {
        let subscription = &self.name;
        match sent {
            Ok(Ok(status)) => {
                tracing::debug!(subscription, %status, "the endpoint was told of the deletion");
            }
            Ok(Err(error)) => {
                let error = crate::in_full(&error);
                tracing::info!(
                    subscription,
                    error,
                    "the endpoint was not told of the deletion"
                );
            }
            Err(_) => {
                tracing::info!(
                    subscription,
                    ?timeout,
                    "the endpoint did not answer the notice of the deletion"
                );
            }
        }
    }
}
