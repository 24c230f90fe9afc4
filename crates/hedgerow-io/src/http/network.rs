//! A network of addresses in CIDR notation, as an allow-list names it: `127.0.0.0/8`, `fd00::/8`, `10.1.2.3`.
//!
//! An IPv4 network holds IPv4 addresses only and an IPv6 network IPv6 addresses only; forms of IPv6 that carry an IPv4
//! address are unwrapped elsewhere.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// The lowest address: all bits after the prefix are zero.
    address: IpAddr,
    /// How many leading bits are the same: 0 to 32 for IPv4, 0 to 128 for IPv6.
    prefix_bits: u8,
}

/// Why a text names no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The part before the slash is no IP address.
    #[error("\"{0}\" is not an IP address; write a network as \"10.0.0.0/8\" or \"fd00::/8\"")]
    Address(String),
    /// The part after the slash is no number, or too large for the kind of address.
    #[error("\"{prefix}\" is not a prefix length; use 0 to {bits_max}")]
    Prefix {
        /// What stands after the slash.
        prefix: String,
        /// The largest prefix length: 32 for IPv4, 128 for IPv6.
        bits_max: u8,
    },
    /// The address has bits set after the prefix, so that it is not clear what was meant.
    #[error("\"{written}\" has bits set after its prefix; did you mean {network}?")]
    HostBits {
        /// What was written.
        written: String,
        /// The network that the address lies in.
        network: Network,
    },
}

impl Network {
    /// The network of the addresses that share their first `prefix_bits` bits with `address`. `None` when the prefix is
    /// longer than the address.
    #[must_use]
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) if prefix_bits <= 32 => {
                Ipv4Addr::from_bits(v4.to_bits() & mask_v4(prefix_bits)).into()
            }
            IpAddr::V6(v6) if prefix_bits <= 128 => {
                Ipv6Addr::from_bits(v6.to_bits() & mask_v6(prefix_bits)).into()
            }
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some(Self {
            address,
            prefix_bits,
        })
    }

    /// Whether `address` lies in this network. Always false for an address of the other kind.
    #[must_use]
    pub const fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(v4)) => {
                v4.to_bits() & mask_v4(self.prefix_bits) == network.to_bits()
            }
            (IpAddr::V6(network), IpAddr::V6(v6)) => {
                v6.to_bits() & mask_v6(self.prefix_bits) == network.to_bits()
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// The leading `bits` (0 to 32) set.
const fn mask_v4(bits: u8) -> u32 {
    if bits == 0 {
        0
    } else {
        u32::MAX << (32 - bits)
    }
}

/// The leading `bits` (0 to 128) set.
const fn mask_v6(bits: u8) -> u128 {
    if bits == 0 {
        0
    } else {
        u128::MAX << (128 - bits)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    /// Reads `address/prefix`; an address alone is the network of that one address.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address_text, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address_text
            .parse()
            .map_err(|_| NetworkError::Address(address_text.to_owned()))?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            None => bits_max,
            Some(prefix) => parse_prefix(prefix, bits_max).ok_or_else(|| NetworkError::Prefix {
                prefix: prefix.to_owned(),
                bits_max,
            })?,
        };
        let network = Self::new(address, prefix_bits).expect("the prefix was checked above");
        if network.address == address {
            Ok(network)
        } else {
            Err(NetworkError::HostBits {
                written: text.to_owned(),
                network,
            })
        }
    }
}

/// Digits only: a sign, which the integer parser would take, is not a prefix length.
fn parse_prefix(text: &str, bits_max: u8) -> Option<u8> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|bits| digits && *bits <= bits_max)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_bounds() {
        let good = [
            "127.0.0.0/8",
            "::1/128",
            "0.0.0.0/0",
            "::/0",
            "10.1.2.3/32",
            "fd00::/8",
        ];
        for text in good {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!(
            "10.1.2.3".parse::<Network>().unwrap().to_string(),
            "10.1.2.3/32"
        );
        assert_eq!("::1".parse::<Network>().unwrap().to_string(), "::1/128");
        let bad = [
            "",
            "/",
            "/8",
            "127.0.0.0/",
            "127.0.0.0/33",
            "127.0.0.0/+8",
            "127.0.0.0/-1",
            "::/129",
            "127.0.0.0/8/8",
            "127/8",
            "localhost/8",
            "127.0.0.1/8",
            "::1/64",
            "10.0.0.0/256",
            " 10.0.0.0/8",
            "[::1]/128",
            "0177.0.0.0/8",
        ];
        for text in bad {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        let error = "127.0.0.1/8".parse::<Network>().unwrap_err();
        assert!(
            error.to_string().ends_with("did you mean 127.0.0.0/8?"),
            "{error}"
        );
    }

    #[test]
    fn contains_exactly_its_addresses() {
        let rows = [
            ("127.0.0.0/8", "127.255.255.255", true),
            ("127.0.0.0/8", "128.0.0.0", false),
            ("127.0.0.0/8", "::ffff:127.0.0.1", false),
            ("10.0.0.4/30", "10.0.0.7", true),
            ("10.0.0.4/30", "10.0.0.8", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "ffff::", true),
            ("::/0", "1.1.1.1", false),
            ("::1/128", "::2", false),
            ("fd00::/8", "fdff::1", true),
        ];
        for (network, address, expect) in rows {
            let contains = network
                .parse::<Network>()
                .unwrap()
                .contains(address.parse().unwrap());
            assert_eq!(contains, expect, "{address} in {network}");
        }
    }
}
