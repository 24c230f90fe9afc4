//! Every bound of the edge that is no setting, with its unit and reason.

use std::time::Duration;

/// Bytes of a request's target. Source: HP-183.
pub const URL_BYTES_MAX: usize = 8_192;
/// Bytes of its query. Source: HP-183.
pub const QUERY_BYTES_MAX: usize = 4_096;
/// Bytes of a request's head, or of the head of an origin's response. Source: HP-183.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Fields of a head: four times what browsers and origins send; each takes memory beside its bytes.
pub const FIELDS_MAX: usize = 256;
/// Bytes of a method: the longest registered one has 17.
pub const METHOD_BYTES_MAX: usize = 32;

/// Hexadecimal digits of a chunk's size: 16 of them are a `u64`.
pub const CHUNK_SIZE_DIGITS_MAX: usize = 16;
/// Bytes of the line of a chunk's size with its extensions, which nobody uses.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Bytes of all extensions of one body: so that small chunks do not carry large ones (HP-185).
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the trailer section of a body. It is dropped.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// Interim responses before the final one: as many as a probe takes (HP-042).
pub const INTERIM_RESPONSES_MAX: u8 = hedgerow_origin::limits::INTERIM_RESPONSES_MAX;

/// A request that passed so many edges goes round in circles. Source: HP-164.
pub const HOPS_MAX: u32 = 10;

/// Attempts beyond the first. Source: HP-173.
pub const FURTHER_ATTEMPTS_MAX: u32 = 2;
/// Bytes of a request's body that are kept for another attempt. Source: HP-173.
pub const REPLAY_BYTES_MAX: usize = 64 * 1024;
/// Retries are at most this part of a group's requests, in percent. Source: HP-174.
pub const RETRY_PERCENT: u64 = 20;
/// Retries that are always allowed. Source: HP-174.
pub const RETRIES_FREE: u64 = 3;
/// What of a group's requests counts. Source: HP-174.
pub const RETRY_WINDOW: Duration = Duration::from_secs(10);

/// Bytes that are read at a time: a request and a small answer fit into it.
pub const READ_BYTES: usize = 16 * 1024;
/// Bytes that are read at a time where much comes: four of these buffers keep a request below 256 KiB (HP-185).
pub const READ_BYTES_LARGE: usize = 48 * 1024;

/// Idle connections to one origin: more come only with more requests at a time, and are closed when they are idle again.
pub const IDLE_PER_ORIGIN_MAX: usize = 256;

/// Bytes of a body that is left unread when its answer was given: to a client that is closed while there is something to
/// read, the answer is lost.
pub const LINGER_BYTES_MAX: usize = 16 << 20;
/// How long they are read.
pub const LINGER_TIME: Duration = Duration::from_secs(5);

/// Streams of a connection of HTTP/2 at a time.
pub const H2_STREAMS_MAX: u32 = 128;
/// Bytes of one stream that a client may send ahead (HP-185).
pub const H2_STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The same for all streams of a connection.
pub const H2_CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of answers that wait to be sent on one stream (HP-185).
pub const H2_SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Streams that a client has reset and that are still being ended: more than that is an attack.
pub const H2_RESETS_PENDING_MAX: usize = 32;

/// How long a connection to an origin is used: as long as the answer of a name is taken without asking again (HP-025), so that
/// requests follow it (HP-188).
pub const ORIGIN_CONNECTION_AGE_MAX: Duration = Duration::from_secs(60);
/// How often idle connections, and what routes and groups say of them, are looked at.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
