//! What can be typed while `dev` runs: a line each, ended with Enter. Only a terminal is listened to; with anything else
//! as standard input, or none, `dev` runs until it gets a signal.

use std::io::{BufRead, IsTerminal};

use http::StatusCode;
use tokio::sync::mpsc;

use super::receiver::Answer;

/// What was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Switch the receiver's answer.
    Answer(Answer),
    /// End.
    Quit,
    /// Say what can be typed.
    Help,
}

/// What can be typed.
pub const HELP: &str = "a status (200 to 599) or k = 200, f = 503, hang = no answer: switches the receiver; \
                        q ends, ? shows this";

/// Lines that may wait to be looked at.
const LINES_MAX: usize = 16;

impl Key {
    /// Reads a line. `None` for an empty one; whatever is not known asks for help.
    pub fn read(line: &str) -> Option<Self> {
        let key = match line.trim() {
            "" => return None,
            "k" => Self::Answer(Answer::status(StatusCode::OK)),
            "f" => Self::Answer(Answer::status(StatusCode::SERVICE_UNAVAILABLE)),
            "hang" => Self::Answer(Answer::hang()),
            "q" => Self::Quit,
            status => match status
                .parse()
                .ok()
                .filter(|code| (200..=599).contains(code))
            {
                Some(code) => {
                    let status = StatusCode::from_u16(code).expect("200 to 599 are valid");
                    Self::Answer(Answer::status(status))
                }
                None => Self::Help,
            },
        };
        Some(key)
    }
}

/// Whether there is a terminal to type at.
pub fn is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Listens to the terminal from now on, if there is one. The thread ends with the process: nothing can take a read
/// from a terminal back.
pub fn listen() -> mpsc::Receiver<Key> {
    let (keys, typed) = mpsc::channel(LINES_MAX);
    if is_terminal() {
        let read = move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if let Some(key) = Key::read(&line)
                    && keys.blocking_send(key).is_err()
                {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("hedgerow-keys".to_owned());
        if let Err(error) = thread.spawn(read) {
            tracing::warn!(%error, "the terminal is not listened to");
        }
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_mean() {
        let answer = |code| {
            Some(Key::Answer(Answer::status(
                StatusCode::from_u16(code).unwrap(),
            )))
        };
        let rows = [
            ("", None),
            ("200", answer(200)),
            (" 429\r", answer(429)),
            ("k", answer(200)),
            ("f", answer(503)),
            ("hang", Some(Key::Answer(Answer::hang()))),
            ("q", Some(Key::Quit)),
            ("?", Some(Key::Help)),
            ("100", Some(Key::Help)),
            ("600", Some(Key::Help)),
            ("what", Some(Key::Help)),
        ];
        for (line, key) in rows {
            assert_eq!(Key::read(line), key, "{line:?}");
        }
    }
}
