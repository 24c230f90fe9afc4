//! Routes beyond the table `route_match`.

use hedgerow_origin::route::{PathError, Route, RouteError, RouteTable, https_location};
use hedgerow_origin::settings::Protocol;
use proptest::prelude::*;

fn route(name: &str, hosts: &[&str], paths: &[&str]) -> Route {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Route {
        name: name.to_owned(),
        protocols: vec![Protocol::Http, Protocol::Https],
        hosts: owned(hosts),
        paths: owned(paths),
    }
}

fn found(table: &RouteTable, host: &str, path: &str) -> Option<String> {
    let found = table.find(Protocol::Http, host, path).unwrap();
    found.map(|found| found.route.to_owned())
}

/// HP-150 to HP-152: the example of section 14, with further paths.
#[test]
fn the_example_of_the_specification() {
    let paths = ["/", "/*", "/cart", "/cart/", "/cart/*", "/cart/pay"];
    let routes: Vec<Route> = (1..)
        .zip(paths)
        .map(|(number, path)| route(&format!("R{number}"), &["shop.example"], &[path]))
        .collect();
    let table = RouteTable::new(&routes).unwrap();
    for (path, expect) in [
        ("/", "R1"),
        ("/blog", "R2"),
        ("/cartoon", "R2"),
        ("/cart", "R3"),
        ("/cart/", "R4"),
        ("/cart/items/7", "R5"),
        ("/cart/pay", "R6"),
        ("/Cart/Pay", "R6"),
        ("/cart/pay/", "R5"),
    ] {
        assert_eq!(
            found(&table, "shop.example", path).as_deref(),
            Some(expect),
            "{path}"
        );
    }
}

/// HP-151: a port, the case and a trailing dot of the host do not count; a wildcard is one label.
#[test]
fn hosts_compare_without_port_and_case() {
    let table = RouteTable::new(&[
        route("v6", &["[::1]"], &["/*"]),
        route("v4", &["127.0.0.1"], &["/*"]),
        route("wild", &["*.Shop.example"], &["/*"]),
    ])
    .unwrap();
    for (host, expect) in [
        ("[::1]", Some("v6")),
        ("[0:0::1]:8080", Some("v6")),
        ("127.0.0.1:80", Some("v4")),
        ("EU.shop.Example.:443", Some("wild")),
        ("shop.example", None),
        (".shop.example", None),
        ("a.b.shop.example", None),
        ("", None),
    ] {
        assert_eq!(found(&table, host, "/x").as_deref(), expect, "{host}");
    }
}

/// HP-150: protocol first: an exact host that does not serve it keeps no wildcard from serving.
#[test]
fn the_protocol_comes_first() {
    let exact = Route {
        protocols: vec![Protocol::Https],
        ..route("exact", &["eu.shop.example"], &["/*"])
    };
    let table = RouteTable::new(&[exact, route("wild", &["*.shop.example"], &["/*"])]).unwrap();
    assert_eq!(
        found(&table, "eu.shop.example", "/").as_deref(),
        Some("wild")
    );
}

/// HP-150: the same combination twice is refused, also in another spelling; and what is no pattern.
#[test]
fn what_is_refused() {
    let first = route("first", &["a.example", "*.b.example"], &["/x", "/y/*"]);
    for (host, path) in [
        ("A.example.", "/X"),
        ("*.B.example", "/y/*"),
        ("a.example", "/%78"),
        ("a.example", "/z/../x"),
    ] {
        let second = route("second", &[host], &[path]);
        let error = RouteTable::new(&[first.clone(), second]).unwrap_err();
        assert!(
            matches!(error, RouteError::Ambiguous { .. }),
            "{host}{path}: {error}"
        );
    }
    for (host, path) in [
        ("a.example", "/y"),
        ("b.example", "/x"),
        ("*.a.example", "/x"),
    ] {
        let second = route("second", &[host], &[path]);
        assert!(
            RouteTable::new(&[first.clone(), second]).is_ok(),
            "{host}{path}"
        );
    }
    for host in [
        "",
        "*",
        "*.",
        "a*.example",
        "*.*.example",
        "a.example:80",
        "a/b",
        "*.[::1]",
    ] {
        let error = RouteTable::new(&[route("a", &[host], &["/"])]).unwrap_err();
        assert!(matches!(error, RouteError::Host { .. }), "{host}: {error}");
    }
    for path in ["", "x", "*", "/a*", "/*/b", "/a?b", "/a#b", "/%zz"] {
        let error = RouteTable::new(&[route("a", &["a"], &[path])]).unwrap_err();
        assert!(matches!(error, RouteError::Path { .. }), "{path}: {error}");
    }
    let twice = [route("a", &["a"], &["/"]), route("a", &["b"], &["/"])];
    assert!(matches!(
        RouteTable::new(&twice),
        Err(RouteError::NameGivenTwice(_))
    ));
    let none = route("a", &[], &["/"]);
    assert!(matches!(
        RouteTable::new(&[none]),
        Err(RouteError::Patterns { .. })
    ));
}

/// HP-154: what is matched is what is forwarded, and what cannot be decoded is refused.
#[test]
fn the_matched_path_is_forwarded() {
    let table = RouteTable::new(&[
        route("all", &["a.example"], &["/*"]),
        route("private", &["a.example"], &["/private/*"]),
    ])
    .unwrap();
    let find = |path| table.find(Protocol::Http, "a.example", path);
    let tricky = find("/public/..%2e/%70rivate/x%2fy").unwrap().unwrap();
    // "..." is no dot segment.
    assert_eq!(
        (tricky.route, tricky.path.as_ref()),
        ("all", "/public/.../private/x%2Fy")
    );
    let dotted = find("/public/%2e%2E/%70rivate/x").unwrap().unwrap();
    assert_eq!(
        (dotted.route, dotted.path.as_ref()),
        ("private", "/private/x")
    );
    assert_eq!(find("/%"), Err(PathError::Encoding));
    assert_eq!(find("x"), Err(PathError::NotAbsolute));
}

/// HP-155: the same host, path and query; the port of the HTTPS listener if it is not 443.
#[test]
fn redirects_to_https() {
    for (host, port, expect) in [
        ("a.example", 443, "https://a.example/x?y"),
        ("a.example:80", 443, "https://a.example/x?y"),
        ("a.example:8080", 8443, "https://a.example:8443/x?y"),
        ("[::1]:8080", 8443, "https://[::1]:8443/x?y"),
    ] {
        assert_eq!(https_location(host, "/x?y", port), expect);
    }
}

proptest! {
    /// HP-150: the order in the configuration does not matter.
    #[test]
    fn the_order_of_routes_does_not_matter(
        paths in prop::collection::btree_set("(/[ab]{1,2}){0,2}(/|/\\*)", 1..8),
        asked in prop::collection::vec("(/[ab]{1,3}){0,3}/?", 1..8),
        turn in any::<prop::sample::Index>(),
    ) {
        let mut routes: Vec<Route> =
            paths.iter().map(|path| route(path, &["a.example"], &[path])).collect();
        let table = RouteTable::new(&routes).unwrap();
        let middle = turn.index(routes.len());
        routes.rotate_left(middle);
        routes.reverse();
        let turned = RouteTable::new(&routes).unwrap();
        for path in asked.iter().map(|path| if path.is_empty() { "/" } else { path }) {
            prop_assert_eq!(found(&table, "a.example", path), found(&turned, "a.example", path));
        }
    }

    /// HP-154: a path that is normal stays as it is, and nothing panics.
    #[test]
    fn normal_paths_stay(path in "/(\\.{0,3}|%2[eEfF]|%4|é|[a-z]|/){0,12}") {
        use hedgerow_origin::route::normalize;
        if let Ok(normal) = normalize(&path) {
            let again = normalize(&normal).unwrap();
            prop_assert_eq!(&again, &normal);
            let has_dots = normal.split('/').any(|segment| segment == "." || segment == "..");
            prop_assert!(!has_dots && normal.starts_with('/'));
        }
    }
}

/// HP-152: the longest beginning wins among many, whatever their order, and a path of slashes alone is no harder.
#[test]
fn the_longest_of_many_beginnings_is_found() {
    let deep = |depth: usize| "/a".repeat(depth);
    let routes: Vec<Route> = (0..60)
        .map(|depth| {
            let path = format!("{}/*", deep(depth));
            route(&format!("r{depth}"), &["shop.example"], &[&path])
        })
        .collect();
    let table = RouteTable::new(&routes).unwrap();
    for depth in 0..60 {
        let path = format!("{}/b", deep(depth));
        let expect = format!("r{depth}");
        assert_eq!(found(&table, "shop.example", &path), Some(expect), "{path}");
    }
    assert_eq!(
        found(&table, "shop.example", &deep(70)).as_deref(),
        Some("r59")
    );
    let slashes = "/".repeat(8_000);
    assert_eq!(
        found(&table, "shop.example", &slashes).as_deref(),
        Some("r0")
    );
}
