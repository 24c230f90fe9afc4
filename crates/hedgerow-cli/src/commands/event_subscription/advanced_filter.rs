//! `--advanced-filter KEY OPERATOR VALUES`, as the vendor's command line spells it. What the operators mean, and whether the values
//! fit, the server says; here is only how they are spelled as words.

use std::ffi::OsString;

use hedgerow_core::spec::{OperandKind, Operator};
use serde_json::{Map, Value, json};

use super::repeated::{Repeated, RepeatedOption};
use crate::failure::Failure;

/// Stands before a word that begins with a minus and is no option. No argument of a program has this sign.
const NO_OPTION: char = '\0';

/// Arguments in which ranges with a negative beginning, as in `--advanced-filter data.n NumberInRange -5,10`, are taken for no
/// options: the parser knows negative numbers, and not pairs of them.
pub fn with_ranges(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut is_filter = false;
    let shielded = arguments.map(|argument| {
        let Some(text) = argument.to_str() else {
            return argument;
        };
        if text.starts_with("--") {
            is_filter = text == "--advanced-filter";
        }
        let is_range = text.starts_with('-') && range(text).is_some();
        if is_filter && is_range {
            format!("{NO_OPTION}{text}").into()
        } else {
            argument
        }
    });
    shielded.collect()
}

/// The filters that were given.
pub type AdvancedFilters = Repeated<AdvancedFilter>;

/// One filter.
#[derive(Debug)]
pub enum AdvancedFilter {}

impl RepeatedOption for AdvancedFilter {
    const NAME: &'static str = "advanced-filter";
    const WORDS: &'static str = "KEY OPERATOR VALUES";
    const HELP: &'static str = "Only events for which this holds: a key, an operator and its values, as in `data.color StringIn \
        red blue`. May be given several times; all must hold. Without a value, no such filter";

    fn read(words: &[String]) -> Result<Value, Failure> {
        let words = words.iter().map(|word| word.trim_start_matches(NO_OPTION));
        one(&words.map(str::to_owned).collect::<Vec<_>>())
    }
}

fn one(words: &[String]) -> Result<Value, Failure> {
    let refused = |reason: String| {
        let words = words.join(" ");
        Failure::new(format!("--advanced-filter {words}: {reason}"))
            .with_hint("write KEY OPERATOR VALUES, as in data.color StringIn red blue")
    };
    let [key, operator, values @ ..] = words else {
        return Err(refused("the operator is missing".to_owned()));
    };
    let Some(operator) = Operator::named(operator) else {
        let names = Operator::ALL.map(Operator::as_str).join(", ");
        return Err(refused(format!("\"{operator}\" is none of {names}")));
    };
    let kind = operator.operand_kind();
    let mut filter = Map::new();
    filter.insert("operatorType".to_owned(), json!(operator.as_str()));
    filter.insert("key".to_owned(), json!(key));
    let Some(member) = kind.member() else {
        return match values {
            [] => Ok(Value::Object(filter)),
            _ => Err(refused("it takes no value".to_owned())),
        };
    };
    let value = match (kind, values) {
        (_, []) => return Err(refused("a value is missing".to_owned())),
        (OperandKind::Number, [value]) => number(value),
        (OperandKind::Bool, [value]) => value.parse::<bool>().ok().map(Value::from),
        (OperandKind::Number | OperandKind::Bool, _) => {
            return Err(refused("it takes one value".to_owned()));
        }
        (OperandKind::Numbers, values) => values.iter().map(|value| number(value)).collect(),
        (OperandKind::Ranges, values) => values.iter().map(|value| range(value)).collect(),
        (OperandKind::Texts { .. } | OperandKind::None, values) => Some(json!(values)),
    };
    let rule = match kind {
        OperandKind::Bool => "the value must be true or false",
        OperandKind::Ranges => "the values must be pairs of numbers, as in 0,10 20,30",
        _ => "the values must be numbers",
    };
    let value = value.ok_or_else(|| refused(rule.to_owned()))?;
    filter.insert(member.to_owned(), value);
    Ok(Value::Object(filter))
}

fn number(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    value.is_number().then_some(value)
}

fn range(text: &str) -> Option<Value> {
    let (low, high) = text.split_once(',')?;
    Some(json!([number(low)?, number(high)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Value, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        one(&words).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_range_that_begins_with_a_minus_is_no_option() {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            filters: AdvancedFilters,
            #[arg(long, num_args = 0..)]
            labels: Vec<String>,
        }
        let words = "x --advanced-filter data.n NumberInRange -5,10 -3.5,-1 --labels a --advanced-filter data.t StringIn -1,2 -3";
        let arguments = with_ranges(words.split(' ').map(OsString::from));
        let line = <Line as clap::Parser>::try_parse_from(arguments).unwrap();
        assert_eq!(line.labels, ["a"]);
        let expected = json!([
            {"operatorType": "NumberInRange", "key": "data.n", "values": [[-5, 10], [-3.5, -1]]},
            {"operatorType": "StringIn", "key": "data.t", "values": ["-1,2", "-3"]},
        ]);
        assert_eq!(line.filters.to_json().unwrap(), Some(expected));
        let other = with_ranges(["x", "--labels", "-5,10"].map(OsString::from).into_iter());
        <Line as clap::Parser>::try_parse_from(other).unwrap_err();
    }

    #[test]
    fn each_kind_of_operand_is_read() {
        for (text, expect) in [
            (
                "data.n NumberIn 1 2.5 -3",
                json!({"operatorType": "NumberIn", "key": "data.n", "values": [1, 2.5, -3]}),
            ),
            (
                "data.n numbergreaterthan 5",
                json!({"operatorType": "NumberGreaterThan", "key": "data.n", "value": 5}),
            ),
            (
                "data.n NumberInRange 0,10 20,30",
                json!({"operatorType": "NumberInRange", "key": "data.n", "values": [[0, 10], [20, 30]]}),
            ),
            (
                "data.b BoolEquals true",
                json!({"operatorType": "BoolEquals", "key": "data.b", "value": true}),
            ),
            (
                "subject StringEndsWith .jpg 5",
                json!({"operatorType": "StringEndsWith", "key": "subject", "values": [".jpg", "5"]}),
            ),
            (
                "data.x IsNotNull",
                json!({"operatorType": "IsNotNull", "key": "data.x"}),
            ),
        ] {
            assert_eq!(parse(text), Ok(expect), "{text}");
        }
        for (text, said) in [
            ("data.n", "operator is missing"),
            ("data.n NumberLike 1", "none of"),
            ("data.n NumberIn", "value is missing"),
            ("data.n NumberIn x", "numbers"),
            ("data.n NumberLessThan 1 2", "one value"),
            ("data.n NumberInRange 1-2", "pairs"),
            ("data.b BoolEquals yes", "true or false"),
            ("data.x IsNotNull 1", "no value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains(said) && error.contains("--advanced-filter"),
                "{error}"
            );
        }
    }
}
