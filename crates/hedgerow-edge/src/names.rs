//! Names of header fields that mean something to the edge. Case does not count; neither does `_` instead of `-`, which many
//! origins take for the same (HP-162).

/// What a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is passed on.
    Other,
    /// `Host`.
    Host,
    /// `Content-Length`.
    ContentLength,
    /// `Transfer-Encoding`.
    TransferEncoding,
    /// One of the three above in a spelling that some take for it: refused (HP-168).
    Disguised,
    /// `Connection`.
    Connection,
    /// `Upgrade`.
    Upgrade,
    /// Another one that concerns one connection only (HP-164).
    HopByHop,
    /// `Expect`.
    Expect,
    /// `Via`.
    Via,
    /// `Cookie`.
    Cookie,
    /// `X-Forwarded-For`.
    ForwardedFor,
    /// What the edge says itself, and nobody else (HP-160 to HP-162).
    Reserved,
    /// How many edges a request has passed, in either profile (HP-164).
    Hops,
    /// The request's reference, in either profile: set anew, on responses too.
    Reference,
    /// Asks for details of the answer (HP-167).
    Debug,
    /// `Cache-Control`, `Expires`: whether a response may be cached (HP-145).
    Caching,
    /// `X-Hedgerow-Drain` (HP-198).
    Drain,
}

/// What a name of a field means.
#[must_use]
pub fn known(name: &[u8]) -> Known {
    let found = spelled(name);
    if found != Known::Other || memchr::memchr(b'_', name).is_none() {
        return found;
    }
    let mut dashed = [0; LONGEST];
    let Some(dashed) = dashed.get_mut(..name.len()) else {
        return if begins(name, b"x-fd-") {
            Known::Reserved
        } else {
            Known::Other
        };
    };
    for (to, from) in dashed.iter_mut().zip(name) {
        *to = if *from == b'_' { b'-' } else { *from };
    }
    match spelled(dashed) {
        Known::Host | Known::ContentLength | Known::TransferEncoding | Known::Disguised => {
            Known::Disguised
        }
        Known::ForwardedFor | Known::Reserved | Known::Hops | Known::Reference => Known::Reserved,
        _ => Known::Other,
    }
}

/// Bytes of the longest known name.
const LONGEST: usize = 24;

fn spelled(name: &[u8]) -> Known {
    let is = |lower: &[u8]| name.eq_ignore_ascii_case(lower);
    match name.len() {
        2 if is(b"te") => Known::HopByHop,
        3 if is(b"via") => Known::Via,
        4 if is(b"host") => Known::Host,
        6 if is(b"cookie") => Known::Cookie,
        6 if is(b"expect") => Known::Expect,
        7 if is(b"upgrade") => Known::Upgrade,
        7 if is(b"trailer") => Known::HopByHop,
        7 if is(b"expires") => Known::Caching,
        10 if is(b"connection") => Known::Connection,
        10 if is(b"keep-alive") => Known::HopByHop,
        11 if is(b"x-azure-ref") => Known::Reference,
        12 if is(b"x-azure-fdid") => Known::Reserved,
        13 if is(b"cache-control") => Known::Caching,
        14 if is(b"content-length") => Known::ContentLength,
        14 if is(b"x-hedgerow-ref") => Known::Reference,
        15 if is(b"x-forwarded-for") => Known::ForwardedFor,
        15 if is(b"x-hedgerow-hops") => Known::Hops,
        16 if is(b"x-azure-clientip") => Known::Reserved,
        16 if is(b"x-azure-socketip") => Known::Reserved,
        16 if is(b"proxy-connection") => Known::HopByHop,
        16 if is(b"x-hedgerow-debug") => Known::Debug,
        16 if is(b"x-forwarded-host") => Known::Reserved,
        16 if is(b"x-hedgerow-drain") => Known::Drain,
        17 if is(b"transfer-encoding") => Known::TransferEncoding,
        17 if is(b"x-forwarded-proto") => Known::Reserved,
        17 if is(b"x-azure-debuginfo") => Known::Debug,
        18 if is(b"x-hedgerow-edge-id") => Known::Reserved,
        20 if is(b"x-azure-requestchain") => Known::Hops,
        20 if is(b"x-hedgerow-client-ip") => Known::Reserved,
        20 if is(b"x-hedgerow-socket-ip") => Known::Reserved,
        _ if begins(name, b"x-fd-") => Known::Reserved,
        _ => Known::Other,
    }
}

/// Whether a name begins so, `_` taken for `-`.
fn begins(name: &[u8], lower: &[u8]) -> bool {
    let Some(beginning) = name.get(..lower.len()) else {
        return false;
    };
    let same = |byte: &u8| match byte {
        b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    beginning.iter().map(same).eq(lower.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HP-161, HP-162, HP-168: spellings of a name are one name, and what some take for one is not passed on as another.
    #[test]
    fn names_are_known_in_every_spelling() {
        let rows: &[(&str, Known)] = &[
            ("Host", Known::Host),
            ("hOsT", Known::Host),
            ("content-LENGTH", Known::ContentLength),
            ("Content_Length", Known::Disguised),
            ("transfer_encoding", Known::Disguised),
            ("Transfer-Encoding", Known::TransferEncoding),
            ("X-FD-HealthProbe", Known::Reserved),
            (
                "x-fd-anything-at-all-however-long-it-may-be",
                Known::Reserved,
            ),
            ("X_FD_HealthProbe", Known::Reserved),
            (
                "x_fd-anything-at-all-however-long-it-may-be",
                Known::Reserved,
            ),
            ("X-Azure-ClientIP", Known::Reserved),
            ("X-Azure-SocketIP", Known::Reserved),
            ("X-Azure-FDID", Known::Reserved),
            ("X-Azure-Ref", Known::Reference),
            ("X-Azure-RequestChain", Known::Hops),
            ("X-Hedgerow-Client-IP", Known::Reserved),
            ("X-Hedgerow-Socket-IP", Known::Reserved),
            ("X-Hedgerow-Edge-Id", Known::Reserved),
            ("X-Hedgerow-Ref", Known::Reference),
            ("X-Hedgerow-Hops", Known::Hops),
            ("X_Hedgerow_Edge_Id", Known::Reserved),
            ("X-Hedgerow-Client_IP", Known::Reserved),
            ("X-Forwarded-For", Known::ForwardedFor),
            ("X_Forwarded_For", Known::Reserved),
            ("X-Forwarded-Host", Known::Reserved),
            ("X-Forwarded-Proto", Known::Reserved),
            ("X-Forwarded-Port", Known::Other),
            ("Keep-Alive", Known::HopByHop),
            ("Proxy-Connection", Known::HopByHop),
            ("TE", Known::HopByHop),
            ("Trailer", Known::HopByHop),
            ("my_header", Known::Other),
            ("X-FD", Known::Other),
            ("", Known::Other),
        ];
        for (name, expect) in rows {
            assert_eq!(known(name.as_bytes()), *expect, "{name}");
        }
    }
}
