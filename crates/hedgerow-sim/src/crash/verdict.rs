//! The verdict: compares the ledger with what the server says at the end.
//!
//! What is judged, each for every pair of a subscription and an event that it wants:
//! - an acknowledged event was taken by the receiver, or has its terminal record; nothing else was stored but events in
//!   doubt, and those whole requests at a time (ED-010, ED-041);
//! - delivery counts never go down, and a count comes again only after a kill: at most one request too many for each
//!   (ED-207, field case FC-05);
//! - what was taken is sent again only if the server was killed before that was recorded (design D5), and never more of
//!   it than the bound;
//! - events of one key of an ordered subscription are sent one after the other, in the order in which they were accepted, and a
//!   crash makes one of them at most be sent again;
//! - what is neither was dropped by a purge that was asked for while it waited, and is explained so; what a purge dropped is
//!   never attempted again, whatever crashed;
//! - each resend that was answered with a new delivery led to one more success, and nothing else did;
//! - an event keeps its place in the log;
//! - the counters balance, and say what the ledger says (ED-304).

mod keys;
mod orders;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::api::{Status, TerminalRecord};
use super::config::{ENDPOINT_ATTEMPTS_MAX, duplicates_max};
use super::ledger::{Answer, Entries, Exchange, Fate, Pair, Purge};
use super::plan::{Event, EventId, SUBSCRIPTIONS, TOPICS};

use self::orders::Orders;

/// How a life of the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has not ended.
    None,
    /// Killed while it served.
    Killed,
    /// Killed while it started.
    KilledAtStart,
    /// Killed by itself at a failpoint.
    Failpoint(&'static str),
    /// Stopped in order.
    Stopped,
    /// It refused to start with an older view.
    Refused,
}

impl Ending {
    /// Whether it was a crash.
    pub const fn is_crash(self) -> bool {
        matches!(
            self,
            Self::Killed | Self::KilledAtStart | Self::Failpoint(_)
        )
    }
}

/// What the server says at the end: for each subscription.
#[derive(Debug)]
pub struct Account {
    /// The counters.
    pub statuses: Vec<Status>,
    /// The terminal records of all topics.
    pub terminal: Vec<TerminalRecord>,
    /// What is said of events of [`untaken`]: `state` and `dropReason`.
    pub told: HashMap<Pair, (String, Option<String>)>,
}

/// What is known of one subscription.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Stored events that it wants.
    pub owed: u64,
    /// Of them those that its receiver took.
    pub taken: u64,
    /// Of them those with a terminal record.
    pub terminal: u64,
    /// Requests that its receiver got.
    pub requests: u64,
    /// Events that were sent again after they were taken, for each crash.
    pub duplicates: BTreeMap<usize, u64>,
    /// Events that were taken after their timeout and sent again, which is allowed (ED-178).
    pub late_duplicates: u64,
    /// Of the events owed those that a purge dropped: they were not taken, and have no terminal record.
    pub purged: u64,
    /// Of them those that were never sent: a purge that passes over events unread does not count them.
    pub unsent: u64,
    /// Events that a purge may have dropped after a crash hid from the server that they were attempted or taken.
    pub doubtful: u64,
    /// Of the dropped ones those that are explained so.
    pub explained: u64,
    /// Of those that were never sent the ones of which it is not known any more what became of them.
    pub unexplained: u64,
    /// New deliveries of events that were asked for again.
    pub resent: u64,
    /// The same, when that was not answered.
    pub maybe_resent: u64,
}

/// The judged ledger.
#[derive(Debug, Default)]
pub struct Verdict {
    /// For each subscription.
    pub rows: Vec<Row>,
    /// Acknowledged pairs that are nowhere.
    pub lost: u64,
    /// Events in doubt that were stored.
    pub doubtful_stored: u64,
    /// Terminal records by reason.
    pub reasons: BTreeMap<String, u64>,
    /// What is wrong; empty if nothing is.
    pub problems: Vec<String>,
}

impl Verdict {
    /// Duplicates of all crashes.
    pub fn duplicates(&self) -> u64 {
        self.rows
            .iter()
            .flat_map(|row| row.duplicates.values())
            .sum()
    }
}

impl Row {
    /// The most duplicates that one crash caused.
    pub fn duplicates_at_once(&self) -> u64 {
        self.duplicates.values().copied().max().unwrap_or(0)
    }
}

/// Events of subscriptions that are purged, of which no receiver has anything to say.
pub fn untaken(seed: u64, entries: &Entries) -> Vec<Pair> {
    let mut untaken = Vec::new();
    let purged = SUBSCRIPTIONS.iter().enumerate();
    for (index, subscription) in purged.filter(|(_, one)| one.is_purged) {
        let topic = subscription.topic;
        for (number, published) in (0..).zip(&entries.published[topic]) {
            let id = EventId { topic, number };
            let exchanges = entries.exchanges.get(&(index, id));
            let is_taken = exchanges.is_some_and(|all| all.iter().any(Exchange::is_success));
            let is_accepted = published.fate == Fate::Acknowledged;
            if is_accepted && !is_taken && subscription.wants(id, &Event::of(seed, id)) {
                untaken.push((index, id));
            }
        }
    }
    untaken
}

/// Judges. `lives` are the lives of the server and how each ended.
pub fn judge(seed: u64, entries: &Entries, lives: &[Ending], account: &Account) -> Verdict {
    let mut judge = Judge {
        entries,
        crashes: Crashes::new(lives),
        orders: Orders::new(entries),
        told: &account.told,
        terminal: HashMap::new(),
        sent_again: Vec::new(),
        verdict: Verdict {
            rows: vec![Row::default(); SUBSCRIPTIONS.len()],
            problems: entries.offences.clone(),
            ..Verdict::default()
        },
    };
    judge.take_terminal_records(seed, &account.terminal);
    judge.pairs(seed);
    for (pair, exchanges) in &entries.exchanges {
        judge.exchanges(*pair, exchanges);
    }
    judge.system_ids();
    judge.duplicates();
    let mut problems = keys::problems(seed, entries, &judge.sent_again);
    judge.verdict.problems.append(&mut problems);
    judge.counters(&account.statuses);
    judge.verdict
}

struct Judge<'a> {
    entries: &'a Entries,
    crashes: Crashes,
    orders: Orders<'a>,
    told: &'a HashMap<Pair, (String, Option<String>)>,
    terminal: HashMap<Pair, &'a TerminalRecord>,
    /// What was sent again because of a crash, and the life that ended with it.
    sent_again: Vec<(Pair, usize)>,
    verdict: Verdict,
}

impl<'a> Judge<'a> {
    fn problem(&mut self, what: String) {
        self.verdict.problems.push(what);
    }

    fn take_terminal_records(&mut self, seed: u64, records: &'a [TerminalRecord]) {
        for record in records {
            let name = &record.event_subscription;
            let index = SUBSCRIPTIONS.iter().position(|one| one.name == name);
            let id = EventId::parse(&record.event_id);
            let (Some(index), Some(id)) = (index, id) else {
                self.problem(format!("a terminal record of nobody's: {record:?}"));
                continue;
            };
            let event = Event::of(seed, id);
            let is_event = record.event_type == event.type_name && record.subject == event.subject;
            if !is_event || !SUBSCRIPTIONS[index].wants(id, &event) {
                self.problem(format!("a terminal record of something else: {record:?}"));
            }
            if self.terminal.insert((index, id), record).is_some() {
                self.problem(format!("a second terminal record: {record:?}"));
            }
            *self
                .verdict
                .reasons
                .entry(record.reason.clone())
                .or_default() += 1;
            self.terminal_record(index, id, record);
        }
    }

    /// Compares a terminal record with the requests there were.
    fn terminal_record(&mut self, index: usize, id: EventId, record: &TerminalRecord) {
        let exchanges = self
            .entries
            .exchanges
            .get(&(index, id))
            .map_or(&[][..], Vec::as_slice);
        let attempts = u64::from(record.delivery_attempts);
        let requests = exchanges.len() as u64;
        let crashes = self.crashes.during(exchanges);
        let counted = exchanges.last().map_or(0, |last| u64::from(last.count) + 1);
        let max = SUBSCRIPTIONS[index].attempts_max;
        let name = SUBSCRIPTIONS[index].name;
        if attempts + crashes < requests || attempts < counted || record.delivery_attempts > max {
            self.problem(format!(
                "{name}: event {id} ended after {attempts} attempts, but there were {requests} requests, the last one \
                 counted {counted}, over {crashes} crashes, {max} allowed"
            ));
        }
        let last = exchanges.last().map(|last| last.answer);
        let is_told = match record.reason.as_str() {
            "MaxDeliveryAttemptsExceeded" => record.delivery_attempts == max,
            "UndeliverableDueToHttpBadRequest" => {
                last == Some(Answer::Status(400)) && record.last_http_status_code == Some(400)
            }
            "UndeliverableDueToRepeatedCrash" => self.crashes.all >= 3,
            _ => false,
        };
        if !is_told {
            self.problem(format!(
                "{name}: event {id} ended for no reason: {record:?}, {exchanges:?}"
            ));
        }
    }

    /// Each pair that could be: is what is owed there, and nothing else?
    fn pairs(&mut self, seed: u64) {
        let mut stored_of_request: HashMap<u32, (u32, u32)> = HashMap::new();
        for topic in 0..TOPICS.len() {
            for (number, published) in self.entries.published[topic].iter().enumerate() {
                let id = EventId {
                    topic,
                    number: number as u32,
                };
                let is_stored = self.event(seed, id, published.fate);
                let (all, stored) = stored_of_request.entry(published.request).or_default();
                *all += 1;
                *stored += u32::from(is_stored);
            }
        }
        for (request, (all, stored)) in stored_of_request {
            if stored != 0 && stored != all {
                self.problem(format!(
                    "publish request {request}: {stored} of {all} events stored"
                ));
            }
        }
    }

    /// Judges an event and returns whether it is stored.
    fn event(&mut self, seed: u64, id: EventId, fate: Fate) -> bool {
        let event = Event::of(seed, id);
        let wanted = |index: &usize| SUBSCRIPTIONS[*index].wants(id, &event);
        let wanting: Vec<usize> = (0..SUBSCRIPTIONS.len()).filter(wanted).collect();
        let is_seen = wanting.iter().any(|index| {
            let pair = (*index, id);
            self.entries.exchanges.contains_key(&pair) || self.terminal.contains_key(&pair)
        });
        match fate {
            Fate::Acknowledged => {}
            Fate::Maybe if is_seen => self.verdict.doubtful_stored += 1,
            Fate::Refused if is_seen => {
                self.problem(format!("event {id} was refused, and stored all the same"));
            }
            Fate::Maybe | Fate::Refused => return false,
        }
        for index in wanting {
            self.owed(index, id, fate);
        }
        true
    }

    fn owed(&mut self, index: usize, id: EventId, fate: Fate) {
        let exchanges = self
            .entries
            .exchanges
            .get(&(index, id))
            .map_or(&[][..], Vec::as_slice);
        let pair = (index, id);
        let is_taken = exchanges.iter().any(Exchange::is_success);
        let is_terminal = self.terminal.contains_key(&pair);
        let is_purgeable = !is_terminal && self.orders.may_have_purged(pair, exchanges);
        let (resent, maybe_resent) = self.orders.resent(pair);
        let are_taken = self.orders.are_taken(pair, exchanges);
        let row = &mut self.verdict.rows[index];
        row.owed += 1;
        row.taken += u64::from(is_taken);
        row.terminal += u64::from(is_terminal);
        row.doubtful += u64::from(is_purgeable && self.crashes.may_have_hidden(exchanges));
        row.resent += resent;
        row.maybe_resent += maybe_resent;
        if is_purgeable && !is_taken {
            row.purged += 1;
            row.unsent += u64::from(exchanges.is_empty());
            self.purged(pair, exchanges.is_empty());
        } else if !are_taken && !is_terminal {
            self.verdict.lost += u64::from(fate == Fate::Acknowledged);
            let name = SUBSCRIPTIONS[index].name;
            self.problem(format!(
                "{name}: event {id} ({fate:?}) is lost; requests: {exchanges:?}"
            ));
        }
    }

    /// The event was dropped by a purge, if what is said of it does not deny that. The history is lossy, so that how it ended
    /// may be forgotten; that it waits, was delivered or was never wanted is a lie.
    fn purged(&mut self, pair: Pair, is_unsent: bool) {
        // A crash may take the ids of events that were accepted shortly before it.
        let Some((state, reason)) = self.told.get(&pair) else {
            return;
        };
        let row = &mut self.verdict.rows[pair.0];
        match (state.as_str(), reason.as_deref()) {
            (_, Some("Purged")) => row.explained += 1,
            ("Ended" | "Unknown", None) => row.unexplained += u64::from(is_unsent),
            told => {
                let name = SUBSCRIPTIONS[pair.0].name;
                let problem = format!("{name}: event {} was purged, and is {told:?}", pair.1);
                self.problem(problem);
            }
        }
    }

    /// The requests of one pair, in the order in which they came.
    fn exchanges(&mut self, pair: Pair, exchanges: &[Exchange]) {
        let (index, id) = pair;
        let name = SUBSCRIPTIONS[index].name;
        self.verdict.rows[index].requests += exchanges.len() as u64;
        if let Some(Purge { life, .. }) = self.orders.broken_purge(pair, exchanges) {
            self.problem(format!(
                "{name}: event {id} was purged in life {life}, and sent afterwards: {exchanges:?}"
            ));
        }
        let mut excuses = self.orders.excuses(pair);
        // Where the requests of the present delivery begin.
        let mut first = 0;
        for (next, two) in (1..).zip(exchanges.windows(2)) {
            let crashes = self.crashes.between(two[0].life, two[1].life);
            let is_in_order = match two[1].count.cmp(&two[0].count) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => crashes > 0,
                std::cmp::Ordering::Less => false,
            };
            if is_in_order {
                continue;
            }
            // Each crash may have taken a request that was counted.
            if u64::from(two[1].count) <= crashes && excuses.take(&two[0], &two[1]) {
                self.number_of_requests(pair, &exchanges[first..next]);
                first = next;
            } else {
                self.problem(format!(
                    "{name}: event {id}: counts are out of order: {exchanges:?}"
                ));
            }
        }
        self.number_of_requests(pair, &exchanges[first..]);
        self.sent_again(pair, exchanges);
    }

    /// Whether one delivery was attempted no more often than its counts say.
    fn number_of_requests(&mut self, (index, id): Pair, exchanges: &[Exchange]) {
        let Some(last) = exchanges.last() else { return };
        let name = SUBSCRIPTIONS[index].name;
        let allowed = u64::from(last.count) + 1 + self.crashes.during(exchanges);
        if exchanges.len() as u64 > allowed {
            let requests = exchanges.len();
            self.problem(format!(
                "{name}: event {id}: {requests} requests, {allowed} allowed"
            ));
        }
    }

    /// What was sent again although it was taken.
    fn sent_again(&mut self, (index, id): Pair, exchanges: &[Exchange]) {
        let mut excuses = self.orders.excuses((index, id));
        let mut taken: Option<Exchange> = None;
        let mut hung = false;
        let mut counted = HashSet::new();
        let mut after_crash = Vec::new();
        for exchange in exchanges {
            if let Some(before) = taken {
                match self.crashes.first(before.life, exchange.life) {
                    // Another delivery, which has to be taken for itself.
                    None if !hung && excuses.take(&before, exchange) => taken = None,
                    _ if !counted.insert(before.life) => {}
                    // A late success may lose against the next attempt (ED-178).
                    _ if hung => self.verdict.rows[index].late_duplicates += 1,
                    Some(crash) => after_crash.push((before, exchange, crash)),
                    None => {
                        let name = SUBSCRIPTIONS[index].name;
                        self.problem(format!(
                            "{name}: event {id} was sent again without a crash: {exchanges:?}"
                        ));
                    }
                }
            }
            hung |= exchange.hangs;
            if exchange.is_success() {
                taken = Some(*exchange);
            }
        }
        // What a crash may have caused was perhaps asked for. Only resends that explain nothing else are left for that, as each
        // began one delivery at most.
        for (before, exchange, crash) in after_crash {
            if !excuses.take(&before, exchange) {
                self.sent_again.push(((index, id), crash));
                *self.verdict.rows[index]
                    .duplicates
                    .entry(crash)
                    .or_default() += 1;
            }
        }
    }

    /// An event has one place in the log, whatever crashed, and no two events have the same.
    fn system_ids(&mut self) {
        let mut owners: HashMap<(usize, u128), EventId> = HashMap::new();
        let mut problems = Vec::new();
        for ((index, id), exchanges) in &self.entries.exchanges {
            // In a batch it is not told.
            let Some(first) = exchanges[0].system_id else {
                continue;
            };
            let name = SUBSCRIPTIONS[*index].name;
            if exchanges.iter().any(|one| one.system_id != Some(first)) {
                problems.push(format!(
                    "{name}: event {id} changed its place: {exchanges:?}"
                ));
            }
            if let Some(other) = owners.insert((*index, first), *id) {
                problems.push(format!(
                    "{name}: events {id} and {other} have the same place"
                ));
            }
        }
        self.verdict.problems.append(&mut problems);
    }

    fn duplicates(&mut self) {
        let mut problems = Vec::new();
        for (subscription, row) in SUBSCRIPTIONS.iter().zip(&self.verdict.rows) {
            let max = duplicates_max(subscription.events_per_request());
            for (crash, count) in row.duplicates.iter().filter(|(_, count)| **count > max) {
                let name = subscription.name;
                problems.push(format!(
                    "{name}: {count} events sent again after the end of life {crash}, {max} allowed"
                ));
            }
        }
        self.verdict.problems.append(&mut problems);
    }

    /// The counters of the server against each other and against the ledger.
    fn counters(&mut self, statuses: &[Status]) {
        for (index, status) in statuses.iter().enumerate() {
            let row = self.verdict.rows[index].clone();
            let is_balanced = status.matched == status.ended() + status.pending;
            // All of these are exact where nobody purged and nothing was asked for again.
            let sure = |count: u64| count.saturating_sub(row.doubtful);
            let matched = row.owed + row.resent;
            let matched = sure(matched - row.unsent)..=matched + row.maybe_resent;
            let dropped = row.terminal + row.purged;
            let dropped = sure(dropped - row.unsent)..=dropped + row.doubtful;
            let delivered_most = row.taken + row.resent + row.maybe_resent;
            let delivered = sure(row.taken.saturating_sub(row.terminal))..=delivered_most;
            let is_true = matched.contains(&status.matched)
                && dropped.contains(&status.dropped)
                && delivered.contains(&status.delivered)
                // An attempt that was begun when a crash came leaves no trace: neither a request nor a record. More than run at
                // a time are rarely so many, unless much more was purged.
                && row.unexplained <= row.explained.max(ENDPOINT_ATTEMPTS_MAX);
            let is_quiet = status.pending == 0 && status.in_flight == 0;
            if !is_balanced || !is_true || !is_quiet || status.dead_lettered != 0 {
                let name = SUBSCRIPTIONS[index].name;
                self.problem(format!(
                    "{name}: the counters say {status:?}, the ledger says {row:?}"
                ));
            }
        }
    }
}

/// Which lives ended with a crash.
struct Crashes {
    /// Crashes before each life.
    before: Vec<u64>,
    is_crash: Vec<bool>,
    all: u64,
}

impl Crashes {
    fn new(lives: &[Ending]) -> Self {
        let is_crash: Vec<bool> = lives.iter().map(|ending| ending.is_crash()).collect();
        let mut all = 0;
        let mut before = Vec::with_capacity(lives.len());
        for is_crash in &is_crash {
            before.push(all);
            all += u64::from(*is_crash);
        }
        Self {
            before,
            is_crash,
            all,
        }
    }

    /// Crashes between two lives.
    fn between(&self, from: usize, to: usize) -> u64 {
        self.before[to] - self.before[from]
    }

    /// The first life from `from` on, before `to`, that ended with a crash.
    fn first(&self, from: usize, to: usize) -> Option<usize> {
        (from..to).find(|life| self.is_crash[*life])
    }

    /// Whether the server may not know that an event was attempted, or was taken. A count above 0 says that the attempt before
    /// it is on disk.
    fn may_have_hidden(&self, exchanges: &[Exchange]) -> bool {
        let taken = exchanges.iter().rfind(|one| one.is_success());
        let tells = taken.or(exchanges.last().filter(|last| last.count == 0));
        tells.is_some_and(|one| self.is_crash[one.life])
    }

    /// Crashes since the first of these requests, the end of the last one's life included.
    fn during(&self, exchanges: &[Exchange]) -> u64 {
        let (Some(first), Some(last)) = (exchanges.first(), exchanges.last()) else {
            return 0;
        };
        self.between(first.life, last.life) + u64::from(self.is_crash[last.life])
    }
}

#[cfg(test)]
mod tests;
