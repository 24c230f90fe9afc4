//! The engine on a paused clock: real engine, real attempts, real client; the store is the model, the network a pipe.

// The helpers of tests fail as tests do, and nothing here happens before it begins.
#![allow(clippy::unwrap_used, clippy::unchecked_time_subtraction)]

mod balance;
mod batch_rules;
mod batches;
mod clock;
mod counting;
mod crash;
mod custom_headers;
mod dead_letters;
mod declarations;
mod declare;
mod departures;
mod dry_run;
mod endpoint_limits;
mod endpoint_test;
mod explain;
mod fairness;
mod fencing;
mod golden;
mod held;
mod held_ends;
mod history;
mod holds;
mod late;
mod letter_box;
mod notices;
mod ordering;
mod pauses;
mod purge;
mod reader;
mod receiver;
mod replay_forms;
mod replays;
mod resend;
mod room;
mod shelf;
mod signing;
mod sparse;
mod speed;
mod stopping;
mod timelines;
mod validation;
mod versions;
mod world;
