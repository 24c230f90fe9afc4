//! The engine of one node: follows the log, matches every event once, attempts deliveries, settles them.
//!
//! | module | does |
//! | --- | --- |
//! | [`grid`] | opens the store, runs the engine on it, opens it again when it fails |
//! | [`engine`] | the loop: folds durable records into the view, starts attempts, records what became of them |
//! | [`attempt_log`] | the one log line of each attempt |
//! | [`command`] | what the admin API asks of the engine |
//! | [`explain`] | why an event did or did not reach a subscription, from the history, the log and the engine |
//! | [`attempt`] | one HTTP request: read the event, encode, send, time out, report |
//! | [`handshake`] | one handshake with an endpoint: ask, wait, ask again, report |
//! | [`validation`] | what is asked about handshakes from outside |
//! | [`runner`] | one subscription's deliveries: waiting, due, in flight |
//! | [`late`] | its exchanges that are open after their timeout |
//! | [`endpoints`] | whose turn it is at each endpoint, and how many attempts it takes at a time |
//! | [`windows`] | delayed delivery: one state for each endpoint |
//! | [`letter_write`] | one write of dead letters: read the events, spell, hand over |
//! | [`letters`] | one subscription's dead letters: which are due, which are being written |
//! | [`plan`] | what an attempt needs of a subscription, read when the attempt is made |
//! | [`metrics`] | what this process has counted |
//! | [`declare`] | what a declaration of a subscription does, and waiting for its endpoint |
//! | [`origin_groups`] | what is asked and told about origin groups and routes |
//! | [`domain_topics`] | what is asked and told about topics of domains |
//! | [`dry_run`] | what a handshake that is only tried is asked and tells |
//! | [`origins`] | the groups of origins that subscriptions deliver to: what they are, and which origin is next |
//! | [`note`] | what observers are told of each attempt |
//! | [`remember`] | what the history is told of each attempt |
//! | `gather`, `batch_answer` | how a batch is filled, and what its answer says of single events |
//! | [`replay`] | dead letters that are delivered again |
//! | [`written_letters`] | dead letters that were written, for whoever looks for one |
//! | [`settings`] | everything that can be tuned |
//! | [`source`] | the resource paths of what subscriptions are made for |
//! | [`spawner`] | where tasks run, and work that takes a disk's time |
//!
//! The rules themselves (when, whether, what it means) are `hedgerow-core`'s. A subscriber's 503 is not an error here;
//! an `Err` means that the engine could not do its own part, and it is started again from disk.

mod attempt;
mod attempt_log;
mod batch_answer;
pub mod command;
pub mod declare;
pub mod domain_topics;
pub mod dry_run;
pub mod endpoint_test;
mod endpoints;
pub mod engine;
mod expiries;
pub mod explain;
mod gather;
pub mod gauges;
pub mod grid;
mod handshake;
mod late;
mod letter_write;
mod letters;
pub mod metrics;
pub mod note;
mod notice;
pub mod origin_groups;
pub mod origins;
mod plan;
mod remember;
pub mod replay;
pub mod resend;
mod response_times;
mod runner;
pub mod settings;
mod source;
pub mod spawner;
mod strike;
pub mod validation;
mod windows;
pub mod wire;
pub mod written_letters;

/// An error with everything behind it, in one line.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
