//! Strikes secrets out of what an endpoint answered (ED-121, ED-127).
//!
//! An endpoint may answer with what it was asked, and spell it as it likes: escaped for a URL, for JSON, for a page, several
//! times over, or in base64. So a text is not searched for a few spellings of a secret: at each place it is known which
//! characters it can be read as ([`Readings`]), and a secret is found where it can be read.

mod readings;

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use percent_encoding::percent_decode_str;

use readings::Readings;

/// What stands for a secret.
pub(crate) const STRUCK_OUT: &str = "***";
/// Values shorter than this, in bytes, are no secrets, and striking them out would leave nothing to read.
const SECRET_BYTES_MIN: usize = 6;
/// From so many bytes on the beginning of a secret says something, where a text was cut.
const BEGINNING_BYTES_MIN: usize = SECRET_BYTES_MIN / 2;
/// How often a value of a query is decoded, to know it by what is inside.
const DECODED_TIMES: usize = 2;
/// An escape that a cut went through has fewer characters than this.
const ESCAPE_CHARS_MAX: usize = 16;
/// From so many bytes on a segment of a path is taken for a secret, and a part of a secret gives it away.
const FRAGMENT_BYTES_MIN: usize = 16;
/// Fewer characters of base64 cannot hold a secret.
const BASE64_CHARS_MIN: usize = SECRET_BYTES_MIN * 4 / 3;

/// What must not stand in a text, whatever it is spelled like.
#[derive(Default)]
pub(crate) struct Secrets {
    /// Sought at every place.
    spellings: Vec<String>,
    /// How many of these are the secrets themselves; behind them they are in base64 and in hexadecimal digits.
    plain: usize,
    /// Values and segments, one behind another.
    parts: String,
    /// Where in `parts` those of [`FRAGMENT_BYTES_MIN`] bytes or little more are, by their first character in lower case.
    fragments: HashMap<char, Vec<Range>>,
}

/// Bytes of a text that are struck out.
type Range = std::ops::Range<usize>;

impl Secrets {
    /// The queries that were sent, the URL's own among them, and their values; of its path the segments that are long enough
    /// to be secrets; and the values of headers that are secrets (ED-149), as a whole and word by word, since a receiver may
    /// take a scheme such as `Bearer` off.
    pub(crate) fn of_endpoint(path: &str, queries: &[&str], headers: &[String]) -> Self {
        let values = queries
            .iter()
            .flat_map(|query| query.split('&'))
            .map(|pair| match pair.split_once('=') {
                Some((_, value)) if !value.is_empty() => value,
                // A name alone may be all that there is to know.
                Some((name, _)) => name,
                None => pair,
            });
        let segments = path.split('/').filter(|segment| is_long(segment));
        let mut secrets: Vec<String> = values.chain(segments).flat_map(decoded).collect();
        let words = headers.iter().flat_map(|value| words_of(value));
        let whole = headers.iter().map(String::as_str);
        secrets.extend(whole.chain(words).map(str::to_owned));
        let (parts, fragments) = fragments_of(&secrets);
        secrets.extend(queries.iter().flat_map(|query| decoded(query)));
        Self {
            parts,
            fragments,
            ..Self::new(secrets)
        }
    }

    /// The path of a URL, and what is left of it where its long segments were struck out before.
    pub(crate) fn of_path(path: &str) -> Self {
        let mut parts = vec![String::new()];
        for segment in path.split_inclusive('/') {
            let named = segment.strip_suffix('/');
            if is_long(named.unwrap_or(segment)) {
                parts.push(named.map_or("", |_| "/").to_owned());
            } else if let Some(part) = parts.last_mut() {
                part.push_str(segment);
            }
        }
        parts.push(path.to_owned());
        Self::new(parts.iter().flat_map(|part| decoded(part)).collect())
    }

    fn new(mut secrets: Vec<String>) -> Self {
        secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
        secrets.sort_unstable();
        secrets.dedup();
        let plain = secrets.len();
        let encoded: Vec<String> = secrets.iter().flat_map(|secret| encoded(secret)).collect();
        secrets.extend(encoded);
        Self {
            spellings: secrets,
            plain,
            ..Self::default()
        }
    }

    /// The text without them. In a text that `is_cut` its end may be the beginning of one.
    pub(crate) fn strike(&self, text: &str, is_cut: bool) -> String {
        if self.spellings.is_empty() || text.len() < BEGINNING_BYTES_MIN {
            return text.to_owned();
        }
        let readings = Readings::of(text);
        let mut ranges = find(&self.spellings, &readings, is_cut);
        ranges.extend(self.find_fragments(&readings));
        ranges.extend(self.find_in_base64(&readings, is_cut));
        without(text, ranges)
    }

    /// Where a part of a secret can be read; parts that overlap are one.
    fn find_fragments(&self, readings: &Readings) -> Vec<Range> {
        let mut ranges = Vec::new();
        let mut firsts = Vec::new();
        for start in 0..readings.len() {
            firsts.clear();
            readings.each(start, |read, _| firsts.push(read.to_ascii_lowercase()));
            firsts.sort_unstable();
            firsts.dedup();
            let found = firsts.iter().filter_map(|first| self.fragments.get(first));
            for fragment in found.flatten() {
                let fragment = &self.parts[fragment.clone()];
                if let Some(end) = end_of(fragment, readings, start, false) {
                    ranges.push(readings.offset(start)..readings.offset(end));
                }
            }
        }
        ranges
    }

    /// What holds a secret that was escaped before it was put into base64.
    fn find_in_base64(&self, readings: &Readings, is_cut: bool) -> Vec<Range> {
        let runs = readings.runs(is_base64).into_iter();
        let runs = runs.filter(|run| run.text.len() >= BASE64_CHARS_MIN);
        let holding = runs.filter(|run| {
            let is_cut = is_cut && run.range.end + ESCAPE_CHARS_MAX > readings.text_len();
            // It may begin with something else of the same alphabet.
            (0..4).any(|offset| {
                let inner = from_base64(&run.text[offset..]);
                let inner = Readings::of(&inner);
                !find(&self.spellings[..self.plain], &inner, is_cut).is_empty()
                    || !self.find_fragments(&inner).is_empty()
            })
        });
        holding.map(|run| run.range).collect()
    }
}

/// The words of a header's value but a scheme such as `Bearer`, which is no secret.
fn words_of(value: &str) -> impl Iterator<Item = &str> {
    let first = value.split_whitespace().next().unwrap_or_default();
    let is_scheme = first.len() < value.len() && first.bytes().all(|b| b.is_ascii_alphabetic());
    value.split_whitespace().skip(usize::from(is_scheme))
}

/// Whether a segment of a path is long enough to be a secret.
const fn is_long(segment: &str) -> bool {
    segment.len() >= FRAGMENT_BYTES_MIN
}

/// Parts of secrets, one from each character on that has enough behind it: a text, and where in it they are.
fn fragments_of(secrets: &[String]) -> (String, HashMap<char, Vec<Range>>) {
    let text = secrets.concat().to_ascii_lowercase();
    let mut fragments: HashMap<char, Vec<Range>> = HashMap::new();
    let mut end = 0;
    for secret in secrets {
        let begin = end;
        end += secret.len();
        for (at, first) in text[begin..end].char_indices() {
            let from = begin + at;
            let mut ends = from + FRAGMENT_BYTES_MIN..=end;
            if let Some(to) = ends.find(|to| text.is_char_boundary(*to)) {
                fragments.entry(first).or_default().push(from..to);
            }
        }
    }
    for of_first in fragments.values_mut() {
        of_first.sort_unstable_by_key(|range| &text[range.clone()]);
        of_first.dedup_by_key(|range| &text[range.clone()]);
    }
    (text, fragments)
}

/// A part of a URL as it stands, and as it is read by those who decode it, `+` as a space or not.
fn decoded(text: &str) -> Vec<String> {
    let mut spellings = vec![text.to_owned()];
    let mut last = vec![text.to_owned()];
    for _ in 0..DECODED_TIMES {
        let once = last.iter().flat_map(|text| {
            let read = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            [read(text), read(&text.replace('+', " "))]
        });
        last = once.filter(|text| !spellings.contains(text)).collect();
        spellings.extend(last.iter().cloned());
    }
    spellings
}

/// The secret inside of base64, whatever stands before and behind it there, and in hexadecimal digits.
fn encoded(secret: &str) -> Vec<String> {
    let mut spellings = Vec::new();
    for before in 0..3_usize {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        // Only characters of whose six bits all are the secret's.
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for engine in [STANDARD, URL_SAFE] {
            spellings.push(engine.encode(&bytes)[from..to].to_owned());
        }
    }
    let digits = secret.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    spellings.push(digits.collect());
    spellings.sort_unstable();
    spellings.dedup();
    spellings
}

const fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_')
}

/// What base64 says, as far as it is whole.
fn from_base64(text: &str) -> String {
    let text = text.replace('-', "+").replace('_', "/");
    // A single character holds no byte, and the last one of two or three may hold bits of nothing.
    let len = if text.len() % 4 == 1 {
        text.len() - 1
    } else {
        text.len()
    };
    let whole = len / 4 * 4;
    let decode = |text: &str| STANDARD_NO_PAD.decode(text).unwrap_or_default();
    let mut bytes = decode(&text[..whole]);
    let mut tail = text[whole..len].to_owned();
    tail.push_str(&"A".repeat((4 - tail.len()) % 4));
    let tail_bytes = (len - whole) * 6 / 8;
    bytes.extend(decode(&tail).into_iter().take(tail_bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where one of the spellings can be read; in a text that `is_cut`, also where its end may be the beginning of one.
fn find(spellings: &[String], readings: &Readings, is_cut: bool) -> Vec<Range> {
    let mut ranges = Vec::new();
    for start in 0..readings.len() {
        for spelling in spellings {
            if let Some(end) = end_of(spelling, readings, start, is_cut) {
                ranges.push(readings.offset(start)..readings.offset(end));
            }
        }
    }
    ranges
}

/// The place behind a spelling that is read from a place on.
fn end_of(spelling: &str, readings: &Readings, start: usize, is_cut: bool) -> Option<usize> {
    // There may be several ways to read what came so far.
    let mut places = vec![start];
    let mut next = Vec::new();
    for (bytes, c) in spelling.char_indices() {
        if is_cut
            && bytes >= BEGINNING_BYTES_MIN
            && places
                .iter()
                .any(|place| readings.ends_within(*place, ESCAPE_CHARS_MAX))
        {
            return Some(readings.len());
        }
        next.clear();
        for place in &places {
            readings.each(*place, |read, end| {
                if is_same(read, c) && !next.contains(&end) {
                    next.push(end);
                }
            });
        }
        if next.is_empty() {
            return None;
        }
        std::mem::swap(&mut places, &mut next);
    }
    places.into_iter().max()
}

/// Whoever repeats a secret may have changed its case.
fn is_same(a: char, b: char) -> bool {
    a == b || a.eq_ignore_ascii_case(&b)
}

fn without(text: &str, mut ranges: Vec<Range>) -> String {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut left = String::with_capacity(text.len());
    let mut at = 0;
    let mut ranges = ranges.into_iter().peekable();
    while let Some(mut range) = ranges.next() {
        while let Some(more) = ranges.next_if(|more| more.start <= range.end) {
            range.end = range.end.max(more.end);
        }
        left.push_str(&text[at..range.start]);
        // What was struck out before stands for this too.
        if !left.ends_with(STRUCK_OUT) && !text[range.end..].starts_with(STRUCK_OUT) {
            left.push_str(STRUCK_OUT);
        }
        at = range.end;
    }
    left.push_str(&text[at..]);
    left
}

#[cfg(test)]
mod tests;
