//! What a command prints when it could not do its part: one line that says what failed and why, and one that says what
//! to do about it. Nobody reacts to its kind, so it has none.

use std::error::Error;
use std::fmt;

/// A command that failed, as its user reads it.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    status: u8,
}

/// The exit status of a command that could not do its part.
const FAILED: u8 = 1;
/// The exit status of a command that declared what it was to declare, while an endpoint has not consented yet.
const NOT_IN_FORCE: u8 = 3;

impl Failure {
    /// What could not be done, and why.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            status: FAILED,
        }
    }

    /// What was declared, and is not in force before an endpoint consents: it may still be, and a script has to know.
    pub fn not_in_force(message: impl Into<String>) -> Self {
        Self {
            status: NOT_IN_FORCE,
            ..Self::new(message)
        }
    }

    /// The command's exit status.
    pub const fn status(&self) -> u8 {
        self.status
    }

    /// What could not be done, followed by everything that caused it.
    pub fn because(doing: impl fmt::Display, cause: &dyn Error) -> Self {
        Self::new(format!("{doing}: {}", in_full(cause)))
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.status != NOT_IN_FORCE {
            f.write_str("error: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// An error and its causes in one line. A cause that its error already repeats is left out.
pub fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Whether an error was caused by an address that somebody else listens on.
pub fn is_address_in_use(error: &(dyn Error + 'static)) -> bool {
    let mut current = Some(error);
    while let Some(error) = current {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::AddrInUse) {
            return true;
        }
        current = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrapped(&'static str, std::io::Error);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn what_is_not_in_force_yet_is_no_error_and_has_a_status_of_its_own() {
        let failure = Failure::not_in_force("it is not in force yet");
        assert_eq!((failure.status(), Failure::new("").status()), (3, 1));
        assert_eq!(failure.to_string(), "it is not in force yet");
    }

    #[test]
    fn causes_follow_in_one_line() {
        let error = Wrapped("cannot listen", std::io::ErrorKind::AddrInUse.into());
        assert_eq!(in_full(&error), "cannot listen: address in use");
        assert!(is_address_in_use(&error));
        let repeated = Wrapped(
            "cannot listen: address in use",
            std::io::ErrorKind::AddrInUse.into(),
        );
        assert_eq!(in_full(&repeated), "cannot listen: address in use");
        let failure = Failure::because("cannot start", &error).with_hint("stop the other one");
        assert_eq!(
            failure.to_string(),
            "error: cannot start: cannot listen: address in use\nhint: stop the other one"
        );
    }
}
