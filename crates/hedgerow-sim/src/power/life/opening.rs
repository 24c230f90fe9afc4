//! Opening the store after a crash, and what is checked then.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow_core::outcome::Outcome;
use hedgerow_core::position::Position;
use hedgerow_core::time::Timestamp;
use hedgerow_store::disk::Disk;
use hedgerow_store::disk::mutant::MutantDisk;
use hedgerow_store::log::{Log, LogOptions, RecoveredLog};
use hedgerow_store::record::{IN_FLIGHT, Progress, unpack_event};
use hedgerow_store::recover::{self, Recovery};
use hedgerow_store::secrets::Secrets;
use hedgerow_store::view::{FIRST_IN_FLIGHT, TerminalFilter, View, ViewOptions};
use hedgerow_store::{Store, StoreError};

use super::{CRASHES_MAX, Life, OPEN_TRIES, Stop, store_failed};

const INDEX_ENDING: &str = ".idx";

impl Life {
    /// Opens the store, through crashes while it opens, and checks it.
    pub(super) fn open(&mut self) -> Result<(), String> {
        // A store that was never opened has no view to be lost.
        self.is_view_lost |= self.epoch > 0 && self.random.one_in(6);
        for _ in 0..OPEN_TRIES {
            if self.random.one_in(4) {
                self.spoil_index();
            }
            if self.random.one_in(5) {
                self.disk.fail_after(1 + self.random.below(12));
            }
            match self.rebuild().and_then(|()| self.try_open()) {
                Ok(()) => return Ok(()),
                Err(Stop::Wrong(error)) => return Err(error),
                Err(Stop::Crashed) => {
                    self.tally.opens_interrupted += 1;
                    if self.random.one_in(2) {
                        self.power_cut();
                    } else {
                        self.disk.kill();
                        self.end_process();
                    }
                }
            }
        }
        Err("the store does not open".to_owned())
    }

    /// Changes a bit of an index: the segment must be read instead.
    fn spoil_index(&mut self) {
        let names = self.disk.mount().list("log").unwrap_or_default();
        let mut indexes: Vec<_> = names
            .into_iter()
            .filter(|name| name.ends_with(INDEX_ENDING))
            .collect();
        indexes.sort();
        if !indexes.is_empty() {
            let at = self.random.below(indexes.len() as u64) as usize;
            // In the header of the file, where every bit counts.
            let bit_at = self.random.below(16);
            self.disk.flip_bit(&format!("log/{}", indexes[at]), bit_at);
        }
    }

    /// Builds the view again if it was lost.
    fn rebuild(&mut self) -> Result<(), Stop> {
        if !self.is_view_lost {
            return Ok(());
        }
        let (disk, mutant) = self.mount();
        if let Some(mutant) = &mutant {
            mutant.set_opening(true);
        }
        let keys_disk = self.disk.mount();
        let secrets = match Secrets::open(keys_disk.as_ref()) {
            Ok(secrets) => Arc::new(secrets),
            Err(error) => return store_failed(&error),
        };
        let recovery = Recovery {
            disk,
            log: options(),
            secrets,
            terminal_records_max: u64::MAX,
            replay_bytes: 1 << 20,
            accept_loss: false,
        };
        self.table = Arc::default();
        let table = Arc::clone(&self.table);
        match recover::recover(recovery, &|| Ok(None), || Ok(table as _), || Ok(())) {
            Ok(_) => {
                self.tally.rebuilt += 1;
                self.is_view_lost = false;
                self.is_view_rebuilt = true;
                Ok(())
            }
            Err(error) => {
                self.tally.rebuilds_interrupted += 1;
                store_failed(&error)
            }
        }
    }

    pub(super) fn try_open(&mut self) -> Result<(), Stop> {
        let (disk, mutant) = self.mount();
        let set_opening = |is_opening| {
            if let Some(mutant) = &mutant {
                mutant.set_opening(is_opening);
            }
        };
        set_opening(true);
        let recovered = match Log::open(Arc::clone(&disk), options(), Arc::clone(&self.clock)) {
            Ok(recovered) => recovered,
            Err(error) => return store_failed(&error),
        };
        set_opening(false);
        let work = recovered.work();
        self.tally.indexes_used += work.indexes_used as u64;
        self.tally.indexes_refused += work.indexes_refused as u64;
        let was_epoch = std::mem::replace(&mut self.epoch, recovered.epoch());
        if self.epoch <= was_epoch {
            return Err(format!("epoch {} follows {was_epoch}", self.epoch).into());
        }
        let view_options = ViewOptions {
            store_id: recovered.store_id(),
            terminal_records_max: u64::MAX,
        };
        // The mutants are about the log: a key that they lose would show too soon.
        let keys_disk = self.disk.mount();
        let secrets = match Secrets::open(keys_disk.as_ref()) {
            Ok(secrets) => Arc::new(secrets),
            Err(error) => return store_failed(&error),
        };
        self.model.secrets = Some(Arc::clone(&secrets));
        let table = Arc::clone(&self.table) as _;
        let view = View::open(table, disk.as_ref(), Arc::clone(&secrets), view_options);
        let mut view = match view {
            Ok(view) => view,
            Err(error) => return store_failed(&error),
        };
        if view.mark() > recovered.end() {
            return Err(format!("the view stands at {}, behind the log's end", view.mark()).into());
        }
        // A view that was built again has seen what the model has not.
        let adopted = match self.follow(&recovered, &mut view) {
            Ok(adopted) => adopted,
            Err(error) => return store_failed(&error),
        };
        if let Err(error) = secrets.make_missing(keys_disk.as_ref()) {
            return store_failed(&error);
        }
        self.tally.adopted += adopted;
        self.tally.torn += u64::from(adopted == 0 && self.has_queued);
        self.has_queued = false;
        self.log = Some(recovered.start_synchronous(&view.next_seqs()));
        self.view = Some(view);
        self.live = self.model.clone();
        self.compare()?;
        self.check_owed()?;
        self.take_up()
    }

    /// Folds what the log has and the view or the model has not. Returns how many groups are new to the model.
    fn follow(&mut self, log: &RecoveredLog, view: &mut View) -> Result<u64, StoreError> {
        let mut adopted = 0;
        let mut from = view.mark().min(self.model.mark);
        loop {
            let groups = log.groups(from, 1 << 20)?;
            if groups.is_empty() {
                return Ok(adopted);
            }
            for group in groups {
                if group.end > view.mark() {
                    view.fold(&group)?;
                }
                if group.number > self.model.group {
                    adopted += 1;
                    self.model.follow(&group);
                }
                from = group.end;
            }
        }
    }

    pub(super) fn mount(&self) -> (Arc<dyn Disk>, Option<Arc<MutantDisk>>) {
        let disk = self.disk.mount();
        match self.mutation {
            None => (disk, None),
            Some(mutation) => {
                let mutant = Arc::new(MutantDisk::new(disk, mutation));
                (Arc::clone(&mutant) as _, Some(mutant))
            }
        }
    }

    /// The view is what the model says.
    pub(super) fn compare(&mut self) -> Result<(), String> {
        let model = &self.model;
        let view = self.view.as_ref().expect("the view is open");
        for (id, topic) in model.topics.iter().filter(|(_, topic)| topic.exists) {
            let found = (view.next_seq(*id), view.read_to(*id));
            ensure!(
                found == (topic.next_seq, topic.read_to),
                "topic {}: {found:?} and not {:?}",
                id.0,
                (topic.next_seq, topic.read_to)
            );
        }
        let declared: Vec<_> = view
            .catalog()
            .subscriptions()
            .map(|found| found.id)
            .collect();
        let expected: Vec<_> = model.subscriptions.keys().copied().collect();
        ensure!(
            declared == expected,
            "subscriptions {declared:?} and not {expected:?}"
        );
        for (id, subscription) in &model.subscriptions {
            let name = format!("subscription {}", id.0);
            let (counters, open) = view.counters(*id);
            ensure!(
                view.cursor(*id) == model.cursor(*id),
                "{name}: cursor {} and not {}",
                view.cursor(*id),
                model.cursor(*id)
            );
            ensure!(
                counters.matched == counters.delivered + counters.dropped + open,
                "{name}: {counters:?} and {open} open do not balance"
            );
            let found = (counters.matched, counters.delivered, counters.dropped);
            let expected = (
                subscription.matched,
                subscription.delivered.len() as u64,
                subscription.dropped.len() as u64,
            );
            ensure!(
                found == expected,
                "{name}: counters {found:?} and not {expected:?}"
            );
            let rows = view
                .due(*id, FIRST_IN_FLIGHT, Timestamp::MAX, usize::MAX)
                .map_err(|error| error.to_string())?;
            let rows: BTreeMap<_, _> = rows
                .into_iter()
                .filter_map(|row| Some((row.seq, (row.due, row.attempt()?))))
                .collect();
            ensure!(
                rows == subscription.rows,
                "{name}: due rows {rows:?} and not {:?}",
                subscription.rows
            );
            let open: Vec<_> = subscription.rows.keys().copied().collect();
            ensure!(
                view.open_seqs(*id) == open,
                "{name}: open {:?} and not {open:?}",
                view.open_seqs(*id)
            );
        }
        let page = view
            .terminal_records(&TerminalFilter::default(), usize::MAX)
            .map_err(|error| error.to_string())?;
        let found: Vec<_> = page
            .records
            .iter()
            .map(|(_, record)| (record.subscription, record.seq))
            .collect();
        let model = &mut self.model;
        if std::mem::take(&mut self.is_view_rebuilt) && model.terminal.ends_with(&found) {
            // The list begins anew where the log does.
            model.terminal.clone_from(&found);
            self.live.terminal.clone_from(&found);
        }
        ensure!(
            found == model.terminal,
            "{} terminal records and not {}",
            found.len(),
            model.terminal.len()
        );
        Ok(())
    }

    /// Everything owed can still be read, and is what was published.
    pub(super) fn check_owed(&self) -> Result<(), String> {
        for (id, subscription) in &self.model.subscriptions {
            let topic = &self.model.topics[&subscription.topic];
            let behind = self.model.cursor(*id)..topic.next_seq;
            for seq in subscription.rows.keys().copied().chain(behind) {
                let position = Position {
                    topic: subscription.topic,
                    seq,
                };
                let stored = self
                    .log()
                    .read(position)
                    .map_err(|error| format!("{position:?} is owed: {error}"))?;
                let event = unpack_event(&stored.bytes).map_err(|error| error.to_string())?;
                let expected = &topic.events[seq as usize - 1];
                ensure!(
                    event.id == *expected,
                    "{position:?} is {} and not {expected}",
                    event.id
                );
            }
        }
        Ok(())
    }

    /// What was in flight counts as an attempt and is due again, or is given up after three crashes (ED-190, ED-207).
    pub(super) fn take_up(&mut self) -> Result<(), Stop> {
        let ids: Vec<_> = self.live.subscriptions.keys().copied().collect();
        for id in ids {
            let rows = self.live.subscriptions[&id].rows.clone();
            for (seq, (_, progress)) in rows.into_iter().filter(|(_, (due, _))| *due == IN_FLIGHT) {
                let crashes = self.view().crashes_with_this_one(&progress);
                let expected = if progress.crashes > 0 {
                    progress.crashes + 1
                } else {
                    1
                };
                if crashes != expected {
                    return Err(format!("{crashes} crashes counted and not {expected}").into());
                }
                let progress = Progress {
                    crashes,
                    crash_epoch: self.epoch,
                    ..progress
                };
                if crashes >= CRASHES_MAX {
                    self.die(id, seq, Some(IN_FLIGHT), Some(progress))?;
                } else {
                    self.fail(id, seq, progress, Outcome::Delivering)?;
                }
            }
        }
        Ok(())
    }
}

fn options() -> LogOptions {
    LogOptions {
        keep_after: std::time::Duration::ZERO,
        segment_bytes: 64 * 1024,
        bytes_max: 10 * 64 * 1024,
        disk_reserve_bytes: 0,
        ring_bytes: 48 * 1024,
        group_bytes_max: 32 * 1024,
        queue_bytes_max: 1024 * 1024,
        zeroed_segments: 1,
        free_segments_max: 4,
    }
}
