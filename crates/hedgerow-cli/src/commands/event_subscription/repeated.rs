//! Options that are given several times with several words each, which belong together.

use std::fmt;
use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;

use crate::failure::Failure;

/// What is special about one such option.
pub trait RepeatedOption {
    /// Its name, without dashes.
    const NAME: &'static str;
    /// What its words are.
    const WORDS: &'static str;
    /// What it says of itself.
    const HELP: &'static str;

    /// The declaration of what was given once.
    ///
    /// # Errors
    /// What is wrong with the words, and how they are written.
    fn read(words: &[String]) -> Result<Value, Failure>;
}

/// The words of each time that the option was given; `None` if it was not.
pub struct Repeated<T> {
    times: Option<Vec<Vec<String>>>,
    option: PhantomData<T>,
}

impl<T: RepeatedOption> Repeated<T> {
    /// What was declared, one after another; `null` if the option was given without words. `None` if it was not given.
    pub fn to_json(&self) -> Result<Option<Value>, Failure> {
        let Some(times) = &self.times else {
            return Ok(None);
        };
        let given = times.iter().filter(|words| !words.is_empty());
        let declared: Vec<Value> = given
            .map(|words| T::read(words))
            .collect::<Result<_, _>>()?;
        Ok(Some(if declared.is_empty() {
            Value::Null
        } else {
            Value::Array(declared)
        }))
    }
}

impl<T> fmt::Debug for Repeated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The words may be secrets.
        let times = self.times.as_ref().map(Vec::len);
        f.debug_struct("Repeated").field("times", &times).finish()
    }
}

/// By hand, because the words of each time belong together.
impl<T: RepeatedOption> Args for Repeated<T> {
    fn augment_args(command: Command) -> Command {
        command.arg(
            Arg::new(T::NAME)
                .long(T::NAME)
                .value_name(T::WORDS)
                .num_args(0..)
                .action(ArgAction::Append)
                .allow_negative_numbers(true)
                .help(T::HELP),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: RepeatedOption> FromArgMatches for Repeated<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let times = matches.get_occurrences::<String>(T::NAME);
        let times = times.map(|times| times.map(|words| words.cloned().collect()).collect());
        Ok(Self {
            times,
            option: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
