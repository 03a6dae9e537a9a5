//! A simulated disk in memory that guarantees no more than a real one: unsynced writes may be lost in a crash, in part
//! and in any order.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Disk, File};

/// The number of bytes that survive a crash or are lost together.
const SECTOR: usize = 64;

/// An in-memory disk for crash tests.
#[derive(Clone, Debug, Default)]
pub struct SimulatedDisk(Arc<Mutex<State>>, Arc<AtomicBool>);

#[derive(Debug, Default)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    /// The directory after each change since its last sync.
    unsynced_names: Vec<BTreeMap<String, usize>>,
    capacity: Option<u64>,
    /// How many more changes succeed before the power fails.
    left: Option<u64>,
    changes: u64,
    sync_fails: bool,
}

#[derive(Clone, Debug, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl SimulatedDisk {
    /// Simulates a power failure after that many more changes, in the middle of the last.
    pub fn crash_after(&self, changes: u64) {
        self.state().left = Some(changes);
    }

    /// The number of changes so far: writes, syncs, and changes of the directory.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Sets the capacity in bytes; `None` means unlimited.
    pub fn limit(&self, capacity: Option<u64>) {
        self.state().capacity = capacity;
    }

    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Makes every later sync of a file fail.
    pub fn fail_syncs(&self) {
        self.state().sync_fails = true;
    }

    /// Flips the bits of one byte, to simulate bit rot.
    pub fn corrupt_byte(&self, name: &str, offset: usize) {
        let mut state = self.state();
        let file = state.names[name];
        state.files[file].now[offset] ^= 0xff;
        state.files[file].synced[offset] ^= 0xff;
    }

    /// The disk as found after the power failure. `seed` decides which of the unsynced changes survived.
    #[must_use]
    pub fn after_crash(&self, seed: u64) -> Self {
        let state = self.state();
        let mut dice = Dice(seed);
        let names = match dice.below(state.unsynced_names.len() + 1) {
            0 => &state.synced_names,
            kept => &state.unsynced_names[kept - 1],
        };
        let files: Vec<_> = state.files.iter().map(|file| file.after_crash(&mut dice)).collect();
        let (names, synced_names) = (names.clone(), names.clone());
        let state = State { files, names, synced_names, ..State::default() };
        Self(Arc::new(Mutex::new(state)), Arc::default())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[*file].now.len() as u64).sum()
    }

    /// Counts a change. Returns false if the power fails during it, and an error if it has failed already.
    fn change(&mut self) -> io::Result<bool> {
        self.changes += 1;
        match &mut self.left {
            None => Ok(true),
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(*left > 0)
            }
        }
    }

    fn name(&mut self, change: impl FnOnce(&mut BTreeMap<String, usize>)) -> io::Result<()> {
        let on = self.change()?;
        change(&mut self.names);
        self.unsynced_names.push(self.names.clone());
        if on { Ok(()) } else { Err(io::Error::other("the power goes")) }
    }

    fn room(&self, more: usize) -> io::Result<()> {
        match self.capacity {
            Some(capacity) if more > 0 && self.used() + more as u64 > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl Content {
    fn apply(bytes: &mut Vec<u8>, change: &Change) {
        match change {
            Change::Truncate(size) => bytes.resize(*size, 0),
            Change::Write(at, new) => {
                let size = bytes.len().max(at + new.len());
                bytes.resize(size, 0);
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
        }
    }

    fn after_crash(&self, dice: &mut Dice) -> Self {
        let mut bytes = self.synced.clone();
        let all = dice.below(4) == 0;
        for change in &self.unsynced {
            match change {
                Change::Write(at, new) => {
                    for (nth, sector) in new.chunks(SECTOR).enumerate() {
                        if all || dice.below(2) == 0 {
                            let kept = if all { SECTOR } else { dice.below(SECTOR + 1) };
                            let kept = sector[..kept.max(1).min(sector.len())].to_vec();
                            Self::apply(&mut bytes, &Change::Write(at + nth * SECTOR, kept));
                        }
                    }
                }
                Change::Truncate(_) if all || dice.below(2) == 0 => Self::apply(&mut bytes, change),
                Change::Truncate(_) => {}
            }
        }
        Self { now: bytes.clone(), synced: bytes, unsynced: Vec::new() }
    }
}

impl Disk for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.state().names.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(Opened { disk: self.clone(), file }))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>> {
        let size = usize::try_from(size).map_err(io::Error::other)?;
        let mut state = self.state();
        state.room(size)?;
        let file = state.files.len();
        let unsynced = vec![Change::Truncate(size)];
        state.files.push(Content { now: vec![0; size], synced: Vec::new(), unsynced });
        state.name(|names| {
            names.insert(name.into(), file);
        })?;
        Ok(Arc::new(Opened { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let file = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.name(|names| {
            names.remove(from);
            names.insert(to.into(), file);
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.name(|names| {
            names.remove(name);
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if !state.change()? {
            return Err(io::Error::other("the power goes"));
        }
        state.synced_names = state.names.clone();
        state.unsynced_names.clear();
        Ok(())
    }

    fn lock(&self) -> io::Result<bool> {
        Ok(!self.1.swap(true, Ordering::AcqRel))
    }
}

#[derive(Debug)]
struct Opened {
    disk: SimulatedDisk,
    file: usize,
}

impl Opened {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.disk.state();
        let needed = match &change {
            Change::Write(at, new) => at + new.len(),
            Change::Truncate(size) => *size,
        };
        state.room(needed.saturating_sub(state.files[self.file].now.len()))?;
        let on = state.change()?;
        let file = &mut state.files[self.file];
        Content::apply(&mut file.now, &change);
        file.unsynced.push(change);
        if on { Ok(()) } else { Err(io::Error::other("the power goes")) }
    }
}

impl File for Opened {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].now.len() as u64)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let now = &state.files[self.file].now;
        let from = usize::try_from(offset).map_err(io::Error::other)?.min(now.len());
        let count = into.len().min(now.len() - from);
        into[..count].copy_from_slice(&now[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        self.change(Change::Write(at, bytes.to_vec()))
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.truncate(size)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.change(Change::Truncate(usize::try_from(size).map_err(io::Error::other)?))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if !state.change()? || state.sync_fails {
            return Err(io::Error::other("cannot sync"));
        }
        let file = &mut state.files[self.file];
        file.synced = file.now.clone();
        file.unsynced.clear();
        Ok(())
    }
}

/// A pseudo-random generator: the same seed gives the same numbers.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("below a usize")
    }
}
