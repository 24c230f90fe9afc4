//! How each round ends. Drawn from the seed, but evenly: of ten rounds six end at a failpoint, and failpoints take turns.

use std::time::Duration;

use hedgerow_store::failpoint;

use super::process::Failpoint;
use crate::random::Random;

/// How a round is to end.
#[derive(Debug, Clone, Copy)]
pub enum Plan {
    /// With SIGKILL, so long after it began to serve.
    Kill(Duration),
    /// At a failpoint; with SIGKILL if it is not reached.
    Failpoint(Failpoint),
    /// With SIGTERM, so long after it began to serve.
    Stop(Duration),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Failpoint,
    Kill,
    Stop,
}

/// Of ten rounds so many end at a failpoint.
pub const FAILPOINTS_OF_TEN: u32 = 6;
/// Of ten rounds so many end like this.
const KINDS: [(Kind, usize); 3] = [
    (Kind::Failpoint, FAILPOINTS_OF_TEN as usize),
    (Kind::Kill, 3),
    (Kind::Stop, 1),
];
/// So many in a hundred rounds begin with a start that is killed at once.
const KILLED_STARTS_PERCENT: u64 = 25;
/// So many in a hundred kills let the server serve for longer.
const LONG_LIVES_PERCENT: u64 = 20;

/// Draws rounds.
#[derive(Debug)]
pub struct Schedule {
    random: Random,
    /// Rounds of the present ten that are still to come.
    kinds: Vec<Kind>,
    /// Failpoints whose turn is still to come.
    failpoints: Vec<&'static str>,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        let random = Random::of(&[seed, 0x726f_756e]);
        Self {
            random,
            kinds: Vec::new(),
            failpoints: Vec::new(),
        }
    }

    /// After how long a start before the next round is killed; most often there is none.
    pub fn killed_start(&mut self) -> Option<Duration> {
        let is_killed = self.random.percent(KILLED_STARTS_PERCENT);
        is_killed.then(|| self.random.millis(1..=120))
    }

    /// How the next round ends.
    pub fn next(&mut self) -> Plan {
        if self.kinds.is_empty() {
            self.kinds = KINDS
                .iter()
                .flat_map(|(kind, count)| vec![*kind; *count])
                .collect();
            self.random.shuffle(&mut self.kinds);
        }
        match self.kinds.pop().expect("it was filled above") {
            Kind::Failpoint => Plan::Failpoint(self.failpoint()),
            Kind::Kill if self.random.percent(LONG_LIVES_PERCENT) => {
                Plan::Kill(self.random.millis(1000..=2500))
            }
            Kind::Kill => Plan::Kill(self.random.millis(50..=600)),
            Kind::Stop => Plan::Stop(self.random.millis(100..=1500)),
        }
    }

    fn failpoint(&mut self) -> Failpoint {
        if self.failpoints.is_empty() {
            self.failpoints = failpoint::NAMES.to_vec();
            self.random.shuffle(&mut self.failpoints);
        }
        let name = self.failpoints.pop().expect("it was filled above");
        // Groups are written all the time, checkpoints and segments a few times a second.
        let passes = if name.starts_with("group") {
            1..=150
        } else {
            1..=4
        };
        Failpoint {
            name,
            pass: self.random.between(passes),
        }
    }
}
