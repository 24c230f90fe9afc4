//! Which events of an ordered subscription may be sent: those of one key one after the other, in the order in which they were
//! published; those of different keys wait for nobody (FC-12).
//!
//! ```text
//!            join                  end of those before            end
//!  event ──────────▶ in its line ──────────────────────▶ head ──────────▶ the next one is the head
//! ```
//!
//! Whether the end of a head is a delivery, a dead letter or a drop makes no difference here.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::filter::{FilterEvent, TextKeys};

/// Finds the key that an event is ordered by.
#[derive(Debug, Clone)]
pub struct OrderKey {
    keys: TextKeys,
    /// Keys of two declarations have nothing to do with each other.
    from_seq: u64,
}

impl OrderKey {
    /// The key at this path, for events from one on.
    #[must_use]
    pub fn new(path: &str, from_seq: u64) -> Self {
        Self {
            keys: TextKeys::new([path]),
            from_seq,
        }
    }

    /// What stands for the event's key; `None` if it has no text, number or boolean there: then it waits for nobody.
    #[must_use]
    pub fn of(&self, event: &FilterEvent<'_>) -> Option<u64> {
        let text = self.keys.find(event).into_iter().next().flatten()?;
        let mut hasher = SipHasher13::new_with_keys(0, self.from_seq);
        hasher.write(text.as_bytes());
        Some(hasher.finish())
    }
}

/// The lines of the keys of one subscription.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    lines: HashMap<u64, BTreeSet<u64>>,
    keys: HashMap<u64, u64>,
}

impl Lines {
    /// An event stands in the line of its key from now on, behind those with smaller numbers.
    pub fn join(&mut self, seq: u64, key: u64) {
        self.keys.insert(seq, key);
        self.lines.entry(key).or_default().insert(seq);
    }

    /// The key of an event that stands in a line.
    #[must_use]
    pub fn key(&self, seq: u64) -> Option<u64> {
        self.keys.get(&seq).copied()
    }

    /// Whether an event has to wait for others.
    #[must_use]
    pub fn must_wait(&self, seq: u64) -> bool {
        let line = self.keys.get(&seq).and_then(|key| self.lines.get(key));
        line.is_some_and(|line| line.first() != Some(&seq))
    }

    /// Those that stand behind an event in its line, in order.
    pub fn behind(&self, seq: u64) -> impl Iterator<Item = u64> {
        let line = self.keys.get(&seq).and_then(|key| self.lines.get(key));
        line.into_iter()
            .flat_map(move |line| line.range(seq + 1..).copied())
    }

    /// An event is settled. Returns the one that may be sent now.
    pub fn end(&mut self, seq: u64) -> Option<u64> {
        let key = self.keys.remove(&seq)?;
        let line = self.lines.get_mut(&key)?;
        let was_head = line.first() == Some(&seq);
        line.remove(&seq);
        let head = line.first().copied();
        if head.is_none() {
            self.lines.remove(&key);
        }
        head.filter(|_| was_head)
    }

    /// Those with smaller numbers than this.
    #[must_use]
    pub fn before(&self, to_seq: u64) -> Vec<u64> {
        let seqs = self.keys.keys().copied();
        seqs.filter(|seq| *seq < to_seq).collect()
    }

    /// How many events stand in lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Data, Event};

    /// FC-12: one key waits for its head, another one does not.
    #[test]
    fn a_key_waits_for_its_head() {
        let mut lines = Lines::default();
        let (a, b) = (1, 2);
        for (seq, key) in [(1, a), (2, b), (3, a), (4, b), (5, a)] {
            lines.join(seq, key);
        }
        let waiting =
            |lines: &Lines| -> Vec<u64> { (1..=6).filter(|seq| lines.must_wait(*seq)).collect() };
        assert_eq!(waiting(&lines), [3, 4, 5]);
        assert_eq!(lines.behind(1).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(lines.end(2), Some(4));
        assert_eq!(lines.end(3), None, "the head of its line is another one");
        assert_eq!(waiting(&lines), [5]);
        assert_eq!(lines.end(1), Some(5));
        assert_eq!((lines.end(5), lines.end(5)), (None, None));
        assert_eq!(lines.end(4), None);
        assert!(lines.is_empty() && lines.lines.is_empty());
    }

    #[test]
    fn keys_are_texts_numbers_and_booleans() {
        let key = |path: &str, from_seq, data: &str| {
            let event = Event {
                id: "1".into(),
                source: None,
                event_type: "t".into(),
                subject: Some("s".into()),
                time: None,
                data_version: None,
                data_content_type: None,
                data_schema: None,
                extensions: Vec::new(),
                data: Data::Json(data.to_owned().into()),
            };
            OrderKey::new(path, from_seq).of(&FilterEvent::new(&event, "/t"))
        };
        let path = "data.id";
        assert_eq!(key("subject", 1, "{}"), key("subject", 1, "[]"));
        assert!(key("subject", 1, "{}").is_some());
        assert_ne!(key("subject", 1, "{}"), key("subject", 2, "{}"));
        assert_ne!(key(path, 1, r#"{"id":"a"}"#), key(path, 1, r#"{"id":"b"}"#));
        assert!(key(path, 1, r#"{"id":7}"#).is_some());
        for none in ["{}", r#"{"id":null}"#, r#"{"id":[1]}"#, r#"{"id":{}}"#, "7"] {
            assert_eq!(key(path, 1, none), None, "{none}");
        }
    }
}
