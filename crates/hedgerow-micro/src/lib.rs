//! The steps that every event passes through, each alone on the same inputs: what ingest and delivery spend their time on,
//! without sockets, disks and threads. Three things are made of them:
//!
//! | what | says |
//! | --- | --- |
//! | `cargo bench -p hedgerow-micro` | nanoseconds, on this machine beside its neighbours |
//! | `cargo xtask counts` | allocations and instructions, which neighbours do not change |
//! | the test `allocations` | whether the allocations are those of `counts.txt` |

mod inputs;
mod steps;

use allocation_counter::AllocationInfo;

pub use self::inputs::Inputs;
pub use self::steps::{STEPS, Step};

/// What a step asks of the allocator each time it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocations {
    /// How often memory was asked for, growing included.
    pub count: u64,
    /// How many bytes in all.
    pub bytes: u64,
}

impl Step {
    /// Counts what it allocates on this thread.
    #[must_use]
    pub fn allocations(&self, inputs: &mut Inputs) -> Allocations {
        // What is made once, at the first use, does not count.
        (self.run)(inputs);
        let AllocationInfo {
            count_total,
            bytes_total,
            ..
        } = allocation_counter::measure(|| (self.run)(inputs));
        Allocations {
            count: count_total,
            bytes: bytes_total,
        }
    }
}
