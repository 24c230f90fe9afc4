//! What the proof is started with.

use std::path::PathBuf;

/// Rounds when none are asked for: those that a release has to pass.
const ROUNDS: u32 = 50;

/// The options of `crash`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server under test, built with the feature `failpoints`.
    pub binary: PathBuf,
    /// How often it is ended.
    pub rounds: u32,
    /// What all chance comes from.
    pub seed: u64,
}

impl Options {
    /// Reads them. Without a seed one is drawn.
    pub fn read(arguments: &[String]) -> Result<Self, String> {
        let (mut binary, mut rounds, mut seed) = (None, ROUNDS, None);
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("{name} needs a number"))
            };
            match name.as_str() {
                "--binary" => binary = Some(PathBuf::from(value)),
                "--rounds" => rounds = u32::try_from(number()?).map_err(|_| "too many rounds")?,
                "--seed" => seed = Some(number()?),
                _ => return Err(format!("{name} is no option of crash")),
            }
        }
        let binary = binary.ok_or("crash needs --binary PATH, the server under test")?;
        let seed = match seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(|error| format!("no seed: {error}"))? >> 32,
        };
        Ok(Self {
            binary,
            rounds,
            seed,
        })
    }
}
