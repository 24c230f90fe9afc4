//! The engine on a paused clock: real engine, real attempts, real client; the store is the model, the network a pipe.

mod crash;
mod declarations;
mod late;
mod reader;
mod timelines;
mod world;
