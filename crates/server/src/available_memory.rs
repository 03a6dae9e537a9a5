//! How much memory this process may still use: the limit of its cgroup or the memory of the machine,
//! without what it uses already.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a measurement is used.
const FRESH: Duration = Duration::from_millis(500);
/// The least budget, for a process that is at its limit already.
const LEAST: usize = 4 << 20;

/// The available memory, measured at most twice a second.
#[derive(Debug, Default)]
pub(crate) struct AvailableMemory {
    measured: Mutex<Option<(Instant, Measured)>>,
    /// A fixed budget, for tests.
    fixed: Option<usize>,
}

/// The memory of this process.
#[derive(Clone, Copy, Debug)]
struct Measured {
    limit: usize,
    resident: usize,
}

impl AvailableMemory {
    #[cfg(test)]
    pub(crate) fn fixed(budget: usize) -> Self {
        Self { fixed: Some(budget), ..Self::default() }
    }

    /// Half of what is left of the limit, if `counted` bytes of what is in use belong to the budget.
    pub(crate) fn budget(&self, counted: usize) -> usize {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let known = measured.filter(|(at, _)| at.elapsed() < FRESH);
        let (_, now) = *measured.insert(known.unwrap_or_else(|| (Instant::now(), measure())));
        now.budget(counted)
    }
}

impl Measured {
    fn budget(self, counted: usize) -> usize {
        let others = self.resident.saturating_sub(counted);
        (self.limit.saturating_sub(others) / 2).max(LEAST)
    }
}

fn measure() -> Measured {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let table = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits =
        limit_files(&table).into_iter().filter_map(|file| read(&file)?.trim().parse().ok());
    let amount = |file: &str, name: &str| kilobytes(&read(Path::new(file))?, name);
    let limit = limits.chain(amount("/proc/meminfo", "MemTotal:")).min().unwrap_or(usize::MAX);
    let resident = amount("/proc/self/status", "VmRSS:").unwrap_or_default();
    Measured { limit, resident }
}

/// The files with the memory limits of a process's cgroup and of those above it, for version 1 and 2.
fn limit_files(table: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in table.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        files.extend(groups.map(|group| Path::new(mount).join(group).join(file)));
    }
    files
}

/// An amount of memory in bytes, from a table of amounts in kilobytes.
fn kilobytes(table: &str, name: &str) -> Option<usize> {
    let amount = table.lines().find_map(|line| line.strip_prefix(name))?;
    amount.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_all_groups_above_count() {
        let names = |table: &str| -> Vec<String> {
            limit_files(table).iter().map(|file| file.display().to_string()).collect()
        };
        assert_eq!(
            names("0::/a/b\n"),
            [
                "/sys/fs/cgroup/a/b/memory.max",
                "/sys/fs/cgroup/a/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            names("9:cpu,cpuacct:/x\n8:hugetlb,memory:/x\n1:name=systemd:/y\nodd\n"),
            [
                "/sys/fs/cgroup/memory/x/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
    }

    #[test]
    fn half_of_what_is_left_can_be_used() {
        let limit = 512 << 20;
        let budget = |resident, counted| Measured { limit, resident }.budget(counted);
        assert_eq!(budget(112 << 20, 0), 200 << 20);
        assert_eq!(budget(212 << 20, 100 << 20), 200 << 20, "what is counted is not used twice");
        assert_eq!(budget(600 << 20, 0), LEAST);
        let measured = measure();
        assert!(measured.resident > 1 << 20 && measured.limit >= measured.resident);
        assert_eq!(kilobytes("MemTotal:  2 kB\nMemFree: 1 kB\n", "MemFree:"), Some(1024));
        assert_eq!(kilobytes("MemTotal:  2\n", "MemTotal:"), None);
    }
}
