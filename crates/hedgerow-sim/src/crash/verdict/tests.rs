//! A proof that cannot fail proves nothing: each kind of loss is shown to the judge once.

use std::collections::HashMap;

use super::super::api::{Status, TerminalRecord};
use super::super::ledger::{Answer, Entries, Exchange, Fate, Outcome, Published, Purge, Resend};
use super::super::plan::{Event, EventId, SUBSCRIPTIONS};
use super::{Account, Ending, Verdict, duplicates_max, judge};

const SEED: u64 = 7;
/// The subscription that wants everything of the first topic.
const ALL: usize = 0;
/// The one that is purged, and wants the events that this says.
const PURGED: usize = 10;
/// The one whose events travel together.
const BATCHED: usize = 12;
/// The one whose events of one subject are sent one after the other.
const ORDERED: usize = 13;

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
        system_id: Some(0),
        answer: Answer::Status(status),
        hangs: false,
        tick: 0,
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
            let request = u64::from(published.request);
            entries.requests.truncate(request as usize);
            entries.requests.push((4 * request, Some(4 * request + 1)));
            let event = Event::of(SEED, id(number));
            for (index, status) in statuses.iter_mut().enumerate() {
                if SUBSCRIPTIONS[index].wants(id(number), &event) {
                    let system_id = Some(u128::from(number));
                    let tick = if index == ORDERED { number.into() } else { 0 };
                    let taken = Exchange {
                        system_id,
                        tick,
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
                told: HashMap::new(),
            },
        }
    }

    /// Replaces the requests of an event to the subscription that wants everything.
    fn requests(mut self, number: u32, exchanges: &[Exchange]) -> Self {
        let system_id = Some(u128::from(number));
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
        exchanges.last_mut().unwrap().system_id = Some(system_id);
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
    let max = duplicates_max(1);
    let verdict = run(max).passes();
    assert_eq!(verdict.rows[ALL].duplicates_at_once(), max);
    run(max + 1).fails("sent again after the end of life 0");
    let events = SUBSCRIPTIONS[BATCHED].events_per_request();
    assert_eq!(duplicates_max(events) - max, 32 * (events - 1));
}

/// The first two events of one subject in requests of their own that the ordered subscription wants.
fn two_of_a_key() -> [u32; 2] {
    let wanted =
        |number: &u32| SUBSCRIPTIONS[ORDERED].wants(id(*number), &Event::of(SEED, id(*number)));
    let subject = |number| Event::of(SEED, id(number)).subject;
    let mut pairs = (0..1_000).filter(wanted).flat_map(|behind| {
        let ahead = (0..behind / 2 * 2).filter(wanted);
        let ahead = ahead.filter(move |ahead| subject(*ahead) == subject(behind));
        ahead.map(move |ahead| [ahead, behind])
    });
    pairs.next().unwrap()
}

#[test]
fn events_of_a_key_are_sent_one_after_the_other() {
    let [ahead, behind] = two_of_a_key();
    let run = |[of_ahead, of_behind]: [&[u64]; 2]| {
        let mut run = Run::of(behind + 1);
        for (number, ticks) in [(ahead, of_ahead), (behind, of_behind)] {
            let sent = (0..).zip(ticks).map(|(life, tick)| Exchange {
                system_id: Some(u128::from(number)),
                tick: *tick,
                ..exchange(life, 0, 200)
            });
            let pair = (ORDERED, id(number));
            run.entries.exchanges.insert(pair, sent.collect());
        }
        run
    };
    let why = "was sent after";
    run([&[1, 2], &[3]]).passes();
    run([&[3], &[2]]).fails(why);
    // It was taken, and then sent again although the next one had begun.
    run([&[1, 3], &[2]]).fails(why);
    // Requests that were on their way together have no order.
    let mut together = run([&[3], &[2]]);
    together.entries.requests[(ahead / 2) as usize].1 = None;
    together.passes();
    run([&[1, 2], &[3, 4]]).fails("one at a time is under way");
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

/// The first event that the subscription wants which is purged.
fn purgeable() -> EventId {
    let ids = (0..).map(id);
    let mut wanted = ids.filter(|id| SUBSCRIPTIONS[PURGED].wants(*id, &Event::of(SEED, *id)));
    wanted.next().unwrap()
}

impl Run {
    /// A purge in the first life, answered at tick 10, of what was accepted before; the event was never sent.
    fn purged(mut self) -> Self {
        let pair = (PURGED, purgeable());
        self.entries.exchanges.remove(&pair);
        self.entries.purges.push(Purge {
            subscription: PURGED,
            life: 0,
            is_answered: true,
            ended: Some(10),
            accepted: vec![pair.1.number],
            to_number: Some(pair.1.number + 1),
        });
        let told = ("Dropped".to_owned(), Some("Purged".to_owned()));
        self.account.told.insert(pair, told);
        self.account.statuses[PURGED].delivered -= 1;
        self.account.statuses[PURGED].dropped += 1;
        self
    }

    /// The requests of that event.
    fn sent(mut self, exchanges: &[(usize, u64, u16)]) -> Self {
        let pair = (PURGED, purgeable());
        let sent = exchanges.iter().enumerate().map(|(count, sent)| Exchange {
            system_id: Some(u128::from(pair.1.number)),
            tick: sent.1,
            ..exchange(sent.0, count as u16, sent.2)
        });
        self.entries.exchanges.insert(pair, sent.collect());
        self
    }
}

#[test]
fn what_was_purged_before_it_was_delivered_is_dropped_and_not_lost() {
    let verdict = Run::of(40).purged().passes();
    let row = &verdict.rows[PURGED];
    assert_eq!((verdict.lost, row.purged, row.unsent), (0, 1, 1));
    // Passed over unread, it is counted as no delivery.
    let mut unread = Run::of(40).purged();
    unread.account.statuses[PURGED].matched -= 1;
    unread.account.statuses[PURGED].dropped -= 1;
    unread.passes();
    // What was sent was read.
    let mut sent = unread.sent(&[(1, 5, 500)]);
    sent.entries.purges[0].life = 1;
    sent.fails("the counters say");
    sent.account.statuses[PURGED].matched += 1;
    sent.account.statuses[PURGED].dropped += 1;
    sent.passes();
}

#[test]
fn only_a_crash_hides_from_a_purge_what_was_taken() {
    // The counters say that it was dropped.
    let taken = |life| {
        let mut run = Run::of(40).purged().sent(&[(life, 5, 200)]);
        run.entries.purges[0].life = 1;
        run
    };
    let verdict = taken(0).passes();
    let row = &verdict.rows[PURGED];
    assert_eq!((row.purged, row.doubtful), (0, 1));
    taken(1).fails("the counters say");
}

#[test]
fn a_purge_excuses_only_what_it_was_asked_for() {
    let mut run = Run::of(40).purged();
    run.entries.purges[0].to_number = Some(0);
    run.entries.purges[0].accepted = Vec::new();
    assert_eq!(run.fails("is lost").lost, 1, "published later");
    let mut run = Run::of(40).purged();
    run.entries.purges[0].subscription = ALL;
    run.fails("is lost");
    // It was attempted in a later life, so that this purge did not happen.
    let mut run = Run::of(40).purged().sent(&[(1, 11, 500)]);
    run.entries.purges[0].is_answered = false;
    run.fails("is lost");
    let mut run = Run::of(40).purged();
    run.account.statuses[PURGED].delivered += 1;
    run.account.statuses[PURGED].dropped -= 1;
    run.fails("the counters say");
    for state in ["Delivered", "AttemptDue", "FirstAttemptPending", "NotOwed"] {
        let mut run = Run::of(40).purged();
        let pair = (PURGED, purgeable());
        run.account.told.insert(pair, (state.to_owned(), None));
        run.fails("was purged, and is");
    }
}

#[test]
fn what_was_purged_is_explained_so() {
    let mut forgotten = Run::of(40).purged();
    forgotten.account.told.clear();
    forgotten.passes();
    // Of as many as one crash may take it is not known any more.
    let judged = |events| {
        let mut run = Run::of(events).purged();
        let purge = &mut run.entries.purges[0];
        (purge.accepted, purge.to_number) = ((0..events).collect(), Some(events));
        run.account.told.clear();
        for id in (0..events).map(id) {
            let pair = (PURGED, id);
            if SUBSCRIPTIONS[PURGED].wants(id, &Event::of(SEED, id)) {
                run.entries.exchanges.remove(&pair);
                run.account.told.insert(pair, ("Ended".to_owned(), None));
            }
        }
        let status = &mut run.account.statuses[PURGED];
        (status.delivered, status.dropped) = (0, status.matched);
        run
    };
    judged(40).passes();
    judged(200).fails("the counters say");
}

#[test]
fn what_was_purged_is_not_sent_any_more() {
    // The attempt that ran ended later.
    Run::of(40).purged().sent(&[(0, 11, 500)]).passes();
    for sent in [[(0, 11, 500), (0, 12, 500)], [(0, 5, 500), (1, 12, 500)]] {
        let run = Run::of(40).purged().sent(&sent);
        run.fails("and sent afterwards");
    }
}

/// An event that was taken at tick 1, asked for again at tick 2, and then sent as it says.
fn resent(outcome: Outcome, after: &[Exchange]) -> Run {
    let first = Exchange {
        tick: 1,
        ..exchange(1, 0, 200)
    };
    let after = (5..)
        .zip(after)
        .map(|(tick, exchange)| Exchange { tick, ..*exchange });
    let all: Vec<_> = std::iter::once(first).chain(after).collect();
    let mut run = Run::of(2).requests(0, &all);
    run.entries.resends.push(Resend {
        pair: (ALL, id(0)),
        asked: 2,
        ended: Some(3),
        outcome,
    });
    if outcome == Outcome::Begun {
        run.account.statuses[ALL].matched += 1;
        run.account.statuses[ALL].delivered += 1;
    }
    run
}

#[test]
fn a_resend_explains_one_more_delivery() {
    let once = [exchange(1, 0, 200)];
    let retried = [exchange(1, 0, 500), exchange(1, 1, 200)];
    resent(Outcome::Begun, &once).passes();
    resent(Outcome::Begun, &retried).passes();
    resent(Outcome::Maybe, &once).passes();
    resent(Outcome::Maybe, &[]).passes();
    assert_eq!(resent(Outcome::Begun, &[]).fails("is lost").lost, 1);
    resent(Outcome::Nothing, &once).fails("without a crash");
    let twice = [exchange(1, 0, 200), exchange(1, 0, 200)];
    resent(Outcome::Begun, &twice).fails("without a crash");
    let mut run = resent(Outcome::Begun, &once);
    run.account.statuses[ALL].matched -= 1;
    run.account.statuses[ALL].delivered -= 1;
    run.fails("the counters say");
    // Asked for after the request that it would explain.
    let mut run = resent(Outcome::Begun, &once);
    run.entries.resends[0].asked = 9;
    run.fails("without a crash");
}

#[test]
fn a_resend_and_a_crash_explain_one_request_each() {
    let taken = |life, count, tick| Exchange {
        tick,
        ..exchange(life, count, 200)
    };
    let judged = |requests: &[Exchange]| {
        let mut run = resent(Outcome::Begun, &[]).requests(0, requests);
        run.entries.resends[0].asked = 3;
        run.entries.resends[0].ended = Some(6);
        run
    };
    // The server crashed before it was asked for, and had noted that it was taken.
    let verdict = judged(&[taken(0, 0, 1), taken(1, 0, 5)]).passes();
    assert_eq!(verdict.duplicates(), 0);
    // It had not.
    let verdict = judged(&[taken(0, 0, 1), taken(1, 1, 2), taken(1, 0, 5)]).passes();
    assert_eq!(verdict.duplicates(), 1);
    let verdict = judged(&[taken(0, 0, 1), taken(1, 1, 5), taken(1, 0, 7)]).passes();
    assert_eq!(verdict.duplicates(), 1);
    // A duplicate stands for no delivery that was asked for later.
    let verdict = judged(&[taken(0, 0, 1), taken(1, 1, 2)]).fails("is lost");
    assert_eq!(verdict.lost, 1);
}
