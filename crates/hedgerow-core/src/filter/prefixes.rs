//! Which of many texts another text begins with, found without looking at all of them.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

/// Texts, each with what is filed under it.
#[derive(Debug, Clone)]
pub(super) struct Prefixes<T>(BTreeMap<Box<[u8]>, Vec<T>>);

impl<T> Default for Prefixes<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + PartialEq> Prefixes<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, text: &[u8]) -> &[T] {
        self.0.get(text).map_or(&[], Vec::as_slice)
    }

    pub(super) fn insert(&mut self, text: &[u8], filed: T) {
        self.0.entry(text.into()).or_default().push(filed);
    }

    pub(super) fn remove(&mut self, text: &[u8], filed: T) {
        if let Some(list) = self.0.get_mut(text) {
            list.retain(|other| *other != filed);
            if list.is_empty() {
                self.0.remove(text);
            }
        }
    }

    /// Hands out what is filed under each text that `text` begins with.
    ///
    /// Every such text sorts before `text`, and whatever sorts between the two begins with it as well. So the last one that
    /// sorts before `text` shares with it all that is worth looking at.
    pub(super) fn of(&self, text: &[u8], mut each: impl FnMut(T)) {
        let mut rest = text;
        loop {
            let mut before = self.0.range::<[u8], _>((Unbounded, Included(rest)));
            let Some((found, filed)) = before.next_back() else {
                return;
            };
            let shared = rest.iter().zip(found).take_while(|(a, b)| a == b).count();
            if shared < found.len() {
                rest = &rest[..shared];
                continue;
            }
            for one in filed {
                each(*one);
            }
            match shared.checked_sub(1) {
                Some(shorter) => rest = &rest[..shorter],
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_is_found() {
        let mut prefixes = Prefixes::default();
        let texts = ["", "/", "/a", "/a/b", "/a/bc", "/a/c", "/b", "0", "zz"];
        for (at, text) in texts.iter().enumerate() {
            prefixes.insert(text.as_bytes(), at);
        }
        for text in [
            "", "/", "/a", "/a/", "/a/b/x", "/a/bc", "/a/bcd", "/c", "a", "zzz", "00",
        ] {
            let mut found = Vec::new();
            prefixes.of(text.as_bytes(), |at| found.push(texts[at]));
            found.sort_unstable();
            let wanted: Vec<_> = texts
                .into_iter()
                .filter(|one| text.starts_with(one))
                .collect();
            assert_eq!(found, wanted, "{text}");
        }
        prefixes.remove(b"/a", 2);
        assert!(prefixes.get(b"/a").is_empty());
    }
}
