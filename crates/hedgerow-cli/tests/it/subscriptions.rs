//! `hedgerow event-subscription` against a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::kit::{
    HeldEndpoint, Place, Server, complained, endpoint_that_says, endpoint_with, json, printed, run,
    until,
};

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

/// ED-322: batch settings are shown back as they were given, and take effect.
#[test]
fn batches_are_declared_and_take_effect() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let endpoint = endpoint_that_says(200, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        String::new()
    });
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let command = |verb: &str, more: &[&str]| {
        server.run(&[&["event-subscription", verb][..], &which, more].concat())
    };
    let given = [
        &["--endpoint", &endpoint, "--max-events-per-batch", "1000"][..],
        &["--preferred-batch-size-in-kilobytes", "512"],
        &["--batch-isolate-on-final"],
    ];
    printed(&command("create", &given.concat()));
    let show = || {
        json(
            &server,
            &[&["event-subscription", "show"][..], &which].concat(),
        )
    };
    let shown = show();
    let properties = &shown["destination"]["properties"];
    assert_eq!(properties["maxEventsPerBatch"], 1000);
    assert_eq!(properties["preferredBatchSizeInKilobytes"], 512);
    let answers =
        json!({"isolateOnFinal": true, "splitOn413": false, "perEntryAcknowledgement": false});
    assert_eq!(shown["batch"], answers);
    assert_eq!(shown["status"]["batches"]["preferredBytes"], 512 * 1024);
    printed(&command("pause", &[]));
    let (_, keys) = server.admin("POST", "/topics/orders/listKeys", "");
    let key = keys["key1"].as_str().unwrap();
    for id in ["a", "b", "c"] {
        let publish = ["publish", "--topic", "orders", "--key", key, "--id", id];
        printed(&run(
            &[&publish[..], &["--server", server.endpoint()]].concat()
        ));
    }
    until("all of them wait", || {
        (show()["status"]["pending"] == 3).then_some(())
    });
    printed(&command("resume", &[]));
    until("the delivery", || {
        (show()["status"]["delivered"] == 3).then_some(())
    });
    assert_eq!(requests.load(Ordering::Relaxed), 1, "one request");
    let attempts = server.admin("GET", "/events/a/explanation", "").1;
    let attempt = &attempts["value"][0]["eventSubscriptions"][0]["attempts"][0];
    assert_eq!(attempt["batchEvents"], 3, "{attempts}");
    let explained = printed(&server.run(&["explain", "a"]));
    assert!(explained.contains("Delivered, batch of 3"), "{explained}");

    // One of the two is taken back, and then the other: events go alone again.
    let change = |more: &[&str]| printed(&command("update", more));
    change(&["--preferred-batch-size-in-kilobytes"]);
    let properties = show()["destination"]["properties"].clone();
    assert_eq!(properties["maxEventsPerBatch"], 1000);
    change(&["--max-events-per-batch", "none"]);
    let shown = show();
    let properties = &shown["destination"]["properties"];
    for member in ["maxEventsPerBatch", "preferredBatchSizeInKilobytes"] {
        assert_eq!(properties[member], Value::Null, "{shown}");
    }
    assert_eq!(shown["status"]["batches"], Value::Null, "{shown}");
}

/// ED-158: what is declared and waits for an endpoint's consent is told in the last line, and by a status of its own: a script
/// that goes on as if events were delivered is told (issue 4).
#[test]
fn a_script_is_told_that_an_endpoint_has_not_consented_issue_4() {
    let place = Place::new();
    let server = Server::serve_asking(&place, "[validation]\nanswer_wait = \"100ms\"");
    printed(&server.run(&["topic", "create", "orders"]));
    let declare = |verb: &str, name: &str, endpoint: &str| {
        let command = ["event-subscription", verb, "--source-resource-id", "orders"];
        server.run(&[&command[..], &["--name", name, "--endpoint", endpoint]].concat())
    };
    let last_line = |output: &std::process::Output| {
        let told = complained(output, 3);
        told.lines().last().unwrap().to_owned()
    };
    let silent = declare("create", "silent", &endpoint_with(200));
    assert!(
        String::from_utf8_lossy(&silent.stdout).starts_with("event subscription silent created"),
        "it is declared"
    );
    let told = last_line(&silent);
    assert!(
        told.starts_with("the event subscription is not in force: ") && told.contains("open it"),
        "{told}"
    );
    // The next line of a script has to know of it too, whatever is declared.
    let held = HeldEndpoint::start();
    let told = last_line(&declare("create", "slow", &held.url()));
    assert!(told.contains("is not in force yet"), "{told}");
    let told = last_line(&declare("update", "silent", &endpoint_with(200)));
    assert!(told.contains("not in force"), "{told}");
    // One that refuses is a failure as before.
    let refused = complained(&declare("create", "refusing", &endpoint_with(404)), 1);
    assert!(refused.starts_with("error: "), "{refused}");
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

/// ED-312: the whole exchange is printed, and scripts learn by the exit status and by JSON what it came to.
#[test]
fn an_endpoint_can_be_tested() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let test = |more: &[&str]| {
        let command = ["event-subscription", "test-endpoint"];
        let source = ["--source-resource-id", "orders"];
        server.run(&[&command[..], &source, more].concat())
    };
    let says = |first_line: &str| format!("you said {first_line}");
    let accepting = endpoint_that_says(200, says) + "?code=secret";
    let told = printed(&test(&["--endpoint", &accepting]));
    for line in [
        "test event: Delivered",
        "> POST /hook?*** HTTP/1.1",
        "> aeg-event-type: Notification",
        "< 200",
        "= an event with this answer is delivered",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    assert!(
        told.contains("total ") && !told.contains("secret"),
        "{told}"
    );

    let busy = endpoint_with(503);
    let refused = test(&["--endpoint", &busy, "--output", "json"]);
    let shown: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(shown.pointer("/event/outcome"), Some(&json!("Busy")));
    assert_eq!(shown.pointer("/event/answer/status"), Some(&json!(503)));
    let complaint = complained(&refused, 1);
    assert!(
        complaint.contains("is tried again in about 30 s"),
        "{complaint}"
    );

    let endpoint = endpoint_with(200);
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let create = ["event-subscription", "create", "--endpoint", &endpoint];
    printed(&server.run(&[&create[..], &which].concat()));
    let told = printed(&test(&["--name", "billing"]));
    assert!(told.contains("> aeg-subscription-name: BILLING"), "{told}");
    let mixed = test(&["--name", "billing", "--max-delivery-attempts", "3"]);
    assert!(complained(&mixed, 1).contains("go with --endpoint"));
    complained(&test(&[]), 2);
}

/// ED-143, ED-149: each time the option is given is one header, and the secret is shown nowhere.
#[test]
fn custom_headers_are_declared_by_their_words() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200);
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let mapping = "--delivery-attribute-mapping";
    let create = [
        &["event-subscription", "create", "--endpoint", &endpoint][..],
        &which,
        &[mapping, "X-Key", "Static", "s3cret", "true"],
        &[mapping, "X-Plain", "Static", "a b"],
        &[mapping, "X-System", "Dynamic", "data.system"],
    ]
    .concat();
    printed(&server.run(&create));
    let show = [&["event-subscription", "show"][..], &which].concat();
    let shown = json(&server, &show);
    let attributes = "/destination/properties/deliveryAttributeMappings";
    let plain = json!({ "name": "X-Plain", "type": "Static",
        "properties": { "value": "a b", "isSecret": false } });
    let dynamic = json!({ "name": "X-System", "type": "Dynamic",
        "properties": { "sourceField": "data.system" } });
    let masked = json!({ "name": "X-Key", "type": "Static",
        "properties": { "value": "********", "isSecret": true } });
    assert_eq!(
        shown.pointer(attributes),
        Some(&json!([masked, plain, dynamic]))
    );
    let table = printed(&server.run(&show));
    assert!(
        table.contains("X-System") && !table.contains("s3cret"),
        "{table}"
    );

    let update = [&["event-subscription", "update"][..], &which].concat();
    let kept = [
        &update[..],
        &[mapping, "X-Key", "Static", "********", "true"],
    ]
    .concat();
    printed(&server.run(&kept));
    let shown = json(&server, &show);
    assert_eq!(shown.pointer(attributes), Some(&json!([masked])));
    let wrong = [&update[..], &[mapping, "aeg-x", "Static", "s3cret", "true"]].concat();
    let refused = complained(&server.run(&wrong), 1);
    assert!(
        refused.contains("deliveryAttributeMappings[0].name") && !refused.contains("s3cret"),
        "{refused}"
    );
    printed(&server.run(&[&update[..], &[mapping]].concat()));
    assert_eq!(json(&server, &show).pointer(attributes), None);
}

/// ED-142: a secret is printed where it was drawn, and nowhere else.
#[test]
fn signing_secrets_are_rotated() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200);
    server.subscribe("orders", "billing", &endpoint);
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let rotate = [&["event-subscription", "rotate-signing-secret"][..], &which].concat();
    let first = printed(&server.run(&rotate));
    assert!(
        first.starts_with("whsec_") && !first.contains("holds until"),
        "{first}"
    );
    let second = printed(&server.run(&[&rotate[..], &["--previous-valid-minutes", "5"]].concat()));
    assert!(second.contains("holds until"), "{second}");
    let show = [&["event-subscription", "show"][..], &which].concat();
    let table = printed(&server.run(&show));
    assert!(
        table.contains("********") && !table.contains("whsec_"),
        "{table}"
    );
    let update = [&["event-subscription", "update"][..], &which].concat();
    let secret = format!("whsec_{}", "A".repeat(32));
    printed(&server.run(&[&update[..], &["--signing-secret", &secret]].concat()));
    assert_eq!(
        json(&server, &show)["signing"],
        json!({ "secret": "********" })
    );
    printed(&server.run(&[&update[..], &["--signing-secret"]].concat()));
    assert_eq!(json(&server, &show).get("signing"), None);
    let refused = complained(
        &server.run(&[&rotate[..], &["--previous-valid-minutes", "10081"]].concat()),
        2,
    );
    assert!(refused.contains("0 to 10080"), "{refused}");
}

#[test]
fn limits_are_set_and_taken_off() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let endpoint = endpoint_with(200);
    server.subscribe("orders", "billing", &endpoint);
    let which = ["--name", "billing", "--source-resource-id", "orders"];
    let update = [&["event-subscription", "update"][..], &which].concat();
    let show = [&["event-subscription", "show"][..], &which].concat();
    let both = ["--max-concurrency", "5", "--max-requests-per-second", "20"];
    printed(&server.run(&[&update[..], &both].concat()));
    let shown = json(&server, &show);
    let properties = &shown["destination"]["properties"];
    assert_eq!(properties["maxConcurrency"], 5);
    assert_eq!(properties["maxRequestsPerSecond"], 20);
    printed(&server.run(&[&update[..], &["--max-concurrency"]].concat()));
    let shown = json(&server, &show);
    let properties = &shown["destination"]["properties"];
    assert_eq!(properties.get("maxConcurrency"), None);
    let wrong = [&update[..], &["--max-requests-per-second", "0"]].concat();
    let refused = complained(&server.run(&wrong), 2);
    assert!(refused.contains("1 to 10000"), "{refused}");
}

/// ED-312: the filter of the options, or of a subscription.
#[test]
fn filters_are_tried_on_a_sample() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    printed(&server.run(&["topic", "create", "orders"]));
    let sample = place.text("sample.json");
    let event = r#"{"eventType":"Order.Placed","subject":"orders/1","data":{"color":"red"}}"#;
    std::fs::write(&sample, event).unwrap();
    let test = [
        "event-subscription",
        "test-filter",
        "--source-resource-id",
        "orders",
        "--event",
        &sample,
    ];
    let wanted = ["--advanced-filter", "data.color", "StringIn", "red"];
    let told = printed(&server.run(&[&test[..], &wanted].concat()));
    assert!(told.contains(r#"data.color is "red""#), "{told}");
    assert!(told.ends_with("the event is wanted\n"), "{told}");
    let unwanted = ["--subject-begins-with", "invoices/"];
    let refused = server.run(&[&test[..], &unwanted].concat());
    let complaint = complained(&refused, 1);
    assert!(
        complaint.contains("subjectBeginsWith does not hold"),
        "{complaint}"
    );
    let endpoint = endpoint_with(200);
    server.subscribe("orders", "billing", &endpoint);
    let told = printed(&server.run(&[&test[..], &["--name", "billing"]].concat()));
    assert_eq!(told, "the event is wanted: the filter has no clause\n");
    let other = server.run(&[&test[..], &["--event-ttl", "5"]].concat());
    assert!(complained(&other, 1).contains("retryPolicy"));
    // Of a domain, and of one of its topics.
    printed(&server.run(&["domain", "create", "shop"]));
    for source in ["domains/shop", "domains/shop/topics/foo"] {
        let mut test = test;
        test[3] = source;
        let told = printed(&server.run(&[&test[..], &wanted].concat()));
        assert!(told.ends_with("the event is wanted\n"), "{source}: {told}");
    }
}
