//! Which routes are accepted.

use hedgerow_origin::route::{ForwardingProtocol, RouteSettings, RouteTable};
use hedgerow_origin::settings::{Code, Protocol};
use serde_json::{Value, json};

/// A route that is accepted, with these members in place of its own.
fn with(declared: Value) -> Value {
    let mut route = json!({"hosts": ["shop.example"], "origin_group": "shop"});
    let Value::Object(members) = declared else {
        return declared;
    };
    route.as_object_mut().unwrap().extend(members);
    route
}

fn problems(declared: &Value) -> Vec<(&'static str, String)> {
    let Err(refusal) = RouteSettings::read(declared) else {
        return Vec::new();
    };
    let problems = refusal.problems().iter();
    problems
        .map(|problem| (problem.code.as_str(), problem.field.clone()))
        .collect()
}

/// HP-150: the defaults, and what is shown can be given again.
#[test]
fn defaults() {
    let route = RouteSettings::read(&with(json!({}))).unwrap();
    let shown = serde_json::to_value(&route).unwrap();
    let expect = json!({
        "protocols": ["http", "https"], "hosts": ["shop.example"], "paths": ["/*"],
        "origin_group": "shop", "forwarding_protocol": "match_request", "https_redirect": null,
        "enabled": true,
    });
    assert_eq!(shown, expect);
    assert_eq!(RouteSettings::read(&shown).unwrap(), route);
    assert_eq!(
        serde_json::from_value::<RouteSettings>(shown).unwrap(),
        route
    );
    let minimal = json!({"hosts": ["shop.example"], "origin_group": "shop"});
    assert_eq!(
        serde_json::from_value::<RouteSettings>(minimal).unwrap(),
        route
    );
    let all = json!({
        "protocols": ["https"], "hosts": ["*.shop.example"], "paths": ["/cart", "/cart/*"],
        "origin_group": "carts", "forwarding_protocol": "http", "https_redirect": 301,
        "enabled": false,
    });
    let route = RouteSettings::read(&all).unwrap();
    assert_eq!(serde_json::to_value(&route).unwrap(), all);
}

/// HP-150 to HP-152, HP-155: one thing that is wrong, and where.
#[test]
fn what_is_refused() {
    let rows = [
        (
            json!({"protocols": []}),
            "pattern_count_out_of_range protocols",
        ),
        (
            json!({"protocols": ["http", "tcp"]}),
            "protocol_not_allowed protocols[1]",
        ),
        (json!({"protocols": "http"}), "wrong_type protocols"),
        (json!({"hosts": []}), "pattern_count_out_of_range hosts"),
        (
            json!({"hosts": vec!["a.example"; 101]}),
            "pattern_count_out_of_range hosts",
        ),
        (
            json!({"hosts": ["a.example", "a.example:80"]}),
            "route_host_not_allowed hosts[1]",
        ),
        (
            json!({"hosts": ["*.*.example"]}),
            "route_host_not_allowed hosts[0]",
        ),
        (json!({"hosts": ["a.example", 7]}), "wrong_type hosts[1]"),
        (json!({"paths": []}), "pattern_count_out_of_range paths"),
        (
            json!({"paths": ["/", "/a*"]}),
            "route_path_not_allowed paths[1]",
        ),
        (
            json!({"paths": ["cart"]}),
            "route_path_not_allowed paths[0]",
        ),
        (
            json!({"origin_group": ""}),
            "origin_group_required origin_group",
        ),
        (
            json!({"origin_group": null}),
            "origin_group_required origin_group",
        ),
        (
            json!({"forwarding_protocol": "HTTP"}),
            "protocol_not_allowed forwarding_protocol",
        ),
        (
            json!({"https_redirect": 303}),
            "redirect_status_not_allowed https_redirect",
        ),
        (
            json!({"https_redirect": -1}),
            "redirect_status_not_allowed https_redirect",
        ),
        (json!({"https_redirect": true}), "wrong_type https_redirect"),
        (json!({"enabled": 1}), "wrong_type enabled"),
        (
            json!({"originGroup": "shop"}),
            "unknown_setting originGroup",
        ),
        (json!([]), "wrong_type the route"),
    ];
    for (declared, expect) in rows {
        let (code, field) = expect.split_once(' ').unwrap();
        let mut found = problems(&with(declared.clone()));
        found.retain(|problem| *problem == (code, field.to_owned()));
        assert_eq!(
            found.len(),
            1,
            "{declared}: {:?}",
            problems(&with(declared.clone()))
        );
    }
    for declared in [
        json!({"https_redirect": 308}),
        json!({"https_redirect": 307.0}),
    ] {
        assert_eq!(problems(&with(declared.clone())), [], "{declared}");
    }
    let unknown = json!({"hosts": ["a"], "origin_group": "a", "path": "/"});
    assert!(serde_json::from_value::<RouteSettings>(unknown).is_err());
}

/// HP-005: all that is wrong, at once.
#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let declared = json!({
        "protocols": ["tcp"], "hosts": ["a b", "*"], "paths": ["x"], "https_redirect": 200, "redirect": 1,
    });
    let refusal = RouteSettings::read(&declared).unwrap_err();
    let codes: Vec<&str> = refusal.codes().into_iter().map(Code::as_str).collect();
    assert_eq!(
        codes,
        [
            "protocol_not_allowed",
            "route_host_not_allowed",
            "route_path_not_allowed",
            "pattern_count_out_of_range",
            "redirect_status_not_allowed",
            "origin_group_required",
            "unknown_setting",
        ]
    );
    assert_eq!(refusal.problems().len(), 8);
}

/// HP-150: what is accepted is what the table takes.
#[test]
fn an_accepted_route_makes_a_table() {
    let settings = RouteSettings::read(&with(json!({"paths": ["/cart/*"]}))).unwrap();
    let route = settings.route("carts");
    let table = RouteTable::new(std::slice::from_ref(&route)).unwrap();
    let found = table
        .find(Protocol::Https, "shop.example", "/cart/1")
        .unwrap()
        .unwrap();
    assert_eq!((found.route, found.index), ("carts", 0));
    let forwarded = ForwardingProtocol::MatchRequest.of_request(Protocol::Https);
    assert_eq!(forwarded, Protocol::Https);
    let forwarded = ForwardingProtocol::Http.of_request(Protocol::Https);
    assert_eq!(forwarded, Protocol::Http);
}
