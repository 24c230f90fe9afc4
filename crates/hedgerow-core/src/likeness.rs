//! How like two names are: what somebody may have meant who mistyped one.

/// How many characters have to be put in, taken out or changed to make one of the other (Levenshtein).
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, of_a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, of_b) in b.iter().enumerate() {
            let changed = diagonal + usize::from(of_a != *of_b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_by_characters() {
        for (a, b, expect) in [
            ("", "", 0),
            ("", "abc", 3),
            ("type", "type", 0),
            ("evntType", "eventType", 1),
            ("sbject", "subject", 1),
            ("listn", "listen", 1),
            ("kitten", "sitting", 3),
            ("aü", "a", 1),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(a, b), expect, "{a} {b}");
            assert_eq!(distance(b, a), expect, "{b} {a}");
        }
    }
}
