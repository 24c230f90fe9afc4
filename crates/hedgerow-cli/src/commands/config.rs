//! `hedgerow config`: what a configuration means, without serving.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::serve;
use crate::failure::Failure;
use crate::output;

/// Settings: whether a file is right, and what is in force with it.
#[derive(Debug, Args)]
pub struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Says whether file and environment are right, and the certificate and key that they name.
    Check(Source),
    /// Prints every setting in force, as a file that gives them again.
    Show(Source),
}

#[derive(Debug, Args)]
struct Source {
    /// The configuration; without it every setting has its default.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigCommand {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::Check(Source { config }) => {
                let config = serve::load(config.as_deref())?;
                config.check_files().map_err(|error| {
                    Failure::because("the configuration cannot be used", &error)
                })?;
                output::line("the configuration is right");
            }
            Action::Show(Source { config }) => {
                let config = serve::load(config.as_deref())?;
                output::line(config.to_toml().trim_end());
            }
        }
        Ok(())
    }
}
