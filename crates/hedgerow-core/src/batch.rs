//! Which due deliveries travel in one request, and what a final failure of such a request means for them.
//!
//! Decides section 6 of the delivery specification (ED-211 to ED-221). A batch is formed when a request may start, from what
//! is due then, in its order; nobody waits for it to fill ([`Filling`]). What differs in its [`Alike`] is passed over and
//! begins the next one. A batch succeeds or fails as a whole; a subscription may ask that its events are sent apart instead,
//! where the answer would end them all ([`divide`]).

use std::ops::Range;

use crate::limits;
use crate::outcome::Verdict;

/// How much may travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Events, never exceeded (ED-212).
    pub events_max: usize,
    /// Bytes of the request's body with brackets and commas, exceeded only by an event that is larger by itself (ED-213,
    /// ED-214).
    pub preferred_bytes: usize,
}

impl BatchLimits {
    /// The limits of these two settings; `None` if batching is off, as it is without both (ED-211, ED-217).
    #[must_use]
    pub fn new(events_max: Option<u16>, preferred_kilobytes: Option<u16>) -> Option<Self> {
        if events_max.is_none() && preferred_kilobytes.is_none() {
            return None;
        }
        let events_max = events_max.unwrap_or(limits::BATCH_EVENTS_DEFAULT);
        let kilobytes = preferred_kilobytes.unwrap_or(limits::BATCH_KILOBYTES_DEFAULT);
        Some(Self {
            events_max: events_max.into(),
            preferred_bytes: usize::from(kilobytes) * KILOBYTE,
        })
    }
}

/// Bytes (ED-214).
const KILOBYTE: usize = 1_024;

/// What all deliveries of a batch have in common (ED-220). What was never in a batch that came apart has no `group`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alike<H> {
    /// Attempts made so far.
    pub attempts: u16,
    /// The part of a divided batch that it belongs to: its first event's number.
    pub group: Option<u64>,
    /// The values of its custom headers; one that is left out differs from an empty one.
    pub headers: H,
}

/// A body that is being filled with what is alike.
#[derive(Debug, Clone)]
pub struct Filling<A> {
    limits: BatchLimits,
    /// That of the first event.
    alike: Option<A>,
    events: usize,
    bytes: usize,
}

/// What becomes of an event that might travel in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It does.
    Joins,
    /// It is of another kind, and begins the next one.
    PassedOver,
    /// There is no room for it: the batch is closed.
    Full,
}

impl<A: PartialEq> Filling<A> {
    /// An empty one.
    #[must_use]
    pub const fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            alike: None,
            events: 0,
            bytes: "[]".len(),
        }
    }

    /// Adds an event whose JSON has so many bytes, if it is alike and fits; the first one always does (ED-215).
    pub fn offer(&mut self, alike: A, event_bytes: usize) -> Offer {
        let Some(first) = &self.alike else {
            self.alike = Some(alike);
            self.events = 1;
            self.bytes += event_bytes;
            return Offer::Joins;
        };
        if *first != alike {
            return Offer::PassedOver;
        }
        let bytes = self.bytes + ",".len() + event_bytes;
        if self.events >= self.limits.events_max || bytes > self.limits.preferred_bytes {
            return Offer::Full;
        }
        self.events += 1;
        self.bytes = bytes;
        Offer::Joins
    }

    /// Whether no event can be added any more.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.events >= self.limits.events_max || self.bytes >= self.limits.preferred_bytes
    }

    /// Events in it.
    #[must_use]
    pub const fn events(&self) -> usize {
        self.events
    }

    /// Bytes of the body.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What a subscription wants of answers to its batches (ED-221).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnswerSettings {
    /// `batch.isolateOnFinal`: a final failure of a batch ends none of its events, they are sent one by one.
    pub isolate_on_final: bool,
    /// `batch.splitOn413`: so does a 413, and they are sent in two halves.
    pub split_on_413: bool,
    /// `batch.perEntryAcknowledgement`: a success may name events that failed.
    pub per_entry_acknowledgement: bool,
}

/// How a batch comes apart. Its events are due at once, and nothing is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// Each event in a request of its own.
    OneByOne,
    /// The first half, rounded down, and the rest.
    Halves,
}

impl Division {
    /// The parts of a batch of so many events, in their order.
    #[must_use]
    pub fn parts(self, events: usize) -> Vec<Range<usize>> {
        match self {
            Self::OneByOne => (0..events).map(|at| at..at + 1).collect(),
            Self::Halves => vec![0..events / 2, events / 2..events],
        }
    }
}

/// What becomes of a batch of so many events that met this; `None` if the verdict holds for each of them. A single event is
/// never divided: what it meets is about itself.
#[must_use]
pub const fn divide(
    settings: &AnswerSettings,
    events: usize,
    verdict: &Verdict,
) -> Option<Division> {
    if events < 2 {
        return None;
    }
    match verdict {
        Verdict::Final {
            status: TOO_LARGE, ..
        }
        | Verdict::Retry {
            status: TOO_LARGE, ..
        } if settings.split_on_413 => Some(Division::Halves),
        Verdict::Final { .. } if settings.isolate_on_final => Some(Division::OneByOne),
        _ => None,
    }
}

const TOO_LARGE: u16 = 413;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::{DeadLetterReason, Outcome};

    const fn is_final(status: u16) -> Verdict {
        Verdict::Final {
            outcome: Outcome::BadRequest,
            status,
            reason: DeadLetterReason::UndeliverableDueToClientError,
        }
    }

    /// ED-211, ED-217: either setting is enough, and the other one has a default.
    #[test]
    fn the_setting_that_is_not_given_has_a_default() {
        let limits = |events_max, kilobytes: usize| {
            Some(BatchLimits {
                events_max,
                preferred_bytes: kilobytes * 1_024,
            })
        };
        assert_eq!(BatchLimits::new(None, None), None);
        assert_eq!(BatchLimits::new(Some(3), None), limits(3, 64));
        assert_eq!(BatchLimits::new(None, Some(7)), limits(10, 7));
        assert_eq!(BatchLimits::new(Some(1), Some(1)), limits(1, 1));
    }

    /// ED-213, ED-214, ED-215: to the byte, with brackets and commas; what is larger by itself goes alone.
    #[test]
    fn a_body_is_filled_to_the_byte() {
        let limits = BatchLimits {
            events_max: 3,
            preferred_bytes: 100,
        };
        let filled = |bytes: &[usize]| {
            let mut filling = Filling::new(limits);
            let offers: Vec<_> = bytes
                .iter()
                .map(|bytes| filling.offer((), *bytes))
                .collect();
            (offers, filling.events(), filling.bytes(), filling.is_full())
        };
        let (joins, full) = (Offer::Joins, Offer::Full);
        assert_eq!(filled(&[40]), (vec![joins], 1, 42, false));
        assert_eq!(
            filled(&[40, 58, 57, 0]),
            (vec![joins, full, joins, full], 2, 100, true)
        );
        assert_eq!(filled(&[1_000, 1]), (vec![joins, full], 1, 1_002, true));
        assert_eq!(
            filled(&[1, 1, 1, 1]),
            (vec![joins, joins, joins, full], 3, 7, true),
            "ED-212"
        );
    }

    /// ED-220: what differs is passed over, whatever room there is.
    #[test]
    fn only_what_is_alike_travels_together() {
        let alike = |attempts, group, header: Option<&'static str>| Alike {
            attempts,
            group,
            headers: header,
        };
        let limits = BatchLimits::new(Some(10), None).unwrap();
        let mut filling = Filling::new(limits);
        for (offered, expected) in [
            (alike(1, None, Some("a")), Offer::Joins),
            (alike(0, None, Some("a")), Offer::PassedOver),
            (alike(1, Some(7), Some("a")), Offer::PassedOver),
            (alike(1, None, Some("A")), Offer::PassedOver),
            (alike(1, None, None), Offer::PassedOver),
            (alike(1, None, Some("a")), Offer::Joins),
        ] {
            assert_eq!(filling.offer(offered, 10), expected);
        }
    }

    /// ED-221: what comes apart, and how.
    #[test]
    fn a_batch_comes_apart_where_it_is_asked_to() {
        let isolate = AnswerSettings {
            isolate_on_final: true,
            ..AnswerSettings::default()
        };
        let split = AnswerSettings {
            split_on_413: true,
            ..AnswerSettings::default()
        };
        let both = AnswerSettings {
            isolate_on_final: true,
            ..split
        };
        let retry = |status| Verdict::Retry {
            outcome: Outcome::PayloadTooLarge,
            status,
            floor: Duration::ZERO,
            retry_after: None,
        };
        let (alone, halves) = (Some(Division::OneByOne), Some(Division::Halves));
        for (settings, events, verdict, expected) in [
            (AnswerSettings::default(), 4, is_final(400), None),
            (AnswerSettings::default(), 4, is_final(413), None),
            (isolate, 4, is_final(400), alone),
            (isolate, 4, is_final(413), alone),
            (isolate, 1, is_final(400), None),
            (isolate, 4, retry(500), None),
            (isolate, 4, Verdict::Success, None),
            (split, 4, is_final(413), halves),
            (split, 1, is_final(413), None),
            (split, 4, is_final(400), None),
            (split, 4, retry(413), halves),
            (both, 4, is_final(413), halves),
            (both, 4, is_final(400), alone),
        ] {
            assert_eq!(divide(&settings, events, &verdict), expected);
        }
        assert_eq!(Division::Halves.parts(5), [0..2, 2..5]);
        assert_eq!(Division::OneByOne.parts(2), [0..1, 1..2]);
    }
}
