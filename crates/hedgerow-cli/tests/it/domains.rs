//! `hedgerow domain` and `hedgerow domain-topic` against a real server (section 1.11).

use crate::kit::{Place, Server, complained, json, printed};

/// At which nobody listens.
const ENDPOINT: &str = "http://127.0.0.1:9/hook";

#[test]
fn domains_and_their_topics_are_created_shown_listed_and_deleted() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let run = |words: &[&str]| printed(&server.run(words));
    let endpoint = format!("{}/shop/api/events", server.endpoint());
    let created = run(&["domain", "create", "shop"]);
    assert_eq!(
        created,
        format!("domain shop created; publish to {endpoint}\n")
    );
    let switch = "--auto-delete-topic-with-last-subscription";
    let updated = run(&["domain", "update", "shop", switch, "false"]);
    assert!(
        updated.contains("autoDeleteTopicWithLastSubscription was true, is false"),
        "{updated}"
    );
    let again = run(&["domain", "create", "shop"]);
    assert_eq!(
        again,
        format!("domain shop exists; publish to {endpoint}\n")
    );
    let shown = json(&server, &["domain", "show", "shop"]);
    assert_eq!(shown["autoDeleteTopicWithLastSubscription"], false);
    assert_eq!(json(&server, &["domain", "list"])[0]["name"], "shop");
    assert_eq!(
        json(&server, &["topic", "list"]).as_array().unwrap().len(),
        0
    );
    complained(&server.run(&["domain", "update", "none"]), 1);
    complained(&server.run(&["topic", "show", "shop"]), 1);
    let keys = json(&server, &["domain", "keys", "shop"]);
    let new = json(&server, &["domain", "keys", "shop", "--regenerate", "key2"]);
    assert_eq!(
        (&keys["key1"], keys["key2"] == new["key2"]),
        (&new["key1"], false)
    );

    let of = ["--domain", "shop"];
    let created = run(&[&["domain-topic", "create", "foo"], &of[..]].concat());
    assert_eq!(created, "topic foo of domain shop created\n");
    complained(
        &server.run(&["domain-topic", "create", "fo", "--domain", "shop"]),
        2,
    );
    // Every spelling of a source.
    server.subscribe("domains/shop", "all", ENDPOINT);
    server.subscribe("domains/shop/topics/foo", "some", ENDPOINT);
    let id =
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/domains/shop/topics/BAR";
    let made = server.subscribe(id, "some", ENDPOINT);
    assert!(made.contains("shop/topics/BAR"), "{made}");
    let list = run(&["domain-topic", "list", "--domain-name", "shop"]);
    let names: Vec<_> = list
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, ["BAR", "foo"], "{list}");
    let shown = json(
        &server,
        &["domain-topic", "show", "bar", "--domain", "shop"],
    );
    assert_eq!(shown["eventSubscriptionCount"], 1);
    let list = ["event-subscription", "list", "--source-resource-id"];
    let of_foo = json(&server, &[&list[..], &["shop/topics/foo"]].concat());
    assert_eq!(of_foo[0]["topic"], "shop/topics/foo");
    assert_eq!(
        json(&server, &[&list[..], &["domains/shop"]].concat())[0]["name"],
        "all"
    );

    let key = new["key1"].as_str().unwrap();
    let publish = ["publish", "--topic", "shop", "--key", key, "--id", "e-1"];
    complained(&server.run(&publish), 1);
    run(&[&publish[..], &["--domain-topic", "foo"]].concat());
    let explained = run(&["explain", "e-1", "--topic", "domains/shop"]);
    assert!(
        explained.starts_with("event e-1 in topic foo of domain shop, accepted"),
        "{explained}"
    );
    assert!(
        explained.contains("shop/topics/foo/some: ") && explained.contains("  all: "),
        "{explained}"
    );
    assert!(!explained.contains("BAR"), "{explained}");
    let resent = run(&["event", "resend", "e-1"]);
    assert!(
        resent.contains("some") && resent.contains("all"),
        "{resent}"
    );

    let deleted = run(&["domain-topic", "delete", "foo", "--domain", "shop"]);
    assert_eq!(deleted, "topic foo of domain shop deleted\n");
    assert_eq!(run(&["domain", "delete", "shop"]), "domain shop deleted\n");
    complained(&server.run(&["domain", "show", "shop"]), 1);
}
