//! Where the engine's tasks run, and the work that takes a disk's time: on a runtime and its threads, or, for simulations,
//! all of it in turn on one thread, so that one seed gives one order of things.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

/// How long a piece of work beside the engine takes before it is done, all at once.
pub type Delay = dyn Fn() -> Duration + Send + Sync;

/// Tasks that ended are forgotten when more than so many are known.
const TASKS_KEPT: usize = 1024;

/// Where tasks run.
#[derive(Clone)]
pub struct Spawner {
    handle: Handle,
    in_turn: Option<Arc<InTurn>>,
}

/// What a simulation needs.
struct InTurn {
    delay: Box<Delay>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Spawner {
    /// Tasks run on this runtime, and work on its threads for that.
    #[must_use]
    pub const fn new(handle: Handle) -> Self {
        let in_turn = None;
        Self { handle, in_turn }
    }

    /// Everything runs in turn on this runtime, which has one thread: work is done at once after a delay. Only for
    /// simulations, as everything else waits meanwhile.
    #[must_use]
    pub fn in_turn(handle: Handle, delay: Box<Delay>) -> Self {
        let tasks = Mutex::default();
        let in_turn = Some(Arc::new(InTurn { delay, tasks }));
        Self { handle, in_turn }
    }

    /// Ends every task of a simulation wherever it waits, as the end of a process does.
    pub fn end_all(&self) {
        if let Some(in_turn) = &self.in_turn {
            let tasks = std::mem::take(&mut *in_turn.tasks());
            tasks.iter().for_each(AbortHandle::abort);
        }
    }

    /// Runs a task.
    pub fn spawn<T, F>(&self, task: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let task = self.handle.spawn(task);
        if let Some(in_turn) = &self.in_turn {
            in_turn.note(task.abort_handle());
        }
        task
    }

    /// Does work that may take a disk's time.
    pub fn spawn_blocking<T, F>(&self, work: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let Some(in_turn) = &self.in_turn else {
            return self.handle.spawn_blocking(work);
        };
        let delay = (in_turn.delay)();
        self.spawn(async move {
            tokio::time::sleep(delay).await;
            work()
        })
    }
}

impl InTurn {
    fn note(&self, task: AbortHandle) {
        let mut tasks = self.tasks();
        if tasks.len() >= TASKS_KEPT && tasks.len().is_power_of_two() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task);
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, Vec<AbortHandle>> {
        // A panic elsewhere leaves the list whole.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
