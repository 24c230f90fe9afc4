//! `CloudEvents` 1.0: one structured event, or an array of them, or one in binary mode.
//!
//! Follows sections 1.5, 1.7 and 3.2 of the delivery specification. The JSON of `data` is carried byte for byte (ED-039).

pub(crate) mod decode;
pub(crate) mod encode;
