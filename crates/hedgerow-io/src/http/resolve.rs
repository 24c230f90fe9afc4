//! Resolves names with the operating system's resolver, within bounds.
//!
//! A lookup that hangs cannot be given up: it keeps a thread until the system lets go. So lookups are bounded in total and
//! per name, and one that its caller has given up still counts. A name whose servers do not answer holds up itself, not
//! the names of others (design D6, D7).
//!
//! Of some names the last addresses are kept, for when the resolver is away (HP-025). The system's resolver tells no time to
//! live; so an answer is asked for again after the shortest that there is.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Lookups that run at once: well below the 512 threads tokio has for work that blocks.
const LOOKUPS_MAX: usize = 64;
/// Lookups of one name that run at once. More would ask the same question again.
const LOOKUPS_PER_NAME_MAX: usize = 2;
/// Names that are remembered before those that nobody looks up any more are forgotten.
const NAMES_KEPT_MAX: usize = 256;
/// Names whose addresses are kept, before those that are too old are forgotten: more than a node has origins.
const ADDRESSES_KEPT_MAX: usize = 10_000;
/// For so long an answer is used as it is. Source: HP-025, the least time to live.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// For so long after that it is used where there is no newer one. Source: HP-025.
const KEPT_FOR: Duration = Duration::from_secs(300);
/// How long a newer answer is waited for where an earlier one can be used: a resolver that hangs is away too, and who waits
/// has a deadline. The lookup goes on, and the next caller has its answer.
const NEWER_WAITED_FOR: Duration = Duration::from_millis(250);

/// What looks names up instead of the system's resolver, in tests: given a name and a port. It may block.
#[derive(Clone)]
pub struct Lookup(Arc<LookupFn>);

type LookupFn = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

impl Lookup {
    /// Looks names up with this.
    pub fn new(
        lookup: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(lookup))
    }

    fn of_system() -> Self {
        Self::new(|name, port| (name, port).to_socket_addrs().map(Vec::from_iter))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct Resolver {
    lookup: Lookup,
    lookups: Arc<Semaphore>,
    names: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
    kept: Arc<Kept>,
}

impl Resolver {
    /// One that asks the system, or `lookup`.
    pub(super) fn new(lookup: Option<Lookup>) -> Self {
        Self {
            lookup: lookup.unwrap_or_else(Lookup::of_system),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            names: Mutex::default(),
            kept: Arc::default(),
        }
    }

    /// The addresses of `name`, in the order in which the system prefers them. Never empty.
    pub(super) async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.resolve_into(name, port, None).await
    }

    /// The same; where that fails, or takes long, the addresses of before (HP-025).
    pub(super) async fn resolve_kept(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let newer = self.resolve_into(name, port, Some(Arc::clone(&self.kept)));
        let Some((age, addresses)) = self.kept.of(name) else {
            return newer.await;
        };
        let earlier = || {
            let addresses = addresses.iter();
            Ok(addresses.map(|ip| SocketAddr::new(*ip, port)).collect())
        };
        if age < FRESH_FOR {
            return earlier();
        }
        match tokio::time::timeout(NEWER_WAITED_FOR, newer).await {
            Ok(Ok(newer)) => Ok(newer),
            Ok(Err(_)) | Err(_) => earlier(),
        }
    }

    async fn resolve_into(
        &self,
        name: &str,
        port: u16,
        kept: Option<Arc<Kept>>,
    ) -> io::Result<Vec<SocketAddr>> {
        const NEVER_CLOSED: &str = "these semaphores are never closed";
        let of_name = self
            .semaphore_of(name)
            .acquire_owned()
            .await
            .expect(NEVER_CLOSED);
        let of_all = Arc::clone(&self.lookups)
            .acquire_owned()
            .await
            .expect(NEVER_CLOSED);
        let (name, Lookup(lookup)) = (name.to_owned(), self.lookup.clone());
        let lookup = tokio::task::spawn_blocking(move || {
            let found = lookup(name.as_str(), port);
            if let (Some(kept), Ok(addresses)) = (kept, &found)
                && !addresses.is_empty()
            {
                kept.keep(name, addresses);
            }
            drop((of_all, of_name));
            found
        });
        let addresses = lookup.await.map_err(io::Error::other)??;
        if addresses.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the name has no address",
            ));
        }
        Ok(addresses)
    }

    fn semaphore_of(&self, name: &str) -> Arc<Semaphore> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = names.get(name) {
            return Arc::clone(semaphore);
        }
        if names.len() >= NAMES_KEPT_MAX {
            names.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = Arc::new(Semaphore::new(LOOKUPS_PER_NAME_MAX));
        names.insert(name.into(), Arc::clone(&semaphore));
        semaphore
    }
}

/// The last addresses of a name, and when they were told.
type Told = (Instant, Arc<[IpAddr]>);

/// Those of all names that are kept.
#[derive(Debug, Default)]
struct Kept(Mutex<HashMap<String, Told>>);

impl Kept {
    /// How old the last addresses are, and which, if they may be used.
    fn of(&self, name: &str) -> Option<(Duration, Arc<[IpAddr]>)> {
        let kept = self.lock();
        let (at, addresses) = kept.get(name)?;
        let age = at.elapsed();
        (age <= FRESH_FOR + KEPT_FOR).then(|| (age, Arc::clone(addresses)))
    }

    fn keep(&self, name: String, addresses: &[SocketAddr]) {
        let addresses = addresses.iter().map(SocketAddr::ip).collect();
        let mut kept = self.lock();
        if kept.len() >= ADDRESSES_KEPT_MAX {
            kept.retain(|_, (at, _)| at.elapsed() <= FRESH_FOR + KEPT_FOR);
        }
        kept.insert(name, (Instant::now(), addresses));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
