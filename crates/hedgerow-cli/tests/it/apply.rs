//! `hedgerow apply` and `serve --apply`: what files declare, and how their mistakes are told.

use crate::kit::{
    HeldEndpoint, Place, Server, complained, endpoint_with, event, hedgerow, printed, request, run,
};

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

    // FC-03: what is taken and will surprise is told with its line.
    let mistyped = write(&place, "mistyped.toml", &endpoint, 5);
    let filter =
        "filter.advancedFilters = [{ operatorType = \"IsNotNull\", key = \"evntType\" }]\n";
    let text = std::fs::read_to_string(&mistyped).unwrap() + filter;
    std::fs::write(&mistyped, text).unwrap();
    let told = complained(&apply(&mistyped, &[]), 0);
    assert!(told.starts_with("warning: "), "{told}");
    let at = "mistyped.toml:10: eventSubscriptions[0].filter.advancedFilters[0].key: ";
    assert!(
        told.contains(at) && told.contains("\"eventType\"?"),
        "{told}"
    );

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
    let start = |change: &str, billing: &str| {
        let mut command = hedgerow(&["serve", "--config", &config, "--ready-file", &ready_file]);
        command.args(["--apply", &first, "--apply", &more]);
        command.env("HOOK", &endpoint);
        let server = Server::start(command, &ready);
        for (what, change) in [
            ("topic orders", change),
            ("topic more", change),
            ("event subscription orders/billing", billing),
        ] {
            server.line(what, |line| line == format!("{what} {change}"));
        }
        server
    };
    let mut server = start("created", "created");
    // Its endpoint does not consent, so it is not in force.
    let answered = "event subscription orders/billing: its endpoint answers without consent";
    server.line(answered, |line| line.starts_with(answered));
    server.kill();
    let awaits =
        "unchanged; AwaitingManualAction: somebody has to open the URL that its endpoint was sent";
    let server = start("unchanged", awaits);
    let (_, subscription) = server.admin("GET", "/topics/orders/eventSubscriptions/billing", "");
    assert_eq!(subscription["retryPolicy"]["maxDeliveryAttempts"], 3);
}

/// What will surprise is told although an endpoint does not consent, and what waits for one has a status of its own (issue 4).
#[test]
fn warnings_and_what_is_not_in_force_are_both_told_issue_4() {
    let place = Place::new();
    let server = Server::serve_asking(&place, "");
    let apply = |file: &str, endpoint: &str| {
        let mut command = hedgerow(&["apply", file]);
        command.args(["--server", server.endpoint(), "--token", server.token()]);
        command.env("HOOK", endpoint).output().unwrap()
    };
    let file = write(&place, "grid.toml", "", 3);
    let filter =
        "filter.advancedFilters = [{ operatorType = \"IsNotNull\", key = \"evntType\" }]\n";
    let text = std::fs::read_to_string(&file).unwrap() + filter;
    std::fs::write(&file, text).unwrap();
    let told = complained(&apply(&file, &endpoint_with(404)), 1);
    let warning = "warning: ";
    assert!(
        told.starts_with(warning)
            && told.contains("grid.toml:10: eventSubscriptions[0].filter.advancedFilters[0].key: ")
            && told.contains("error: not everything is in force:\n")
            && told.contains("grid.toml:4: eventSubscriptions[0]: endpoint validation"),
        "{told}"
    );
    assert_eq!(told.matches(warning).count(), 1, "{told}");
    let told = complained(&apply(&file, &endpoint_with(200)), 3);
    assert!(
        told.starts_with(warning)
            && told.ends_with("1 of 2 are not in force before an endpoint consents\n"),
        "{told}"
    );
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

/// Endpoints that do not answer delay neither the start nor the deliveries of what is in force; what each answers is told when it
/// does.
#[test]
fn a_start_waits_for_no_endpoint() {
    let place = Place::new();
    let receiver = HeldEndpoint::start();
    let key = "MDEyMzQ1Njc4OWFiY2RlZg==";
    let topic = format!("[[topics]]\nname = \"orders\"\nkeys.key1 = \"{key}\"\n");
    let subscription = |name: &str, endpoint: &str| {
        format!(
            "[[eventSubscriptions]]\ntopic = \"orders\"\nname = \"{name}\"\ndestination.endpointType = \"WebHook\"\n\
             destination.properties.endpointUrl = \"{endpoint}\"\n"
        )
    };
    let start = |grid: String, is_asking: &str| {
        let grid_file = place.text("grid.toml");
        std::fs::write(&grid_file, grid).unwrap();
        let ready = place.text("ready.json");
        let config = place.config("[validation]\nretry_delay = \"10ms\"");
        let mut command = hedgerow(&["serve", "--config", &config, "--apply", &grid_file]);
        command.args(["--ready-file", &ready]);
        command.env("HEDGEROW_VALIDATION__ENABLED", is_asking);
        Server::start(command, &place.path("ready.json"))
    };
    let in_force = subscription("billing", &receiver.url());
    let mut first = start(format!("{topic}{in_force}"), "false");
    first.line("billing", |line| {
        line == "event subscription orders/billing created"
    });
    first.kill();

    // One that is silent for ever, one that answers late, and one where nobody listens.
    let (silent, late) = (HeldEndpoint::start(), HeldEndpoint::start());
    let more = [
        in_force,
        subscription("silent", &silent.url()),
        subscription("late", &late.url()),
        subscription("dead", "http://127.0.0.1:1/"),
    ];
    let server = start(format!("{topic}{}", more.concat()), "true");
    let line = |wanted: &str| server.line(wanted, |line| line == wanted);
    line("event subscription orders/billing unchanged");
    line("event subscription orders/silent created");
    line("event subscription orders/late created");
    line("event subscription orders/dead created");
    silent.wait_for_request();
    late.wait_for_request();
    let (status, health) =
        request("GET", &format!("{}/healthz", server.endpoint()), &[], "").unwrap();
    assert_eq!((status, health["status"].as_str()), (200, Some("ok")));
    let url = format!("{}/orders/api/events", server.endpoint());
    let published = request("POST", &url, &[("aeg-sas-key", key)], &event("1")).unwrap();
    assert_eq!(published.0, 200);
    receiver.wait_for_request();
    let dead = server.error_line("dead", |line| line.contains("not in force: "));
    assert!(
        dead.contains("grid.toml:") && dead.contains("eventSubscriptions[3]: endpoint validation"),
        "{dead}"
    );
    late.release();
    server.line("late", |line| {
        line.starts_with("event subscription orders/late: its endpoint answers without consent")
    });
    let (_, shown) = server.admin("GET", "/topics/orders/eventSubscriptions/silent", "");
    assert_eq!(shown["provisioningState"], "Creating");
}
