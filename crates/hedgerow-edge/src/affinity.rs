//! Sessions that stay with their origin (HP-140 to HP-146): the cookie, what it says, and where it may be written. Which
//! origin a session is pinned to, and whether that is followed, is decided by the selection.

use ring::hmac;

use crate::names::Known;

/// The cookie of pages of the same site.
pub const COOKIE: &str = "hedgerow_affinity";
/// The cookie of pages of other sites.
pub const COOKIE_CROSS_SITE: &str = "hedgerow_affinity_cors";

/// Characters of a cookie's value.
const VALUE_LENGTH: usize = 32;

/// What a cookie says of an origin: a keyed hash of its URL (HP-141). Nobody can make one up, or read a name out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; VALUE_LENGTH]);

impl Pin {
    /// That of an origin's URL.
    #[must_use]
    pub fn of(key: &hmac::Key, url: &str) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let tag = hmac::sign(key, url.as_bytes());
        let mut value = [0; VALUE_LENGTH];
        for (pair, byte) in value.chunks_exact_mut(2).zip(tag.as_ref()) {
            if let [high, low] = pair {
                *high = DIGITS[usize::from(byte >> 4)];
                *low = DIGITS[usize::from(byte & 15)];
            }
        }
        Self(value)
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Whether a cookie says this. It is no secret of the client's: who knows one may use it.
    #[must_use]
    pub fn is(&self, value: &[u8]) -> bool {
        self.0 == value
    }
}

/// Whether a `Cookie` field may hold one of the edge's.
#[must_use]
pub fn may_be_in(value: &[u8]) -> bool {
    memchr::memmem::find(value, COOKIE.as_bytes()).is_some()
}

/// The cookies of a field that are not the edge's.
pub fn others(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    pairs(value).filter(|pair| own(pair).is_none())
}

/// The values of the edge's cookies.
pub fn values<'r>(
    fields: impl Iterator<Item = (&'r [u8], &'r [u8], Known)>,
) -> impl Iterator<Item = &'r [u8]> {
    let cookies = fields.filter(|(_, value, known)| *known == Known::Cookie && may_be_in(value));
    cookies.flat_map(|(_, value, _)| pairs(value).filter_map(own))
}

fn pairs(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let pairs = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    pairs.filter(|pair| !pair.is_empty())
}

/// The value of one of the edge's cookies.
fn own(pair: &[u8]) -> Option<&[u8]> {
    let equals = memchr::memchr(b'=', pair)?;
    let (name, value) = pair.split_at_checked(equals)?;
    let name = name.trim_ascii_end();
    let is_own = name == COOKIE.as_bytes() || name == COOKIE_CROSS_SITE.as_bytes();
    is_own.then(|| value.get(1..).unwrap_or_default().trim_ascii())
}

/// The `Set-Cookie` values that pin a session. The second is for HTTPS only: browsers take it with `Secure` alone.
#[must_use]
pub fn set_cookies(pin: &Pin, is_https: bool) -> (String, Option<String>) {
    let value = pin.as_str();
    let secure = if is_https { "; Secure" } else { "" };
    let same_site = format!("{COOKIE}={value}; Path=/; HttpOnly{secure}; SameSite=Lax");
    let cross_site = is_https
        .then(|| format!("{COOKIE_CROSS_SITE}={value}; Path=/; HttpOnly; Secure; SameSite=None"));
    (same_site, cross_site)
}

/// Whether a response cannot be cached, so that a cookie may be put on it (HP-145): it says so, its status is none that is
/// cached without being told to, or it answers a method that is never cached.
#[must_use]
pub fn is_uncacheable<'r>(
    method: &[u8],
    status: u16,
    fields: impl Iterator<Item = (&'r [u8], &'r [u8], Known)>,
) -> bool {
    if !matches!(method, b"GET" | b"HEAD") {
        return true;
    }
    let mut allows = false;
    for (name, value, _) in fields.filter(|(_, _, known)| *known == Known::Caching) {
        if name.eq_ignore_ascii_case(b"expires") {
            allows = true;
            continue;
        }
        for directive in crate::guard::members(value) {
            let end = directive
                .iter()
                .position(|byte| matches!(byte, b'=' | b' '));
            let directive = directive
                .get(..end.unwrap_or(directive.len()))
                .unwrap_or_default();
            let is = |name: &[u8]| directive.eq_ignore_ascii_case(name);
            // A shared cache keeps no private response; the cookie is the session's own.
            if is(b"no-store") || is(b"private") {
                return true;
            }
            allows |= is(b"public") || is(b"max-age") || is(b"s-maxage") || is(b"must-revalidate");
        }
    }
    let is_cached_by_default = matches!(
        status,
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    );
    !allows && !is_cached_by_default
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::known;

    /// HP-145: only responses that nobody caches carry the cookie.
    #[test]
    fn cacheable_responses_carry_no_cookie() {
        type Row = (
            &'static str,
            u16,
            &'static [(&'static str, &'static str)],
            bool,
        );
        let rows: &[Row] = &[
            ("GET", 200, &[], false),
            ("GET", 200, &[("Cache-Control", "no-store")], true),
            (
                "GET",
                200,
                &[("Cache-Control", "No-Store, max-age=0")],
                true,
            ),
            ("GET", 200, &[("Cache-Control", "private")], true),
            (
                "GET",
                200,
                &[("Cache-Control", "public, max-age=60")],
                false,
            ),
            ("GET", 302, &[], true),
            ("GET", 302, &[("Cache-Control", "max-age=60")], false),
            (
                "GET",
                302,
                &[("Expires", "Thu, 01 Dec 2033 16:00:00 GMT")],
                false,
            ),
            ("GET", 301, &[], false),
            ("GET", 404, &[], false),
            ("GET", 500, &[], true),
            ("HEAD", 200, &[], false),
            ("POST", 200, &[], true),
        ];
        for (method, status, fields, expect) in rows {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes(), known(name.as_bytes())));
            let found = is_uncacheable(method.as_bytes(), *status, fields);
            assert_eq!(found, *expect, "{method} {status}");
        }
    }

    /// HP-141: the value reveals no name, depends on the key, and is the same at each start with it.
    #[test]
    fn the_cookie_is_a_keyed_hash() {
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let pin = Pin::of(&key(b"one"), "http://a.example:80");
        assert_eq!(pin, Pin::of(&key(b"one"), "http://a.example:80"));
        assert_ne!(pin, Pin::of(&key(b"two"), "http://a.example:80"));
        assert_ne!(pin, Pin::of(&key(b"one"), "http://b.example:80"));
        assert!(pin.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        let (same, cross) = set_cookies(&pin, true);
        assert!(same.ends_with("; Path=/; HttpOnly; Secure; SameSite=Lax"));
        assert!(cross.is_some_and(|cross| cross.ends_with("; Secure; SameSite=None")));
        let (same, cross) = set_cookies(&pin, false);
        assert!(same.ends_with("; Path=/; HttpOnly; SameSite=Lax") && cross.is_none());
        let field = format!("a=1; {COOKIE}={}; b=2", pin.as_str());
        let fields = [(&b"cookie"[..], field.as_bytes(), Known::Cookie)];
        let found: Vec<_> = values(fields.into_iter()).collect();
        assert!(found.len() == 1 && pin.is(found[0]));
    }
}
