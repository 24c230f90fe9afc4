//! `hedgerow dev`: everything on this machine. A server, topics and subscriptions to try ([`demo`]), a receiver whose
//! answer can be switched ([`receiver`]), and one line for each attempt ([`attempt_line`]).

mod attempt_line;
mod demo;
mod greeting;
mod hold_lines;
mod keys;
mod receiver;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hedgerow_core::rate::RateLimits;
use hedgerow_server::apply::Applier;
use hedgerow_server::apply::files::GridFiles;
use hedgerow_server::edge::EdgeAddresses;
use hedgerow_server::{AttemptFeed, Config, DevGuard, Server, ServerHandle, ServerOptions};
use tempfile::TempDir;
use tokio::sync::mpsc;

use self::attempt_line::AttemptLines;
use self::demo::{Declared, Failed};
use self::greeting::Greeting;
use self::hold_lines::HoldLines;
use self::keys::Key;
use self::receiver::Receiver;
use super::apply;
use super::serve::{self, edge_url, failed};
use crate::failure::Failure;
use crate::logging::{self, LogFormat};
use crate::output::line;
use crate::ready_file::{Ready, ReadyFile};
use crate::signals::Stop;

/// How long running attempts get at the end: nobody wants to wait for a receiver that was told to hang.
const DRAIN_MAX: Duration = Duration::from_secs(3);
/// How often what holds subscriptions back is looked at, in the time that passes for them.
const HOLDS_INTERVAL: Duration = Duration::from_millis(500);
/// And at most this often, whatever the speed.
const HOLDS_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// A day in a second: beyond that one tick of a timer is longer than the waits that are watched.
const SPEED_MAX: u32 = 86_400;

/// Runs everything on this machine, with topics to try and a receiver.
#[derive(Debug, Args)]
pub struct DevCommand {
    /// Where the server listens; port 0 takes any free port. Otherwise as configured: 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The data directory; otherwise as configured, or a temporary one, which is removed at the end.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Settings, in the form that `serve` reads: `hedgerow config show` prints every one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Declares what this file says too, as `serve --apply` does, before anything is delivered. May be given several times.
    #[arg(long, value_name = "FILE")]
    apply: Vec<PathBuf>,
    /// How many times as fast as the clocks, a whole number, time passes for retries, windows and times to live. While an attempt is younger
    /// than 250 ms it passes as it does.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(SPEED_MAX)))]
    speed: u32,
    /// Written, for its owner only, once events are taken: JSON with endpoint, topicKey, adminToken, receiver and pid.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

impl DevCommand {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        logging::start(LogFormat::Text, "warn")?;
        let files = match self.apply.as_slice() {
            [] => None,
            paths => Some(apply::read(paths)?),
        };
        let stop = Stop::on_signals()?;
        let ready_file = self
            .ready_file
            .as_deref()
            .map(ReadyFile::prepare)
            .transpose()?;
        let mut config = config_of_dev(self.config.as_deref())?;
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        let configured = Some(&config.data).filter(|data| **data != Config::default().data);
        let data = DataDirectory::open(self.data.or_else(|| configured.cloned()))?;
        data.path().clone_into(&mut config.data);
        let dev = Dev {
            data,
            files,
            speed: NonZeroU32::new(self.speed).unwrap_or(NonZeroU32::MIN),
            ready_file,
            stop,
        };
        super::run_to_end(dev.run(config))
    }
}

/// The settings that `dev` has of its own; the file and the environment can change the others.
fn config_of_dev(file: Option<&Path>) -> Result<Config, Failure> {
    let mut defaults = Config::default();
    // Nothing that somebody tries is lost without a trace (ED-313).
    defaults.dead_letter.local_default = true;
    // Whoever tries how much a machine takes is not told what a shared cloud would take (ED-061).
    defaults.rate_limits = RateLimits::OFF;
    let mut config = serve::load_over(defaults, file)?;
    if config.tls.certificate_file.is_some() {
        let message =
            "dev speaks plain HTTP, on this machine only, and tls.certificate_file is set";
        return Err(Failure::new(message).with_hint("leave it out, or run `hedgerow serve`"));
    }
    for network in ["127.0.0.0/8", "::1/128"] {
        config
            .allow_networks
            .push(network.parse().expect("these are networks"));
    }
    config.engine.drain = config.engine.drain.min(DRAIN_MAX);
    Ok(config)
}

/// Where the data is: a directory that stays, or one that goes when this is dropped.
enum DataDirectory {
    Given(PathBuf),
    Temporary(TempDir),
}

impl DataDirectory {
    fn open(given: Option<PathBuf>) -> Result<Self, Failure> {
        let Some(path) = given else {
            let made = tempfile::Builder::new().prefix("hedgerow-dev-").tempdir();
            return made.map(Self::Temporary).map_err(|error| {
                Failure::because("cannot make a temporary data directory", &error)
                    .with_hint("give one with --data")
            });
        };
        // It stands in lines to paste, wherever that is.
        let path = std::path::absolute(&path).unwrap_or(path);
        Ok(Self::Given(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }

    const fn end(&self) -> &'static str {
        match self {
            Self::Given(_) => "stays",
            Self::Temporary(_) => "is removed at the end",
        }
    }
}

/// What a run is given besides its settings.
struct Dev {
    data: DataDirectory,
    /// What is declared beside what there is to try.
    files: Option<GridFiles>,
    speed: NonZeroU32,
    ready_file: Option<ReadyFile>,
    stop: Stop,
}

impl Dev {
    async fn run(self, config: Config) -> Result<(), Failure> {
        let options = ServerOptions {
            dev_guard: Some(DevGuard::default()),
            // What is owed from the last time goes to the new receiver, not to whoever listens at the old one's address.
            starts_held: true,
            speed: Some(self.speed),
        };
        let dead_letters = config.dead_letter_directory();
        let server = Server::bind(config, options).await.map_err(|error| {
            failed(
                &error,
                "choose another with --listen, such as --listen 127.0.0.1:0",
            )
        })?;
        let receiver = Receiver::start(server.handle().time())
            .await
            .map_err(|error| Failure::because("the receiver cannot listen on 127.0.0.1", &error))?;
        let running = Running {
            local_url: format!("http://{}", server.local_addr()),
            public_url: server.public_url().to_owned(),
            local_address: server.local_addr(),
            edges: server.edge_addresses(),
            admin_token: server.admin_token().to_owned(),
            handle: server.handle(),
            applier: server.applier(),
            dead_letters,
            receiver,
        };
        let watch = async {
            let watched = self.watch(&running).await;
            // Whatever happened, the server does not go on without its terminal.
            self.stop.ask();
            watched
        };
        let (ran, watched) = tokio::join!(server.run(self.stop.asked()), watch);
        ran.map_err(|error| failed(&error, ""))?;
        watched
    }

    /// Declares what there is to try, tells how, and shows attempts until the server has stopped.
    async fn watch(&self, running: &Running) -> Result<(), Failure> {
        // A server that ended instead says itself why.
        if running.handle.ready().await.is_err() {
            return Ok(());
        }
        let attempts = running.handle.attempts();
        let declared = match demo::declare(running).await {
            Err(Failed::Stopped) => return Ok(()),
            Err(Failed::Because(failure)) => return Err(failure),
            Ok(declared) => declared,
        };
        let asked = match &self.files {
            Some(files) => apply::begin_with(files, &running.applier).await?,
            None => Vec::new(),
        };
        if running.handle.start_deliveries().await.is_err() {
            return Ok(());
        }
        self.greet(running, &declared);
        if let Some(file) = &self.ready_file {
            file.write(&Ready {
                endpoint: running.public_url.clone(),
                local_address: running.local_address,
                topic_key: Some(declared.topic.keys.key1.clone()),
                admin_token: running.admin_token.clone(),
                receiver: Some(running.receiver.url()),
                edge: edge_url("http", running.edges.plain),
                edge_tls: edge_url("https", running.edges.encrypted),
                pid: std::process::id(),
            })?;
        }
        let follow = async {
            if let Some(files) = &self.files {
                apply::follow(files, &running.applier, asked).await;
            }
        };
        tokio::join!(self.show(running, attempts, keys::listen()), follow);
        Ok(())
    }

    fn greet(&self, running: &Running, declared: &Declared) {
        let greeting = Greeting {
            server: &running.local_url,
            public_url: &running.public_url,
            data: self.data.path(),
            end_of_data: self.data.end(),
            dead_letters: &running.dead_letters,
            speed: self.speed,
            receiver: &running.receiver,
            declared,
        };
        for text in greeting.lines() {
            line(&text);
        }
        if keys::is_terminal() {
            line(&format!("type, and press Enter: {}\n", keys::HELP));
        } else {
            line(keys::NO_TERMINAL);
        }
    }

    async fn show(
        &self,
        running: &Running,
        mut attempts: AttemptFeed,
        mut typed: mpsc::Receiver<Key>,
    ) {
        let has_colour = std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let mut lines = AttemptLines::new(has_colour);
        let mut holds = HoldLines::default();
        let interval = (HOLDS_INTERVAL / self.speed.get()).max(HOLDS_INTERVAL_MIN);
        let mut look = tokio::time::interval(interval);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                note = attempts.next() => match note {
                    Some(note) => {
                        line(&lines.text(&note));
                        holds.note(&note.topic);
                        // What an attempt begins is told behind its line, not when it may be over.
                        running.tell_holds(&mut holds).await;
                    }
                    None => return,
                },
                _ = look.tick() => running.tell_holds(&mut holds).await,
                Some(key) = typed.recv() => self.obey(key, &running.receiver),
            }
        }
    }

    fn obey(&self, key: Key, receiver: &Receiver) {
        match key {
            Key::Answer(answer) => {
                receiver.switch(answer);
                line(&format!("the receiver answers {answer}"));
            }
            Key::Help => line(keys::HELP),
            Key::Pasted => line(keys::PASTED),
            Key::Quit => {
                line("stopping");
                self.stop.ask();
            }
        }
    }
}

/// The server and the receiver, while they run.
struct Running {
    local_url: String,
    public_url: String,
    local_address: SocketAddr,
    edges: EdgeAddresses,
    admin_token: String,
    handle: ServerHandle,
    applier: Applier,
    /// Below it lie the directories of dead letters.
    dead_letters: PathBuf,
    receiver: Receiver,
}

impl Running {
    /// Prints what changed in what holds subscriptions back.
    async fn tell_holds(&self, lines: &mut HoldLines) {
        let now = self.handle.time()();
        for topic in lines.topics() {
            // The topic may be gone, and the server may be stopping.
            for (subscription, hold) in self.handle.holds(&topic).await.unwrap_or_default() {
                for text in lines.texts(&topic, &subscription, &hold, now) {
                    line(&text);
                }
            }
        }
    }
}
