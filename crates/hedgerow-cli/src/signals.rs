//! How the process is asked to end: the first SIGTERM, SIGINT or SIGHUP asks for an orderly stop, the second ends it at once.
//! What an orderly stop is, the server decides.
//!
//! SIGHUP comes when the terminal is gone. Nothing is reloaded by it: certificates are read again by themselves, and everything
//! else takes a start. Where it is ignored when the process begins, as under `nohup`, it stays so.

use std::sync::Arc;

use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::error_line;

/// Becomes true when the process is asked to end; the terminal and signals can both ask.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: Arc<watch::Sender<bool>>,
}

impl Stop {
    /// Listens to signals from now on, on a thread of its own: a second signal works whatever the rest does.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self {
            asked: Arc::new(watch::Sender::new(false)),
        };
        let (begun_to, begun) = std::sync::mpsc::sync_channel(1);
        let asked = stop.clone();
        let listening = std::thread::Builder::new()
            .name("hedgerow-signals".to_owned())
            .spawn(move || {
                if let Err(error) = listen(&asked, &begun_to) {
                    // Nobody waits any more when listening has begun, and then there is no error.
                    drop(begun_to.send(Err(error)));
                }
            });
        let failure = |error: &std::io::Error| Failure::because("cannot listen to signals", error);
        listening.map_err(|error| failure(&error))?;
        match begun.recv() {
            Ok(Ok(())) => Ok(stop),
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(Failure::new("cannot listen to signals: their thread ended")),
        }
    }

    /// Asks for an orderly stop.
    pub fn ask(&self) {
        self.asked.send_replace(true);
    }

    /// Whether it was asked for.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.asked.subscribe()
    }

    /// Waits until it is asked for.
    pub async fn asked(&self) {
        let mut asked = self.watch();
        // The sender lives as long as `self`.
        drop(asked.wait_for(|asked| *asked).await);
    }
}

type Begun = std::sync::mpsc::SyncSender<std::io::Result<()>>;

fn listen(stop: &Stop, begun: &Begun) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        drop(begun.send(Ok(())));
        let first = signals.next().await;
        stop.ask();
        // No log lines: whoever sent the signal may wait for them.
        error_line(&format!("{}: stopping; once more ends at once", first.name));
        let second = signals.next().await;
        error_line(&format!(
            "{}: ended at once; what was accepted is on disk, attempts that ran are made again",
            second.name
        ));
        std::process::exit(second.exit_status)
    })
}

/// A signal that asks the process to end.
#[derive(Debug, Clone, Copy)]
struct Signal {
    name: &'static str,
    /// By convention 128 and the signal's number.
    exit_status: i32,
}

const INTERRUPT: Signal = Signal {
    name: "SIGINT",
    exit_status: 130,
};
#[cfg(unix)]
const TERMINATE: Signal = Signal {
    name: "SIGTERM",
    exit_status: 143,
};

#[cfg(unix)]
const HANG_UP: Signal = Signal {
    name: "SIGHUP",
    exit_status: 129,
};

#[cfg(unix)]
struct Signals {
    /// `None` where it is ignored.
    hang_up: Option<tokio::signal::unix::Signal>,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = if ignores_hang_up() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        Ok(Self {
            hang_up,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hang_up => HANG_UP,
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.terminate.recv() => TERMINATE,
        }
    }
}

/// Whether whoever started the process had it ignore SIGHUP. Elsewhere than on Linux it cannot be found out without unsafe code,
/// and is taken to be heard.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status) & 1 != 0
}

/// The signals that a process ignores, as the kernel tells it: the lowest bit is SIGHUP.
#[cfg(unix)]
fn ignored_signals(status: &str) -> u64 {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[allow(clippy::unnecessary_wraps, reason = "the same shape as on Unix")]
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Signal {
        drop(tokio::signal::ctrl_c().await);
        INTERRUPT
    }
}
