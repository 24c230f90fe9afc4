//! Who may publish: whoever has one of the two keys of the topic, or a signature made with one (sections 1.2 to 1.4). Secrets
//! are compared in constant time (ED-014).

use std::borrow::Cow;
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_delivery::command::PublishTopic;
use hedgerow_dialect::sas::{self, Endpoint, SasError, SasRules};
use hedgerow_store::catalog::TopicKeys;
use http::header::{AUTHORIZATION, HeaderValue};
use http::request::Parts;
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq;

use crate::guard::host_of;
use crate::public_url::PublicUrl;
use crate::publish::data_plane::Authentication;
use crate::state::App;

/// The header, and the parameter of the query, that carry a topic's key (ED-012, ED-013).
const KEY: &str = "aeg-sas-key";
/// The header of a shared access signature (ED-017).
const SIGNATURE: &str = "aeg-sas-token";
/// The scheme of `Authorization` with one.
const SIGNATURE_SCHEME: &str = "SharedAccessSignature";
const BEARER_SCHEME: &str = "Bearer";

/// Why a publisher is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRefused {
    /// There is no credential.
    Missing,
    /// The key is neither of the two.
    Wrong,
    /// The topic takes neither keys nor signatures (ED-015).
    Disabled,
    /// The shared access signature does not hold.
    Signature(SasError),
    /// A bearer token that is none of ours.
    Bearer,
    /// Another scheme of `Authorization`.
    Scheme,
}

/// A credential of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credential<'r> {
    Key(&'r [u8]),
    KeyOfQuery(&'r str),
    Signature(&'r [u8]),
    Bearer,
    Other,
}

/// What signatures are judged by, besides request and topic.
#[derive(Debug, Clone, Copy)]
struct Signatures<'a> {
    public_url: &'a PublicUrl,
    now: Timestamp,
    clock_skew: Duration,
}

/// Judges the credential of a publish request.
pub fn authenticate(app: &App, request: &Parts, topic: &PublishTopic) -> Result<(), KeyRefused> {
    let signatures = Signatures {
        public_url: &app.public_url,
        now: app.time(),
        clock_skew: app.sas_clock_skew,
    };
    judge(request, topic, signatures)
}

fn judge(
    request: &Parts,
    topic: &PublishTopic,
    signatures: Signatures<'_>,
) -> Result<(), KeyRefused> {
    let credential = find(request).ok_or(KeyRefused::Missing)?;
    if topic.spec.disable_local_auth && credential != Credential::Bearer {
        return Err(KeyRefused::Disabled);
    }
    match credential {
        Credential::Key(key) => judge_key(key, &topic.keys),
        Credential::KeyOfQuery(key) => judge_key(&decode_key(key), &topic.keys),
        Credential::Signature(token) => {
            let rules = SasRules {
                keys: [&topic.keys.key1, &topic.keys.key2],
                endpoints: &endpoints(signatures.public_url, request, &topic.name),
                now: signatures.now,
                clock_skew: signatures.clock_skew,
            };
            sas::verify(token, &rules).map_err(KeyRefused::Signature)
        }
        Credential::Bearer => Err(KeyRefused::Bearer),
        Credential::Other => Err(KeyRefused::Scheme),
    }
}

/// The credential that decides: the first one present (ED-028). Later ones are not looked at.
fn find(request: &Parts) -> Option<Credential<'_>> {
    let header = |name| request.headers.get(name).map(HeaderValue::as_bytes);
    if let Some(key) = header(KEY) {
        return Some(Credential::Key(key));
    }
    if let Some(key) = query_parameter(request, KEY) {
        return Some(Credential::KeyOfQuery(key));
    }
    if let Some(token) = header(SIGNATURE) {
        return Some(Credential::Signature(token));
    }
    let value = header(AUTHORIZATION.as_str())?;
    let at = value.iter().position(|byte| *byte == b' ');
    let (scheme, rest) = value.split_at(at.unwrap_or(value.len()));
    Some(
        if scheme.eq_ignore_ascii_case(SIGNATURE_SCHEME.as_bytes()) {
            Credential::Signature(rest.trim_ascii())
        } else if scheme.eq_ignore_ascii_case(BEARER_SCHEME.as_bytes()) {
            Credential::Bearer
        } else {
            Credential::Other
        },
    )
}

/// What the endpoint of a request may be called in a signature (ED-022): as the topic shows it, and as it was called. The
/// scheme of a call is that of the public URL; for hosts that are none of its own it is not known, because a proxy may
/// have spoken TLS.
fn endpoints(public_url: &PublicUrl, request: &Parts, topic: &str) -> Vec<Endpoint> {
    let mut urls = vec![public_url.topic_endpoint(topic)];
    if let Some(host) = host_of(request) {
        let path = request.uri.path();
        let is_own = public_url.has_host(host);
        let schemes = ["http", "https"].into_iter();
        let schemes = schemes.filter(|scheme| !is_own || *scheme == public_url.scheme());
        urls.extend(schemes.map(|scheme| format!("{scheme}://{host}{path}")));
    }
    urls.iter().filter_map(|url| Endpoint::parse(url)).collect()
}

/// How a request says who it is from, whether or not that holds (ED-309).
pub fn kind(request: &Parts) -> Authentication {
    match find(request) {
        Some(Credential::Key(_) | Credential::KeyOfQuery(_)) => Authentication::Key,
        Some(Credential::Signature(_)) => Authentication::SasToken,
        Some(Credential::Bearer) => Authentication::Bearer,
        Some(Credential::Other) | None => Authentication::Unknown,
    }
}

/// Whether a request has a credential that decides before `Authorization` (ED-028).
pub fn is_keyed(request: &Parts) -> bool {
    let headers = &request.headers;
    headers.contains_key(KEY)
        || headers.contains_key(SIGNATURE)
        || query_parameter(request, KEY).is_some()
}

/// The first value of a parameter of the query, still encoded.
fn query_parameter<'r>(request: &'r Parts, name: &str) -> Option<&'r str> {
    query_values(request, name).next()
}

/// All values of a parameter of the query, still encoded. Its name may be in any case, and encoded.
fn query_values<'r>(request: &'r Parts, name: &str) -> impl Iterator<Item = &'r str> {
    let parameters = request.uri.query().unwrap_or_default().split('&');
    let pairs = parameters.filter_map(|parameter| parameter.split_once('='));
    pairs.filter_map(move |(of, value)| {
        unescaped(of)
            .eq_ignore_ascii_case(name.as_bytes())
            .then_some(value)
    })
}

/// Whether a parameter of the query has this value wherever it stands, and may be missing.
pub fn has_no_other_value(request: &Parts, name: &str, value: &str) -> bool {
    query_values(request, name).all(|found| *unescaped(found) == *value.as_bytes())
}

fn judge_key(key: &[u8], keys: &TopicKeys) -> Result<(), KeyRefused> {
    let is_either = key.ct_eq(keys.key1.as_bytes()) | key.ct_eq(keys.key2.as_bytes());
    if is_either.into() {
        Ok(())
    } else {
        Err(KeyRefused::Wrong)
    }
}

/// Reads a key out of a query. No key has a space, so one stands for the `+` that it was before somebody decoded it
/// (ED-013): `+`, `%2B` and `%20` are all the same.
fn decode_key(text: &str) -> Vec<u8> {
    let mut key = unescaped(text).into_owned();
    key.iter_mut()
        .filter(|byte| **byte == b' ')
        .for_each(|byte| *byte = b'+');
    key
}

/// A text of a query without its percent-encoding; `+` stays one, and so does what is no escape.
fn unescaped(text: &str) -> Cow<'_, [u8]> {
    percent_decode_str(text).into()
}

#[cfg(test)]
mod tests {
    use hedgerow_core::position::TopicId;
    use hedgerow_core::spec::TopicSpec;

    use super::*;

    /// Target, headers, what is expected.
    type Row = (
        &'static str,
        &'static [(&'static str, &'static str)],
        Result<(), KeyRefused>,
    );

    fn topic() -> PublishTopic {
        PublishTopic {
            metrics: std::sync::Arc::default(),
            id: TopicId(1),
            name: "orders".to_owned(),
            path: "/orders".to_owned(),
            spec: TopicSpec::default(),
            keys: TopicKeys {
                key1: "ab+/cd==".to_owned(),
                key2: "ef+/gh==".to_owned(),
            },
        }
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn judged(request: &Parts, topic: &PublishTopic, now: &str) -> Result<(), KeyRefused> {
        let public_url = "https://hedgerow.example".parse().unwrap();
        let now: jiff::Timestamp = now.parse().unwrap();
        let signatures = Signatures {
            public_url: &public_url,
            now: Timestamp::from_millis(now.as_millisecond().unsigned_abs()),
            clock_skew: Duration::ZERO,
        };
        judge(request, topic, signatures)
    }

    /// ED-012, ED-013, ED-027, ED-028.
    #[test]
    fn the_first_credential_decides() {
        let wrong = Err(KeyRefused::Wrong);
        let malformed = Err(KeyRefused::Signature(SasError::Malformed));
        let rows: &[Row] = &[
            ("/", &[], Err(KeyRefused::Missing)),
            ("/", &[("aeg-sas-key", "ab+/cd==")], Ok(())),
            ("/", &[("Aeg-Sas-Key", "ef+/gh==")], Ok(())),
            ("/", &[("aeg-sas-key", "ab+/cd=")], wrong),
            ("/", &[("aeg-sas-key", "")], wrong),
            ("/?aeg-sas-key=ab+/cd==", &[], Ok(())),
            ("/?aeg-sas-key=ab%2B%2Fcd%3D%3D", &[], Ok(())),
            ("/?aeg-sas-key=ab%2b/cd%3d=", &[], Ok(())),
            ("/?aeg-sas-key=ab%20/cd==", &[], Ok(())),
            ("/?Aeg%2DSas%2dKey=ab+/cd==", &[], Ok(())),
            ("/?api-version=2018-01-01&aeg-sas-key=ef+/gh==", &[], Ok(())),
            ("/?aeg-sas-key=ab%2", &[], wrong),
            ("/?aeg-sas-key=", &[], wrong),
            ("/?aeg-sas-key", &[], Err(KeyRefused::Missing)),
            ("/?aeg-sas-key=ab+/cd==", &[("aeg-sas-key", "x")], wrong),
            ("/?aeg-sas-key=x", &[("aeg-sas-key", "ab+/cd==")], Ok(())),
            ("/?aeg-sas-key=x&aeg-sas-key=ab+/cd==", &[], wrong),
            ("/?aeg-sas-key=x", &[("aeg-sas-token", "x")], wrong),
            (
                "/",
                &[("authorization", "Bearer x"), ("aeg-sas-token", "x")],
                malformed,
            ),
            ("/", &[("aeg-sas-token", "")], malformed),
            (
                "/",
                &[("authorization", "SharedAccessSignature x")],
                malformed,
            ),
            (
                "/",
                &[("authorization", "sharedaccesssignature")],
                malformed,
            ),
            (
                "/",
                &[("authorization", "Bearer x")],
                Err(KeyRefused::Bearer),
            ),
            ("/", &[("authorization", "bearer")], Err(KeyRefused::Bearer)),
            (
                "/",
                &[("authorization", "Basic x")],
                Err(KeyRefused::Scheme),
            ),
            ("/", &[("authorization", "")], Err(KeyRefused::Scheme)),
        ];
        for (uri, headers, expect) in rows {
            let judged = judged(&request(uri, headers), &topic(), "2030-01-01T00:00:00Z");
            assert_eq!(judged, *expect, "{uri} {headers:?}");
        }
    }

    /// ED-006: encoded or twice is no other version.
    #[test]
    fn a_parameter_has_one_value_however_it_is_written() {
        for (query, expect) in [
            ("", true),
            ("?", true),
            ("?x=1", true),
            ("?api-version", true),
            ("?api-version=2018-01-01", true),
            ("?API-Version=2018%2D01%2d01", true),
            ("?api%2Dversion=2018-01-01&x=1", true),
            ("?api-version=2018-01-01&api-version=2018-01-01", true),
            ("?api-version=", false),
            ("?api-version=2018-01-1", false),
            ("?api-version=2018-01-01&api-version=2020-06-01", false),
            ("?api-version=2020-06-01&api-version=2018-01-01", false),
            ("?api-version=2018-01-01%", false),
            ("?api%2Dversion=1", false),
        ] {
            let request = request(&format!("/{query}"), &[]);
            let found = has_no_other_value(&request, "api-version", "2018-01-01");
            assert_eq!(found, expect, "{query}");
        }
    }

    /// ED-015: neither keys nor signatures, whatever they are.
    #[test]
    fn local_authentication_can_be_disabled() {
        let mut topic = topic();
        topic.spec.disable_local_auth = true;
        for (uri, headers, expect) in [
            ("/", vec![("aeg-sas-key", "ab+/cd==")], KeyRefused::Disabled),
            ("/?aeg-sas-key=ab+/cd==", vec![], KeyRefused::Disabled),
            ("/", vec![("aeg-sas-token", "x")], KeyRefused::Disabled),
            (
                "/",
                vec![("authorization", "SharedAccessSignature x")],
                KeyRefused::Disabled,
            ),
            ("/", vec![("authorization", "Bearer x")], KeyRefused::Bearer),
            ("/", vec![], KeyRefused::Missing),
        ] {
            let judged = judged(&request(uri, &headers), &topic, "2030-01-01T00:00:00Z");
            assert_eq!(judged, Err(expect), "{uri} {headers:?}");
        }
    }

    /// ED-017, ED-022, ED-025: both spellings, at the topic's own host, whose paths are two endpoints.
    #[test]
    fn signatures_are_for_the_endpoint_that_is_called() {
        const TOKEN: &str = "r=https%3A%2F%2Forders.hedgerow.example%2Fapi%2Fevents\
            &e=2030-01-02T03%3A04%3A05&s=T%2Bz2TivtLqHm4iDTtRR9J%2F8DgOd0Wt1fZ4TV1JXwWjo%3D";
        let mut topic = topic();
        topic.keys.key2 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned();
        let resource = Err(KeyRefused::Signature(SasError::Resource));
        let authorization = format!("SharedAccessSignature {TOKEN}");
        for (host, path, expect) in [
            (
                "orders.hedgerow.example",
                "/api/events?api-version=2018-01-01",
                Ok(()),
            ),
            ("ORDERS.hedgerow.example:443", "/API/events", Ok(())),
            ("orders.hedgerow.example", "/", resource),
            ("orders.hedgerow.example", "/orders/api/events", resource),
            ("orders.hedgerow.example:8443", "/api/events", resource),
            ("hedgerow.example", "/orders/api/events", resource),
        ] {
            for (name, value) in [("aeg-sas-token", TOKEN), ("authorization", &authorization)] {
                let request = request(path, &[("host", host), (name, value)]);
                let at = |now| judged(&request, &topic, now);
                assert_eq!(at("2030-01-02T03:04:04.999Z"), expect, "{host} {path}");
                if expect.is_ok() {
                    let expired = Err(KeyRefused::Signature(SasError::Expired));
                    assert_eq!(at("2030-01-02T03:04:05Z"), expired);
                }
            }
        }
    }

    /// ED-022: what may be called what.
    #[test]
    fn an_endpoint_has_the_names_of_its_topic_and_its_call() {
        let public_url: PublicUrl = "https://hedgerow.example".parse().unwrap();
        let names = |host: &str, path: &str| {
            let request = request(path, &[("host", host)]);
            endpoints(&public_url, &request, "orders")
        };
        let parse = |url| Endpoint::parse(url).unwrap();
        let shown = parse("https://hedgerow.example/orders/api/events");
        for (host, path, called, is_named) in [
            (
                "hedgerow.example",
                "/orders/api/events",
                "http://hedgerow.example/orders/api/events",
                false,
            ),
            (
                "orders.hedgerow.example",
                "/",
                "https://orders.hedgerow.example",
                true,
            ),
            (
                "orders.hedgerow.example",
                "/",
                "http://orders.hedgerow.example",
                false,
            ),
            (
                "127.0.0.1:8080",
                "/orders/api/events",
                "http://127.0.0.1:8080/orders/api/events",
                true,
            ),
            (
                "proxied.example",
                "/orders/api/events",
                "https://proxied.example/orders/api/events",
                true,
            ),
        ] {
            let names = names(host, path);
            assert!(names.contains(&shown), "{names:?}");
            assert_eq!(
                names.contains(&parse(called)),
                is_named,
                "{called} at {host}"
            );
        }
    }
}
