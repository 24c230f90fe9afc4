//! `hedgerow dev`: everything on this machine. A server, a topic `demo`, a receiver whose answer can be switched, a
//! subscription between the two, and one line for each attempt.
//!
//! A second start on the same data directory points the subscription at the new receiver, before anything is attempted; its
//! id, its other settings and what is owed to it stay.

mod attempt_line;
mod keys;
mod receiver;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hedgerow_core::name::{SubscriptionName, TopicName};
use hedgerow_core::spec::SubscriptionSpec;
use hedgerow_core::time::Timestamp;
use hedgerow_io::clock::{Clock, SystemClock};
use hedgerow_server::{
    AttemptFeed, Config, DevGuard, HandleError, Server, ServerHandle, ServerOptions, TopicEntry,
};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use self::keys::Key;
use self::receiver::Receiver;
use super::serve::{self, failed};
use crate::client::Client;
use crate::failure::Failure;
use crate::logging::{self, LogFormat};
use crate::output::line;
use crate::ready_file::{Ready, ReadyFile};
use crate::signals::Stop;

/// The name of the topic and of its subscription.
const DEMO: &str = "demo";
/// How long running attempts get at the end: nobody wants to wait for a receiver that was told to hang.
const DRAIN_MAX: Duration = Duration::from_secs(3);
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Runs everything on this machine, with a demo topic and a receiver.
#[derive(Debug, Args)]
pub struct DevCommand {
    /// Where the server listens; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS", default_value_t = LISTEN)]
    listen: SocketAddr,
    /// The data directory; without it a temporary one, which is removed at the end.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Written, for its owner only, once events are taken: JSON with endpoint, topicKey, adminToken, receiver and pid.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

impl DevCommand {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        logging::start(LogFormat::Text, "warn")?;
        let stop = Stop::on_signals()?;
        let ready_file = self
            .ready_file
            .as_deref()
            .map(ReadyFile::prepare)
            .transpose()?;
        let data = DataDirectory::open(self.data)?;
        let config = Config {
            listen: self.listen,
            data: data.path().to_owned(),
            ..config_of_dev()?
        };
        super::run_to_end(dev(config, &data, ready_file, stop))
    }
}

/// The settings that `dev` has of its own; the environment can change the others.
fn config_of_dev() -> Result<Config, Failure> {
    let mut config = serve::load(None)?;
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

async fn dev(
    config: Config,
    data: &DataDirectory,
    ready_file: Option<ReadyFile>,
    stop: Stop,
) -> Result<(), Failure> {
    let receiver = Receiver::start()
        .await
        .map_err(|error| Failure::because("the receiver cannot listen on 127.0.0.1", &error))?;
    let options = ServerOptions {
        dev_guard: Some(DevGuard::default()),
        // What is owed from the last time goes to the new receiver, not to whoever listens at the old one's address.
        starts_held: true,
    };
    let server = Server::bind(config, options).await.map_err(|error| {
        failed(
            &error,
            "choose another with --listen, such as --listen 127.0.0.1:0",
        )
    })?;
    let demo = Demo {
        local_url: format!("http://{}", server.local_addr()),
        public_url: server.public_url().to_owned(),
        admin_token: server.admin_token().to_owned(),
        handle: server.handle(),
        receiver,
    };
    let watch = async {
        let watched = demo.watch(data, ready_file, &stop).await;
        // Whatever happened, the server does not go on without its terminal.
        stop.ask();
        watched
    };
    let (ran, watched) = tokio::join!(server.run(stop.asked()), watch);
    ran.map_err(|error| failed(&error, ""))?;
    watched
}

/// The server and the receiver, while they run.
struct Demo {
    local_url: String,
    public_url: String,
    admin_token: String,
    handle: ServerHandle,
    receiver: Receiver,
}

impl Demo {
    /// Declares topic and subscription, tells how to use them, and shows attempts until the server has stopped.
    async fn watch(
        &self,
        data: &DataDirectory,
        ready_file: Option<ReadyFile>,
        stop: &Stop,
    ) -> Result<(), Failure> {
        // A server that ended instead says itself why.
        if self.handle.ready().await.is_err() {
            return Ok(());
        }
        let attempts = self.handle.attempts();
        let topic = match self.declare().await {
            Err(Failed::Stopped) => return Ok(()),
            Err(Failed::Because(failure)) => return Err(failure),
            Ok(topic) => topic,
        };
        if self.handle.start_deliveries().await.is_err() {
            return Ok(());
        }
        self.greet(data, &topic);
        if let Some(file) = ready_file {
            file.write(&self.ready(&topic))?;
        }
        self.show_attempts(attempts, keys::listen(), stop).await;
        Ok(())
    }

    async fn declare(&self) -> Result<TopicEntry, Failed> {
        let name: TopicName = DEMO.parse().expect("a valid name");
        let topic = self.handle.ensure_topic(&name).await?;
        let spec = self.subscription_spec().await?;
        let name: SubscriptionName = DEMO.parse().expect("a valid name");
        let subscription = self.handle.ensure_subscription(DEMO, &name, &spec).await?;
        if subscription.pending > 0 {
            let s = if subscription.pending == 1 { "" } else { "s" };
            line(&format!(
                "{} event{s} owed from the last start",
                subscription.pending
            ));
        }
        Ok(topic)
    }

    /// The subscription as it was declared before, if it was, but for its endpoint.
    async fn subscription_spec(&self) -> Result<SubscriptionSpec, Failed> {
        let server = self
            .local_url
            .parse()
            .expect("an address makes a valid URL");
        let client = Client::new(server, Some(self.admin_token.clone()));
        let path = format!("/topics/{DEMO}/eventSubscriptions/{DEMO}");
        let mut json = json!({});
        if let Some(present) = client.admin_if_found(Method::GET, &path).await? {
            for name in super::event_subscription::DECLARED {
                json[name] = present.get(name).cloned().unwrap_or(Value::Null);
            }
        }
        let properties = json!({ "endpointUrl": format!("{}/", self.receiver.url()) });
        json["destination"] = json!({ "endpointType": "WebHook", "properties": properties });
        let checked = SubscriptionSpec::check(&json)
            .map_err(|error| Failure::because("cannot declare the subscription demo", &error))?;
        Ok(checked.spec)
    }

    fn ready(&self, topic: &TopicEntry) -> Ready {
        Ready {
            endpoint: self.public_url.clone(),
            topic_key: Some(topic.keys.key1.clone()),
            admin_token: self.admin_token.clone(),
            receiver: Some(self.receiver.url()),
            pid: std::process::id(),
        }
    }

    fn greet(&self, data: &DataDirectory, topic: &TopicEntry) {
        let receiver = self.receiver.url();
        let directory = data.path().display();
        let now = SystemClock::new(Timestamp::ZERO).now().timestamp;
        let event = format!(
            r#"[{{"id":"1","eventType":"Order.Placed","subject":"orders/1","eventTime":"{now}","data":{{"total":30}},"dataVersion":"1"}}]"#
        );
        let lines = [
            format!(
                "hedgerow dev  {}  data in {directory}, which {}",
                self.public_url,
                data.end()
            ),
            String::new(),
            "publish an event:".to_owned(),
            format!(
                "  curl -i {} -H 'aeg-sas-key: {}' -d '{event}'",
                topic.endpoint, topic.keys.key1
            ),
            format!(
                "switch what the receiver answers (now {}):",
                self.receiver.answer()
            ),
            format!("  curl -X PUT {receiver}/answer -d '{{\"status\":503}}'"),
            "ask the server:".to_owned(),
            format!(
                "  hedgerow event-subscription show --name {DEMO} --source-resource-id {DEMO} \
                 --server {} --token-file {directory}/admin-token",
                self.local_url
            ),
            String::new(),
        ];
        for text in &lines {
            line(text);
        }
        if keys::is_terminal() {
            line(&format!("type, and press Enter: {}\n", keys::HELP));
        }
    }

    async fn show_attempts(
        &self,
        mut attempts: AttemptFeed,
        mut typed: mpsc::Receiver<Key>,
        stop: &Stop,
    ) {
        loop {
            tokio::select! {
                note = attempts.next() => match note {
                    Some(note) => line(&attempt_line::text(&note)),
                    None => return,
                },
                Some(key) = typed.recv() => self.obey(key, stop),
            }
        }
    }

    fn obey(&self, key: Key, stop: &Stop) {
        match key {
            Key::Answer(answer) => {
                self.receiver.switch(answer);
                line(&format!("the receiver answers {answer}"));
            }
            Key::Help => line(keys::HELP),
            Key::Quit => {
                line("stopping");
                stop.ask();
            }
        }
    }
}

/// Why the demo was not declared.
enum Failed {
    /// The server ended; it says itself why.
    Stopped,
    Because(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Because(failure)
    }
}

impl From<HandleError> for Failed {
    fn from(error: HandleError) -> Self {
        match error {
            HandleError::Stopped => Self::Stopped,
            other => Self::Because(Failure::because("cannot declare the demo", &other)),
        }
    }
}
