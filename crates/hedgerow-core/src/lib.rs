//! The rules of Hedgerow: what an event is, which subscription it matches, when an attempt is due, what an answer
//! means. Everything here is a value, a function or a small state machine that receives *now* and *chance* as
//! arguments.
//!
//! This crate does no input or output, reads no clock, draws no chance, spawns nothing and logs nothing. Reasons come
//! back as data.
//!
//! | module | decides |
//! | --- | --- |
//! | [`time`] | the two kinds of time, and how server time is slewed |
//! | [`name`] | which names are valid |
//! | [`position`] | how events and places in the log are numbered |
//! | [`event`] | the one inner shape of an event |
//! | [`decimal`] | how numbers are compared, exactly |
//! | [`spec`] | what users declare: topics and subscriptions |
//! | [`filter`] | which events a subscription wants |
//! | [`outcome`] | what an answer or a failure means |
//! | [`retry`] | when the next attempt is, or that there is none |
//! | [`hold`] | what keeps due deliveries from starting: probation, delayed delivery |
//! | [`batch`] | which due deliveries travel in one request |
//! | [`order`] | which events of an ordered subscription have to wait for others |
//! | [`dead_letter`] | when an undelivered event is written to the dead-letter store, and under which name |
//! | [`validation`] | whether an endpoint wants deliveries |
//! | [`rate`] | how fast may be published to a topic |
//! | [`credit`] | how many attempts may run against one endpoint |
//! | [`turns`] | whose turn it is there |
//! | [`pace`] | how often attempts of one subscription may start there |
//! | [`likeness`] | how like a mistyped name is to one that there is |
//! | [`text`] | how much of a text from outside is repeated |
//! | [`limits`] | every fixed bound |

pub mod batch;
pub mod credit;
pub mod dead_letter;
pub mod decimal;
pub mod event;
pub mod filter;
pub mod hold;
pub mod likeness;
pub mod limits;
pub mod name;
pub mod order;
pub mod outcome;
pub mod pace;
pub mod position;
pub mod rate;
pub mod retry;
pub mod spec;
pub mod text;
pub mod time;
pub mod turns;
pub mod uuid;
pub mod validation;
