//! One kept file: what is in it, and reading it. Plain values: a file that changes is another value.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use hedgerow_core::position::{Position, SubscriptionId, TopicId};
use roaring::RoaringTreemap;

use super::block::{self, HEADER_BYTES, Header, Meta};
use super::manifest::Entry;
use super::{Class, OwedDelivery};
use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::{Needed, StoredEvent};

/// A kept file as far as it counts.
#[derive(Clone)]
pub(crate) struct KeptFile {
    pub class: Class,
    pub number: u32,
    pub bucket: u64,
    pub path: String,
    pub file: Arc<dyn DiskFile>,
    store: u64,
    pub len_bytes: u64,
    /// Where blocks of events begin, by topic and first event. Their ranges may overlap.
    blocks: BTreeMap<(TopicId, u64), Place>,
    pub topics: BTreeMap<TopicId, KeptTopic>,
    /// The events of which a delivery is unsettled.
    open: BTreeMap<(TopicId, SubscriptionId), RoaringTreemap>,
}

/// The events of one topic in a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptTopic {
    pub seqs: RoaringTreemap,
    /// What their blocks take.
    pub bytes: u64,
}

impl KeptTopic {
    /// About how many bytes of it are needed.
    pub(crate) fn needed_bytes(&self, needed: &Needed) -> u64 {
        self.bytes / self.seqs.len().max(1) * needed.count_of(&self.seqs)
    }
}

/// A block of events of one topic.
#[derive(Debug, Clone, Copy)]
struct Place {
    last_seq: u64,
    offset: u64,
}

/// A block as it was read.
pub(super) struct Block {
    pub header: Header,
    pub meta: Meta,
    pub offset: u64,
}

impl Block {
    fn has(&self, seq: u64) -> bool {
        match &self.meta {
            Meta::Events(_, entries) => entries
                .binary_search_by_key(&seq, |entry| entry.seq)
                .is_ok(),
            Meta::Updates(_) => false,
        }
    }
}

impl KeptFile {
    /// A file without blocks.
    pub(super) fn new(entry: &Entry, file: Arc<dyn DiskFile>, store_id: [u8; 16]) -> Self {
        Self {
            class: entry.class,
            number: entry.number,
            bucket: entry.bucket,
            path: entry.path(),
            file,
            store: super::super::store_prefix(&store_id),
            len_bytes: 0,
            blocks: BTreeMap::new(),
            topics: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// Opens the file that a manifest names, and reads what is in it but for the events themselves.
    pub(super) fn open(
        disk: &dyn Disk,
        store_id: [u8; 16],
        entry: &Entry,
    ) -> Result<Self, StoreError> {
        let path = entry.path();
        let file = disk
            .open(&path, false)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => {
                    StoreError::damaged(format!("{path}: the file is missing; what was kept"))
                }
                _ => StoreError::io("open", &path)(error),
            })?;
        let len = file.len().map_err(StoreError::io("examine", &path))?;
        if len < entry.len_bytes {
            return Err(StoreError::damaged(format!(
                "{path}: {len} bytes of {} are left; what was kept",
                entry.len_bytes
            )));
        }
        let mut opened = Self::new(entry, file, store_id);
        while opened.len_bytes < entry.len_bytes {
            let block = opened.block_at(opened.len_bytes, entry.len_bytes)?;
            opened.note(&block.header, &block.meta);
        }
        Ok(opened)
    }

    /// Cuts what is behind the end that counts: the rest of a cleaning that did not end.
    pub(super) fn cut(&self, len_bytes: u64) -> Result<(), StoreError> {
        let len = self
            .file
            .len()
            .map_err(StoreError::io("examine", &self.path))?;
        if len > len_bytes {
            self.file
                .set_len(len_bytes)
                .and_then(|()| self.file.sync_data())
                .map_err(StoreError::io("cut", &self.path))?;
        }
        Ok(())
    }

    /// What the manifest says of it.
    pub(super) fn entry(&self) -> Entry {
        Entry {
            class: self.class,
            number: self.number,
            bucket: self.bucket,
            len_bytes: self.len_bytes,
        }
    }

    pub(super) fn store(&self) -> u64 {
        self.store
    }

    /// Whether the event is in it.
    pub(super) fn has(&self, position: Position) -> bool {
        let topic = self.topics.get(&position.topic);
        topic.is_some_and(|topic| topic.seqs.contains(position.seq))
    }

    pub(super) fn is_open(&self, topic: TopicId, subscription: SubscriptionId, seq: u64) -> bool {
        let open = self.open.get(&(topic, subscription));
        open.is_some_and(|open| open.contains(seq))
    }

    /// The unsettled deliveries of a subscription.
    pub(super) fn open_of(&self, subscription: SubscriptionId) -> Vec<Position> {
        let of = self.open.iter().filter(|((_, id), _)| *id == subscription);
        of.flat_map(|((topic, _), seqs)| seqs.iter().map(|seq| Position { topic: *topic, seq }))
            .collect()
    }

    /// How many deliveries are unsettled.
    pub(super) fn open_count(&self) -> u64 {
        self.open.values().map(RoaringTreemap::len).sum()
    }

    /// Takes note of a block that was written at the end.
    pub(super) fn note(&mut self, header: &Header, meta: &Meta) {
        match meta {
            Meta::Events(topic, entries) => {
                if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
                    let place = Place {
                        last_seq: last.seq,
                        offset: self.len_bytes,
                    };
                    self.blocks.insert((*topic, first.seq), place);
                }
                let kept = self.topics.entry(*topic).or_default();
                kept.bytes += header.block_bytes();
                for entry in entries {
                    kept.seqs.insert(entry.seq);
                    for (subscription, _, _) in &entry.owed {
                        self.open
                            .entry((*topic, *subscription))
                            .or_default()
                            .insert(entry.seq);
                    }
                }
            }
            Meta::Updates(updates) => {
                for update in updates {
                    let open = self
                        .open
                        .entry((update.topic, update.subscription))
                        .or_default();
                    if update.state.is_some() {
                        open.insert(update.seq);
                    } else {
                        open.remove(update.seq);
                    }
                }
            }
        }
        self.len_bytes += header.block_bytes();
    }

    /// The events of the block that has `position`, from it on.
    pub(super) fn read_block(
        &self,
        position: Position,
    ) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        let first = (position.topic, 0);
        let begun = self.blocks.range(first..=(position.topic, position.seq));
        for (_, place) in begun
            .rev()
            .filter(|(_, place)| place.last_seq >= position.seq)
        {
            let block = self.block_at(place.offset, self.len_bytes)?;
            if block.has(position.seq) {
                let mut events = self.events(&block)?;
                events.retain(|(seq, _)| *seq >= position.seq);
                return Ok(events);
            }
        }
        Err(self.damaged(0))
    }

    /// The events of a block with their places; none of a block of another kind.
    pub(super) fn positioned_events(
        &self,
        block: &Block,
    ) -> Result<Vec<(Position, StoredEvent)>, StoreError> {
        let Meta::Events(topic, _) = block.meta else {
            return Ok(Vec::new());
        };
        let events = self.events(block)?.into_iter();
        Ok(events
            .map(|(seq, event)| (Position { topic, seq }, event))
            .collect())
    }

    /// The events of a block, whose crc is checked.
    pub(super) fn events(&self, block: &Block) -> Result<Vec<(u64, StoredEvent)>, StoreError> {
        let Meta::Events(_, entries) = &block.meta else {
            return Ok(Vec::new());
        };
        let offset = block.offset + HEADER_BYTES as u64 + u64::from(block.header.meta_bytes);
        let bytes = Bytes::from(self.bytes_at(offset, block.header.bytes as usize)?);
        if crc32c::crc32c(&bytes) != block.header.bytes_crc {
            return Err(self.damaged(block.offset));
        }
        let mut at = 0;
        let mut events = Vec::with_capacity(entries.len());
        for entry in entries {
            let end = at + entry.len_bytes as usize;
            if end > bytes.len() {
                return Err(self.damaged(block.offset));
            }
            let event = StoredEvent {
                published: entry.published,
                bytes: bytes.slice(at..end),
            };
            events.push((entry.seq, event));
            at = end;
        }
        Ok(events)
    }

    /// Hands on the blocks in order.
    pub(super) fn for_each_block(
        &self,
        mut take: impl FnMut(Block) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut offset = 0;
        while offset < self.len_bytes {
            let block = self.block_at(offset, self.len_bytes)?;
            offset += block.header.block_bytes();
            take(block)?;
        }
        Ok(())
    }

    /// What is owed for each event, with all that became of it since.
    pub(super) fn owed(&self) -> Result<HashMap<(TopicId, u64), Vec<OwedDelivery>>, StoreError> {
        let mut all: HashMap<(TopicId, u64), Vec<OwedDelivery>> = HashMap::new();
        self.for_each_block(|block| {
            match block.meta {
                Meta::Events(topic, entries) => {
                    for entry in entries {
                        all.insert((topic, entry.seq), entry.owed);
                    }
                }
                Meta::Updates(updates) => {
                    for update in updates {
                        let owed = all.entry((update.topic, update.seq)).or_default();
                        owed.retain(|(id, _, _)| *id != update.subscription);
                        owed.extend(
                            update
                                .state
                                .map(|(due, state)| (update.subscription, due, state)),
                        );
                    }
                }
            }
            Ok(())
        })?;
        Ok(all)
    }

    pub(super) fn for_each_owed(
        &self,
        take: &mut dyn FnMut(Position, OwedDelivery) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for ((topic, seq), owed) in self.owed()? {
            for delivery in owed {
                take(Position { topic, seq }, delivery)?;
            }
        }
        Ok(())
    }

    /// The block at `offset`, none of which goes past `limit`; its events are not read.
    fn block_at(&self, offset: u64, limit: u64) -> Result<Block, StoreError> {
        let mut head = [0; HEADER_BYTES];
        let read = self
            .file
            .read_at(offset, &mut head)
            .map_err(StoreError::io("read", &self.path))?;
        let header = Header::read(&head, self.store)
            .filter(|header| read == HEADER_BYTES && offset + header.block_bytes() <= limit)
            .ok_or_else(|| self.damaged(offset))?;
        let meta = self.bytes_at(offset + HEADER_BYTES as u64, header.meta_bytes as usize)?;
        if !header.is_whole(&head, &meta) {
            return Err(self.damaged(offset));
        }
        if header.version != block::VERSION {
            let what = format!("{}: a block in version {}", self.path, header.version);
            return Err(StoreError::Newer { what });
        }
        let meta = header.meta(&meta).ok_or_else(|| self.damaged(offset))?;
        Ok(Block {
            header,
            meta,
            offset,
        })
    }

    fn bytes_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; len];
        let read = self
            .file
            .read_at(offset, &mut bytes)
            .map_err(StoreError::io("read", &self.path))?;
        if read < len {
            return Err(self.damaged(offset));
        }
        Ok(bytes)
    }

    fn damaged(&self, offset: u64) -> StoreError {
        StoreError::damaged(format!("{}: the block at {offset}", self.path))
    }
}
