//! How the process is asked to end: the first SIGTERM or SIGINT asks for an orderly stop, the second ends it at once.
//! What an orderly stop is, the server decides.

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
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.terminate.recv() => TERMINATE,
        }
    }
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
