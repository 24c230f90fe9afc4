//! Origins for tests: real servers on loopback that answer probes as a test says, and can be killed and come back at their
//! place.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::support::TestServer;

/// It answers nothing.
const SILENT: u32 = 0;

pub struct Origin {
    pub address: SocketAddr,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
    /// A message for each connection that its other side closed without an answer.
    pub given_up: mpsc::UnboundedReceiver<()>,
}

struct State {
    status: AtomicU32,
    probes: AtomicU32,
    probed: Notify,
    gave_up: mpsc::UnboundedSender<()>,
}

impl Origin {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (gave_up, given_up) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            status: AtomicU32::new(200),
            probes: AtomicU32::new(0),
            probed: Notify::new(),
            gave_up,
        });
        let accepting = Some(tokio::spawn(accept(listener, Arc::clone(&state))));
        Self {
            address,
            state,
            accepting,
            given_up,
        }
    }

    /// From now on it answers so.
    pub fn answer(&self, status: u32) {
        self.state.status.store(status, Ordering::SeqCst);
    }

    /// From now on it reads and answers nothing.
    pub fn be_silent(&self) {
        self.answer(SILENT);
    }

    /// Nobody listens there any more.
    pub async fn kill(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            // The listener is closed when the task is gone.
            let _ = accepting.await;
        }
    }

    /// Listens again, at the same place.
    pub async fn revive(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = Some(tokio::spawn(accept(listener, Arc::clone(&self.state))));
    }

    /// Requests so far.
    pub fn probes(&self) -> u32 {
        self.state.probes.load(Ordering::SeqCst)
    }

    /// Waits for the next request.
    pub async fn next_probe(&self) {
        self.state.probed.notified().await;
    }

    pub fn declared(&self, name: &str) -> Value {
        json!({"name": name, "host": "127.0.0.1", "http_port": self.address.port()})
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        tokio::spawn(serve(stream, Arc::clone(&state)));
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    state.probes.fetch_add(1, Ordering::SeqCst);
    state.probed.notify_one();
    let status = state.status.load(Ordering::SeqCst);
    if status == SILENT {
        let mut byte = [0];
        let _ = stream.read(&mut byte).await;
        let _ = state.gave_up.send(());
        return;
    }
    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

pub fn path(name: &str) -> String {
    format!("/api/v1/origin-groups/{name}")
}

pub fn status_path(name: &str) -> String {
    format!("{}/status", path(name))
}

/// A group that is judged by its newest probe.
pub fn quick(origins: &[Value]) -> Value {
    json!({
        "probe": {"interval_s": 5, "timeout_s": 1},
        "load_balancing": {"sample_size": 1, "successful_samples_required": 1},
        "origins": origins,
    })
}

/// The states of the origins of a group, in order.
pub fn states(status: &Value) -> Vec<&str> {
    let origins = status["status"]["origins"].as_array();
    let origins = origins.into_iter().flatten();
    origins
        .map(|origin| origin["state"].as_str().unwrap())
        .collect()
}

/// The changes of a group, each in a few words.
pub fn story(status: &Value) -> Vec<String> {
    let recent = status["recent"].as_array().unwrap().iter();
    let told = recent.map(|one| {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        let words = [
            text("origin"),
            text("change"),
            text("from"),
            text("to"),
            text("reason"),
        ];
        words.join(" ").trim().to_owned()
    });
    told.collect()
}

/// Declares what has to be accepted.
pub async fn declare(server: &TestServer, name: &str, group: Value) -> Value {
    let answer = server.admin("PUT", &path(name), group).await;
    assert!(answer.status.is_success(), "{}", answer.text());
    answer.json()
}
