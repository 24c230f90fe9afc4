//! The stored form: a file is a head and frames behind each other.
//!
//! | part | bytes |
//! | --- | --- |
//! | head | magic (8), version u32, file number u32, begun u64 (ms since 1970), zero u32, crc32c of these u32 |
//! | frame | payload length u32, crc32c of the length and the payload u32, payload |
//! | payload | what it is of and its version u8 ([`Kept::VERSION`]), then its `postcard` |
//!
//! All numbers are little-endian. The checksum covers the length, so that a row of zeros is no frame.

use hedgerow_core::time::Timestamp;

use super::kept::Kept;

/// Bytes of a file's head.
pub(super) const HEAD_BYTES: usize = 32;
/// Bytes before a frame's payload.
pub(super) const FRAME_HEADER_BYTES: usize = 8;
/// The longest frame: texts have bounds, and the rest is numbers of at most ten bytes each.
pub(super) const FRAME_BYTES_MAX: usize = 4_096;
/// Bounds of the size at which a file is sealed: its index is built in memory, and offsets are 32 bits.
pub(super) const FILE_BYTES_MIN: u32 = 16 << 10;
pub(super) const FILE_BYTES_MAX: u32 = 64 << 20;

const MAGIC: [u8; 8] = *b"HGROWHST";
const FILE_VERSION: u32 = 1;

/// What the head of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub number: u32,
    /// The history knows of what ended from then on, until the file's end.
    pub begun: Timestamp,
}

/// Why a head cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadHead {
    /// It is torn or damaged.
    Damaged,
    /// A newer version wrote it.
    Newer,
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FILE_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.begun.as_millis().to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<Self, BadHead> {
        if bytes[..8] != MAGIC || u32_at(bytes, 28) != crc32c::crc32c(&bytes[..28]) {
            return Err(BadHead::Damaged);
        }
        if u32_at(bytes, 8) != FILE_VERSION {
            return Err(BadHead::Newer);
        }
        Ok(Self {
            number: u32_at(bytes, 12),
            begun: Timestamp::from_millis(u64_at(bytes, 16)),
        })
    }
}

/// Adds a record's frame.
pub(super) fn encode<K: Kept>(record: &K, buffer: &mut Vec<u8>) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    buffer.push(record.version());
    let taken = std::mem::take(buffer);
    *buffer = record
        .write(taken)
        .expect("writing to memory does not fail");
    let length = (buffer.len() - start - FRAME_HEADER_BYTES) as u32;
    let payload = &buffer[start + FRAME_HEADER_BYTES..];
    let crc = checksum(length, payload);
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
    buffer[start + 4..start + FRAME_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// The record at the beginning of `bytes` and the length of its frame; `None` if there is no whole and valid one.
pub(super) fn decode<K: Kept>(bytes: &[u8]) -> Option<(K, usize)> {
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    let length = u32_at(header, 0);
    let end = FRAME_HEADER_BYTES + length as usize;
    if end > FRAME_BYTES_MAX {
        return None;
    }
    let payload = bytes.get(FRAME_HEADER_BYTES..end)?;
    if u32_at(header, 4) != checksum(length, payload) {
        return None;
    }
    let (version, record) = payload.split_first()?;
    Some((K::read(*version, record)?, end))
}

fn checksum(length: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), payload)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("the slice has four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + 8].try_into();
    u64::from_le_bytes(bytes.expect("the slice has eight bytes"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hedgerow_core::outcome::{DeadLetterReason, Outcome};
    use hedgerow_core::position::{SubscriptionId, TopicId};

    use super::*;
    use crate::history::{
        HistoryKind, HistoryNext, HistoryRecord, OriginMode, ResponseExcerpt, ToOrigin,
    };

    /// The largest record there is: every text far over its bound, every number at its widest.
    fn huge() -> HistoryRecord {
        let text = || "\u{20ac}".repeat(10_000);
        HistoryRecord {
            kind: HistoryKind::EndWithoutAttempt,
            event_id: text(),
            topic: TopicId(u32::MAX),
            topic_name: text().into(),
            subscription: SubscriptionId(u32::MAX),
            subscription_name: text().into(),
            seq: u64::MAX,
            attempt: u16::MAX,
            published: Timestamp::MAX,
            started: Timestamp::MAX,
            ended: Timestamp::MAX,
            latency: Duration::MAX,
            outcome: Some(Outcome::Aborted),
            status: u16::MAX,
            detail: Some(text()),
            excerpt: Some(ResponseExcerpt {
                text: text(),
                body_bytes: u64::MAX,
                is_complete: true,
            }),
            next: HistoryNext::Dead(DeadLetterReason::TimeToLiveExceeded),
            to: Some(std::sync::Arc::new(ToOrigin {
                group: text().into(),
                origin: text().into(),
                address: text().into(),
                mode: OriginMode::UnknownTier,
                instead_of: Some(text().into()),
            })),
        }
    }

    /// HP-200: what went to an endpoint has the form that it always had, and what went to an origin has one of its own.
    #[test]
    fn an_origin_has_a_form_of_its_own() {
        let mut at_origin = huge();
        at_origin.bound();
        let plain = HistoryRecord {
            to: None,
            ..at_origin.clone()
        };
        let first_form = postcard::to_allocvec(&plain).expect("written");
        let mut frame = Vec::new();
        encode(&plain, &mut frame);
        assert_eq!(frame[FRAME_HEADER_BYTES], 1);
        assert_eq!(frame[FRAME_HEADER_BYTES + 1..], first_form);
        assert_eq!(decode(&frame), Some((plain, frame.len())));
        frame.clear();
        encode(&at_origin, &mut frame);
        assert_eq!(frame[FRAME_HEADER_BYTES], 2);
        assert_eq!(decode(&frame), Some((at_origin, frame.len())));
    }

    #[test]
    fn the_largest_record_fits_into_a_frame_and_comes_back() {
        let mut record = huge();
        record.bound();
        let mut buffer = b"before".to_vec();
        encode(&record, &mut buffer);
        let frame = &buffer[6..];
        assert!(frame.len() <= FRAME_BYTES_MAX, "{}", frame.len());
        assert_eq!(decode(frame), Some((record, frame.len())));
    }

    #[test]
    fn a_frame_with_any_byte_changed_or_missing_is_none() {
        let mut record = huge();
        record.bound();
        let mut frame = Vec::new();
        encode(&record, &mut frame);
        for at in 0..frame.len() {
            assert_eq!(decode::<HistoryRecord>(&frame[..at]), None, "cut at {at}");
            frame[at] ^= 0x10;
            assert_eq!(decode::<HistoryRecord>(&frame), None, "changed at {at}");
            frame[at] ^= 0x10;
        }
        let zeros = [0; FRAME_BYTES_MAX];
        assert_eq!(decode::<HistoryRecord>(&zeros), None, "zeros are no frame");
    }

    #[test]
    fn heads_come_back_or_say_why_not() {
        let head = Head {
            number: 7,
            begun: Timestamp::from_millis(9),
        };
        let mut bytes = head.to_bytes();
        assert_eq!(Head::from_bytes(&bytes), Ok(head));
        bytes[20] ^= 1;
        assert_eq!(Head::from_bytes(&bytes), Err(BadHead::Damaged));
        let mut newer = head.to_bytes();
        newer[8] = 2;
        let crc = crc32c::crc32c(&newer[..28]);
        newer[28..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Head::from_bytes(&newer), Err(BadHead::Newer));
        assert_eq!(Head::from_bytes(&[0; HEAD_BYTES]), Err(BadHead::Damaged));
    }
}
