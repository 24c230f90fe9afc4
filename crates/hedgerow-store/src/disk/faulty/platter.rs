//! Files and names of a faulty disk, each in two versions: cached and durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::Random;

const BLOCK_BYTES: usize = 4096;
/// What a power cut writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

type Block = Arc<[u8; BLOCK_BYTES]>;

/// The bytes of a file; blocks that are missing are holes.
#[derive(Default, Clone)]
struct Image {
    len: u64,
    blocks: BTreeMap<u64, Block>,
}

/// A file.
#[derive(Default)]
pub(super) struct File {
    cached: Image,
    durable: Image,
    /// Blocks that the next sync writes.
    dirty: BTreeSet<u64>,
    /// Whether the next sync writes the length and the holes.
    is_shape_dirty: bool,
}

impl File {
    pub(super) fn len_bytes(&self) -> u64 {
        self.cached.len
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        (self.cached.blocks.len() * BLOCK_BYTES) as u64
    }

    /// How many bytes of space a write there would take.
    pub(super) fn unallocated_bytes(&self, offset: u64, len: u64) -> u64 {
        let holes = blocks_of(offset, len).filter(|block| !self.cached.blocks.contains_key(block));
        holes.count() as u64 * BLOCK_BYTES as u64
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let len = (self.cached.len.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let (block, at) = place(offset + done as u64);
            let step = (BLOCK_BYTES - at).min(len - done);
            match self.cached.blocks.get(&block) {
                Some(bytes) => buffer[done..done + step].copy_from_slice(&bytes[at..at + step]),
                None => buffer[done..done + step].fill(0),
            }
            done += step;
        }
        len
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], random: &mut Random) {
        let mut done = 0;
        while done < bytes.len() {
            let (block, at) = place(offset + done as u64);
            let step = (BLOCK_BYTES - at).min(bytes.len() - done);
            if !self.dirty.insert(block) && random.one_in(4) {
                self.write_back(block);
            }
            let cached = self.cached.blocks.entry(block).or_insert_with(empty_block);
            Arc::make_mut(cached)[at..at + step].copy_from_slice(&bytes[done..done + step]);
            done += step;
        }
        let end = offset + bytes.len() as u64;
        if end > self.cached.len {
            self.cached.len = end;
            self.is_shape_dirty = true;
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.cached.len {
            let (block, at) = place(len);
            self.cached.blocks.split_off(&(block + u64::from(at > 0)));
            if let Some(cached) = self.cached.blocks.get_mut(&block) {
                Arc::make_mut(cached)[at..].fill(0);
                self.dirty.insert(block);
            }
        }
        self.cached.len = len;
        self.is_shape_dirty = true;
    }

    pub(super) fn allocate(&mut self, len: u64) {
        let zeros = empty_block();
        for block in blocks_of(0, len) {
            self.cached
                .blocks
                .entry(block)
                .or_insert_with(|| Arc::clone(&zeros));
        }
        self.cached.len = self.cached.len.max(len);
        self.is_shape_dirty = true;
    }

    pub(super) fn sync(&mut self) {
        for block in std::mem::take(&mut self.dirty) {
            self.write_back(block);
        }
        self.sync_shape();
    }

    /// Some blocks are written, all count as clean from now on. The length is the file system's own and is not given up.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        for block in std::mem::take(&mut self.dirty) {
            if random.one_in(2) {
                self.write_back(block);
            }
        }
    }

    /// Some blocks are written, some in part; the cache is gone.
    pub(super) fn cut(&mut self, random: &mut Random) {
        for block in std::mem::take(&mut self.dirty) {
            match random.below(8) {
                0..4 => {}
                4..7 => self.write_back(block),
                _ => self.tear(block, random),
            }
        }
        if self.is_shape_dirty && random.one_in(2) {
            self.sync_shape();
        }
        self.is_shape_dirty = false;
        let (block, at) = place(self.durable.len);
        self.durable.blocks.split_off(&(block + u64::from(at > 0)));
        self.cached = self.durable.clone();
    }

    pub(super) fn flip_bit(&mut self, offset: u64) {
        let (block, at) = place(offset);
        for image in [&mut self.cached, &mut self.durable] {
            Arc::make_mut(image.blocks.entry(block).or_insert_with(empty_block))[at] ^= 1;
        }
    }

    fn sync_shape(&mut self) {
        self.is_shape_dirty = false;
        self.durable.len = self.cached.len;
        let cached = &self.cached.blocks;
        self.durable
            .blocks
            .retain(|block, _| cached.contains_key(block));
        for (block, bytes) in cached {
            // Only space: what is in a block gets there by writing it back.
            self.durable
                .blocks
                .entry(*block)
                .or_insert_with(|| match bytes {
                    bytes if bytes.iter().all(|byte| *byte == 0) => Arc::clone(bytes),
                    _ => empty_block(),
                });
        }
    }

    fn write_back(&mut self, block: u64) {
        if let Some(bytes) = self.cached.blocks.get(&block) {
            self.durable.blocks.insert(block, Arc::clone(bytes));
        }
    }

    /// Writes some of a block's sectors.
    fn tear(&mut self, block: u64, random: &mut Random) {
        let Some(bytes) = self.cached.blocks.get(&block) else {
            return;
        };
        let durable = self.durable.blocks.entry(block).or_insert_with(empty_block);
        let durable = Arc::make_mut(durable);
        for at in (0..BLOCK_BYTES).step_by(SECTOR_BYTES) {
            if random.one_in(2) {
                durable[at..at + SECTOR_BYTES].copy_from_slice(&bytes[at..at + SECTOR_BYTES]);
            }
        }
    }
}

/// The block of an offset, and where in it.
fn place(offset: u64) -> (u64, usize) {
    (
        offset / BLOCK_BYTES as u64,
        (offset % BLOCK_BYTES as u64) as usize,
    )
}

fn blocks_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / BLOCK_BYTES as u64..(offset + len).div_ceil(BLOCK_BYTES as u64)
}

fn empty_block() -> Block {
    Arc::new([0; BLOCK_BYTES])
}

/// A change of names in one directory.
#[derive(Clone)]
enum Change {
    Create { name: String, file: usize },
    CreateDirectory { name: String },
    Rename { from: String, to: String },
    Remove { name: String },
}

/// The names in one directory.
#[derive(Default, Clone)]
struct Names {
    files: BTreeMap<String, usize>,
    directories: BTreeSet<String>,
}

#[derive(Default)]
struct Directory {
    cached: Names,
    durable: Names,
    /// What makes the cached names of the durable ones.
    unsynced: Vec<Change>,
}

/// All directories by their path; the root is the empty path.
pub(super) struct Directories {
    all: BTreeMap<String, Directory>,
}

impl Directories {
    pub(super) fn new() -> Self {
        Self {
            all: BTreeMap::from([(String::new(), Directory::default())]),
        }
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.all.contains_key(path)
    }

    pub(super) fn find(&self, path: &str) -> Option<usize> {
        let (directory, name) = split(path);
        self.all.get(directory)?.cached.files.get(name).copied()
    }

    /// Every file that has a name.
    pub(super) fn files(&self) -> impl Iterator<Item = usize> + '_ {
        self.all
            .values()
            .flat_map(|directory| directory.cached.files.values().copied())
    }

    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let Some(directory) = self.all.get(path) else {
            return Vec::new();
        };
        let names = &directory.cached;
        names
            .files
            .keys()
            .chain(&names.directories)
            .cloned()
            .collect()
    }

    pub(super) fn create(&mut self, path: &str, file: usize) -> io::Result<()> {
        let (directory, name) = split(path);
        self.change(
            directory,
            Change::Create {
                name: name.to_owned(),
                file,
            },
        )
    }

    pub(super) fn create_directory(&mut self, path: &str) -> io::Result<()> {
        let (directory, name) = split(path);
        self.change(
            directory,
            Change::CreateDirectory {
                name: name.to_owned(),
            },
        )?;
        self.all.insert(path.to_owned(), Directory::default());
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let ((directory, from), (to_directory, to)) = (split(from), split(to));
        if directory != to_directory {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.change(
            directory,
            Change::Rename {
                from: from.to_owned(),
                to: to.to_owned(),
            },
        )
    }

    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        let (directory, name) = split(path);
        self.change(
            directory,
            Change::Remove {
                name: name.to_owned(),
            },
        )
    }

    pub(super) fn sync(&mut self, path: &str) -> io::Result<()> {
        let directory = self.all.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        directory.unsynced.clear();
        directory.durable = directory.cached.clone();
        Ok(())
    }

    /// The first few unsynced changes of each directory have happened; the cache is gone.
    pub(super) fn cut(&mut self, random: &mut Random) {
        for directory in self.all.values_mut() {
            let happened = random.below(directory.unsynced.len() as u64 + 1) as usize;
            for change in directory.unsynced.drain(..).take(happened) {
                directory
                    .durable
                    .apply(change)
                    .expect("it was possible in the cache");
            }
            directory.cached = directory.durable.clone();
        }
        // A directory that lost its name is gone with all that was in it. Its own path comes before those.
        let mut known = BTreeSet::from([String::new()]);
        for (path, directory) in &self.all {
            if known.contains(path) {
                let names = directory.durable.directories.iter();
                known.extend(names.map(|name| join(path, name)));
            }
        }
        self.all.retain(|path, _| known.contains(path));
    }

    fn change(&mut self, directory: &str, change: Change) -> io::Result<()> {
        let directory = self.all.get_mut(directory).ok_or(io::ErrorKind::NotFound)?;
        directory.cached.apply(change.clone())?;
        directory.unsynced.push(change);
        Ok(())
    }
}

impl Names {
    fn apply(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Create { name, file } => {
                self.files.insert(name, file);
            }
            Change::CreateDirectory { name } => {
                self.directories.insert(name);
            }
            Change::Rename { from, to } => {
                let file = self.files.remove(&from).ok_or(io::ErrorKind::NotFound)?;
                self.files.insert(to, file);
            }
            Change::Remove { name } => {
                self.files.remove(&name).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(())
    }
}

/// The directory and the name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}
