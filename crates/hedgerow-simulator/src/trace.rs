//! What happened, line by line: hashed always, printed when somebody replays a seed.

use std::fmt;
use std::time::Duration;

/// The lines so far.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    lines: u64,
    is_printed: bool,
}

impl Trace {
    /// Nothing happened yet.
    pub const fn new(is_printed: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: 0,
            is_printed,
        }
    }

    /// Notes what happened so long after the start.
    pub fn note(&mut self, at: Duration, what: fmt::Arguments<'_>) {
        let line = format!("{:>12} {what}", at.as_millis());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines += 1;
        if self.is_printed {
            println!("{line}");
        }
    }

    /// Stands for all lines.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// How many they are.
    pub const fn lines(&self) -> u64 {
        self.lines
    }
}
