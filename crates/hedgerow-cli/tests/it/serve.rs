//! `hedgerow serve` and `hedgerow config`: starting, and ending in order.

use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::json;

use crate::kit::{
    HeldEndpoint, Place, Server, complained, event, hedgerow, printed, request, run, until,
};

/// A server with an attempt that runs until the endpoint is released.
fn serving_an_attempt(place: &Place) -> (Server, HeldEndpoint) {
    let server = Server::serve(place, "");
    let endpoint = HeldEndpoint::start();
    assert_eq!(server.admin("PUT", "/topics/orders", "{}").0, 201);
    let body = json!({
        "destination": { "endpointType": "WebHook", "properties": { "endpointUrl": endpoint.url() } },
    });
    let path = "/topics/orders/eventSubscriptions/held";
    assert_eq!(server.admin("PUT", path, &body.to_string()).0, 201);
    let (_, keys) = server.admin("POST", "/topics/orders/listKeys", "");
    let url = format!("{}/orders/api/events", server.endpoint());
    let key = keys["key1"].as_str().unwrap();
    let published = request("POST", &url, &[("aeg-sas-key", key)], &event("1"));
    assert_eq!(published.unwrap().0, 200);
    endpoint.wait_for_request();
    (server, endpoint)
}

fn health(server: &Server) -> Option<u16> {
    request("GET", &format!("{}/healthz", server.endpoint()), &[], "").map(|(status, _)| status)
}

#[test]
fn sigterm_waits_for_running_attempts_and_exits_with_0() {
    let place = Place::new();
    let (mut server, endpoint) = serving_an_attempt(&place);
    assert_eq!(health(&server), Some(200));
    assert_eq!(
        server.ready.as_object().unwrap().len(),
        4,
        "{}",
        server.ready
    );
    server.signal(Signal::TERM);
    server.error_line("the signal", |line| line.starts_with("SIGTERM: stopping"));
    until("503 from /healthz", || {
        (health(&server) == Some(503)).then_some(())
    });
    endpoint.release();
    assert_eq!(server.wait().code(), Some(0));

    // What was delivered while the server stopped is in the books.
    let server = Server::serve(&place, "");
    let (_, json) = server.admin("GET", "/topics/orders/eventSubscriptions/held", "");
    assert_eq!(json["status"]["delivered"], 1, "{json}");
    assert_eq!(json["status"]["pending"], 0, "{json}");
}

#[test]
fn a_second_signal_ends_at_once() {
    for (signal, name, status) in [
        (Signal::TERM, "SIGTERM", 143),
        (Signal::INT, "SIGINT", 130),
        (Signal::HUP, "SIGHUP", 129),
    ] {
        let place = Place::new();
        let (mut server, _endpoint) = serving_an_attempt(&place);
        server.signal(signal);
        server.error_line("the signal", |line| {
            line.starts_with(&format!("{name}: stopping"))
        });
        server.signal(signal);
        server.error_line("the end", |line| {
            line.starts_with(&format!("{name}: ended at once"))
        });
        assert_eq!(server.wait().code(), Some(status));
    }
}

/// A terminal that goes away ended the server at once, in the middle of attempts; under `nohup` it goes on (issue 4).
#[test]
fn a_lost_terminal_ends_the_server_in_order_unless_that_is_ignored_issue_4() {
    let place = Place::new();
    let (mut server, endpoint) = serving_an_attempt(&place);
    server.signal(Signal::HUP);
    server.error_line("the signal", |line| line.starts_with("SIGHUP: stopping"));
    endpoint.release();
    assert_eq!(server.wait().code(), Some(0));

    let (config, ready_file) = (place.config(""), place.text("ready.json"));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_hedgerow"));
    command.args(["serve", "--config", &config, "--ready-file", &ready_file]);
    let mut server = Server::start(command, &place.path("ready.json"));
    server.signal(Signal::HUP);
    // Signals come in order: this one would be the second.
    server.signal(Signal::TERM);
    server.error_line("the signal", |line| line.starts_with("SIGTERM: stopping"));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_taken_port_is_one_clear_line() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = place.text("taken.toml");
    let text = format!(
        "listen = \"{address}\"\ndata = \"{}\"\n",
        place.text("data")
    );
    std::fs::write(&config, text).unwrap();
    let error = complained(&run(&["serve", "--config", &config]), 1);
    let first = error
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap();
    assert!(
        first.contains(&address.to_string()) && first.contains("in use"),
        "{error}"
    );
}

#[test]
fn a_directory_in_use_is_one_clear_line() {
    let place = Place::new();
    let _server = Server::serve(&place, "");
    let error = complained(
        &run(&["serve", "--config", &place.text("hedgerow.toml")]),
        1,
    );
    assert!(
        error.lines().any(|line| line.starts_with("error: ")),
        "{error}"
    );
}

#[test]
fn a_ready_file_that_cannot_be_written_ends_the_server() {
    let place = Place::new();
    let config = place.config("");
    let nowhere = place.text("nowhere/ready.json");
    let error = complained(
        &run(&["serve", "--config", &config, "--ready-file", &nowhere]),
        1,
    );
    assert!(error.contains("nowhere/ready.json"), "{error}");
}

#[test]
fn wrong_settings_are_told_with_their_place() {
    let place = Place::new();
    let config = place.config("[store]\nbytes_maxi = \"8GiB\"");
    for command in [
        &["serve", "--config", &config][..],
        &["config", "check", "--config", &config],
    ] {
        let error = complained(&run(command), 1);
        assert!(
            error.contains("hedgerow.toml:6") && error.contains("store.bytes_max"),
            "{error}"
        );
    }
    let missing = complained(&run(&["serve", "--config", &place.text("missing.toml")]), 1);
    assert!(missing.contains("missing.toml"), "{missing}");
    assert!(!place.path("data").exists());
}

#[test]
fn settings_are_shown_as_a_file() {
    let place = Place::new();
    let config = place.config("[store]\nsegment_bytes = \"1MiB\"");
    assert_eq!(
        printed(&run(&["config", "check", "--config", &config])),
        "the configuration is right\n"
    );
    let shown = printed(&run(&["config", "show", "--config", &config]));
    assert!(shown.contains("segment_bytes = \"1MiB\"\n"), "{shown}");
    std::fs::write(place.path("again.toml"), &shown).unwrap();
    let again = printed(&run(&[
        "config",
        "show",
        "--config",
        &place.text("again.toml"),
    ]));
    assert_eq!(again, shown);
}

/// With `public_url` the ready file still says where the server listens.
#[test]
fn the_ready_file_has_both_addresses() {
    let place = Place::new();
    let config = place.config("");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        format!("public_url = \"https://events.example.com\"\n{text}"),
    )
    .unwrap();
    let ready_file = place.path("ready.json");
    let serve = ["serve", "--config", &config, "--ready-file"];
    let mut command = hedgerow(&serve);
    command.arg(&ready_file);
    let server = Server::start(command, &ready_file);
    assert_eq!(server.endpoint(), "https://events.example.com");
    let local = server.ready["localAddress"].as_str().unwrap();
    let local: std::net::SocketAddr = local.parse().unwrap();
    assert!(local.ip().is_loopback() && local.port() != 0, "{local}");
    std::net::TcpStream::connect(local).unwrap();
}
