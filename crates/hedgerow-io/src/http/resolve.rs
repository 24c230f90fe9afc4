//! Resolves names with the operating system's resolver, within bounds.
//!
//! A lookup that hangs cannot be given up: it keeps a thread until the system lets go. So lookups are bounded in total and
//! per name, and one that its caller has given up still counts. A name whose servers do not answer holds up itself, not
//! the names of others (design D6, D7).

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Lookups that run at once: well below the 512 threads tokio has for work that blocks.
const LOOKUPS_MAX: usize = 64;
/// Lookups of one name that run at once. More would ask the same question again.
const LOOKUPS_PER_NAME_MAX: usize = 2;
/// Names that are remembered before those that nobody looks up any more are forgotten.
const NAMES_KEPT_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Resolver {
    lookups: Arc<Semaphore>,
    names: Mutex<HashMap<Box<str>, Arc<Semaphore>>>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            names: Mutex::default(),
        }
    }

    /// The addresses of `name`, in the order in which the system prefers them. Never empty.
    pub(super) async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
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
        let name = name.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            let found = (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
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
