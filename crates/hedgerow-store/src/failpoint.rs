//! Places at which the crash proof kills the process. Without the feature `failpoints` there is nothing here.
//!
//! With it, `HEDGEROW_FAILPOINT="group-sync:17"` in the environment makes the process kill itself with SIGKILL when
//! it comes to `group-sync` for the 17th time.

/// Every failpoint, for the harness that goes through them.
pub const NAMES: &[&str] = &[
    "group-write",
    "group-write-half",
    "group-sync",
    "group-synced",
    "segment-rename",
    "segment-renamed",
    "segment-recycle",
    "index-write",
    "index-rename",
    "index-renamed",
    "index-removed",
    "checkpoint-apply",
    "checkpoint-persist",
    "baseline-write",
    "baseline-renamed",
    "kept-write",
    "kept-sync",
    "kept-synced",
    "manifest-write",
    "manifest-rename",
    "manifest-renamed",
    "segment-forget",
];

/// Passes a failpoint.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn hit(_name: &str) {}

/// Whether the process would die at this failpoint now, so that the caller can do half of something first.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn is_armed(_name: &str) -> bool {
    false
}

#[cfg(feature = "failpoints")]
pub(crate) use armed::{hit, is_armed};

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Where to die, and after how many more hits.
    struct Armed {
        name: String,
        hits_left: AtomicU64,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let setting = std::env::var("HEDGEROW_FAILPOINT").ok()?;
        let (name, count) = setting.split_once(':')?;
        let hits_left = AtomicU64::new(count.parse().ok()?);
        Some(Armed {
            name: name.to_owned(),
            hits_left,
        })
    });

    /// Passes a failpoint; kills the process if it is its turn.
    pub(crate) fn hit(name: &str) {
        let Some(armed) = ARMED.as_ref().filter(|armed| armed.name == name) else {
            return;
        };
        if armed.hits_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            loop {
                std::thread::park();
            }
        }
    }

    /// Whether the next hit of this failpoint kills.
    pub(crate) fn is_armed(name: &str) -> bool {
        ARMED
            .as_ref()
            .is_some_and(|armed| armed.name == name && armed.hits_left.load(Ordering::SeqCst) == 1)
    }
}
