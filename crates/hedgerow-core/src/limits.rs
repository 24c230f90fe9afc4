//! Every fixed bound, with its unit and its reason. Bounds that a user can set are settings elsewhere; what stands here
//! is either their widest value or no setting at all.
//!
//! Sizes are bytes, times are [`Duration`]s, everything else is a count.

use std::time::Duration;

// --- publishing ---

/// Bytes of one publish request's body. Source: ED-058; the vendor's own 413 message names this number.
pub const PUBLISH_BODY_BYTES_MAX: usize = 1_536_000;

/// Bytes of one event's own JSON text. Source: ED-058.
pub const EVENT_BYTES_MAX: usize = 1_049_600;

/// Events in one publish request. Source: ED-057.
pub const EVENTS_PER_REQUEST_MAX: usize = 5_000;

/// Invalid events that the answer to a refused publish request lists. Source: ED-041.
pub const INVALID_EVENTS_LISTED_MAX: usize = 20;

/// Bytes of a member's name that an error message repeats: enough to recognise it, too little to reflect a body.
pub const NAME_IN_MESSAGE_BYTES_MAX: usize = 64;

/// Characters of an extension attribute's name that the CloudEvents specification advises not to exceed. Longer ones are
/// taken, and logged. Source: ED-046.
pub const EXTENSION_NAME_LEN_ADVISED: usize = 20;

/// Extension attributes of one event: each is compared with all others.
pub const EXTENSIONS_PER_EVENT_MAX: usize = 100;

/// `sas.clock_skew`, in seconds. Source: ED-021.
pub const SAS_CLOCK_SKEW_SECONDS: std::ops::RangeInclusive<u32> = 0..=300;

/// Bytes of the header `traceparent` of a publish request that its events carry on: twice what the standard has today.
pub const TRACEPARENT_BYTES_MAX: usize = 128;

/// Characters of a domain topic's name. Source: ED-078.
pub const DOMAIN_TOPIC_NAME_LEN: std::ops::RangeInclusive<usize> = 3..=128;

/// Bytes of the head of a request: its first line and all headers.
pub const REQUEST_HEAD_BYTES_MAX: usize = 64 * 1024;

/// Headers of a request: a `CloudEvent` in binary mode has one for each extension attribute, besides its seven attributes and
/// what clients and proxies add.
pub const REQUEST_HEADERS_MAX: usize = 2 * EXTENSIONS_PER_EVENT_MAX + 56;

// --- what users declare ---

/// Characters of a topic's name. Source: the vendor's naming rules.
pub const TOPIC_NAME_LEN: std::ops::RangeInclusive<usize> = 3..=50;

/// Characters of a subscription's name. Source: ED-268.
pub const SUBSCRIPTION_NAME_LEN: std::ops::RangeInclusive<usize> = 3..=64;

/// Bytes of a specification as JSON: it holds the most values that filters may have (ED-118) if they are ids of a usual
/// length, and is below what parsing could be abused with.
pub const SPEC_BYTES_MAX: usize = 1024 * 1024;

/// Characters of the name of an origin group or of a route: a label of metrics and a part of paths, as a subscription's is.
pub const ORIGIN_GROUP_NAME_LEN: std::ops::RangeInclusive<usize> = 1..=64;

/// Bytes of an endpoint's URL, so that the request line stays under the 8 KiB that common servers accept.
pub const ENDPOINT_URL_BYTES_MAX: usize = 4_096;

/// Bytes of the certificates that a subscription adds to the trusted ones, in PEM.
pub const EXTRA_CA_BYTES_MAX: usize = 64 * 1024;
/// How many they may be: a private authority has a few.
pub const EXTRA_CA_CERTIFICATES_MAX: usize = 16;

/// Entries of `includedEventTypes`: each published event is compared with them.
pub const INCLUDED_EVENT_TYPES_MAX: usize = 1_000;

/// Bytes of one text in a filter: a subject's beginning or end, an event type, a key. Source: ED-117 allows 512 UTF-16
/// units for the texts of advanced filters, which are at most three bytes each; the same bound keeps the others small.
pub const FILTER_TEXT_BYTES_MAX: usize = 1_536;

/// Custom delivery properties of one subscription. Source: ED-143.
pub const DELIVERY_ATTRIBUTES_MAX: usize = 10;

/// Bytes of the name of one: what common servers take of a header's name.
pub const DELIVERY_ATTRIBUTE_NAME_BYTES_MAX: usize = 256;

/// `maxConcurrency` of a subscription: no endpoint gets more at a time from the largest setting there is.
pub const MAX_CONCURRENCY: std::ops::RangeInclusive<u32> = 1..=10_000;

/// `maxRequestsPerSecond` of a subscription: timers count in milliseconds, and ten starts in one are few.
pub const MAX_REQUESTS_PER_SECOND: std::ops::RangeInclusive<u32> = 1..=10_000;

/// Bytes of a secret that deliveries are signed with, before base64. Source: Standard Webhooks 1.0, "Signature scheme".
pub const SIGNING_SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Minutes for which a secret may still be signed with when there is a newer one: a week to tell every receiver.
pub const PREVIOUS_SECRET_MINUTES: std::ops::RangeInclusive<u32> = 0..=10_080;

/// Bytes of a `sourceField`, of an input mapping or of a custom delivery property: a path that a person writes.
pub const SOURCE_FIELD_BYTES_MAX: usize = 512;

/// Names in one: each is a level of the event that is looked into.
pub const SOURCE_FIELD_PARTS_MAX: usize = 32;

/// Bytes of a `defaultValue` of an input mapping: every event carries it.
pub const MAPPING_DEFAULT_BYTES_MAX: usize = 1_024;

/// UTF-16 units of one text that an advanced filter compares with. Source: ED-117.
pub const FILTER_OPERAND_UNITS_MAX: usize = 512;

/// Advanced filters of one subscription: the default of the setting, and the most it can be. Source: ED-116, ED-118.
pub const ADVANCED_FILTERS_DEFAULT: usize = 25;
/// See [`ADVANCED_FILTERS_DEFAULT`].
pub const ADVANCED_FILTERS_MAX: usize = 1_000;

/// Operand values over all advanced filters of one subscription: the default of the setting, and the most it can be. Source:
/// ED-116, ED-118.
pub const FILTER_VALUES_DEFAULT: usize = 25;
/// See [`FILTER_VALUES_DEFAULT`].
pub const FILTER_VALUES_MAX: usize = 10_000;

/// Levels of a filter's key: what lies below a level is looked through once more for it.
pub const FILTER_KEY_LEVELS_MAX: usize = 64;

/// The power of ten of a number in a filter, up or down: far beyond any use, and comparing stays exact up to here.
pub const FILTER_EXPONENT_MAX: i64 = 1_000_000_000_000_000;

/// `retryPolicy.maxDeliveryAttempts`. Source: ED-200.
pub const DELIVERY_ATTEMPTS: std::ops::RangeInclusive<u16> = 1..=30;

/// `retryPolicy.eventTimeToLiveInMinutes`. Source: ED-201.
pub const TIME_TO_LIVE_MINUTES: std::ops::RangeInclusive<u32> = 1..=1_440;

/// Attempts that fit into the longest time to live with the default slots; more has no effect. Source: ED-197.
pub const USEFUL_DELIVERY_ATTEMPTS_MAX: u16 = 11;

/// `responseTimeoutSeconds`. Source: ED-176.
pub const RESPONSE_TIMEOUT_SECONDS: std::ops::RangeInclusive<u32> = 1..=300;

/// Codes that `retry.finalStatuses` and `retry.retriableStatuses` may name. Source: ED-184; success codes cannot be
/// redefined.
pub const OVERRIDABLE_STATUSES: std::ops::RangeInclusive<u16> = 205..=599;

/// Entries of one of these two lists: one for each code there is.
pub const STATUS_OVERRIDES_MAX: usize = 395;

/// Bytes of declarations that are applied together: thousands of them.
pub const APPLY_BYTES_MAX: usize = 8 << 20;

/// Bytes of a topic's key that is not made by the server, before base64: too short is guessable. Source of the length of those
/// that are: ED-014.
pub const FIXED_KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

/// Entries of a subscription's `labels`: they are shown with it.
pub const LABELS_MAX: usize = 100;

/// Bytes of one of them: a word or two.
pub const LABEL_BYTES_MAX: usize = 256;

/// Events of a batch that a subscription may ask for. Source: ED-212.
pub const BATCH_EVENTS: std::ops::RangeInclusive<u16> = 1..=5_000;

/// Kilobytes of a batch that a subscription may ask for. Source: ED-213.
pub const BATCH_KILOBYTES: std::ops::RangeInclusive<u16> = 1..=1_024;

/// Events of a batch of a subscription that says only how large its batches are to be. Source: ED-217.
pub const BATCH_EVENTS_DEFAULT: u16 = 10;

/// Kilobytes of a batch of a subscription that says only how many events its batches have. Source: ED-217.
pub const BATCH_KILOBYTES_DEFAULT: u16 = 64;

/// Characters of a token's name: a label for people.
pub const TOKEN_NAME_LEN: std::ops::RangeInclusive<usize> = 1..=64;

/// Tokens besides the first: each request with a token is compared with all of them.
pub const TOKENS_MAX: usize = 1_000;

// --- delivering ---

/// Successes of one subscription that may be known but not durable yet. It bounds what is sent again after a crash; no
/// new attempt starts while it is reached (design D5).
pub const UNSETTLED_SUCCESSES_MAX: usize = 1_000;

/// Exchanges of one subscription that are kept open after their timeout, for a late success. Source: ED-180.
pub const LATE_EXCHANGES_PER_SUBSCRIPTION_MAX: usize = 1_000;

/// The same for the whole process, besides a quarter of its descriptors. Source: ED-180.
pub const LATE_EXCHANGES_MAX: usize = 10_000;

/// Bytes of a response's body that are read after its head. Source: ED-127.
pub const RESPONSE_BODY_BYTES_MAX: usize = 64 * 1024;

/// Bytes of an answer that may name events of a batch which failed: as many entries as a batch has events, with ids of any
/// usual length.
pub const BATCH_ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// How long a response's body is read after its head. Source: ED-127.
pub const RESPONSE_BODY_WAIT_MAX: Duration = Duration::from_secs(2);

/// Bytes of a response's body that are kept as an excerpt. Source: ED-127.
pub const RESPONSE_EXCERPT_BYTES_MAX: usize = 1_024;

/// Bytes of a request header's value that comes from an event. Source: ED-144 for custom headers; the same bound keeps
/// an odd `dataVersion` from making every delivery unacceptable.
pub const HEADER_VALUE_BYTES_MAX: usize = 4_096;

/// Retry slots of a schedule: a list that a person writes.
pub const RETRY_SLOTS_MAX: usize = 100;

// --- handshakes ---

/// Handshakes that run at a time, over all subscriptions: each has a connection.
pub const HANDSHAKES_MAX: usize = 64;

/// Handshakes that are only tried, at a time: each has a connection, and somebody waits for it.
pub const HANDSHAKE_DRY_RUNS_MAX: usize = 8;

/// Handshakes that are only tried, and wait for their turn: each is somebody who waits, for tens of seconds if many do.
pub const HANDSHAKE_DRY_RUNS_WAITING_MAX: usize = 64;

/// Bytes of the request of an endpoint's test that are shown: its head, and what most events have.
pub const ENDPOINT_TEST_SENT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the answer's body that are shown there: enough for a page that says what is wrong.
pub const ENDPOINT_TEST_BODY_BYTES_MAX: usize = 16 * 1024;

/// Notices of deletions that are sent at a time: each has a connection.
pub const DELETION_NOTICES_MAX: usize = 32;

/// Notices that wait for that. Beyond, endpoints are not told: they are told best effort (ED-172).
pub const DELETION_NOTICES_WAITING_MAX: usize = 1_000;

/// Events that are delivered again because somebody asked, at a time, until that is durable: each is a thread that reads, or
/// an event that the log keeps.
pub const RESENDS_MAX: usize = 64;

/// Bytes of an answer to a handshake that are read: one that says something is a fraction of that.
pub const HANDSHAKE_BODY_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the headers of such an answer that are kept for people, names and values.
pub const EXCHANGE_HEADERS_BYTES_MAX: usize = 4_096;

// --- holding back ---

/// `probation.threshold`. Source: ED-226.
pub const PROBATION_THRESHOLD: std::ops::RangeInclusive<u32> = 1..=100;

/// `delayedDelivery.events`: so many failed deliveries are remembered for each endpoint.
pub const DELAYED_DELIVERY_EVENTS: std::ops::RangeInclusive<u32> = 1..=1_000;

/// `delayedDelivery.firstWindow` and `maxWindow`, in seconds: no longer than the longest time to live.
pub const DELAYED_DELIVERY_WINDOW_SECONDS: std::ops::RangeInclusive<u32> = 1..=86_400;

// --- dead letters ---

/// `deadLetter.delay`, in seconds. Source: ED-245.
pub const DEAD_LETTER_DELAY_SECONDS: std::ops::RangeInclusive<u32> = 0..=3_600;

/// `deadLetter.maxUnavailable`, in seconds; 0 is for ever. Source: ED-247.
pub const DEAD_LETTER_UNAVAILABLE_SECONDS: std::ops::RangeInclusive<u32> = 0..=604_800;

/// Events of one dead-letter blob. Source: ED-246.
pub const DEAD_LETTER_EVENTS_MAX: usize = 1_000;

/// Bytes of one dead-letter blob, unless its one event is larger. Source: ED-246.
pub const DEAD_LETTER_BYTES_MAX: usize = 4 << 20;

/// Blobs that are written at a time, over all subscriptions: deliveries come first.
pub const DEAD_LETTER_WRITES_MAX: usize = 4;

/// How long one write, or one look at a dead-letter store, may take, in seconds: a store that hangs is one that is away, and must
/// not keep the blobs of others from being written.
pub const DEAD_LETTER_WRITE_SECONDS_MAX: u64 = 60;

/// Writes to one dead-letter directory that may hang at a time. Each holds a thread until the system lets it go.
pub const DEAD_LETTER_WRITES_HANGING_MAX: usize = 4;

/// Bytes of the path of a dead-letter directory, well below what file systems take with a blob's name behind it.
pub const DEAD_LETTER_PATH_BYTES_MAX: usize = 255;

/// Bytes of what is said about a dead-letter store that cannot be written to: such stores answer with whole pages.
pub const DEAD_LETTER_PROBLEM_BYTES_MAX: usize = 1_024;

/// Bytes of a dead-letter blob that is read: twice what one of ours has.
pub const DEAD_LETTER_READ_BYTES_MAX: u64 = 2 * DEAD_LETTER_BYTES_MAX as u64;

/// `eventsPerSecond` of a replay.
pub const REPLAY_EVENTS_PER_SECOND: std::ops::RangeInclusive<u32> = 1..=5_000;
/// The same, where nobody says it: a receiver that was away is not flooded when it is back.
pub const REPLAY_EVENTS_PER_SECOND_DEFAULT: u32 = 100;
/// Events that a replay appends together, at most: a crash may repeat so many of each.
pub const REPLAY_STEP_EVENTS_MAX: usize = 100;
/// Bytes of these, unless one has more by itself.
pub const REPLAY_STEP_BYTES_MAX: usize = 256 << 10;
/// Ids of events that a replay is limited to.
pub const REPLAY_EVENT_IDS_MAX: usize = 1_000;
/// Replays that have not ended, stopped ones too: each that runs holds a blob in memory.
pub const REPLAYS_OPEN_MAX: usize = 16;
/// Replays that ended and are still shown.
pub const REPLAYS_ENDED_MAX: usize = 100;

/// Bytes of an answer of an object store: short for what is written and deleted, a page of names at most.
pub const OBJECT_ANSWER_BYTES_MAX: usize = 1 << 20;

// --- the engine ---

/// Bytes of records that may wait to be written when another attempt starts: each attempt adds some.
pub const JOURNAL_QUEUE_BYTES_MAX: u64 = 32 << 20;
/// Bytes of all records of one attempt, from its start to the end of its delivery: an attempt starts only if the store has
/// room for those of all that are under way. What is largest are the texts of an event that ends undelivered, twice 1.5 KiB.
pub const ATTEMPT_RECORDS_BYTES_MAX: u64 = 4 << 10;
/// Bytes that one delivery takes at most in a record of many: one that moves what was held, or drops what is purged.
pub const DELIVERY_ROW_BYTES_MAX: u64 = 128;
/// Changes of declarations that wait for the one under way.
pub const CHANGES_WAITING_MAX: usize = 256;

/// Deliveries of an ordered subscription that are begun and not settled: their keys are in memory, and so is who waits for whom.
/// Beyond, new events wait in the log, whatever their keys.
pub const ORDERED_OPEN_MAX: usize = 8_192;

// --- declarations ---

/// Filters of one subscription that are in force at a time, each for the events from its own on: more than one while the
/// subscription stands before events that an earlier filter decides about (paused, or far behind). All of them are in
/// memory, and each event that it comes to is matched with one of them.
pub const FILTERS_IN_FORCE_MAX: usize = 100;
/// `quotas.topics` at most: all of them are in memory.
pub const TOPICS_MAX: usize = 10_000;
/// `quotas.domains` at most: all of them are in memory.
pub const DOMAINS_MAX: usize = 10_000;
/// `quotas.topics_per_domain` at most: all of them are in memory.
pub const TOPICS_PER_DOMAIN_MAX: usize = 1_000_000;
/// `quotas.domain_subscriptions` at most: each published event is offered to all of them.
pub const DOMAIN_SUBSCRIPTIONS_MAX: usize = 10_000;
/// Subscriptions of a domain and all its topics: all of them are in memory, of every domain.
pub const SUBSCRIPTIONS_PER_DOMAIN_MAX: usize = 1_000_000;
/// `quotas.subscriptions_per_topic` at most: all of them are in memory.
pub const SUBSCRIPTIONS_PER_TOPIC_MAX: usize = 10_000;
