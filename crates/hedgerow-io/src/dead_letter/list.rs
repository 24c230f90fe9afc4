//! The blobs of one subscription in the order of time (ED-249). A container is walked level by level, years before months, so that
//! whoever wants few of many blobs has few names in memory: those of an hour, and of each level above it.

use hedgerow_core::dead_letter::{BlobName, Hour};

use super::{BlobQuery, DeadLetterError, FoundBlob, Objects};

/// Levels between a subscription and its blobs: year, month, day, hour.
const LEVELS: usize = 4;

impl Objects {
    /// The blobs that a query wants, whatever its container is.
    ///
    /// # Errors
    ///
    /// What kept them from being listed.
    pub async fn list(&self, query: &BlobQuery) -> Result<Vec<FoundBlob>, DeadLetterError> {
        let after = query.after.as_deref().and_then(BlobName::parse);
        let directory = query.subscription.to_ascii_uppercase();
        let mut found = Vec::new();
        // Places to look at, the earliest last; each with the numbers that lead to it.
        let mut left: Vec<Vec<i16>> = vec![Vec::new()];
        while let Some(place) = left.pop() {
            if found.len() >= query.limit {
                break;
            }
            let numbers = place.iter().map(i16::to_string);
            let path: Vec<_> = std::iter::once(directory.clone()).chain(numbers).collect();
            let Some(level) = self.level(&path.join("/")).await? else {
                continue;
            };
            if place.len() < LEVELS {
                let names = level.common_prefixes.iter();
                let numbers = names.filter_map(|path| plain(path.filename()?));
                let mut below: Vec<_> = numbers
                    .map(|number| [&place[..], &[number]].concat())
                    .filter(|below| {
                        let begin = after.map(|after| numbers_of(after.hour));
                        begin.is_none_or(|begin| below[..] >= begin[..below.len()])
                    })
                    .filter(|below| hour(below).is_none_or(|hour| query.span.has_of(hour)))
                    .collect();
                below.sort_unstable_by(|a, b| b.cmp(a));
                left.extend(below);
                continue;
            }
            let mut blobs: Vec<_> = level
                .objects
                .into_iter()
                .map(|object| FoundBlob {
                    name: object.location.to_string(),
                    bytes: object.size,
                })
                .filter(|blob| {
                    let name = BlobName::parse(&blob.name);
                    name.is_some_and(|name| after.is_none_or(|after| name > after))
                })
                .collect();
            blobs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            blobs.truncate(query.limit - found.len());
            found.extend(blobs);
        }
        Ok(found)
    }
}

/// The numbers that lead to an hour.
fn numbers_of(Hour(year, month, day, hour): Hour) -> [i16; LEVELS] {
    [year, month.into(), day.into(), hour.into()]
}

fn hour(place: &[i16]) -> Option<Hour> {
    let [year, month, day, hour] = *place else {
        return None;
    };
    let small = |number: i16| i8::try_from(number).ok();
    Some(Hour(year, small(month)?, small(day)?, small(hour)?))
}

/// A number as names have it: without leading zeros.
fn plain(text: &str) -> Option<i16> {
    let number: i16 = text.parse().ok()?;
    (number >= 0 && number.to_string() == text).then_some(number)
}
