//! Who published from where, how they proved who they are, and what came of it: one log line for each combination of these and
//! each minute (ED-309). Off unless `log.data_plane_requests` says so; then a request costs one look into a table.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_dialect::event_grid::topic_path;
use http::request::Parts;
use serde_json::json;

use super::credential;
use super::handler::Known;
use crate::error::Refusal;
use crate::state::App;

/// What one line is about, at most (ED-309).
pub const PERIOD: Duration = Duration::from_secs(60);
/// Combinations of a period that are told apart by the client's address; what comes from more of them is one without.
const COMBINATIONS_MAX: usize = 1_000;

/// The other side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// The version of TLS that is spoken; `None` without TLS.
    pub tls_version: Option<&'static str>,
}

/// How a request says who it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Authentication {
    /// By a key of the topic.
    Key,
    /// By a shared access signature.
    SasToken,
    /// By a bearer token.
    Bearer,
    /// Not, or by something else.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Combination {
    resource_id: String,
    client: Option<Peer>,
    authentication: Authentication,
    /// The name of the server's token that was shown.
    token: Option<Box<str>>,
    result: &'static str,
}

/// The requests of a period, by combination.
#[derive(Default)]
pub struct DataPlane {
    seen: Mutex<HashMap<Combination, u64>>,
}

impl DataPlane {
    /// Takes note of a request.
    pub(super) fn note(
        &self,
        app: &App,
        request: &Parts,
        known: &Known,
        refusal: Option<&Refusal>,
    ) {
        let authentication = credential::kind(request);
        let grant = (authentication == Authentication::Bearer)
            .then(|| app.tokens.grant(&request.headers, app.time()))
            .flatten();
        let topic = known.topic.as_ref();
        self.add(Combination {
            resource_id: topic.map_or_else(|| topic_path(""), |topic| topic.path.clone()),
            client: request.extensions.get().copied(),
            authentication,
            token: grant.map(|grant| grant.name.clone()),
            result: result(refusal.map(|refusal| refusal.status().as_u16())),
        });
    }

    fn add(&self, mut combination: Combination) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= COMBINATIONS_MAX && !seen.contains_key(&combination) {
            // Of these there are no more than of topics, credentials and results.
            combination.client = None;
        }
        *seen.entry(combination).or_default() += 1;
    }

    /// Logs what was seen since the last time.
    pub fn tell(&self, now: Timestamp) {
        for (combination, operations) in self.take() {
            tracing::info!(
                category = "DataPlaneRequests",
                operationName = "Microsoft.EventGrid/events/send",
                time = %now,
                resourceId = combination.resource_id,
                properties = combination.properties(operations),
                "{operations} publish requests: {}",
                combination.result
            );
        }
    }

    fn take(&self) -> Vec<(Combination, u64)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken: Vec<_> = seen.drain().collect();
        drop(seen);
        taken.sort_by(|(a, _), (b, _)| {
            let by =
                |one: &Combination| (one.resource_id.clone(), one.client.map(|peer| peer.address));
            by(a).cmp(&by(b))
        });
        taken
    }
}

impl Combination {
    /// `properties` of the line, as JSON.
    fn properties(&self, operations: u64) -> String {
        let address = self.client.map(|peer| peer.address);
        let kind = match self.authentication {
            Authentication::Key => "Key",
            Authentication::SasToken => "SASToken",
            Authentication::Bearer => "AADAccessToken",
            Authentication::Unknown => "Unknown",
        };
        let request = json!({
            "networkAccess": network_access(address),
            "clientIpAddress": address.map(|address| address.to_string()),
            "tlsVersion": self.client.and_then(|peer| peer.tls_version),
            "authentication": { "type": kind, "objectId": self.token },
            "operationResult": self.result,
            "totalOperations": operations,
        });
        json!({ "aggregatedRequests": [request] }).to_string()
    }
}

/// Addresses that nobody on the internet can have are of a private network.
fn network_access(address: Option<IpAddr>) -> &'static str {
    let is_private = match address {
        None => false,
        Some(IpAddr::V4(v4)) => v4.is_private() || v4.is_loopback() || v4.is_link_local(),
        Some(IpAddr::V6(v6)) => {
            v6.is_loopback()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6
                    .to_ipv4_mapped()
                    .is_some_and(|v4| network_access(Some(v4.into())) == PRIVATE)
        }
    };
    if is_private { PRIVATE } else { "PublicAccess" }
}

const PRIVATE: &str = "PrivateAccess";

/// What a request came to, in the words that there are for it.
const fn result(refused: Option<u16>) -> &'static str {
    match refused {
        None => "Success",
        Some(401) => "Unauthorized",
        Some(403) => "Forbidden",
        Some(413) => "RequestEntityTooLarge",
        Some(500..) => "InternalServerError",
        Some(_) => "BadRequest",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combination(address: &str, result: &'static str) -> Combination {
        Combination {
            resource_id: "/t".to_owned(),
            client: Some(Peer {
                address: address.parse().unwrap(),
                tls_version: Some("1.3"),
            }),
            authentication: Authentication::SasToken,
            token: None,
            result,
        }
    }

    /// ED-309: one record for each distinct combination, with how many there were; what was told is told once.
    #[test]
    fn each_combination_is_one_line_of_a_minute() {
        let plane = DataPlane::default();
        for _ in 0..3 {
            plane.add(combination("192.0.2.7", "Success"));
        }
        plane.add(combination("192.0.2.7", "Unauthorized"));
        plane.add(combination("10.0.0.1", "Success"));
        let taken = plane.take();
        assert_eq!(taken.len(), 3);
        let (three, count) = taken.iter().find(|(_, count)| *count == 3).unwrap();
        let expected = json!({ "aggregatedRequests": [{
            "networkAccess": "PublicAccess",
            "clientIpAddress": "192.0.2.7",
            "tlsVersion": "1.3",
            "authentication": { "type": "SASToken", "objectId": null },
            "operationResult": "Success",
            "totalOperations": 3,
        }] });
        let properties: serde_json::Value =
            serde_json::from_str(&three.properties(*count)).unwrap();
        assert_eq!(properties, expected);
        assert!(plane.take().is_empty());
    }

    /// ED-309: the words that there are, whatever was answered.
    #[test]
    fn results_and_networks_have_the_vendors_words() {
        for (status, word) in [
            (None, "Success"),
            (Some(400), "BadRequest"),
            (Some(401), "Unauthorized"),
            (Some(403), "Forbidden"),
            (Some(404), "BadRequest"),
            (Some(413), "RequestEntityTooLarge"),
            (Some(429), "BadRequest"),
            (Some(500), "InternalServerError"),
            (Some(503), "InternalServerError"),
        ] {
            assert_eq!(result(status), word, "{status:?}");
        }
        for (address, word) in [
            ("8.8.8.8", "PublicAccess"),
            ("127.0.0.1", "PrivateAccess"),
            ("10.1.2.3", "PrivateAccess"),
            ("::1", "PrivateAccess"),
            ("fd00::1", "PrivateAccess"),
            ("::ffff:192.168.0.1", "PrivateAccess"),
            ("2606:4700::1111", "PublicAccess"),
        ] {
            assert_eq!(
                network_access(Some(address.parse().unwrap())),
                word,
                "{address}"
            );
        }
    }

    /// From however many addresses requests come, the table stays small.
    #[test]
    fn addresses_are_told_apart_up_to_a_bound() {
        let plane = DataPlane::default();
        for number in 0..5_000_u32 {
            let address = std::net::Ipv4Addr::from(number).to_string();
            plane.add(combination(&address, "Success"));
        }
        let taken = plane.take();
        assert_eq!(taken.len(), COMBINATIONS_MAX + 1);
        assert_eq!(taken.iter().map(|(_, count)| count).sum::<u64>(), 5_000);
    }
}
