//! `hedgerow dead-letter`: what was not delivered and waits to be written.

use clap::{Args, Subcommand};

use super::ServerOptions;
use super::pages::{self, Which};
use crate::failure::Failure;
use crate::output::{self, Column};

/// Dead letters: what was not delivered and waits to be written to its dead-letter directory.
#[derive(Debug, Args)]
pub struct DeadLetterCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists those that wait, by subscription and time. `terminal-record list` says what became of the others.
    List(Which),
}

const LIST: [Column; 8] = [
    ("EVENT ID", "/eventId"),
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("REASON", "/reason"),
    ("ATTEMPTS", "/deliveryAttempts"),
    ("LAST OUTCOME", "/lastDeliveryOutcome"),
    ("FAILED WRITES", "/failedWrites"),
    ("WRITE DUE", "/writeTime"),
];

impl DeadLetterCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let Action::List(which) = self.action;
        let letters = pages::list(&client, "/deadLetters", &which).await?;
        output::list(&letters, &LIST, self.server.output);
        Ok(())
    }
}
