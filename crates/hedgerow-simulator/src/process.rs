//! One life of the process: whatever it does with the world goes through a step here, and at one of them it may end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// A process, as the world sees it.
pub struct Process {
    is_alive: AtomicBool,
    /// Steps until it ends by itself.
    steps_left: AtomicU64,
    died: Notify,
}

impl Process {
    /// One that lives.
    pub fn new() -> Self {
        Self {
            is_alive: AtomicBool::new(true),
            steps_left: AtomicU64::new(u64::MAX),
            died: Notify::new(),
        }
    }

    /// It ends at so manieth step from now on.
    pub fn end_after(&self, steps: u64) {
        self.steps_left.store(steps, Ordering::Relaxed);
    }

    /// Takes a step. Says whether the process lives on.
    pub fn step(&self) -> bool {
        let left = self.steps_left.load(Ordering::Relaxed).saturating_sub(1);
        self.steps_left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.end();
        }
        self.is_alive()
    }

    pub fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Relaxed)
    }

    /// Nothing reaches the world from now on.
    pub fn end(&self) {
        self.is_alive.store(false, Ordering::Relaxed);
        self.died.notify_one();
    }

    /// Until it ended.
    pub async fn ended(&self) {
        while self.is_alive() {
            self.died.notified().await;
        }
    }
}
