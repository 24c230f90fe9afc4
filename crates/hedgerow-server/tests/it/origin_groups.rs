//! Origin groups from outside: declared, probed, shown.

use std::num::NonZeroU32;

use hedgerow_server::ServerOptions;
use serde_json::{Value, json};

use crate::origins::{Origin, declare, path, quick, states, status_path, story};
use crate::support::{TestServer, config};
use crate::waits::patiently;

/// A server on which intervals of seconds are over in moments.
async fn fast_server(data: &std::path::Path) -> TestServer {
    let options = ServerOptions {
        speed: NonZeroU32::new(20),
        ..ServerOptions::default()
    };
    TestServer::run(config(data), options).await
}

fn origin(name: &str, port: u16) -> Value {
    json!({"name": name, "host": "127.0.0.1", "http_port": port})
}

/// A group that is never probed, so that nothing moves.
fn resting() -> Value {
    json!({"probe": {"enabled": false}, "origins": [origin("a", 1)]})
}

/// HP-005: declared, shown, changed, declared again, deleted.
#[tokio::test]
async fn a_group_is_declared_and_changed() {
    let server = TestServer::start().await;
    let made = server.admin("PUT", &path("Shop"), resting()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!(
        (&made["name"], &made["change"], &made["probe"]["interval_s"]),
        (&json!("Shop"), &json!("created"), &json!(30))
    );
    let shown = server.admin("GET", &path("SHOP"), Value::Null).await.json();
    assert_eq!(shown["origins"][0]["weight"], 50);
    // What was shown can be sent back, as it was answered too.
    for same in [&made, &shown] {
        let again = server.admin("PUT", &path("shop"), same.clone()).await;
        assert_eq!(
            (again.status.as_u16(), again.json()["change"].clone()),
            (200, json!("unchanged"))
        );
    }
    let patch = json!({"origins": {"a": {"weight": 7}}, "probe": {"path": "/up"}});
    let changed = server.admin("PATCH", &path("shop"), patch).await.json();
    assert_eq!(changed["change"], "changed");
    let found = (&changed["origins"][0]["weight"], &changed["probe"]["path"]);
    assert_eq!(found, (&json!(7), &json!("/up")));
    assert_eq!(changed["created_time"], made["created_time"]);
    let list = server
        .admin("GET", "/api/v1/origin-groups", Value::Null)
        .await
        .json();
    assert_eq!(list["value"].as_array().unwrap().len(), 1);
    let gone = server.admin("DELETE", &path("shop"), Value::Null).await;
    assert_eq!(gone.status, 204);
    for (method, path) in [
        ("GET", path("shop")),
        ("DELETE", path("shop")),
        ("GET", status_path("shop")),
        ("PATCH", path("shop")),
    ] {
        let gone = server.admin(method, &path, json!({})).await;
        assert_eq!(
            (gone.status.as_u16(), gone.code().as_str()),
            (404, "NotFound"),
            "{method} {path}"
        );
    }
    server.stop_and_wait().await;
}

/// HP-005: 400 with all codes at once, and nothing is changed; a name that is none, and a body for another place.
#[tokio::test]
async fn what_is_wrong_is_told_at_once() {
    let server = TestServer::start().await;
    let wrong = json!({
        "probe": {"interval_s": 4, "timeout_s": 99, "method": "POST", "port": 80},
        "origins": [{"name": "a", "host": "a.example", "weight": 0}], "colour": "blue",
    });
    let refused = server.admin("PUT", &path("shop"), wrong).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (400, "InvalidInput")
    );
    let json = refused.json();
    let details = json["error"]["details"].as_array().unwrap().iter();
    let details: Vec<_> = details
        .map(|one| {
            (
                one["code"].as_str().unwrap(),
                one["target"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        details,
        [
            ("interval_out_of_range", "probe.interval_s"),
            ("timeout_out_of_range", "probe.timeout_s"),
            ("timeout_exceeds_interval", "probe.timeout_s"),
            ("method_not_allowed", "probe.method"),
            ("probe_port_not_configurable", "probe.port"),
            ("weight_out_of_range", "origins[0].weight"),
            ("unknown_setting", "colour"),
        ]
    );
    for (path, body, message) in [
        (path("a%20b"), resting(), "an origin group's name must have"),
        (
            path("shop"),
            json!({"name": "other", "origins": [origin("a", 1)]}),
            "name: must be \"shop\"",
        ),
        (
            path("shop?dryRun=yes"),
            resting(),
            "dryRun: must be true or false",
        ),
        (path("shop?dry=1"), resting(), "dry: is no parameter here"),
        (status_path("shop?nodes=0"), resting(), ""),
    ] {
        let method = if message.is_empty() { "GET" } else { "PUT" };
        let refused = server.admin(method, &path, body).await;
        assert!(refused.status.is_client_error(), "{path}");
        assert!(refused.message().contains(message), "{}", refused.text());
    }
    declare(&server, "shop", resting()).await;
    // HP-101: a second origin needs probes.
    let patch = json!({"origins": {"b": {"host": "127.0.0.1", "http_port": 2}}});
    let refused = server.admin("PATCH", &path("shop"), patch).await;
    assert_eq!(
        refused.json()["error"]["details"][0]["code"],
        "probes_required"
    );
    let shown = server.admin("GET", &path("shop"), Value::Null).await.json();
    assert_eq!(shown["origins"].as_array().unwrap().len(), 1);
    server.stop_and_wait().await;
}

/// HP-085, HP-088: a dry run changes nothing and says the volume; much volume comes with a warning.
#[tokio::test]
async fn a_dry_run_says_the_volume() {
    let server = TestServer::start_with(|config| config.probes.region = "west".to_owned()).await;
    let group = json!({
        "probe": {"interval_s": 255},
        "origins": [origin("a", 1), origin("b", 2)],
    });
    let dry = server
        .admin("PUT", &path("shop?dryRun=true"), group.clone())
        .await;
    assert_eq!(dry.status, 200);
    let dry = dry.json();
    assert_eq!(
        (&dry["change"], &dry["dry_run"]),
        (&json!("created"), &json!(true))
    );
    let estimate = &dry["estimate"][0];
    assert_eq!(
        (&estimate["name"], &estimate["nodes"][0]["label"]),
        (&json!("a"), &json!("west"))
    );
    let per_minute = estimate["probes_per_minute"].as_f64().unwrap();
    assert!((per_minute - 60.0 / 255.0).abs() < 1e-9);
    assert_eq!(dry.get("warnings"), None);
    let none = server.admin("GET", &path("shop"), Value::Null).await;
    assert_eq!(none.status, 404);
    declare(&server, "shop", group).await;
    // Six other groups that probe the same origin at other paths, twelve times a minute each.
    for number in 0..5 {
        let group = json!({
            "probe": {"interval_s": 5, "path": format!("/{number}"), "method": "GET"},
            "origins": [origin("a", 1), origin("c", 3)],
        });
        let made = declare(&server, &format!("other-{number}"), group).await;
        assert_eq!(made.get("warnings").is_some(), number == 4, "{made}");
    }
    let path = format!("{}/estimate?nodes=2", path("shop"));
    let estimated = server.admin("GET", &path, Value::Null).await.json();
    let warning = &estimated["warnings"][0];
    assert_eq!(warning["field"], "origins.a");
    let message = warning["message"].as_str().unwrap();
    assert!(
        message.starts_with("gets 120 probes a minute, more than 60"),
        "{message}"
    );
    assert!(message.contains("fewer nodes"), "{message}");
    server.stop_and_wait().await;
}

/// HP-150: routes; and who names a group keeps it.
#[tokio::test]
async fn routes_name_groups() {
    let server = TestServer::start().await;
    let route = json!({"hosts": ["shop.example"], "origin_group": "shop"});
    let at = "/api/v1/routes/all";
    let refused = server.admin("PUT", at, route.clone()).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.message().contains("there is no such origin group"),
        "{}",
        refused.text()
    );
    declare(&server, "Shop", resting()).await;
    let dry = server
        .admin("PUT", &format!("{at}?dryRun=true"), route.clone())
        .await
        .json();
    assert_eq!(
        (&dry["change"], &dry["origin_group"]),
        (&json!("created"), &json!("Shop"))
    );
    assert_eq!(server.admin("GET", at, Value::Null).await.status, 404);
    let made = server.admin("PUT", at, route.clone()).await;
    assert_eq!(
        (made.status.as_u16(), made.json()["paths"].clone()),
        (201, json!(["/*"]))
    );
    let twice = server.admin("PUT", "/api/v1/routes/other", route).await;
    assert_eq!(
        (twice.status.as_u16(), twice.code().as_str()),
        (409, "Conflict")
    );
    let wrong = json!({"hosts": ["a b"], "https_redirect": 303});
    let refused = server.admin("PUT", at, wrong).await.json();
    let codes = refused["error"]["details"].as_array().unwrap().iter();
    let codes: Vec<_> = codes.map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(
        codes,
        [
            "route_host_not_allowed",
            "redirect_status_not_allowed",
            "origin_group_required"
        ]
    );
    let patch = json!({"https_redirect": 308, "paths": ["/a", "/a/*"]});
    let changed = server.admin("PATCH", at, patch).await.json();
    assert_eq!(
        (&changed["change"], &changed["hosts"]),
        (&json!("changed"), &json!(["shop.example"]))
    );
    let kept = server.admin("DELETE", &path("shop"), Value::Null).await;
    assert_eq!(kept.status, 409);
    assert!(
        kept.message().contains("\"Shop\" is used by route all"),
        "{}",
        kept.text()
    );
    let status = server
        .admin("GET", &status_path("shop"), Value::Null)
        .await
        .json();
    assert_eq!(status["used_by"], json!(["route all"]));
    let list = server
        .admin("GET", "/api/v1/routes", Value::Null)
        .await
        .json();
    assert_eq!(list["value"][0]["name"], "all");
    assert_eq!(server.admin("DELETE", at, Value::Null).await.status, 204);
    assert_eq!(
        server
            .admin("DELETE", &path("shop"), Value::Null)
            .await
            .status,
        204
    );
    server.stop_and_wait().await;
}

/// HP-006, HP-031, HP-207: a group's story as its status tells it: one is killed and comes back, one is disabled and enabled.
#[tokio::test]
async fn the_status_tells_the_story() {
    let data = tempfile::tempdir().unwrap();
    let server = fast_server(data.path()).await;
    let mut origins = [
        Origin::start().await,
        Origin::start().await,
        Origin::start().await,
    ];
    let declared = [
        origins[0].declared("a"),
        origins[1].declared("b"),
        origins[2].declared("c"),
    ];
    declare(&server, "shop", quick(&declared)).await;
    let status = status_path("shop");
    let all = |expect: [&'static str; 3]| move |status: &Value| states(status) == expect;
    let told = server.list_until(&status, all(["healthy"; 3])).await;
    assert_eq!(told["status"]["mode"], "normal");
    assert_eq!(
        told["status"]["worst_detection_s"], 6.0,
        "HP-065: 1 * 5 + 1"
    );
    assert_eq!(told["status"]["worst_recovery_s"], 6.0);
    let first = &told["status"]["origins"][0];
    assert_eq!(
        (&first["last_status"], &first["last_reason"]),
        (&json!(200), &Value::Null)
    );
    assert_eq!(first["health_percentage_1m"], 100.0, "HP-106");
    assert_eq!(told["estimate"][0]["probes_per_minute"], 12.0);
    origins[1].kill().await;
    let told = server
        .list_until(&status, all(["healthy", "unhealthy", "healthy"]))
        .await;
    let dead = &told["status"]["origins"][1];
    assert_eq!(
        (&dead["last_reason"], &dead["kept"]),
        (&json!("connect_refused"), &json!(false))
    );
    origins[1].revive().await;
    server.list_until(&status, all(["healthy"; 3])).await;
    let patch = |enabled: bool| json!({"origins": {"c": {"enabled": enabled}}});
    server.admin("PATCH", &path("shop"), patch(false)).await;
    let is_disabled = |status: &Value| status["status"]["origins"][2]["enabled"] == false;
    let told = server.list_until(&status, is_disabled).await;
    assert_eq!(told["status"]["origins"][2]["probe"], Value::Null);
    server.admin("PATCH", &path("shop"), patch(true)).await;
    let told = server.list_until(&status, all(["healthy"; 3])).await;
    let mut told = story(&told);
    // The first three come in the order of their answers.
    told[..3].sort_unstable();
    assert_eq!(
        told[..7],
        [
            "a state unknown healthy",
            "b state unknown healthy",
            "c state unknown healthy",
            "b state healthy unhealthy connect_refused",
            "b state unhealthy healthy",
            "c disabled",
            "c enabled",
        ],
        "{told:?}"
    );
    assert_eq!(told.last().unwrap(), "c state unknown healthy");
    server.stop_and_wait().await;
}

/// FC-23, HP-090, HP-093, HP-095, HP-208: all are unhealthy, and the group is used all the same; one that comes back ends it. FC-24,
/// HP-040: an answer other than 200 is told with its status.
#[tokio::test]
async fn all_unhealthy_is_told_as_such() {
    let data = tempfile::tempdir().unwrap();
    let server = fast_server(data.path()).await;
    let (mut first, second) = (Origin::start().await, Origin::start().await);
    let declared = [first.declared("a"), second.declared("b")];
    declare(&server, "shop", quick(&declared)).await;
    let status = status_path("shop");
    server
        .list_until(&status, |status| states(status) == ["healthy", "healthy"])
        .await;
    first.kill().await;
    second.answer(302);
    let is_all = |status: &Value| status["status"]["all_unhealthy"] == true;
    let told = server.list_until(&status, is_all).await;
    assert_eq!(
        (&told["status"]["mode"], &told["fail_open"]),
        (&json!("fail_open"), &json!("all"))
    );
    let redirected = &told["status"]["origins"][1];
    assert_eq!(
        (&redirected["last_reason"], &redirected["last_status"]),
        (&json!("status"), &json!(302))
    );
    assert!(
        redirected["kept"] == true && redirected["share"] == "1/2",
        "{redirected}"
    );
    let metrics = server.send(http::Request::get("/metrics"), "").await;
    let text = metrics.text();
    for line in [
        "hedgerow_group_all_unhealthy{origin_group=\"shop\"} 1",
        "hedgerow_group_all_unhealthy_entered_total{origin_group=\"shop\"} 1",
        "hedgerow_origin_state{origin_group=\"shop\",origin=\"b\",hedgerow_origin_state=\"unhealthy\"} 1",
        "hedgerow_origin_state_changes_total{origin_group=\"shop\",origin=\"b\",from=\"healthy\",to=\"unhealthy\"} 1",
        "hedgerow_origin_probes_total{origin_group=\"shop\",origin=\"b\",result=\"status\"} ",
        "hedgerow_origin_health_percentage{origin_group=\"shop\",origin=\"a\",window=\"1m\",single_origin=\"false\"} ",
        "hedgerow_origins_left_out 0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    second.answer(200);
    let told = server.list_until(&status, |status| !is_all(status)).await;
    assert_eq!(told["status"]["mode"], "normal");
    let told = story(&told);
    let entered = told.iter().position(|one| one == "all_unhealthy_entered");
    let left = told.iter().position(|one| one == "all_unhealthy_left");
    assert!(entered.unwrap() < left.unwrap(), "{told:?}");
    server.stop_and_wait().await;
}

/// HP-006: a probe of a group that is deleted ends at once, and no other follows.
#[tokio::test]
async fn a_deleted_group_is_not_probed() {
    let server = TestServer::start().await;
    let mut silent = Origin::start().await;
    silent.be_silent();
    let group = json!({
        "probe": {"interval_s": 60, "timeout_s": 60},
        "origins": [silent.declared("a")],
    });
    declare(&server, "shop", group).await;
    patiently("a probe", silent.next_probe()).await;
    server.admin("DELETE", &path("shop"), Value::Null).await;
    // Long before its timeout.
    patiently("the end of the probe", silent.given_up.recv())
        .await
        .unwrap();
    assert_eq!(silent.probes(), 1);
    server.stop_and_wait().await;
}

/// HP-197, HP-007: windows are there after a restart, before anything is probed anew.
#[tokio::test]
async fn windows_outlive_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let mut origin = Origin::start().await;
    let group = |path: &str| {
        json!({
            "probe": {"interval_s": 255, "timeout_s": 60, "path": path},
            "load_balancing": {"sample_size": 1, "successful_samples_required": 1},
            "origins": [origin.declared("a"), {"name": "b", "host": "127.0.0.1", "http_port": 1}],
        })
    };
    let (same, other) = (group("/"), group("/other"));
    declare(&server, "shop", same).await;
    let status = status_path("shop");
    server
        .list_until(&status, |status| states(status) == ["healthy", "unhealthy"])
        .await;
    server.stop_and_wait().await;
    assert!(data.path().join("probe-windows.json").is_file());
    origin.be_silent();
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    // Nothing has answered, or will within a minute.
    let is_there = |status: &Value| states(status).len() == 2;
    let told = server.list_until(&status, is_there).await;
    assert_eq!(states(&told)[0], "healthy");
    assert_eq!(told["status"]["origins"][0]["provisional"], true);
    // Another target is another window.
    server.admin("PUT", &path("shop"), other).await;
    let is_other = |status: &Value| states(status).first() == Some(&"unknown");
    server.list_until(&status, is_other).await;
    server.stop_and_wait().await;
    // A damaged file keeps nothing from starting.
    std::fs::write(data.path().join("probe-windows.json"), "{").unwrap();
    let server = TestServer::run(config(data.path()), ServerOptions::default()).await;
    let told = server.list_until(&status, is_there).await;
    assert_eq!(states(&told)[0], "unknown");
    assert!(data.path().join("probe-windows.json.damaged").is_file());
    origin.kill().await;
    server.stop_and_wait().await;
}

/// One probe now, with its parts: of a URL, and of the origins of a group. It is no sample of the group.
#[tokio::test]
async fn a_probe_by_hand() {
    let server = TestServer::start().await;
    let origin = Origin::start().await;
    let url = format!("http://{}/up?x=1", origin.address);
    let probed = server
        .admin(
            "POST",
            "/api/v1/probe",
            json!({"url": url, "method": "GET"}),
        )
        .await;
    let json = probed.json();
    let one = &json["value"][0];
    assert_eq!(
        (&one["result"], &one["status"], &one["url"]),
        (&json!("success"), &json!(200), &json!(url))
    );
    assert_eq!(one["address"], json!(origin.address.to_string()));
    assert!(
        one["connect_us"].is_u64() && one["first_byte_us"].is_u64() && one["total_us"].is_u64(),
        "{one}"
    );
    assert!(
        one["excerpt"].as_str().unwrap().starts_with("HTTP/1.1 200"),
        "{one}"
    );
    declare(
        &server,
        "shop",
        json!({
            "probe": {"enabled": false, "timeout_s": 1},
            "origins": [origin.declared("a"), {"name": "b", "host": "127.0.0.1", "http_port": 1, "enabled": false}],
        }),
    )
    .await;
    for (body, expect) in [
        (json!({"group": "shop"}), vec![("a", "success")]),
        (
            json!({"group": "shop", "origin": "b"}),
            vec![("b", "connect_refused")],
        ),
    ] {
        let probed = server.admin("POST", "/api/v1/probe", body).await.json();
        let found = probed["value"].as_array().unwrap().iter();
        let found: Vec<_> = found
            .map(|one| {
                (
                    one["origin"].as_str().unwrap(),
                    one["result"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(found, expect);
    }
    // HP-028: what the policy closes is not asked.
    let closed = json!({"url": "http://169.254.169.254/"});
    let probed = server.admin("POST", "/api/v1/probe", closed).await.json();
    assert_eq!(
        probed["value"][0]["result"], "address_forbidden",
        "{probed}"
    );
    for (body, status) in [
        (json!({}), 400),
        (json!({"url": "ftp://a.example/"}), 400),
        (json!({"url": "http://u:p@a.example/"}), 400),
        (json!({"url": "http://a.example/", "timeout_s": 61}), 400),
        (json!({"url": "http://a.example/", "interval_s": 5}), 400),
        (json!({"group": "none"}), 404),
        (json!({"group": "shop", "origin": "c"}), 404),
    ] {
        let refused = server.admin("POST", "/api/v1/probe", body.clone()).await;
        assert_eq!(refused.status.as_u16(), status, "{body} {}", refused.text());
    }
    let told = server
        .admin("GET", &status_path("shop"), Value::Null)
        .await
        .json();
    assert_eq!(told["recent"], json!([]));
    server.stop_and_wait().await;
}

/// Groups and routes in the declarations of many things: all of them or none, and again.
#[tokio::test]
async fn groups_and_routes_are_applied() {
    let server = TestServer::start().await;
    let mut shop = resting();
    shop["name"] = json!("shop");
    let grid = json!({
        "routes": [{"name": "all", "hosts": ["shop.example"], "origin_group": "SHOP"}],
        "originGroups": [shop],
    });
    let apply = async |grid: &Value| server.admin("POST", "/api/v1/apply", grid.clone()).await;
    let lines = |answer: &Value| -> Vec<String> {
        let applied = answer["value"].as_array().unwrap().iter();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
        applied
            .map(|one| format!("{} {}", text(one, "what"), text(one, "change")))
            .collect()
    };
    let answer = apply(&grid).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        lines(&answer.json()),
        ["origin group shop created", "route all created"]
    );
    let answer = apply(&grid).await;
    assert_eq!(
        lines(&answer.json()),
        ["origin group shop unchanged", "route all unchanged"]
    );
    let wrong = json!({
        "originGroups": [
            {"name": "shop", "origins": [{"name": "a", "host": "127.0.0.1", "weight": 0}], "profile": "fast"},
            {"origins": [{"name": "a", "host": "127.0.0.1"}]},
        ],
        "routes": [
            {"name": "one", "hosts": ["one.example"], "origin_group": "none"},
            {"name": "two", "hosts": ["SHOP.example"], "origin_group": "shop"},
            {"name": "three", "hosts": ["a b"], "origin_group": "shop"},
            {"name": "four", "hosts": ["four.example"], "origin_group": "shop"},
            {"name": "Four", "hosts": ["five.example"], "origin_group": "shop"},
        ],
    });
    let refused = apply(&wrong).await;
    assert_eq!(refused.status, 400);
    let json = refused.json();
    let details = json["error"]["details"].as_array().unwrap().iter();
    let targets: Vec<_> = details.map(|one| one["target"].as_str().unwrap()).collect();
    assert_eq!(
        targets,
        [
            "originGroups[0].origins[0].weight",
            "originGroups[0].profile",
            "originGroups[1].name",
            "routes[0].origin_group",
            "routes[1]",
            "routes[2].hosts[0]",
            "routes[4].name",
        ],
        "{json}"
    );
    let list = server
        .admin("GET", "/api/v1/routes", Value::Null)
        .await
        .json();
    assert_eq!(list["value"].as_array().unwrap().len(), 1);
    server.stop_and_wait().await;
}
