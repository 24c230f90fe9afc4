//! Publishes streams from several tasks, and waits while too much of the first one is undelivered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::receiver::Receiver;
use super::stream::Stream;
use crate::harness::http::{Answer, Call, Connection};

/// Tasks that publish.
const TASKS: usize = 4;
/// How long nothing may arrive while something is owed.
const PROGRESS_WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

/// Where a stream goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// The topic's key.
    pub key: String,
    /// The events.
    pub stream: Stream,
}

/// A stream of which so much may be undelivered, and one beside it.
#[derive(Debug, Clone)]
pub struct Load {
    /// What is published.
    pub target: Target,
    /// Who takes it.
    pub receiver: Receiver,
    /// Requests of it.
    pub requests: u64,
    /// Bytes that may be undelivered.
    pub undelivered_bytes_max: u64,
    /// After so many requests, one request of another stream.
    pub beside: Option<(u64, Target)>,
}

impl Target {
    /// Publishes one batch. An error is one of the connection.
    pub async fn publish(&self, connection: &mut Connection, batch: u64) -> Result<Answer, String> {
        let first = batch * self.stream.batch;
        let call = Call {
            method: Method::POST,
            path: format!("/{}/api/events?api-version=2018-01-01", self.stream.topic),
            header: ("aeg-sas-key", self.key.clone()),
            body: self.stream.body(first..first + self.stream.batch),
        };
        connection.send(call).await
    }

    /// Publishes one batch, which has to be taken.
    async fn publish_taken(&self, connection: &mut Connection, batch: u64) -> Result<(), String> {
        let answer = self.publish(connection, batch).await?;
        if answer.status == 200 {
            return Ok(());
        }
        let (status, retry_after) = (answer.status, answer.retry_after);
        let topic = self.stream.topic;
        Err(format!(
            "request {batch} to {topic} was refused: {status}, Retry-After {retry_after:?}, {}",
            answer.text()
        ))
    }
}

impl Load {
    /// Events that are published beside.
    pub fn events_beside(&self) -> u64 {
        self.beside.as_ref().map_or(0, |(every, target)| {
            self.requests / every * target.stream.batch
        })
    }

    /// Publishes everything. Fails at the first request that is refused.
    pub async fn run(&self) -> Result<(), String> {
        let next = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            tasks.spawn(self.clone().publish_share(Arc::clone(&next)));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    async fn publish_share(self, next: Arc<AtomicU64>) -> Result<(), String> {
        let mut connection = Connection::new(self.target.address);
        loop {
            let batch = next.fetch_add(1, Ordering::SeqCst);
            if batch >= self.requests {
                return Ok(());
            }
            self.wait_for_room(batch).await?;
            self.target.publish_taken(&mut connection, batch).await?;
            if let Some((every, beside)) = &self.beside
                && (batch + 1).is_multiple_of(*every)
            {
                beside.publish_taken(&mut connection, batch / every).await?;
            }
        }
    }

    /// Waits until all up to and with this batch fits in what may be undelivered.
    async fn wait_for_room(&self, batch: u64) -> Result<(), String> {
        let stream = &self.target.stream;
        let begun = (batch + 1) * stream.batch;
        let undelivered_max = self.undelivered_bytes_max / stream.bytes(1);
        wait_for(&self.receiver, begun.saturating_sub(undelivered_max)).await
    }
}

/// Waits until a receiver took so many events, as long as some arrive.
pub async fn wait_for(receiver: &Receiver, count: u64) -> Result<(), String> {
    let (mut progressed, mut before) = (Instant::now(), receiver.taken());
    loop {
        let taken = receiver.taken();
        if taken >= count {
            return Ok(());
        }
        if taken != before {
            (progressed, before) = (Instant::now(), taken);
        }
        if progressed.elapsed() > PROGRESS_WAIT_MAX {
            return Err(format!(
                "nothing arrives any more: {taken} of {count} events in {PROGRESS_WAIT_MAX:?}"
            ));
        }
        sleep(POLL).await;
    }
}
