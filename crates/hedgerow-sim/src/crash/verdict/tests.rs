//! A proof that cannot fail proves nothing: each kind of loss is shown to the judge once.

use super::super::api::{Status, TerminalRecord};
use super::super::ledger::{Answer, Entries, Exchange, Fate, Published};
use super::super::plan::{Event, EventId, SUBSCRIPTIONS};
use super::{Account, DUPLICATES_MAX, Ending, Verdict, judge};

const SEED: u64 = 7;
/// The subscription that wants everything of the first topic.
const ALL: usize = 0;

/// A run in which everything went well: `events` accepted and delivered at once, in one life before and one after a kill.
struct Run {
    entries: Entries,
    lives: Vec<Ending>,
    account: Account,
}

fn id(number: u32) -> EventId {
    EventId { topic: 0, number }
}

fn exchange(life: usize, count: u16, status: u16) -> Exchange {
    Exchange {
        life,
        count,
        system_id: 0,
        answer: Answer::Status(status),
        hangs: false,
    }
}

impl Run {
    fn of(events: u32) -> Self {
        let mut entries = Entries::default();
        let none = Status {
            matched: 0,
            delivered: 0,
            dropped: 0,
            dead_lettered: 0,
            pending: 0,
            in_flight: 0,
            behind: 0,
        };
        let mut statuses = vec![none; SUBSCRIPTIONS.len()];
        for number in 0..events {
            let published = Published {
                request: number / 2,
                fate: Fate::Acknowledged,
            };
            entries.published[0].push(published);
            let event = Event::of(SEED, id(number));
            for (index, status) in statuses.iter_mut().enumerate() {
                if SUBSCRIPTIONS[index].wants(id(number), &event) {
                    let system_id = u128::from(number);
                    let taken = Exchange {
                        system_id,
                        ..exchange(0, 0, 200)
                    };
                    entries.exchanges.insert((index, id(number)), vec![taken]);
                    status.matched += 1;
                    status.delivered += 1;
                }
            }
        }
        let lives = vec![Ending::Killed, Ending::Stopped, Ending::Stopped];
        Self {
            entries,
            lives,
            account: Account {
                statuses,
                terminal: Vec::new(),
            },
        }
    }

    /// Replaces the requests of an event to the subscription that wants everything.
    fn requests(mut self, number: u32, exchanges: &[Exchange]) -> Self {
        let system_id = u128::from(number);
        let exchanges = exchanges.iter().map(|exchange| Exchange {
            system_id,
            ..*exchange
        });
        self.entries
            .exchanges
            .insert((ALL, id(number)), exchanges.collect());
        self
    }

    /// Changes the place of an event's last request to that subscription.
    fn moved(mut self, number: u32, system_id: u128) -> Self {
        let exchanges = self.entries.exchanges.get_mut(&(ALL, id(number))).unwrap();
        exchanges.last_mut().unwrap().system_id = system_id;
        self
    }

    /// That subscription gave the event up.
    fn gave_up(mut self, number: u32, reason: &str, delivery_attempts: u16) -> Self {
        let event = Event::of(SEED, id(number));
        self.account.terminal.push(TerminalRecord {
            event_subscription: SUBSCRIPTIONS[ALL].name.to_owned(),
            event_id: id(number).to_string(),
            event_type: event.type_name.to_owned(),
            subject: event.subject,
            reason: reason.to_owned(),
            delivery_attempts,
            last_http_status_code: Some(400),
        });
        self.account.statuses[ALL].delivered -= 1;
        self.account.statuses[ALL].dropped += 1;
        self
    }

    fn fate(mut self, number: usize, fate: Fate) -> Self {
        self.entries.published[0][number].fate = fate;
        self
    }

    fn judged(&self) -> Verdict {
        judge(SEED, &self.entries, &self.lives, &self.account)
    }

    /// The run is judged good.
    fn passes(&self) -> Verdict {
        let verdict = self.judged();
        assert_eq!(verdict.problems, [""; 0]);
        verdict
    }

    /// The run is judged bad, for this reason.
    fn fails(&self, why: &str) -> Verdict {
        let verdict = self.judged();
        let is_found = verdict.problems.iter().any(|problem| problem.contains(why));
        assert!(is_found, "{why} is not among {:?}", verdict.problems);
        verdict
    }
}

#[test]
fn a_good_run_passes() {
    let verdict = Run::of(20).passes();
    assert_eq!((verdict.lost, verdict.duplicates()), (0, 0));
}

#[test]
fn what_was_acknowledged_and_never_taken_is_lost() {
    assert_eq!(
        Run::of(4)
            .requests(1, &[exchange(0, 0, 500)])
            .fails("is lost")
            .lost,
        1
    );
    let mut run = Run::of(4);
    run.entries.exchanges.remove(&(ALL, id(1)));
    assert_eq!(run.fails("is lost").lost, 1);
}

#[test]
fn an_event_in_doubt_is_stored_with_its_request_or_not_at_all() {
    let mut run = Run::of(4).fate(2, Fate::Maybe).fate(3, Fate::Maybe);
    assert_eq!(run.passes().doubtful_stored, 2);
    run.entries
        .exchanges
        .retain(|(_, event), _| *event != id(3));
    run.fails("1 of 2 events stored");
    Run::of(4)
        .fate(2, Fate::Refused)
        .fails("stored all the same");
}

#[test]
fn counts_never_go_down_and_repeat_only_over_a_crash() {
    let failed = |life, count| exchange(life, count, 500);
    Run::of(2)
        .requests(0, &[failed(0, 0), failed(1, 0), exchange(1, 1, 200)])
        .passes();
    Run::of(2)
        .requests(0, &[failed(0, 1), failed(1, 0), exchange(1, 2, 200)])
        .fails("counts are out of order");
    Run::of(2)
        .requests(0, &[failed(1, 0), exchange(1, 0, 200)])
        .fails("counts are out of order");
    Run::of(2)
        .requests(0, &[failed(1, 0), exchange(2, 0, 200)])
        .fails("counts are out of order");
}

#[test]
fn what_was_taken_is_sent_again_only_over_a_crash() {
    let verdict = Run::of(2)
        .requests(0, &[exchange(0, 0, 200), exchange(1, 1, 200)])
        .passes();
    assert_eq!(verdict.duplicates(), 1);
    for life in [1, 2] {
        Run::of(2)
            .requests(0, &[exchange(1, 0, 200), exchange(life, 1, 200)])
            .fails("without a crash");
    }
    let late = Exchange {
        hangs: true,
        ..exchange(1, 0, 200)
    };
    let verdict = Run::of(2)
        .requests(0, &[late, exchange(1, 1, 200)])
        .passes();
    assert_eq!(
        (verdict.duplicates(), verdict.rows[ALL].late_duplicates),
        (0, 1)
    );
}

#[test]
fn an_event_keeps_its_place() {
    let twice = [exchange(0, 0, 500), exchange(0, 1, 200)];
    Run::of(2)
        .requests(0, &twice)
        .moved(0, 99)
        .fails("changed its place");
    Run::of(2).moved(0, 1).fails("have the same place");
}

#[test]
fn duplicates_are_bounded_for_each_crash() {
    let again = [exchange(0, 0, 200), exchange(1, 0, 200)];
    let run = |count: u64| {
        (0..count as u32).fold(Run::of(200), |run, number| run.requests(number, &again))
    };
    assert_eq!(
        run(DUPLICATES_MAX).passes().duplicates_at_once(),
        DUPLICATES_MAX
    );
    run(DUPLICATES_MAX + 1).fails("sent again after the end of life 0");
}

#[test]
fn terminal_records_tell_the_truth() {
    let refused = [exchange(0, 0, 500), exchange(0, 1, 400)];
    let reason = "UndeliverableDueToHttpBadRequest";
    Run::of(2)
        .requests(0, &refused)
        .gave_up(0, reason, 2)
        .passes();
    Run::of(2)
        .requests(0, &refused)
        .gave_up(0, reason, 1)
        .fails("ended after 1 attempts");
    Run::of(2)
        .gave_up(0, reason, 1)
        .fails("ended for no reason");
    Run::of(2)
        .requests(0, &refused)
        .gave_up(0, "TimeToLiveExceeded", 2)
        .fails("for no reason");
    let twice = Run::of(2)
        .requests(0, &refused)
        .gave_up(0, reason, 2)
        .gave_up(0, reason, 2);
    twice.fails("a second terminal record");
}

#[test]
fn counters_balance_and_say_what_the_ledger_says() {
    let with = |change: fn(&mut Status)| {
        let mut run = Run::of(4);
        change(&mut run.account.statuses[ALL]);
        run
    };
    with(|status| status.pending += 1).fails("the counters say");
    with(|status| status.delivered += 1).fails("the counters say");
    with(|status| (status.matched, status.delivered) = (3, 3)).fails("the counters say");
    with(|status| (status.delivered, status.dropped) = (3, 1)).fails("the counters say");
}
