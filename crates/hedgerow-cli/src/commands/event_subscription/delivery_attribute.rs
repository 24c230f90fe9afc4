//! `--delivery-attribute-mapping NAME TYPE VALUE`, as the vendor's command line spells it (ED-143). What may be declared the
//! server says; here is only how it is spelled as words.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Value, json};

use crate::failure::Failure;

const ID: &str = "delivery_attribute_mapping";

/// The words of each time that the option was given; `None` if it was not.
#[derive(Debug, Default)]
pub struct DeliveryAttributes(Option<Vec<Vec<String>>>);

impl DeliveryAttributes {
    /// The mappings, one after another; `null` if the option was given without words. `None` if it was not given.
    pub fn to_json(&self) -> Result<Option<Value>, Failure> {
        let Some(groups) = &self.0 else {
            return Ok(None);
        };
        let given = groups.iter().filter(|words| !words.is_empty());
        let mappings: Vec<Value> = given.map(|words| one(words)).collect::<Result<_, _>>()?;
        Ok(Some(if mappings.is_empty() {
            Value::Null
        } else {
            Value::Array(mappings)
        }))
    }
}

/// By hand, because the words of each time belong together.
impl Args for DeliveryAttributes {
    fn augment_args(command: Command) -> Command {
        let help = "A header of what is sent: `NAME Static VALUE [IS-SECRET]`, or `NAME Dynamic KEY` for the value that an \
                    event has at a key such as `data.system`. May be given up to 10 times; all of them take the place of \
                    those before. Without a value, none. The mask that `show` prints keeps a secret";
        command.arg(
            Arg::new(ID)
                .long("delivery-attribute-mapping")
                .value_name("NAME TYPE VALUE")
                .num_args(0..)
                .action(ArgAction::Append)
                .allow_negative_numbers(true)
                .help(help),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DeliveryAttributes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let times = matches.get_occurrences::<String>(ID);
        Ok(Self(times.map(|times| {
            times.map(|words| words.cloned().collect()).collect()
        })))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What was written is not repeated: it may be a secret.
fn one(words: &[String]) -> Result<Value, Failure> {
    let refused = |name: &str, reason: &str| {
        Failure::new(format!("--delivery-attribute-mapping {name}: {reason}")).with_hint(
            "write NAME Static VALUE, with true behind it for a secret, or NAME Dynamic KEY",
        )
    };
    let [name, kind, rest @ ..] = words else {
        return Err(refused(&words.concat(), "the type is missing"));
    };
    let properties = if kind.eq_ignore_ascii_case("static") {
        let (value, is_secret) = match rest {
            [] => return Err(refused(name, "the value is missing")),
            [value] => (value, false),
            [value, is_secret] => match is_secret.parse() {
                Ok(is_secret) => (value, is_secret),
                Err(_) => return Err(refused(name, "behind the value stands true or false")),
            },
            _ => return Err(refused(name, "too many words; quote a value with spaces")),
        };
        json!({ "value": value, "isSecret": is_secret })
    } else if kind.eq_ignore_ascii_case("dynamic") {
        match rest {
            [key] => json!({ "sourceField": key }),
            _ => return Err(refused(name, "one key is behind Dynamic")),
        }
    } else {
        return Err(refused(name, "the type is Static or Dynamic"));
    };
    let kind = if properties.get("value").is_some() {
        "Static"
    } else {
        "Dynamic"
    };
    Ok(json!({ "name": name, "type": kind, "properties": properties }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ED-143.
    #[test]
    fn each_form_is_read() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            one(&words).map_err(|failure| failure.to_string())
        };
        let fixed = |value: &str, is_secret: bool| {
            let properties = json!({ "value": value, "isSecret": is_secret });
            Ok(json!({ "name": "X", "type": "Static", "properties": properties }))
        };
        let dynamic =
            json!({ "name": "X", "type": "Dynamic", "properties": { "sourceField": "data.a" } });
        assert_eq!(read(&["X", "Static", "a b"]), fixed("a b", false));
        assert_eq!(read(&["X", "static", "a", "true"]), fixed("a", true));
        assert_eq!(read(&["X", "Dynamic", "data.a"]), Ok(dynamic));
        for (words, said) in [
            (&["X"][..], "type is missing"),
            (&["X", "Static"], "value is missing"),
            (&["X", "Static", "s3cret", "yes"], "true or false"),
            (&["X", "Static", "s3cret", "true", "x"], "too many"),
            (&["X", "Dynamic"], "one key"),
            (&["X", "Else", "s3cret"], "Static or Dynamic"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(said) && error.contains('X'), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
