//! `hedgerow dev`, as its user sees it (acceptance of issue 2).

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{Place, Server, complained, event, hedgerow, printed, request, run, until};

fn command(place: &Place, environment: &[(&str, &str)]) -> Command {
    let (data, ready) = (place.text("data"), place.text("ready.json"));
    let arguments = [
        "dev",
        "--listen",
        "127.0.0.1:0",
        "--data",
        &data,
        "--ready-file",
        &ready,
    ];
    let mut command = hedgerow(&arguments);
    command.envs(environment.iter().copied());
    command
}

fn start(place: &Place, environment: &[(&str, &str)]) -> Server {
    Server::start(command(place, environment), &place.path("ready.json"))
}

/// A machine that is busy with other things takes its time, and the schedule stays the documented one (ED-195).
const PATIENT: (&str, &str) = ("HEDGEROW_RETRY__LATENCY_ALLOWANCE", "1m");

/// What the printed line tells a shell to do: URL, key, body.
fn curl_line(server: &Server) -> (String, String, String) {
    let line = server.line("curl -i", |line| line.contains("curl -i "));
    let words = line.trim().strip_prefix("curl -i ").unwrap();
    let (url, rest) = words.split_once(" -H 'aeg-sas-key: ").unwrap();
    let (key, rest) = rest.split_once("' -d '").unwrap();
    (
        url.to_owned(),
        key.to_owned(),
        rest.strip_suffix('\'').unwrap().to_owned(),
    )
}

fn publish(server: &Server, id: &str) {
    let url = format!("{}/demo/api/events", server.endpoint());
    let key = server.ready["topicKey"].as_str().unwrap();
    let (status, _) = request("POST", &url, &[("aeg-sas-key", key)], &event(id)).unwrap();
    assert_eq!(status, 200);
}

fn receiver(server: &Server) -> &str {
    server.ready["receiver"].as_str().unwrap()
}

fn switch(server: &Server, status: u16) {
    let url = format!("{}/answer", receiver(server));
    let body = json!({ "status": status }).to_string();
    assert_eq!(request("PUT", &url, &[], &body).unwrap().0, 200);
}

/// Waits until an event has arrived, and gives what the receiver remembers of it.
fn received(server: &Server, id: &str) -> Value {
    let url = format!("{}/received?limit=1000", receiver(server));
    until("the event at the receiver", || {
        let (_, list) = request("GET", &url, &[], "").unwrap();
        list["value"]
            .as_array()
            .unwrap()
            .iter()
            .find(|event| event["id"] == id)
            .cloned()
    })
}

fn subscription(server: &Server) -> Value {
    let (status, json) = server.admin("GET", "/topics/demo/eventSubscriptions/demo", "");
    assert_eq!(status, 200, "{json}");
    json
}

/// The number between two texts.
fn number_after(line: &str, before: &str) -> u64 {
    let (_, rest) = line.split_once(before).unwrap();
    rest.chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap()
}

#[test]
fn an_event_is_delivered_retried_at_its_slot_and_kept_through_sigkill() {
    let place = Place::new();
    let mut server = start(&place, &[PATIENT]);
    let mode = std::fs::metadata(place.path("ready.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let (url, key, body) = curl_line(&server);
    assert_eq!(url, format!("{}/demo/api/events", server.endpoint()));
    assert_eq!(key, server.ready["topicKey"].as_str().unwrap());
    let (status, answer) = request("POST", &url, &[("aeg-sas-key", &key)], &body).unwrap();
    assert_eq!(status, 200, "{answer}");
    let events: Value = serde_json::from_str(&body).unwrap();
    let first = received(&server, events[0]["id"].as_str().unwrap());
    assert_eq!(
        (&first["deliveryCount"], &first["status"]),
        (&json!(0), &json!(200))
    );
    let line = server.line("attempt 1", |line| line.contains("  attempt 1 "));
    assert!(
        line.contains("  200 ") && line.ends_with("  delivered"),
        "{line}"
    );

    switch(&server, 503);
    publish(&server, "late");
    let line = server.line("a retry", |line| line.contains("  late "));
    assert!(line.contains("  attempt 1   503 Busy "), "{line}");
    // The slot at 10 s lies before the floor of 503; jitter adds up to a tenth (section 4.3, ED-195, ED-198).
    assert!(
        (20..=33).contains(&number_after(&line, "retry in ")),
        "{line}"
    );
    let before = until("the retry in the books", || {
        let json = subscription(&server);
        json["status"]["nextDue"].is_string().then_some(json)
    });
    assert_eq!(before["status"]["pending"], 1, "{before}");

    server.kill();
    let server = start(&place, &[PATIENT]);
    let after = subscription(&server);
    for member in [
        "/id",
        "/status/pending",
        "/status/nextDue",
        "/status/matched",
    ] {
        assert_eq!(after.pointer(member), before.pointer(member), "{member}");
    }
    let endpoint = after
        .pointer("/destination/properties/endpointBaseUrl")
        .unwrap();
    assert!(
        endpoint.as_str().unwrap().starts_with(receiver(&server)),
        "{endpoint}"
    );
    publish(&server, "after");
    received(&server, "after");
}

#[test]
fn the_attempt_after_sigkill_has_the_right_count() {
    let place = Place::new();
    // The same schedule, faster: what is counted is what was attempted, however slow the machine is.
    let environment = [
        ("HEDGEROW_RETRY__SLOTS", "1s,3s,5s,7s,9s,11s,13s,15s"),
        ("HEDGEROW_RETRY__REPEAT", "2s"),
        ("HEDGEROW_RETRY__JITTER_PERCENT", "0"),
        ("HEDGEROW_RETRY__CRASH_DELAY", "0s"),
        ("HEDGEROW_RETRY__FLOORS__UNAVAILABLE", "0s"),
    ];
    let mut server = start(&place, &environment);
    switch(&server, 503);
    publish(&server, "1");
    let due_after = |attempt: u16, before: &Value| {
        let met = format!("  attempt {attempt:<4}503 Busy ");
        server.line(&met, |line| line.contains("  1  ") && line.contains(&met));
        // What is printed may not be on disk yet, and then a crash may lose it (design D5).
        until("the retry in the books", || {
            let due = subscription(&server)["status"]["nextDue"].clone();
            (due.is_string() && due != *before).then_some(due)
        })
    };
    let due = due_after(1, &Value::Null);
    due_after(2, &due);
    server.kill();
    let printed = server.rest();
    let attempts = printed
        .last()
        .map_or(2, |line| number_after(line, "attempt "));

    let server = start(&place, &environment);
    let count = received(&server, "1")["deliveryCount"].as_u64().unwrap();
    // One more may have been under way.
    assert!(
        (attempts..=attempts + 1).contains(&count),
        "{count} after {attempts}"
    );
    let line = server.line("the delivery", |line| line.contains("  attempt "));
    assert!(
        line.contains(&format!("  attempt {:<4}200 ", count + 1)),
        "{line}"
    );
    until("the end of it", || {
        let status = subscription(&server)["status"].clone();
        (status["pending"] == 0 && status["delivered"] == 1).then_some(())
    });
}

#[test]
fn a_new_receiver_takes_over_and_settings_stay() {
    let place = Place::new();
    let mut server = start(&place, &[]);
    let (id, old) = (
        subscription(&server)["id"].clone(),
        receiver(&server).to_owned(),
    );
    let arguments = [
        "event-subscription",
        "update",
        "--name",
        "demo",
        "--source-resource-id",
        "demo",
        "--endpoint",
        &old,
        "--included-event-types",
        "Order.Placed",
        "--max-delivery-attempts",
        "7",
        "--delivery-attribute-mapping",
        "X-Key",
        "Static",
        "s3cret",
        "true",
        "--max-concurrency",
        "3",
        "--response-timeout",
        "7",
    ];
    printed(&server.run(&arguments));
    // Whoever has an endpoint of their own keeps it.
    let own = format!("{old}/own");
    let arguments = ["event-subscription", "update", "--name", "demo-ce"];
    let rest = ["--source-resource-id", "demo-ce", "--endpoint", &own];
    printed(&server.run(&[&arguments[..], &rest].concat()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));

    // Somebody else has the port of the receiver before.
    let _taken = TcpListener::bind(old.strip_prefix("http://").unwrap()).unwrap();
    let server = start(&place, &[]);
    let json = subscription(&server);
    assert_ne!(receiver(&server), old);
    assert_eq!(json["id"], id);
    assert_eq!(
        json["filter"]["includedEventTypes"],
        json!(["Order.Placed"])
    );
    assert_eq!(json["retryPolicy"]["maxDeliveryAttempts"], 7);
    assert_eq!(json["responseTimeoutSeconds"], 7);
    assert_eq!(json["destination"]["properties"]["maxConcurrency"], 3);
    let header = &json["destination"]["properties"]["deliveryAttributeMappings"][0];
    assert_eq!(header["name"], "X-Key");
    publish(&server, "1");
    received(&server, "1");
    let path = "/topics/demo-ce/eventSubscriptions/demo-ce";
    let json = server.admin("GET", path, "").1;
    assert_eq!(json["destination"]["properties"]["endpointBaseUrl"], own);
}

#[test]
fn temporary_data_goes_with_the_server() {
    let place = Place::new();
    let ready = place.text("ready.json");
    let mut command = hedgerow(&["dev", "--listen", "127.0.0.1:0", "--ready-file", &ready]);
    command.env("TMPDIR", place.path(""));
    let mut server = Server::start(command, &place.path("ready.json"));
    let data = || {
        let entries = std::fs::read_dir(place.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).count()
    };
    assert_eq!(data(), 1);
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(data(), 0);
    // The file stays: it is how others know whom to ask why.
    assert!(place.path("ready.json").exists());
}

#[test]
fn the_answer_can_be_switched_and_is_checked() {
    let place = Place::new();
    let server = start(&place, &[PATIENT]);
    let url = format!("{}/answer", receiver(&server));
    let (status, json) = request("GET", &url, &[], "").unwrap();
    assert_eq!((status, &json["status"]), (200, &json!(200)));
    let body = r#"{"status":429,"retryAfter":700}"#;
    assert_eq!(request("PUT", &url, &[], body).unwrap().0, 200);
    publish(&server, "1");
    let line = server.line("a retry", |line| line.contains("  attempt "));
    assert!(
        line.contains("  attempt 1   429 Busy ") && line.contains("  retry in "),
        "{line}"
    );
    // The first slot that is not before that is the one at 30 min (ED-195).
    assert!(
        (29..=30).contains(&number_after(&line, "retry in ")),
        "{line}"
    );
    for wrong in ["", "503", r#"{"status":99}"#, r#"{"status":503,"delay":1}"#] {
        let (status, json) = request("PUT", &url, &[], wrong).unwrap();
        assert_eq!(status, 400, "{wrong}");
        assert!(json["error"]["message"].is_string(), "{json}");
    }
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(request("PUT", &url, &foreign, body).unwrap().0, 403);
    let topics = format!("{}/api/v1/topics", server.endpoint());
    assert_eq!(request("GET", &topics, &foreign, "").unwrap().0, 403);
}

#[test]
fn a_taken_port_is_named_with_the_way_out() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["dev", "--listen", &address, "--data", &place.text("data")]);
    let error = complained(&output, 1);
    assert!(
        error.contains(&address) && error.contains("in use"),
        "{error}"
    );
    assert!(
        error.contains("hint: ") && error.contains("--listen"),
        "{error}"
    );
}

/// What is printed can be pasted in any directory, whatever the data directory was called here.
#[test]
fn printed_paths_hold_everywhere() {
    let place = Place::new();
    let ready = place.text("ready.json");
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--data", "data"];
    let mut command = hedgerow(&[&arguments[..], &["--ready-file", &ready]].concat());
    command.current_dir(place.path("data").parent().unwrap());
    let server = Server::start(command, &place.path("ready.json"));
    let data = place.path("data").canonicalize().unwrap();
    let data = data.to_str().unwrap();
    let first = server.line("data in", |line| line.contains("data in "));
    assert!(first.contains(&format!("data in {data}, ")), "{first}");
    let explain = server.line("explain", |line| line.contains(" explain "));
    assert!(explain.trim_start().starts_with('/'), "{explain}");
    let token = format!("--token-file {data}/admin-token");
    assert!(explain.contains(&token), "{explain}");
    let list = server.line("ls", |line| line.contains("ls -R "));
    assert!(list.contains(&format!("ls -R {data}/")), "{list}");
}
