//! `hedgerow terminal-record`: what was not delivered, and why.

use clap::{Args, Subcommand};

use super::ServerOptions;
use super::pages::{self, Which};
use crate::failure::Failure;
use crate::output::{self, Column};

/// Terminal records: what was not delivered, and why.
#[derive(Debug, Args)]
pub struct TerminalRecordCommand {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the records, the oldest first.
    List(Which),
}

const LIST: [Column; 9] = [
    ("EVENT ID", "/eventId"),
    ("EVENT TYPE", "/eventType"),
    ("TOPIC", "/topic"),
    ("SUBSCRIPTION", "/eventSubscription"),
    ("REASON", "/reason"),
    ("ATTEMPTS", "/deliveryAttempts"),
    ("LAST OUTCOME", "/lastDeliveryOutcome"),
    ("EVENT", "/disposition"),
    ("DECIDED", "/decidedTime"),
];

impl TerminalRecordCommand {
    /// Runs the command.
    pub async fn run(self) -> Result<(), Failure> {
        let client = self.server.client()?;
        let Action::List(which) = self.action;
        let records = pages::list(&client, "/terminalRecords", &which).await?;
        output::list(&records, &LIST, self.server.output);
        Ok(())
    }
}
