//! `hedgerow topic` against a real server.

use serde_json::json;

use crate::kit::{Place, Server, complained, json, printed};

#[test]
fn topics_are_created_shown_listed_and_deleted() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let endpoint = format!("{}/orders/api/events", server.endpoint());
    let created = printed(&server.run(&["topic", "create", "orders"]));
    assert_eq!(
        created,
        format!("topic orders created; publish to {endpoint}\n")
    );
    let again = printed(&server.run(&["topic", "create", "orders"]));
    assert_eq!(
        again,
        format!("topic orders exists; publish to {endpoint}\n")
    );

    let list = printed(&server.run(&["topic", "list"]));
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines[0].starts_with("NAME") && lines[0].contains("ENDPOINT"),
        "{list}"
    );
    assert!(
        lines[1].starts_with("orders") && lines[1].contains(&endpoint),
        "{list}"
    );
    assert_eq!(
        lines[0].find("ENDPOINT"),
        lines[1].find(&endpoint),
        "{list}"
    );
    let shown = printed(&server.run(&["topic", "show", "orders"]));
    assert!(shown.contains(&endpoint), "{shown}");
    assert_eq!(json(&server, &["topic", "list"])[0]["name"], "orders");

    let keys = json(&server, &["topic", "keys", "orders"]);
    let new = json(
        &server,
        &["topic", "keys", "orders", "--regenerate", "key1"],
    );
    assert_ne!(keys["key1"], new["key1"]);
    assert_eq!(keys["key2"], new["key2"]);

    printed(&server.run(&["topic", "delete", "orders"]));
    let error = complained(&server.run(&["topic", "show", "orders"]), 1);
    assert!(
        error.starts_with("error: ") && error.contains("orders"),
        "{error}"
    );
    complained(&server.run(&["topic", "create", "o!"]), 2);
}

/// What is not given stays as it is, and what changed is said.
#[test]
fn a_topic_that_is_declared_again_changes_by_what_is_given() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let create =
        |more: &[&str]| printed(&server.run(&[&["topic", "create", "local"], more].concat()));
    create(&["--disable-local-auth", "true"]);
    let again = create(&[]);
    assert!(again.starts_with("topic local exists; "), "{again}");
    let shown = json(&server, &["topic", "show", "local"]);
    assert_eq!(shown["disableLocalAuth"], true);
    let changed = create(&["--disable-local-auth", "false"]);
    assert!(
        changed.starts_with("topic local updated: disableLocalAuth was true, is false; "),
        "{changed}"
    );
    let deleted = json(&server, &["topic", "delete", "local"]);
    assert_eq!(deleted, json!({ "name": "local", "isDeleted": true }));
}

#[test]
fn warnings_of_a_topic_are_told_to_people_too() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let words = [
        "topic",
        "create",
        "custom",
        "--input-schema",
        "customeventschema",
        "--input-mapping-fields",
        "id=order.id",
    ];
    let output = server.run(&words);
    let error = complained(&output, 0);
    assert!(error.starts_with("warning: "), "{error}");
}

/// The names of the vendor's command line, in any case.
#[test]
fn topics_take_the_names_that_vendors_users_know() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let create =
        |name, options: &[&str]| server.run(&[&["topic", "create", name], options].concat());
    printed(&create(
        "clouds",
        &["--input-schema", "cloudeventschemav1_0"],
    ));
    let custom = [
        "--input-schema",
        "CustomEventSchema",
        "--input-mapping-fields",
        "eventtype=kind",
        "id=order.id",
        "--input-mapping-default-values",
        "subject=a=b",
        "eventType=none",
        "--disable-local-auth",
        "true",
    ];
    printed(&create("custom", &custom));
    let show = |name| json(&server, &["topic", "show", name]);
    assert_eq!(show("clouds")["inputSchema"], "CloudEventSchemaV1_0");
    let shown = show("custom");
    assert_eq!(shown["inputSchema"], "CustomEventSchema");
    assert_eq!(shown["disableLocalAuth"], true);
    let expected = json!({ "inputSchemaMappingType": "Json", "properties": {
        "id": { "sourceField": "order.id" },
        "eventType": { "sourceField": "kind", "defaultValue": "none" },
        "subject": { "defaultValue": "a=b" },
    }});
    assert_eq!(shown["inputSchemaMapping"], expected);
    let shown = printed(&server.run(&["topic", "show", "custom"]));
    assert!(shown.contains("order.id"), "{shown}");
    assert!(
        shown.contains("keys and signatures refused  true"),
        "{shown}"
    );

    let twice = ["--input-mapping-fields", "id=a", "ID=b"];
    complained(&create("other", &twice), 1);
    let unknown = ["--input-mapping-fields", "name=a"];
    complained(&create("other", &unknown), 2);
    let without = ["--input-schema", "customeventschema"];
    let error = complained(&create("other", &without), 1);
    assert!(error.contains("inputSchemaMapping"), "{error}");
}
