//! `--delivery-attribute-mapping NAME TYPE VALUE`, as the vendor's command line spells it (ED-143). What may be declared the
//! server says; here is only how it is spelled as words.

use serde_json::{Value, json};

use super::repeated::{Repeated, RepeatedOption};
use crate::failure::Failure;

/// The mappings that were given.
pub type DeliveryAttributes = Repeated<DeliveryAttribute>;

/// One mapping.
#[derive(Debug)]
pub enum DeliveryAttribute {}

impl RepeatedOption for DeliveryAttribute {
    const NAME: &'static str = "delivery-attribute-mapping";
    const WORDS: &'static str = "NAME TYPE VALUE";
    const HELP: &'static str = "A header of what is sent: `NAME Static VALUE [IS-SECRET]`, or `NAME Dynamic KEY` for the value \
        that an event has at a key such as `data.system`. May be given up to 10 times; all of them take the place of those \
        before. Without a value, none. The mask that `show` prints keeps a secret";

    fn read(words: &[String]) -> Result<Value, Failure> {
        one(words)
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
