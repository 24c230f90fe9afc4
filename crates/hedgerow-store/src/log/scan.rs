//! Reads groups from a segment's file one after the other.

use bytes::Bytes;
use hedgerow_core::position::Mark;

use super::group::{self, Found, HEADER_BYTES, Header};
use super::segment;
use crate::disk::DiskFile;
use crate::error::StoreError;

/// How much is read at once, at least.
const WINDOW_BYTES: usize = 256 * 1024;

/// A place in a segment's file, with what was read ahead.
pub(crate) struct Scanner<'a> {
    file: &'a dyn DiskFile,
    store: u64,
    segment: u32,
    /// Nothing is read from here on.
    limit: u32,
    /// The bytes of the file from `window_at` on.
    window: Vec<u8>,
    window_at: usize,
    window_bytes: usize,
    /// How much was read so far.
    pub read_bytes: u64,
}

impl<'a> Scanner<'a> {
    /// Reads groups of `segment` in `file`, none of which goes past `limit`.
    pub(crate) fn new(file: &'a dyn DiskFile, store: u64, segment: u32, limit: u32) -> Self {
        Self {
            file,
            store,
            segment,
            limit,
            window: Vec::new(),
            window_at: 0,
            window_bytes: WINDOW_BYTES,
            read_bytes: 0,
        }
    }

    /// Reads no more than about `bytes` ahead.
    pub(crate) fn reading_ahead(mut self, bytes: usize) -> Self {
        self.window_bytes = bytes.clamp(4096, WINDOW_BYTES);
        self
    }

    /// Reads `bytes` at once, where nothing else waits for the disk.
    pub(crate) fn in_blocks_of(mut self, bytes: usize) -> Self {
        self.window_bytes = bytes;
        self
    }

    /// The whole group at `offset` with its header, or `None` if there is no intact one.
    ///
    /// # Errors
    /// If the disk cannot be read, and for an intact group of a newer version.
    pub(crate) fn group_at(&mut self, offset: u32) -> Result<Option<(Header, &[u8])>, StoreError> {
        let Some((header, newer)) = self.header_at(offset)? else {
            return Ok(None);
        };
        let number = self.segment;
        let Some(bytes) = self.bytes(offset as usize, header.group_bytes())? else {
            return Ok(None);
        };
        if !group::is_intact(bytes) {
            return Ok(None);
        }
        if let Some(version) = newer {
            let what = format!("{}: a group in version {version}", segment::path(number));
            return Err(StoreError::Newer { what });
        }
        Ok(Some((header, bytes)))
    }

    /// The records of the group at `offset`, in memory of their own.
    pub(crate) fn read_group(&mut self, offset: u32) -> Result<Option<crate::Group>, StoreError> {
        let start = Mark::new(self.segment, offset);
        match self.group_at(offset)? {
            None => Ok(None),
            Some((header, bytes)) => {
                let buffer = Bytes::copy_from_slice(bytes);
                group::decode(start, &header, &buffer).map(Some)
            }
        }
    }

    /// The next offset from `offset` on at which there is an intact group that `wanted` accepts by its header.
    pub(crate) fn search(
        &mut self,
        mut offset: u32,
        wanted: impl Fn(&Header) -> bool,
    ) -> Result<Option<u32>, StoreError> {
        while offset < self.limit {
            if let Some((header, None)) = self.header_at(offset)?
                && wanted(&header)
                && self.group_at(offset)?.is_some()
            {
                return Ok(Some(offset));
            }
            offset += HEADER_BYTES as u32;
        }
        Ok(None)
    }

    /// The header at `offset`, and its version if that is not ours.
    pub(crate) fn header_at(
        &mut self,
        offset: u32,
    ) -> Result<Option<(Header, Option<u32>)>, StoreError> {
        let (store, segment) = (self.store, self.segment);
        let Some(bytes) = self.bytes(offset as usize, HEADER_BYTES)? else {
            return Ok(None);
        };
        Ok(match Header::find(bytes, store, segment) {
            Found::Header(header) => Some((header, None)),
            Found::Newer(header, version) => Some((header, Some(version))),
            Found::Nothing => None,
        })
    }

    /// `len` bytes at `offset`; `None` if they go past the limit or the end of the file.
    fn bytes(&mut self, offset: usize, len: usize) -> Result<Option<&[u8]>, StoreError> {
        if offset + len > self.limit as usize {
            return Ok(None);
        }
        let is_there =
            offset >= self.window_at && offset + len <= self.window_at + self.window.len();
        if !is_there {
            let ahead = self.window_bytes.min(self.limit as usize - offset);
            self.window.resize(len.max(ahead), 0);
            self.window_at = offset;
            let read = self
                .file
                .read_at(offset as u64, &mut self.window)
                .map_err(StoreError::io("read", segment::path(self.segment)))?;
            self.window.truncate(read);
            self.read_bytes += read as u64;
        }
        let from = offset - self.window_at;
        Ok(self.window.get(from..from + len))
    }
}
