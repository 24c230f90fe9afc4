//! One day of one seed, from the first moment to the last look.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_delivery::command::Command;
use hedgerow_store::Store as _;
use tokio::sync::watch;

use crate::machine::Machine;
use crate::oracle::Tally;
use crate::people;
use crate::plan::{Plan, Publication};
use crate::world::World;

/// How often bounds are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(97);
/// After the last fault everything has settled after so long a time: the longest distance of slots is 12 h, a `Retry-After` of up to
/// 6 h (ED-185) may pass over one, and what stands behind such an event in its line takes a while itself.
const SETTLES_WITHIN: Duration = Duration::from_secs(22 * 3_600);
/// How long it takes at most until an endpoint is told of a deletion.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// Declaring is tried so often, in so long a distance: longer than anything is down.
const DECLARE_TRIES: u32 = 4_000;
const DECLARE_AGAIN: Duration = Duration::from_secs(10);
/// The pool of connections never has more.
const CONNECTIONS_MAX: usize = 10_000;

/// How a day went.
#[derive(Debug, Clone)]
pub struct Report {
    pub hash: u64,
    pub lines: u64,
    pub simulated: Duration,
    pub tally: Tally,
    /// What is wrong.
    pub violation: Option<String>,
}

/// Runs the day of a seed. Prints what happens if it should.
pub fn run(seed: u64, is_printed: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets");
    runtime.block_on(day(Plan::of(seed), is_printed))
}

async fn day(plan: Plan, is_printed: bool) -> Report {
    let world = Arc::new(World::new(plan, is_printed));
    let (over_to, mut over) = watch::channel(false);
    let mut machine = Machine::new(Arc::clone(&world));
    let observer = tokio::spawn(observe(Arc::clone(&world), over_to));
    let wrong = tokio::select! {
        biased;
        lived = machine.run(&mut over) => lived.err(),
        () = violated(&world) => None,
    };
    if let Some(wrong) = wrong {
        world.oracle().fail(wrong);
    }
    observer.abort();
    if world.oracle().violation().is_none() {
        let now = world.now();
        world.oracle().conclude(now);
    }
    let trace = world.trace();
    let oracle = world.oracle();
    Report {
        hash: trace.hash(),
        lines: trace.lines(),
        simulated: world.elapsed(),
        tally: oracle.tally,
        violation: oracle.violation().map(str::to_owned),
    }
}

/// Until something is wrong. Looks often: what follows only confuses.
async fn violated(world: &Arc<World>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if world.oracle().violation().is_some() {
            return;
        }
    }
}

/// Lets people do their part, then waits until everything has settled.
async fn observe(world: Arc<World>, over: watch::Sender<bool>) {
    if let Err(error) = begin(&world).await {
        world.oracle().fail(error);
        return;
    }
    let publishers = tokio::spawn(people::publish(Arc::clone(&world)));
    let operators = tokio::spawn(people::operate(Arc::clone(&world)));
    let clocks = tokio::spawn(step_clocks(Arc::clone(&world)));
    let disks = tokio::spawn(fill_disks(Arc::clone(&world)));
    while world.elapsed() < world.plan.faults {
        tokio::time::sleep(LOOK_EVERY).await;
        look(&world).await;
    }
    disks.abort();
    world.limit_disk(None);
    world.calm_down();
    world.note(format_args!("nothing breaks any more"));
    for task in [publishers, operators, clocks] {
        // What one of them met is in the trace.
        let _ = task.await;
    }
    let settled_by = world.elapsed() + SETTLES_WITHIN;
    settle(&world, settled_by).await;
    over.send_replace(true);
}

/// Declares everything, through whatever breaks meanwhile.
async fn begin(world: &Arc<World>) -> Result<(), String> {
    let mut tried = Ok(());
    for _ in 0..DECLARE_TRIES {
        tokio::time::sleep(DECLARE_AGAIN).await;
        tried = people::declare(world).await;
        if tried.is_ok() {
            world.note_declared();
            break;
        }
    }
    tried
}

async fn step_clocks(world: Arc<World>) {
    for (at, milliseconds) in &world.plan.clock_steps {
        world.sleep_until(*at).await;
        world.note(format_args!("the wall clock is set by {milliseconds} ms"));
        world.clock.step(*milliseconds);
    }
}

async fn fill_disks(world: Arc<World>) {
    for (at, span, bytes) in &world.plan.full {
        world.sleep_until(*at).await;
        world.note(format_args!("the disk holds {bytes} bytes"));
        world.limit_disk(Some(*bytes));
        tokio::time::sleep(*span).await;
        world.note(format_args!("the disk has room again"));
        world.limit_disk(None);
    }
}

async fn settle(world: &Arc<World>, settled_by: Duration) {
    let mut has_published = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        look(world).await;
        if !has_published && people::resume_all(world).await.is_ok() {
            has_published = true;
            // Those who have no hold on them get this at once.
            for topic in 0..world.plan.topics.len() {
                let publication = Publication {
                    at: world.elapsed(),
                    topic,
                    events: 1,
                    bytes: 10,
                };
                let number = 1_000_000 + topic as u64;
                people::publish_one(Arc::clone(world), publication, number).await;
            }
            continue;
        }
        let now = world.now();
        let left = world.oracle().unsettled(now);
        if left.is_empty() && has_published {
            return part(world).await;
        }
        if world.elapsed() > settled_by {
            let message =
                format!("{SETTLES_WITHIN:?} after the last fault there is left: {left:?}");
            return world.oracle().fail(message);
        }
    }
}

/// At last a subscription goes: nothing is in the way of telling its endpoint (ED-171).
async fn part(world: &Arc<World>) {
    let Some(name) = world.oracle().tells_of_its_end() else {
        return;
    };
    let told_before = world.oracle().notices_of(&name);
    if let Err(error) = people::delete(world, &name).await {
        let message = format!("{name} cannot be deleted: {error}");
        return world.oracle().fail(message);
    }
    tokio::time::sleep(TOLD_WITHIN).await;
    if world.oracle().notices_of(&name) != told_before + 1 {
        let message = format!("ED-171: the endpoint of {name} was not told that it is gone");
        world.oracle().fail(message);
    }
}

/// Looks whether everything stays within its bounds.
async fn look(world: &Arc<World>) {
    let Some(front) = world.front() else {
        return;
    };
    let settings = &world.plan.settings;
    let usage = front.store.usage();
    let bytes_max = world.plan.log.bytes_max;
    if usage.used_bytes > bytes_max {
        let used = usage.used_bytes;
        let message = format!("the store uses {used} bytes of {bytes_max}");
        world.oracle().fail(message);
    }
    for plan in &world.plan.subscriptions {
        let asked = front.handle.ask(|answer| Command::Subscription {
            topic: world.plan.source(plan),
            name: plan.name.clone(),
            answer,
        });
        // It may be deleted.
        let Ok(info) = asked.await else { continue };
        let counters = info.counters;
        let ends = counters.delivered + counters.dead_lettered + counters.dropped;
        let open = info.pending - info.waiting;
        if counters.matched != ends + counters.given_up + open {
            let message = format!("ED-304: {} does not balance: {info:?}", plan.name);
            world.oracle().fail(message);
        }
    }
    let late_max = settings.late_exchanges_per_subscription_max;
    let (now, oracle) = (world.now(), &mut *world.oracle());
    oracle.look_at_late(now, late_max, settings.late_exchanges_max);
    oracle.look_at_flights(now);
    let in_flight = oracle.in_flight();
    // Slow ones may be as many again.
    let attempts_max = 2 * settings.attempts_max;
    if in_flight > attempts_max {
        oracle.fail(format!("{in_flight} attempts run, {attempts_max} may"));
    }
    if let Some(open) = front.connections_over(CONNECTIONS_MAX) {
        oracle.fail(format!("{open} connections are open"));
    }
}
