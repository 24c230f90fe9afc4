//! Which groups are accepted, beyond the table `config`.

use hedgerow_origin::settings::{Code, Group, GroupSettings, OriginSettings, Refusal};
use hedgerow_origin::window::Rules;
use serde_json::{Value, json};

/// The group with two origins.
fn with(mut declared: Value) -> Value {
    if declared.get("origins").is_none() {
        declared["origins"] = json!([
            {"name": "a", "host": "a.example"},
            {"name": "b", "host": "b.example"},
        ]);
    }
    declared
}

fn codes(declared: Value) -> Vec<&'static str> {
    match Group::read(&with(declared)) {
        Ok(_) => Vec::new(),
        Err(refusal) => refusal.codes().into_iter().map(Code::as_str).collect(),
    }
}

fn fields(refusal: &Refusal) -> Vec<&str> {
    let problems = refusal.problems().iter();
    problems.map(|problem| problem.field.as_str()).collect()
}

/// HP-005: all that is wrong, at once, in the order of the codes, with its place.
#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let declared = with(json!({
        "origins": [
            {"name": "a", "host": "a.example", "weight": 0, "priority": 6},
            {"name": "a", "host": "b.example", "weight": 1001},
        ],
        "probe": {
            "interval_s": 4, "timeout_s": 61, "method": "POST", "protocol": "tcp", "path": "x",
            "port": 1, "enabled": false,
        },
        "load_balancing": {"sample_size": 4, "successful_samples_required": 3, "additional_latency_ms": -1},
        "unhealthy_threshold": 3,
    }));
    let refusal = Group::read(&declared).unwrap_err();
    let codes: Vec<&str> = refusal.codes().into_iter().map(Code::as_str).collect();
    assert_eq!(
        codes,
        [
            "interval_out_of_range",
            "timeout_out_of_range",
            "timeout_exceeds_interval",
            "method_not_allowed",
            "protocol_not_allowed",
            "path_not_absolute",
            "probe_port_not_configurable",
            "probes_required",
            "threshold_conflict",
            "latency_sensitivity_out_of_range",
            "priority_out_of_range",
            "weight_out_of_range",
            "name_not_allowed",
        ]
    );
    let fields = fields(&refusal);
    assert!(fields.contains(&"origins[0].weight") && fields.contains(&"origins[1].weight"));
    let text = refusal.to_string();
    let sentence =
        "probe.interval_s must be 5 to 255, and is 4 [interval_out_of_range]; probe.timeout_s";
    assert!(text.starts_with(sentence), "{text}");
}

/// HP-001, HP-002, HP-005, HP-014, HP-016, HP-019, HP-045, HP-064, HP-101, HP-113, HP-115: one thing that is wrong.
#[test]
#[allow(clippy::too_many_lines)] // It is a table.
fn what_is_refused() {
    let origin = |settings: Value| {
        let mut origin = json!({"name": "a", "host": "a.example"});
        let members = settings.as_object().unwrap().clone();
        origin.as_object_mut().unwrap().extend(members);
        json!({ "origins": [origin] })
    };
    let rows = [
        (json!({}), ""),
        (json!({"origins": []}), "origin_count_out_of_range"),
        (
            json!({"origins": vec![json!({"name": "a", "host": "a.example"}); 51]}),
            "name_not_allowed origin_count_out_of_range",
        ),
        (origin(json!({"name": ""})), "name_not_allowed"),
        (origin(json!({"name": "a b"})), "name_not_allowed"),
        (origin(json!({"host": ""})), "host_not_allowed"),
        (origin(json!({"host": "http://a"})), "host_not_allowed"),
        (origin(json!({"host": "a.example:80"})), "host_not_allowed"),
        (origin(json!({"host": "a..example"})), "host_not_allowed"),
        (origin(json!({"host": "2130706433"})), "host_not_allowed"),
        (origin(json!({"host": "127.1"})), "host_not_allowed"),
        (origin(json!({"host": "A.example."})), ""),
        (origin(json!({"host": "10.1.2.3"})), ""),
        (origin(json!({"host": "::1"})), ""),
        (origin(json!({"host": "[::1]"})), ""),
        (origin(json!({"host_header": "a\r\nb"})), "host_not_allowed"),
        (origin(json!({"host_header": "::1"})), "host_not_allowed"),
        (origin(json!({"host_header": "a:0"})), "host_not_allowed"),
        (origin(json!({"host_header": "a.example:8080"})), ""),
        (origin(json!({"host_header": "[::1]:8080"})), ""),
        (origin(json!({"http_port": 0})), "value_out_of_range"),
        (origin(json!({"https_port": 65536})), "value_out_of_range"),
        (
            origin(json!({"startup_grace_s": 601})),
            "value_out_of_range",
        ),
        (origin(json!({"weight": 1.5})), "weight_out_of_range"),
        (origin(json!({"weight": "50"})), "wrong_type"),
        (origin(json!({"wieght": 50})), "unknown_setting"),
        (json!({"probe": {"interval_s": 30.0}}), ""),
        (
            json!({"probe": {"interval_s": 30.5}}),
            "interval_out_of_range",
        ),
        (
            json!({"probe": {"interval_s": 1e20}}),
            "interval_out_of_range",
        ),
        (
            json!({"probe": {"interval_s": 4}}),
            "interval_out_of_range timeout_exceeds_interval",
        ),
        (json!({"probe": {"path": "/a?b=c"}}), ""),
        (json!({"probe": {"path": "/a#b"}}), "path_not_absolute"),
        (json!({"probe": {"path": "/a b"}}), "path_not_absolute"),
        (json!({"probe": {"method": "get"}}), "method_not_allowed"),
        (json!({"probe": {"port": null}}), ""),
        (
            json!({"probe": {"header_bytes_max": 65537}}),
            "value_out_of_range",
        ),
        (json!({"probe": {"expected_statuses": [200, 204, 499]}}), ""),
        (
            json!({"probe": {"expected_statuses": []}}),
            "expected_status_not_allowed",
        ),
        (
            json!({"probe": {"expected_statuses": [200, 101]}}),
            "expected_status_not_allowed",
        ),
        (
            json!({"probe": {"expected_statuses": [500]}}),
            "expected_status_not_allowed",
        ),
        (
            json!({"probe": {"expected_statuses": [200, 200]}}),
            "expected_status_not_allowed",
        ),
        (
            json!({"probe": {"expected_statuses": [200.5]}}),
            "expected_status_not_allowed",
        ),
        (
            json!({"probe": {"expected_statuses": [200, 201, 202, 203, 204, 205, 206, 207, 208, 301, 302]}}),
            "expected_status_not_allowed",
        ),
        (json!({"probe": {"expected_statuses": "200"}}), "wrong_type"),
        (json!({"probe": {"headers": {"X-Team": "blue"}}}), ""),
        (
            json!({"probe": {"headers": {"Host": "b"}}}),
            "header_not_allowed",
        ),
        (
            json!({"probe": {"headers": {"X-FD-HealthProbe": "0"}}}),
            "header_not_allowed",
        ),
        (
            json!({"probe": {"headers": {"X-Team": "a\nb"}}}),
            "header_not_allowed",
        ),
        (
            json!({"probe": {"headers": {"X-Team": "a", "x-team": "b"}}}),
            "header_not_allowed",
        ),
        (json!({"probe": 1}), "wrong_type"),
        (json!({"fail_open": "some"}), "value_out_of_range"),
        (
            json!({"load_balancing": {"sample_size": 2}}),
            "successful_samples_out_of_range",
        ),
        (
            json!({"load_balancing": {"sample_size": 256}}),
            "sample_size_out_of_range",
        ),
        (
            json!({"unhealthy_threshold": 0}),
            "successful_samples_out_of_range",
        ),
        (json!({"unhealthy_threshold": 255}), ""),
        (
            json!({"unhealthy_threshold": 256}),
            "sample_size_out_of_range",
        ),
        (json!({"idle_after_s": 0}), "value_out_of_range"),
        (json!({"ramp_s": 3601}), "value_out_of_range"),
        (json!([]), "wrong_type"),
    ];
    for (declared, expect) in rows {
        if !declared.is_object() {
            let refusal = Group::read(&declared).unwrap_err();
            assert!(refusal.codes().contains(&Code::WrongType), "{declared}");
            continue;
        }
        let mut expect: Vec<&str> = expect.split_whitespace().collect();
        let mut found = codes(declared.clone());
        expect.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expect, "{declared}");
    }
}

/// HP-116, HP-111: the vendor's names in any case are the same settings; given twice they have to agree.
#[test]
fn other_spellings_are_the_same_settings() {
    let group = Group::read(&with(json!({
        "ProbeTimeout": 20,
        "probe": {"INTERVAL": 40},
        "load_balancing": {"samplesize": 10, "SuccessfulSamplesRequired": 7},
        "unhealthythreshold": 4,
    })))
    .unwrap();
    assert_eq!(group.timeout().as_secs(), 20);
    assert_eq!(group.interval().as_secs(), 40);
    let thresholds = group.thresholds();
    assert_eq!((thresholds.sample_size(), thresholds.required()), (10, 7));
    let rows = [
        (json!({"Interval": 40, "probe": {"interval_s": 40}}), ""),
        (
            json!({"Interval": 40, "probe": {"interval_s": 41}}),
            "setting_given_twice",
        ),
        (
            json!({"interval": 40, "INTERVAL": 41}),
            "setting_given_twice",
        ),
        (
            json!({"unhealthy_threshold": 2, "UnhealthyThreshold": 3}),
            "setting_given_twice",
        ),
        (
            json!({"Interval": 3, "probe": {"interval_s": 40}}),
            "setting_given_twice",
        ),
        (json!({"Interval": "40"}), "wrong_type"),
        (json!({"SampleSizes": 4}), "unknown_setting"),
    ];
    for (declared, expect) in rows {
        let found = codes(declared.clone());
        assert_eq!(
            found.last().copied().unwrap_or_default(),
            expect,
            "{declared}"
        );
    }
    // Last in the order of HP-005.
    let found = codes(json!({
        "Interval": 40, "probe": {"interval_s": 41},
        "origins": [{"name": "a", "host": "a.example", "weight": 0}],
    }));
    assert_eq!(found, ["weight_out_of_range", "setting_given_twice"]);
}

/// HP-114: the profile is other defaults in one word; what is given beside it holds.
#[test]
fn the_profile_for_slow_containers() {
    let group = Group::read(&with(json!({"profile": "slow_start_container"}))).unwrap();
    let thresholds = group.thresholds();
    assert_eq!(group.interval().as_secs(), 60);
    assert_eq!(group.timeout().as_secs(), 30);
    assert_eq!((thresholds.sample_size(), thresholds.required()), (5, 2));
    assert!(group.rules().waits_for_threshold);
    let group = Group::read(&with(json!({
        "profile": "slow_start_container",
        "probe": {"interval_s": 90},
    })))
    .unwrap();
    assert_eq!(group.interval().as_secs(), 90);
    assert_eq!(codes(json!({"profile": "fast"})), ["value_out_of_range"]);
}

/// Section 1: the defaults; and what is shown is what was accepted.
#[test]
fn what_is_shown_can_be_given_again() {
    let group = Group::read(&with(json!({}))).unwrap();
    assert_eq!(group.rules(), Rules::default());
    let shown = serde_json::to_value(group.settings()).unwrap();
    let default = json!({
        "probe": {
            "enabled": true, "protocol": "http", "path": "/", "method": "HEAD",
            "interval_s": 30, "timeout_s": 5, "header_bytes_max": 4096,
            "expected_statuses": [200],
        },
        "load_balancing": {
            "sample_size": 4, "successful_samples_required": 3, "additional_latency_ms": 50,
        },
        "session_affinity": false, "fail_open": "all", "strategy": "weighted",
        "idle_after_s": 300, "idle_max_level": 3, "idle_cap_s": 240, "ramp_s": 0,
        "passive_signals": true, "passive_ejection": false, "flap_damping": false,
        "drain_header": true,
    });
    for (name, value) in default.as_object().unwrap() {
        assert_eq!(shown[name], *value, "{name}");
    }
    let declared = with(json!({
        "unhealthy_threshold": 5,
        "probe": {"protocol": "https", "headers": {"X-Team": "blue"}},
        "strategy": "p2c_ewma",
        "fail_open": "top_priority",
    }));
    let group = Group::read(&declared).unwrap();
    let shown = serde_json::to_value(group.settings()).unwrap();
    assert_eq!(Group::read(&shown).unwrap(), group);
    let stored = serde_json::to_string(&group).unwrap();
    assert_eq!(serde_json::from_str::<Group>(&stored).unwrap(), group);
    assert!(serde_json::from_str::<Group>("{\"origins\":[]}").is_err());
}

/// HP-005: who builds a group in code is told the same.
#[test]
fn groups_in_code_are_checked_too() {
    let mut settings = GroupSettings {
        origins: vec![OriginSettings::new("a", "a.example")],
        ..GroupSettings::default()
    };
    assert!(Group::new(settings.clone()).is_ok());
    settings.probe.timeout_s = 31;
    let refusal = Group::new(settings).unwrap_err();
    assert_eq!(refusal.codes(), [Code::TimeoutExceedsInterval]);
    assert_eq!(fields(&refusal), ["probe.timeout_s"]);
}
