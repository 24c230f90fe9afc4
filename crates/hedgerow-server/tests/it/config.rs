//! The configuration: files and environments that are refused, and with what words.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hedgerow_server::config::{self, Config, ConfigError};

fn parse(text: &str) -> Result<Config, ConfigError> {
    config::parse(Path::new("hedgerow.toml"), text)
}

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[test]
fn a_file_changes_what_it_names() {
    let config = parse(
        r#"
        listen = "[::1]:9000"
        public_url = "https://events.example.com/"
        delivery.allow_networks = ["10.20.0.0/16", "fd00::/8"]
        [retry]
        slots = ["250ms", "1h"]
        slot_mode = "delay"
        floors = { not_found = "1s" }
        [store]
        bytes_max = "1GiB"
        [log]
        format = "json"
        "#,
    )
    .unwrap();
    assert_eq!(config.listen, "[::1]:9000".parse().unwrap());
    assert_eq!(
        config.public_url.unwrap().as_str(),
        "https://events.example.com"
    );
    assert_eq!(config.allow_networks.len(), 2);
    assert_eq!(
        config.engine.retry.slots,
        [Duration::from_millis(250), Duration::from_secs(3600)]
    );
    assert_eq!(config.engine.retry.floors.not_found, Duration::from_secs(1));
    assert_eq!(
        config.engine.retry.floors.unavailable,
        Duration::from_secs(30),
        "the others stay"
    );
    assert_eq!(config.store.bytes_max, 1 << 30);
}

#[test]
fn the_environment_overrides_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hedgerow.toml");
    std::fs::write(&path, "listen = \"127.0.0.1:1\"\ninsecure_http = true\n").unwrap();
    let environment = environment(&[
        ("HEDGEROW_LISTEN", "127.0.0.1:2"),
        (
            "HEDGEROW_DELIVERY__ALLOW_NETWORKS",
            "10.0.0.0/8, 127.0.0.0/8",
        ),
        ("HEDGEROW_DELIVERY__ATTEMPTS_MAX", "7"),
        ("HEDGEROW_RETRY__SLOTS", "1s,2s"),
        ("HEDGEROW_RETRY__FLOORS__OTHER", "0s"),
        ("HEDGEROW_INSECURE_HTTP", "false"),
        ("HEDGEROW_FAILPOINT", "group-sync:1"),
        ("HEDGEROWLISTEN", "x"),
        ("PATH", "/bin"),
    ]);
    let config = config::load(Some(&path), environment).unwrap();
    assert_eq!(config.listen, "127.0.0.1:2".parse().unwrap());
    assert_eq!(config.allow_networks.len(), 2);
    assert_eq!(config.engine.attempts_max, 7);
    assert_eq!(config.engine.retry.slots.len(), 2);
    assert_eq!(config.engine.retry.floors.other, Duration::ZERO);
    assert!(!config.insecure_http);
    let again = parse(&config.to_toml()).unwrap();
    assert_eq!(
        again.to_toml(),
        config.to_toml(),
        "what is shown gives the same again"
    );
    assert!(config::load(None, Vec::new()).is_ok(), "nothing is needed");
}

/// The file, and the one line that says what is wrong with it.
#[test]
fn what_is_wrong_is_told_with_its_place() {
    let rows = [
        (
            "lisen = \"x\"",
            "hedgerow.toml:1: lisen: is not a setting; did you mean listen?",
        ),
        (
            "\n[store]\nbytesmax = \"1GiB\"",
            "hedgerow.toml:3: store.bytesmax: is not a setting; did you mean store.bytes_max?",
        ),
        (
            "[strore]\nbytes_max = \"1GiB\"",
            "hedgerow.toml:2: strore.bytes_max: is not a setting; did you mean store.bytes_max?",
        ),
        (
            "[server]\nthreads = 4",
            "hedgerow.toml:2: server.threads: is not a setting",
        ),
        (
            "store = 3",
            "hedgerow.toml:1: store: is a section; write [store] and its settings below",
        ),
        (
            "listen = 8080",
            "hedgerow.toml:1: listen: must be an IP address with a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"",
        ),
        (
            "data = \"\"",
            "hedgerow.toml:1: data: must be the path of a directory",
        ),
        (
            "insecure_http = \"yes\"",
            "hedgerow.toml:1: insecure_http: must be true or false",
        ),
        (
            "public_url = \"https://a/b\"",
            "hedgerow.toml:1: public_url: must be an http or https URL of a host without a path, \
             such as \"https://events.example.com\"",
        ),
        (
            "[delivery]\nattempts_max = 0",
            "hedgerow.toml:2: delivery.attempts_max: must be a whole number from 1 to 1000000",
        ),
        (
            "[delivery]\nallow_networks = [\"10.0.0.1/8\"]",
            "hedgerow.toml:2: delivery.allow_networks: \"10.0.0.1/8\" has bits set after its prefix; \
             did you mean 10.0.0.0/8?",
        ),
        (
            "[delivery]\ndrain = 25",
            "hedgerow.toml:2: delivery.drain: must be a duration from \"0s\" to \"1d\", \
             such as \"30s\", \"250ms\" or \"5m\"",
        ),
        (
            "[delivery]\nresponse_timeout = \"6m\"",
            "hedgerow.toml:2: delivery.response_timeout: must be a duration of whole seconds from \"1s\" to \"5m\", \
             such as \"30s\" or \"5m\"",
        ),
        (
            "[delayed_delivery]\nfirst_window = \"5h\"",
            "delayed_delivery.first_window: must not be longer than delayed_delivery.max_window",
        ),
        (
            "[store]\nsegment_bytes = \"65KiB\"",
            "hedgerow.toml:2: store.segment_bytes: must be a size from \"64KiB\" to \"1GiB\" \
             in multiples of \"4KiB\", such as \"64MiB\"",
        ),
        (
            "[store]\nbytes_max = \"1MiB\"",
            "store.bytes_max: must be at least eight times store.segment_bytes",
        ),
        (
            "[retry]\nslots = [\"2s\", \"1s\"]",
            "retry: slots must increase",
        ),
        (
            "[retry]\nslots = \"1s\"",
            "hedgerow.toml:2: retry.slots: must be a list of durations, such as [\"10s\", \"1m\"]",
        ),
        (
            "[retry]\nslot_mode = \"Delay\"",
            "hedgerow.toml:2: retry.slot_mode: must be \"offset\" or \"delay\"",
        ),
        (
            "[retry]\njitter_percent = 101",
            "hedgerow.toml:2: retry.jitter_percent: must be a whole number from 0 to 100",
        ),
        (
            "[delivery]\nendpoint_attempts_start = 300",
            "delivery.endpoint_attempts_start: must lie between endpoint_attempts_min and endpoint_attempts_max",
        ),
        (
            "[log]\nformat = \"xml\"",
            "hedgerow.toml:2: log.format: must be \"text\" or \"json\"",
        ),
    ];
    for (text, expect) in rows {
        let error = parse(text).expect_err(text).to_string();
        assert_eq!(error, expect, "{text}");
    }
}

/// What is shown and declared in seconds is not cut to them (ED-176, ED-241, ED-245, ED-247).
#[test]
fn whole_seconds_have_no_fraction() {
    for (section, name, range) in [
        ("delivery", "response_timeout", "\"1s\" to \"5m\""),
        ("dead_letter", "delay", "\"0s\" to \"1h\""),
        ("dead_letter", "max_unavailable", "\"0s\" to \"7d\""),
        ("delayed_delivery", "first_window", "\"1s\" to \"1d\""),
        ("delayed_delivery", "max_window", "\"1s\" to \"1d\""),
    ] {
        for fraction in ["1500ms", "60001ms"] {
            let text = format!("[{section}]\n{name} = \"{fraction}\"");
            assert_eq!(
                parse(&text).expect_err(&text).to_string(),
                format!(
                    "hedgerow.toml:2: {section}.{name}: must be a duration of whole seconds from {range}, \
                     such as \"30s\" or \"5m\""
                )
            );
        }
        let text = format!("[{section}]\n{name} = \"61000ms\"");
        parse(&text).expect(&text);
    }
}

/// A host with a port, or that no URL has, would trust nobody.
#[test]
fn trusted_hosts_are_hosts_as_urls_have_them() {
    let read = |host: &str| parse(&format!("[validation]\ntrusted_hosts = [\"{host}\"]"));
    for (host, said) in [
        (
            "127.0.0.1:8080",
            "\"127.0.0.1:8080\" has a port; write \"127.0.0.1\", which stands for all of its ports",
        ),
        ("Hooks.Example.com:443", "write \"hooks.example.com\""),
        ("[::1]:8080", "write \"[::1]\""),
        (
            "https://hooks.example.com",
            "\"https://hooks.example.com\" is none",
        ),
        ("hooks.example.com/a", "is none"),
        ("*.example.com", "is none"),
        ("[::1", "is none"),
        ("1:2:3", "is none"),
        ("", "is none"),
    ] {
        let error = read(host).expect_err(host).to_string();
        assert!(error.contains(said), "{host}: {error}");
        assert!(
            error.contains("must be a list of hosts without port"),
            "{error}"
        );
    }
    for (host, kept) in [
        ("Hooks.Example.com", "hooks.example.com"),
        ("hooks.example.com.", "hooks.example.com"),
        ("::1", "[::1]"),
        ("[0:0::1]", "[::1]"),
        ("127.0.0.1", "127.0.0.1"),
    ] {
        let config = read(host).expect(host);
        assert_eq!(config.engine.validation.trusted_hosts, [kept], "{host}");
    }
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let error = parse("listen = \"127.0.0.1:1\"\ndata = ./data\n")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("hedgerow.toml:2: "), "{error}");
    let twice = parse("data = \"a\"\ndata = \"b\"\n")
        .unwrap_err()
        .to_string();
    assert!(twice.starts_with("hedgerow.toml:2: "), "{twice}");
    let missing = config::load(Some(Path::new("nowhere.toml")), Vec::new())
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("nowhere.toml: cannot read it: "),
        "{missing}"
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let error = parse("lisen = 1\ndata = 2\n[log]\nformat = 3\n").unwrap_err();
    let keys: Vec<&str> = error
        .problems
        .iter()
        .map(|problem| problem.key.as_str())
        .collect();
    assert_eq!(keys, ["lisen", "data", "log.format"]);
}

#[test]
fn the_environment_is_checked_too() {
    for (name, value, expect) in [
        (
            "HEDGEROW_STORE__BYTESMAX",
            "1GiB",
            "environment variable HEDGEROW_STORE__BYTESMAX: store.bytesmax: is not a setting; \
             did you mean store.bytes_max?",
        ),
        (
            "HEDGEROW_LISTN",
            "127.0.0.1:1",
            "environment variable HEDGEROW_LISTN: listn: is not a setting; did you mean listen?",
        ),
        (
            "HEDGEROW_STORE_BYTES_MAX",
            "1GiB",
            "environment variable HEDGEROW_STORE_BYTES_MAX: store_bytes_max: is not a setting; \
             did you mean store.bytes_max?",
        ),
        (
            "HEDGEROW_LISTEN",
            "here",
            "environment variable HEDGEROW_LISTEN: listen: must be an IP address with a port, \
             such as \"127.0.0.1:8080\" or \"[::1]:8080\"",
        ),
    ] {
        let error = config::load(None, environment(&[(name, value)]))
            .unwrap_err()
            .to_string();
        assert_eq!(error, expect);
    }
}

/// What the command line reads itself, and what Kubernetes sets for a service of this name, is no mistyped setting.
#[test]
fn variables_of_others_are_left_alone() {
    let names = [
        "SERVER",
        "TOKEN",
        "CA_FILE",
        "LOG",
        "TOPIC_KEY",
        "SLOW",
        "FAILPOINT",
        "PORT",
        "SERVICE_HOST",
        "SERVICE_PORT",
        "PORT_8080_TCP_ADDR",
    ];
    for name in names {
        let name = format!("HEDGEROW_{name}");
        config::load(None, environment(&[(&name, "x")])).unwrap();
    }
}
