//! What is wrong with a configuration, where, and what would be right.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::written::Written;

/// A configuration that cannot be used. Shows one line for each problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands; `None` when no single place is meant.
    pub place: Option<Place>,
    /// The setting, such as `store.bytes_max`; empty for the file as a whole.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What was probably meant.
    pub hint: Option<String>,
}

/// Where something was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// Which one.
        path: PathBuf,
        /// The line, from 1, if it is known.
        line: Option<usize>,
    },
    /// In the variable with this name.
    Environment(String),
}

impl Problem {
    pub(super) fn at(written: &Written, message: String) -> Self {
        Self {
            place: Some(written.place.clone()),
            key: written.key.clone(),
            message,
            hint: None,
        }
    }

    pub(super) fn of(key: &str, message: String) -> Self {
        Self {
            place: None,
            key: key.to_owned(),
            message,
            hint: None,
        }
    }

    pub(super) fn file(path: &Path, line: Option<usize>, message: String) -> Self {
        let place = Some(Place::File {
            path: path.to_owned(),
            line,
        });
        Self {
            place,
            key: String::new(),
            message,
            hint: None,
        }
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::file(path, None, format!("cannot read it: {error}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(Place::File {
                path,
                line: Some(line),
            }) => {
                write!(f, "{}:{line}: ", path.display())?;
            }
            Some(Place::File { path, line: None }) => write!(f, "{}: ", path.display())?,
            Some(Place::Environment(name)) => write!(f, "environment variable {name}: ")?,
            None => {}
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
