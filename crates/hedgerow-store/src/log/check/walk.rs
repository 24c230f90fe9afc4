//! Walks all groups in the order of the log, over bad places too.

use std::collections::HashMap;

use bytes::Bytes;
use hedgerow_core::position::{Mark, TopicId};

use super::report::{CheckReport, IndexCheck, Place, SegmentCheck};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::group::{self, Header};
use crate::log::index::{self, Comparison};
use crate::log::scan::Scanner;
use crate::log::segment::{self, Segment};
use crate::log::store_prefix;
use crate::record::{Record, unpack_event};

/// How much is read at once.
const BLOCK_BYTES: usize = 4 * 1024 * 1024;

/// How far a check has come.
pub(super) struct Walk<'a> {
    disk: &'a dyn Disk,
    store_id: [u8; 16],
    /// The last intact group and where it begins.
    last: Option<(Header, Mark)>,
    /// The `seq` that the next event of a topic must have; empty behind a bad place.
    next_seqs: HashMap<TopicId, u64>,
    stamp: Option<Mark>,
    seen: Seen,
    pub report: CheckReport,
}

/// What the view's stamp is compared with.
#[derive(Default)]
pub(super) struct Seen {
    /// The number of the first group there is.
    pub first_number: Option<u64>,
    /// The number of the group that ends at the view's stamp.
    pub number_at_stamp: Option<u64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        store_id: [u8; 16],
        stamp: Option<Mark>,
        report: CheckReport,
    ) -> Self {
        Self {
            disk,
            store_id,
            last: None,
            next_seqs: HashMap::new(),
            stamp,
            seen: Seen::default(),
            report,
        }
    }

    /// The next segment.
    pub(super) fn segment(&mut self, segment: &Segment) -> Result<(), StoreError> {
        let problems_before = self.report.problems.len();
        self.report.segments.push(SegmentCheck {
            number: segment.number,
            end: 0,
            groups: 0,
            events: 0,
            index: IndexCheck::None,
            problems: 0,
        });
        let (store, capacity) = (store_prefix(&self.store_id), segment.capacity);
        let mut scanner =
            Scanner::new(&*segment.file, store, segment.number, capacity).in_blocks_of(BLOCK_BYTES);
        let mut offset = 0;
        loop {
            let found = match scanner.group_at(offset)? {
                Some((header, _)) if self.is_followed_by(&header) => Some(offset),
                _ => self.find_behind_damage(&mut scanner, segment, offset)?,
            };
            let Some(start) = found else { break };
            let (header, bytes) = scanner
                .group_at(start)?
                .expect("the group that was just read is still there");
            self.group(segment, Mark::new(segment.number, start), &header, bytes);
            offset = self.end().offset();
        }
        self.report.read_bytes += scanner.read_bytes;
        let problems = self.report.problems.len() - problems_before;
        let index = self.index(segment, problems == 0);
        let check = self.report.segments.last_mut().expect("pushed above");
        (check.problems, check.index) = (problems, index);
        Ok(())
    }

    /// Ends the check of the log.
    pub(super) fn finish(mut self) -> (CheckReport, Seen) {
        self.report.end = self.end();
        // The newest segment is read at each start anyway, and has no index.
        let newest = self.report.end.segment();
        for check in &self.report.segments {
            if check.number < newest && check.index == IndexCheck::None {
                let path = segment::index_path(check.number);
                self.report.notes.push(Place {
                    path,
                    offset: None,
                    what: "missing; it is written at the next start".to_owned(),
                });
            }
        }
        (self.report, self.seen)
    }

    fn end(&self) -> Mark {
        self.last
            .map_or(Mark::ZERO, |(header, start)| group::end_of(start, &header))
    }

    fn is_followed_by(&self, next: &Header) -> bool {
        self.last.is_none_or(|(last, _)| {
            next.number == last.number + 1
                && next.epoch >= last.epoch
                && next.synced_through == self.end()
        })
    }

    /// The offset of a group in the rest of the segment which says that the end of the log so far had been followed by
    /// something that is not there.
    fn find_behind_damage(
        &mut self,
        scanner: &mut Scanner<'_>,
        segment: &Segment,
        offset: u32,
    ) -> Result<Option<u32>, StoreError> {
        let end = self.end();
        let (epoch, number) = self
            .last
            .map_or((0, 0), |(last, _)| (last.epoch, last.number));
        let proof = scanner.search(offset, |header| {
            header.epoch >= epoch && header.number > number && header.synced_through > end
        })?;
        match proof {
            Some(proof) => {
                // If this segment's first group is whole, the one before has lost its end.
                let bad = if end.segment() != segment.number && proof > 0 {
                    Mark::new(segment.number, 0)
                } else {
                    end
                };
                let what = format!(
                    "damaged up to {}; it had been synced when that group was written",
                    Mark::new(segment.number, proof)
                );
                let path = segment::path(bad.segment().max(1));
                self.report.problem(path, Some(bad.offset().into()), what);
                self.next_seqs.clear();
            }
            None => self.note_torn(scanner, segment, offset, number)?,
        }
        Ok(proof)
    }

    /// Takes note of the beginning of a group behind the end of the log.
    fn note_torn(
        &mut self,
        scanner: &mut Scanner<'_>,
        segment: &Segment,
        offset: u32,
        number: u64,
    ) -> Result<(), StoreError> {
        if let Some((header, _)) = scanner.header_at(offset)?
            && header.number == number + 1
        {
            self.report.notes.push(Place {
                path: segment::path(segment.number),
                offset: Some(offset.into()),
                what: "torn: the group was being written when the server ended, or is damaged"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Takes note of an intact group.
    fn group(&mut self, segment: &Segment, start: Mark, header: &Header, bytes: &[u8]) {
        if self.last.is_none() {
            self.report.oldest = header.synced_through;
            self.seen.first_number = Some(header.number);
        }
        if self.last.is_some_and(|(last, _)| last.clock > header.clock) {
            let path = segment::path(segment.number);
            let what = "the clock goes back in this group";
            self.report.problem(path, Some(start.offset().into()), what);
        }
        self.last = Some((*header, start));
        if self.stamp == Some(self.end()) {
            self.seen.number_at_stamp = Some(header.number);
        }
        let noted = segment.note(start.offset(), header, bytes);
        let events = noted.and_then(|()| self.records(start, header, bytes));
        let check = self.report.segments.last_mut().expect("one is checked");
        check.end = group::end_of(start, header).offset();
        check.groups += 1;
        match events {
            Ok(events) => check.events += events,
            Err(error) => {
                let path = segment::path(segment.number);
                let what = format!("a group whose crc is right, and {error}");
                self.report.problem(path, Some(start.offset().into()), what);
            }
        }
    }

    /// Reads all records and events of a group; returns how many events there are.
    fn records(&mut self, start: Mark, header: &Header, bytes: &[u8]) -> Result<u64, StoreError> {
        let group = group::decode(start, header, &Bytes::copy_from_slice(bytes))?;
        let mut count = 0;
        for record in &group.records {
            let Record::Events(events) = record else {
                continue;
            };
            let (topic, first) = (events.topic, events.first_seq);
            let next = first + u64::from(events.packed.count());
            if let Some(expected) = self.next_seqs.insert(topic, next)
                && expected != first
            {
                let topic = topic.0;
                return Err(StoreError::damaged(format!(
                    "event {first} of topic number {topic}, where {expected} comes next,"
                )));
            }
            for stored in events.packed.slices() {
                unpack_event(&stored?)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn index(&mut self, segment: &Segment, is_whole: bool) -> IndexCheck {
        if segment.content().end == 0 {
            return IndexCheck::None;
        }
        match index::compare(self.disk, self.store_id, segment) {
            Comparison::Missing => IndexCheck::None,
            Comparison::Same => IndexCheck::Right,
            Comparison::Differs(_) if !is_whole => IndexCheck::Unknown,
            Comparison::Differs(reason) => {
                let what = format!("{reason}; it is written again at the next start");
                self.report
                    .problem(segment::index_path(segment.number), None, what);
                IndexCheck::Wrong
            }
        }
    }
}
