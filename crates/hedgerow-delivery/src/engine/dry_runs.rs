//! Handshakes that are only tried (ED-312): they run beside the loop, answer whoever asked, and leave nothing behind.

use std::sync::Arc;

use hedgerow_core::position::SubscriptionId;
use hedgerow_core::validation::ValidationSettings;

use super::Engine;
use super::declarations::reply;
use super::handshakes::Asked;
use super::validations::new_token;
use crate::command::{Answer, CommandError};
use crate::dry_run::{DryRun, DryRunQuery};
use crate::handshake;

/// Of no subscription: ids begin at 1, and nobody can complete a handshake of this one.
const NONE: SubscriptionId = SubscriptionId(0);

impl Engine {
    /// Asks an endpoint once, and answers what it came to.
    pub(super) fn dry_run(&self, query: &DryRunQuery, mut answer: Answer<DryRun>) {
        let DryRunQuery { topic, name, spec } = query;
        if let Err(refused) = self.check_subscription(topic, None, false, name, spec) {
            return reply(answer, Err(refused));
        }
        let settings = ValidationSettings {
            // Whoever asks can ask again, and is waiting.
            tries_max: 1,
            ..(*self.validations.settings).clone()
        };
        let source_path = self.source_path(topic);
        let job = self.handshake_job(Asked {
            id: NONE,
            source_path,
            name: name.as_str(),
            spec,
            token: &new_token(NONE),
            settings: Arc::new(settings),
        });
        // It was judged above, by the same rules.
        let Ok(job) = job else {
            return reply(answer, Err(CommandError::Unavailable));
        };
        let Ok(place) = Arc::clone(&self.validations.dry_runs_asked).try_acquire_owned() else {
            let message = "too many endpoints are being tried already".to_owned();
            return reply(answer, Err(CommandError::Busy(message)));
        };
        let dry_runs = Arc::clone(&self.validations.dry_runs);
        self.spawner.spawn(async move {
            let _place = place;
            let asking = async {
                let _permit = dry_runs.acquire_owned().await;
                handshake::run(job).await
            };
            let report = tokio::select! {
                report = asking => report,
                () = answer.closed() => return,
            };
            reply(answer, Ok(DryRun::of(report)));
        });
    }
}
