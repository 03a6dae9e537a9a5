//! Cgroups of version 1 and 2 behind one type.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

mod kill;
mod limits;
mod tree;

pub use limits::Limits;

/// The cgroup hierarchies of this host.
#[derive(Clone, Debug)]
pub enum Hierarchies {
    /// Version 1: one directory per controller.
    V1 {
        controllers: BTreeMap<String, PathBuf>,
        /// A version 2 hierarchy that is mounted beside them. It has no controllers, but `cgroup.kill`.
        beside: Option<PathBuf>,
    },
    /// Version 2: one directory for all controllers.
    V2(PathBuf),
}

/// A cgroup, in every hierarchy.
#[derive(Clone, Debug)]
pub struct Cgroup {
    dirs: Vec<(String, PathBuf)>,
    unified: bool,
}

/// Stands for the controller's name of the version 2 directory beside version 1.
const BESIDE: &str = "unified";

/// Resource usage of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_nanoseconds: u64,
    pub memory: u64,
    pub working_set: u64,
    pub rss: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
    pub memory_limit: Option<u64>,
    pub processes: u64,
}

impl Hierarchies {
    /// Detects the hierarchies: version 2 if it has the controllers that pods need, else version 1.
    pub fn detect() -> io::Result<Self> {
        let detected = Self::parse(&fs::read_to_string("/proc/self/mountinfo")?, |root| {
            fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
        })?;
        Ok(detected.without_read_only())
    }

    /// Leaves out the version 2 hierarchy beside version 1 if it is not writable.
    fn without_read_only(self) -> Self {
        let writable = |at: &PathBuf| access(at, Access::WRITE_OK).is_ok();
        match self {
            Self::V1 { controllers, beside } => {
                Self::V1 { controllers, beside: beside.filter(writable) }
            }
            Self::V2(at) => Self::V2(at),
        }
    }

    fn parse(mounts: &str, controllers: impl Fn(&Path) -> String) -> io::Result<Self> {
        const KNOWN: [&str; 12] = [
            "cpu",
            "cpuacct",
            "cpuset",
            "memory",
            "devices",
            "freezer",
            "blkio",
            "pids",
            "hugetlb",
            "net_cls",
            "net_prio",
            "perf_event",
        ];
        let (mut v1, mut beside) = (BTreeMap::new(), None);
        for line in mounts.lines() {
            let Some((head, tail)) = line.split_once(" - ") else { continue };
            let (Some(at), Some(kind)) = (head.split(' ').nth(4), tail.split(' ').next()) else {
                continue;
            };
            let at = PathBuf::from(at);
            if kind == "cgroup2" {
                let has = controllers(&at);
                let needed = ["cpu", "memory", "pids"];
                if needed.iter().all(|one| has.split_whitespace().any(|held| held == *one)) {
                    return Ok(Self::V2(at));
                }
                beside.get_or_insert(at);
            } else if kind == "cgroup" {
                let options = tail.split(' ').nth(2).unwrap_or_default();
                for name in options.split(',').filter(|name| KNOWN.contains(name)) {
                    v1.entry(name.to_owned()).or_insert_with(|| at.clone());
                }
            }
        }
        if v1.contains_key("memory") && v1.contains_key("cpu") && v1.contains_key("pids") {
            return Ok(Self::V1 { controllers: v1, beside });
        }
        Err(io::Error::other("no cgroup hierarchy with cpu, memory and pids is mounted"))
    }

    pub fn is_v2(&self) -> bool {
        matches!(self, Self::V2(_))
    }

    /// The controllers of version 1, each with its mount point; empty for version 2.
    pub fn controllers(&self) -> Vec<(String, PathBuf)> {
        match self {
            Self::V1 { controllers, .. } => {
                controllers.iter().map(|(name, at)| (name.clone(), at.clone())).collect()
            }
            Self::V2(_) => Vec::new(),
        }
    }

    /// The cgroup at `path`, which need not exist.
    pub fn group(&self, path: &str) -> io::Result<Cgroup> {
        if Path::new(path).components().any(|part| part == std::path::Component::ParentDir) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a cgroup path with '..'"));
        }
        let path = path.trim_start_matches('/');
        let folders = match self {
            Self::V1 { controllers, beside } => {
                let beside = beside.iter().map(|at| (BESIDE.to_owned(), at.join(path)));
                let all = controllers.iter().map(|(name, at)| (name.clone(), at.join(path)));
                all.chain(beside).collect()
            }
            Self::V2(at) => vec![(String::new(), at.join(path))],
        };
        Ok(Cgroup { dirs: folders, unified: self.is_v2() })
    }

    /// The paths of cgroups below `path`, in any hierarchy, whose name matches. Cgroups below a matching one are not
    /// searched, because its processes may have created them.
    pub fn below(&self, path: &str, is_named: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
        let mut found = BTreeSet::new();
        for (_, top) in self.group(path)?.dirs {
            let named = |at: &Path| {
                let name = at.file_name().and_then(|name| name.to_str());
                at != top && name.is_some_and(&is_named)
            };
            for group in tree::descendants_until(&top, named) {
                if let Some(below) = group.strip_prefix(&top).ok().filter(|_| named(&group)) {
                    found.insert(format!("{}/{}", path.trim_end_matches('/'), below.display()));
                }
            }
        }
        Ok(found.into_iter().collect())
    }
}

impl Cgroup {
    /// Creates the cgroup in every hierarchy, with its parents.
    pub fn create(&self) -> io::Result<()> {
        for (controller, folder) in &self.dirs {
            if folder.is_dir() {
                continue;
            }
            fs::create_dir_all(folder)?;
            if controller == "cpuset" {
                inherit_cpuset(folder)?;
            }
            if self.unified {
                enable_controllers(folder)?;
            }
        }
        Ok(())
    }

    pub fn exists(&self) -> bool {
        self.dirs.iter().any(|(_, folder)| folder.is_dir())
    }

    /// The `cgroup.procs` file of the cgroup in every hierarchy. Writing a pid to all of them moves the process into
    /// the cgroup.
    pub fn procs_files(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|(_, folder)| folder.join("cgroup.procs")).collect()
    }

    /// Removes the cgroup if it has no processes and no children.
    pub fn remove_if_empty(&self) {
        for (_, folder) in &self.dirs {
            let _ = fs::remove_dir(folder); // fails if it is not empty
        }
    }

    /// Applies limits. A limit for a missing controller is an error.
    pub fn apply_limits(&self, limits: &Limits) -> io::Result<()> {
        if self.unified { self.limit_v2(limits) } else { self.limit_v1(limits) }
    }

    /// Allows only these devices: rules such as `c 1:3 rwm`, or `a` for all.
    pub fn allow_devices(&self, rules: &[String]) -> io::Result<()> {
        if let (true, Some(folder)) = (self.unified, self.controller_dir("")) {
            return crate::device_filter::attach(folder, rules);
        }
        if self.controller_dir("devices").is_none() && rules.iter().any(|rule| rule == "a") {
            return Ok(()); // without the controller all devices are allowed
        }
        self.write("devices", "devices.deny", "a")?;
        for rule in rules {
            self.write("devices", "devices.allow", rule)?;
        }
        Ok(())
    }

    /// Reads the resource usage.
    pub fn usage(&self) -> io::Result<Usage> {
        let number = |controller: &str, file: &str| -> io::Result<Option<u64>> {
            Ok(self.read(controller, file)?.trim().parse().ok())
        };
        let stat = self.read("memory", "memory.stat")?;
        let stat = parse_flat_keyed(&stat);
        let of = |key: &str| stat.get(key).copied().unwrap_or_default();
        let (memory, inactive, rss, cpu, limit) = if self.unified {
            let cpu = self.read("cpu", "cpu.stat")?;
            let cpu = parse_flat_keyed(&cpu).get("usage_usec").copied().unwrap_or_default() * 1000;
            let memory = number("memory", "memory.current")?.unwrap_or_default();
            (memory, of("inactive_file"), of("anon"), cpu, number("memory", "memory.max")?)
        } else {
            let cpu = number("cpuacct", "cpuacct.usage")?.unwrap_or_default();
            let memory = number("memory", "memory.usage_in_bytes")?.unwrap_or_default();
            let limit = number("memory", "memory.limit_in_bytes")?;
            (memory, of("total_inactive_file"), of("total_rss"), cpu, limit)
        };
        let faults = if self.unified { "pgfault" } else { "total_pgfault" };
        let major = if self.unified { "pgmajfault" } else { "total_pgmajfault" };
        Ok(Usage {
            cpu_nanoseconds: cpu,
            memory,
            working_set: memory.saturating_sub(inactive),
            rss,
            page_faults: of(faults),
            major_page_faults: of(major),
            memory_limit: limit.filter(|limit| *limit < 1 << 62),
            processes: number("pids", "pids.current")?.unwrap_or_default(),
        })
    }

    /// Number of processes that the OOM killer has killed in the cgroup.
    pub fn oom_kills(&self) -> u64 {
        let file = if self.unified { "memory.events" } else { "memory.oom_control" };
        let text = self.read("memory", file).unwrap_or_default();
        parse_flat_keyed(&text).get("oom_kill").copied().unwrap_or_default()
    }

    fn controller_dir(&self, controller: &str) -> Option<&PathBuf> {
        let own = |(name, _): &&(String, PathBuf)| self.unified || name == controller;
        self.dirs.iter().find(own).map(|(_, folder)| folder)
    }

    fn file(&self, controller: &str, file: &str) -> io::Result<PathBuf> {
        let folder = self.controller_dir(controller).ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, format!("no cgroup controller {controller}"))
        })?;
        Ok(folder.join(file))
    }

    fn write(&self, controller: &str, file: &str, value: &str) -> io::Result<()> {
        let path = self.file(controller, file)?;
        fs::write(&path, value).map_err(|error| {
            io::Error::new(error.kind(), format!("write {value:?} to {}: {error}", path.display()))
        })
    }

    fn read(&self, controller: &str, file: &str) -> io::Result<String> {
        fs::read_to_string(self.file(controller, file)?)
    }
}

/// Copies the parent's cpuset. A new cpuset is empty, and no process can join it.
fn inherit_cpuset(folder: &Path) -> io::Result<()> {
    let Some(parent) = folder.parent() else { return Ok(()) };
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if !folder.join(file).exists() {
            return Ok(()); // above the hierarchy's root
        }
        if fs::read_to_string(folder.join(file))?.trim().is_empty() {
            if fs::read_to_string(parent.join(file))?.trim().is_empty() {
                inherit_cpuset(parent)?;
            }
            fs::write(folder.join(file), fs::read_to_string(parent.join(file))?)?;
        }
    }
    Ok(())
}

/// Enables all controllers for a cgroup: it only has those that its ancestors pass on.
fn enable_controllers(folder: &Path) -> io::Result<()> {
    let mut parents: Vec<_> = folder.ancestors().skip(1).collect();
    parents.retain(|parent| parent.join("cgroup.subtree_control").exists());
    for parent in parents.into_iter().rev() {
        let all = fs::read_to_string(parent.join("cgroup.controllers"))?;
        let wanted: Vec<_> = all.split_whitespace().map(|name| format!("+{name}")).collect();
        fs::write(parent.join("cgroup.subtree_control"), wanted.join(" "))?;
    }
    Ok(())
}

/// Parses a file of lines with a key and a number.
fn parse_flat_keyed(text: &str) -> BTreeMap<&str, u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(key, value)| Some((key, value.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
35 31 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn version_2_counts_only_with_controllers() {
        let without = Hierarchies::parse(MIXED, |_| "hugetlb".into()).expect("v1");
        assert!(!without.is_v2());
        assert_eq!(without.controllers().len(), 3);
        let with = Hierarchies::parse(MIXED, |_| "cpu memory pids".into()).expect("v2");
        assert!(with.is_v2());
        assert!(Hierarchies::parse("", |_| String::new()).is_err());
    }

    #[test]
    fn paths_stay_inside() {
        let all = Hierarchies::parse(MIXED, |_| String::new()).expect("v1");
        assert!(all.group("/a/../b").is_err());
    }
}
