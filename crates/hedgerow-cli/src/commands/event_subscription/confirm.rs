//! Asks before something is done that cannot be taken back, if somebody is there to answer.

use std::io::{BufRead, IsTerminal};

use crate::failure::Failure;
use crate::output;

/// Whether whoever sits at the terminal agrees; without one nobody is asked.
pub(super) fn agrees(what: &str) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(true);
    }
    output::error_line(&format!("{what}. Type yes to go on:"));
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|error| Failure::because("cannot read the answer", &error))?;
    Ok(is_yes(&line))
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for (line, expected) in [
            ("yes\n", true),
            (" Y\r\n", true),
            ("", false),
            ("\n", false),
            ("no\n", false),
            ("yes please", false),
        ] {
            assert_eq!(is_yes(line), expected, "{line:?}");
        }
    }
}
