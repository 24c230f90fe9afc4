//! `hedgerow recover`: builds the view of a stopped server again.

use std::path::PathBuf;

use clap::Args;
use hedgerow_server::store::{self, StoreError};

use crate::failure::Failure;
use crate::output;

/// Builds the view of a stopped server again from `catalog/`, `baseline/`, `kept/` and `log/`.
///
/// For a view that was lost, is damaged, or is of another time than the log. What is owed to subscriptions, and how often
/// it was tried, is as it was; the list of terminal records begins anew where the log does. If the log itself has lost its
/// end, nothing is done but to tell what is lost, unless that is accepted.
#[derive(Debug, Args)]
pub struct RecoverCommand {
    /// The data directory.
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// The key's file, if the server's setting `secrets.key_file` names one.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// How many terminal records are kept, the server's setting `store.terminal_records_max`.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    terminal_records_max: u64,
    /// Goes on without what the log has lost at its end; without this, that is told and nothing is done.
    #[arg(long)]
    accept_loss: bool,
}

impl RecoverCommand {
    /// Runs it.
    pub fn run(self) -> Result<(), Failure> {
        let key_file = self.key_file.as_deref();
        let report = store::recover(
            &self.data,
            key_file,
            self.terminal_records_max,
            self.accept_loss,
        );
        let report = report.map_err(|error: StoreError| {
            Failure::because("cannot build the view again".to_owned(), &error)
        })?;
        if let Some(loss) = &report.loss {
            output::line(&format!("accepted a loss: {loss}"));
        }
        output::line(&format!(
            "built the view again: {} topics, {} subscriptions, {} deliveries pending, {} of them of kept events",
            report.topics, report.subscriptions, report.pending, report.pending_kept
        ));
        output::line(&format!(
            "the log begins behind {} and ends at {}; start the server",
            report.oldest, report.end
        ));
        Ok(())
    }
}
