//! Delayed delivery: one state for each endpoint, shared by the subscriptions that deliver to it (ED-236). Knows which they
//! are and whose record keeps the window; what a window does is decided in the core.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;
use hedgerow_core::hold::{Period, Ticket, Window};
use hedgerow_core::position::SubscriptionId;
use hedgerow_io::http::Target;

use crate::origins::ToGroup;

/// An endpoint as delayed delivery knows it: scheme, host, port and path, or a group and a path. The query does not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EndpointKey {
    pub(crate) at: At,
    pub(crate) path: String,
}

/// Where an endpoint is. A group is one place, whichever of its origins gets an attempt: how these are is not delayed
/// delivery's (ED-316).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum At {
    Endpoint(Target),
    Group(ToGroup),
}

/// What an attempt carries for the holds, from its start to its end.
#[derive(Debug)]
pub(crate) struct Tickets {
    pub(crate) probation: Ticket,
    /// With the endpoint that it was started at; `None` if delayed delivery was off then.
    pub(crate) window: Option<(Arc<EndpointKey>, Ticket)>,
}

/// The endpoints that subscriptions deliver to.
#[derive(Default)]
pub(crate) struct Windows {
    by_endpoint: HashMap<Arc<EndpointKey>, Endpoint>,
}

/// One endpoint.
#[derive(Default)]
pub(crate) struct Endpoint {
    pub(crate) window: Window,
    /// The subscriptions that deliver here.
    pub(crate) members: BTreeSet<SubscriptionId>,
    /// Whose HOLD record has the window.
    pub(crate) keeper: Option<SubscriptionId>,
}

impl Windows {
    /// The endpoint, if somebody delivers there.
    pub(crate) fn get(&self, key: &EndpointKey) -> Option<&Endpoint> {
        self.by_endpoint.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &EndpointKey) -> Option<&mut Endpoint> {
        self.by_endpoint.get_mut(key)
    }

    /// A subscription delivers here from now on; `stored` is the window that its record has.
    pub(crate) fn join(
        &mut self,
        key: &Arc<EndpointKey>,
        id: SubscriptionId,
        stored: Option<Period>,
    ) {
        let endpoint = self.by_endpoint.entry(Arc::clone(key)).or_default();
        endpoint.members.insert(id);
        let present = endpoint.window.period();
        if stored.is_some() && stored.map(|stored| stored.since) > present.map(|own| own.since) {
            endpoint.window = Window::restored(stored);
            endpoint.keeper = Some(id);
        }
    }

    /// A subscription delivers here no longer. Returns the one that keeps the window now, if it is another one.
    pub(crate) fn leave(
        &mut self,
        key: &EndpointKey,
        id: SubscriptionId,
    ) -> Option<SubscriptionId> {
        let endpoint = self.by_endpoint.get_mut(key)?;
        endpoint.members.remove(&id);
        let Some(heir) = endpoint.members.first().copied() else {
            self.by_endpoint.remove(key);
            return None;
        };
        if endpoint.keeper != Some(id) {
            return None;
        }
        endpoint.keeper = endpoint.window.period().map(|_| heir);
        endpoint.keeper
    }
}
