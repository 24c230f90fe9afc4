//! The server under test: its configuration, its topics and subscriptions, and what it costs.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::load::{Closed, Target, check_interrupted};
use super::receiver::Endpoint;
use crate::harness::api::{Api, Status, Storage};
use crate::harness::http;
use crate::harness::process::{Installation, Server, Started};

/// How often the server is asked whether something has come to rest.
const POLL: Duration = Duration::from_millis(20);
/// How long the files of a new log may take to be written in advance.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(60);
/// In this time nothing may be written for the server to be at rest.
const SETTLED: Duration = Duration::from_millis(300);
/// How long a backlog may take to be delivered.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(120);
/// Of `/proc/PID/stat`: Linux counts so on every machine that it shows programs.
const TICKS_PER_SECOND: u64 = 100;

/// A running server. Dropping it kills it.
pub struct Subject {
    runtime: tokio::runtime::Runtime,
    installation: Installation,
    server: Server,
    address: SocketAddr,
    api: Api,
    keys: HashMap<&'static str, String>,
    life: usize,
}

impl Subject {
    /// Starts a server with a new data directory and waits until its files are prepared. `settings` are added to the
    /// configuration, with their sections.
    pub fn start(binary: &Path, directory: PathBuf, settings: &str) -> Result<Self, String> {
        let installation = Installation {
            binary: binary.to_owned(),
            directory,
        };
        fs::create_dir_all(&installation.directory)
            .and_then(|()| fs::write(installation.config(), config(&installation, settings)))
            .map_err(|error| format!("{}: {error}", installation.directory.display()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime: {error}"))?;
        let (server, address, api) = runtime.block_on(begin(&installation, 0))?;
        let mut subject = Self {
            runtime,
            installation,
            server,
            address,
            api,
            keys: HashMap::new(),
            life: 0,
        };
        subject.settle()?;
        Ok(subject)
    }

    /// Declares a topic with a subscription for each endpoint.
    pub fn declare(
        &mut self,
        topic: &'static str,
        endpoints: &[Arc<Endpoint>],
    ) -> Result<(), String> {
        let api = &mut self.api;
        let key = self.runtime.block_on(async {
            let key = api.put_topic(topic).await?;
            for (number, endpoint) in endpoints.iter().enumerate() {
                let declaration = json!({ "destination": {
                    "endpointType": "WebHook", "properties": { "endpointUrl": endpoint.url() },
                }});
                api.put_subscription(topic, &name(number), declaration)
                    .await?;
            }
            Ok::<_, String>(key)
        })?;
        self.keys.insert(topic, key);
        Ok(())
    }

    /// Where a declared topic is published to.
    pub fn target(&self, topic: &str) -> Target {
        Target {
            address: self.address,
            path: format!("/{topic}/api/events?api-version=2018-01-01"),
            key: self.keys[topic].clone(),
        }
    }

    /// Waits until everything of a topic with so many subscriptions is delivered.
    pub fn drain(&mut self, topic: &str, subscriptions: usize) -> Result<(), String> {
        let until = Instant::now() + DRAIN_WAIT_MAX;
        for number in 0..subscriptions {
            while self.status(topic, number)?.pending > 0 {
                check_interrupted()?;
                if Instant::now() > until {
                    return Err(format!(
                        "the backlog of topic {topic} is not delivered in {DRAIN_WAIT_MAX:?}"
                    ));
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// The counters of a subscription of a topic, numbered from 0.
    pub fn status(&mut self, topic: &str, number: usize) -> Result<Status, String> {
        self.runtime.block_on(self.api.status(topic, &name(number)))
    }

    /// What the store holds and wrote.
    pub fn storage(&mut self) -> Result<Storage, String> {
        self.runtime.block_on(self.api.storage())
    }

    /// Waits until nothing more is written.
    pub fn settle(&mut self) -> Result<(), String> {
        let began = Instant::now();
        let mut last = (self.storage()?.written_bytes, Instant::now());
        while last.1.elapsed() < SETTLED {
            if began.elapsed() > SETTLE_WAIT_MAX {
                return Err(format!("the server still writes after {SETTLE_WAIT_MAX:?}"));
            }
            std::thread::sleep(POLL);
            let written = self.storage()?.written_bytes;
            if written != last.0 {
                last = (written, Instant::now());
            }
        }
        Ok(())
    }

    /// Kills it.
    pub fn kill(&mut self) -> Result<(), String> {
        self.runtime.block_on(self.server.kill())
    }

    /// Starts it again on the same data, and says how long it took until it took events.
    pub fn start_again(&mut self) -> Result<Duration, String> {
        self.life += 1;
        let began = Instant::now();
        let (server, address, api) = self
            .runtime
            .block_on(begin(&self.installation, self.life))?;
        let took = began.elapsed();
        self.server = server;
        self.address = address;
        self.api = api;
        Ok(took)
    }

    /// Processor time that it has used.
    pub fn cpu(&self) -> Result<Duration, String> {
        let text = self.proc("stat")?;
        // The name in parentheses may hold anything; the numbers follow it.
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: Vec<u64> = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse().ok())
            .collect();
        let ticks: u64 = ticks.iter().sum();
        Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
    }

    /// Bytes of memory that it has, now or at most so far.
    pub fn memory_bytes(&self, at_most: bool) -> Result<u64, String> {
        let name = if at_most { "VmHWM:" } else { "VmRSS:" };
        let text = self.proc("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| format!("/proc says nothing of {name}"))
    }

    /// Bytes that the kernel wrote for it, as far as it says so.
    pub fn device_bytes(&self) -> Option<u64> {
        let text = self.proc("io").ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes:"))?;
        line.trim().parse().ok()
    }

    /// A directory in the data directory.
    pub fn data(&self, directory: &str) -> PathBuf {
        self.installation.data().join(directory)
    }

    /// Ends it and frees its disk.
    pub fn remove(self) -> Result<(), String> {
        let Self {
            server,
            installation,
            ..
        } = self;
        drop(server);
        let directory = installation.directory;
        fs::remove_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))
    }

    fn proc(&self, file: &str) -> Result<String, String> {
        let path = format!("/proc/{}/{file}", self.server.id());
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    }
}

/// A load's figures, with what the server spent meanwhile.
pub fn measured(
    subject: &Subject,
    load: Closed,
) -> Result<(super::load::Report, Duration), String> {
    let before = subject.cpu()?;
    let report = load.run()?;
    let cpu = subject.cpu()?.saturating_sub(before);
    Ok((report, cpu))
}

fn name(number: usize) -> String {
    format!("subscription-{number}")
}

async fn begin(
    installation: &Installation,
    life: usize,
) -> Result<(Server, SocketAddr, Api), String> {
    let mut server = installation.start(life, None)?;
    match server.ready().await? {
        Started::Ready(ready) => {
            let address = ready.address()?;
            if !http::is_healthy(address).await {
                return Err(server.explain("wrote its ready file and is not healthy"));
            }
            Ok((server, address, Api::new(address, ready.admin_token)))
        }
        Started::Ended(status) => Err(server.explain(&format!("ended with {status} at once"))),
    }
}

/// The defaults, on loopback.
fn config(installation: &Installation, settings: &str) -> String {
    // Debug output of a path is a TOML string.
    let data = format!("{:?}", installation.data().display().to_string());
    format!(
        r#"listen = "127.0.0.1:0"
data = {data}

[delivery]
allow_networks = ["127.0.0.0/8"]
{settings}"#
    )
}
