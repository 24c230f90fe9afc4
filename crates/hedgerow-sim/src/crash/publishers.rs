//! Publishers under load: single events and batches, from several tasks, to whichever address the server has now.
//!
//! What was not acknowledged is not sent again: the next request has new events with new ids, so that the ledger knows
//! of each event whether it must be stored, may be stored or must not be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::http::{Call, Connection};
use super::ledger::{Fate, Ledger, Request};
use super::plan::{Event, TOPICS};
use crate::random::Random;

/// Tasks for each topic.
const TASKS_PER_TOPIC: usize = 3;
/// Events of a batch.
const BATCH_LEN_MAX: u64 = 50;
/// So many in a hundred requests are batches.
const BATCHES_PERCENT: u64 = 40;
/// Between two requests once the round's events are used up: the load must never end, but the backlog may not grow
/// without bound.
const TRICKLE: Duration = Duration::from_millis(40);
/// After a request that was not served.
const PAUSE: Duration = Duration::from_millis(15);

/// Where the server is, `None` while it is not.
pub type Whereabouts = watch::Receiver<Option<SocketAddr>>;

/// The publishers. Dropping them ends them at once.
#[derive(Debug)]
pub struct Publishers {
    tasks: JoinSet<()>,
    budget: Arc<AtomicI64>,
    stop: watch::Sender<bool>,
}

impl Publishers {
    /// Starts them. `keys` are the topics' keys.
    pub fn start(
        seed: u64,
        ledger: &Arc<Ledger>,
        keys: &[String; TOPICS.len()],
        whereabouts: &Whereabouts,
    ) -> Self {
        let budget = Arc::new(AtomicI64::new(0));
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (topic, key) in keys.iter().enumerate() {
            for task in 0..TASKS_PER_TOPIC {
                let publisher = Publisher {
                    seed,
                    topic,
                    key: key.clone(),
                    ledger: Arc::clone(ledger),
                    budget: Arc::clone(&budget),
                    random: Random::of(&[seed, 0x7075_626c, topic as u64, task as u64]),
                    connection: None,
                };
                tasks.spawn(publisher.run(whereabouts.clone(), stopped.clone()));
            }
        }
        Self {
            tasks,
            budget,
            stop,
        }
    }

    /// Lets them send so many more events at full speed.
    pub fn refill(&self, events: u64) {
        self.budget.store(events.cast_signed(), Ordering::Relaxed);
    }

    /// Ends them, each after its running request.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

struct Publisher {
    seed: u64,
    topic: usize,
    key: String,
    ledger: Arc<Ledger>,
    budget: Arc<AtomicI64>,
    random: Random,
    connection: Option<(SocketAddr, Connection)>,
}

impl Publisher {
    async fn run(mut self, mut whereabouts: Whereabouts, mut stopped: watch::Receiver<bool>) {
        while !*stopped.borrow() {
            let address = *whereabouts.borrow_and_update();
            let Some(address) = address else {
                tokio::select! {
                    _ = whereabouts.changed() => {}
                    _ = stopped.changed() => {}
                }
                continue;
            };
            let is_served = self.publish(address).await;
            let is_spent = self.budget.load(Ordering::Relaxed) <= 0;
            let pause = match (is_served, is_spent) {
                (false, _) => PAUSE,
                (true, true) => TRICKLE,
                (true, false) => self.random.millis(0..=3),
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Publishes once. Returns whether the server took it.
    async fn publish(&mut self, address: SocketAddr) -> bool {
        let is_spent = self.budget.load(Ordering::Relaxed) <= 0;
        let is_batch = !is_spent && self.random.percent(BATCHES_PERCENT);
        let count = if is_batch {
            self.random.between(2..=BATCH_LEN_MAX)
        } else {
            1
        };
        self.budget
            .fetch_sub(count.cast_signed(), Ordering::Relaxed);
        let request = self.ledger.publish(self.topic, count as u32);
        let call = Call {
            method: Method::POST,
            path: format!("/{}/api/events?api-version=2018-01-01", TOPICS[self.topic]),
            header: ("aeg-sas-key", self.key.clone()),
            body: self.body(&request),
        };
        let answer = self.connection_to(address).send(call).await;
        match answer.map(|answer| (answer.status, answer)) {
            Ok((200, _)) => {
                self.ledger.answered(&request, Fate::Acknowledged);
                true
            }
            Ok((503, answer)) if answer.text().contains("The store is full") => {
                self.ledger.answered(&request, Fate::Refused);
                self.ledger.refused_full();
                false
            }
            // The group's sync may have failed after it was written: nobody knows.
            Ok((503, _)) | Err(_) => false,
            Ok((429, _)) => {
                self.ledger.answered(&request, Fate::Refused);
                false
            }
            Ok((status, answer)) => {
                self.ledger.answered(&request, Fate::Refused);
                self.ledger
                    .offence(format!("a publish was answered {status} {}", answer.text()));
                false
            }
        }
    }

    fn body(&self, request: &Request) -> Bytes {
        let events = request.ids().map(|id| Event::of(self.seed, id).to_json(id));
        Bytes::from(format!("[{}]", events.collect::<Vec<_>>().join(",")))
    }

    fn connection_to(&mut self, address: SocketAddr) -> &mut Connection {
        if self
            .connection
            .as_ref()
            .is_none_or(|(known, _)| *known != address)
        {
            self.connection = Some((address, Connection::new(address)));
        }
        &mut self.connection.as_mut().expect("it was made above").1
    }
}
