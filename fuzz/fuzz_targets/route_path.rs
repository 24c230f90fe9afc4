//! Paths of requests (HP-152, HP-154): the path that was matched is the one that is forwarded; whoever takes it again takes
//! the same route, and finds no dot segment and nothing to decode in it.
#![no_main]

use std::sync::LazyLock;

use hedgerow_origin::route::{Route, RouteTable, normalize};
use hedgerow_origin::settings::Protocol;
use libfuzzer_sys::fuzz_target;

/// The example of the specification, a wildcard, and paths that are almost the same.
static TABLE: LazyLock<RouteTable> = LazyLock::new(|| {
    let route = |name: &str, host: &str, path: &str| Route {
        name: name.to_owned(),
        protocols: vec![Protocol::Http, Protocol::Https],
        hosts: vec![host.to_owned()],
        paths: vec![path.to_owned()],
    };
    let paths = [
        "/",
        "/*",
        "/cart",
        "/cart/",
        "/cart/*",
        "/cart/pay",
        "/a%2Fb/*",
        "/a/b/*",
        "/~c",
    ];
    let paths = paths.iter().enumerate();
    let mut routes: Vec<Route> = paths
        .map(|(number, path)| route(&format!("r{number}"), "shop.example", path))
        .collect();
    routes.push(route("wild", "*.shop.example", "/cart/*"));
    RouteTable::new(&routes).expect("the routes are good")
});

const HOSTS: [&str; 4] = [
    "shop.example",
    "SHOP.example.:8080",
    "a.shop.example",
    "b.a.shop.example",
];

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(path) = std::str::from_utf8(rest) else {
        return;
    };
    let host = HOSTS[usize::from(*first) % HOSTS.len()];
    let normal = match normalize(path) {
        Ok(normal) => normal,
        Err(error) => {
            assert_eq!(TABLE.find(Protocol::Http, host, path), Err(error));
            return;
        }
    };
    assert!(normal.starts_with('/'));
    assert!(normal.len() <= path.len());
    assert_eq!(
        normalize(&normal).as_deref(),
        Ok(normal.as_ref()),
        "{path:?}"
    );
    for segment in normal.split('/') {
        assert!(!matches!(segment, "." | ".."), "{path:?} -> {normal:?}");
    }
    // Nothing is left that a server behind could decode to a dot segment or to another path.
    for (at, _) in normal.match_indices('%') {
        let digits = normal.get(at + 1..at + 3).expect("two digits follow");
        let byte = u8::from_str_radix(digits, 16).expect("they are hexadecimal");
        assert!(
            !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte),
            "{normal:?}"
        );
        assert_eq!(digits, digits.to_ascii_uppercase());
    }
    let found = TABLE
        .find(Protocol::Http, host, path)
        .expect("it is normal");
    let again = TABLE
        .find(Protocol::Http, host, &normal)
        .expect("it is normal");
    assert_eq!(found, again);
    if let Some(found) = found {
        assert_eq!(found.path, normal);
    }
});
