//! The SIGKILL proof: the real `serve` binary under load, killed again and again, at random moments and at failpoints
//! within group write, sync, rename, checkpoint and recycle, and started again on the same data. At the end nothing that
//! was acknowledged may be missing (design D1, D5; ED-010, ED-190, ED-207, ED-304).
//!
//! ```text
//! set up ─▶ rounds: start ─▶ serve under load ─▶ killed, at a failpoint, or stopped in order ─▶ receivers settle
//!        ─▶ now and then the view is deleted or an older one put back, and built again
//!        ─▶ receivers recover, everything is delivered ─▶ judge ─▶ stop, start: the same counters ─▶ report
//! ```
//!
//! kill -9 keeps the page cache: what was written and not synced survives. Power cuts are the other proof's subject.

mod conclusion;
mod config;
mod declarations;
mod ledger;
mod lives;
mod operators;
mod options;
mod plan;
mod publishers;
mod receivers;
mod report;
mod restore;
mod schedule;
mod traces;
mod verdict;
mod whole;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow_store::failpoint;

use crate::harness::{api, http, process};

use self::api::{Api, StoreUsage};
use self::declarations::Declarations;
use self::ledger::{Fate, Ledger};
use self::lives::{Lives, died};
use self::operators::Operators;
use self::options::Options;
use self::plan::{SUBSCRIPTIONS, TOPICS};
use self::process::{Failpoint, Installation, Server, is_killed};
use self::publishers::Publishers;
use self::receivers::Receivers;
use self::report::Report;
use self::restore::{Restore, Restorer};
use self::schedule::{Plan, Schedule};
use self::traces::Traces;
use self::verdict::{Ending, Row, Verdict};

/// Events that publishers send at full speed in one life: at most, and if much is still to be delivered.
const EVENTS_PER_LIFE: RangeInclusive<u64> = 150..=1200;
/// How long a life lasts whose failpoint is not reached.
const FAILPOINT_WAIT_MAX: Duration = Duration::from_secs(4);
/// How often the server is asked how full its store is.
const USAGE_POLL: Duration = Duration::from_millis(20);
/// Rounds from which on a run must have seen everything.
const ROUNDS_COVERING: u32 = 10;

/// Runs the proof and prints its ledger.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::read(arguments)?;
    let Options { rounds, seed, .. } = options;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let directory = tempfile::Builder::new().prefix("hedgerow-crash-").tempdir();
    let mut directory = directory.map_err(|error| format!("no temporary directory: {error}"))?;
    let path = directory.path().to_owned();
    println!(
        "crash proof: {rounds} rounds, seed {seed}, in {}",
        path.display()
    );
    let result = runtime.block_on(async {
        tokio::select! {
            result = Proof::run(options, &path) => result,
            _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
        }
    });
    // Receivers end with the process.
    runtime.shutdown_background();
    result.map_err(|error| {
        directory.disable_cleanup(true);
        let path = path.display();
        format!(
            "{error}\nFAIL (crash, seed {seed}); data, configuration and logs are kept in {path}"
        )
    })
}

struct Proof {
    options: Options,
    ledger: Arc<Ledger>,
    lives: Lives,
    declarations: Declarations,
    operators: Operators,
    schedule: Schedule,
    restorer: Restorer,
    /// What the server said of its store, over all lives.
    usage: StoreUsage,
    /// Failpoints that were set and not reached.
    not_reached: BTreeMap<&'static str, u64>,
}

impl Proof {
    async fn run(options: Options, directory: &Path) -> Result<(), String> {
        let seed = options.seed;
        let ledger = Arc::new(Ledger::default());
        let receivers = Receivers::start(seed, &ledger).await?;
        let directory = PathBuf::from(directory);
        let installation = Installation {
            binary: options.binary.clone(),
            directory,
        };
        let mut proof = Self {
            lives: Lives::new(installation, receivers)?,
            operators: Operators::new(seed, options.rounds),
            options,
            ledger,
            declarations: Declarations::default(),
            schedule: Schedule::new(seed),
            restorer: Restorer::new(seed),
            usage: StoreUsage::default(),
            not_reached: BTreeMap::new(),
        };
        let keys = proof.set_up().await?;
        let whereabouts = proof.lives.whereabouts();
        let publishers = Publishers::start(seed, &proof.ledger, &keys, &whereabouts);
        for round in 1..=proof.options.rounds {
            proof.round(round, &publishers).await?;
        }
        publishers.stop().await;
        let verdict = proof.conclude().await?;
        proof.report(verdict)
    }

    /// The first life: declares topics and subscriptions. Returns the topics' keys.
    async fn set_up(&mut self) -> Result<[String; TOPICS.len()], String> {
        let (mut server, mut serving) = self.lives.begin_to_serve().await?;
        let mut keys: [String; TOPICS.len()] = Default::default();
        for (topic, key) in TOPICS.iter().zip(&mut keys) {
            *key = serving.api.put_topic(topic).await?;
        }
        for (index, subscription) in SUBSCRIPTIONS.iter().enumerate() {
            let endpoint = self.lives.receivers().endpoint(index);
            let declaration = subscription.declaration(&endpoint);
            let topic = TOPICS[subscription.topic];
            serving
                .api
                .put_subscription(topic, subscription.name, declaration)
                .await?;
        }
        server.stop().await?;
        self.lives.end(Ending::Stopped).await?;
        Ok(keys)
    }

    async fn round(&mut self, round: u32, publishers: &Publishers) -> Result<(), String> {
        if let Some(wait) = self.schedule.killed_start() {
            self.kill_at_start(wait).await?;
        }
        let plan = self.schedule.next();
        let failpoint = match plan {
            Plan::Failpoint(failpoint) => Some(failpoint),
            Plan::Kill(_) | Plan::Stop(_) => None,
        };
        let began = Instant::now();
        let mut server = self.lives.begin(failpoint)?;
        let ending = match self.lives.serving(&mut server).await? {
            Ok(mut serving) => {
                publishers.refill(events_of_life(&mut serving.api).await);
                self.lives.open(&serving);
                self.serve(&mut server, serving.api, plan).await?
            }
            Err(status) => died(&server, status, failpoint)?,
        };
        let lasted = began.elapsed().as_millis();
        self.lives.end(ending).await?;
        let accepted = self.ledger.entries().count(Fate::Acknowledged);
        println!(
            "round {round:>3}: {ending:?} after {lasted} ms; {accepted} events accepted so far"
        );
        self.restore().await
    }

    /// What operators do before the next life.
    async fn restore(&mut self) -> Result<(), String> {
        let installation = self.lives.installation().clone();
        match self.restorer.next() {
            Restore::Nothing => Ok(()),
            Restore::Copy => self.restorer.copy(&installation),
            Restore::Delete => {
                self.restorer.delete(&installation)?;
                self.restorer.recover(&installation)
            }
            Restore::PutBack => {
                self.restorer.put_back(&installation)?;
                let has_started = self.start_with_older_view().await?;
                self.restorer.put_back_answered(has_started);
                if has_started {
                    return Ok(());
                }
                self.restorer.recover(&installation)
            }
        }
    }

    /// A life with a view that is older than the log: it serves, or says what to do.
    async fn start_with_older_view(&mut self) -> Result<bool, String> {
        let mut server = self.lives.begin(None)?;
        let Err(status) = self.lives.serving(&mut server).await? else {
            server.kill().await?;
            self.lives.end(Ending::Killed).await?;
            return Ok(true);
        };
        let said = server.explain(&format!("refused an older view: {status}"));
        if status.success() || is_killed(status) || !said.contains("hedgerow recover") {
            return Err(said);
        }
        self.lives.end(Ending::Refused).await?;
        Ok(false)
    }

    /// A life that is killed before it serves, or hardly later.
    async fn kill_at_start(&mut self, wait: Duration) -> Result<(), String> {
        let mut server = self.lives.begin(None)?;
        if let Some(status) = server.end_within(wait).await? {
            return Err(server.explain(&format!("ended by itself: {status}")));
        }
        server.kill().await?;
        self.lives.end(Ending::KilledAtStart).await
    }

    /// Serves under load until the planned end.
    async fn serve(
        &mut self,
        server: &mut Server,
        mut api: Api,
        plan: Plan,
    ) -> Result<Ending, String> {
        let endpoint = self.lives.receivers().endpoint(0);
        let mut usage = StoreUsage::default();
        let mut operated = api.another();
        let declarations = &mut self.declarations;
        let watched = async {
            declarations.change(&mut api, &endpoint).await;
            loop {
                // A server that died says nothing more.
                usage = api.store_usage().await.unwrap_or(usage);
                tokio::time::sleep(USAGE_POLL).await;
            }
        };
        let (operators, ledger) = (&mut self.operators, &self.ledger);
        let life = self.lives.endings().len() - 1;
        let ending = tokio::select! {
            ending = end_as_planned(server, plan) => ending,
            () = operators.work(&mut operated, ledger, life) => Err("no operators".to_owned()),
            () = watched => Err("the store's usage is not watched any more".to_owned()),
        };
        self.ledger.life_ended();
        let ending = ending?;
        self.usage.cleaned_segments += usage.cleaned_segments;
        self.usage.copied_events += usage.copied_events;
        self.usage.compacted_files += usage.compacted_files;
        if let (Plan::Failpoint(Failpoint { name, .. }), Ending::Killed) = (plan, ending) {
            *self.not_reached.entry(name).or_default() += 1;
        }
        Ok(ending)
    }

    /// The last lives: everything is delivered, and the ledger is judged.
    async fn conclude(&mut self) -> Result<Verdict, String> {
        let seed = self.options.seed;
        self.lives.receivers().recover();
        let (mut server, mut serving) = self.lives.begin_to_serve().await?;
        operators::resume(&mut serving.api).await;
        let owed = conclusion::acknowledged(seed, &self.ledger.entries());
        conclusion::drain(&mut serving.api, &owed).await?;
        let unsure = verdict::untaken(seed, &self.ledger.entries());
        let mut account = conclusion::account(&mut serving.api, &unsure).await?;
        self.restorer.add_terminal_records(&mut account.terminal);
        let mut problems = self.declarations.check(&mut serving.api).await?;
        server.stop().await?;
        self.lives.end(Ending::Stopped).await?;

        let (mut server, mut serving) = self.lives.begin_to_serve().await?;
        let again = conclusion::statuses(&mut serving.api).await?;
        server.stop().await?;
        self.lives.end(Ending::Stopped).await?;
        if again != account.statuses {
            let before = &account.statuses;
            problems.push(format!(
                "an orderly restart changed counters: {before:?}, {again:?}"
            ));
        }

        let entries = self.ledger.entries();
        let mut verdict = verdict::judge(seed, &entries, self.lives.endings(), &account);
        verdict.problems.append(&mut problems);
        Ok(verdict)
    }

    fn report(&self, mut verdict: Verdict) -> Result<(), String> {
        let traces = Traces::read(&self.lives.installation().data())?;
        verdict
            .problems
            .append(&mut self.uncovered(traces, &verdict));
        Report {
            seed: self.options.seed,
            rounds: self.options.rounds,
            lives: self.lives.endings(),
            checked: self.lives.checked(),
            not_reached: &self.not_reached,
            entries: &self.ledger.entries(),
            declarations: self.declarations.answered(),
            traces,
            usage: self.usage,
            restored: self.restorer.done(),
            verdict: &verdict,
        }
        .print();
        match verdict.problems.len() {
            0 => Ok(()),
            count => Err(format!("{count} problems")),
        }
    }

    /// What a run of some length must have seen and has not: without it, it proves little.
    fn uncovered(&self, traces: Traces, verdict: &Verdict) -> Vec<String> {
        let mut problems = Vec::new();
        if self.options.rounds < ROUNDS_COVERING {
            return problems;
        }
        let killed: Vec<_> = failpoint::NAMES
            .iter()
            .filter(|name| self.lives.endings().contains(&Ending::Failpoint(name)))
            .collect();
        let planned = (self.options.rounds * schedule::FAILPOINTS_OF_TEN / 10) as usize;
        if killed.len() * 2 < failpoint::NAMES.len().min(planned) {
            problems.push(format!(
                "only these failpoints were reached: {killed:?}; the binary needs the feature failpoints"
            ));
        }
        if traces.recycled() == 0 {
            problems.push("no segment was recycled".to_owned());
        }
        let restored = self.restorer.done();
        let entries = self.ledger.entries();
        let sum = |of: fn(&Row) -> u64| verdict.rows.iter().map(of).sum();
        let passed = [
            ("segments cleaned", self.usage.cleaned_segments),
            ("events copied to kept files", self.usage.copied_events),
            ("kept files removed", traces.kept_removed()),
            ("publishes refused at the watermark", entries.refused_full),
            ("views deleted", u64::from(restored.deleted)),
            ("views built again", u64::from(restored.recovered)),
            ("purges answered", entries.purges_answered()),
            ("deliveries purged", sum(|row| row.purged)),
            ("purges explained", sum(|row| row.explained)),
            ("events resent", sum(|row| row.resent)),
            ("batches of several events", entries.batches.0),
        ];
        let missed = passed.iter().filter(|(_, count)| *count == 0);
        problems.extend(missed.map(|(what, _)| format!("{what}: none")));
        if traces.epoch < self.options.rounds {
            let Traces { epoch, .. } = traces;
            problems.push(format!("the epoch is only {epoch}"));
        }
        problems
    }
}

/// How much is published at full speed: less if there is a backlog, because old segments are needed as long as it lasts.
async fn events_of_life(api: &mut Api) -> u64 {
    // A server that dies meanwhile gets no events.
    let statuses = conclusion::statuses(api).await.unwrap_or_default();
    let pending: u64 = statuses.iter().map(|status| status.pending).sum();
    let (least, most) = EVENTS_PER_LIFE.into_inner();
    most.saturating_sub(pending / 2).max(least)
}

/// Ends a life as planned and says how it ended.
async fn end_as_planned(server: &mut Server, plan: Plan) -> Result<Ending, String> {
    let (wait, failpoint) = match plan {
        Plan::Kill(wait) | Plan::Stop(wait) => (wait, None),
        Plan::Failpoint(failpoint) => (FAILPOINT_WAIT_MAX, Some(failpoint)),
    };
    if let Some(status) = server.end_within(wait).await? {
        return died(server, status, failpoint);
    }
    match plan {
        Plan::Stop(_) => server.stop().await.map(|()| Ending::Stopped),
        Plan::Kill(_) | Plan::Failpoint(_) => server.kill().await.map(|()| Ending::Killed),
    }
}
