//! When the next attempt of a delivery is, or that there is none.
//!
//! Decides section 5 of the delivery specification: slots (ED-191 to ED-197), jitter (ED-198, ED-199), limits (ED-200 to
//! ED-206), crashes and restarts (ED-189, ED-190, ED-207, ED-208), starts that failed (ED-315), and which success is a
//! late one (ED-178). What an answer means is [`crate::outcome`]; who may start when is decided elsewhere.
//!
//! ```text
//!                    is_expired ──────────────────────────────▶ Dead(TimeToLiveExceeded)
//!                        │ no
//!  due ────────────▶ attempt ── success, or is_late_success ──▶ delivered
//!   ▲                    │
//!   │   after_failure ◀──┤ fails          ── attempt limit ───▶ Dead(MaxDeliveryAttemptsExceeded)
//!   │   after_no_start ◀─┤ not started
//!   │   after_abort ◀────┤ ended by us    ── attempt limit ───▶ Dead(MaxDeliveryAttemptsExceeded)
//!   └── after_crash ◀────┘ end not known  ── attempt limit, third crash ──▶ Dead
//! ```
//!
//! All times are [`Timestamp`]s in server time. A due time is always later than the end of the attempt before it, except
//! after an abort or a crash, where it may equal the present.

use std::hash::Hasher;
use std::str::FromStr;
use std::time::Duration;

use siphasher::sip::SipHasher13;

use crate::limits;
use crate::outcome::{DeadLetterReason, Floors, Outcome};
use crate::position::SubscriptionId;
use crate::time::Timestamp;

/// How slots are read (ED-193).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlotMode {
    /// Offsets from the start of the first attempt.
    #[default]
    Offset,
    /// Delays after the end of the attempt before.
    Delay,
}

impl SlotMode {
    /// The name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Offset => "offset",
            Self::Delay => "delay",
        }
    }
}

impl FromStr for SlotMode {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text {
            "offset" => Ok(Self::Offset),
            "delay" => Ok(Self::Delay),
            _ => Err(SettingsError("slotMode must be \"offset\" or \"delay\"")),
        }
    }
}

/// A retry setting that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(&'static str);

/// How much is added to a slot by chance (ED-198).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// At most this part of the slot's offset, in percent. 0 switches jitter off.
    pub percent: u32,
    /// And at most this.
    pub max: Duration,
}

impl Jitter {
    /// None at all, as in the worked timelines.
    pub const OFF: Self = Self {
        percent: 0,
        max: Duration::ZERO,
    };
}

impl Default for Jitter {
    fn default() -> Self {
        Self {
            percent: 10,
            max: Duration::from_secs(30),
        }
    }
}

/// The settings of the schedule; the defaults are the specification's (ED-004).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrySettings {
    /// The slots that are written out, increasing. In offset mode counted from T0, in delay mode from F.
    pub slots: Vec<Duration>,
    /// After the last slot: the distance of further ones, or in delay mode the delay that repeats.
    pub repeat: Duration,
    /// How slots are read.
    pub slot_mode: SlotMode,
    /// What is added by chance.
    pub jitter: Jitter,
    /// An answer that takes no longer than this does not push the floor past a slot (ED-195).
    pub latency_allowance: Duration,
    /// The least waits after each outcome.
    pub floors: Floors,
    /// After a crash: the least time between the start of the lost attempt and the next one (ED-207).
    pub crash_delay: Duration,
    /// In flight during this many crashes in a row, a delivery is given up (ED-190).
    pub crashes_max: u8,
    /// How long after its start an attempt may still succeed, if it timed out before (ED-178).
    pub late_success_window: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        let slots = [10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200];
        Self {
            slots: slots.map(Duration::from_secs).to_vec(),
            repeat: Duration::from_secs(43_200),
            slot_mode: SlotMode::Offset,
            jitter: Jitter::default(),
            latency_allowance: Duration::from_secs(1),
            floors: Floors::default(),
            crash_delay: Duration::from_secs(30),
            crashes_max: 3,
            late_success_window: Duration::from_secs(180),
        }
    }
}

impl RetrySettings {
    /// Checks what the types do not say. The functions of this module give finite schedules for unchecked settings too,
    /// only not sensible ones.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.slots.is_empty() || self.slots.len() > limits::RETRY_SLOTS_MAX {
            return Err(SettingsError("slots must have 1 to 100 entries"));
        }
        if self.slots[0] < STEP_MIN || self.repeat < STEP_MIN {
            return Err(SettingsError("slots and repeat must be at least 100ms"));
        }
        if !self.slots.is_sorted_by(|a, b| a < b) {
            return Err(SettingsError("slots must increase"));
        }
        if self.jitter.percent > 100 {
            return Err(SettingsError("jitter must be 0 to 100 percent"));
        }
        if self.crashes_max == 0 {
            return Err(SettingsError("crashesMax must be at least 1"));
        }
        Ok(())
    }

    /// What slot `index` (from 0) says, jitter left out: an offset or a delay.
    #[must_use]
    pub fn slot(&self, index: u32) -> Duration {
        let written = self.slots.len() as u32;
        if let Some(slot) = self.slots.get(index as usize) {
            return *slot;
        }
        match self.slot_mode {
            SlotMode::Delay => self.repeat,
            SlotMode::Offset => {
                let last = self.slots.last().copied().unwrap_or_default();
                last.saturating_add(
                    self.step()
                        .saturating_mul((index - written).saturating_add(1)),
                )
            }
        }
    }

    fn step(&self) -> Duration {
        self.repeat.max(STEP_MIN)
    }
}

/// The smallest distance of slots: keeps a slip of the pen from becoming a hot loop.
const STEP_MIN: Duration = Duration::from_millis(100);

/// The limits of a subscription, read when a check is made (ED-206).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts, the first one included.
    pub max_delivery_attempts: u16,
    /// Age from publishing on, at which a due delivery has expired.
    pub event_time_to_live: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_delivery_attempts: *limits::DELIVERY_ATTEMPTS.end(),
            event_time_to_live: minutes(*limits::TIME_TO_LIVE_MINUTES.end()),
        }
    }
}

/// A time to live as users declare it.
#[must_use]
pub const fn minutes(count: u32) -> Duration {
    Duration::from_secs(count as u64 * 60)
}

/// What happens to a delivery that was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is due at this time.
    Due(Timestamp),
    /// It is given up now.
    Dead(DeadLetterReason),
}

/// Which delivery: what its jitter is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryKey {
    /// The subscription that is owed the event.
    pub subscription: SubscriptionId,
    /// The event's number in the subscription's topic.
    pub seq: u64,
}

/// An attempt that ended with [`crate::outcome::Verdict::Retry`].
#[derive(Debug, Clone, Copy)]
pub struct FailedAttempt {
    /// Whose attempt.
    pub key: DeliveryKey,
    /// Attempts made, this one included.
    pub attempts: u16,
    /// T0: when the first attempt started.
    pub first_attempt: Timestamp,
    /// S: when this attempt started.
    pub started: Timestamp,
    /// F: when its outcome was known.
    pub ended: Timestamp,
    /// From the verdict.
    pub floor: Duration,
    /// From the verdict.
    pub retry_after: Option<Duration>,
    /// The end of a hold (probation, delayed delivery) that is known now.
    pub hold_until: Option<Timestamp>,
}

/// Decides what follows a failed attempt: the attempt limit first (ED-204), then the first slot at or after E and after
/// F (ED-195).
#[must_use]
pub fn after_failure(
    settings: &RetrySettings,
    policy: &RetryPolicy,
    failed: &FailedAttempt,
) -> Next {
    if failed.attempts >= policy.max_delivery_attempts {
        return Next::Dead(DeadLetterReason::MaxDeliveryAttemptsExceeded);
    }
    let floor_from = floor_base(settings, failed.started, failed.ended);
    let asked_for = failed.ended.plus(failed.retry_after.unwrap_or_default());
    let hold = failed.hold_until.unwrap_or(Timestamp::ZERO);
    Next::Due(next_due(
        settings,
        &Wait {
            key: failed.key,
            base: failed.first_attempt,
            attempts: failed.attempts,
            earliest: floor_from.plus(failed.floor).max(asked_for).max(hold),
            after: failed.ended,
        },
    ))
}

/// G of ED-195: the start of an attempt that was answered quickly, else its end. Floors and holds count from it.
#[must_use]
pub fn floor_base(settings: &RetrySettings, started: Timestamp, ended: Timestamp) -> Timestamp {
    if ended.since(started) <= settings.latency_allowance {
        started
    } else {
        ended
    }
}

/// An attempt that could not be started.
#[derive(Debug, Clone, Copy)]
pub struct NotStarted {
    /// Whose attempt.
    pub key: DeliveryKey,
    /// Attempts made before; this one is none.
    pub attempts: u16,
    /// T0, or when the delivery was first due if there was no attempt yet.
    pub base: Timestamp,
    /// When the start was tried.
    pub tried: Timestamp,
    /// When it was known that it failed.
    pub ended: Timestamp,
    /// From the verdict.
    pub floor: Duration,
    /// The end of a hold that is known now.
    pub hold_until: Option<Timestamp>,
}

/// Says when a delivery is due whose attempt could not be started. Nothing is counted (ED-315).
#[must_use]
pub fn after_no_start(settings: &RetrySettings, tried: &NotStarted) -> Timestamp {
    let floor_from = floor_base(settings, tried.tried, tried.ended);
    let hold = tried.hold_until.unwrap_or(Timestamp::ZERO);
    next_due(
        settings,
        &Wait {
            key: tried.key,
            base: tried.base,
            attempts: tried.attempts,
            earliest: floor_from.plus(tried.floor).max(hold),
            after: tried.ended,
        },
    )
}

/// Says when a held retry is due: at its first slot at or after the end of the hold (ED-228). `due` is the slot at which
/// it was held.
#[must_use]
pub fn after_hold(
    settings: &RetrySettings,
    key: DeliveryKey,
    first_attempt: Timestamp,
    due: Timestamp,
    hold_until: Timestamp,
) -> Timestamp {
    match settings.slot_mode {
        SlotMode::Delay => hold_until.max(due),
        SlotMode::Offset => first_slot(settings, key, first_attempt, hold_until.max(due), None),
    }
}

/// An attempt that this process ended itself: a shutdown whose drain took too long (ED-189).
#[must_use]
pub fn after_abort(policy: &RetryPolicy, attempts: u16, ended: Timestamp) -> Next {
    if attempts >= policy.max_delivery_attempts {
        return Next::Dead(DeadLetterReason::MaxDeliveryAttemptsExceeded);
    }
    Next::Due(ended)
}

/// An attempt that was found without an end when the store was opened.
#[derive(Debug, Clone, Copy)]
pub struct CrashedAttempt {
    /// Attempts made, this one included.
    pub attempts: u16,
    /// When it started.
    pub started: Timestamp,
    /// Crashes in a row during which the delivery was in flight, this one included.
    pub crashes: u8,
    /// When the store was opened.
    pub now: Timestamp,
}

/// Decides what follows an attempt without a recorded end, and what it is remembered as (ED-190, ED-207).
#[must_use]
pub fn after_crash(
    settings: &RetrySettings,
    policy: &RetryPolicy,
    crashed: &CrashedAttempt,
) -> (Next, Outcome) {
    if crashed.crashes >= settings.crashes_max {
        let reason = DeadLetterReason::UndeliverableDueToRepeatedCrash;
        return (Next::Dead(reason), Outcome::Aborted);
    }
    let next = if crashed.attempts >= policy.max_delivery_attempts {
        Next::Dead(DeadLetterReason::MaxDeliveryAttemptsExceeded)
    } else {
        Next::Due(crashed.now.max(crashed.started.plus(settings.crash_delay)))
    };
    (next, Outcome::Delivering)
}

/// Says when a delivery counts as due that was waiting while the server was away, from `stopped` to `started`: that is the time
/// its expiry is judged by. If its time passed meanwhile it is due at the start (ED-208). If it had passed before, and the
/// delivery had to wait for its turn, only the time that the server was away is added: a restart ends nothing that would have
/// been attempted without it.
#[must_use]
pub fn after_restart(due: Timestamp, stopped: Timestamp, started: Timestamp) -> Timestamp {
    if due < stopped {
        due.plus(started.since(stopped))
    } else {
        due.max(started)
    }
}

/// Says whether a delivery has expired when it is due; judged before each attempt, the first one included (ED-203).
#[must_use]
pub fn is_expired(policy: &RetryPolicy, published: Timestamp, due: Timestamp) -> bool {
    due.since(published) >= policy.event_time_to_live
}

/// Says whether a success that came `elapsed` after the start of its attempt is a late one: after the timeout, within
/// the window. Both ends are in time (ED-178). Later than that it is nothing.
#[must_use]
pub fn is_late_success(elapsed: Duration, timeout: Duration, window: Duration) -> bool {
    elapsed > timeout && elapsed <= window
}

/// The time that chance adds to slot `index` (from 0): uniform between nothing and the smaller of the two bounds, and
/// for one delivery always the same, with nothing to store (ED-198, ED-199).
#[must_use]
pub fn slot_jitter(settings: &RetrySettings, key: DeliveryKey, index: u32) -> Duration {
    let part = settings.slot(index).as_millis() * u128::from(settings.jitter.percent) / 100;
    let max = part.min(settings.jitter.max.as_millis());
    // The high half of a product with a uniform 64-bit number is uniform below the other factor.
    let draw = u128::from(jitter_hash(key, index));
    let millis = (draw * (max.min(u128::from(u64::MAX) - 1) + 1)) >> 64;
    Duration::from_millis(millis as u64)
}

/// Any fixed key does: nobody gains by choosing a position for its jitter. Changing it moves the due times of waiting
/// deliveries a little, nothing else.
const JITTER_KEY: (u64, u64) = (0x6865_6467_6572_6f77, 0x7265_7472_7920_736c);

fn jitter_hash(key: DeliveryKey, index: u32) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(JITTER_KEY.0, JITTER_KEY.1);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.seq.to_le_bytes());
    bytes[8..12].copy_from_slice(&key.subscription.0.to_le_bytes());
    bytes[12..].copy_from_slice(&index.to_le_bytes());
    hasher.write(&bytes);
    hasher.finish()
}

/// What [`next_due`] needs to know.
struct Wait {
    key: DeliveryKey,
    base: Timestamp,
    attempts: u16,
    /// E of ED-195.
    earliest: Timestamp,
    /// F of ED-195.
    after: Timestamp,
}

fn next_due(settings: &RetrySettings, wait: &Wait) -> Timestamp {
    match settings.slot_mode {
        SlotMode::Offset => first_slot(
            settings,
            wait.key,
            wait.base,
            wait.earliest,
            Some(wait.after),
        ),
        SlotMode::Delay => {
            let index = u32::from(wait.attempts.max(1) - 1);
            let delay = settings.slot(index).max(STEP_MIN);
            let jitter = slot_jitter(settings, wait.key, index);
            wait.after.plus(delay).plus(jitter).max(wait.earliest)
        }
    }
}

/// The first slot, jitter included, that is not before `earliest` and later than `after`.
fn first_slot(
    settings: &RetrySettings,
    key: DeliveryKey,
    base: Timestamp,
    earliest: Timestamp,
    after: Option<Timestamp>,
) -> Timestamp {
    let mut index = first_candidate(
        settings,
        base,
        earliest.max(after.unwrap_or(Timestamp::ZERO)),
    );
    loop {
        let time = base
            .plus(settings.slot(index))
            .plus(slot_jitter(settings, key, index));
        if time >= earliest && after.is_none_or(|after| time > after) {
            return time;
        }
        // Time stands still only at the end of time.
        if time == Timestamp::MAX || index == u32::MAX {
            return Timestamp::MAX;
        }
        index += 1;
    }
}

/// A slot that is surely before the one that is looked for, or the first one, so that a wait of years is no long loop.
/// Even with all the jitter there is, a slot with a whole step to go to `target` is too early.
fn first_candidate(settings: &RetrySettings, base: Timestamp, target: Timestamp) -> u32 {
    let written = settings.slots.len() as u32;
    let last = settings.slots.last().copied().unwrap_or_default();
    let surely_before = target
        .since(base)
        .saturating_sub(settings.jitter.max)
        .saturating_sub(last);
    let steps = surely_before.as_millis() / settings.step().as_millis();
    if steps < 2 {
        return 0;
    }
    u32::try_from(steps - 2)
        .unwrap_or(u32::MAX)
        .saturating_add(written)
}
