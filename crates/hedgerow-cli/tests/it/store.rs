//! `hedgerow store`: a data directory is whole or it is told where it is not.

use std::fs;
use std::os::unix::fs::FileExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{Place, Server, complained, event, printed, request, run, until};

/// A data directory with a topic, a subscription that was given nothing yet, and so many events.
fn stopped(place: &Place, events: usize) -> String {
    let mut server = Server::serve(place, "[store]\nsegment_bytes = \"64KiB\"");
    assert_eq!(server.admin("PUT", "/topics/orders", "{}").0, 201);
    // Nobody listens there.
    let body = json!({
        "destination": {
            "endpointType": "WebHook",
            "properties": { "endpointUrl": "http://127.0.0.1:9/hook" },
        },
    });
    let path = "/topics/orders/eventSubscriptions/dead";
    assert_eq!(server.admin("PUT", path, &body.to_string()).0, 201);
    let (_, keys) = server.admin("POST", "/topics/orders/listKeys", "");
    let url = format!("{}/orders/api/events", server.endpoint());
    let key = keys["key1"].as_str().unwrap();
    for number in 0..events {
        let body = event(&format!("{number:0>2000}"));
        let published = request("POST", &url, &[("aeg-sas-key", key)], &body);
        assert_eq!(published.unwrap().0, 200);
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    place.text("data")
}

#[test]
fn a_whole_store_is_told_and_what_fills_it() {
    let place = Place::new();
    let data = stopped(&place, 60);
    let text = printed(&run(&["store", "check", "--data", &data]));
    assert!(
        text.starts_with("SEGMENT")
            && text.ends_with("the store is whole\n")
            && text.contains("MB/s"),
        "{text}"
    );
    let text = printed(&run(&[
        "store", "check", "--data", &data, "--output", "json",
    ]));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["problems"], json!([]), "{report}");
    assert!(
        report["segments"].as_array().unwrap().len() >= 4,
        "{report}"
    );
    assert!(report["view"]["stamp"].is_string(), "{report}");

    let text = printed(&run(&["store", "stat", "--data", &data]));
    assert!(
        text.contains("EVENT SUBSCRIPTION")
            && text.contains("\norders ")
            && text.contains("\ndead "),
        "{text}"
    );
    let text = printed(&run(&[
        "store", "stat", "--data", &data, "--output", "json",
    ]));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["topics"][0]["events"], 60, "{report}");
    let dead = &report["subscriptions"][0];
    assert_eq!(
        (&dead["name"], &dead["events"]),
        (&json!("dead"), &json!(60))
    );
    assert_eq!(dead["onlyBytes"], report["topics"][0]["bytes"]);

    // Nothing was changed by it: the server goes on.
    let server = Server::serve(&place, "");
    until("all of them pending", || {
        let (_, shown) = server.admin("GET", "/topics/orders/eventSubscriptions/dead", "");
        (shown["status"]["pending"] == 60).then_some(())
    });
    for command in ["check", "stat"] {
        let error = complained(&run(&["store", command, "--data", &data]), 1);
        assert!(error.contains("in use by another server"), "{error}");
    }
}

#[test]
fn a_flipped_byte_is_named_with_its_place() {
    let place = Place::new();
    let data = stopped(&place, 60);
    let segment = place.path("data/log/00000002.seg");
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(segment)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 200).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 200).unwrap();
    let output = run(&["store", "check", "--data", &data]);
    let error = complained(&output, 1);
    assert!(
        error.contains("1 problem in ") && error.contains("hint: restore"),
        "{error}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("problem: log/00000002.seg at 0: damaged up to 2:"),
        "{text}"
    );
}

/// A view that is damaged or lacks a file is built again, and so is a file of the catalog in which a value has changed (issue 4):
/// everybody who meets it names the command.
#[test]
fn a_damaged_view_is_built_again() {
    let place = Place::new();
    let data = stopped(&place, 5);
    let tables = place.path("data/view/tables");
    let flip = || {
        let table = fs::read_dir(&tables).unwrap().next().unwrap().unwrap();
        let mut bytes = fs::read(table.path()).unwrap();
        bytes[20] ^= 64;
        fs::write(table.path(), bytes).unwrap();
    };
    let lose = || {
        let table = fs::read_dir(&tables).unwrap().next().unwrap().unwrap();
        fs::remove_file(table.path()).unwrap();
    };
    let rename_topic = || {
        let files = fs::read_dir(place.path("data/catalog")).unwrap();
        let newest = files.map(|file| file.unwrap().path()).max().unwrap();
        let text = fs::read_to_string(&newest).unwrap();
        fs::write(newest, text.replace(r#""orders""#, r#""ordert""#)).unwrap();
    };
    for damage in [&flip as &dyn Fn(), &lose, &rename_topic] {
        damage();
        let output = run(&["store", "check", "--data", &data]);
        let error = complained(&output, 1);
        assert!(error.contains("hint: run `hedgerow recover`"), "{error}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("; run `hedgerow recover`"), "{text}");
        printed(&run(&["recover", "--data", &data]));
        let text = printed(&run(&["store", "check", "--data", &data]));
        assert!(text.ends_with("the store is whole\n"), "{text}");
    }
}

/// The newest segment is gone: events that were acknowledged are, and whoever builds the view again is told before (issue 4).
#[test]
fn recover_tells_what_the_log_has_lost_issue_4() {
    let place = Place::new();
    let data = stopped(&place, 60);
    let text = printed(&run(&[
        "store", "check", "--data", &data, "--output", "json",
    ]));
    let report: Value = serde_json::from_str(&text).unwrap();
    let segments = report["segments"].as_array().unwrap();
    let used = segments.iter().rfind(|one| one["groups"] != 0);
    let newest = used.unwrap();
    let number = newest["number"].as_u64().unwrap();
    fs::remove_file(place.path(&format!("data/log/{number:08x}.seg"))).unwrap();
    // The one behind it, if there is one, was only prepared.
    let _ = fs::remove_file(place.path(&format!("data/log/{:08x}.seg", number + 1)));

    let output = run(&["store", "check", "--data", &data]);
    let error = complained(&output, 1);
    assert!(
        error.contains("`hedgerow recover --accept-loss`"),
        "{error}"
    );
    for _ in 0..2 {
        let error = complained(&run(&["recover", "--data", &data]), 1);
        let lost = format!(
            "log/{number:08x}.seg is missing: the log ends at {}:",
            number - 1
        );
        // How many are in the newest one depends on how the server grouped them; the view has seen all.
        let events = match newest["events"].as_u64() {
            Some(0) => "lost are at least ".to_owned(),
            Some(count) => format!(", {count} event"),
            None => panic!("{newest}"),
        };
        assert!(
            error.contains(&lost) && error.contains(&events) && error.contains("--accept-loss"),
            "{error}"
        );
    }
    let text = printed(&run(&["recover", "--accept-loss", "--data", &data]));
    assert!(
        text.starts_with("accepted a loss: log/")
            && text.contains("built the view again: 1 topics"),
        "{text}"
    );
    let text = printed(&run(&["store", "check", "--data", &data]));
    assert!(text.ends_with("the store is whole\n"), "{text}");
    let text = printed(&run(&["recover", "--data", &data]));
    assert!(text.starts_with("built the view again"), "{text}");
    drop(Server::serve(&place, ""));
}

#[test]
fn where_there_is_no_store_none_is_made() {
    let place = Place::new();
    for command in ["check", "stat"] {
        let error = complained(&run(&["store", command, "--data", &place.text("data")]), 1);
        assert!(error.contains("there is no store in"), "{error}");
    }
    assert!(!place.path("data").exists());
}
