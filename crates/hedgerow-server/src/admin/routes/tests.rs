//! The whole table: every route, every set of rights, every relation of the topic to the prefix.

use axum::body::Body;
use http::StatusCode;
use tokio::sync::watch;
use tower_service::Service as _;

use super::*;
use crate::access::{Grant, Rights, TopicPrefix};
use crate::admin::{router, routes};
use crate::config::Config;
use crate::public_url::PublicUrl;
use crate::state::{App, Counted};
use crate::tokens::Tokens;

/// Without an engine, what was let through is answered by its handler: 503, or 400 for what is missing from the body.
fn app(data: &std::path::Path) -> (SharedApp, watch::Sender<hedgerow_delivery::grid::GridState>) {
    let (grid, seen) = watch::channel(hedgerow_delivery::grid::GridState::Opening);
    let config = Config::default();
    let url = PublicUrl::new(None, config.listen, false);
    let tokens = Tokens::load_or_create(data).unwrap();
    let origins = crate::origins::of_nobody(seen.clone());
    let app = App::new(
        &config,
        None,
        url,
        tokens,
        seen,
        Counted::default(),
        origins,
    );
    (Arc::new(app), grid)
}

fn path(rule: &Rule) -> String {
    let path = rule.path.replace("{topic}", "Team-a-orders");
    let path = path
        .replace("{domain}", "Team-a-shop")
        .replace("{domainTopic}", "foo");
    let path = path.replace("{name}", "billing").replace("{eventId}", "1");
    path.replace("{blob}", "1").replace("{replay}", "1")
}

#[tokio::test]
async fn every_route_asks_for_its_right_and_its_scope() {
    let data = tempfile::tempdir().unwrap();
    let (app, _grid) = app(data.path());
    let mut router = router(app);
    let (_, rules) = routes();
    for rule in &rules {
        for bits in 0..1_u8 << Right::ALL.len() {
            let held = (0..Right::ALL.len()).filter(|right| bits & 1 << right != 0);
            let rights: Rights = held.map(|right| Right::ALL[right]).collect();
            for prefix in ["", "team-a-", "team-b-"] {
                let grant = Grant {
                    name: "ci".into(),
                    rights,
                    prefix: TopicPrefix::parse(prefix).unwrap(),
                };
                let mut request = http::Request::builder()
                    .method(rule.method.clone())
                    .uri(path(rule))
                    .body(Body::empty())
                    .unwrap();
                request.extensions_mut().insert(Arc::new(grant));
                let status = router.call(request).await.unwrap().status();
                let case = format!(
                    "{} {} {:?} {prefix:?}",
                    rule.method,
                    rule.path,
                    rights.names()
                );
                let forbidden = match (rule.reach, prefix) {
                    _ if !rights.has(rule.right) => true,
                    (Reach::Grid, prefix) => !prefix.is_empty(),
                    (Reach::NewTopic, prefix) => prefix == "team-b-",
                    (Reach::Topic | Reach::Lists, _) => false,
                };
                assert_eq!(
                    status == StatusCode::FORBIDDEN,
                    forbidden,
                    "{case}: {status}"
                );
                if rule.reach == Reach::Topic && !forbidden {
                    let is_hidden = prefix == "team-b-";
                    assert_eq!(
                        status == StatusCode::NOT_FOUND,
                        is_hidden,
                        "{case}: {status}"
                    );
                }
                assert_ne!(status, StatusCode::UNAUTHORIZED, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_grant_nothing_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let (app, _grid) = app(data.path());
    let mut router = router(app);
    for rule in routes().1 {
        let request = http::Request::builder()
            .method(rule.method.clone())
            .uri(path(&rule))
            .body(Body::empty())
            .unwrap();
        let status = router.call(request).await.unwrap().status();
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{}", rule.path);
    }
}

/// What is about a topic or a domain has it in its path, and what has it is about it.
#[test]
fn a_topic_in_the_path_is_judged() {
    for rule in routes().1 {
        let is_of_topic = matches!(rule.reach, Reach::Topic | Reach::NewTopic);
        let names_one = rule.path.contains("{topic}") || rule.path.contains("{domain}");
        assert_eq!(names_one, is_of_topic, "{}", rule.path);
        let is_read = rule.right == Right::Read;
        assert_eq!(
            rule.method == Method::GET && rule.path != "/api/v1/tokens",
            is_read,
            "{} {}: reading is GET",
            rule.method,
            rule.path
        );
    }
}

/// The reference has every route with its right and its scope, and no other.
#[test]
fn every_route_is_in_the_reference() {
    let page = include_str!("../../../../../docs/reference/admin-api.md");
    let lines = page
        .lines()
        .filter(|line| line.contains("`/api/v1") || line.contains(" /api/v1"));
    let rows = lines.filter(|line| line.starts_with("| `")).count();
    let rules = routes().1;
    for rule in &rules {
        let scope = match rule.reach {
            Reach::Topic | Reach::NewTopic => "topic",
            Reach::Lists => "lists",
            Reach::Grid => "grid",
        };
        let row = format!(
            "| `{} {}` | {}, {scope} |",
            rule.method, rule.path, rule.right
        );
        assert!(page.contains(&row), "{row} is missing");
    }
    assert_eq!(rows, rules.len(), "a row has no route");
}

/// FC-26: a route about a topic of which none is given is nobody's whose token has a prefix.
#[test]
fn without_a_topic_a_topics_route_is_refused() {
    for reach in [Reach::Topic, Reach::NewTopic] {
        let rule = Rule {
            method: Method::GET,
            path: "/api/v1/odd",
            right: Right::Read,
            reach,
        };
        let grant = |prefix: &str| Grant {
            name: "ci".into(),
            rights: Rights::all(),
            prefix: TopicPrefix::parse(prefix).unwrap(),
        };
        assert!(rule.judge(&grant("team-a-"), None).is_err(), "{reach:?}");
        assert!(rule.judge(&grant(""), None).is_ok(), "{reach:?}");
    }
}
