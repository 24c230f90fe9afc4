//! Raises the limit of open files and shares it out, so that neither side takes the other's: publishers and admins keep
//! theirs whatever deliveries do, and the store keeps its own (design D6).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the view's table, the listener, standard streams and whatever libraries open.
const RESERVE: usize = 128;
/// Fewer connections than this on a side would be no server.
const SHARE_MIN: usize = 32;
/// What is assumed where there is no limit.
const UNLIMITED: usize = 1 << 20;

/// How many files this process may have open.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors {
    max: usize,
    /// Kept for the store and whatever libraries open.
    reserve: usize,
}

impl Descriptors {
    /// Raises the limit as far as the system allows. The store opens up to `segments` files of its log.
    pub fn raise(segments: usize) -> Self {
        let limit = getrlimit(Resource::Nofile);
        if limit.current != limit.maximum {
            let raised = Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            };
            if let Err(error) = setrlimit(Resource::Nofile, raised) {
                tracing::warn!(%error, "cannot raise the limit of open files; set it for the service (nofile)");
            }
        }
        let current = getrlimit(Resource::Nofile).current;
        let max = current.map_or(UNLIMITED, |max| usize::try_from(max).unwrap_or(UNLIMITED));
        Self {
            max,
            reserve: RESERVE + segments,
        }
    }

    /// Connections of publishers and admins: two fifths of what can be had, at most `wanted`.
    pub fn inbound_max(self, wanted: usize) -> usize {
        self.share(2, "http.connections_max", wanted)
    }

    /// Connections to endpoints: three fifths of what can be had, at most `wanted`.
    pub fn outbound_max(self, wanted: usize) -> usize {
        self.share(3, "delivery.connections_max", wanted)
    }

    /// Exchanges that may stay open after their timeout: a quarter of the limit, at most `wanted` (ED-180).
    pub fn late_exchanges_max(self, wanted: usize) -> usize {
        wanted.min(self.max / 4)
    }

    fn share(self, fifths: usize, setting: &str, wanted: usize) -> usize {
        let share = (self.max.saturating_sub(self.reserve) / 5 * fifths).max(SHARE_MIN);
        if share < wanted {
            tracing::info!(
                setting,
                wanted,
                used = share,
                "lowered: the system allows few open files"
            );
        }
        wanted.min(share)
    }
}

#[cfg(test)]
mod tests {
    use super::{Descriptors, RESERVE};

    #[test]
    fn shares_leave_the_reserve() {
        for (max, inbound, outbound) in [
            (1024, 358, 537),
            (1_048_576, 4096, 10_000),
            (64, 32, 32),
            (0, 32, 32),
        ] {
            let descriptors = Descriptors {
                max,
                reserve: RESERVE,
            };
            assert_eq!(descriptors.inbound_max(4096), inbound, "{max}");
            assert_eq!(descriptors.outbound_max(10_000), outbound, "{max}");
            assert_eq!(
                descriptors.late_exchanges_max(10_000),
                10_000.min(max / 4),
                "{max}"
            );
        }
    }
}
