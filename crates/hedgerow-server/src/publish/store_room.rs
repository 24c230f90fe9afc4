//! Waits for room in the log.
//!
//! A publisher that is as fast as the disk can be a moment ahead of the cleaning that gives back what nobody needs any more.
//! Then it is slowed down, not refused: the log counts as full only once it has refused everything for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hedgerow_store::StoreError;
use hedgerow_store::error::Fullness;
use tokio::time::Instant;

/// How often it is asked meanwhile.
const INTERVAL: Duration = Duration::from_millis(5);

/// Since when the log refuses.
#[derive(Debug)]
pub struct StoreRoom {
    /// How long it may before publishers are told.
    wait: Duration,
    is_refusing: AtomicBool,
    since: Mutex<Option<Instant>>,
}

impl StoreRoom {
    /// Lets publishers wait as long as this.
    pub fn new(wait: Duration) -> Self {
        Self {
            wait,
            is_refusing: AtomicBool::new(false),
            since: Mutex::default(),
        }
    }

    /// Appends as soon as there is room.
    ///
    /// # Errors
    ///
    /// The last error of `append`, when the log has refused everything for as long as it may; any other error at once.
    pub async fn append<T>(
        &self,
        append: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            match append() {
                Err(StoreError::Full(Fullness::Log { .. })) if self.may_wait() => {
                    tokio::time::sleep(INTERVAL).await;
                }
                Err(error) => return Err(error),
                Ok(appended) => {
                    self.note_room();
                    return Ok(appended);
                }
            }
        }
    }

    /// Notes that the log refused, and says whether that may still end by itself.
    fn may_wait(&self) -> bool {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_refusing.store(true, Ordering::Relaxed);
        since.get_or_insert_with(Instant::now).elapsed() < self.wait
    }

    fn note_room(&self) {
        if self.is_refusing.load(Ordering::Relaxed) {
            let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_refusing.store(false, Ordering::Relaxed);
            *since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(1);
    const FULL: StoreError = StoreError::Full(Fullness::Log {
        used_bytes: 2,
        watermark_bytes: 1,
    });

    /// A log that has room again after a while.
    fn log(room_after: Duration) -> impl Fn() -> Result<(), StoreError> {
        let begun = Instant::now();
        move || {
            if begun.elapsed() < room_after {
                Err(FULL)
            } else {
                Ok(())
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_cleaned_in_time_refuses_nobody() {
        let (room, begun) = (StoreRoom::new(WAIT), Instant::now());
        let nearly = INTERVAL * 100;
        room.append(log(nearly)).await.unwrap();
        assert_eq!(begun.elapsed(), nearly);
        // The next time it is a new matter.
        room.append(log(nearly)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_stays_full_is_waited_for_once() {
        let (room, begun) = (StoreRoom::new(WAIT), Instant::now());
        let full = log(Duration::MAX);
        assert!(room.append(&full).await.is_err());
        assert_eq!(begun.elapsed(), WAIT);
        assert!(room.append(&full).await.is_err());
        assert_eq!(begun.elapsed(), WAIT, "the others are told at once");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_matter_of_room_in_the_log_is_told_at_once() {
        let (room, begun) = (StoreRoom::new(WAIT), Instant::now());
        let disk = || -> Result<(), _> {
            Err(StoreError::Full(Fullness::Disk {
                free_bytes: 1,
                reserve_bytes: 2,
            }))
        };
        assert!(room.append(disk).await.is_err());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
