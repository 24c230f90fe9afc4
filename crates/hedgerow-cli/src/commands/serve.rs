//! `hedgerow serve`: the server, until a signal ends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use hedgerow_server::apply::files::GridFiles;
use hedgerow_server::apply::{Applier, Asked};
use hedgerow_server::{Config, Server, ServerError, ServerHandle, ServerOptions, config};

use super::apply;
use crate::failure::{Failure, is_address_in_use};
use crate::logging::{self, LogFormat};
use crate::output;
use crate::ready_file::{Ready, ReadyFile};
use crate::signals::Stop;

/// Runs the server until SIGTERM or SIGINT.
#[derive(Debug, Args)]
pub struct ServeCommand {
    /// The configuration; without it every setting has its default.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Declares what this file says, as `hedgerow apply` does, before anything is delivered; ends if it is wrong. Waits for no
    /// endpoint: what each answers is told when it does. May be given several times.
    #[arg(long, value_name = "FILE")]
    apply: Vec<PathBuf>,
    /// Written, for its owner only, once events are taken: JSON with endpoint, localAddress, adminToken, pid, and edge
    /// and edgeTls where the edge listens.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// The form of log lines; otherwise as configured.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

impl ServeCommand {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        let config = load(self.config.as_deref())?;
        let files = match self.apply.as_slice() {
            [] => None,
            paths => Some(apply::read(paths)?),
        };
        logging::start(
            self.log_format.unwrap_or_else(|| config.log_format.into()),
            "info",
        )?;
        let stop = Stop::on_signals()?;
        let ready_file = self
            .ready_file
            .as_deref()
            .map(ReadyFile::prepare)
            .transpose()?;
        super::run_to_end(serve(config, files, ready_file, stop))
    }
}

/// Reads file and environment.
pub fn load(path: Option<&Path>) -> Result<Config, Failure> {
    load_over(Config::default(), path)
}

/// The same, over other defaults than the usual ones.
pub fn load_over(defaults: Config, path: Option<&Path>) -> Result<Config, Failure> {
    config::load_over(defaults, path, std::env::vars_os()).map_err(|error| {
        Failure::new(format!("the configuration cannot be used:\n{error}"))
            .with_hint("`hedgerow config show` prints every setting")
    })
}

async fn serve(
    config: Config,
    files: Option<GridFiles>,
    ready_file: Option<ReadyFile>,
    stop: Stop,
) -> Result<(), Failure> {
    for line in config.to_toml().lines().filter(|line| !line.is_empty()) {
        tracing::debug!(setting = line, "in force");
    }
    let options = ServerOptions {
        // What is owed goes where the files say now, and not where it was to go before.
        starts_held: files.is_some(),
        ..ServerOptions::default()
    };
    let server = Server::bind(config, options).await.map_err(|error| {
        failed(
            &error,
            "set `listen` in the configuration to another address; port 0 takes any",
        )
    })?;
    let handle = server.handle();
    if server.has_new_admin_token() {
        // Once: from now on it stands in the file alone. Never a line of the log.
        output::line(&format!(
            "admin token, which may do everything: {}",
            server.admin_token()
        ));
    }
    let ready = Ready {
        endpoint: server.public_url().to_owned(),
        local_address: server.local_addr(),
        topic_key: None,
        admin_token: server.admin_token().to_owned(),
        receiver: None,
        edge: edge_url("http", server.edge_addresses().plain),
        edge_tls: edge_url("https", server.edge_addresses().encrypted),
        pid: std::process::id(),
    };
    let applier = server.applier();
    let files = files.as_ref().map(|files| (files, &applier));
    let announce = async {
        let announced = async {
            let asked = begin(&handle, files).await?;
            announce(&handle, ready_file, &ready).await?;
            Ok(asked)
        };
        let announced = announced.await;
        match (announced, files) {
            (Ok(asked), Some((files, applier))) => apply::follow(files, applier, asked).await,
            (Ok(_), None) => {}
            (Err(failure), _) => {
                stop.ask();
                return Err(failure);
            }
        }
        Ok(())
    };
    let (ran, announced) = tokio::join!(server.run(stop.asked()), announce);
    ran.map_err(|error| failed(&error, ""))?;
    announced
}

/// Where a listener of the edge is reached.
pub fn edge_url(scheme: &str, address: Option<SocketAddr>) -> Option<String> {
    address.map(|address| format!("{scheme}://{address}"))
}

/// Declares what the files say, if there are any, and begins to deliver. Endpoints may still be asked then.
async fn begin(
    handle: &ServerHandle,
    files: Option<(&GridFiles, &Applier)>,
) -> Result<Vec<Asked>, Failure> {
    let Some((files, applier)) = files else {
        return Ok(Vec::new());
    };
    // A server that ended instead says itself why.
    if handle.ready().await.is_err() {
        return Ok(Vec::new());
    }
    let asked = apply::begin_with(files, applier).await?;
    let begun = handle.start_deliveries().await;
    begun.map_err(|error| Failure::because("cannot begin to deliver", &error))?;
    Ok(asked)
}

async fn announce(
    handle: &ServerHandle,
    ready_file: Option<ReadyFile>,
    ready: &Ready,
) -> Result<(), Failure> {
    // A server that ended instead says itself why.
    if handle.ready().await.is_err() {
        return Ok(());
    }
    tracing::info!(endpoint = %ready.endpoint, "serving");
    ready_file.map_or(Ok(()), |file| file.write(ready))
}

/// Why the server did not run, with advice for an address that is taken.
pub fn failed(error: &ServerError, advice_when_in_use: &str) -> Failure {
    let failure = Failure::because("the server cannot run", error);
    if is_address_in_use(error) {
        failure.with_hint(advice_when_in_use)
    } else {
        failure
    }
}
