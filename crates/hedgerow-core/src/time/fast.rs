//! Server time that runs faster than the clocks: `hedgerow dev --speed` (design D4).
//!
//! It drives schedules, windows and times to live. While an exchange is open that began less than
//! [`SLOW_SPAN`] ago it runs with the clocks, so that no answer looks late because time is fast, and no timeout comes
//! before that span has really passed. There is no wall clock to approach: it is left behind on purpose.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::Timestamp;

/// How long after an exchange began server time still runs with the clocks, while it is open.
pub const SLOW_SPAN: Duration = Duration::from_millis(250);

/// Server time at a multiple of the clocks' pace. Pure: whoever owns the clock reads it and hands in how long it has been
/// running. Readings before the last one count as the last one.
#[derive(Debug, Clone)]
pub struct FastTime {
    speed: u32,
    /// Server time at the last reading, since 1970. More exact than a [`Timestamp`], so that many readings lose nothing.
    time: Duration,
    /// What the clock showed at the last reading.
    read_at: Duration,
    /// When each open exchange began that was young at the last reading, by its number: the newest is the last.
    young: BTreeMap<u64, Duration>,
    next_exchange: u64,
}

impl FastTime {
    /// A time that shows `start` when the clock shows `clock`, and passes `speed` times as fast.
    #[must_use]
    pub const fn start(speed: NonZeroU32, start: Timestamp, clock: Duration) -> Self {
        Self {
            speed: speed.get(),
            time: Duration::from_millis(start.as_millis()),
            read_at: clock,
            young: BTreeMap::new(),
            next_exchange: 0,
        }
    }

    /// The server time now.
    pub fn read(&mut self, clock: Duration) -> Timestamp {
        let passed = clock.saturating_sub(self.read_at);
        let slow = passed.min(self.slow_left());
        let fast = passed.saturating_sub(slow).saturating_mul(self.speed);
        self.time = self.time.saturating_add(slow).saturating_add(fast);
        self.read_at = self.read_at.max(clock);
        while let Some(oldest) = self.young.first_entry() {
            if *oldest.get() + SLOW_SPAN > self.read_at {
                break;
            }
            oldest.remove();
        }
        Timestamp::ZERO.plus(self.time)
    }

    /// Notes that an exchange begins. Returns its number.
    pub fn begin_exchange(&mut self, clock: Duration) -> u64 {
        self.read(clock);
        let number = self.next_exchange;
        self.next_exchange += 1;
        self.young.insert(number, self.read_at);
        number
    }

    /// Notes that the exchange of this number ended.
    pub fn end_exchange(&mut self, number: u64, clock: Duration) {
        self.read(clock);
        self.young.remove(&number);
    }

    /// How long the clock has to run until so much server time has passed since the last reading, if no exchange begins
    /// or ends meanwhile.
    #[must_use]
    pub fn wait(&self, span: Duration) -> Duration {
        let slow = span.min(self.slow_left());
        let fast = span.saturating_sub(slow) / self.speed;
        // A wait that is a part of a nanosecond too short would have to be waited for again.
        slow + fast + Duration::from_nanos(u64::from(!fast.is_zero()))
    }

    /// How much longer it runs with the clock, seen from the last reading.
    fn slow_left(&self) -> Duration {
        let newest = self.young.last_key_value();
        newest.map_or(Duration::ZERO, |(_, began)| {
            (*began + SLOW_SPAN).saturating_sub(self.read_at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_893_456_000_000);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A time of this speed; its clock shows 7 s at the start.
    fn time(speed: u32) -> FastTime {
        FastTime::start(NonZeroU32::new(speed).unwrap(), START, ms(7_000))
    }

    /// What has passed when the clock has run for so many milliseconds.
    fn passed(time: &mut FastTime, millis: u64) -> u64 {
        time.read(ms(7_000 + millis)).since(START).as_millis() as u64
    }

    #[test]
    fn a_day_in_24_seconds() {
        let mut time = time(3_600);
        assert_eq!(passed(&mut time, 0), 0);
        assert_eq!(passed(&mut time, 1), 3_600);
        assert_eq!(passed(&mut time, 24_000), 24 * 3_600_000);
    }

    /// Design D4. Each row: (when exchanges begin and end, when the clock is read, what has passed), at speed 60.
    #[test]
    fn young_exchanges_slow_it_down() {
        type Row<'a> = (&'a str, &'a [(u64, u64)], u64, u64);
        let rows: &[Row] = &[
            ("none", &[], 1_000, 60_000),
            ("a short one", &[(0, 100)], 1_000, 100 + 900 * 60),
            ("just young", &[(0, 900)], 250, 250),
            ("no longer young", &[(0, 900)], 251, 250 + 60),
            ("a long one", &[(0, 900)], 1_000, 250 + 750 * 60),
            (
                "one begins later",
                &[(500, 600)],
                1_000,
                500 * 60 + 100 + 400 * 60,
            ),
            (
                "two that overlap",
                &[(0, 150), (100, 900)],
                1_000,
                350 + 650 * 60,
            ),
            (
                "the newer one ends first",
                &[(0, 900), (100, 120)],
                1_000,
                250 + 750 * 60,
            ),
            (
                "one after the other",
                &[(0, 100), (100, 200), (200, 300)],
                300,
                300,
            ),
            (
                "always a young one",
                &[(0, 900), (200, 900), (400, 900), (600, 900), (800, 900)],
                1_000,
                900 + 100 * 60,
            ),
        ];
        for (name, exchanges, clock, expected) in rows {
            let mut time = time(60);
            let mut steps: Vec<(u64, bool, usize)> = Vec::new();
            for (index, (begin, end)) in exchanges.iter().enumerate() {
                steps.push((*begin, true, index));
                steps.push((*end, false, index));
            }
            steps.sort_by_key(|(at, begins, _)| (*at, *begins));
            let mut numbers = vec![0; exchanges.len()];
            for (at, begins, index) in steps.into_iter().filter(|(at, ..)| at <= clock) {
                let at = ms(7_000 + at);
                if begins {
                    numbers[index] = time.begin_exchange(at);
                } else {
                    time.end_exchange(numbers[index], at);
                }
            }
            assert_eq!(passed(&mut time, *clock), *expected, "{name}");
        }
    }

    #[test]
    fn many_readings_pass_as_much_as_one() {
        let mut often = time(7);
        let exchange = often.begin_exchange(ms(7_000));
        let mut last = START;
        for micros in (0..=900_000).step_by(333) {
            let read = often.read(ms(7_000) + Duration::from_micros(micros));
            assert!(read >= last, "went back at {micros}");
            last = read;
        }
        often.end_exchange(exchange, ms(7_900));
        let mut once = time(7);
        let exchange = once.begin_exchange(ms(7_000));
        once.end_exchange(exchange, ms(7_900));
        assert_eq!(passed(&mut often, 1_000), passed(&mut once, 1_000));
        assert_eq!(passed(&mut once, 500), passed(&mut once, 0), "never back");
    }

    /// No timeout comes before 250 ms have really passed, however fast time is.
    #[test]
    fn waits_are_exact_and_never_short_for_a_young_exchange() {
        for speed in [1, 2, 60, 3_600, 86_400] {
            for span in [1, 250, 251, 1_000, 30_000, 300_000, 86_400_000] {
                let mut time = time(speed);
                let exchange = time.begin_exchange(ms(7_000));
                let wait = time.wait(ms(span));
                assert!(wait >= ms(span.min(250)), "{speed}: {span}");
                assert!(
                    wait <= ms(span.min(250)) + ms(span) / speed + Duration::from_nanos(1),
                    "{speed}: {span}"
                );
                let read = time.read(ms(7_000) + wait);
                assert!(read.since(START) >= ms(span), "{speed}: {span}");
                time.end_exchange(exchange, ms(7_000) + wait);
                assert!(time.wait(ms(span)) <= ms(span) / speed + Duration::from_nanos(1));
            }
        }
    }
}
