//! The server as a process: started, killed, stopped in order, watched.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

/// How often a process is looked at.
const POLL: Duration = Duration::from_millis(3);
/// How long a start may take.
const READY_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a killed process may take to be gone.
const GONE_WAIT_MAX: Duration = Duration::from_secs(20);
/// How long an orderly stop may take: 25 s for running attempts, and the last checkpoint.
const STOP_WAIT_MAX: Duration = Duration::from_secs(30);
/// Logs of so many lives are kept.
const LOGS_KEPT: usize = 6;
/// Bytes of the log's end that are shown with a failure.
const LOG_SHOWN_BYTES: usize = 4000;

/// What stays the same over all lives of the server.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The binary.
    pub binary: PathBuf,
    /// Where everything is kept: configuration, data, logs.
    pub directory: PathBuf,
}

/// A place in the server at which it kills itself, and at which pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failpoint {
    /// Its name.
    pub name: &'static str,
    /// Which pass, from 1.
    pub pass: u64,
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ready_file: PathBuf,
    log: PathBuf,
}

/// What a server says once it listens.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    endpoint: String,
    /// For the admin API.
    pub admin_token: String,
    /// Where the edge listens, if it does.
    #[serde(default)]
    pub edge: Option<String>,
    /// The same for clients that speak TLS.
    #[serde(default)]
    pub edge_tls: Option<String>,
}

impl Ready {
    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let address = self
            .endpoint
            .strip_prefix("http://")
            .map(|rest| rest.trim_end_matches('/'));
        let address = address.and_then(|text| text.parse().ok());
        address.ok_or_else(|| format!("the ready file names no address: {}", self.endpoint))
    }
}

/// What became of a start.
#[derive(Debug)]
pub enum Started {
    /// It listens.
    Ready(Ready),
    /// It ended before.
    Ended(ExitStatus),
}

impl Installation {
    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.directory.join("hedgerow.toml")
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Starts the server for its next life.
    pub fn start(&self, life: usize, failpoint: Option<Failpoint>) -> Result<Server, String> {
        let ready_file = self.directory.join("ready.json");
        // The last life's, which was killed.
        let _ = fs::remove_file(&ready_file);
        if let Some(old) = life.checked_sub(LOGS_KEPT) {
            let _ = fs::remove_file(self.log(old));
        }
        let log = self.log(life);
        let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output
            .try_clone()
            .map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(&self.binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(self.config())
            .arg("--ready-file")
            .arg(&ready_file)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        // Settings come from the file only.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("HEDGEROW_")) {
            command.env_remove(name);
        }
        if let Some(Failpoint { name, pass }) = failpoint {
            command.env("HEDGEROW_FAILPOINT", format!("{name}:{pass}"));
        }
        let child = command.spawn();
        let child = child.map_err(|error| format!("{}: {error}", self.binary.display()))?;
        Ok(Server {
            child,
            ready_file,
            log,
        })
    }

    fn log(&self, life: usize) -> PathBuf {
        self.directory.join(format!("server-{life}.log"))
    }
}

impl Server {
    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it listens, or ends.
    pub async fn ready(&mut self) -> Result<Started, String> {
        let deadline = Instant::now() + READY_WAIT_MAX;
        loop {
            if let Some(ready) = read_ready(&self.ready_file) {
                return Ok(Started::Ready(ready));
            }
            if let Some(status) = self.ended()? {
                return Ok(Started::Ended(status));
            }
            if Instant::now() > deadline {
                return Err(self.explain(&format!("did not listen within {READY_WAIT_MAX:?}")));
            }
            sleep(POLL).await;
        }
    }

    /// Waits for its end for a while; `None` if it still runs then.
    pub async fn end_within(&mut self, wait: Duration) -> Result<Option<ExitStatus>, String> {
        let deadline = Instant::now() + wait;
        loop {
            let ended = self.ended()?;
            if ended.is_some() || Instant::now() > deadline {
                return Ok(ended);
            }
            sleep(POLL.min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub async fn kill(&mut self) -> Result<(), String> {
        if self.ended()?.is_none() {
            self.signal(Signal::KILL)?;
        }
        match self.end_within(GONE_WAIT_MAX).await? {
            Some(status) if is_killed(status) => Ok(()),
            Some(status) => Err(self.explain(&format!("ended by itself: {status}"))),
            None => Err(self.explain("does not go away although it was killed")),
        }
    }

    /// Stops it with SIGTERM, which must end with 0 in time.
    pub async fn stop(&mut self) -> Result<(), String> {
        self.signal(Signal::TERM)?;
        match self.end_within(STOP_WAIT_MAX).await? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.explain(&format!("ended with {status} when asked to stop"))),
            None => Err(self.explain(&format!("did not stop within {STOP_WAIT_MAX:?}"))),
        }
    }

    /// A message with the end of its log.
    pub fn explain(&self, what: &str) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let shown = &log[log.len().saturating_sub(LOG_SHOWN_BYTES)..];
        let shown = String::from_utf8_lossy(shown);
        format!(
            "the server {what}; the end of {}:\n{shown}",
            self.log.display()
        )
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child
            .try_wait()
            .map_err(|error| format!("the server cannot be watched: {error}"))
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|error| format!("the server gets no signal: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already in most cases.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process ended by SIGKILL.
pub fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::KILL.as_raw())
}

/// A file that is there but not whole yet counts as not there.
fn read_ready(path: &Path) -> Option<Ready> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
