//! One attempt as a line for the terminal: when, which event, what it met, how long it took, what is next.

use std::time::Duration;

use hedgerow_server::{AttemptNote, NoteNext};

use super::DEMO;
use crate::output::printable;

/// Signs of an event's id that are shown.
const ID_LEN_MAX: usize = 64;

/// Signs of what went wrong that are shown.
const DETAIL_LEN_MAX: usize = 160;

/// The line.
pub fn text(note: &AttemptNote) -> String {
    // Timestamps are written as `2030-01-02T03:04:05.0060000Z`.
    let time = note.ended.to_string();
    let time = time.get(11..23).unwrap_or(&time);
    let id: String = printable(&note.event_id).chars().take(ID_LEN_MAX).collect();
    let of = if note.topic == DEMO && note.subscription == DEMO {
        String::new()
    } else {
        format!(" {} -> {}", note.topic, note.subscription)
    };
    let met = match (note.attempt, note.outcome, note.status) {
        (0, _, _) => "no attempt".to_owned(),
        (attempt, outcome, status) => {
            let outcome = outcome.map(|outcome| outcome.to_string());
            let status = (status != 0).then(|| status.to_string());
            let met: Vec<String> = status.into_iter().chain(outcome).collect();
            let detail = note.detail.as_deref().map(|detail| {
                let detail: String = printable(detail).chars().take(DETAIL_LEN_MAX).collect();
                format!(" ({detail})")
            });
            let detail = detail.unwrap_or_default();
            format!(
                "attempt {attempt}: {}{detail} in {}",
                met.join(" "),
                span(note.duration)
            )
        }
    };
    let next = match note.next {
        NoteNext::Delivered => "delivered".to_owned(),
        NoteNext::Due(due) => format!("retry in {}", span(rounded(due.since(note.ended)))),
        NoteNext::Dead(reason) => format!("given up: {reason}"),
        NoteNext::DeadLetter { reason, due } => format!(
            "given up: {reason}; dead letter in {}",
            span(rounded(due.since(note.ended)))
        ),
    };
    format!("{time}Z  event {id}{of}  {met}; {next}")
}

fn rounded(wait: Duration) -> Duration {
    if wait < Duration::from_secs(1) {
        return wait;
    }
    Duration::from_secs((wait.as_millis() as u64 + 500) / 1000)
}

/// A time as people say it, in at most two units.
fn span(span: Duration) -> String {
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
    use hedgerow_core::time::Timestamp;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_893_553_445_006);

    fn note() -> AttemptNote {
        AttemptNote {
            topic: DEMO.to_owned(),
            subscription: DEMO.to_owned(),
            event_id: "1".to_owned(),
            attempt: 2,
            outcome: None,
            status: 200,
            detail: None,
            ended: NOW,
            duration: Duration::from_millis(3),
            next: NoteNext::Delivered,
        }
    }

    #[test]
    fn lines_say_what_is_next() {
        let busy = AttemptNote {
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
        let expired = AttemptNote {
            attempt: 0,
            subscription: "other".to_owned(),
            next: NoteNext::Dead(DeadLetterReason::TimeToLiveExceeded),
            ..note()
        };
        let rows = [
            (note(), "attempt 2: 200 in 3 ms; delivered"),
            (busy, "attempt 2: 503 Busy in 3 ms; retry in 30 s"),
            (
                timed_out,
                "attempt 2: TimedOut (no answer in 30s) in 30.0 s; retry in 5 min",
            ),
            (
                expired,
                "demo -> other  no attempt; given up: TimeToLiveExceeded",
            ),
        ];
        for (note, end) in rows {
            let line = text(&note);
            assert!(
                line.starts_with("03:04:05.006Z  event 1 ") && line.ends_with(end),
                "{line}"
            );
        }
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
