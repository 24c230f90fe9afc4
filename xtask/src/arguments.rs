//! Reads the options of a command: flags (`--power`) and values (`--rounds 50` or `--rounds=50`).
//!
//! What is not in the command's list is an error that says what is.

use std::str::FromStr;

use crate::Failure;

/// The options that a command takes, without their dashes.
#[derive(Debug, Clone, Copy)]
pub struct Accepted<'a> {
    /// Options that stand alone.
    pub flags: &'a [&'a str],
    /// Options that are followed by a value.
    pub values: &'a [&'a str],
}

/// The options that were given.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    given: Vec<(String, Option<String>)>,
}

impl Options {
    /// Reads `arguments`; the last of several equal options counts.
    pub fn read(arguments: &[String], accepted: Accepted<'_>) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let known = name.strip_prefix("--").unwrap_or_default();
            if accepted.values.contains(&known) {
                let value = inline
                    .or_else(|| rest.next().cloned())
                    .ok_or_else(|| format!("{name} needs a value"))?;
                options.given.push((known.to_owned(), Some(value)));
            } else if accepted.flags.contains(&known) && inline.is_none() {
                options.given.push((known.to_owned(), None));
            } else {
                return Err(unknown(argument, accepted));
            }
        }
        Ok(options)
    }

    /// Whether the flag was given.
    pub fn has(&self, flag: &str) -> bool {
        self.given.iter().any(|(name, _)| name == flag)
    }

    /// The value that was given for `name`, if any.
    pub fn text(&self, name: &str) -> Option<&str> {
        let given = self.given.iter().rev().find(|(given, _)| given == name);
        given?.1.as_deref()
    }

    /// The number that was given for `name`, if any.
    pub fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, Failure> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        value
            .parse()
            .map(Some)
            .map_err(|_| format!("--{name} takes a whole number, not \"{value}\""))
    }
}

fn unknown(argument: &str, accepted: Accepted<'_>) -> Failure {
    let names: Vec<String> = accepted
        .flags
        .iter()
        .map(|flag| format!("--{flag}"))
        .chain(
            accepted
                .values
                .iter()
                .map(|value| format!("--{value} VALUE")),
        )
        .collect();
    if names.is_empty() {
        return format!("\"{argument}\" is not expected: this command takes no options");
    }
    format!(
        "\"{argument}\" is not expected; the options are {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::{Accepted, Options};

    const ACCEPTED: Accepted<'static> = Accepted {
        flags: &["power"],
        values: &["rounds", "seed"],
    };

    fn read(line: &str) -> Result<Options, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::read(&arguments, ACCEPTED)
    }

    #[test]
    fn flags_and_values_are_read_in_both_spellings() {
        let options = read("--power --rounds 3 --seed=9").unwrap();
        assert!(options.has("power"));
        assert_eq!(options.number("rounds"), Ok(Some(3_u32)));
        assert_eq!(options.number("seed"), Ok(Some(9_u64)));
        assert_eq!(read("").unwrap().number::<u32>("rounds"), Ok(None));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in ["--pwer", "power", "--power=1", "-p", "--rounds"] {
            assert!(read(line).is_err(), "{line}");
        }
        assert!(
            read("--rounds many")
                .unwrap()
                .number::<u32>("rounds")
                .is_err()
        );
        assert!(
            read("--rounds -1")
                .unwrap()
                .number::<u32>("rounds")
                .is_err()
        );
    }
}
