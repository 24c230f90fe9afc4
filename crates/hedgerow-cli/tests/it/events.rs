//! Events from the command line: published, looked at, delivered again.

use crate::kit::{Place, Server, complained, endpoint_with, json, printed, run, until};

#[test]
fn a_token_publishes_where_no_key_is_given() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let words = ["publish", "--topic", "orders", "--id", "a-1"];
    assert_eq!(printed(&server.run(&words)), "event a-1 is accepted\n");
    let refused = ["--server", server.endpoint(), "--token", "wrong"];
    let refused = complained(&run(&[&["topic", "list"], &refused[..]].concat()), 1);
    assert!(refused.contains("--token-file"), "{refused}");
}

#[test]
fn what_is_not_delivered_is_listed() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    server.subscribe("orders", "billing", &endpoint_with(400));
    let keys = json(&server, &["topic", "keys", "orders"]);
    let key = keys["key2"].as_str().unwrap();
    let published = server.run(&[
        "publish",
        "--topic",
        "orders",
        "--key",
        key,
        "--id",
        "7",
        "--type",
        "Order.Placed",
        "--subject",
        "orders/7",
        "--data",
        "{\"total\": 1.50}",
    ]);
    assert_eq!(printed(&published), "event 7 is accepted\n");
    let list = [
        "terminal-record",
        "list",
        "--topic",
        "orders",
        "--event-subscription",
        "billing",
    ];
    let record = until("the terminal record", || {
        json(&server, &list).get(0).cloned()
    });
    assert_eq!(record["eventId"], "7", "{record}");
    assert_eq!(
        record["reason"], "UndeliverableDueToHttpBadRequest",
        "{record}"
    );
    assert_eq!(record["deliveryAttempts"], 1, "{record}");
    let table = printed(&server.run(&list));
    assert!(
        table
            .lines()
            .nth(1)
            .unwrap()
            .contains("UndeliverableDueToHttpBadRequest"),
        "{table}"
    );

    let refused = server.run(&["publish", "--topic", "orders", "--key", "wrong"]);
    assert!(complained(&refused, 1).starts_with("error: "));
    complained(
        &server.run(&["publish", "--topic", "orders", "--key", key, "--data", "{"]),
        2,
    );
}

#[test]
fn events_of_every_schema_are_published() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let custom = ["--input-mapping-fields", "eventType=kind"];
    for (schema, mapping, says, other) in [
        (
            "eventgridschema",
            &[][..],
            "event 7 is accepted\n",
            "cloudeventschemav1_0",
        ),
        (
            "cloudeventschemav1_0",
            &[],
            "event 7 is accepted\n",
            "eventgridschema",
        ),
        (
            "customeventschema",
            &custom,
            "event ",
            "cloudeventschemav1_0",
        ),
    ] {
        let topic = schema.replace('_', "-");
        let create = ["topic", "create", &topic, "--input-schema", schema];
        printed(&server.run(&[&create, mapping].concat()));
        let keys = json(&server, &["topic", "keys", &topic]);
        let key = keys["key1"].as_str().unwrap();
        let publish = |schema| {
            let which = [
                "publish", "--topic", &topic, "--key", key, "--schema", schema,
            ];
            server.run(&[&which[..], &["--id", "7", "--data", "{\"kind\":\"x\"}"]].concat())
        };
        let said = printed(&publish(schema));
        assert!(said.starts_with(says), "{said}");
        // The id is that of the event, also where the server made it (issue 4).
        let id = said.strip_prefix("event ").unwrap();
        let id = id.strip_suffix(" is accepted\n").unwrap();
        let explained = json(&server, &["explain", id, "--topic", &topic]);
        assert_eq!(explained["eventId"], id, "{explained}");
        complained(&publish(other), 1);
    }
}

#[test]
fn attempts_of_an_event_are_listed() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200);
    server.subscribe("orders", "billing", &endpoint);
    let none = complained(&server.run(&["event", "attempts", "a/b 1"]), 1);
    assert!(
        none.starts_with("error: no attempt is remembered; "),
        "{none}"
    );
    let keys = json(&server, &["topic", "keys", "orders"]);
    let key = keys["key1"].as_str().unwrap();
    let publish = ["publish", "--topic", "orders", "--key", key];
    printed(&server.run(&[&publish[..], &["--id", "a/b 1"]].concat()));
    let listed = until("an attempt", || {
        let listed = server.run(&["event", "attempts", "a/b 1"]).stdout;
        let listed = String::from_utf8(listed).unwrap();
        listed.contains("Delivered").then_some(listed)
    });
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("TOPIC"), "{listed}");
    assert!(
        lines[1].starts_with("orders") && lines[1].contains("billing"),
        "{listed}"
    );
    assert!(lines[2].starts_with("attempts before "), "{listed}");
    let answer = json(&server, &["event", "attempts", "a/b 1"]);
    assert_eq!(answer["value"][0]["attempt"], 1);
    assert!(answer["knownSince"].is_string());
    let of = |topic: &str| {
        let command = ["event", "attempts", "a/b 1", "--topic", topic];
        server.run(&[&command[..], &["--event-subscription", "billing"]].concat())
    };
    assert!(printed(&of("orders")).contains("Delivered"));
    complained(&of("invoices"), 1);
}

/// ED-265: what cannot be read has a column, and a replay that waits for its directory is canceled.
#[test]
fn replays_are_listed_and_canceled() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200);
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let create = ["event-subscription", "create", "--endpoint", &endpoint];
    let letters = ["--deadletter-endpoint", "gone"];
    printed(&server.run(&[&create[..], &which, &letters].concat()));
    let of = ["--topic", "orders", "--event-subscription", "billing"];
    printed(&server.run(&[&["dead-letter", "replay"][..], &of].concat()));
    let replays = ["dead-letter", "replays"];
    let listed = printed(&server.run(&replays));
    assert!(listed.contains("UNREADABLE"), "{listed}");
    let canceled = printed(&server.run(&[&replays[..], &["--cancel", "1"]].concat()));
    assert!(canceled.contains("Canceled"), "{canceled}");
    let resumed = server.run(&[&replays[..], &["--resume", "1"]].concat());
    assert!(complained(&resumed, 1).contains("was canceled"));
}

/// FC-10: an event is delivered again by hand; a double click does it once.
#[test]
fn an_event_is_resent() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let endpoint = endpoint_with(200);
    let create = ["event-subscription", "create", "--endpoint", &endpoint];
    printed(&server.run(&[&create[..], &which].concat()));
    let (_, keys) = server.admin("POST", "/topics/orders/listKeys", "");
    let key = keys["key1"].as_str().unwrap();
    let publish = ["publish", "--topic", "orders", "--key", key, "--id", "e 1"];
    let at = ["--server", server.endpoint()];
    printed(&run(&[&publish[..], &at].concat()));
    let delivered = |count: u64| {
        let show = [&["event-subscription", "show"], &which[..]].concat();
        until("the delivery", || {
            (json(&server, &show)["status"]["delivered"] == count).then_some(())
        });
    };
    delivered(1);
    let said = printed(&server.run(&["event", "resend", "e 1"]));
    assert!(
        said.contains("billing") && said.contains("Resent"),
        "{said}"
    );
    let resend = ["event", "resend", "e 1", "--topic", "orders"];
    let named = [&resend[..], &["--event-subscription", "billing"]].concat();
    let again = printed(&server.run(&named));
    assert!(again.contains("AlreadyResent"), "{again}");
    delivered(2);
    let told = printed(&server.run(&["explain", "e 1"]));
    assert!(told.contains("resent by an operator"), "{told}");
    complained(&server.run(&["event", "resend", "never"]), 1);
    let nobody = [&resend[..], &["--event-subscription", "nobody"]].concat();
    let nobody = complained(&server.run(&nobody), 1);
    assert!(nobody.contains("nobody"), "{nobody}");
}
