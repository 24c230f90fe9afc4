//! The server under test: its configuration, its topics and subscriptions, and what it costs.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::load::{Closed, Target, check_interrupted};
use super::receiver::Endpoint;
use crate::harness::api::{Api, Status, Storage};
use crate::harness::http;
use crate::harness::process::{Installation, Ready, Server, Started};

/// How often the server is asked whether something has come to rest.
const POLL: Duration = Duration::from_millis(20);
/// How long the files of a new log may take to be written in advance.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(60);
/// In this time nothing may be written for the server to be at rest.
const SETTLED: Duration = Duration::from_millis(300);
/// How long a backlog may take to be delivered.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(120);
/// How long origins may take to be probed for the first time.
const HEALTHY_WAIT_MAX: Duration = Duration::from_secs(20);
/// How many subscriptions are declared at a time: their records share syncs.
const DECLARERS: usize = 16;
/// Of `/proc/PID/stat`: Linux counts so on every machine that it shows programs.
pub const TICKS_PER_SECOND: u64 = 100;

/// A running server. Dropping it kills it.
pub struct Subject {
    runtime: tokio::runtime::Runtime,
    installation: Installation,
    server: Server,
    address: SocketAddr,
    token: String,
    /// Where the edge listens, without TLS and with it.
    edges: [Option<String>; 2],
    keys: HashMap<&'static str, String>,
    /// Whether what is declared from now on has its deliveries signed, as where people run it.
    pub is_signing: bool,
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
        let (server, address, ready) = runtime.block_on(begin(&installation, 0))?;
        let subject = Self {
            runtime,
            installation,
            server,
            address,
            token: ready.admin_token,
            edges: [ready.edge, ready.edge_tls],
            keys: HashMap::new(),
            is_signing: true,
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
        let mut api = self.api();
        let key = self.runtime.block_on(async {
            let key = api.put_topic(topic).await?;
            for (number, endpoint) in endpoints.iter().enumerate() {
                let declaration = declaration(&endpoint.url(), self.is_signing);
                api.put_subscription(topic, &name(number), declaration)
                    .await?;
            }
            Ok::<_, String>(key)
        })?;
        self.keys.insert(topic, key);
        Ok(())
    }

    /// Declares a topic with a subscription for each endpoint that gets so many events in a request.
    pub fn declare_batched(
        &mut self,
        topic: &'static str,
        endpoints: &[Arc<Endpoint>],
        events: usize,
    ) -> Result<(), String> {
        self.declare(topic, &[])?;
        let mut api = self.api();
        self.runtime.block_on(async {
            for (number, endpoint) in endpoints.iter().enumerate() {
                let mut declaration = declaration(&endpoint.url(), self.is_signing);
                let properties = &mut declaration["destination"]["properties"];
                properties["maxEventsPerBatch"] = json!(events);
                properties["preferredBatchSizeInKilobytes"] = json!(1024);
                api.put_subscription(topic, &name(number), declaration)
                    .await?;
            }
            Ok(())
        })
    }

    /// Declares a topic with a subscription for each endpoint that wants only subjects with this beginning.
    pub fn declare_filtered(
        &mut self,
        topic: &'static str,
        endpoints: &[Arc<Endpoint>],
        subject_begins_with: &str,
    ) -> Result<(), String> {
        self.declare(topic, endpoints)?;
        let mut api = self.api();
        self.runtime.block_on(async {
            for (number, endpoint) in endpoints.iter().enumerate() {
                let mut declaration = declaration(&endpoint.url(), self.is_signing);
                declaration["filter"] = json!({ "subjectBeginsWith": subject_begins_with });
                api.put_subscription(topic, &name(number), declaration)
                    .await?;
            }
            Ok(())
        })
    }

    /// Declares a topic with many subscriptions, all with the same endpoint.
    pub fn declare_many(
        &mut self,
        topic: &'static str,
        endpoint: &Arc<Endpoint>,
        count: usize,
    ) -> Result<(), String> {
        let declared = declaration(&endpoint.url(), self.is_signing);
        self.declare_all(topic, &vec![declared; count])
    }

    /// Declares a topic with a subscription for each endpoint, that gets one event in `groups` by the last two digits of its id.
    pub fn declare_in_groups(
        &mut self,
        topic: &'static str,
        endpoints: &[Arc<Endpoint>],
        groups: usize,
    ) -> Result<(), String> {
        let declared = endpoints.iter().enumerate().map(|(number, endpoint)| {
            let mut declaration = declaration(&endpoint.url(), self.is_signing);
            if groups > 1 {
                let ends = (number % groups..100).step_by(groups);
                let ends: Vec<String> = ends.map(|end| format!("{end:02}")).collect();
                declaration["filter"] = json!({ "advancedFilters": [
                    { "operatorType": "StringEndsWith", "key": "id", "values": ends },
                ]});
            }
            declaration
        });
        let declared: Vec<Value> = declared.collect();
        self.declare_all(topic, &declared)
    }

    /// Declares a topic with these subscriptions, several at a time.
    fn declare_all(&mut self, topic: &'static str, declared: &[Value]) -> Result<(), String> {
        self.declare(topic, &[])?;
        let apis: Vec<Api> = (0..DECLARERS).map(|_| self.api()).collect();
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (first, mut api) in apis.into_iter().enumerate() {
                let numbered = declared.iter().cloned().enumerate();
                let own: Vec<_> = numbered.skip(first).step_by(DECLARERS).collect();
                tasks.spawn(async move {
                    for (number, declaration) in own {
                        api.put_subscription(topic, &name(number), declaration)
                            .await?;
                    }
                    Ok::<_, String>(())
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.map_err(|error| format!("a declarer broke: {error}"))??;
            }
            Ok(())
        })
    }

    /// Declares a group of these origins with a route of the edge to it, and waits until all of them are healthy.
    pub fn declare_group(&self, name: &str, origins: &[Arc<Endpoint>]) -> Result<(), String> {
        let mut api = self.api();
        let addresses: Vec<SocketAddr> = origins.iter().map(|origin| origin.address).collect();
        self.runtime.block_on(async {
            api.put_group(name, &addresses).await?;
            let until = Instant::now() + HEALTHY_WAIT_MAX;
            while api.healthy_origins(name).await? < addresses.len() {
                check_interrupted()?;
                if Instant::now() > until {
                    return Err(format!("the origins of {name} do not become healthy"));
                }
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        })
    }

    /// Where the edge listens.
    pub fn edge_url(&self, has_tls: bool) -> Result<String, String> {
        let url = self.edges[usize::from(has_tls)].clone();
        url.ok_or_else(|| "the ready file names no edge".to_owned())
    }

    /// Pauses, resumes or resets a subscription of a topic, numbered from 0.
    pub fn act(&self, topic: &str, number: usize, action: &str) -> Result<(), String> {
        let mut api = self.api();
        self.runtime.block_on(api.act(topic, &name(number), action))
    }

    /// Asks why an event did or did not arrive; says whether the event is known.
    pub fn explains(&self, id: &str) -> Result<bool, String> {
        let mut api = self.api();
        self.runtime.block_on(api.is_explained(id))
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
    pub fn drain(&self, topic: &str, subscriptions: usize) -> Result<(), String> {
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
    pub fn status(&self, topic: &str, number: usize) -> Result<Status, String> {
        let mut api = self.api();
        self.runtime.block_on(api.status(topic, &name(number)))
    }

    /// What the store holds and wrote.
    pub fn storage(&self) -> Result<Storage, String> {
        let mut api = self.api();
        self.runtime.block_on(api.storage())
    }

    /// Waits until nothing more is written.
    pub fn settle(&self) -> Result<(), String> {
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
        let (server, address, ready) = self
            .runtime
            .block_on(begin(&self.installation, self.life))?;
        let took = began.elapsed();
        self.server = server;
        self.address = address;
        self.token = ready.admin_token;
        self.edges = [ready.edge, ready.edge_tls];
        Ok(took)
    }

    /// The admin API over a new connection: the server closes those that were not used for a while.
    fn api(&self) -> Api {
        Api::new(self.address, self.token.clone())
    }

    /// Processor time that it has used.
    pub fn cpu(&self) -> Result<Cpu, String> {
        let mut cpu = Cpu {
            all: ticks(&self.proc("stat")?),
            ..Cpu::default()
        };
        let path = format!("/proc/{}/task", self.server.id());
        let threads = fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
        for thread in threads.flatten() {
            // One that ended meanwhile counts with all.
            let read = |file| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            match read("comm").trim() {
                "hedgerow-engine" => cpu.engine += ticks(&read("stat")),
                "hedgerow-commit" => cpu.commit += ticks(&read("stat")),
                _ => {}
            }
        }
        Ok(cpu)
    }

    /// Processor time of the threads that it has, to the nanosecond: for times in which it hardly uses any.
    pub fn cpu_exactly(&self) -> Result<Duration, String> {
        let path = format!("/proc/{}/task", self.server.id());
        let threads = fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
        let nanos = threads.flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Ok(Duration::from_nanos(nanos.sum()))
    }

    /// How often its threads have gone to sleep, and so how often they woke.
    pub fn sleeps(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/task", self.server.id());
        let threads = fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
        let counts = threads.flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("status")).ok()?;
            let mut lines = text.lines();
            let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            count.trim().parse::<u64>().ok()
        });
        Ok(counts.sum())
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.server.id()
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

/// Processor time of the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    /// Of the process.
    pub all: Duration,
    /// Of the engine's thread, which there is one of.
    pub engine: Duration,
    /// Of the thread that writes and syncs the log.
    pub commit: Duration,
}

impl Cpu {
    const fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            engine: self.engine.saturating_sub(before.engine),
            commit: self.commit.saturating_sub(before.commit),
        }
    }
}

/// A load's figures, with what the server spent meanwhile.
pub fn measured(subject: &Subject, load: Closed) -> Result<(super::load::Report, Cpu), String> {
    let before = subject.cpu()?;
    let report = load.run()?;
    Ok((report, subject.cpu()?.since(before)))
}

/// User and system time in a `stat` file of `/proc`.
fn ticks(stat: &str) -> Duration {
    // The name in parentheses may hold anything; the numbers follow it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// A secret of 24 bytes, as receivers' tools make them.
const SIGNING_SECRET: &str = "whsec_aGVkZ2Vyb3cgYmVuY2htYXJrIGtleSEh";

/// A subscription with an endpoint.
fn declaration(endpoint_url: &str, is_signing: bool) -> Value {
    let mut declaration = json!({ "destination": {
        "endpointType": "WebHook", "properties": { "endpointUrl": endpoint_url },
    }});
    if is_signing {
        declaration["signing"] = json!({ "secret": SIGNING_SECRET });
    }
    declaration
}

fn name(number: usize) -> String {
    format!("subscription-{number}")
}

async fn begin(
    installation: &Installation,
    life: usize,
) -> Result<(Server, SocketAddr, Ready), String> {
    let mut server = installation.start(life, None)?;
    match server.ready().await? {
        Started::Ready(ready) => {
            let address = ready.address()?;
            if !http::is_healthy(address).await {
                return Err(server.explain("wrote its ready file and is not healthy"));
            }
            Ok((server, address, ready))
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

# What a machine takes is measured, and not what is let in.
[rate_limits]
events_per_second = 0
bytes_per_second = "0B"

[quotas]
subscriptions_per_topic = 10000

[validation]
enabled = false

[delivery]
allow_networks = ["127.0.0.0/8"]
{settings}"#
    )
}
