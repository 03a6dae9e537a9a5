//! Appends with `O_DIRECT`, past the page cache. Log records are synced at once and not read again, so caching them
//! gains nothing and would be half the cost of a small write.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::io::{Errno, pread, pwrite};

/// Size and alignment of direct writes in bytes. No disk requires more.
const BLOCK: usize = 4_096;

/// A file opened with `O_DIRECT`, for appends.
#[derive(Debug)]
pub(super) struct DirectWriter {
    fd: OwnedFd,
    /// Set when the file system has rejected a direct write.
    off: AtomicBool,
    last: Mutex<Last>,
}

/// The incomplete block in which the next append begins, so that it need not be read back.
#[derive(Debug, Default)]
struct Last {
    at: u64,
    bytes: Vec<u8>,
}

impl DirectWriter {
    /// `fd` was opened with `O_DIRECT`.
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd, off: AtomicBool::new(false), last: Mutex::default() }
    }

    /// Writes `bytes`, followed by zeros up to the end of a block. Returns false if nothing was written and the caller
    /// must write through the page cache. `cached` is the same file, to read from.
    pub(super) fn append(&self, bytes: &[u8], offset: u64, cached: &OwnedFd) -> io::Result<bool> {
        if self.off.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = std::mem::take(&mut *last);
        let start = offset - offset % BLOCK as u64;
        let head = usize::try_from(offset - start).map_err(io::Error::other)?;
        let end = head + bytes.len();
        let length = end.next_multiple_of(BLOCK);
        let mut room = vec![0; length + BLOCK];
        let aligned = room.as_ptr().align_offset(BLOCK);
        let Some(blocks) = room.get_mut(aligned..).and_then(|room| room.get_mut(..length)) else {
            return Ok(false);
        };
        if known.at == start && known.bytes.len() == head {
            blocks[..head].copy_from_slice(&known.bytes);
        } else if pread(cached, &mut blocks[..head], start)? < head {
            return Ok(false);
        }
        blocks[head..end].copy_from_slice(bytes);
        match self.write(blocks, start) {
            Err(Errno::INVAL) => {
                self.off.store(true, Ordering::Relaxed);
                return Ok(false);
            }
            written => written?,
        }
        let next = end - end % BLOCK;
        *last = Last { at: start + next as u64, bytes: blocks[next..end].to_vec() };
        Ok(true)
    }

    fn write(&self, mut blocks: &[u8], mut offset: u64) -> Result<(), Errno> {
        while !blocks.is_empty() {
            let count = match pwrite(&self.fd, blocks, offset) {
                Err(Errno::INTR) => continue,
                count => count? / BLOCK * BLOCK,
            };
            if count == 0 {
                return Err(Errno::IO);
            }
            (blocks, offset) = (&blocks[count..], offset + count as u64);
        }
        Ok(())
    }
}
