//! Protection of the node's own processes from pods that use all resources they can get: a cgroup with its own CPU
//! weight and protected memory, a low oom_score_adj, and the maximum number of file descriptors.

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sys::cgroup::{Hierarchies, Limits};
use tracing::warn;

use super::{DataDir, node::cgroup_root};

/// The CPU shares of one CPU.
const CPU: u64 = 1024;
const HEAVIEST: u64 = 262_144;
/// CPU shares of the shims, which write the containers' logs. A container that prints much must not slow down the API
/// server.
const SHIMS: u64 = CPU / 4;
/// The oom_score_adj of these processes; that of upstream's kubelet.
const OOM_SCORE: i32 = -999;
const MEBIBYTE: u64 = 1 << 20;

/// The resources that are reserved for the node, in the format of `--kube-reserved`: a tenth of a CPU, a twentieth of
/// the memory within bounds, and a tenth of the process ids but at most a thousand.
pub(super) fn reserved() -> String {
    let memory = memory_reserved() / MEBIBYTE;
    let processes = process_capacity().map_or(1000, |most| (most / 10).min(1000));
    format!("cpu=100m,memory={memory}Mi,pid={processes}")
}

/// Maximum number of processes of one pod: 4096, but at most a quarter of the host's, so that a few pods cannot
/// exhaust them.
pub(super) fn pod_max_pids() -> i64 {
    process_capacity().map_or(4096, |most| (most / 4).min(4096))
}

/// The cgroup of the shims: next to the node's own processes, with a lower weight.
pub(super) fn shim_group(layout: &DataDir) -> String {
    format!("{}/kube-reserved/shims", cgroup_root(layout))
}

/// Protects this process, the supervisor, and its children. Logs what the host does not permit.
pub(super) fn protect(layout: &DataDir) {
    if let Err(error) = raise_descriptors() {
        warn!(%error, "cannot raise the limit of open files");
    }
    // where it may not be lowered, the pods' oom_score_adj is raised instead
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE.to_string());
    if let Err(error) = make_groups(layout) {
        warn!(%error, "cannot create the cgroups of the node's own processes");
    }
    place(layout, "supervisor", std::process::id());
}

/// Moves a process into its own cgroup. `control` and `node` have one each, so that requests that keep `control` busy
/// do not slow down `node`.
pub(super) fn place(layout: &DataDir, part: &str, pid: u32) {
    let place = || -> io::Result<()> {
        let path = format!("{}/kube-reserved/{part}", cgroup_root(layout));
        let group = Hierarchies::detect()?.group(&path)?;
        group.create()?;
        group.procs_files().iter().try_for_each(|file| fs::write(file, pid.to_string()))
    };
    if let Err(error) = place() {
        warn!(part, %error, "cannot move a process into its cgroup");
    }
}

fn make_groups(layout: &DataDir) -> io::Result<()> {
    let hierarchies = Hierarchies::detect()?;
    let root = cgroup_root(layout);
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let group = |path: &str, limits: Limits| -> io::Result<()> {
        let group = hierarchies.group(&format!("{root}{path}"))?;
        group.create()?;
        group.apply_limits(&limits)
    };
    let weight = |shares: u64| Limits { cpu_shares: Some(shares), ..Limits::default() };
    // cgroup v1 cannot protect memory: there, the memory limit of pods must suffice
    let kept =
        hierarchies.is_v2().then(|| ("memory.min".to_owned(), memory_reserved().to_string()));
    let protected =
        |shares: u64| Limits { unified: kept.iter().cloned().collect(), ..weight(shares) };
    group("", protected((cpus * CPU).min(HEAVIEST)))?;
    group("/kube-reserved", protected(CPU))?;
    group("/kube-reserved/shims", weight(SHIMS))
}

/// Raises the soft limit of open files to the hard limit, so that a flood of connections does not exhaust it early.
fn raise_descriptors() -> rustix::io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
}

fn memory_reserved() -> u64 {
    let table = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    (kibibytes.unwrap_or_default() * 1024 / 20).clamp(128 * MEBIBYTE, 1024 * MEBIBYTE)
}

fn process_capacity() -> Option<i64> {
    let number = |path: &str| -> Option<i64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    limits.into_iter().filter_map(number).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reservation_is_one_that_a_kubelet_understands() {
        let reserved: kubelet::reserved::Reserved = reserved().parse().expect("a reservation");
        let memory = reserved.get("memory").map_or(0, object::Quantity::value);
        assert!((128 << 20..=1 << 30).contains(&memory), "{memory}");
        assert!((1..=4096).contains(&pod_max_pids()));
    }
}
