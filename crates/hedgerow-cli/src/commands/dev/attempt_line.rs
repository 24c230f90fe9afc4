//! One attempt as a line for the terminal, in columns: when, which subscription, which event, which attempt, what it met,
//! how long it took, what is next.

use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_server::{AttemptNote, NoteNext};

use crate::output::printable;

/// Signs of an event's id that are shown.
const ID_LEN_MAX: usize = 64;
/// Signs of what went wrong that are shown.
const DETAIL_LEN_MAX: usize = 160;
/// Columns grow with what stands in them, up to here.
const WIDTH_MAX: usize = 40;

/// Writes the lines. Columns are as wide as the widest so far, so that lines that follow each other are aligned.
#[derive(Debug)]
pub struct AttemptLines {
    has_colour: bool,
    widths: [usize; 3],
}

/// The colours of the ways on.
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

impl AttemptLines {
    /// Lines with colours, or without: a file, or another program, gets none.
    pub const fn new(has_colour: bool) -> Self {
        Self {
            has_colour,
            // `demo/demo-fails`, an id of a few signs, `503 Busy`: what there is at first moves no column.
            widths: [15, 8, 12],
        }
    }

    /// The line of an attempt.
    pub fn text(&mut self, note: &AttemptNote) -> String {
        let time = clock(note.ended);
        let id = cut(&note.event_id, ID_LEN_MAX);
        let of = of(&note.topic, &note.subscription);
        let (attempt, met, took) = if note.attempt == 0 {
            let kind = match note.next {
                NoteNext::DeadLettered(_) => "dead letter",
                _ => "no attempt",
            };
            (kind.to_owned(), String::new(), String::new())
        } else {
            let attempt = format!("attempt {}", note.attempt);
            (attempt, met(note), span(note.duration))
        };
        let (colour, next) = next(note);
        let [of, id, met] = self.columns([of, id, met]);
        let (colour, reset) = if self.has_colour {
            (colour, RESET)
        } else {
            ("", "")
        };
        format!("{time}  {of}  {id}  {attempt:<10}  {met}  {took:>7}  {colour}{next}{reset}")
    }

    fn columns(&mut self, cells: [String; 3]) -> [String; 3] {
        let mut index = 0;
        cells.map(|cell| {
            let width = &mut self.widths[index];
            index += 1;
            *width = cell.chars().count().clamp(*width, WIDTH_MAX.max(*width));
            format!("{cell:<width$}", width = *width)
        })
    }
}

/// The time of day.
pub fn clock(time: Timestamp) -> String {
    // Timestamps are written as `2030-01-02T03:04:05.0060000Z`.
    let time = time.to_string();
    format!("{}Z", time.get(11..23).unwrap_or(&time))
}

/// Which subscription.
pub fn of(topic: &str, subscription: &str) -> String {
    if topic == subscription {
        subscription.to_owned()
    } else {
        format!("{topic}/{subscription}")
    }
}

fn met(note: &AttemptNote) -> String {
    let status = (note.status != 0).then(|| note.status.to_string());
    let outcome = note.outcome.map(|outcome| outcome.to_string());
    let batch = note.batch_events.map(|events| format!("({events} events)"));
    let met: Vec<String> = status.into_iter().chain(outcome).chain(batch).collect();
    met.join(" ")
}

/// What is next, and its colour.
fn next(note: &AttemptNote) -> (&'static str, String) {
    let until = |due: Timestamp| span(rounded(due.since(note.ended)));
    let (colour, text) = match note.next {
        NoteNext::Delivered if note.is_late => {
            let text = "delivered late: it had timed out, and counts all the same";
            (GREEN, text.to_owned())
        }
        NoteNext::Delivered => (GREEN, "delivered".to_owned()),
        NoteNext::Due(due) => (YELLOW, format!("retry in {}", until(due))),
        NoteNext::Dead(reason) => (RED, format!("given up: {reason}")),
        NoteNext::DeadLettered(reason) => (RED, format!("written: {reason}")),
        NoteNext::Purged => (RED, "purged".to_owned()),
        NoteNext::DeadLetter { reason, due } => {
            let due = until(due);
            (RED, format!("given up: {reason}; dead letter in {due}"))
        }
    };
    match &note.detail {
        Some(detail) => {
            let detail = cut(detail, DETAIL_LEN_MAX);
            (colour, format!("{text} ({detail})"))
        }
        None => (colour, text),
    }
}

fn cut(text: &str, len_max: usize) -> String {
    printable(text).chars().take(len_max).collect()
}

fn rounded(wait: Duration) -> Duration {
    if wait < Duration::from_secs(1) {
        return wait;
    }
    Duration::from_secs((wait.as_millis() as u64 + 500) / 1000)
}

/// A time as people say it, in at most two units.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    };
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..60 if span.subsec_millis() == 0 => format!("{seconds} s"),
        1..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        _ => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_core::outcome::{DeadLetterReason, Outcome};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_893_553_445_006);

    fn note() -> AttemptNote {
        AttemptNote {
            topic: "demo".into(),
            subscription: "demo".into(),
            event_id: "1".to_owned(),
            attempt: 2,
            outcome: None,
            status: 200,
            detail: None,
            batch_events: None,
            ended: NOW,
            duration: Duration::from_millis(3),
            is_late: false,
            to: None,
            next: NoteNext::Delivered,
        }
    }

    #[test]
    fn lines_say_what_is_next_in_columns() {
        let busy = AttemptNote {
            subscription: "demo-fails".into(),
            event_id: "fails-1".to_owned(),
            outcome: Some(Outcome::Busy),
            status: 503,
            next: NoteNext::Due(NOW.plus(Duration::from_millis(29_991))),
            ..note()
        };
        let timed_out = AttemptNote {
            outcome: Some(Outcome::TimedOut),
            status: 0,
            detail: Some("no answer in 30s".to_owned()),
            duration: Duration::from_millis(30_020),
            next: NoteNext::Due(NOW.plus(Duration::from_secs(300))),
            ..note()
        };
        let dead = AttemptNote {
            outcome: Some(Outcome::Busy),
            status: 503,
            next: NoteNext::DeadLetter {
                reason: DeadLetterReason::MaxDeliveryAttemptsExceeded,
                due: NOW.plus(Duration::from_secs(10)),
            },
            ..note()
        };
        let expired = AttemptNote {
            attempt: 0,
            next: NoteNext::Dead(DeadLetterReason::TimeToLiveExceeded),
            ..note()
        };
        let rows = [
            (
                &note(),
                "03:04:05.006Z  demo             1         attempt 2   200              3 ms  delivered",
            ),
            (
                &busy,
                "03:04:05.006Z  demo/demo-fails  fails-1   attempt 2   503 Busy         3 ms  retry in 30 s",
            ),
            (
                &timed_out,
                "03:04:05.006Z  demo             1         attempt 2   TimedOut       30.0 s  retry in 5 min (no answer in 30s)",
            ),
            (
                &dead,
                "03:04:05.006Z  demo             1         attempt 2   503 Busy         3 ms  given up: \
                 MaxDeliveryAttemptsExceeded; dead letter in 10 s",
            ),
            (
                &expired,
                "03:04:05.006Z  demo             1         no attempt                         given up: TimeToLiveExceeded",
            ),
        ];
        let mut lines = AttemptLines::new(false);
        for (note, line) in rows {
            assert_eq!(lines.text(note), line);
        }
        let coloured = AttemptLines::new(true).text(&note());
        assert!(
            coloured.ends_with("\x1b[32mdelivered\x1b[0m"),
            "{coloured:?}"
        );
    }

    #[test]
    fn an_id_cannot_move_the_cursor_or_the_columns() {
        let odd = AttemptNote {
            event_id: format!("\x1b[2J{}", "x".repeat(100)),
            ..note()
        };
        let mut lines = AttemptLines::new(false);
        let line = lines.text(&odd);
        assert!(!line.contains('\x1b') && line.len() < 150, "{line:?}");
        assert_eq!(lines.widths[1], WIDTH_MAX);
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let rows = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_500, "1.5 s"),
            (60_000, "1 min"),
            (312_000, "5 min 12 s"),
            (3_600_000, "1 h"),
            (45_296_000, "12 h 34 min"),
        ];
        for (millis, text) in rows {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }
}
