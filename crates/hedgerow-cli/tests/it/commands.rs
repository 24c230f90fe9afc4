//! The client commands against a real server.

use serde_json::{Value, json};

use crate::kit::{Place, Server, complained, endpoint_with, hedgerow, printed, run, until};

fn json(server: &Server, arguments: &[&str]) -> Value {
    let output = server.run(&[arguments, &["--output", "json"]].concat());
    serde_json::from_str(&printed(&output)).unwrap()
}

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

#[test]
fn subscriptions_take_the_names_that_vendors_users_know() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200);
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let create = [
        &["event-subscription", "create", "--endpoint", &endpoint][..],
        &which,
        &["--included-event-types", "Order.Placed", "Order.Paid"],
        &[
            "--subject-begins-with",
            "orders/",
            "--subject-ends-with",
            "1",
        ],
        &[
            "--subject-case-sensitive",
            "true",
            "--max-delivery-attempts",
            "5",
            "--event-ttl",
            "90",
        ],
    ]
    .concat();
    let created = printed(&server.run(&create));
    assert!(
        created.starts_with("event subscription billing created"),
        "{created}"
    );

    let shown = json(
        &server,
        &[&["event-subscription", "show"][..], &which].concat(),
    );
    let expected = [
        (
            "/filter/includedEventTypes",
            json!(["Order.Placed", "Order.Paid"]),
        ),
        ("/filter/subjectBeginsWith", json!("orders/")),
        ("/filter/subjectEndsWith", json!("1")),
        ("/filter/isSubjectCaseSensitive", json!(true)),
        ("/retryPolicy/maxDeliveryAttempts", json!(5)),
        ("/retryPolicy/eventTimeToLiveInMinutes", json!(90)),
        ("/provisioningState", json!("Succeeded")),
    ];
    for (member, value) in expected {
        assert_eq!(shown.pointer(member), Some(&value), "{shown:#}");
    }

    // The full resource id of the topic, and the older spelling of the option.
    let id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/orders";
    let update = [
        "event-subscription",
        "update",
        "--name",
        "billing",
        "--resource-id",
        id,
        "--endpoint",
        &endpoint,
        "--event-ttl",
        "60",
    ];
    let updated = printed(&server.run(&update));
    assert!(
        updated.starts_with("event subscription billing updated"),
        "{updated}"
    );
    let list = json(
        &server,
        &[
            "event-subscription",
            "list",
            "--source-resource-id",
            "orders",
        ],
    );
    assert_eq!(list[0]["id"], shown["id"]);
    assert_eq!(list[0]["filter"], shown["filter"]);
    assert_eq!(list[0]["retryPolicy"]["maxDeliveryAttempts"], 5);
    assert_eq!(list[0]["retryPolicy"]["eventTimeToLiveInMinutes"], 60);

    printed(&server.run(&[&["event-subscription", "delete"][..], &which].concat()));
    complained(
        &server.run(&[&["event-subscription", "show"][..], &which].concat()),
        1,
    );
}

/// ED-322.
#[test]
fn values_out_of_bounds_are_refused_by_option_and_nothing_is_created() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let rows = [
        ("--max-delivery-attempts", "0", "1 to 30"),
        ("--max-delivery-attempts", "31", "1 to 30"),
        ("--max-delivery-attempts", "-1", "1 to 30"),
        ("--max-delivery-attempts", "1.5", "1 to 30"),
        ("--event-ttl", "0", "1 to 1440"),
        ("--event-ttl", "1441", "1 to 1440"),
        ("--event-ttl", "a", "1 to 1440"),
        ("--max-events-per-batch", "0", "1 to 5000"),
        ("--max-events-per-batch", "5001", "1 to 5000"),
        ("--preferred-batch-size-in-kilobytes", "0", "1 to 1024"),
        ("--preferred-batch-size-in-kilobytes", "1025", "1 to 1024"),
    ];
    for (option, value, bounds) in rows {
        let arguments = [
            "event-subscription",
            "create",
            "--name",
            "billing",
            "--source-resource-id",
            "orders",
            "--endpoint",
            "http://127.0.0.1:9/",
            option,
            value,
        ];
        let error = complained(&server.run(&arguments), 2);
        for part in [option, &format!("'{value}'"), bounds] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    let list = [
        "event-subscription",
        "list",
        "--source-resource-id",
        "orders",
    ];
    assert_eq!(json(&server, &list), json!([]));
}

#[test]
fn what_is_not_delivered_is_listed() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let create = [
        "event-subscription",
        "create",
        "--name",
        "billing",
        "--source-resource-id",
        "orders",
        "--endpoint",
        &endpoint_with(400),
    ];
    printed(&server.run(&create));
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
            "the event is accepted\n",
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
        assert_eq!(printed(&publish(schema)), says);
        complained(&publish(other), 1);
    }
}

#[test]
fn the_server_and_its_token_come_from_many_places() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let from_environment = hedgerow(&["topic", "list"])
        .env("HEDGEROW_SERVER", server.endpoint())
        .env("HEDGEROW_TOKEN", server.token())
        .output();
    printed(&from_environment.unwrap());
    let token_file = place.text("data/admin-token");
    let from_file = hedgerow(&["topic", "list", "--token-file", &token_file])
        .env("HEDGEROW_TOKEN", "wrong")
        .args(["--server", server.endpoint()])
        .output();
    printed(&from_file.unwrap());
    let from_here = hedgerow(&["topic", "list", "--server", server.endpoint()])
        .current_dir(place.path(""))
        .output();
    printed(&from_here.unwrap());

    let none = hedgerow(&["topic", "list", "--server", server.endpoint()])
        .current_dir(place.path("data"))
        .output();
    let error = complained(&none.unwrap(), 1);
    assert!(
        error.contains("token") && error.contains("hint: "),
        "{error}"
    );
    let wrong = run(&[
        "topic",
        "list",
        "--server",
        server.endpoint(),
        "--token",
        "wrong",
    ]);
    complained(&wrong, 1);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    let other = run(&["topic", "list", "--server", "ftp://events.example.com"]);
    assert!(complained(&other, 2).contains("http:// or https://"));
    complained(&run(&["topic"]), 2);
    complained(&run(&["nonsense"]), 2);
    let version = printed(&run(&["--version"]));
    assert_eq!(version, format!("hedgerow {}\n", env!("CARGO_PKG_VERSION")));
    for command in [
        "dev",
        "serve",
        "topic",
        "event-subscription",
        "publish",
        "terminal-record",
        "config",
    ] {
        let help = printed(&run(&["help"]));
        assert!(help.contains(command), "{help}");
    }
    // Nobody listens there any more.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = format!("http://{address}");
    let refused = run(&["topic", "list", "--server", &server, "--token", "t"]);
    assert!(complained(&refused, 1).contains(&format!("cannot connect to {server}")));
}

#[test]
fn attempts_of_an_event_are_listed() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200);
    printed(&server.run(&[
        "event-subscription",
        "create",
        "--name",
        "billing",
        "--source-resource-id",
        "orders",
        "--endpoint",
        &endpoint,
    ]));
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
}

#[test]
fn tokens_are_created_listed_and_deleted() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let line = server.line("the first token, once", |line| {
        line.starts_with("admin token")
    });
    assert!(line.ends_with(server.token()), "{line}");
    let create = [
        "token",
        "create",
        "--name",
        "ci",
        "--rights",
        "publish,read",
    ];
    let created = server.run(&[&create[..], &["--topic-prefix", "team-a-"]].concat());
    let secret = printed(&created);
    let secret = secret.trim_end();
    assert!(secret.starts_with("hgt_"), "{secret}");
    let as_ci = |arguments: &[&str]| {
        let mut command = hedgerow(arguments);
        let command = command.args(["--server", server.endpoint(), "--token", secret]);
        command.output().unwrap()
    };
    printed(&as_ci(&["topic", "list"]));
    let refused = complained(&as_ci(&["topic", "create", "team-a-orders"]), 1);
    assert!(refused.contains("\"admin\""), "{refused}");

    let list = printed(&server.run(&["token", "list"]));
    assert!(
        !list.contains(secret) && list.contains("read, publish"),
        "{list}"
    );
    let again = complained(&server.run(&create), 1);
    assert!(again.contains("\"ci\" already"), "{again}");
    complained(
        &server.run(&["token", "create", "--name", "x", "--rights", "fly"]),
        2,
    );
    printed(&server.run(&["token", "delete", "--name", "ci"]));
    complained(&as_ci(&["topic", "list"]), 1);
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

/// What is pending can be dropped by hand, and the answer says how much.
#[test]
fn a_subscription_is_purged() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let endpoint = endpoint_with(500);
    let command = |verb: &str, more: &[&str]| {
        server.run(&[&["event-subscription", verb], &which[..], more].concat())
    };
    printed(&command("create", &["--endpoint", &endpoint]));
    let (_, keys) = server.admin("POST", "/topics/orders/listKeys", "");
    let key = keys["key1"].as_str().unwrap();
    let publish = ["publish", "--topic", "orders", "--key", key];
    let at = ["--server", server.endpoint()];
    printed(&run(&[&publish[..], &at].concat()));
    let show = || {
        json(
            &server,
            &[&["event-subscription", "show"], &which[..]].concat(),
        )["status"]
            .clone()
    };
    until("the first attempt", || {
        let status = show();
        let waits = status["nextDue"].is_string() && status["inFlight"] == 0;
        waits.then_some(())
    });
    let said = printed(&command("purge", &["--yes"]));
    assert!(said.contains("billing purged: 1 dropped"), "{said}");
    let status = show();
    assert_eq!(
        (&status["pending"], &status["dropped"]),
        (&0.into(), &1.into())
    );
    assert!(status["purgedTime"].is_string());
    let (status, explained) = server.admin("GET", "/topics/orders/eventSubscriptions/nobody", "");
    assert_eq!(status, 404, "{explained}");
    let nobody = ["event-subscription", "purge", "--name", "nobody"];
    let nobody = [&nobody[..], &["--source-resource-id", "orders"]].concat();
    complained(&server.run(&nobody), 1);
}

/// What is not given stays, the endpoint too: nobody has to repeat a secret.
#[test]
fn updates_need_no_endpoint() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200) + "?code=secret";
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let command = |verb: &str, more: &[&str]| {
        server.run(&[&["event-subscription", verb], &which[..], more].concat())
    };
    let create = [
        "--endpoint",
        &endpoint,
        "--event-ttl",
        "5",
        "--labels",
        "a",
        "b",
    ];
    printed(&command("create", &create));
    let show = || {
        json(
            &server,
            &[&["event-subscription", "show"], &which[..]].concat(),
        )
    };
    let created = show();
    assert_eq!(created["labels"], serde_json::json!(["a", "b"]));
    let update = [
        "--max-delivery-attempts",
        "3",
        "--subject-begins-with",
        "/x",
    ];
    printed(&command("update", &update));
    let mut expected = created;
    expected["retryPolicy"]["maxDeliveryAttempts"] = 3.into();
    expected["filter"]["subjectBeginsWith"] = "/x".into();
    assert_eq!(show(), expected);

    let (_, keys) = server.admin("POST", "/topics/orders/listKeys", "");
    let key = keys["key1"].as_str().unwrap();
    let publish = [
        "publish",
        "--topic",
        "orders",
        "--key",
        key,
        "--subject",
        "/x",
    ];
    printed(&run(
        &[&publish[..], &["--server", server.endpoint()]].concat()
    ));
    until("the delivery", || {
        (show()["status"]["delivered"] == 1).then_some(())
    });
    let nothing = complained(&command("update", &[]), 1);
    assert!(nothing.contains("nothing to change"), "{nothing}");
}

/// ED-322: options of what this version does not have are refused by the member's name, and nothing is created.
#[test]
fn batches_are_refused_by_name() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let create = [
        &["event-subscription", "create", "--name", "billing"][..],
        &[
            "--resource-id",
            "orders",
            "--endpoint",
            "http://127.0.0.1:9/",
        ],
    ]
    .concat();
    for (option, member) in [
        ("--max-events-per-batch", "maxEventsPerBatch"),
        (
            "--preferred-batch-size-in-kilobytes",
            "preferredBatchSizeInKilobytes",
        ),
    ] {
        let refused = server.run(&[&create[..], &[option, "100"]].concat());
        let refused = complained(&refused, 1);
        let said = format!("{member}: is not supported by this version");
        assert!(refused.contains(&said), "{refused}");
    }
    let list = ["event-subscription", "list", "--resource-id", "orders"];
    assert_eq!(json(&server, &list), json!([]));
}

#[test]
fn the_usage_of_a_running_store_is_shown() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let usage = printed(&server.run(&["store", "usage"]));
    assert!(
        usage.contains("used bytes") && usage.contains("syncs"),
        "{usage}"
    );
    let usage = json(&server, &["store", "usage"]);
    assert_eq!(usage["isFull"], false, "{usage}");
}

/// Lists are in the order in which people look for names, and ranges below zero are no options.
#[test]
fn lists_are_sorted_and_ranges_may_begin_with_a_minus() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    for name in ["zeta", "Mid", "alpha"] {
        printed(&server.run(&["topic", "create", name]));
    }
    let listed = printed(&server.run(&["topic", "list"]));
    let names = |listed: &str| -> Vec<String> {
        let names = listed.lines().skip(1);
        names
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&listed), ["alpha", "Mid", "zeta"]);
    let of = ["--source-resource-id", "zeta"];
    for name in ["second", "First"] {
        let create = ["event-subscription", "create", "--name", name];
        let rest = [
            "--endpoint",
            "http://127.0.0.1:1/",
            "--advanced-filter",
            "data.n",
            "NumberInRange",
            "-5,10",
        ];
        printed(&server.run(&[&create[..], &of, &rest].concat()));
    }
    let listed = printed(&server.run(&[&["event-subscription", "list"][..], &of].concat()));
    assert_eq!(names(&listed), ["First", "second"]);
    let show = ["event-subscription", "show", "--name", "second"];
    let shown = json(&server, &[&show[..], &of].concat());
    let filter = &shown["filter"]["advancedFilters"][0];
    assert_eq!(filter["values"].to_string(), "[[-5,10]]");
}

/// ED-312: an endpoint is tried, each step is told, and nothing is declared.
#[test]
fn an_endpoint_can_be_tried() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let validate = |endpoint: &str, more: &[&str]| {
        let command = ["event-subscription", "validate", "--source-resource-id"];
        let rest = ["orders", "--endpoint", endpoint];
        server.run(&[&command[..], &rest, more].concat())
    };
    let steps = |output: &std::process::Output| -> Vec<[String; 2]> {
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        let steps = shown["steps"].as_array().unwrap().iter();
        let text = |step: &Value, member: &str| step[member].as_str().unwrap().to_owned();
        steps
            .map(|step| [text(step, "step"), text(step, "outcome")])
            .collect()
    };
    let silent = validate(&endpoint_with(200), &["--output", "json"]);
    let complaint = complained(&silent, 1);
    assert!(
        complaint.contains("does not consent by itself"),
        "{complaint}"
    );
    assert!(complaint.contains("hint: "), "{complaint}");
    let expected = [
        ["name", "Succeeded"],
        ["address", "Succeeded"],
        ["connection", "Succeeded"],
        ["answer", "Succeeded"],
        ["consent", "Failed"],
    ];
    assert_eq!(steps(&silent), expected);
    let dead = validate("http://127.0.0.1:1/hook?code=secret", &["--output", "json"]);
    let expected = [
        ["name", "Succeeded"],
        ["address", "Succeeded"],
        ["connection", "Failed"],
        ["answer", "NotReached"],
        ["consent", "NotReached"],
    ];
    assert_eq!(steps(&dead), expected);
    let table = validate(
        "http://127.0.0.1:1/hook?code=secret",
        &["--name", "billing"],
    );
    let told = String::from_utf8(table.stdout).unwrap();
    assert!(told.starts_with("STEP "), "{told}");
    assert!(
        told.contains("connection  Failed") && !told.contains("secret"),
        "{told}"
    );
    let refused = complained(&validate("http://169.254.169.254/", &[]), 1);
    assert!(refused.contains("endpointUrl"), "{refused}");
    let listed = json(
        &server,
        &[
            "event-subscription",
            "list",
            "--source-resource-id",
            "orders",
        ],
    );
    assert_eq!(listed, json!([]));
}

/// What a command printed and nobody got is a failure, whatever the command.
#[test]
fn output_to_a_full_device_is_no_success() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let full = |arguments: &[&str]| {
        let device = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = hedgerow(arguments);
        command.args(["--server", server.endpoint(), "--token", server.token()]);
        command.stdout(device).output().unwrap()
    };
    for arguments in [
        &["topic", "create", "orders"][..],
        &["topic", "list"],
        &["topic", "list", "--output", "json"],
        &["token", "list"],
    ] {
        let error = complained(&full(arguments), 1);
        assert!(error.contains("output cannot be written"), "{error}");
    }
    let device = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let version = hedgerow(&["--version"]).stdout(device).output().unwrap();
    assert_eq!(version.status.code(), Some(1));

    // A secret that nobody got is of no use, and its name is free again.
    for form in ["table", "json"] {
        let create = [
            "token", "create", "--name", "ci", "--rights", "read", "--output", form,
        ];
        let error = complained(&full(&create), 1);
        assert!(error.contains("deleted again"), "{error}");
    }
    let list = printed(&server.run(&["token", "list"]));
    assert!(!list.contains("ci "), "{list}");
}

/// FC-26: a script whose variable is not set does not get a token for everything.
#[test]
fn an_empty_topic_prefix_is_refused() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let create = [
        "token",
        "create",
        "--name",
        "ci",
        "--rights",
        "read",
        "--topic-prefix",
        "",
    ];
    let error = complained(&server.run(&create), 1);
    assert!(error.contains("topicPrefix: must not be empty"), "{error}");
}

#[test]
fn a_file_that_declares_nothing_is_told() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let told = complained(&server.run(&["apply", "/dev/null"]), 0);
    assert!(told.contains("declare nothing"), "{told}");
}
