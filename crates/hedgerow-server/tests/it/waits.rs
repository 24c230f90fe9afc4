//! Waits that end: one that takes longer than anything here takes fails its test, and says where it waited, what the servers of
//! the test have to say of their subscriptions, and what they answered last.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::panic::Location;
use std::time::Duration;

use http::Request;
use serde_json::Value;

use crate::support::{Answer, exchange};

/// How long anything may take, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take to say how it is.
const LOOK_TIME: Duration = Duration::from_secs(5);
/// Answers that are remembered.
const ANSWERS_MAX: usize = 12;

thread_local! {
    /// Each test has a thread of its own.
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// What a test has done so far.
#[derive(Default)]
struct Seen {
    /// Servers that were started, and their tokens.
    servers: Vec<(SocketAddr, String)>,
    answers: VecDeque<String>,
}

/// Waits, but not without end. `what` completes "waited for".
#[track_caller]
pub fn patiently<F: Future>(what: &str, wait: F) -> impl Future<Output = F::Output> {
    within(PATIENCE, what, wait)
}

/// The same for as long as `patience`.
#[track_caller]
fn within<F: Future>(patience: Duration, what: &str, wait: F) -> impl Future<Output = F::Output> {
    let place = Location::caller();
    async move {
        if let Ok(come) = tokio::time::timeout(patience, wait).await {
            return come;
        }
        let state = state().await;
        panic!("waited {patience:?} for {what} at {place}\n{state}")
    }
}

/// Asks again and again until the answer is as wanted.
#[track_caller]
pub fn until<T>(
    what: &str,
    ask: impl AsyncFn() -> T,
    is_wanted: impl Fn(&T) -> bool,
) -> impl Future<Output = T> {
    patiently(what, async move {
        loop {
            let answer = ask().await;
            if is_wanted(&answer) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    })
}

/// Takes note of a server that was started.
pub fn note_server(address: SocketAddr, token: &str) {
    SEEN.with_borrow_mut(|seen| seen.servers.push((address, token.to_owned())));
}

/// Takes note of an answer.
pub fn note_answer(method: &str, path: &str, answer: &Answer) {
    let body = String::from_utf8_lossy(&answer.body);
    let line = format!("{method} {path}: {} {body:.300}", answer.status);
    SEEN.with_borrow_mut(|seen| {
        // Of those who ask the same again and again the last answer is enough.
        let asked = format!("{method} {path}: ");
        let is_again = |last: &String| last.starts_with(&asked);
        if seen.answers.back().is_some_and(is_again) {
            seen.answers.pop_back();
        }
        seen.answers.push_back(line);
        if seen.answers.len() > ANSWERS_MAX {
            seen.answers.pop_front();
        }
    });
}

/// What the servers of the test say of themselves, and what they answered last.
async fn state() -> String {
    let (servers, answers) = SEEN.with_borrow(|seen| (seen.servers.clone(), seen.answers.clone()));
    let mut told = String::new();
    for (address, token) in servers {
        let _ = writeln!(told, "the server at {address}:");
        let topics = look(address, &token, "/api/v1/topics").await;
        let _ = writeln!(told, "  {topics}");
        let topics: Value = serde_json::from_str(&topics).unwrap_or_default();
        for topic in topics["value"].as_array().into_iter().flatten() {
            let name = topic["name"].as_str().unwrap_or_default();
            let path = format!("/api/v1/topics/{name}/eventSubscriptions");
            let _ = writeln!(told, "  {}", look(address, &token, &path).await);
        }
    }
    told.push_str("the last answers:\n");
    for answer in answers {
        let _ = writeln!(told, "  {answer}");
    }
    told
}

async fn look(address: SocketAddr, token: &str, path: &str) -> String {
    let request = Request::get(path).header("authorization", format!("Bearer {token}"));
    match tokio::time::timeout(LOOK_TIME, exchange(address, request, "")).await {
        Ok(Ok(answer)) => String::from_utf8_lossy(&answer.body).into_owned(),
        Ok(Err(error)) => format!("it cannot be asked: {error}"),
        Err(_) => format!("it says nothing for {LOOK_TIME:?}"),
    }
}

mod tests {
    use std::time::Duration;

    use super::within;
    use crate::support::{Receiver, TestServer, event};

    /// The message of a wait that does not end: an event that was refused is never delivered.
    #[test]
    fn a_wait_without_end_says_where_and_what_it_saw() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let waited = runtime.block_on(async {
            let task = tokio::task::LocalSet::new();
            let waits = task.spawn_local(async {
                let receiver = Receiver::start().await;
                let server = TestServer::start().await;
                server.topic("orders").await;
                server.subscribe("orders", "billing", &receiver.url()).await;
                server.publish("orders", "wrong", event("1")).await;
                within(
                    Duration::from_millis(50),
                    "a delivery",
                    std::future::pending::<()>(),
                )
                .await;
            });
            task.run_until(waits).await
        });
        let message = waited.unwrap_err().into_panic();
        let message = message.downcast_ref::<String>().unwrap();
        for part in [
            "waited 50ms for a delivery at ",
            &format!("{}:", file!()),
            r#""name":"billing""#,
            r#""provisioningState":"Succeeded""#,
            "POST /orders/api/events: 401 Unauthorized",
        ] {
            assert!(message.contains(part), "no {part} in {message}");
        }
    }
}
