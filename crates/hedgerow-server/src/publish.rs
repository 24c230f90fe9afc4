//! The publish route: which requests are meant for it, and for which topic (ED-005, ED-007).

mod bearer;
pub mod credential;
pub mod data_plane;
pub mod handler;
mod outcome;
pub mod rates;
pub mod store_room;

use http::Method;
use http::request::Parts;

use crate::guard::host_of;
use crate::public_url::PublicUrl;

/// A request for the publish route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<'r> {
    /// The topic that it names, if it names one.
    pub topic: Option<&'r str>,
}

/// Says whether a request is for the publish route, and which topic it names.
///
/// `/{topic}/api/events` on every host; `/api/events` and `/` on a topic's own host. A POST to `/` can mean nothing else.
pub fn route<'r>(public_url: &PublicUrl, request: &'r Parts) -> Option<Route<'r>> {
    let path = request.uri.path();
    let of_host = || public_url.topic_of_host(host_of(request)?);
    if path == "/api/events" {
        return Some(Route { topic: of_host() });
    }
    if path == "/" {
        let topic = of_host();
        return (topic.is_some() || request.method == Method::POST).then_some(Route { topic });
    }
    let topic = path.strip_prefix('/')?.strip_suffix("/api/events")?;
    (!topic.is_empty() && !topic.contains('/')).then_some(Route { topic: Some(topic) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_hosts_name_topics() {
        let url: PublicUrl = "https://events.example.com".parse().unwrap();
        let own = "orders.events.example.com";
        let shared = "events.example.com";
        for (method, path, host, expect) in [
            (
                "POST",
                "/orders/api/events?api-version=2018-01-01",
                shared,
                Some(Some("orders")),
            ),
            ("GET", "/orders/api/events", shared, Some(Some("orders"))),
            ("POST", "/other/api/events", own, Some(Some("other"))),
            ("POST", "/api/events", own, Some(Some("orders"))),
            ("POST", "/", own, Some(Some("orders"))),
            ("GET", "/", own, Some(Some("orders"))),
            ("POST", "/", "orders.localhost:8080", Some(Some("orders"))),
            ("POST", "/api/events", shared, Some(None)),
            ("POST", "/", shared, Some(None)),
            ("GET", "/", shared, None),
            ("POST", "/a/b/api/events", shared, None),
            ("POST", "//api/events", shared, None),
            ("POST", "/orders/api/events/", shared, None),
            ("POST", "/api/v1/topics", own, None),
            ("GET", "/healthz", own, None),
        ] {
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .header("host", host);
            let request = request.body(()).unwrap().into_parts().0;
            let found = route(&url, &request).map(|route| route.topic);
            assert_eq!(found, expect, "{method} {path} at {host}");
        }
    }
}
