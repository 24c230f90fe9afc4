//! The client commands against a real server: how they reach it, and what they say.

use crate::kit::{Place, Server, complained, hedgerow, json, printed, run};

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
