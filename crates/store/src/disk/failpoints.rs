//! A disk with named failpoints, for tests.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use super::{Disk, File};

/// The failpoints: an operation on a kind of file.
pub const POINTS: [&str; 30] = [
    "folder.list",
    "folder.lock",
    "folder.sync",
    "log.create",
    "log.open",
    "log.read",
    "log.remove",
    "log.rename",
    "log.size",
    "log.sync",
    "log.truncate",
    "log.write",
    "reserve.allocate",
    "reserve.create",
    "reserve.open",
    "reserve.read",
    "reserve.remove",
    "reserve.rename",
    "reserve.size",
    "reserve.sync",
    "reserve.truncate",
    "reserve.write",
    "state.create",
    "state.open",
    "state.read",
    "state.remove",
    "state.rename",
    "state.size",
    "state.sync",
    "state.write",
];

/// What a failpoint does when it fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FailAction {
    Panic,
    Error,
    Delay(Duration),
}

/// A disk, and the failpoint that is armed on it.
#[derive(Clone, Debug)]
pub struct Failpoints {
    disk: Arc<dyn Disk>,
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    armed: Option<(&'static str, FailAction, u64)>,
    /// How often each failpoint was passed.
    passed: BTreeMap<String, u64>,
}

impl Failpoints {
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, plan: Arc::default() }
    }

    /// Arms a failpoint: it fires once, when it is passed for the `nth` time from now.
    pub fn arm(&self, point: &'static str, harm: FailAction, nth: u64) {
        let mut plan = self.plan();
        plan.passed.clear();
        plan.armed = Some((point, harm, nth));
    }

    /// Whether the armed failpoint has fired, or none was armed.
    pub fn has_fired(&self) -> bool {
        self.plan().armed.is_none()
    }

    /// How often each failpoint was passed since one was last armed.
    pub fn hit_counts(&self) -> BTreeMap<String, u64> {
        self.plan().passed.clone()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner) // poisoned by an intended panic
    }

    fn pass(&self, role: &str, what: &str) -> io::Result<()> {
        let point = format!("{role}.{what}");
        let harm = {
            let mut plan = self.plan();
            let passed = plan.passed.entry(point.clone()).or_default();
            *passed += 1;
            let passed = *passed;
            let due = |(armed, _, nth): &mut (&'static str, FailAction, u64)| {
                *armed == point && *nth == passed
            };
            plan.armed.take_if(due).map(|(_, harm, _)| harm)
        };
        match harm {
            None => Ok(()),
            Some(FailAction::Delay(time)) => {
                thread::sleep(time);
                Ok(())
            }
            Some(FailAction::Error) => Err(io::Error::other(format!("{point} fails"))),
            Some(FailAction::Panic) => panic!("{point} panics"),
        }
    }

    fn wrap(&self, role: &'static str, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(Wrapped { file, role, points: self.clone() })
    }
}

/// The kind of a file, by its name.
fn role(name: &str) -> &'static str {
    if name.starts_with("state") {
        "state"
    } else if name.starts_with("reserve") {
        "reserve"
    } else {
        "log"
    }
}

impl Disk for Failpoints {
    fn list(&self) -> io::Result<Vec<String>> {
        self.pass("folder", "list")?;
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.pass(role(name), "open")?;
        Ok(self.wrap(role(name), self.disk.open(name)?))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn File>> {
        self.pass(role(name), "create")?;
        Ok(self.wrap(role(name), self.disk.create(name, size)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.pass(role(from), "rename")?;
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.pass(role(name), "remove")?;
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.pass("folder", "sync")?;
        self.disk.sync()
    }

    fn lock(&self) -> io::Result<bool> {
        self.pass("folder", "lock")?;
        self.disk.lock()
    }
}

#[derive(Debug)]
struct Wrapped {
    file: Arc<dyn File>,
    role: &'static str,
    points: Failpoints,
}

impl File for Wrapped {
    fn size(&self) -> io::Result<u64> {
        self.points.pass(self.role, "size")?;
        self.file.size()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.points.pass(self.role, "read")?;
        self.file.read_at(into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.points.pass(self.role, "write")?;
        self.file.write_at(bytes, offset)
    }

    fn append(&self, bytes: &[u8], zeros: usize, offset: u64) -> io::Result<()> {
        self.points.pass(self.role, "write")?;
        self.file.append(bytes, zeros, offset)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.points.pass(self.role, "allocate")?;
        self.file.allocate(size)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.points.pass(self.role, "truncate")?;
        self.file.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.points.pass(self.role, "sync")?;
        self.file.sync()
    }
}
