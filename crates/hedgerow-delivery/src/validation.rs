//! What the callback route asks about handshakes, and what it is told.

use hedgerow_core::validation::AllowedRate;

use crate::command::{Command, CommandError, EngineHandle};

/// A call of the URL that a handshake carries.
#[derive(Clone)]
pub struct Callback {
    /// The secret at the end of the URL. There is no `Debug`.
    pub token: String,
    /// Whether it is a POST; otherwise a GET.
    pub is_post: bool,
    /// What the call says about the rate (ED-168).
    pub rate: AllowedRate,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// The endpoint has consented now.
    Completed {
        /// The topic's name.
        topic: String,
        /// The subscription's name.
        subscription: String,
    },
    /// Its handshake is over, by an earlier call or otherwise.
    Used,
    /// It came too late (ED-159).
    Expired,
    /// Handshakes of this form are completed with GET only.
    GetOnly,
    /// No handshake has this token.
    Unknown,
}

impl EngineHandle {
    /// Completes a handshake by its URL.
    pub async fn call_back(&self, callback: Callback) -> Result<Called, CommandError> {
        self.ask(|answer| Command::CallBack { callback, answer })
            .await
    }
}
