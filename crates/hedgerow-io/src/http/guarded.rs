//! Opens outbound connections: the only place in Hedgerow that does (a store's link to its own cluster aside).
//!
//! Every address that a name resolves to is judged before any is connected to, and one denied address denies the name: a
//! name that also leads into a private network is not to be trusted. The address that a socket is in fact connected to is
//! judged once more. No proxy is taken from the environment (design D11).
//!
//! TLS 1.2 and 1.3, verified against the system's trusted roots and those of the target (ED-123, ED-124).

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::Instant;
use url::Host;

use super::address::{AddressGuard, Denied, is_localhost};
use super::connect::{Connect, ConnectError, Connecting, Connection};
use super::network::Network;
use super::resolve::{Lookup, Resolver};
use super::target::{Scheme, Target};
use super::trust::Encryption;
use super::watch::{Mark, Watch};

/// How long one address may take when there is another one to try. The last one has as long as the caller gives it.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(5);
/// Addresses of one name that are tried. All are judged.
const ADDRESSES_TRIED_MAX: usize = 8;

/// What a [`GuardedConnector`] is made from.
#[derive(Debug, Clone, Default)]
pub struct ConnectorOptions {
    /// Networks that are open although not everybody can reach them. Plain http goes to these only.
    pub allow_networks: Vec<Network>,
    /// Certificates that are trusted as roots besides the system's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Names with their addresses, in lower case: they are not looked up. Their addresses are judged like any.
    pub hosts: HashMap<String, Vec<IpAddr>>,
    /// Looks up the other names, instead of the system's resolver.
    pub lookup: Option<Lookup>,
}

/// Opens TCP and TLS connections to addresses it has judged.
pub struct GuardedConnector {
    guard: AddressGuard,
    resolver: Resolver,
    hosts: HashMap<String, Vec<IpAddr>>,
    encryption: Encryption,
}

impl std::fmt::Debug for GuardedConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardedConnector")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

impl GuardedConnector {
    /// A connector; reads the system's trusted roots once, which takes some milliseconds of reading files.
    #[must_use]
    pub fn new(options: ConnectorOptions) -> Self {
        Self {
            guard: AddressGuard::new(options.allow_networks),
            resolver: Resolver::new(options.lookup),
            hosts: options.hosts,
            encryption: Encryption::new(options.extra_roots),
        }
    }

    /// The guard that judges this connector's addresses, for the checks at creation of a subscription.
    #[must_use]
    pub const fn guard(&self) -> &AddressGuard {
        &self.guard
    }

    async fn open(
        &self,
        target: &Target,
        watch: Option<&Watch>,
    ) -> Result<Connection, ConnectError> {
        let mark = |reached| {
            if let Some(watch) = watch {
                watch.mark(reached);
            }
        };
        let addresses = self.addresses(target).await?;
        if matches!(target.host(), Host::Domain(_)) {
            mark(Mark::Named);
        }
        mark(Mark::Trying);
        let stream = connect_to_one_of(&addresses, watch)
            .await
            .map_err(ConnectError::Connect)?;
        mark(Mark::Connected);
        let peer = stream.peer_addr().map_err(ConnectError::Connect)?;
        self.guard.judge_with_scheme(target.scheme(), peer.ip())?;
        stream.set_nodelay(true).map_err(ConnectError::Connect)?;
        match target.scheme() {
            Scheme::Http => Ok(Connection::new(stream)),
            Scheme::Https => {
                let connection = self.encrypt(target, stream).await?;
                mark(Mark::Encrypted);
                Ok(connection)
            }
        }
    }

    /// The addresses of a target in the order in which they are tried. Every one is open.
    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, ConnectError> {
        let port = target.port();
        let at_port = |address: IpAddr| SocketAddr::new(address, port);
        let addresses = match target.host() {
            Host::Ipv4(v4) => vec![at_port((*v4).into())],
            Host::Ipv6(v6) => vec![at_port((*v6).into())],
            Host::Domain(name) if is_localhost(name) => self
                .guard
                .localhost(target.scheme())?
                .into_iter()
                .map(at_port)
                .collect(),
            Host::Domain(name) if self.hosts.contains_key(name) => {
                self.hosts[name].iter().copied().map(at_port).collect()
            }
            Host::Domain(name) => {
                let resolved = if target.keeps_names() {
                    self.resolver.resolve_kept(name, port).await
                } else {
                    self.resolver.resolve(name, port).await
                };
                resolved.map_err(ConnectError::Resolution)?
            }
        };
        judge_all(&self.guard, target.scheme(), &addresses)?;
        Ok(addresses)
    }

    async fn encrypt(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> Result<Connection, ConnectError> {
        let connector = self.encryption.connector(target.tls()).ok_or_else(|| {
            ConnectError::Tls(
                "there are no trusted root certificates; install the system's, such as the package \
                 ca-certificates, and start again"
                    .into(),
            )
        })?;
        let name = server_name(target.host()).map_err(|error| ConnectError::Tls(error.into()))?;
        let encrypted = connector.connect(name, stream).await;
        Ok(Connection::new(
            encrypted.map_err(|error| ConnectError::Tls(error.into()))?,
        ))
    }
}

impl Connect for GuardedConnector {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(self.open(target, None))
    }

    fn connect_watched<'a>(&'a self, target: &'a Target, watch: &'a Watch) -> Connecting<'a> {
        Box::pin(self.open(target, Some(watch)))
    }
}

/// One denied address denies them all.
fn judge_all(guard: &AddressGuard, scheme: Scheme, addresses: &[SocketAddr]) -> Result<(), Denied> {
    addresses
        .iter()
        .try_for_each(|address| guard.judge_with_scheme(scheme, address.ip()))
}

/// Connects to the first address that accepts; the last one's error when none does.
async fn connect_to_one_of(
    addresses: &[SocketAddr],
    watch: Option<&Watch>,
) -> io::Result<TcpStream> {
    let tried = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let Some((last, earlier)) = tried.split_last() else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "there is no address to connect to",
        ));
    };
    let note = |address: &SocketAddr| {
        if let Some(watch) = watch {
            watch.note_address(*address);
        }
    };
    let deadline = watch.and_then(Watch::deadline);
    for (address, left) in earlier.iter().zip((2..=tried.len() as u32).rev()) {
        note(address);
        let span = next_address_after(deadline, left);
        let limited = tokio::time::timeout(span, TcpStream::connect(address));
        if let Ok(Ok(stream)) = limited.await {
            return Ok(stream);
        }
    }
    note(last);
    TcpStream::connect(last).await
}

/// How long one of `left` addresses may take: its part of what is left of the caller's time, if that is known.
fn next_address_after(deadline: Option<Instant>, left: u32) -> Duration {
    let part = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) / left);
    part.map_or(NEXT_ADDRESS_AFTER, |part| part.min(NEXT_ADDRESS_AFTER))
}

/// The name that the server's certificate has to be for. A trailing dot is not part of it.
fn server_name(
    host: &Host<String>,
) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
    match host {
        Host::Ipv4(v4) => Ok(ServerName::IpAddress(IpAddr::V4(*v4).into())),
        Host::Ipv6(v6) => Ok(ServerName::IpAddress(IpAddr::V6(*v6).into())),
        Host::Domain(name) => {
            ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::Rule;
    use super::*;

    /// FC-15: a name whose A record is 10.0.0.1, alone or among others.
    #[test]
    fn one_denied_address_denies_the_name() {
        let guard = AddressGuard::new(["127.0.0.0/8".parse().unwrap()]);
        let rows: &[(&[&str], Option<Rule>)] = &[
            (&["10.0.0.1:443"], Some(Rule::Private)),
            (&["8.8.8.8:443", "10.0.0.1:443"], Some(Rule::Private)),
            (&["127.0.0.1:443", "[::1]:443"], Some(Rule::Loopback)),
            (
                &["8.8.8.8:443", "[2606:4700::1111]:443", "127.0.0.1:443"],
                None,
            ),
        ];
        for (addresses, expect) in rows {
            let addresses: Vec<_> = addresses.iter().map(|text| text.parse().unwrap()).collect();
            let judged = judge_all(&guard, Scheme::Https, &addresses);
            assert_eq!(
                judged.err().map(|denied| denied.rule),
                *expect,
                "{addresses:?}"
            );
        }
    }
}
