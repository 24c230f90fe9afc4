//! A network in the process, on tokio's paused clock: who was connected to, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_io::clock::Clock;
use hedgerow_io::http::{Connect, Connecting, Connection, Target};
use hedgerow_origin::node::{Event, Saved};
use hedgerow_origin::outcome::Observation;
use hedgerow_origin::settings::Group;
use hedgerow_prober::service::{AbortedProbe, Probed};
use hedgerow_prober::{Observer, Options, Prober, ProberHandle};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::server::{OK, read_head};

/// A group with these hosts, each an origin of its name.
pub fn of(hosts: &[&str], settings: Value) -> Arc<Group> {
    let origins = hosts
        .iter()
        .map(|host| json!({"name": host, "host": format!("{host}.example")}));
    let mut declared = settings;
    declared["origins"] = origins.collect();
    Arc::new(Group::read(&declared).unwrap())
}

/// Every host is a server that answers 200 at once, or never where it is `is_silent`.
#[derive(Debug, Default)]
pub struct Network {
    pub is_silent: AtomicBool,
    connections: Mutex<Vec<(String, Instant)>>,
}

impl Network {
    /// When connections to a host were made; then forgets them all.
    pub fn taken(&self, host: &str) -> Vec<Instant> {
        let mut connections = self.connections.lock().unwrap();
        let taken = std::mem::take(&mut *connections);
        let of_host = taken.into_iter().filter(|(name, _)| name == host);
        of_host.map(|(_, at)| at).collect()
    }
}

impl Connect for Network {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        let host = target.host().to_string();
        let mut connections = self.connections.lock().unwrap();
        connections.push((host, Instant::now()));
        drop(connections);
        let is_silent = self.is_silent.load(Ordering::SeqCst);
        let (ours, mut theirs) = tokio::io::duplex(1 << 14);
        tokio::spawn(async move {
            if read_head(&mut theirs).await.is_some() && !is_silent {
                let _ = theirs.write_all(OK).await;
            } else {
                // Until the prober has gone.
                let _ = read_head(&mut theirs).await;
            }
        });
        Box::pin(async move { Ok(Connection::new(ours)) })
    }
}

/// What a prober told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    Probed(Observation),
    Aborted(String),
    Happened(Event),
}

/// Keeps what a prober tells.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Vec<Told>>);

impl Kept {
    pub fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn push(&self, told: Told) {
        self.0.lock().unwrap().push(told);
    }
}

impl Observer for Kept {
    fn probed(&self, probed: &Probed<'_>) {
        assert!(!probed.fed.is_empty());
        self.push(Told::Probed(*probed.observation));
    }

    fn aborted(&self, aborted: &AbortedProbe<'_>) {
        self.push(Told::Aborted(aborted.why.to_owned()));
    }

    fn happened(&self, event: &Event, _now: Duration) {
        self.push(Told::Happened(event.clone()));
    }
}

/// A prober that is run.
pub struct Running {
    pub handle: ProberHandle,
    pub kept: Arc<Kept>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Saved>,
}

impl Running {
    pub fn start(connector: Arc<dyn Connect>, clock: Arc<dyn Clock>) -> Self {
        let kept = Arc::<Kept>::default();
        let observer = Arc::clone(&kept);
        let (prober, handle) = Prober::new(connector, clock, observer, Options::default());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(prober.run(async {
            let _ = stopped.await;
        }));
        Self {
            handle,
            kept,
            stop,
            task,
        }
    }

    pub async fn stop(self) -> Saved {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}
