//! Starts the binary, reads what it prints, and plays publishers and endpoints.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until there is an answer.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The binary, without the settings of whoever runs the tests.
pub fn hedgerow(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HEDGEROW_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end.
pub fn run(arguments: &[&str]) -> Output {
    hedgerow(arguments).output().unwrap()
}

/// What a command printed, when it had to succeed.
pub fn printed(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a command complained, when it had to fail with this status.
pub fn complained(output: &Output, status: i32) -> String {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{error}");
    error
}

/// A directory of a test's own.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A configuration that listens on any port, with its data here.
    pub fn config(&self, more: &str) -> String {
        let data = self.text("data");
        let text = format!(
            "listen = \"127.0.0.1:0\"\ndata = \"{data}\"\n[delivery]\nallow_networks = [\"127.0.0.0/8\"]\n{more}\n"
        );
        std::fs::write(self.path("hedgerow.toml"), text).unwrap();
        self.text("hedgerow.toml")
    }
}

/// A server in a process of its own, which does not outlive the test.
pub struct Server {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    pub ready: Value,
}

impl Server {
    /// Starts `serve` and waits until it takes events.
    pub fn serve(place: &Place, more: &str) -> Self {
        let config = place.config(more);
        let ready_file = place.path("ready.json");
        let arguments = [
            "serve",
            "--config",
            &config,
            "--ready-file",
            ready_file.to_str().unwrap(),
        ];
        let mut command = hedgerow(&arguments);
        // Most endpoints here are addresses at which nobody listens.
        command.env("HEDGEROW_VALIDATION__ENABLED", "false");
        Self::start(command, &ready_file)
    }

    /// Starts `serve`, which asks endpoints whether they want events, and waits until it takes some.
    pub fn serve_asking(place: &Place, more: &str) -> Self {
        let (config, ready_file) = (place.config(more), place.text("ready.json"));
        let command = hedgerow(&["serve", "--config", &config, "--ready-file", &ready_file]);
        Self::start(command, &place.path("ready.json"))
    }

    /// Declares a subscription to everything of a topic, which is there.
    pub fn subscribe(&self, topic: &str, name: &str, endpoint: &str) -> String {
        printed(&self.run(&[
            "event-subscription",
            "create",
            "--name",
            name,
            "--source-resource-id",
            topic,
            "--endpoint",
            endpoint,
        ]))
    }

    /// Starts a command and waits for its ready file.
    pub fn start(mut command: Command, ready_file: &Path) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        let pid = child.id();
        let ready = until("the ready file", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!(
                    "ended with {status}: {:?}",
                    stderr.iter().collect::<Vec<_>>()
                );
            }
            // One of a server before has another process id.
            let ready: Value = serde_json::from_slice(&std::fs::read(ready_file).ok()?).unwrap();
            (ready["pid"] == pid).then_some(ready)
        });
        Self {
            child,
            stdout,
            stderr,
            ready,
        }
    }

    pub fn endpoint(&self) -> &str {
        self.ready["endpoint"].as_str().unwrap()
    }

    pub fn token(&self) -> &str {
        self.ready["adminToken"].as_str().unwrap()
    }

    /// Waits for a line of standard output.
    pub fn line(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        wait_for(&self.stdout, what, is_wanted)
    }

    /// Waits for a line of standard error.
    pub fn error_line(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        wait_for(&self.stderr, what, is_wanted)
    }

    /// The lines of standard output that came since the last look.
    pub fn new_lines(&self) -> Vec<String> {
        self.stdout.try_iter().collect()
    }

    /// The lines of standard output that nobody waited for, to its end.
    pub fn rest(&self) -> Vec<String> {
        self.stdout.iter().collect()
    }

    /// The lines of standard error that nobody waited for, to its end.
    pub fn rest_of_errors(&self) -> Vec<String> {
        self.stderr.iter().collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        until("the end of the process", || self.child.try_wait().unwrap())
    }

    /// Asks the admin API.
    pub fn admin(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let authorization = format!("Bearer {}", self.token());
        let url = format!("{}/api/v1{path}", self.endpoint());
        request(method, &url, &[("authorization", &authorization)], body).unwrap()
    }

    /// Runs a client command against this server.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = hedgerow(arguments);
        command
            .args(["--server", self.endpoint(), "--token", self.token()])
            .output()
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already where the test waited for its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            if to.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    lines
}

fn wait_for(lines: &Receiver<String>, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut others = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if is_wanted(&line) => return line,
            Ok(line) => others.push(line),
            Err(error) => panic!("no line with {what} ({error}) among {others:#?}"),
        }
    }
}

/// Sends a request; `None` if there was no answer.
pub fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, Value)> {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect::<Vec<_>>()
        .concat();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// An endpoint that says when a request has come, and answers when it is told to.
pub struct HeldEndpoint {
    address: SocketAddr,
    arrived: Receiver<()>,
    release: Sender<()>,
}

impl HeldEndpoint {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (arrive, arrived) = channel();
        let (release, released) = channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            arrive.send(()).unwrap();
            // The test is over when there is nobody to release.
            if released.recv().is_ok() {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    .unwrap();
            }
        });
        Self {
            address,
            arrived,
            release,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn wait_for_request(&self) {
        self.arrived.recv_timeout(PATIENCE).unwrap();
    }

    pub fn release(&self) {
        self.release.send(()).unwrap();
    }
}

/// An endpoint that answers every request with this status.
pub fn endpoint_with(status: u16) -> String {
    endpoint_that_says(status, |_| String::new())
}

/// An endpoint that answers every request with this status, and with what it says to the request's first line.
pub fn endpoint_that_says(status: u16, say: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let body = say(&read_request(&mut stream));
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} Whatever\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            // Whoever does not wait for the answer is no failure of the test.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

/// Reads a request with its body; gives its first line.
fn read_request(stream: &mut TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    first
}

/// An event with this id, in an array.
pub fn event(id: &str) -> String {
    format!(
        r#"[{{"id":"{id}","eventType":"Order.Placed","subject":"orders/{id}","eventTime":"2030-01-02T03:04:05Z","data":{{"total":30}},"dataVersion":"1"}}]"#
    )
}

/// What a command says in JSON.
pub fn json(server: &Server, arguments: &[&str]) -> Value {
    let output = server.run(&[arguments, &["--output", "json"]].concat());
    serde_json::from_str(&printed(&output)).unwrap()
}
