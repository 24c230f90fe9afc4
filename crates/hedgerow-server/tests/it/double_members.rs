//! Members that stand twice in a declaration are refused, by their path: which of them is meant is not known.

use http::Request;
use serde_json::Value;

use crate::support::{Receiver, TestServer, subscription};

#[tokio::test]
async fn a_member_that_stands_twice_is_refused() {
    let receiver = Receiver::start().await;
    let server = TestServer::start().await;
    server.topic("orders").await;
    let send = async |method: &str, path: &str, body: String| {
        let token = format!("Bearer {}", server.token);
        let request = Request::builder().method(method).uri(path);
        server
            .send(request.header("authorization", token), body)
            .await
    };
    let destination = format!(
        r#""destination":{{"endpointType":"WebHook","properties":{{"endpointUrl":"{}"}}}}"#,
        receiver.url()
    );
    let path = subscription("orders", "billing");
    let one = |more: &str| format!("{{{destination},{more}}}");
    let apply = |more: &str| {
        format!(
            r#"{{"topics":[{{"name":"other"}}],"eventSubscriptions":[{{"topic":"other","name":"sub",{destination},{more}}}]}}"#
        )
    };
    let retry = r#""retryPolicy":{"maxDeliveryAttempts":3,"maxDeliveryAttempts":5}"#;
    let filters = r#""filter":{"advancedFilters":[{"operatorType":"IsNotNull","key":"data.a","key":"data.b"}]}"#;
    let labels = r#""labels":["a"],"labels":["b"]"#;
    for (method, path, body, member) in [
        (
            "PUT",
            path.as_str(),
            one(retry),
            "retryPolicy.maxDeliveryAttempts",
        ),
        ("PUT", &path, one(filters), "filter.advancedFilters[0].key"),
        ("PUT", &path, one(labels), "labels"),
        ("PATCH", &path, one(labels), "labels"),
        (
            "PUT",
            "/api/v1/topics/new",
            r#"{"disableLocalAuth":true,"disableLocalAuth":false}"#.to_owned(),
            "disableLocalAuth",
        ),
        (
            "POST",
            "/api/v1/apply",
            apply(retry),
            "eventSubscriptions[0].retryPolicy.maxDeliveryAttempts",
        ),
        (
            "POST",
            "/api/v1/apply",
            r#"{"topics":[],"topics":[]}"#.to_owned(),
            "topics",
        ),
        (
            "POST",
            "/api/v1/tokens",
            r#"{"name":"a","rights":["read"],"rights":["admin"]}"#.to_owned(),
            "rights",
        ),
    ] {
        let refused = send(method, path, body).await;
        assert_eq!(refused.status, 400, "{member}: {}", refused.text());
        assert_eq!(refused.message(), format!("{member}: stands there twice"));
    }
    let none = server.admin("GET", &path, Value::Null).await;
    assert_eq!(none.status, 404, "nothing was declared");
    // The same label twice is a list's matter, and the same member in two objects is none.
    let fine = one(
        r#""labels":["a","b"],"filter":{"advancedFilters":[{"operatorType":"IsNotNull","key":"data.a"},{"operatorType":"IsNotNull","key":"data.b"}]}"#,
    );
    assert_eq!(send("PUT", &path, fine).await.status, 201);
    server.stop_and_wait().await;
}
