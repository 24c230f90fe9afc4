//! Tokens are made, borne, kept and deleted.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::access::Right;

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn new(name: &str, prefix: &str, expires: Option<u64>) -> NewToken {
    NewToken {
        name: name.into(),
        rights: [Right::Read].into_iter().collect(),
        prefix: TopicPrefix::parse(prefix).unwrap(),
        expires: expires.map(Timestamp::from_millis),
    }
}

fn headers(secret: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = format!("Bearer {secret}").parse().unwrap();
    headers.insert(AUTHORIZATION, value);
    headers
}

#[test]
fn what_is_made_holds_over_a_restart_until_it_is_deleted() {
    let data = tempfile::tempdir().unwrap();
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    let (token, secret) = tokens.create(new("ci", "team-a-", None), NOW).unwrap();
    let (_, other) = tokens.create(new("other", "", None), NOW).unwrap();
    assert_eq!(
        tokens.grant(&headers(&secret), NOW).as_ref(),
        Some(&token.grant)
    );
    let path = data.path().join("tokens.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&secret[4..]), "only the hash is kept");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // What a kill leaves behind is what was answered: nothing is written at an end.
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    assert_eq!(
        tokens.grant(&headers(&secret), NOW).as_ref(),
        Some(&token.grant)
    );
    tokens.delete("CI").unwrap();
    assert_eq!(tokens.grant(&headers(&secret), NOW), None, "at once");
    assert!(tokens.grant(&headers(&other), NOW).is_some());
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    assert_eq!(tokens.grant(&headers(&secret), NOW), None, "and for good");
    assert_eq!(tokens.list().len(), 1);
}

#[test]
fn the_first_token_may_do_everything_and_stays() {
    let data = tempfile::tempdir().unwrap();
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    let grant = tokens.grant(&headers(tokens.first().as_str()), NOW);
    let grant = grant.expect("it is in force");
    assert!(grant.is_whole() && Right::ALL.iter().all(|right| grant.rights.has(*right)));
    assert!(matches!(tokens.delete("Admin"), Err(TokenError::First)));
    let again = tokens.create(new("ADMIN", "", None), NOW);
    assert!(matches!(again, Err(TokenError::First)));
}

#[test]
fn a_token_expires_at_its_time() {
    let data = tempfile::tempdir().unwrap();
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    let (_, secret) = tokens.create(new("ci", "", Some(2_000)), NOW).unwrap();
    let at = |millis| tokens.grant(&headers(&secret), Timestamp::from_millis(millis));
    assert!(at(1_999).is_some());
    assert!(at(2_000).is_none(), "half-open, as all times are");
}

#[test]
fn names_stand_once_and_what_is_not_there_is_said() {
    let data = tempfile::tempdir().unwrap();
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    tokens.create(new("ci", "", None), NOW).unwrap();
    let again = tokens.create(new("Ci", "", None), NOW);
    assert!(matches!(again, Err(TokenError::Exists(_))));
    assert!(matches!(
        tokens.delete("nobody"),
        Err(TokenError::NotFound(_))
    ));
}

#[test]
fn only_a_whole_bearer_token_counts() {
    let data = tempfile::tempdir().unwrap();
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    let (_, secret) = tokens.create(new("ci", "", None), NOW).unwrap();
    for (value, expect) in [
        (format!("Bearer {secret}"), true),
        (format!("bearer {secret}"), true),
        (format!("Bearer {secret}x"), false),
        (format!("Bearer {}", &secret[..secret.len() - 1]), false),
        (format!("Basic {secret}"), false),
        ("Bearer ".to_owned(), false),
        ("Bearer".to_owned(), false),
        (String::new(), false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        assert_eq!(tokens.grant(&headers, NOW).is_some(), expect, "{value}");
    }
    assert!(tokens.grant(&HeaderMap::new(), NOW).is_none());
}

#[test]
fn a_file_that_cannot_be_read_is_refused() {
    let data = tempfile::tempdir().unwrap();
    for text in [
        "",
        "[]",
        r#"{"tokens":[{"name":"a"}]}"#,
        r#"{"tokens":[{"name":"a","hash":"AA==","rights":[],"topicPrefix":"","created":0,"expires":null}]}"#,
        r#"{"tokens":[{"name":"a","hash":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","rights":["fly"],"topicPrefix":"","created":0,"expires":null}]}"#,
    ] {
        std::fs::write(data.path().join("tokens.json"), text).unwrap();
        let error = Tokens::load_or_create(data.path()).err();
        let error = error.unwrap_or_else(|| panic!("{text} is read"));
        assert!(error.to_string().contains("tokens.json"), "{error}");
    }
}

/// A change that cannot be made durable is none: not in memory, and not in the file.
#[test]
fn file_and_memory_agree_when_the_directory_cannot_be_synced() {
    let data = tempfile::tempdir().unwrap();
    let tokens = Tokens::load_or_create(data.path()).unwrap();
    let (_, secret) = tokens.create(new("ci", "", None), NOW).unwrap();
    tokens.file.lock().unwrap().fail_to_sync();
    let made = tokens.create(new("other", "", None), NOW);
    assert!(matches!(made, Err(TokenError::File(_))));
    assert!(matches!(tokens.delete("ci"), Err(TokenError::File(_))));
    let again = Tokens::load_or_create(data.path()).unwrap();
    assert_eq!(again.list(), tokens.list());
    assert_eq!(again.list().len(), 1);
    assert!(tokens.grant(&headers(&secret), NOW).is_some());
}
