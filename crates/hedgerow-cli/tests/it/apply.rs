//! `hedgerow apply` and `serve --apply`: what files declare, and how their mistakes are told.

use crate::kit::{Place, Server, complained, endpoint_with, hedgerow, printed, run};

/// Writes a file that declares a topic and a subscription to it.
fn write(place: &Place, name: &str, endpoint: &str, attempts: u32) -> String {
    let text = format!(
        "[[topics]]\nname = \"orders\"\n\n[[eventSubscriptions]]\ntopic = \"orders\"\nname = \"billing\"\n\
         destination.endpointType = \"WebHook\"\ndestination.properties.endpointUrl = {{ env = \"HOOK\" }}\n\
         retryPolicy.maxDeliveryAttempts = {attempts}\n"
    );
    std::fs::write(place.path(name), text).unwrap();
    std::fs::write(place.path("hook"), endpoint).unwrap();
    place.text(name)
}

#[test]
fn a_running_server_gets_what_a_file_says() {
    let place = Place::new();
    let server = Server::serve(&place, "");
    let endpoint = endpoint_with(200);
    let apply = |file: &str, more: &[&str]| {
        let mut command = hedgerow(&["apply", file]);
        command.args(["--server", server.endpoint(), "--token", server.token()]);
        command.args(more).env("HOOK", &endpoint).output().unwrap()
    };
    let file = write(&place, "grid.toml", &endpoint, 3);
    let created = printed(&apply(&file, &[]));
    assert_eq!(
        created,
        "topic orders created\nevent subscription orders/billing created\n"
    );
    let again = printed(&apply(&file, &[]));
    assert_eq!(
        again,
        "topic orders unchanged\nevent subscription orders/billing unchanged\n"
    );
    let file = write(&place, "grid.toml", &endpoint, 5);
    let changed = printed(&apply(&file, &["--output", "json"]));
    assert!(changed.contains("\"change\": \"changed\""), "{changed}");

    // The server's own judgement has its line, too, and nothing is declared.
    let wrong = write(&place, "wrong.toml", &endpoint, 31);
    let text = std::fs::read_to_string(&wrong).unwrap() + "[[topics]]\nname = \"new\"\n";
    std::fs::write(&wrong, text).unwrap();
    let refused = complained(&apply(&wrong, &[]), 1);
    assert!(
        refused.contains("wrong.toml:9: eventSubscriptions[0].retryPolicy.maxDeliveryAttempts: "),
        "{refused}"
    );
    let (status, _) = server.admin("GET", "/topics/new", "");
    assert_eq!(status, 404);
}

#[test]
fn a_server_starts_with_what_files_say() {
    let place = Place::new();
    let config = place.config("");
    let endpoint = endpoint_with(200);
    let first = write(&place, "grid.toml", &endpoint, 3);
    std::fs::write(place.path("more.toml"), "[[topics]]\nname = \"more\"\n").unwrap();
    let ready = place.path("ready.json");
    let more = place.text("more.toml");
    let ready_file = place.text("ready.json");
    let start = |change: &str| {
        let mut command = hedgerow(&["serve", "--config", &config, "--ready-file", &ready_file]);
        command.args(["--apply", &first, "--apply", &more]);
        command.env("HOOK", &endpoint);
        let server = Server::start(command, &ready);
        for what in [
            "topic orders",
            "topic more",
            "event subscription orders/billing",
        ] {
            server.line(what, |line| line == format!("{what} {change}"));
        }
        server
    };
    let mut server = start("created");
    server.kill();
    let server = start("unchanged");
    let (_, subscription) = server.admin("GET", "/topics/orders/eventSubscriptions/billing", "");
    assert_eq!(subscription["retryPolicy"]["maxDeliveryAttempts"], 3);
}

#[test]
fn a_server_does_not_start_with_a_wrong_file() {
    let place = Place::new();
    let config = place.config("");
    let endpoint = endpoint_with(200);
    let file = write(&place, "grid.toml", &endpoint, 3);
    let unset = run(&["serve", "--config", &config, "--apply", &file]);
    let unset = complained(&unset, 1);
    assert!(
        unset.contains("grid.toml:8: eventSubscriptions[0].destination.properties.endpointUrl: "),
        "{unset}"
    );
    assert!(
        !place.path("data").exists(),
        "it was read before anything was made"
    );
    let file = write(&place, "grid.toml", &endpoint, 0);
    let mut command = hedgerow(&["serve", "--config", &config, "--apply", &file]);
    let wrong = command.env("HOOK", &endpoint).output().unwrap();
    let wrong = complained(&wrong, 1);
    assert!(
        wrong.contains("grid.toml:9: ") && wrong.contains("from 1 to 30"),
        "{wrong}"
    );
    // Nothing of the file is there.
    let server = Server::serve(&place, "");
    assert_eq!(server.admin("GET", "/topics/orders", "").0, 404);
}
