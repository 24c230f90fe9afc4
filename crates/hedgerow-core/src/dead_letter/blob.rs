//! What a dead-letter blob is called (ED-249), and what its name tells: when it was written, and of which topic, or of which topic
//! of a domain.
//!
//! The name ends in a UUID. Ours are of version 8: they begin with the time, so that the blobs of an hour stand in the order in
//! which they were written, and carry the topic with a check, so that a blob says whose it is where its container holds those of
//! several topics and keeps nothing beside the bytes.

use std::hash::Hasher;
use std::time::Duration;

use siphasher::sip::SipHasher13;

use crate::name::DomainTopicName;
use crate::position::TopicId;
use crate::time::Timestamp;
use crate::uuid::{is_uuid, uuid_text};

/// The name of a blob within its container (ED-249): the subscription's name in upper case, then year, month, day and hour
/// of the write in UTC without leading zeros, then `uuid`, which makes it the only one of that name.
#[must_use]
pub fn blob_name(subscription: &str, written: Timestamp, uuid: &str) -> String {
    let Hour(year, month, day, hour) = Hour::of(written);
    let directory = directory(subscription);
    format!("{directory}/{year}/{month}/{day}/{hour}/{uuid}.json")
}

fn directory(subscription: &str) -> String {
    subscription.to_ascii_uppercase()
}

/// An hour in UTC: year, month, day, hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hour(pub i16, pub i8, pub i8, pub i8);

impl Hour {
    /// The hour that a time lies in.
    #[must_use]
    pub fn of(time: Timestamp) -> Self {
        let seconds = i64::try_from(time.as_millis() / 1000).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
        let time = jiff::tz::Offset::UTC.to_datetime(time);
        Self(time.year(), time.month(), time.day(), time.hour())
    }

    /// When it begins; `None` if there is no such hour.
    #[must_use]
    pub fn begin(self) -> Option<Timestamp> {
        let Self(year, month, day, hour) = self;
        let time = jiff::civil::DateTime::new(year, month, day, hour, 0, 0, 0).ok()?;
        let time = jiff::tz::Offset::UTC.to_timestamp(time).ok()?;
        let millis = u64::try_from(time.as_millisecond()).ok()?;
        Some(Timestamp::from_millis(millis))
    }
}

/// The parts of a blob's name. Ordered by when the blobs were written, as far as their names tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobName<'a> {
    /// When it was written.
    pub hour: Hour,
    /// What makes it the only one.
    pub uuid: &'a str,
    /// The subscription's name in upper case.
    pub subscription: &'a str,
}

impl<'a> BlobName<'a> {
    /// Takes a name apart; `None` if no blob of ours is called so.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_suffix(".json")?.split('/');
        let subscription = parts.next()?;
        let hour = Hour(
            plain(parts.next()?)?,
            plain(parts.next()?)?,
            plain(parts.next()?)?,
            plain(parts.next()?)?,
        );
        let uuid = parts.next().filter(|uuid| is_uuid(uuid))?;
        let is_whole = parts.next().is_none() && hour.begin().is_some();
        (is_whole && !subscription.is_empty()).then_some(Self {
            hour,
            uuid,
            subscription,
        })
    }

    /// Whether it holds dead letters of a subscription of this name.
    #[must_use]
    pub fn is_of(&self, subscription: &str) -> bool {
        self.subscription == directory(subscription)
    }
}

/// A number as names have it: without leading zeros or a sign.
fn plain<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_plain = text == "0" || !text.starts_with('0');
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && is_number).then(|| text.parse().ok())?
}

/// What a subscription is for whose dead letters are in a blob. Subscriptions of one name are told apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetterSource(u32);

impl LetterSource {
    /// A topic, or a domain whatever the topic.
    #[must_use]
    pub const fn of_topic(topic: TopicId) -> Self {
        Self(topic.0)
    }

    /// One topic of a domain, whose name is compared without case (ED-078). Its number is drawn from the store's id and the name:
    /// that two of them have the same is less likely than one in a thousand millions.
    #[must_use]
    pub fn of_domain_topic(domain: TopicId, name: &DomainTopicName, store: &[u8; 16]) -> Self {
        let mut hasher = SipHasher13::new_with_key(store);
        hasher.write(&domain.0.to_le_bytes());
        hasher.write(name.as_str().to_ascii_lowercase().as_bytes());
        Self(hasher.finish() as u32)
    }
}

/// What the UUID of a blob tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobId {
    /// When it was written.
    pub written: Timestamp,
    /// What its subscription is for.
    pub source: LetterSource,
    /// Drawn: the only thing that tells two blobs of one millisecond apart.
    pub chance: u32,
}

const TIME_BITS: u32 = 48;
const SOURCE_BITS: u32 = 32;
const CHECK_BITS: u32 = 16;
const CHANCE_BITS: u32 = 26;
/// Bits of a UUID behind its variant.
const LOW_BITS: u32 = 62;
const VERSION: u128 = 8;

impl BlobId {
    /// An id for a blob that is written now. As many bits of `chance` as there is room for are taken.
    #[must_use]
    pub const fn new(written: Timestamp, source: LetterSource, chance: u32) -> Self {
        Self {
            written,
            source,
            chance: chance & ((1 << CHANCE_BITS) - 1),
        }
    }

    /// The id as UUID. `store` is the store's id: only with that is it read again.
    #[must_use]
    pub fn uuid(&self, store: &[u8; 16]) -> String {
        let time = u128::from(self.written.as_millis()) & ((1 << TIME_BITS) - 1);
        let told = u128::from(self.source.0) << (CHECK_BITS + CHANCE_BITS)
            | u128::from(self.check(store)) << CHANCE_BITS
            | u128::from(self.chance);
        let (high, low) = (told >> LOW_BITS, told & ((1 << LOW_BITS) - 1));
        let bits = time << 80 | VERSION << 76 | high << 64 | 0b10 << LOW_BITS | low;
        uuid_text(bits)
    }

    /// Reads a UUID; `None` if it is none of this store's blobs.
    #[must_use]
    pub fn parse(uuid: &str, store: &[u8; 16]) -> Option<Self> {
        if !is_uuid(uuid) {
            return None;
        }
        let bits = u128::from_str_radix(&uuid.replace('-', ""), 16).ok()?;
        if bits >> 76 & 0xf != VERSION || bits >> LOW_BITS & 0b11 != 0b10 {
            return None;
        }
        let high_bits = SOURCE_BITS + CHECK_BITS + CHANCE_BITS - LOW_BITS;
        let high = bits >> 64 & ((1 << high_bits) - 1);
        let told = high << LOW_BITS | bits & ((1 << LOW_BITS) - 1);
        let part = |shift: u32, width: u32| told >> shift & ((1 << width) - 1);
        let id = Self {
            written: Timestamp::from_millis((bits >> 80) as u64),
            source: LetterSource(part(CHECK_BITS + CHANCE_BITS, SOURCE_BITS) as u32),
            chance: part(0, CHANCE_BITS) as u32,
        };
        let check = part(CHANCE_BITS, CHECK_BITS);
        (check == u128::from(id.check(store))).then_some(id)
    }

    fn check(&self, store: &[u8; 16]) -> u16 {
        let mut hasher = SipHasher13::new_with_key(store);
        hasher.write(&self.written.as_millis().to_le_bytes());
        hasher.write(&self.source.0.to_le_bytes());
        hasher.write(&self.chance.to_le_bytes());
        hasher.finish() as u16
    }
}

/// A span of time, from its first moment to the one behind its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// From then on; `None` for ever.
    pub from: Option<Timestamp>,
    /// Before then; `None` for ever.
    pub to: Option<Timestamp>,
}

impl Span {
    /// Whether a time lies in it.
    #[must_use]
    pub fn has(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to)
    }

    /// Whether some of an hour does.
    #[must_use]
    pub fn has_of(&self, hour: Hour) -> bool {
        const HOUR: Duration = Duration::from_secs(3_600);
        hour.begin().is_some_and(|begin| {
            self.from.is_none_or(|from| from < begin.plus(HOUR))
                && self.to.is_none_or(|to| begin < to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: [u8; 16] = [7; 16];

    /// ED-249.
    #[test]
    fn a_name_is_taken_apart_as_it_was_put_together() {
        let at: Timestamp = "2019-08-08T05:59:59Z".parse().unwrap();
        let uuid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let name = blob_name("My-Sub", at, uuid);
        assert_eq!(name, format!("MY-SUB/2019/8/8/5/{uuid}.json"));
        let parsed = BlobName::parse(&name).unwrap();
        assert_eq!((parsed.hour, parsed.uuid), (Hour(2019, 8, 8, 5), uuid));
        assert!(parsed.is_of("my-sub") && !parsed.is_of("my-su"));
        assert_eq!(parsed.hour, Hour::of(at));
        let begin = parsed.hour.begin().unwrap();
        assert_eq!(begin.to_string(), "2019-08-08T05:00:00.0000000Z");
        for name in [
            format!("MY-SUB/2019/08/8/5/{uuid}.json"),
            format!("MY-SUB/2019/13/8/5/{uuid}.json"),
            format!("MY-SUB/2019/8/8/24/{uuid}.json"),
            format!("MY-SUB/2019/8/8/{uuid}.json"),
            format!("MY-SUB/2019/8/8/5/{uuid}"),
            format!("MY-SUB/2019/8/8/5/x{uuid}.json"),
            format!("a/MY-SUB/2019/8/8/5/{uuid}.json"),
            format!("/2019/8/8/5/{uuid}.json"),
            format!("MY-SUB/+2019/8/8/5/{uuid}.json"),
            "MY-SUB/2019/8/8/5/.probe-1.json".to_owned(),
            String::new(),
        ] {
            assert_eq!(BlobName::parse(&name), None, "{name}");
        }
    }

    #[test]
    fn names_stand_in_the_order_of_their_time() {
        let hour = 3_600_000;
        let times = [
            0,
            1,
            2 * hour,
            9 * hour,
            10 * hour,
            24 * hour * 40,
            24 * hour * 300,
        ];
        let names: Vec<_> = times
            .iter()
            .map(|millis| {
                let at = Timestamp::from_millis(1_893_553_445_000 + millis);
                let id = BlobId::new(at, LetterSource(3), 9);
                blob_name("the-sub", at, &id.uuid(&STORE))
            })
            .collect();
        let parsed: Vec<_> = names
            .iter()
            .map(|name| BlobName::parse(name).unwrap())
            .collect();
        assert!(parsed.is_sorted_by(|a, b| a < b), "{names:#?}");
    }

    #[test]
    fn an_id_tells_when_and_of_whom() {
        for (millis, source, chance) in [
            (0, 0, 0),
            (1_893_553_445_006, 1, 0x0155_5555),
            ((1 << 48) - 1, u32::MAX, (1 << 26) - 1),
        ] {
            let id = BlobId::new(Timestamp::from_millis(millis), LetterSource(source), chance);
            let uuid = id.uuid(&STORE);
            assert_eq!(uuid.as_bytes()[14], b'8', "{uuid}");
            assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
            assert_eq!(BlobId::parse(&uuid, &STORE), Some(id));
            assert_eq!(BlobId::parse(&uuid, &[8; 16]), None, "another store's");
            // No digit can be another one.
            for at in (0..36).filter(|at| !matches!(at, 8 | 13 | 18 | 23)) {
                let mut other = uuid.clone().into_bytes();
                other[at] = if other[at] == b'0' { b'1' } else { b'0' };
                let other = String::from_utf8(other).unwrap();
                assert_ne!(BlobId::parse(&other, &STORE), Some(id));
            }
        }
        let too_much = BlobId::new(Timestamp::ZERO, LetterSource(1), u32::MAX);
        assert_eq!(too_much.chance, (1 << 26) - 1);
        assert_eq!(
            BlobId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427", &STORE),
            None
        );
        assert_eq!(BlobId::parse("x", &STORE), None);
    }

    /// ED-078: names of domain topics have no case.
    #[test]
    fn topics_of_a_domain_are_told_apart() {
        let of = |domain, name: &str| {
            LetterSource::of_domain_topic(TopicId(domain), &name.parse().unwrap(), &STORE)
        };
        assert_eq!(of(1, "foo"), of(1, "Foo"));
        let others = [
            of(1, "bar"),
            of(2, "foo"),
            LetterSource::of_topic(TopicId(1)),
        ];
        assert!(others.iter().all(|other| *other != of(1, "foo")));
        let other_store =
            LetterSource::of_domain_topic(TopicId(1), &"foo".parse().unwrap(), &[8; 16]);
        assert_ne!(of(1, "foo"), other_store);
    }

    #[test]
    fn spans_have_their_begin_and_not_their_end() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let span = Span {
            from: Some(at("2030-01-02T03:30:00Z")),
            to: Some(at("2030-01-02T05:00:00Z")),
        };
        assert!(span.has(at("2030-01-02T03:30:00Z")) && span.has(at("2030-01-02T04:59:59.999Z")));
        assert!(!span.has(at("2030-01-02T03:29:59.999Z")) && !span.has(at("2030-01-02T05:00:00Z")));
        for (hour, has) in [(2, false), (3, true), (4, true), (5, false)] {
            assert_eq!(span.has_of(Hour(2030, 1, 2, hour)), has, "{hour}");
        }
        assert!(
            Span::default().has(Timestamp::ZERO) && Span::default().has_of(Hour(1970, 1, 1, 0))
        );
    }
}
