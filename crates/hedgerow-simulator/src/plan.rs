//! What a seed means: what is declared, what is published when, how every receiver feels at every time, and what breaks.

mod acts;
mod endpoints;
mod subscriptions;

use std::time::Duration;

use hedgerow_core::retry::Jitter;
use hedgerow_delivery::replay::ReplaySteer;
use hedgerow_delivery::settings::EngineSettings;
use hedgerow_store::log::LogOptions;
use serde_json::Value;

use self::acts::acts;
use self::endpoints::endpoint;
pub use self::endpoints::mood;
use self::subscriptions::subscription;
use crate::dice::Dice;

/// The types that events have.
pub const EVENT_TYPES: [&str; 3] = ["Orders.Created", "Orders.Paid", "Stock.Low"];

/// The topics of domains that there are subscriptions for, perhaps.
pub const DOMAIN_TOPICS: [&str; 2] = ["foo-0", "Foo-1"];
/// Those that events name: some in another case, some with no subscription.
pub const NAMED_TOPICS: [&str; 5] = ["foo-0", "foo-0", "foo-1", "Foo-1", "foo-2"];

/// What deliveries are signed with that are signed: 24 bytes.
pub const SIGNING_SECRET: &str = "whsec_aHVuZHJlZHMgb2Ygb2xkIGhlZGdlcm93";
/// The header that says an event's subject, where that is declared.
pub const SUBJECT_HEADER: &str = "x-subject";

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Everything that is decided before the first moment.
#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    /// How long things break; afterwards nothing does.
    pub faults: Duration,
    /// Whether nothing ends while things are declared.
    pub declares_in_peace: bool,
    pub settings: EngineSettings,
    pub log: LogOptions,
    pub topics: Vec<String>,
    /// What they are.
    pub kinds: Vec<TopicKind>,
    pub subscriptions: Vec<SubscriptionPlan>,
    pub endpoints: Vec<EndpointPlan>,
    pub publications: Vec<Publication>,
    pub lives: Vec<LifePlan>,
    /// How dead letters can be written: until when, and how it goes.
    pub letters: Vec<(Duration, LetterMood)>,
    /// When the disk holds no more than so many bytes, and for how long.
    pub full: Vec<(Duration, Duration, u64)>,
    /// When the wall clock is set, and by how many milliseconds.
    pub clock_steps: Vec<(Duration, i64)>,
    /// When an operator does something.
    pub acts: Vec<(Duration, Act)>,
    /// The longest time from a record to the sync that covers it.
    pub commit_ms: u64,
    /// The longest time that work beside the engine takes.
    pub aside_ms: u64,
}

/// What is published to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicKind {
    Topic,
    Domain,
    /// A domain of CloudEvents, whose topics a header names.
    CloudDomain,
}

impl TopicKind {
    fn of(seed: u64, number: u64) -> Self {
        let mut dice = Dice::of(&[seed, 50, number]);
        dice.pick(&[
            Self::Topic,
            Self::Topic,
            Self::Topic,
            Self::Domain,
            Self::CloudDomain,
        ])
    }
}

/// A subscription to declare.
#[derive(Debug)]
pub struct SubscriptionPlan {
    pub name: String,
    pub topic: usize,
    /// The one topic of the domain that it is for.
    pub domain_topic: Option<&'static str>,
    pub json: Value,
}

/// Where things are delivered.
#[derive(Debug)]
pub struct EndpointPlan {
    pub host: String,
    /// How it feels, each until a time; afterwards it is well.
    pub moods: Vec<(Duration, Mood)>,
    /// While things break it answers 413 to more events than this.
    pub events_max: Option<usize>,
    /// While things break it answers 400 to whatever holds one of these: so many events in a hundred.
    pub poisoned: u64,
}

/// How an endpoint feels.
#[derive(Debug, Clone, Copy)]
pub enum Mood {
    Well,
    /// Answers this, so many times in a hundred.
    Status(u16, u64),
    /// 429 or 503, and when to come back, in seconds.
    Later(u16, u64),
    /// Takes the request and says nothing.
    Silent,
    /// Answers well, after so many seconds at most.
    Slow(u64),
    /// Answers around the timeout, to the millisecond.
    Edge,
    /// Closes the connection, before or in the middle of an answer.
    Resets,
    /// Nobody listens.
    Refuses,
    /// The name is not known.
    Nameless,
    /// A connection is never open.
    Unreachable,
    /// TLS fails.
    Untrusted,
    /// What it says is no HTTP.
    Babbles,
    /// Its head comes at once, its body does not end.
    SlowBody,
    /// All of these.
    Any,
}

/// How the dead-letter store feels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterMood {
    Works,
    Fails,
    NotFound,
    Full,
    Silent,
    /// Keeps the blob and never answers.
    Mute,
}

/// A publish request.
#[derive(Debug, Clone, Copy)]
pub struct Publication {
    pub at: Duration,
    pub topic: usize,
    pub events: u64,
    pub bytes: usize,
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is killed; what it wrote stays.
    Kill,
    /// The power goes.
    Cut,
    /// It stops in order.
    Stop,
    /// A sync fails; the process opens its store again.
    FailedSync,
}

/// When it does.
#[derive(Debug, Clone, Copy)]
pub enum When {
    /// After so long a time.
    After(Duration),
    /// At so manieth thing it does with the world: a record, a connection, a sync, a read.
    AtStep(u64),
    /// In the middle of so manieth change of the disk.
    AtMutation(u64),
}

/// One life of the process, or of the store in it.
#[derive(Debug, Clone, Copy)]
pub struct LifePlan {
    pub end: End,
    pub when: When,
    /// How long the machine is down then.
    pub down: Duration,
}

/// What an operator does.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Pause(usize),
    Resume(usize),
    Reset(usize),
    /// Declares the subscription again with other limits.
    Limits(usize, u16, u32),
    Purge(usize),
    /// Has its dead letters delivered again.
    Replay(usize, ReplayPlan),
    /// Stops the replay of its dead letters that is under way, lets it go on, or ends it.
    Steer(usize, ReplaySteer),
    /// Deletes the subscription.
    Delete(usize),
    /// Declares it as it was at first, perhaps after it was deleted.
    Declare(usize),
    /// Declares it with another endpoint.
    Move(usize, usize),
}

/// Which dead letters, to whom and how fast.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // Each is drawn by itself.
pub struct ReplayPlan {
    pub per_second: u32,
    /// It is stopped between its first step and its second.
    pub is_stopped: bool,
    pub to_topic: bool,
    /// Only those that were written so lately.
    pub within: Option<Duration>,
    /// Only those of the newest blob.
    pub only_newest: bool,
    pub is_dry_run: bool,
}

impl Plan {
    /// What this seed means.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::of(&[seed, 1]);
        let faults = dice.seconds(HOUR..=dice_hours(&mut Dice::of(&[seed, 2])) * HOUR);
        let topics: Vec<String> = (0..dice.between(1..=2))
            .map(|n| format!("topic{n}"))
            .collect();
        let kinds: Vec<TopicKind> = (0..topics.len() as u64)
            .map(|n| TopicKind::of(seed, n))
            .collect();
        let endpoints: Vec<EndpointPlan> = (0..dice.between(1..=4))
            .map(|n| endpoint(seed, n, faults))
            .collect();
        let subscriptions: Vec<SubscriptionPlan> = (0..dice.between(1..=6))
            .map(|n| subscription(seed, n, &kinds, &endpoints, faults))
            .collect();
        let acts = acts(seed, faults, &subscriptions, endpoints.len());
        Self {
            seed,
            faults,
            declares_in_peace: dice.percent(90),
            settings: settings(seed),
            log: log(seed),
            publications: publications(seed, faults, topics.len()),
            lives: lives(seed),
            letters: letters(seed, faults),
            full: full(seed, faults),
            clock_steps: clock_steps(seed, faults),
            acts,
            commit_ms: dice.pick(&[0, 2, 10, 10, 200, 2_000]),
            aside_ms: dice.pick(&[0, 5, 50, 500, 5_000]),
            kinds,
            topics,
            subscriptions,
            endpoints,
        }
    }

    /// Where a subscription delivers if it is to deliver to this host.
    pub fn url(host: &str, subscription: &str) -> String {
        format!("https://{host}/hook?code={subscription}")
    }

    /// What a subscription is made for, as people name it.
    pub fn source(&self, subscription: &SubscriptionPlan) -> String {
        let topic = &self.topics[subscription.topic];
        match &subscription.domain_topic {
            None => topic.clone(),
            Some(name) => format!("{topic}/topics/{name}"),
        }
    }
}

/// Most days are short, so that many of them can be had.
fn dice_hours(dice: &mut Dice) -> u64 {
    dice.pick(&[2, 4, 8, 24, 48])
}

fn settings(seed: u64) -> EngineSettings {
    let mut dice = Dice::of(&[seed, 3]);
    let mut settings = EngineSettings::default();
    settings.validation.is_enabled = Dice::of(&[seed, 53]).percent(40);
    "https://events.example".clone_into(&mut settings.public_url);
    "events.example".clone_into(&mut settings.webhook_origin);
    if dice.percent(40) {
        settings.retry.jitter = Jitter::OFF;
    }
    settings.attempts_max = dice.pick(&[4096, 4096, 16, 3]);
    settings.unsettled_successes_max = dice.pick(&[1000, 1000, 20, 2]);
    settings.late_exchanges_per_subscription_max = dice.pick(&[1000, 1000, 3, 1]);
    settings.late_exchanges_max = dice.pick(&[10_000, 10_000, 4]);
    settings.released_per_second = dice.pick(&[100, 100, 5, 1]);
    settings.ended_per_second = dice.pick(&[5_000, 5_000, 10]);
    settings.checkpoint_interval = dice.pick(&[5, 5, 1, 60]).seconds();
    settings.checkpoint_bytes = dice.pick(&[16 << 20, 16 << 20, 64 << 10]);
    settings.drain = dice.pick(&[25, 25, 1, 200]).seconds();
    settings
}

fn log(seed: u64) -> LogOptions {
    let mut dice = Dice::of(&[seed, 4]);
    LogOptions {
        segment_bytes: 64 << 10,
        bytes_max: dice.pick(&[64 << 20, 8 << 20, 2 << 20]),
        keep_after: dice.pick(&[0, 0, 600]).seconds(),
        disk_reserve_bytes: 0,
        ring_bytes: dice.pick(&[4 << 20, 64 << 10, 16 << 10]),
        group_bytes_max: 32 << 10,
        queue_bytes_max: 1 << 20,
        zeroed_segments: 1,
        free_segments_max: 4,
    }
}

fn publications(seed: u64, faults: Duration, topics: usize) -> Vec<Publication> {
    let mut dice = Dice::of(&[seed, 7]);
    let count = dice.pick(&[5, 20, 60, 120]);
    let large = dice.percent(30);
    let mut publications = Vec::new();
    while publications.len() < count {
        let at = dice.millis(0..=faults.as_millis() as u64);
        // Alone, or one of a burst.
        let burst = dice.pick(&[1, 1, 1, 2, 5, 20]);
        let topic = dice.between(0..=topics as u64 - 1) as usize;
        for _ in 0..burst {
            publications.push(Publication {
                at: at + dice.millis(0..=dice.clone().pick(&[0, 100, 30_000])),
                topic,
                events: dice.pick(&[1, 1, 1, 2, 5]),
                bytes: if large {
                    dice.pick(&[10, 1_000, 8_000])
                } else {
                    10
                },
            });
        }
    }
    publications.sort_by_key(|publication| publication.at);
    publications
}

fn lives(seed: u64) -> Vec<LifePlan> {
    let mut dice = Dice::of(&[seed, 8]);
    let count = dice.pick(&[0, 1, 3, 8, 20]);
    (0..count)
        .map(|_| {
            let end = dice.pick(&[
                End::Kill,
                End::Kill,
                End::Cut,
                End::Cut,
                End::Cut,
                End::Stop,
                End::FailedSync,
                End::FailedSync,
            ]);
            let after = dice.pick(&[1, 30, 10 * MINUTE, 2 * HOUR, 6 * HOUR]);
            let when = match (end, dice.between(0..=2)) {
                (End::Kill | End::Cut, 0) => {
                    When::AtStep(dice.between(1..=dice.clone().pick(&[20, 300, 2_000])))
                }
                (End::Kill | End::Cut, 1) => {
                    When::AtMutation(dice.between(1..=dice.clone().pick(&[10, 200, 2_000])))
                }
                _ => When::After(dice.seconds(0..=after)),
            };
            LifePlan {
                end,
                when,
                down: dice.seconds(0..=dice.clone().pick(&[0, 0, 1, 60, 10 * MINUTE, 2 * HOUR])),
            }
        })
        .collect()
}

fn letters(seed: u64, faults: Duration) -> Vec<(Duration, LetterMood)> {
    let mut dice = Dice::of(&[seed, 9]);
    let mut moods = Vec::new();
    let mut at = Duration::ZERO;
    while at < faults {
        let mood = dice.pick(&[
            LetterMood::Works,
            LetterMood::Works,
            LetterMood::Works,
            LetterMood::Fails,
            LetterMood::NotFound,
            LetterMood::Full,
            LetterMood::Silent,
            LetterMood::Mute,
        ]);
        at = faults.min(at + dice.seconds(1..=6 * HOUR));
        moods.push((at, mood));
    }
    moods
}

fn full(seed: u64, faults: Duration) -> Vec<(Duration, Duration, u64)> {
    let mut dice = Dice::of(&[seed, 12]);
    let count = dice.pick(&[0, 0, 0, 0, 1, 3]);
    let mut times: Vec<_> = (0..count)
        .map(|_| {
            let at = dice.millis(0..=faults.as_millis() as u64);
            let span = dice.seconds(1..=dice.clone().pick(&[10, HOUR, 4 * HOUR]));
            (at, span, dice.pick(&[1, 400 << 10, 1 << 20]))
        })
        .collect();
    times.sort_unstable();
    times
}

fn clock_steps(seed: u64, faults: Duration) -> Vec<(Duration, i64)> {
    let mut dice = Dice::of(&[seed, 10]);
    let count = dice.pick(&[0, 0, 1, 4]);
    let mut steps: Vec<_> = (0..count)
        .map(|_| {
            let at = dice.millis(0..=faults.as_millis() as u64);
            let step = dice.pick(&[
                25 * 3_600_000,
                -2 * 3_600_000,
                1_000,
                -1_000,
                60_000,
                -3_600_000,
            ]);
            (at, step)
        })
        .collect();
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// Seconds, said briefly.
trait Seconds {
    fn seconds(self) -> Duration;
}

impl Seconds for u64 {
    fn seconds(self) -> Duration {
        Duration::from_secs(self)
    }
}
