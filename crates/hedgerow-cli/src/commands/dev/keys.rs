//! What can be typed while `dev` runs: a line each, ended with Enter. Only a terminal is listened to; with anything else
//! as standard input, or none, `dev` runs until it gets a signal.
//!
//! Whole lines, not single keys: the terminal stays as it is, so that copying, pasting and Ctrl-C work as everywhere.

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
    /// A command that is meant for a shell.
    Pasted,
}

/// What can be typed.
pub const HELP: &str = "200, 500, 503, 429, 400, 404 or another status, late, hang, drip, redirect, close: what the \
                        receiver answers from now on (`429 5`: with Retry-After 5; late: 200 after 45 s); q ends, ? shows this";
/// What is said about a command that was pasted here.
pub const PASTED: &str =
    "that is for a shell: paste it into another terminal (? shows what can be typed here)";

/// What is said where nothing can be typed.
pub const NO_TERMINAL: &str = "standard input is no terminal, and nothing can be typed: the PUT above switches what the receiver \
                               answers, and a signal ends it\n";

/// Lines that may wait to be looked at.
const LINES_MAX: usize = 16;

impl Key {
    /// Reads a line. `None` for an empty one; whatever is not known asks for help.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        let rest: Vec<_> = words.collect();
        let answer = match first {
            "k" => Some(Answer::status(StatusCode::OK)),
            "f" => Some(Answer::status(StatusCode::SERVICE_UNAVAILABLE)),
            word => Answer::from_word(word),
        };
        let key = match (answer, first, rest.as_slice()) {
            (Some(answer), _, []) => Some(Self::Answer(answer)),
            (Some(answer), _, [seconds]) => {
                let seconds = seconds.parse().ok();
                seconds
                    .and_then(|seconds| answer.with_retry_after(seconds))
                    .map(Self::Answer)
            }
            (None, "q", []) => Some(Self::Quit),
            (None, "curl" | "hedgerow", [_, ..]) => Some(Self::Pasted),
            _ => None,
        };
        Some(key.unwrap_or(Self::Help))
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
            read_lines(std::io::stdin().lock(), |key| {
                keys.blocking_send(key).is_ok()
            });
        };
        let thread = std::thread::Builder::new().name("hedgerow-keys".to_owned());
        if let Err(error) = thread.spawn(read) {
            tracing::warn!(%error, "the terminal is not listened to");
        }
    }
    typed
}

/// Tells what each line means for as long as somebody listens. What is not UTF-8 is no command either: it asks for help like
/// whatever else is not known, and the lines behind it are read.
fn read_lines(mut lines: impl BufRead, mut tell: impl FnMut(Key) -> bool) {
    let mut line = Vec::new();
    while lines
        .read_until(b'\n', &mut line)
        .is_ok_and(|read| read > 0)
    {
        if let Some(key) = Key::read(&String::from_utf8_lossy(&line))
            && !tell(key)
        {
            return;
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_text_asks_for_help_and_the_next_one_is_read() {
        let mut keys = Vec::new();
        read_lines(&b"50\xff\n\xfc\n503\n\nq"[..], |key| {
            keys.push(key);
            true
        });
        let busy = Key::Answer(Answer::status(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(keys, [Key::Help, Key::Help, busy, Key::Quit]);
        // Nobody listens any more.
        let mut count = 0;
        read_lines(&b"q\nq\n"[..], |_| {
            count += 1;
            false
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn lines_mean() {
        let answer = |code| {
            Some(Key::Answer(Answer::status(
                StatusCode::from_u16(code).unwrap(),
            )))
        };
        let word = |word| Some(Key::Answer(Answer::from_word(word).unwrap()));
        let busy = Answer::from_word("429").unwrap();
        let rows = [
            ("", None),
            ("  ", None),
            ("200", answer(200)),
            (" 503\r", answer(503)),
            ("k", answer(200)),
            ("f", answer(503)),
            ("hang", word("hang")),
            ("drip", word("drip")),
            ("redirect", word("redirect")),
            ("close", word("close")),
            // Too many requests, and when to come again.
            (" 429\r", word("429")),
            ("429 5", busy.with_retry_after(5).map(Key::Answer)),
            ("429 soon", Some(Key::Help)),
            ("503 9 9", Some(Key::Help)),
            ("hang 5", Some(Key::Help)),
            ("q", Some(Key::Quit)),
            ("?", Some(Key::Help)),
            ("100", Some(Key::Help)),
            ("600", Some(Key::Help)),
            ("what", Some(Key::Help)),
            ("curl -i http://127.0.0.1:8080/", Some(Key::Pasted)),
            ("hedgerow explain 1", Some(Key::Pasted)),
        ];
        for (line, key) in rows {
            assert_eq!(Key::read(line), key, "{line:?}");
        }
        assert_eq!(busy.retry_after, Some(60));
    }
}
