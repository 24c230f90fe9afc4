//! Prints the ledger.

use std::collections::BTreeMap;

use hedgerow_store::failpoint;

use super::api::StoreUsage;
use super::config::duplicates_max;
use super::ledger::{Entries, Fate};
use super::plan::SUBSCRIPTIONS;
use super::restore::Restored;
use super::traces::Traces;
use super::verdict::{Ending, Verdict};

/// Problems that are shown one by one.
const PROBLEMS_SHOWN: usize = 12;

/// Everything there is to say.
#[derive(Debug)]
pub struct Report<'a> {
    /// The seed.
    pub seed: u64,
    /// Rounds.
    pub rounds: u32,
    /// How each life of the server ended.
    pub lives: &'a [Ending],
    /// After how many of them the store was checked, and was whole.
    pub checked: usize,
    /// Failpoints that were set and not reached.
    pub not_reached: &'a BTreeMap<&'static str, u64>,
    /// What was published and received.
    pub entries: &'a Entries,
    /// Declarations that were answered.
    pub declarations: usize,
    /// What the data directory shows at the end.
    pub traces: Traces,
    /// What the server said of its store, over all lives.
    pub usage: StoreUsage,
    /// What was done to the view between lives.
    pub restored: Restored,
    /// The verdict.
    pub verdict: &'a Verdict,
}

impl Report<'_> {
    /// Prints the ledger and its verdict.
    pub fn print(&self) {
        println!();
        self.print_kills();
        self.print_counts();
        self.print_subscriptions();
        for problem in self.verdict.problems.iter().take(PROBLEMS_SHOWN) {
            println!("  problem: {problem}");
        }
        if self.verdict.problems.len() > PROBLEMS_SHOWN {
            println!(
                "  and {} more problems",
                self.verdict.problems.len() - PROBLEMS_SHOWN
            );
        }
        let verdict = if self.verdict.problems.is_empty() {
            "PASS"
        } else {
            "FAIL"
        };
        println!(
            "{verdict} (crash, {} rounds, seed {})",
            self.rounds, self.seed
        );
    }

    fn count(&self, wanted: impl Fn(&Ending) -> bool) -> usize {
        self.lives.iter().filter(|ending| wanted(ending)).count()
    }

    fn print_kills(&self) {
        line("rounds", self.rounds);
        line("kills", self.count(|ending| ending.is_crash()));
        line(
            "  at a random moment",
            self.count(|ending| *ending == Ending::Killed),
        );
        line(
            "  while it started",
            self.count(|ending| *ending == Ending::KilledAtStart),
        );
        for name in failpoint::NAMES {
            let kills = self.count(|ending| *ending == Ending::Failpoint(name));
            let not_reached = self.not_reached.get(name).copied().unwrap_or(0);
            let note = match not_reached {
                0 => String::new(),
                count => format!(" (and {count} times not reached)"),
            };
            line(&format!("  at {name}"), format!("{kills}{note}"));
        }
        line(
            "orderly stops",
            self.count(|ending| *ending == Ending::Stopped),
        );
        line("stores checked", self.checked);
        line("epoch", self.traces.epoch);
        let Traces {
            segment, segments, ..
        } = self.traces;
        let recycled = self.traces.recycled();
        line(
            "segments recycled",
            format!("{recycled} (the last is {segment:08x}, {segments} are there)"),
        );
        self.print_cleaning();
        line("declarations answered", self.declarations);
        let (asked, answered) = (self.entries.purges.len(), self.entries.purges_answered());
        line(
            "purges",
            format!("{asked}, of which {answered} were answered"),
        );
        line("resends asked for", self.entries.resends.len());
    }

    fn print_cleaning(&self) {
        let Self {
            traces,
            usage,
            restored,
            ..
        } = self;
        line("segments cleaned", usage.cleaned_segments);
        line(
            "  the last, by the manifest",
            format!("{:08x}", traces.cleaned_through),
        );
        line("  events copied", usage.copied_events);
        line("kept files made", traces.kept_made);
        line("  written anew", usage.compacted_files);
        line("  removed", traces.kept_removed());
        line(
            "publishes refused at the watermark",
            self.entries.refused_full,
        );
        line("views deleted", restored.deleted);
        let put_back = restored.started + restored.refused;
        let refused = restored.refused;
        line(
            "older views put back",
            format!("{put_back}, of which {refused} were refused"),
        );
        let killed = restored.killed;
        line(
            "views built again",
            format!("{} ({killed} after a kill)", restored.recovered),
        );
    }

    fn print_counts(&self) {
        let verdict = self.verdict;
        let sum = |of: fn(&super::verdict::Row) -> u64| verdict.rows.iter().map(of).sum::<u64>();
        line("publish requests", self.entries.requests.len());
        line("events accepted", self.entries.count(Fate::Acknowledged));
        let doubtful = self.entries.count(Fate::Maybe);
        let stored = verdict.doubtful_stored;
        line(
            "events in doubt",
            format!("{doubtful}, of which {stored} were stored"),
        );
        line("deliveries owed", sum(|row| row.owed));
        line("  delivered", sum(|row| row.taken));
        line("  terminal records", sum(|row| row.terminal));
        for (reason, count) in &verdict.reasons {
            line(&format!("    {reason}"), count);
        }
        line("  purged", sum(|row| row.purged));
        line("    never sent", sum(|row| row.unsent));
        line("    explained so", sum(|row| row.explained));
        line("resent", sum(|row| row.resent));
        line("  not answered", sum(|row| row.maybe_resent));
        line("events received", sum(|row| row.requests));
        let (batches, events) = self.entries.batches;
        line(
            "  of several events",
            format!("{batches}, with {events} events"),
        );
        line("duplicates", verdict.duplicates());
        line("  after a late success", sum(|row| row.late_duplicates));
        line("lost", verdict.lost);
    }

    fn print_subscriptions(&self) {
        println!();
        println!(
            "  {:<18} {:>8} {:>9} {:>8} {:>8} {:>10} {:>11} {:>6}",
            "subscription",
            "owed",
            "delivered",
            "terminal",
            "sent",
            "duplicates",
            "by a crash",
            "bound"
        );
        for (subscription, row) in SUBSCRIPTIONS.iter().zip(&self.verdict.rows) {
            println!(
                "  {:<18} {:>8} {:>9} {:>8} {:>8} {:>10} {:>11} {:>6}",
                subscription.name,
                row.owed,
                row.taken,
                row.terminal,
                row.requests,
                row.duplicates.values().sum::<u64>(),
                row.duplicates_at_once(),
                duplicates_max(subscription.events_per_request()),
            );
        }
        println!();
    }
}

fn line(name: &str, value: impl std::fmt::Display) {
    println!("  {name:<38} {value}");
}
