//! ED-245 to ED-249: when a dead letter is written, tried again and dropped, and where it stands.

use std::time::Duration;

use hedgerow_core::dead_letter::{AfterFailedWrite, DeadLetterSettings, blob_path};
use hedgerow_core::time::Timestamp;

const DECIDED: Timestamp = Timestamp::from_millis(1_893_553_445_000);

fn after(seconds: u64) -> Timestamp {
    DECIDED.plus(Duration::from_secs(seconds))
}

#[test]
fn a_write_is_due_five_minutes_after_the_decision() {
    let settings = DeadLetterSettings::default();
    assert_eq!(settings.first_write(DECIDED), after(300), "ED-245");
    let at_once = DeadLetterSettings {
        delay: Duration::ZERO,
        ..settings
    };
    assert_eq!(at_once.first_write(DECIDED), DECIDED);
}

/// ED-247: at 0, 10 s, 1 min, 5 min, then every 5 min; dropped when the first failed try is 14,400 s old.
#[test]
fn failed_writes_follow_the_schedule_and_end_after_four_hours() {
    let settings = DeadLetterSettings::default();
    let first = after(300);
    let mut tries = vec![0];
    let mut now = first;
    for failed in 1.. {
        match settings.after_failed_write(failed, first, now) {
            AfterFailedWrite::Again(due) => now = due,
            AfterFailedWrite::Drop => break,
        }
        tries.push(now.since(first).as_secs());
    }
    assert_eq!(tries[..6], [0, 10, 60, 300, 600, 900]);
    assert_eq!(tries.last(), Some(&14_400));
    assert_eq!(tries.len(), 3 + 48);
}

#[test]
fn without_a_limit_an_event_is_held_for_ever() {
    let settings = DeadLetterSettings {
        max_unavailable: Duration::ZERO,
        ..DeadLetterSettings::default()
    };
    let now = after(30 * 24 * 3600);
    let next = settings.after_failed_write(9_000, after(300), now);
    assert!(matches!(next, AfterFailedWrite::Again(due) if due > now));
}

#[test]
fn a_blob_is_named_after_subscription_and_hour() {
    let written = Timestamp::from_millis(1_565_240_399_999);
    let path = blob_path("my-sub", written, "1b4e28ba-2fa1-11d2-883f-0016d3cca427");
    assert_eq!(
        path, "MY-SUB/2019/8/8/4/1b4e28ba-2fa1-11d2-883f-0016d3cca427.json",
        "ED-249"
    );
}
