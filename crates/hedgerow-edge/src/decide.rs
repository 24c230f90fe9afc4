//! What becomes of a request before any origin is asked: whose it is, its route, and what the edge answers itself.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hedgerow_io::chance;
use hedgerow_origin::route::https_location;
use hedgerow_origin::settings::Protocol;

use crate::answer::Own;
use crate::client::{client_address, hops, is_in};
use crate::edge::Shared;
use crate::forward::FieldOf;
use crate::limits;
use crate::names::Known;
use crate::routing::{Entry, GroupState, Routes};

/// What is decided about a request.
pub(crate) enum Decided<'p> {
    /// It goes to a group, with this path.
    Forward {
        entry: Arc<Entry>,
        group: Arc<GroupState>,
        path: Cow<'p, str>,
    },
    /// The client is sent elsewhere (HP-155).
    Redirect {
        entry: Arc<Entry>,
        status: u16,
        location: String,
    },
    /// The edge answers.
    Own(Own, Option<Arc<Entry>>),
}

/// Who asks, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came {
    /// The address of the socket.
    pub peer: SocketAddr,
    pub scheme: Protocol,
}

/// What the edge knows of a request beside its head.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// Its reference.
    pub reference: String,
    /// The client's address.
    pub client: IpAddr,
    /// How many edges it has passed with this one.
    pub hops: u32,
    /// Whether the answer says what went on (HP-167).
    pub shows_details: bool,
}

impl About {
    pub(crate) fn new<'r>(
        shared: &Shared,
        came: Came,
        fields: impl Iterator<Item = FieldOf<'r>> + Clone,
    ) -> Self {
        let of = |wanted: Known| {
            let fields = fields.clone();
            fields.filter(move |(_, _, known)| *known == wanted)
        };
        let socket = came.peer.ip().to_canonical();
        let options = &shared.options;
        let forwarded_for = of(Known::ForwardedFor).map(|(_, value, _)| value);
        let client = client_address(socket, &options.trusted_proxies, forwarded_for);
        let wants_details = of(Known::Debug).any(|(_, value, _)| value == b"1");
        Self {
            reference: format!("{:016x}", chance::number()),
            client,
            hops: hops(fields).saturating_add(1),
            shows_details: wants_details && is_in(&options.debug_clients, client),
        }
    }
}

/// Decides about a request.
pub(crate) fn decide<'p>(
    shared: &Shared,
    routes: &Routes,
    scheme: Protocol,
    about: &About,
    method: &[u8],
    (host, path, query): (&str, &'p str, Option<&str>),
) -> Decided<'p> {
    if about.hops > limits::HOPS_MAX {
        return Decided::Own(Own::LOOP, None);
    }
    // A tunnel to wherever the client says is no job of an edge.
    if method == b"CONNECT" {
        return Decided::Own(Own::BAD_METHOD, None);
    }
    let found = match routes.table.find(scheme, host, path) {
        Err(_) => return Decided::Own(Own::BAD_PATH, None),
        Ok(None) => {
            let status = shared.options.unmatched_status;
            return Decided::Own(Own::no_route(status), None);
        }
        Ok(Some(found)) => found,
    };
    let Some(entry) = routes.entries.get(found.index).map(Arc::clone) else {
        return Decided::Own(Own::NO_ORIGIN, None);
    };
    if let (Protocol::Http, Some(status)) = (scheme, entry.settings.https_redirect) {
        let mut target = found.path.into_owned();
        if let Some(query) = query {
            target.push('?');
            target.push_str(query);
        }
        let location = https_location(host, &target, shared.options.https_port);
        return Decided::Redirect {
            entry,
            status,
            location,
        };
    }
    let name = &entry.settings.origin_group;
    match shared.groups.get(name, || shared.prober.group(name)) {
        Some(group) => Decided::Forward {
            entry,
            group,
            path: found.path,
        },
        None => Decided::Own(Own::NO_ORIGIN, Some(entry)),
    }
}

/// Whether a request may be asked again of another origin although it was sent (HP-173).
pub(crate) fn is_idempotent(method: &[u8]) -> bool {
    matches!(
        method,
        b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE"
    )
}
