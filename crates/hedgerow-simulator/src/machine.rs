//! The machine: its disk and table, and the processes that live on it one after another.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_core::time::Timestamp;
use hedgerow_delivery::engine::{Engine, Parts};
use hedgerow_delivery::metrics::Metrics;
use hedgerow_delivery::spawner::Spawner;
use hedgerow_io::clock::Clock as _;
use hedgerow_io::http::{AddressGuard, Client, ClientOptions};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::faulty::FaultyDisk;
use hedgerow_store::log::{Clock, Log};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::MemoryTable;
use hedgerow_store::view::{View, ViewOptions};
use hedgerow_store::{Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::WatchedClock;
use crate::dice::Dice;
use crate::letters::Letters;
use crate::network::Network;
use crate::plan::{End, LifePlan, When};
use crate::process::Process;
use crate::store::WatchedStore;
use crate::table::WatchedTable;
use crate::world::{Front, World};

/// Bytes of log that are folded at a time while opening.
const REPLAY_BYTES: usize = 1 << 20;
/// How long after a failure the store is opened again by the same process.
const REOPEN_DELAY: Duration = Duration::from_millis(100);
/// How long after a failure on a full disk the next try comes.
const DISK_AGAIN: Duration = Duration::from_secs(60);

/// The machine.
pub struct Machine {
    world: Arc<World>,
    disk: FaultyDisk,
    table: Arc<MemoryTable>,
    dice: Dice,
    lives: u64,
}

/// A process and the engine in it.
struct Running {
    process: Arc<Process>,
    spawner: Spawner,
    store: Arc<WatchedStore>,
    engine: JoinHandle<Result<(), StoreError>>,
    committer: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

/// What a process keeps while its store is opened again.
#[derive(Clone)]
struct Lasting {
    process: Arc<Process>,
    client: Arc<Client>,
    spawner: Spawner,
    metrics: Arc<Metrics>,
    began: Option<Timestamp>,
}

/// How a life came to its end.
enum Ended {
    Process,
    /// The store failed, and the process lives on.
    Store(StoreError),
    InOrder,
}

impl Machine {
    pub fn new(world: Arc<World>) -> Self {
        let seed = world.plan.seed;
        Self {
            disk: world.disk.clone(),
            table: Arc::default(),
            dice: Dice::of(&[seed, 30]),
            lives: 0,
            world,
        }
    }

    /// Lives all planned lives, and a last one in which nothing breaks, until `over` says that it is over; then stops in
    /// order and looks at everything once more.
    ///
    /// # Errors
    /// What is wrong.
    pub async fn run(&mut self, over: &mut watch::Receiver<bool>) -> Result<(), String> {
        let plans = self.world.plan.lives.clone();
        let mut lasting = self.new_process();
        for plan in &plans {
            if self.world.is_calm() || self.is_wrong() {
                break;
            }
            lasting = self.live(lasting, plan).await?;
        }
        self.last_life(lasting, over).await?;
        self.look_at_the_end()
    }

    fn is_wrong(&self) -> bool {
        self.world.oracle().violation().is_some()
    }

    fn new_process(&mut self) -> Lasting {
        self.lives += 1;
        let process = Arc::new(Process::new());
        let network = Network {
            world: Arc::clone(&self.world),
            process: Arc::clone(&process),
        };
        let options = ClientOptions {
            idle_max: self.dice.pick(&[2_048, 2_048, 0, 2]),
            ..ClientOptions::default()
        };
        let mut delays = Dice::of(&[self.world.plan.seed, 31, self.lives]);
        let world = Arc::clone(&self.world);
        let draws = std::sync::Mutex::new(move || {
            let longest = if world.is_calm() {
                1
            } else {
                world.plan.aside_ms
            };
            delays.millis(0..=longest)
        });
        let delay = Box::new(move || (crate::world::lock(&draws))());
        Lasting {
            process,
            client: Arc::new(Client::new(Arc::new(network), options)),
            spawner: Spawner::in_turn(Handle::current(), delay),
            metrics: Arc::default(),
            began: None,
        }
    }

    /// One planned life, from opening the store to the end of it, and what is down meanwhile.
    async fn live(&mut self, mut lasting: Lasting, plan: &LifePlan) -> Result<Lasting, String> {
        // Opening is a part of the life that may be cut short.
        let is_in_peace = self.world.plan.declares_in_peace && !self.world.is_declared();
        if !is_in_peace {
            self.arm(&lasting, plan);
        }
        let running = match self.open(&mut lasting) {
            Ok(running) => running,
            Err(error) => return self.fell(lasting, plan, &error).await,
        };
        if is_in_peace {
            self.world.declared().await;
            self.arm(&lasting, plan);
        }
        let ended = self.wait_for_end(running, plan).await;
        match ended {
            Ended::Store(error) if lasting.process.is_alive() && !self.disk.is_off() => {
                self.world.note(format_args!("the store failed: {error}"));
                self.world.oracle().tally.failed_syncs += 1;
                tokio::time::sleep(REOPEN_DELAY).await;
                Ok(lasting)
            }
            Ended::InOrder => {
                self.world.oracle().tally.stops += 1;
                self.bury(&lasting, End::Kill);
                tokio::time::sleep(plan.down).await;
                Ok(self.new_process())
            }
            Ended::Store(_) | Ended::Process => {
                self.bury(&lasting, plan.end);
                tokio::time::sleep(plan.down).await;
                Ok(self.new_process())
            }
        }
    }

    /// Says where the process is to end.
    fn arm(&self, lasting: &Lasting, plan: &LifePlan) {
        match plan.when {
            When::AtStep(steps) => lasting.process.end_after(steps),
            When::AtMutation(mutations) => self.disk.fail_after(mutations),
            When::After(_) => {}
        }
    }

    /// The process ended while it opened its store.
    async fn fell(
        &mut self,
        lasting: Lasting,
        plan: &LifePlan,
        error: &StoreError,
    ) -> Result<Lasting, String> {
        let is_broken = !lasting.process.is_alive() || self.disk.is_off();
        let is_planned = is_broken || self.world.is_disk_full();
        if !is_planned {
            return Err(format!("the store does not open: {error}"));
        }
        self.world.note(format_args!("opening fails: {error}"));
        self.bury(&lasting, plan.end);
        tokio::time::sleep(plan.down).await;
        Ok(self.new_process())
    }

    /// Waits for the planned end, or another one that comes first.
    async fn wait_for_end(&mut self, mut running: Running, plan: &LifePlan) -> Ended {
        let world = Arc::clone(&self.world);
        let process = Arc::clone(&running.process);
        let after = match plan.when {
            When::After(span) => span,
            // Somewhere on the way; if it never comes there, after a while.
            When::AtStep(_) | When::AtMutation(_) => Duration::from_secs(6 * 3_600),
        };
        let last = world.plan.faults.saturating_sub(world.elapsed());
        let timer = tokio::time::sleep(after.min(last));
        let ended = tokio::select! {
            biased;
            () = process.ended() => Ended::Process,
            engine = &mut running.engine => match engine {
                Ok(Err(error)) => Ended::Store(error),
                Ok(Ok(())) => Ended::InOrder,
                Err(_) => {
                    world.oracle().fail("the engine panicked".to_owned());
                    Ended::Process
                }
            },
            () = timer => match plan.end {
                End::Stop => {
                    world.note(format_args!("stop"));
                    running.stop.send_replace(true);
                    match (&mut running.engine).await {
                        Ok(Ok(())) => Ended::InOrder,
                        Ok(Err(error)) => Ended::Store(error),
                        Err(_) => Ended::Process,
                    }
                }
                End::FailedSync => {
                    world.note(format_args!("the next sync fails"));
                    self.disk.fail_sync_once();
                    tokio::select! {
                        biased;
                        engine = &mut running.engine => match engine {
                            Ok(Err(error)) => Ended::Store(error),
                            _ => Ended::Process,
                        },
                        () = tokio::time::sleep(Duration::from_secs(3_600)) => Ended::Process,
                    }
                }
                End::Kill | End::Cut => Ended::Process,
            },
        };
        self.world.set_front(None);
        if !matches!(ended, Ended::Store(_)) || self.disk.is_off() {
            // The disk first: closing the log must not write what the process never got to.
            process.end();
            match plan.end {
                End::Cut => self.disk.cut(),
                _ if matches!(ended, Ended::InOrder) => {}
                _ => self.disk.kill(),
            }
            running.spawner.end_all();
        }
        running.engine.abort();
        running.committer.abort();
        // They end at once, however they do.
        let _ = (&mut running.committer).await;
        if !running.engine.is_finished() {
            let _ = (&mut running.engine).await;
        }
        running.store.close();
        ended
    }

    /// Nothing of a process is left but what stands on the disk.
    fn bury(&mut self, lasting: &Lasting, end: End) {
        self.world.set_front(None);
        lasting.process.end();
        lasting.spawner.end_all();
        if end == End::Cut {
            self.disk.cut();
            let batches = self.table.unpersisted_batches() as u64;
            let kept = self.dice.between(0..=batches) as usize;
            self.table.cut(kept);
            self.world.oracle().tally.cuts += 1;
        } else {
            self.disk.kill();
            self.world.oracle().tally.kills += 1;
        }
        self.world
            .note(format_args!("the process is gone: {end:?}"));
    }

    /// Opens the store, as a server does, and starts the engine.
    fn open(&mut self, lasting: &mut Lasting) -> Result<Running, StoreError> {
        let disk = self.disk.mount();
        let clock = self.world.clock.clone();
        let issue: Clock = Arc::new(move || clock.now().timestamp);
        let recovered = Log::open(Arc::clone(&disk), self.world.plan.log.clone(), issue)?;
        let stopped = recovered.clock_high_water();
        if lasting.began.is_none() {
            self.world.clock.restart(stopped);
            lasting.began = Some(self.world.now());
        }
        let (store_id, epoch) = (recovered.store_id(), recovered.epoch());
        let secrets = Arc::new(Secrets::open(disk.as_ref())?);
        self.world.oracle().take_secrets(&secrets);
        self.world.oracle().reopened(&recovered)?;
        let table = WatchedTable::new(Arc::clone(&self.table), Arc::clone(&lasting.process));
        let view_options = ViewOptions {
            store_id,
            terminal_records_max: 100_000,
        };
        let mut view = View::open(
            Arc::new(table),
            disk.as_ref(),
            Arc::clone(&secrets),
            view_options,
        )?;
        view.catch_up(&recovered, REPLAY_BYTES)?;
        secrets.make_missing(disk.as_ref())?;
        self.world.oracle().compare(&view)?;
        self.world.note(format_args!("open, epoch {epoch}"));
        let log = recovered.start_synchronous(&view.next_seqs());
        let store = Arc::new(WatchedStore::new(
            log,
            Arc::clone(&lasting.process),
            Arc::clone(&self.world),
        ));
        let parts = Parts {
            origins: Arc::new(hedgerow_delivery::origins::NoOrigins),
            store: Arc::clone(&store) as Arc<dyn Store>,
            view,
            disk: disk as Arc<dyn Disk>,
            history: None,
            dead_letters: Arc::new(Letters {
                world: Arc::clone(&self.world),
                process: Arc::clone(&lasting.process),
            }),
            clock: Arc::new(WatchedClock::new(self.world.clock.clone())),
            client: Arc::clone(&lasting.client),
            guard: Arc::new(AddressGuard::new([])),
            store_id,
            epoch,
            spawner: lasting.spawner.clone(),
            metrics: Arc::clone(&lasting.metrics),
            process_began: lasting.began.unwrap_or(stopped),
            stopped,
        };
        let engine = Engine::new(self.world.plan.settings.clone(), parts);
        let (stop, stopped) = watch::channel(false);
        self.world.set_front(Some(Front {
            store: Arc::clone(&store),
            handle: engine.handle(),
            client: Arc::clone(&lasting.client),
        }));
        let commits = Dice::of(&[self.world.plan.seed, 32, u64::from(epoch)]);
        let committing = Arc::clone(&store);
        Ok(Running {
            process: Arc::clone(&lasting.process),
            spawner: lasting.spawner.clone(),
            engine: tokio::spawn(engine.run(stopped)),
            committer: tokio::spawn(async move { committing.commit(commits).await }),
            store,
            stop,
        })
    }

    /// Nothing breaks any more, unless the time for that has not come yet.
    async fn last_life(
        &mut self,
        mut lasting: Lasting,
        over: &mut watch::Receiver<bool>,
    ) -> Result<(), String> {
        loop {
            let mut running = match self.open(&mut lasting) {
                Ok(running) => running,
                Err(error) if self.world.is_disk_full() => {
                    self.world.note(format_args!("opening fails: {error}"));
                    self.bury(&lasting, End::Kill);
                    tokio::time::sleep(DISK_AGAIN).await;
                    lasting = self.new_process();
                    continue;
                }
                Err(error) => return Err(format!("the store does not open: {error}")),
            };
            let stopped = tokio::select! {
                biased;
                engine = &mut running.engine => engine,
                _ = over.wait_for(|over| *over) => {
                    running.stop.send_replace(true);
                    (&mut running.engine).await
                }
            };
            self.world.set_front(None);
            running.store.close();
            running.committer.abort();
            return match stopped {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) if self.world.is_disk_full() => {
                    self.world.note(format_args!("the store failed: {error}"));
                    tokio::time::sleep(DISK_AGAIN).await;
                    continue;
                }
                Ok(Err(error)) => Err(format!("the store failed without a fault: {error}")),
                Err(_) => Err("the engine panicked".to_owned()),
            };
        }
    }

    /// The view, read from what is on the disk, says what the log said.
    fn look_at_the_end(&mut self) -> Result<(), String> {
        self.disk.kill();
        let mut lasting = self.new_process();
        self.look(&mut lasting).map_err(|error| error.to_string())
    }

    fn look(&mut self, lasting: &mut Lasting) -> Result<(), StoreError> {
        let running = self.open(lasting)?;
        running.engine.abort();
        running.committer.abort();
        Ok(())
    }
}
