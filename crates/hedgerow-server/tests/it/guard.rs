//! Design D11: `dev` refuses foreign hosts and origins, whatever is asked for.

use hedgerow_server::{DevGuard, ServerOptions};
use http::Request;

use crate::support::{TestServer, config, event};

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        dev_guard: Some(DevGuard::default()),
        ..ServerOptions::default()
    };
    let server = TestServer::run(config(data.path()), options).await;
    let key = server.topic("demo").await;
    let own = server.address.to_string();
    let own_origin = format!("http://{own}");
    for (host, origin, status) in [
        (own.as_str(), None, 200),
        (own.as_str(), Some(own_origin.as_str()), 200),
        ("demo.localhost", None, 200),
        ("evil.example", None, 403),
        ("evil.example", Some("http://evil.example"), 403),
        (own.as_str(), Some("http://evil.example"), 403),
        (own.as_str(), Some("http://localhost:3000"), 403),
        (own.as_str(), Some("null"), 403),
    ] {
        for (method, path) in [
            ("POST", "/demo/api/events"),
            ("GET", "/healthz"),
            ("GET", "/api/v1/topics"),
        ] {
            let mut request = Request::builder()
                .method(method)
                .uri(path)
                .header("host", host)
                .header("aeg-sas-key", &key)
                .header("authorization", format!("Bearer {}", server.token));
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let answer = server.send(request, event("1")).await;
            assert_eq!(answer.status, status, "{path} at {host} from {origin:?}");
            if status == 403 {
                assert_eq!(answer.code(), "Forbidden");
                let id = answer.headers["x-ms-request-id"].to_str().unwrap();
                // Publishers are told in the vendor's shape (ED-065, ED-067), and have no hint; operators have one.
                let json = answer.json();
                let body = &json["error"];
                let is_publishing = method == "POST";
                assert_eq!(answer.message().contains(id), is_publishing, "{path}");
                assert_eq!(body["details"].is_array(), is_publishing, "{path}");
                assert_eq!(body["hint"].is_string(), !is_publishing, "{path}");
            }
        }
    }
    server.stop_and_wait().await;
}
