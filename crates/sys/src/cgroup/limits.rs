//! Cgroup limits, for both versions.

use std::{collections::BTreeMap, io};

use super::Cgroup;

/// Limits of a cgroup. `None` keeps the current value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub cpu_shares: Option<u64>,
    /// Microseconds per period; negative: no limit.
    pub cpu_quota: Option<i64>,
    pub cpu_period: Option<u64>,
    /// Bytes; negative: no limit.
    pub memory: Option<i64>,
    /// Bytes of memory and swap together; negative: no limit.
    pub memory_and_swap: Option<i64>,
    pub pids: Option<i64>,
    pub cpuset_cpus: Option<String>,
    pub cpuset_mems: Option<String>,
    /// Page size such as `2MB`, and bytes.
    pub huge_pages: Vec<(String, u64)>,
    /// Files of version 2 to write, by name.
    pub unified: BTreeMap<String, String>,
}

impl Cgroup {
    pub(super) fn limit_v1(&self, limits: &Limits) -> io::Result<()> {
        let set = |controller: &str, file: &str, value: &Option<i64>| match value {
            Some(value) => self.write(controller, file, &value.to_string()),
            None => Ok(()),
        };
        let signed = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
        set("cpu", "cpu.shares", &signed(limits.cpu_shares))?;
        set("cpu", "cpu.cfs_period_us", &signed(limits.cpu_period))?;
        set("cpu", "cpu.cfs_quota_us", &limits.cpu_quota)?;
        if let Some(memory) = limits.memory {
            self.limit_memory_v1(memory, limits.memory_and_swap)?;
        }
        if let Some(pids) = limits.pids {
            self.write("pids", "pids.max", &limit_or_max(pids))?;
        }
        if let Some(cpus) = limits.cpuset_cpus.as_ref().filter(|cpus| !cpus.is_empty()) {
            self.write("cpuset", "cpuset.cpus", cpus)?;
        }
        if let Some(nodes) = limits.cpuset_mems.as_ref().filter(|nodes| !nodes.is_empty()) {
            self.write("cpuset", "cpuset.mems", nodes)?;
        }
        if !limits.unified.is_empty() {
            let text = "cgroup files of version 2, where version 1 is mounted";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        self.limit_huge_pages(&limits.huge_pages, "limit_in_bytes")
    }

    /// Sets the limits of memory and of memory with swap. The latter must not be below the former, so the order depends
    /// on the direction of the change.
    fn limit_memory_v1(&self, memory: i64, both: Option<i64>) -> io::Result<()> {
        let file = "memory.memsw.limit_in_bytes";
        let swap = self.controller_dir("memory").is_some_and(|folder| folder.join(file).exists());
        let both = both.filter(|_| swap).map(|both| both.to_string());
        if let Some(both) = &both {
            let _ = self.write("memory", file, both); // fails when it is to shrink: done below
        }
        self.write("memory", "memory.limit_in_bytes", &memory.to_string())?;
        both.map_or(Ok(()), |both| self.write("memory", file, &both))
    }

    pub(super) fn limit_v2(&self, limits: &Limits) -> io::Result<()> {
        if let Some(shares) = limits.cpu_shares.filter(|shares| *shares > 0) {
            let weight = 1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142;
            self.write("cpu", "cpu.weight", &weight.to_string())?;
        }
        if limits.cpu_quota.is_some() || limits.cpu_period.is_some() {
            let quota = limits.cpu_quota.filter(|quota| *quota > 0).unwrap_or(-1);
            let period = limits.cpu_period.filter(|period| *period > 0).unwrap_or(100_000);
            self.write("cpu", "cpu.max", &format!("{} {period}", limit_or_max(quota)))?;
        }
        if let Some(memory) = limits.memory {
            self.write("memory", "memory.max", &limit_or_max(memory))?;
            if let Some(both) = limits.memory_and_swap {
                let swap = if both < 0 { -1 } else { (both - memory.max(0)).max(0) };
                self.write("memory", "memory.swap.max", &limit_or_max(swap))?;
            }
        }
        if let Some(pids) = limits.pids {
            self.write("pids", "pids.max", &limit_or_max(pids))?;
        }
        if let Some(cpus) = &limits.cpuset_cpus {
            self.write("cpuset", "cpuset.cpus", cpus)?;
        }
        if let Some(nodes) = &limits.cpuset_mems {
            self.write("cpuset", "cpuset.mems", nodes)?;
        }
        self.limit_huge_pages(&limits.huge_pages, "max")?;
        for (file, value) in &limits.unified {
            if file.contains('/') {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a cgroup file with '/'"));
            }
            self.write("", file, value)?;
        }
        Ok(())
    }

    /// Sets the limits of huge pages. Kubelets pass zero for every size that was not requested, which is skipped
    /// without a hugetlb controller.
    fn limit_huge_pages(&self, limits: &[(String, u64)], file: &str) -> io::Result<()> {
        for (size, bytes) in limits {
            let file = format!("hugetlb.{size}.{file}");
            let counted =
                self.controller_dir("hugetlb").is_some_and(|folder| folder.join(&file).exists());
            if counted || *bytes > 0 {
                self.write("hugetlb", &file, &bytes.to_string())?;
            }
        }
        Ok(())
    }
}

fn limit_or_max(value: i64) -> String {
    if value < 0 { "max".into() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_cannot_be_limited_is_an_error() {
        let group = Cgroup { dirs: Vec::new(), unified: false };
        let pages = |bytes| Limits { huge_pages: vec![("2MB".into(), bytes)], ..Limits::default() };
        assert!(group.apply_limits(&pages(1 << 21)).is_err());
        group.apply_limits(&pages(0)).expect("zero is what kubelets say when nobody asks");
        let unified = [("memory.high".to_owned(), "1".to_owned())].into();
        assert!(group.apply_limits(&Limits { unified, ..Limits::default() }).is_err());
        assert!(group.apply_limits(&Limits { cpu_shares: Some(2), ..Limits::default() }).is_err());
    }

    #[test]
    fn version_2_has_its_own_units() {
        let folder = std::env::temp_dir().join(format!("limits-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let group = Cgroup { dirs: vec![(String::new(), folder.clone())], unified: true };
        let limits = Limits {
            cpu_shares: Some(1024),
            cpu_quota: Some(50_000),
            memory: Some(100),
            memory_and_swap: Some(150),
            pids: Some(-1),
            ..Limits::default()
        };
        let done = group.apply_limits(&limits);
        let written = ["cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "pids.max"]
            .map(|file| fs::read_to_string(folder.join(file)).unwrap_or_default());
        fs::remove_dir_all(&folder).expect("ours");
        done.expect("plain files");
        assert_eq!(written, ["39", "50000 100000", "100", "50", "max"]);
    }
}
