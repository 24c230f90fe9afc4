//! Who the client is (HP-163), and what it says about how far its request has come (HP-164).

use std::net::{IpAddr, SocketAddr};

use hedgerow_io::http::Network;

use crate::guard::members;
use crate::names::Known;

/// The client's address: that of the socket, unless a trusted proxy speaks there; then the right-most address of
/// `X-Forwarded-For` that is not one of a trusted proxy. What is no address ends the search.
#[must_use]
pub fn client_address<'h>(
    socket: IpAddr,
    trusted_proxies: &[Network],
    forwarded_for: impl Iterator<Item = &'h [u8]>,
) -> IpAddr {
    let is_trusted = |address| is_in(trusted_proxies, address);
    if !is_trusted(socket) {
        return socket;
    }
    let all: Vec<&[u8]> = forwarded_for.flat_map(members).collect();
    for entry in all.iter().rev() {
        match address(entry) {
            Some(address) if is_trusted(address) => {}
            Some(address) => return address,
            None => return socket,
        }
    }
    socket
}

/// Whether an address is in one of these networks.
#[must_use]
pub fn is_in(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// An address with or without a port.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok();
    let address = address.or_else(|| text.parse().ok().map(|socket: SocketAddr| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// How many edges a request has passed, by what it says itself. What is no number counts as none.
#[must_use]
pub fn hops<'h>(fields: impl Iterator<Item = (&'h [u8], &'h [u8], Known)>) -> u32 {
    let of = |value: &[u8]| -> u32 {
        let value = value.strip_prefix(b"hops=").unwrap_or(value);
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return 0;
        }
        let text = std::str::from_utf8(value).unwrap_or_default();
        // More digits than fit are many hops.
        text.parse().unwrap_or(u32::MAX)
    };
    let said = fields.filter(|(_, _, known)| *known == Known::Hops);
    said.map(|(_, value, _)| of(value)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-163: only what trusted proxies say is believed, from the right.
    #[test]
    fn the_client_is_the_right_most_untrusted_address() {
        let trusted: Vec<Network> = ["10.0.0.0/8", "::1/128"]
            .iter()
            .map(|network| network.parse().unwrap())
            .collect();
        let rows: &[(&str, &[&str], &str)] = &[
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
            (
                "10.0.0.1",
                &["203.0.113.9", "198.51.100.7, 10.0.0.2"],
                "198.51.100.7",
            ),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            ("::1", &["[2001:db8::1]:80"], "2001:db8::1"),
            ("::1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &["::ffff:198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &[","], "10.0.0.1"),
        ];
        for (socket, forwarded, expect) in rows {
            let values = forwarded.iter().map(|value| value.as_bytes());
            let found = client_address(socket.parse().unwrap(), &trusted, values);
            assert_eq!(found.to_string(), *expect, "{socket} {forwarded:?}");
        }
    }

    /// HP-164: the count is read in both profiles' forms, and a lie about it is no way around.
    #[test]
    fn hops_are_counted_in_both_forms() {
        let rows: &[(&[&str], u32)] = &[
            (&[], 0),
            (&["3"], 3),
            (&["hops=3"], 3),
            (&["2", "hops=10"], 10),
            (&["-1"], 0),
            (&["many"], 0),
            (&["99999999999999999999"], u32::MAX),
        ];
        for (values, expect) in rows {
            let fields = values
                .iter()
                .map(|value| (&b"x-hedgerow-hops"[..], value.as_bytes(), Known::Hops));
            assert_eq!(hops(fields), *expect, "{values:?}");
        }
    }
}
