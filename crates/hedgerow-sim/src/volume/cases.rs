//! The cases of the proof.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::load::{Load, Target, wait_for};
use super::options::{Options, Size};
use super::receiver::Receiver;
use super::stream::Stream;
use super::subject::{Settings, Subject};
use super::{line, mib};
use crate::harness::http::{self, Connection};

const MIB: u64 = 1 << 20;
/// What may be undelivered while more is published.
const UNDELIVERED_BYTES_MAX: u64 = 64 * MIB;
/// Nearly 1 MiB a request, which is as much as there may be.
const LIVE: Stream = Stream {
    topic: "live",
    event_bytes: 32 * 1024,
    batch: 30,
};
/// A tenth of the bytes of a request to [`LIVE`], after each tenth one: one part in a hundred.
const DEAD: Stream = Stream {
    topic: "dead",
    event_bytes: 4 * 1024,
    batch: 24,
};
const LIVE_REQUESTS_PER_DEAD: u64 = 10;
/// Segments that the disk may hold beside what is owed: the newest ones, those made in advance, and free ones.
const SEGMENTS_BESIDE: u64 = 8;
/// How long cleaning may take once nothing is published.
const SETTLED_WAIT_MAX: Duration = Duration::from_secs(60);
/// Small events, so that many are retried.
const FULL: Stream = Stream {
    topic: "full",
    event_bytes: 4 * 1024,
    batch: 16,
};
/// How long everything may take once the receivers take everything.
const RESUMED_WAIT_MAX: Duration = Duration::from_secs(60);

const OFTEN: Settings = Settings {
    size: Size {
        published_bytes: 0,
        bytes_max: 32 * MIB,
        segment_bytes: MIB,
    },
    keep_after: "1s",
    free_segments_max: 2,
    slots: r#"["500ms", "1s"]"#,
    repeat: "2s",
    unavailable: "500ms",
};

/// Everything goes through to a receiver that takes it.
pub async fn live(options: &Options) -> Result<(), String> {
    let settings = Settings {
        size: options.size(),
        keep_after: "10m",
        free_segments_max: 8,
        ..OFTEN
    };
    let mut subject = Subject::start(options, "live", &settings).await?;
    let receiver = Receiver::start(LIVE, true).await?;
    let key = subject.declare_topic(&LIVE).await?;
    subject.subscribe(&LIVE, "taker", &receiver).await?;
    let load = Load {
        target: target(&subject, key, LIVE),
        receiver,
        requests: requests(&settings.size),
        undelivered_bytes_max: UNDELIVERED_BYTES_MAX,
        beside: None,
    };
    go_through(&mut subject, &load, &settings.size).await?;
    check_bounded(&subject, &settings.size)?;
    subject.stop().await
}

/// The same beside a topic whose only receiver is down: the disk holds that topic's bytes, and they arrive in the end.
pub async fn dead(options: &Options) -> Result<(), String> {
    let settings = Settings {
        size: options.size(),
        slots: r#"["1s", "2s", "5s"]"#,
        // As the long run takes longer, so that no delivery is given up meanwhile.
        repeat: if options.is_slow { "2m" } else { "10s" },
        unavailable: "1s",
        ..OFTEN
    };
    let mut subject = Subject::start(options, "dead", &settings).await?;
    let receiver = Receiver::start(LIVE, true).await?;
    let down = Receiver::start(DEAD, false).await?;
    let key = subject.declare_topic(&LIVE).await?;
    let dead_key = subject.declare_topic(&DEAD).await?;
    subject.subscribe(&LIVE, "taker", &receiver).await?;
    subject.subscribe(&DEAD, "down", &down).await?;
    let load = Load {
        target: target(&subject, key, LIVE),
        receiver,
        requests: requests(&settings.size),
        undelivered_bytes_max: UNDELIVERED_BYTES_MAX,
        beside: Some((LIVE_REQUESTS_PER_DEAD, target(&subject, dead_key, DEAD))),
    };
    go_through(&mut subject, &load, &settings.size).await?;
    let count = load.events_beside();
    let owed_bytes = DEAD.bytes(count);
    line("owed to the receiver that is down", mib(owed_bytes));
    line("  requests to it", down.requests());
    let bound = 2 * owed_bytes + SEGMENTS_BESIDE * settings.size.segment_bytes;
    let settled = wait_until_small(&subject, bound).await;
    line("log and kept files, settled", mib(subject.disk.now()));
    settled?;
    check_bounded(&subject, &settings.size)?;

    let began = Instant::now();
    down.recover();
    wait_for(&down, count)
        .await
        .map_err(|error| subject.explain(&error))?;
    down.check(count)?;
    subject.check_delivered(&DEAD, "down", count).await?;
    line("arrived once it was up, seconds", began.elapsed().as_secs());
    line("  duplicates", down.duplicates());
    subject.stop().await
}

/// Nothing is accepted until publishing is refused; then deliveries go on, and publishing resumes by itself.
pub async fn full(options: &Options) -> Result<(), String> {
    let settings = Settings {
        repeat: if options.is_slow { "10s" } else { "2s" },
        ..OFTEN
    };
    let outage = Duration::from_secs(if options.is_slow { 120 } else { 12 });
    let mut subject = Subject::start(options, "full", &settings).await?;
    let down = Receiver::start(FULL, false).await?;
    let other = Receiver::start(FULL, false).await?;
    let key = subject.declare_topic(&FULL).await?;
    subject.subscribe(&FULL, "down", &down).await?;
    subject.subscribe(&FULL, "other", &other).await?;
    let mut publisher = Publisher {
        connection: Connection::new(subject.address),
        target: target(&subject, key, FULL),
        taken: 0,
        refused: 0,
    };
    publisher.fill(&settings.size).await?;
    line("published before the first 503", mib(publisher.bytes()));

    let until = Instant::now() + outage;
    let (at_full, requests) = (publisher.events(), down.requests());
    while Instant::now() < until {
        if !http::is_healthy(subject.address).await {
            return Err(subject.explain("is not healthy while it is full"));
        }
        publisher.publish().await?;
        if until.saturating_duration_since(Instant::now()) < outage / 2 {
            // Deliveries go on: what it was owed arrives while the store is full.
            other.recover();
        }
        sleep(Duration::from_millis(250)).await;
    }
    line("outage, seconds", outage.as_secs());
    line("  refused with Retry-After", publisher.refused);
    line(
        "  attempts at the receiver that is down",
        down.requests() - requests,
    );
    line("  events that the other one took", other.taken());
    line("most log and kept files", mib(subject.disk.most()));
    check_bounded(&subject, &settings.size)?;
    wait_for(&other, at_full)
        .await
        .map_err(|error| subject.explain(&error))?;
    if down.requests() == requests {
        return Err(subject.explain("attempts nothing while it is full"));
    }
    resume(&mut subject, &mut publisher, &down, &settings.size).await?;
    for (name, receiver) in [("down", &down), ("other", &other)] {
        wait_for(receiver, publisher.events())
            .await
            .map_err(|error| subject.explain(&error))?;
        receiver.check(publisher.events())?;
        subject
            .check_delivered(&FULL, name, publisher.events())
            .await?;
    }
    line("events in all", publisher.events());
    check_bounded(&subject, &settings.size)?;
    subject.stop().await
}

/// The receiver is up again: as much again is published, and waits where it is refused.
async fn resume(
    subject: &mut Subject,
    publisher: &mut Publisher,
    down: &Receiver,
    size: &Size,
) -> Result<(), String> {
    down.recover();
    let began = Instant::now();
    let mut resumed = None;
    let wanted = publisher.bytes() + size.bytes_max;
    while publisher.bytes() < wanted {
        if publisher.publish().await? {
            resumed.get_or_insert(began.elapsed());
        } else {
            sleep(Duration::from_millis(100)).await;
        }
        if began.elapsed() > RESUMED_WAIT_MAX {
            let usage = subject.api.store_usage().await?;
            return Err(subject.explain(&format!("does not take enough again: {usage:?}")));
        }
    }
    let resumed = resumed.unwrap_or_default().as_millis();
    line("publishing resumed after, milliseconds", resumed);
    Ok(())
}

/// Publishes one batch after the other, and the same again when it was refused.
struct Publisher {
    connection: Connection,
    target: Target,
    /// Batches that were taken.
    taken: u64,
    /// Requests that were answered 503.
    refused: u64,
}

impl Publisher {
    const fn events(&self) -> u64 {
        self.taken * self.target.stream.batch
    }

    const fn bytes(&self) -> u64 {
        self.target.stream.bytes(self.events())
    }

    /// Publishes until it is refused.
    async fn fill(&mut self, size: &Size) -> Result<(), String> {
        while self.publish().await? {
            if self.bytes() > size.bytes_max {
                let (bytes, bytes_max) = (mib(self.bytes()), mib(size.bytes_max));
                return Err(format!(
                    "{bytes} were taken that nobody accepts, with bytes_max {bytes_max}"
                ));
            }
        }
        Ok(())
    }

    /// Says whether it was taken; if not, the answer has to be 503 with `Retry-After`.
    async fn publish(&mut self) -> Result<bool, String> {
        let answer = self.target.publish(&mut self.connection, self.taken);
        let answer = answer.await?;
        match (answer.status, answer.retry_after) {
            (200, _) => {
                self.taken += 1;
                Ok(true)
            }
            (503, Some(1..)) => {
                self.refused += 1;
                Ok(false)
            }
            (status, retry_after) => Err(format!(
                "a publish was answered {status}, Retry-After {retry_after:?}: {}",
                answer.text()
            )),
        }
    }
}

fn target(subject: &Subject, key: String, stream: Stream) -> Target {
    Target {
        address: subject.address,
        key,
        stream,
    }
}

const fn requests(size: &Size) -> u64 {
    size.published_bytes / LIVE.bytes(LIVE.batch)
}

/// Publishes everything to the live receiver, which has to get it.
async fn go_through(subject: &mut Subject, load: &Load, size: &Size) -> Result<(), String> {
    let began = Instant::now();
    let count = load.requests * LIVE.batch;
    let ran = load.run().await;
    let delivered = match ran {
        Ok(()) => wait_for(&load.receiver, count).await,
        Err(error) => Err(error),
    };
    let seconds = began.elapsed().as_secs_f64();
    let bytes = LIVE.bytes(load.receiver.taken());
    line("arrived", mib(bytes));
    let rate = bytes as f64 / MIB as f64 / seconds;
    line("  MiB a second", format!("{rate:.0}"));
    line("  duplicates", load.receiver.duplicates());
    line("bytes_max", mib(size.bytes_max));
    line("most log and kept files", mib(subject.disk.most()));
    let usage = subject.api.store_usage().await?;
    line("segments cleaned", usage.cleaned_segments);
    line("events copied", usage.copied_events);
    line("kept files written anew", usage.compacted_files);
    line("kept files", mib(usage.kept_bytes));
    delivered.map_err(|error| subject.explain(&error))?;
    load.receiver.check(count)?;
    subject.check_delivered(&LIVE, "taker", count).await
}

fn check_bounded(subject: &Subject, size: &Size) -> Result<(), String> {
    let most = subject.disk.most();
    if most <= size.bytes_max {
        return Ok(());
    }
    let (most, bytes_max) = (mib(most), mib(size.bytes_max));
    Err(format!(
        "log and kept files took {most}, with bytes_max {bytes_max}"
    ))
}

async fn wait_until_small(subject: &Subject, bound: u64) -> Result<(), String> {
    let deadline = Instant::now() + SETTLED_WAIT_MAX;
    while subject.disk.now() > bound {
        if Instant::now() > deadline {
            let (now, bound) = (mib(subject.disk.now()), mib(bound));
            let error = format!("log and kept files still take {now}, and should {bound}");
            return Err(subject.explain(&error));
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
