//! What is sent to an origin in place of a client's request (HP-160 to HP-165, HP-146, HP-181): its head, written anew.

use std::io::Write as _;

use hedgerow_origin::settings::Protocol;

use crate::affinity;
use crate::guard::{Framing, Version, members};
use crate::names::Known;
use crate::profile::HeaderProfile;

/// A client's request, as far as its head is of interest.
#[derive(Debug, Clone, Copy)]
pub struct Forwarded<'r> {
    /// The method.
    pub method: &'r [u8],
    /// The path that was matched (HP-154).
    pub path: &'r str,
    /// The query as it came.
    pub query: Option<&'r str>,
    /// The client's host.
    pub host: &'r str,
    /// The client's version.
    pub version: Version,
    /// How the body will be framed.
    pub framing: Framing,
    /// Whether `Expect: 100-continue` is passed on.
    pub expects_continue: bool,
    /// Whether it asks for a WebSocket.
    pub wants_websocket: bool,
    /// Whether `Connection` names fields.
    pub names_fields: bool,
}

/// What the edge says of a request.
#[derive(Debug, Clone, Copy)]
pub struct Said<'r> {
    /// Under which names.
    pub profile: HeaderProfile,
    /// How the client came.
    pub scheme: Protocol,
    /// The address of its socket.
    pub socket: &'r str,
    /// Its own address (HP-163).
    pub client: &'r str,
    /// The request's reference.
    pub reference: &'r str,
    /// Lets an origin accept one edge only.
    pub edge_id: &'r str,
    /// How many edges it has passed with this one.
    pub hops: u32,
}

/// A field: name, value, and what it means.
pub type FieldOf<'r> = (&'r [u8], &'r [u8], Known);

/// Writes the head for an origin. `host_header` is the origin's own, if it has one (HP-165).
pub fn write_head<'r>(
    out: &mut Vec<u8>,
    request: &Forwarded<'_>,
    said: &Said<'_>,
    host_header: Option<&str>,
    fields: impl Iterator<Item = FieldOf<'r>> + Clone,
) {
    let names = said.profile.names();
    out.extend_from_slice(request.method);
    out.push(b' ');
    out.extend_from_slice(request.path.as_bytes());
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(query.as_bytes());
    }
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host_header.unwrap_or(request.host).as_bytes());
    out.extend_from_slice(b"\r\n");
    let (mut has_forwarded_for, mut has_via, mut has_cookie) = (false, false, false);
    for (name, value, known) in fields.clone() {
        match known {
            Known::Other | Known::Debug | Known::Caching | Known::Drain => {
                let is_named = request.names_fields && is_named(name, fields.clone());
                if !is_named {
                    field(out, name, value);
                }
            }
            Known::ForwardedFor => has_forwarded_for = true,
            Known::Via => has_via = true,
            Known::Cookie => has_cookie = true,
            Known::Expect if request.expects_continue => field(out, b"Expect", b"100-continue"),
            // What concerns this connection, and what the edge says itself.
            _ => {}
        }
    }
    if has_cookie {
        cookies(out, fields.clone());
    }
    out.extend_from_slice(b"X-Forwarded-For: ");
    if has_forwarded_for {
        joined(out, fields.clone(), Known::ForwardedFor);
    }
    out.extend_from_slice(said.socket.as_bytes());
    out.extend_from_slice(b"\r\n");
    text_field(out, "X-Forwarded-Host", request.host);
    text_field(out, "X-Forwarded-Proto", said.scheme.as_str());
    out.extend_from_slice(b"Via: ");
    if has_via {
        joined(out, fields, Known::Via);
    }
    out.extend_from_slice(request.version.as_str().as_bytes());
    out.extend_from_slice(b" hedgerow\r\n");
    text_field(out, names.client_ip, said.client);
    text_field(out, names.socket_ip, said.socket);
    text_field(out, names.reference, said.reference);
    text_field(out, names.edge_id, said.edge_id);
    let (name, prefix) = names.hops;
    // Writing to memory does not fail.
    let _ = write!(out, "{name}: {prefix}{}\r\n", said.hops);
    match request.framing {
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Length(length) => {
            let _ = write!(out, "Content-Length: {length}\r\n");
        }
        // HP-187; so that an origin that insists on a length has one.
        Framing::None | Framing::UntilClose => {
            if matches!(request.method, b"POST" | b"PUT" | b"PATCH") {
                out.extend_from_slice(b"Content-Length: 0\r\n");
            }
        }
    }
    if request.wants_websocket {
        out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn text_field(out: &mut Vec<u8>, name: &str, value: &str) {
    field(out, name.as_bytes(), value.as_bytes());
}

/// All values of the fields that mean this, each followed by a comma.
fn joined<'r>(out: &mut Vec<u8>, fields: impl Iterator<Item = FieldOf<'r>>, wanted: Known) {
    let values = fields.filter(|(_, value, known)| *known == wanted && !value.is_empty());
    for (_, value, _) in values {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
}

/// One field with all cookies but the edge's own (HP-146). HTTP/2 may send them apart.
fn cookies<'r>(out: &mut Vec<u8>, fields: impl Iterator<Item = FieldOf<'r>>) {
    let before = out.len();
    out.extend_from_slice(b"Cookie: ");
    let begin = out.len();
    let values = fields.filter(|(_, _, known)| *known == Known::Cookie);
    for (_, value, _) in values {
        if out.len() > begin {
            out.extend_from_slice(b"; ");
        }
        if !affinity::may_be_in(value) {
            out.extend_from_slice(value);
            continue;
        }
        let mut is_first = true;
        for pair in affinity::others(value) {
            if !is_first {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(pair);
            is_first = false;
        }
    }
    let is_separator = |out: &[u8]| out.len() > begin && out.ends_with(b"; ");
    while is_separator(out) {
        out.truncate(out.len() - 2);
    }
    if out.len() == begin {
        out.truncate(before);
    } else {
        out.extend_from_slice(b"\r\n");
    }
}

/// Whether a `Connection` field names this one (HP-164).
pub(crate) fn is_named<'r>(name: &[u8], fields: impl Iterator<Item = FieldOf<'r>>) -> bool {
    let mut connection = fields.filter(|(_, _, known)| *known == Known::Connection);
    connection.any(|(_, value, _)| members(value).any(|named| named.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::known;

    const PLAIN: Forwarded<'_> = Forwarded {
        method: b"GET",
        path: "/a",
        query: None,
        host: "shop.example:8080",
        version: Version::Http11,
        framing: Framing::None,
        expects_continue: false,
        wants_websocket: false,
        names_fields: false,
    };
    const SAID: Said<'_> = Said {
        profile: HeaderProfile::Hedgerow,
        scheme: Protocol::Https,
        socket: "192.0.2.1",
        client: "198.51.100.7",
        reference: "r1",
        edge_id: "e1",
        hops: 1,
    };

    fn written(
        request: &Forwarded<'_>,
        said: &Said<'_>,
        host_header: Option<&str>,
        fields: &[(&str, &str)],
    ) -> String {
        let mut out = Vec::new();
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes(), known(name.as_bytes())));
        write_head(&mut out, request, said, host_header, fields);
        String::from_utf8(out).unwrap()
    }

    /// HP-160, HP-161, HP-165: what an origin is told, in both profiles.
    #[test]
    fn an_origin_is_told_who_came_and_how() {
        let text = written(&PLAIN, &SAID, None, &[("Accept", "*/*")]);
        assert_eq!(
            text,
            "GET /a HTTP/1.1\r\nHost: shop.example:8080\r\nAccept: */*\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-Forwarded-Host: shop.example:8080\r\nX-Forwarded-Proto: https\r\nVia: 1.1 hedgerow\r\n\
             X-Hedgerow-Client-IP: 198.51.100.7\r\nX-Hedgerow-Socket-IP: 192.0.2.1\r\nX-Hedgerow-Ref: r1\r\n\
             X-Hedgerow-Edge-Id: e1\r\nX-Hedgerow-Hops: 1\r\n\r\n"
        );
        let said = Said {
            profile: HeaderProfile::FrontDoor,
            hops: 3,
            ..SAID
        };
        let request = Forwarded {
            query: Some("q=%2F"),
            version: Version::Http2,
            ..PLAIN
        };
        let text = written(&request, &said, Some("origin.internal"), &[]);
        assert_eq!(
            text,
            "GET /a?q=%2F HTTP/1.1\r\nHost: origin.internal\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-Forwarded-Host: shop.example:8080\r\nX-Forwarded-Proto: https\r\nVia: 2 hedgerow\r\n\
             X-Azure-ClientIP: 198.51.100.7\r\nX-Azure-SocketIP: 192.0.2.1\r\nX-Azure-Ref: r1\r\n\
             X-Azure-FDID: e1\r\nX-Azure-RequestChain: hops=3\r\n\r\n"
        );
    }

    /// HP-160, HP-162, HP-164: what is appended, what is replaced, and what is removed.
    #[test]
    fn clients_cannot_say_what_the_edge_says() {
        let fields = [
            ("X-Forwarded-For", "203.0.113.9"),
            ("x-forwarded-for", "203.0.113.10"),
            ("X-Forwarded-Host", "evil.example"),
            ("X-Forwarded-Proto", "http"),
            ("Via", "1.0 other"),
            ("X-FD-HealthProbe", "1"),
            ("X-Azure-ClientIP", "6.6.6.6"),
            ("X-Hedgerow-Client-IP", "6.6.6.6"),
            ("X-Hedgerow-Edge-Id", "mine"),
            ("X_Hedgerow_Edge_Id", "mine"),
            ("X-Hedgerow-Hops", "0"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "trailers"),
            ("Trailer", "x"),
            ("Upgrade", "h2c"),
            (
                "Connection",
                "close, x-secret, Host, X-Forwarded-Host, Upgrade",
            ),
            ("X-Secret", "1"),
            ("X-Kept", "1"),
        ];
        let request = Forwarded {
            names_fields: true,
            ..PLAIN
        };
        let text = written(&request, &SAID, None, &fields);
        assert_eq!(
            text,
            "GET /a HTTP/1.1\r\nHost: shop.example:8080\r\nX-Kept: 1\r\n\
             X-Forwarded-For: 203.0.113.9, 203.0.113.10, 192.0.2.1\r\n\
             X-Forwarded-Host: shop.example:8080\r\nX-Forwarded-Proto: https\r\nVia: 1.0 other, 1.1 hedgerow\r\n\
             X-Hedgerow-Client-IP: 198.51.100.7\r\nX-Hedgerow-Socket-IP: 192.0.2.1\r\nX-Hedgerow-Ref: r1\r\n\
             X-Hedgerow-Edge-Id: e1\r\nX-Hedgerow-Hops: 1\r\n\r\n"
        );
    }

    /// HP-146: the edge's cookies stay here, all others are passed on, in one field.
    #[test]
    fn affinity_cookies_are_removed() {
        let rows: &[(&[&str], &str)] = &[
            (&["a=1; b=2"], "Cookie: a=1; b=2\r\n"),
            (&["a=1; hedgerow_affinity=x; b=2"], "Cookie: a=1; b=2\r\n"),
            (&["hedgerow_affinity=x;hedgerow_affinity_cors=y"], ""),
            (&["hedgerow_affinity=x", "c=3"], "Cookie: c=3\r\n"),
            (&["a=1", "hedgerow_affinity_cors=y"], "Cookie: a=1\r\n"),
            (
                &["my_hedgerow_affinity=x"],
                "Cookie: my_hedgerow_affinity=x\r\n",
            ),
            (&["a=1", "b=2"], "Cookie: a=1; b=2\r\n"),
        ];
        for (cookies, expect) in rows {
            let fields: Vec<_> = cookies.iter().map(|value| ("cookie", *value)).collect();
            let text = written(&PLAIN, &SAID, None, &fields);
            let (_, rest) = text.split_once("8080\r\n").unwrap();
            let found = rest.split("X-Forwarded-For").next().unwrap();
            assert_eq!(found, *expect, "{cookies:?}");
        }
    }

    /// HP-168, HP-181, HP-187: the framing is the edge's own.
    #[test]
    fn the_framing_is_written_anew() {
        let rows: &[(&[u8], Framing, bool, &str)] = &[
            (b"GET", Framing::None, false, ""),
            (b"POST", Framing::None, false, "Content-Length: 0\r\n"),
            (b"GET", Framing::Length(0), false, "Content-Length: 0\r\n"),
            (b"POST", Framing::Length(5), false, "Content-Length: 5\r\n"),
            (
                b"POST",
                Framing::Chunked,
                false,
                "Transfer-Encoding: chunked\r\n",
            ),
            (
                b"GET",
                Framing::None,
                true,
                "Connection: Upgrade\r\nUpgrade: websocket\r\n",
            ),
        ];
        for (method, framing, wants_websocket, expect) in rows {
            let request = Forwarded {
                method,
                framing: *framing,
                wants_websocket: *wants_websocket,
                ..PLAIN
            };
            let fields = [
                ("Content-Length", "77"),
                ("Transfer-Encoding", "chunked"),
                ("Upgrade", "websocket"),
                ("Connection", "upgrade"),
            ];
            let text = written(&request, &SAID, None, &fields);
            assert!(
                text.ends_with(&format!("Hops: 1\r\n{expect}\r\n")),
                "{text}"
            );
            assert_eq!(
                text.matches("Content-Length").count(),
                expect.matches("Content-Length").count()
            );
        }
    }
}
