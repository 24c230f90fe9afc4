//! The lives of the server: one from each start to the end after it. Requests of different lives are kept apart.

use std::fs;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::api::Api;
use super::config;
use super::http;
use super::process::{Failpoint, Installation, Server, Started, is_killed};
use super::publishers::Whereabouts;
use super::receivers::Receivers;
use super::verdict::Ending;
use super::whole;

/// How long a server that listens may take to open its store.
const OPENING_WAIT_MAX: Duration = Duration::from_secs(60);

/// The server's lives so far.
#[derive(Debug)]
pub struct Lives {
    installation: Installation,
    receivers: Receivers,
    whereabouts: watch::Sender<Option<SocketAddr>>,
    endings: Vec<Ending>,
    checked: usize,
}

/// A server that serves.
#[derive(Debug)]
pub struct Serving {
    /// Its admin API.
    pub api: Api,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Lives {
    /// Writes the configuration.
    pub fn new(installation: Installation, receivers: Receivers) -> Result<Self, String> {
        let path = installation.config();
        let text = config::text(&installation.data());
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        let (whereabouts, _) = watch::channel(None);
        Ok(Self {
            installation,
            receivers,
            whereabouts,
            endings: Vec::new(),
            checked: 0,
        })
    }

    /// What is started.
    pub const fn installation(&self) -> &Installation {
        &self.installation
    }

    /// What it delivers to.
    pub const fn receivers(&self) -> &Receivers {
        &self.receivers
    }

    /// Where publishers find it.
    pub fn whereabouts(&self) -> Whereabouts {
        self.whereabouts.subscribe()
    }

    /// How each life ended.
    pub fn endings(&self) -> &[Ending] {
        &self.endings
    }

    /// After how many of them the store was checked.
    pub const fn checked(&self) -> usize {
        self.checked
    }

    /// Starts the next life.
    pub fn begin(&mut self, failpoint: Option<Failpoint>) -> Result<Server, String> {
        let life = self.endings.len();
        self.endings.push(Ending::None);
        self.receivers.begin_life(life);
        self.installation.start(life, failpoint)
    }

    /// Starts a life that has to serve.
    pub async fn begin_to_serve(&mut self) -> Result<(Server, Serving), String> {
        let mut server = self.begin(None)?;
        match self.serving(&mut server).await? {
            Ok(serving) => Ok((server, serving)),
            Err(status) => Err(server.explain(&format!("ended by itself: {status}"))),
        }
    }

    /// Waits until the server serves, or has ended.
    pub async fn serving(
        &self,
        server: &mut Server,
    ) -> Result<Result<Serving, ExitStatus>, String> {
        let ready = match server.ready().await? {
            Started::Ready(ready) => ready,
            Started::Ended(status) => return Ok(Err(status)),
        };
        let address = ready.address()?;
        let deadline = Instant::now() + OPENING_WAIT_MAX;
        while !http::is_healthy(address).await {
            if let Some(status) = server.end_within(Duration::from_millis(5)).await? {
                return Ok(Err(status));
            }
            if Instant::now() > deadline {
                return Err(server.explain("listens and does not begin to serve"));
            }
        }
        Ok(Ok(Serving {
            api: Api::new(address, ready.admin_token),
            address,
        }))
    }

    /// Sends publishers to the server.
    pub fn open(&self, serving: &Serving) {
        self.whereabouts.send_replace(Some(serving.address));
    }

    /// Notes how the life ended, and waits until nothing of it is left.
    pub async fn end(&mut self, ending: Ending) -> Result<(), String> {
        self.whereabouts.send_replace(None);
        *self.endings.last_mut().expect("a life was begun") = ending;
        self.receivers.settle().await?;
        if ending == Ending::Refused {
            return Ok(());
        }
        let (life, data) = (self.endings.len() - 1, self.installation.data());
        self.checked += usize::from(whole::check_after(life, &data)?);
        Ok(())
    }
}

/// The server ended without a signal of ours: at its failpoint, or by mistake.
pub fn died(
    server: &Server,
    status: ExitStatus,
    failpoint: Option<Failpoint>,
) -> Result<Ending, String> {
    match failpoint {
        Some(failpoint) if is_killed(status) => Ok(Ending::Failpoint(failpoint.name)),
        _ => Err(server.explain(&format!("ended by itself: {status}"))),
    }
}
