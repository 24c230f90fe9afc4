//! Judges where we may connect (design D11, field case FC-15).
//!
//! An address is open when everybody on the internet could reach it, or when an allow-listed network holds it. The
//! addresses at which clouds hand out credentials stay closed even then. A form of IPv6 that carries an IPv4 address is
//! judged as both: it is open only when neither is denied.
//!
//! Names are not judged here but each address they resolve to, when it is about to be connected to and again when it is
//! connected: what a name resolves to can change between two looks.
//!
//! Source: the IANA IPv4 and IPv6 special-purpose address registries. Where they are split over whether an address is
//! globally reachable (a few anycast services in 192.0.0.0/24 and `2001::/23`, 6to4), we deny: no webhook lives there.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use super::network::Network;
use super::target::{Scheme, Target, TargetError};

/// Says of each address whether we may connect to it. Cheap to share behind a reference; never changes.
#[derive(Debug, Clone, Default)]
pub struct AddressGuard {
    allowed: Vec<Network>,
}

/// A refusal of ours to connect. It is not the receiver's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(*address, *rule))]
pub struct Denied {
    /// What we would have connected to.
    pub address: IpAddr,
    /// Why we did not.
    pub rule: Rule,
}

/// Why a URL is refused when a subscription is created. Only what needs no name to be resolved is found then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlDenied {
    /// The host is an address, or a name for this machine, and that is denied.
    #[error(transparent)]
    Address(#[from] Denied),
    /// Plain http, and no network is allow-listed that it could be sent to (ED-120).
    #[error("http is not allowed by the rule \"{}\"; {}", Rule::PlainHttp, Rule::PlainHttp.advice())]
    PlainHttp,
    /// Not a URL that anything can be sent to.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl UrlDenied {
    /// The stable name of the rule that says no.
    #[must_use]
    pub const fn rule_name(&self) -> &'static str {
        match self {
            Self::Address(denied) => denied.rule.name(),
            Self::PlainHttp => Rule::PlainHttp.name(),
            Self::Target(_) => "unsupported-url",
        }
    }
}

/// The rules that deny an address. Their names ([`Rule::name`]) are part of the API and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Hands out credentials to whatever runs in a cloud. Cannot be allow-listed.
    Metadata,
    /// This machine.
    Loopback,
    /// `0.0.0.0` and `::`, which many systems take for this machine.
    Unspecified,
    /// The rest of `0.0.0.0/8`.
    ThisNetwork,
    /// `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`.
    Private,
    /// `100.64.0.0/10`, between a provider and its customers (carrier-grade NAT).
    SharedAddress,
    /// `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// `fec0::/10`, once what unique local addresses are now.
    SiteLocal,
    /// `fc00::/7`.
    UniqueLocal,
    /// `224.0.0.0/4`, `ff00::/8`.
    Multicast,
    /// `255.255.255.255`.
    Broadcast,
    /// `192.0.0.0/24`, `2001::/23`.
    ProtocolAssignment,
    /// Addresses that only stand in books.
    Documentation,
    /// `198.18.0.0/15`, `2001:2::/48`.
    Benchmarking,
    /// `100::/64`.
    Discard,
    /// `240.0.0.0/4`, and all of IPv6 that is assigned to nobody.
    Reserved,
    /// `::ffff:0:0/96`: an IPv4 address in the clothes of an IPv6 one.
    Ipv4Mapped,
    /// `::/96`, the same in an older cut.
    Ipv4Compatible,
    /// `64:ff9b:1::/48`: a translator of somebody's own. (`64:ff9b::/96` is judged as the IPv4 address it leads to.)
    LocalTranslation,
    /// `2002::/16`, and the relays of it in `192.88.99.0/24`.
    SixToFour,
    /// `2001::/32`.
    Teredo,
    /// Plain http to an address that everybody can reach, or that is not allow-listed (ED-120).
    PlainHttp,
}

/// Where credentials are handed out: never open. Link-local and unique local ones are listed because they must stay
/// closed although their network is allow-listed.
const METADATA_V4: [Ipv4Addr; 8] = [
    Ipv4Addr::new(169, 254, 169, 254), // most clouds
    Ipv4Addr::new(169, 254, 170, 2),   // AWS, tasks of ECS
    Ipv4Addr::new(169, 254, 170, 23),  // AWS, pods of EKS
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent Cloud
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba Cloud
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's host agent, in a public range
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle Cloud
];

const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // AWS
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),  // AWS, pods of EKS
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google Cloud
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),   // Scaleway
];

impl AddressGuard {
    /// A guard that opens `allowed` besides what everybody can reach.
    #[must_use]
    pub fn new(allowed: impl IntoIterator<Item = Network>) -> Self {
        Self {
            allowed: allowed.into_iter().collect(),
        }
    }

    /// Whether we may connect to `address`.
    pub fn judge(&self, address: IpAddr) -> Result<(), Denied> {
        let denied = |rule| Err(Denied { address, rule });
        if is_metadata(address) {
            return denied(Rule::Metadata);
        }
        if self.is_allow_listed(address) {
            return Ok(());
        }
        rule_of(address).map_or(Ok(()), denied)
    }

    /// Whether we may send to `address` with `scheme`. Plain http goes to loopback and private addresses only, and only if
    /// they are allow-listed (ED-120): an allow-listed network that everybody can reach is sent to over https alone.
    pub fn judge_with_scheme(&self, scheme: Scheme, address: IpAddr) -> Result<(), Denied> {
        self.judge(address)?;
        match scheme {
            Scheme::Http if !self.is_allow_listed(address) || rule_of(address).is_none() => {
                Err(Denied {
                    address,
                    rule: Rule::PlainHttp,
                })
            }
            Scheme::Http | Scheme::Https => Ok(()),
        }
    }

    /// Judges a URL as far as that is possible without resolving a name: what the creation of a subscription refuses. A
    /// host name that is not refused here is judged by its addresses at each connect.
    pub fn judge_url(&self, url: &Url) -> Result<(), UrlDenied> {
        let target = Target::from_url(url)?;
        match target.host() {
            Host::Ipv4(v4) => self.judge_with_scheme(target.scheme(), (*v4).into())?,
            Host::Ipv6(v6) => self.judge_with_scheme(target.scheme(), (*v6).into())?,
            Host::Domain(name) if is_localhost(name) => {
                self.localhost(target.scheme())?;
            }
            Host::Domain(_) if target.scheme() == Scheme::Http && self.allowed.is_empty() => {
                return Err(UrlDenied::PlainHttp);
            }
            Host::Domain(_) => {}
        }
        Ok(())
    }

    /// The addresses of `localhost` that are open; the reason when there is none. At least one when it is `Ok`.
    pub(super) fn localhost(&self, scheme: Scheme) -> Result<Vec<IpAddr>, Denied> {
        let addresses = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        let judged = addresses.map(|address| (address, self.judge_with_scheme(scheme, address)));
        match judged {
            [(_, Err(denied)), (_, Err(_))] => Err(denied),
            judged => Ok(judged
                .into_iter()
                .filter_map(|(address, verdict)| verdict.is_ok().then_some(address))
                .collect()),
        }
    }

    fn is_allow_listed(&self, address: IpAddr) -> bool {
        self.allowed.iter().any(|network| network.contains(address))
    }
}

/// Whether a name is this machine by definition, whatever a resolver says (RFC 6761, section 6.3).
pub(super) fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => METADATA_V4.contains(&v4),
        IpAddr::V6(v6) => {
            METADATA_V6.contains(&v6) || carried(v6).any(|v4| METADATA_V4.contains(&v4))
        }
    }
}

/// What denies an address if nothing allows it; `None`: everybody can reach it.
fn rule_of(address: IpAddr) -> Option<Rule> {
    match address {
        IpAddr::V4(v4) => rule_of_v4(v4),
        // What it carries says more about it than its wrapping, so that comes first.
        IpAddr::V6(v6) => carried(v6).find_map(rule_of_v4).or_else(|| rule_of_v6(v6)),
    }
}

fn rule_of_v4(address: Ipv4Addr) -> Option<Rule> {
    Some(match address.octets() {
        [0, 0, 0, 0] => Rule::Unspecified,
        [0, ..] => Rule::ThisNetwork,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Rule::Private,
        [100, 64..=127, ..] => Rule::SharedAddress,
        [127, ..] => Rule::Loopback,
        [169, 254, ..] => Rule::LinkLocal,
        [192, 0, 0, _] => Rule::ProtocolAssignment,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Rule::Documentation,
        [192, 88, 99, _] => Rule::SixToFour,
        [198, 18..=19, ..] => Rule::Benchmarking,
        [224..=239, ..] => Rule::Multicast,
        [255, 255, 255, 255] => Rule::Broadcast,
        [240..=255, ..] => Rule::Reserved,
        _ => return None,
    })
}

fn rule_of_v6(address: Ipv6Addr) -> Option<Rule> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Rule::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Rule::Loopback,
        [0, 0, 0, 0, 0, 0, _, _] => Rule::Ipv4Compatible,
        [0, 0, 0, 0, 0, 0xffff, _, _] => Rule::Ipv4Mapped,
        [0x64, 0xff9b, 1, ..] => Rule::LocalTranslation,
        [0x100, 0, 0, 0, ..] => Rule::Discard,
        [0x2001, 0, ..] => Rule::Teredo,
        [0x2001, 2, 0, ..] => Rule::Benchmarking,
        [0x2001, 0..=0x1ff, ..] => Rule::ProtocolAssignment,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Rule::Documentation,
        [0x2002, ..] => Rule::SixToFour,
        // What is assigned to somebody; and the well-known translator, which leads to the IPv4 address that was judged.
        [0x2000..=0x3fff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => return None,
        [0xfc00..=0xfdff, ..] => Rule::UniqueLocal,
        [0xfe80..=0xfebf, ..] => Rule::LinkLocal,
        [0xfec0..=0xfeff, ..] => Rule::SiteLocal,
        [0xff00..=0xffff, ..] => Rule::Multicast,
        _ => Rule::Reserved,
    })
}

/// The IPv4 addresses that an IPv6 address may lead to.
fn carried(address: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let last = v4(segments[6], segments[7]);
    let found = match segments {
        // `::` and `::1` are no compatible addresses but themselves.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        // Compatible, mapped, translated (RFC 2765), and the well-known prefix of RFC 6052.
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _]
        | [0, 0, 0, 0, 0xffff, 0, _, _]
        | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => [Some(last), None],
        // RFC 8215 leaves open which form of RFC 6052 is used below the prefix: /96, or /48 around bit 64. One that reads
        // as `0.…` is the wrong one.
        [0x64, 0xff9b, 1, high, middle, low, ..] => {
            let around = v4(high, (middle & 0xff) << 8 | low >> 8);
            [last, around].map(|found| Some(found).filter(|v4| v4.octets()[0] != 0))
        }
        [0x2002, high, low, ..] => [Some(v4(high, low)), None],
        // Teredo: the server, then the client with all bits inverted.
        [0x2001, 0, high, low, ..] => [
            Some(Ipv4Addr::from_bits(!last.to_bits())),
            Some(v4(high, low)),
        ],
        _ => [None, None],
    };
    // ISATAP (RFC 5214) below any prefix, with or without the bit that says the address is unique.
    let is_isatap = matches!(segments, [_, _, _, _, 0 | 0x200, 0x5efe, _, _]);
    found.into_iter().flatten().chain(is_isatap.then_some(last))
}

impl Rule {
    /// The stable name: lower case words with hyphens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Loopback => "loopback",
            Self::Unspecified => "unspecified",
            Self::ThisNetwork => "this-network",
            Self::Private => "private",
            Self::SharedAddress => "shared-address",
            Self::LinkLocal => "link-local",
            Self::SiteLocal => "site-local",
            Self::UniqueLocal => "unique-local",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::ProtocolAssignment => "protocol-assignment",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::Discard => "discard",
            Self::Reserved => "reserved",
            Self::Ipv4Mapped => "ipv4-mapped",
            Self::Ipv4Compatible => "ipv4-compatible",
            Self::LocalTranslation => "local-translation",
            Self::SixToFour => "6to4",
            Self::Teredo => "teredo",
            Self::PlainHttp => "plain-http",
        }
    }

    /// What to do about it; empty if there is nothing.
    const fn advice(self) -> &'static str {
        match self {
            Self::Metadata => "",
            Self::PlainHttp => {
                "use https (http goes to loopback and private addresses that delivery.allow_networks lists, and nowhere else)"
            }
            _ => "list its network in delivery.allow_networks if deliveries may go there",
        }
    }
}

/// What was refused, and what to do. With plain http it is not the address that is wrong.
fn told(address: IpAddr, rule: Rule) -> String {
    match (rule, rule.advice()) {
        (Rule::PlainHttp, advice) => {
            format!("http is not allowed to {address} by the rule \"{rule}\"; {advice}")
        }
        (_, "") => format!("address {address} is denied by the rule \"{rule}\""),
        (_, advice) => format!("address {address} is denied by the rule \"{rule}\"; {advice}"),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
