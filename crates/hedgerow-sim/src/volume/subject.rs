//! The server under test: configured, started, and stopped at the end.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use super::disk::Watch;
use super::options::{Options, Size};
use super::receiver::Receiver;
use super::stream::Stream;
use crate::harness::api::{Api, Status};
use crate::harness::http;
use crate::harness::process::{Installation, Server, Started};

/// How long a server that listens may take to open its store.
const OPENING_WAIT_MAX: Duration = Duration::from_secs(30);
/// Attempts of a delivery: as many as there may be, so that none is given up.
const ATTEMPTS_MAX: u16 = 30;

/// How the server keeps its store and when it tries again.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Sizes of the store.
    pub size: Size,
    /// `store.keep_after`.
    pub keep_after: &'static str,
    /// `store.free_segments_max`.
    pub free_segments_max: u64,
    /// `retry.slots`.
    pub slots: &'static str,
    /// `retry.repeat`.
    pub repeat: &'static str,
    /// The least wait after a 503.
    pub unavailable: &'static str,
}

/// A running server with its own data directory.
#[derive(Debug)]
pub struct Subject {
    /// Its admin API.
    pub api: Api,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its disk.
    pub disk: Watch,
    server: Server,
    directory: tempfile::TempDir,
}

impl Subject {
    /// Starts a server.
    pub async fn start(options: &Options, case: &str, settings: &Settings) -> Result<Self, String> {
        fs::create_dir_all(&options.directory)
            .map_err(|error| format!("{}: {error}", options.directory.display()))?;
        let directory = tempfile::Builder::new()
            .prefix(&format!("volume-{case}-"))
            .tempdir_in(&options.directory)
            .map_err(|error| format!("no data directory: {error}"))?;
        let installation = Installation {
            binary: options.binary.clone(),
            directory: directory.path().to_owned(),
        };
        let path = installation.config();
        let text = settings.text(&installation.data().display().to_string());
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut server = installation.start(0, None)?;
        let ready = match server.ready().await? {
            Started::Ready(ready) => ready,
            Started::Ended(status) => {
                return Err(server.explain(&format!("ended by itself: {status}")));
            }
        };
        let address = ready.address()?;
        let deadline = Instant::now() + OPENING_WAIT_MAX;
        while !http::is_healthy(address).await {
            if Instant::now() > deadline {
                return Err(server.explain("listens and does not begin to serve"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Self {
            api: Api::new(address, ready.admin_token),
            address,
            disk: Watch::start(&installation.data()),
            server,
            directory,
        })
    }

    /// Declares a topic; the answer is its key.
    pub async fn declare_topic(&mut self, stream: &Stream) -> Result<String, String> {
        self.api.put_topic(stream.topic).await
    }

    /// Declares a subscription to everything of a topic.
    pub async fn subscribe(
        &mut self,
        stream: &Stream,
        name: &str,
        receiver: &Receiver,
    ) -> Result<(), String> {
        let declaration = json!({
            "destination": {
                "endpointType": "WebHook",
                "properties": { "endpointUrl": receiver.endpoint() },
            },
            "retryPolicy": {
                "maxDeliveryAttempts": ATTEMPTS_MAX,
                "eventTimeToLiveInMinutes": 1440,
            },
        });
        self.api
            .put_subscription(stream.topic, name, declaration)
            .await
    }

    /// Whether everything was delivered, and the counters say so.
    pub async fn check_delivered(
        &mut self,
        stream: &Stream,
        name: &str,
        count: u64,
    ) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let status = self.api.status(stream.topic, name).await?;
            let Status {
                matched,
                delivered,
                pending,
                ..
            } = status;
            if (matched, delivered, pending) == (count, count, 0) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{name} is owed {count} events, and says {status:?}"
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// An error with the end of the server's log.
    pub fn explain(&self, error: &str) -> String {
        self.server.explain(error)
    }

    /// Stops it in order and removes its data.
    pub async fn stop(mut self) -> Result<(), String> {
        self.server.stop().await?;
        drop(self.server);
        self.directory
            .close()
            .map_err(|error| format!("the data directory stays: {error}"))
    }
}

impl Settings {
    fn text(&self, data: &str) -> String {
        let Size {
            bytes_max,
            segment_bytes,
            ..
        } = self.size;
        let (bytes_max, segment_kib) = (bytes_max >> 20, segment_bytes >> 10);
        let Self {
            keep_after,
            free_segments_max,
            slots,
            repeat,
            unavailable,
            ..
        } = self;
        // Debug output of a path is a TOML string.
        format!(
            r#"listen = "127.0.0.1:0"
data = {data:?}

# What a machine takes is measured, and not what is let in.
[rate_limits]
events_per_second = 0
bytes_per_second = "0B"

[validation]
enabled = false

[delivery]
allow_networks = ["127.0.0.0/8"]

[retry]
slots = {slots}
repeat = "{repeat}"
jitter_percent = 10
jitter_max = "100ms"

[retry.floors]
other = "{unavailable}"
unavailable = "{unavailable}"

# Every event is to be tried, and to wait for its next attempt.
[probation]
busy = "0s"

[delayed_delivery]
enabled = false

[store]
bytes_max = "{bytes_max}MiB"
segment_bytes = "{segment_kib}KiB"
keep_after = "{keep_after}"
free_segments_max = {free_segments_max}
ring_bytes = "16MiB"
checkpoint_interval = "1s"
"#
        )
    }
}
