//! A disk in memory that loses power, for tests and proofs. Everything is drawn from one seed.
//!
//! What is written goes to a page cache. A sync moves a file's dirty blocks to the platter; a directory sync, the names.
//!
//! | event | the page cache | the platter |
//! | --- | --- | --- |
//! | [`FaultyDisk::kill`] | stays | as before; a later power cut can still take what was never synced |
//! | [`FaultyDisk::cut`] | is gone | gets any subset of the dirty blocks, some of them torn between sectors, and for each directory the first few of its changes that were not synced |
//! | a sync that fails | stays, and counts as clean: a later sync does not write it (as on Linux) | gets any subset of the dirty blocks |
//!
//! A dirty block that is written again may have been written back before. Nothing that was synced is ever lost.

mod platter;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::platter::{Directories, File, SECTOR_BYTES};
use super::{Disk, DiskFile, DiskLock};

/// A disk and its power switch. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

/// What was done to a [`FaultyDisk`] so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Bytes written to the page cache.
    pub written_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of directories.
    pub directory_syncs: u64,
    /// Everything that changes something: writes, syncs, changes of names and lengths.
    pub mutations: u64,
}

/// Draws numbers from a seed (splitmix64). Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

struct State {
    random: Random,
    files: Vec<File>,
    directories: Directories,
    /// Raised when the process ends; handles from before are of no use.
    process: u64,
    is_locked: bool,
    is_off: bool,
    /// The mutation at which the power goes, counted down.
    mutations_left: Option<u64>,
    fails_sync: Option<WhichSync>,
    capacity_bytes: u64,
    counters: Counters,
}

/// The disk as one process sees it.
struct Mount {
    state: Arc<Mutex<State>>,
    process: u64,
}

/// A file as one process has it open.
struct OpenFile {
    state: Arc<Mutex<State>>,
    process: u64,
    file: usize,
}

struct HeldLock {
    state: Arc<Mutex<State>>,
    process: u64,
}

/// Which sync fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WhichSync {
    Any,
    Of(usize),
}

/// How a mutation goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Happens,
    /// The power goes in the middle of it.
    IsLast,
}

impl FaultyDisk {
    /// An empty disk without a limit.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: Random::new(seed),
            files: Vec::new(),
            directories: Directories::new(),
            process: 0,
            is_locked: false,
            is_off: false,
            mutations_left: None,
            fails_sync: None,
            capacity_bytes: u64::MAX,
            counters: Counters::default(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The disk for the process that runs now. Of no use after the next [`FaultyDisk::kill`] or [`FaultyDisk::cut`].
    #[must_use]
    pub fn mount(&self) -> Arc<dyn Disk> {
        let process = self.state().process;
        Arc::new(Mount {
            state: Arc::clone(&self.state),
            process,
        })
    }

    /// Cuts the power and restores it. Ends the process.
    pub fn cut(&self) {
        let mut state = self.state();
        let State {
            random,
            files,
            directories,
            ..
        } = &mut *state;
        directories.cut(random);
        for file in files {
            file.cut(random);
        }
        state.end_process();
    }

    /// Ends the process; the page cache stays.
    pub fn kill(&self) {
        self.state().end_process();
    }

    /// The next sync of a file fails.
    pub fn fail_sync_once(&self) {
        self.state().fails_sync = Some(WhichSync::Any);
    }

    /// The next sync of the file that has this name now fails, whatever others sync meanwhile.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn fail_sync_once_of(&self, path: &str) {
        let mut state = self.state();
        let file = state.directories.find(path);
        state.fails_sync = Some(WhichSync::Of(file.expect("there is no such file")));
    }

    /// The power goes in the middle of the `mutations`-th mutation from now on, counted from 1; everything fails from
    /// then on until [`FaultyDisk::cut`], or [`FaultyDisk::kill`] for a process that died there.
    pub fn fail_after(&self, mutations: u64) {
        self.state().mutations_left = Some(mutations);
    }

    /// Whether the power went, as [`FaultyDisk::fail_after`] wanted.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Lets the disk hold so many bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state().counters
    }

    /// Changes one bit on the platter and in the page cache, as a disk that rots does.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn flip_bit(&self, path: &str, offset: u64) {
        let mut state = self.state();
        let file = state.directories.find(path).expect("the file exists");
        state.files[file].flip_bit(offset);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Random {
    /// Numbers from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

impl State {
    fn end_process(&mut self) {
        self.process += 1;
        self.is_locked = false;
        self.is_off = false;
        self.mutations_left = None;
        self.fails_sync = None;
    }

    fn check(&self, process: u64) -> io::Result<()> {
        if self.is_off || self.process != process {
            return Err(io::Error::other("the power is off"));
        }
        Ok(())
    }

    /// Begins a mutation.
    fn mutate(&mut self, process: u64) -> io::Result<Fate> {
        self.check(process)?;
        self.counters.mutations += 1;
        let Some(left) = &mut self.mutations_left else {
            return Ok(Fate::Happens);
        };
        *left -= 1;
        if *left > 0 {
            return Ok(Fate::Happens);
        }
        self.is_off = true;
        Ok(Fate::IsLast)
    }

    /// Says whether a mutation happens at all: one at which the power goes may.
    fn happens(&mut self, fate: Fate) -> bool {
        fate == Fate::Happens || self.random.one_in(2)
    }

    fn used_bytes(&self) -> u64 {
        self.directories
            .files()
            .map(|file| self.files[file].allocated_bytes())
            .sum()
    }

    /// Takes space for `bytes` more.
    fn take_space(&self, bytes: u64) -> io::Result<()> {
        if self.capacity_bytes == u64::MAX || self.used_bytes() + bytes <= self.capacity_bytes {
            return Ok(());
        }
        Err(io::ErrorKind::StorageFull.into())
    }
}

/// What a mutation answers.
fn answer(fate: Fate) -> io::Result<()> {
    match fate {
        Fate::Happens => Ok(()),
        Fate::IsLast => Err(io::Error::other("the power went")),
    }
}

impl Mount {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes names.
    fn change(&self, change: impl FnOnce(&mut Directories) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        let fate = state.mutate(self.process)?;
        if state.happens(fate) {
            change(&mut state.directories)?;
        }
        answer(fate)
    }
}

impl Disk for Mount {
    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn lock(&self, _path: &str) -> io::Result<DiskLock> {
        let mut state = self.state();
        state.check(self.process)?;
        if state.is_locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.is_locked = true;
        Ok(Box::new(HeldLock {
            state: Arc::clone(&self.state),
            process: self.process,
        }))
    }

    fn open(&self, path: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.check(self.process)?;
        let file = match state.directories.find(path) {
            Some(file) => file,
            None if create => {
                let fate = state.mutate(self.process)?;
                let file = state.files.len();
                state.files.push(File::default());
                if state.happens(fate) {
                    state.directories.create(path, file)?;
                }
                answer(fate)?;
                file
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(OpenFile {
            state: Arc::clone(&self.state),
            process: self.process,
            file,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|directories| directories.rename(from, to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.change(|directories| directories.remove(path))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.state().counters.directory_syncs += 1;
        self.change(|directories| directories.sync(path))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        if self.state().directories.exists(path) {
            return self.state().check(self.process);
        }
        self.change(|directories| directories.create_directory(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check(self.process)?;
        Ok(state.directories.list(path))
    }

    fn free_space(&self) -> io::Result<u64> {
        let state = self.state();
        state.check(self.process)?;
        Ok(match state.capacity_bytes {
            u64::MAX => u64::MAX,
            capacity => capacity.saturating_sub(state.used_bytes()),
        })
    }
}

impl OpenFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for OpenFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        state.check(self.process)?;
        let read = state.files[self.file].read(offset, buffer);
        state.counters.read_bytes += read as u64;
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let fate = state.mutate(self.process)?;
        let new = state.files[self.file].unallocated_bytes(offset, bytes.len() as u64);
        state.take_space(new)?;
        let sectors = bytes.len().div_ceil(SECTOR_BYTES) as u64;
        let written = match fate {
            Fate::Happens => bytes.len(),
            Fate::IsLast => state.random.below(sectors + 1) as usize * SECTOR_BYTES,
        };
        let State {
            random,
            files,
            counters,
            ..
        } = &mut *state;
        let bytes = &bytes[..written.min(bytes.len())];
        files[self.file].write(offset, bytes, random);
        counters.written_bytes += bytes.len() as u64;
        answer(fate)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        let fate = state.mutate(self.process)?;
        state.counters.syncs += 1;
        let is_meant = match state.fails_sync {
            None => false,
            Some(WhichSync::Any) => true,
            Some(WhichSync::Of(file)) => file == self.file,
        };
        if is_meant {
            state.fails_sync = None;
            let State { random, files, .. } = &mut *state;
            files[self.file].fail_sync(random);
            return Err(io::Error::from_raw_os_error(
                rustix::io::Errno::IO.raw_os_error(),
            ));
        }
        // When the power goes in a sync, the cut decides which dirty blocks it had written.
        if fate == Fate::Happens {
            state.files[self.file].sync();
        }
        answer(fate)
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        let fate = state.mutate(self.process)?;
        if state.happens(fate) {
            state.files[self.file].set_len(len_bytes);
        }
        answer(fate)
    }

    fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        let fate = state.mutate(self.process)?;
        let new = state.files[self.file].unallocated_bytes(0, len_bytes);
        state.take_space(new)?;
        if state.happens(fate) {
            state.files[self.file].allocate(len_bytes);
        }
        answer(fate)
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.state();
        state.check(self.process)?;
        Ok(state.files[self.file].len_bytes())
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.process == self.process {
            state.is_locked = false;
        }
    }
}
