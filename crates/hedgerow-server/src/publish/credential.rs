//! Who may publish: whoever has one of the two keys of the topic. Secrets are compared in constant time (ED-014).

use hedgerow_delivery::command::PublishTopic;
use hedgerow_store::catalog::TopicKeys;
use http::header::AUTHORIZATION;
use http::request::Parts;
use subtle::ConstantTimeEq;

/// The header, and the parameter of the query, that carry a topic's key (ED-012, ED-013).
const KEY: &str = "aeg-sas-key";
/// The header of a shared access signature (ED-017).
const SIGNATURE: &str = "aeg-sas-token";

/// Why a publisher is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRefused {
    /// There is no credential.
    Missing,
    /// The key is neither of the two.
    Wrong,
    /// The topic takes neither keys nor signatures (ED-015).
    Disabled,
    /// A credential that this version does not know.
    Unsupported(&'static str),
}

/// Judges the credential of a publish request. The first one present decides (ED-028); later ones are not looked at.
pub fn authenticate(request: &Parts, topic: &PublishTopic) -> Result<(), KeyRefused> {
    let keys = &topic.keys;
    if topic.spec.disable_local_auth {
        return Err(KeyRefused::Disabled);
    }
    if let Some(key) = request.headers.get(KEY) {
        return judge(key.as_bytes(), keys);
    }
    if let Some(key) = query_parameter(request, KEY) {
        return judge(&decode_key(key), keys);
    }
    if request.headers.contains_key(SIGNATURE) {
        return Err(KeyRefused::Unsupported("a shared access signature"));
    }
    if request.headers.contains_key(AUTHORIZATION) {
        return Err(KeyRefused::Unsupported("an Authorization header"));
    }
    Err(KeyRefused::Missing)
}

/// Whether a request has a credential that decides before `Authorization` (ED-028).
pub fn is_keyed(request: &Parts) -> bool {
    let headers = &request.headers;
    headers.contains_key(KEY)
        || headers.contains_key(SIGNATURE)
        || query_parameter(request, KEY).is_some()
}

/// The first value of a parameter of the query, still encoded.
pub fn query_parameter<'r>(request: &'r Parts, name: &str) -> Option<&'r str> {
    let parameters = request.uri.query()?.split('&');
    parameters
        .filter_map(|parameter| parameter.split_once('='))
        .find_map(|(of, value)| of.eq_ignore_ascii_case(name).then_some(value))
}

fn judge(key: &[u8], keys: &TopicKeys) -> Result<(), KeyRefused> {
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
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| hex_pair(behind)).flatten();
        let (byte, after) = match escaped {
            Some(byte) => (byte, &behind[2..]),
            None => (*first, behind),
        };
        key.push(if byte == b' ' { b'+' } else { byte });
        rest = after;
    }
    key
}

fn hex_pair(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (high, low) = (digit(*text.first()?)?, digit(*text.get(1)?)?);
    u8::try_from(high << 4 | low).ok()
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

    /// ED-012, ED-013, ED-027, ED-028.
    #[test]
    fn the_first_credential_decides() {
        let wrong = Err(KeyRefused::Wrong);
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
            ("/?api-version=2018-01-01&aeg-sas-key=ef+/gh==", &[], Ok(())),
            ("/?aeg-sas-key=ab%2", &[], wrong),
            ("/?aeg-sas-key=", &[], wrong),
            ("/?aeg-sas-key", &[], Err(KeyRefused::Missing)),
            ("/?aeg-sas-key=ab+/cd==", &[("aeg-sas-key", "x")], wrong),
            ("/?aeg-sas-key=x", &[("aeg-sas-key", "ab+/cd==")], Ok(())),
            ("/?aeg-sas-key=x&aeg-sas-key=ab+/cd==", &[], wrong),
            ("/?aeg-sas-key=x", &[("aeg-sas-token", "r=&e=&s=")], wrong),
            (
                "/",
                &[("authorization", "Bearer x"), ("aeg-sas-token", "r=&e=&s=")],
                Err(KeyRefused::Unsupported("a shared access signature")),
            ),
            (
                "/",
                &[("authorization", "Bearer x")],
                Err(KeyRefused::Unsupported("an Authorization header")),
            ),
        ];
        for (uri, headers, expect) in rows {
            assert_eq!(
                authenticate(&request(uri, headers), &topic()),
                *expect,
                "{uri} {headers:?}"
            );
        }
    }
}
