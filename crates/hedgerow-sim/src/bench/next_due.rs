//! What it costs to find the next retry that is due after many before it were settled: the view over its table on disk, alone,
//! in this process. A table of this kind marks what was removed, and a look that began at the front would walk over all marks.
//!
//! ```text
//! N deliveries fail and are due one after the other ─▶ all but the last ones are settled ─▶ ask for the next due one
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::{Mark, SubscriptionId, TopicId};
use hedgerow_core::spec::{EndpointUrl, SubscriptionSpec, TopicSpec};
use hedgerow_core::time::Timestamp;
use hedgerow_store::catalog::{Change, TopicKeys};
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::real::RealDisk;
use hedgerow_store::record::{
    Failed, FailedDelivery, Progress, Record, Settled, SettledHow, Started, StartedDelivery,
};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::table::lsm::LsmTable;
use hedgerow_store::view::{BEHIND_IN_FLIGHT, View, ViewOptions};
use hedgerow_store::{Group, StoreError};

use super::load::check_interrupted;
use super::statistics::Histogram;
use super::{Bench, Figures};

const TOPIC: TopicId = TopicId(1);
const SUBSCRIPTION: SubscriptionId = SubscriptionId(1);
/// Deliveries of one record, and of one group.
const RECORD_LEN: u64 = 1_000;
/// What is left, and what is due when the first settling begins.
const LEFT: u64 = 1_000;
const FIRST_DUE_MS: u64 = 1_000_000;
/// As much as the server lets wait in memory before it writes the view down.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// How often is asked, at most and for at most how long: where a look is slow, a few tell as much.
const ASKED_MAX: u32 = 1_000;
const ASKING_TIME_MAX: Duration = Duration::from_millis(500);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures, String> {
    let directory = bench.path("next-due");
    let figures = measure(bench.options.size.deletes, &directory);
    // What is left of it goes with the benchmark's directory.
    let _ = std::fs::remove_dir_all(&directory);
    figures
}

fn measure(deletes: u64, directory: &Path) -> Result<Figures, String> {
    let mut rows = Rows::open(directory)?;
    rows.declare().map_err(told)?;
    let all = deletes + LEFT;
    let began = Instant::now();
    for first in (1..=all).step_by(RECORD_LEN as usize) {
        check_interrupted()?;
        rows.fail(first..(first + RECORD_LEN).min(all + 1))
            .map_err(told)?;
    }
    let failed_in = began.elapsed();
    let began = Instant::now();
    for first in (1..=deletes).step_by(RECORD_LEN as usize) {
        check_interrupted()?;
        rows.settle(first..(first + RECORD_LEN).min(deletes + 1))
            .map_err(told)?;
    }
    let settled_in = began.elapsed();
    // The newest removals are in memory still, as they are at most moments; then all are in the table.
    let before = rows.ask(BEHIND_IN_FLIGHT, deletes + 1)?;
    let behind_settled = (due(deletes), deletes);
    let from_there = rows.ask(behind_settled, deletes + 1)?;
    rows.checkpoint().map_err(told)?;
    let after = rows.ask(BEHIND_IN_FLIGHT, deletes + 1)?;
    let mut figures = Figures::default();
    let us = |histogram: &Histogram, part| histogram.quantile_ms(part).unwrap_or_default() * 1e3;
    figures.set("rate", deletes as f64 / settled_in.as_secs_f64());
    figures.set("inserts_per_s", all as f64 / failed_in.as_secs_f64());
    figures.set("deletes", deletes as f64);
    figures.set("next_due_us", us(&before, 0.5));
    figures.set("next_due_p99_us", us(&before, 0.99));
    figures.set("next_due_us_from_its_place", us(&from_there, 0.5));
    figures.set("next_due_us_after_checkpoint", us(&after, 0.5));
    Ok(figures)
}

#[allow(clippy::needless_pass_by_value)] // The shape that `map_err` wants.
fn told(error: StoreError) -> String {
    error.to_string()
}

/// A view, its disk and its place in a log that there is none of.
struct Rows {
    view: View,
    disk: Arc<dyn Disk>,
    groups: u64,
}

impl Rows {
    fn open(directory: &Path) -> Result<Self, String> {
        let disk = RealDisk::new(directory);
        let disk: Arc<dyn Disk> = Arc::new(disk.map_err(|error| error.to_string())?);
        let table = Arc::new(LsmTable::open(&directory.join("view")).map_err(told)?);
        let options = ViewOptions {
            store_id: [1; 16],
            terminal_records_max: 0,
        };
        let secrets = Arc::new(Secrets::with_key([1; 32], "KEY"));
        Ok(Self {
            view: View::open(table, disk.as_ref(), secrets, options).map_err(told)?,
            disk,
            groups: 0,
        })
    }

    fn fold(&mut self, record: Record) -> Result<(), StoreError> {
        let start = Mark::new(1, self.groups as u32);
        self.groups += 1;
        self.view.fold(&Group {
            number: self.groups,
            start,
            end: Mark::new(1, self.groups as u32),
            records: vec![record],
            bytes: 0,
        })?;
        if self.view.waiting_bytes() > WAITING_BYTES_MAX {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        let checkpoint = self.view.begin_checkpoint()?;
        checkpoint.write(self.disk.as_ref())?;
        self.view.finish_checkpoint();
        Ok(())
    }

    fn declare(&mut self) -> Result<(), StoreError> {
        let topic = Change::TopicCreated {
            id: TOPIC,
            name: "topic".parse().expect("it is a name"),
            spec: TopicSpec::default(),
            keys: TopicKeys {
                key1: "one".to_owned(),
                key2: "two".to_owned(),
            },
            created: Timestamp::ZERO,
        };
        let url = EndpointUrl::parse("https://receiver.example/").expect("it is a URL");
        let subscription = Change::SubscriptionCreated {
            id: SUBSCRIPTION,
            topic: TOPIC,
            domain_topic: None,
            name: "subscription".parse().expect("it is a name"),
            spec: Box::new(SubscriptionSpec::webhook(url)),
            validation: None,
            created: Timestamp::ZERO,
        };
        for change in [topic, subscription] {
            let record = self.view.catalog_record(&change)?;
            self.fold(Record::Catalog(record))?;
        }
        Ok(())
    }

    /// Their first attempts fail, and each is due a little after the one before it.
    fn fail(&mut self, seqs: std::ops::Range<u64>) -> Result<(), StoreError> {
        let progress = Progress {
            published: Timestamp::from_millis(1),
            attempts: 1,
            first_attempt: Timestamp::from_millis(2),
            last_attempt: Timestamp::from_millis(2),
            last_outcome: Outcome::Busy,
            last_status: 503,
            crashes: 0,
            crash_epoch: 0,
        };
        let started = seqs.clone().map(|seq| StartedDelivery {
            seq,
            replaces_due: None,
            progress,
        });
        self.fold(Record::Started(Started {
            subscription: SUBSCRIPTION,
            deliveries: started.collect(),
        }))?;
        let failed = seqs.map(|seq| FailedDelivery {
            seq,
            due: due(seq),
            progress,
        });
        self.fold(Record::Failed(Failed {
            subscription: SUBSCRIPTION,
            deliveries: failed.collect(),
        }))
    }

    fn settle(&mut self, seqs: std::ops::Range<u64>) -> Result<(), StoreError> {
        self.fold(Record::Settled(Settled {
            subscription: SUBSCRIPTION,
            deliveries: seqs.map(|seq| (seq, due(seq))).collect(),
            how: SettledHow::Delivered,
        }))
    }

    /// How long it takes to find the next due one behind a place, which has to be `expected`.
    fn ask(&self, behind: (Timestamp, u64), expected: u64) -> Result<Histogram, String> {
        let mut latencies = Histogram::default();
        let began = Instant::now();
        for _ in 0..ASKED_MAX {
            let asked = Instant::now();
            let rows = self.view.due(SUBSCRIPTION, behind, Timestamp::MAX, 1);
            latencies.record(asked.elapsed());
            let rows = rows.map_err(told)?;
            if rows.first().map(|row| row.seq) != Some(expected) {
                return Err(format!("{rows:?} are due next, not {expected}"));
            }
            if began.elapsed() > ASKING_TIME_MAX {
                break;
            }
        }
        Ok(latencies)
    }
}

/// A few are due in each millisecond.
fn due(seq: u64) -> Timestamp {
    Timestamp::from_millis(FIRST_DUE_MS + seq / 10)
}
