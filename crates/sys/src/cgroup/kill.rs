//! Kills all processes of a cgroup.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{BESIDE, Cgroup, tree::with_descendants};

/// A process that is not dead after this time is stuck in the kernel: more signals do not help.
const LONGEST: Duration = Duration::from_secs(10);
/// How long to wait for a freeze; processes in the middle of I/O freeze late.
const LONGEST_FREEZE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(1);

impl Cgroup {
    /// Kills the processes of the cgroup and its descendants until none is left: atomically with `cgroup.kill` where
    /// the kernel has it, otherwise frozen, so that none can fork meanwhile.
    pub fn kill_all(&self) -> io::Result<()> {
        let began = Instant::now();
        let mut round = 0;
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return Ok(());
            }
            if began.elapsed() > LONGEST {
                let text = format!("{} processes do not end: {processes:?}", processes.len());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            if round > 0 || !self.kill_at_once() {
                self.freeze();
                self.signal();
                self.thaw(); // a frozen process does not die
            }
            self.wait_until_empty(PAUSE * (1 << round.min(6)));
            round += 1;
        }
    }

    /// Writes `cgroup.kill`; returns whether that succeeded.
    fn kill_at_once(&self) -> bool {
        let folder = self.dirs.iter().find(|(name, _)| self.unified || name == BESIDE);
        folder.is_some_and(|(_, folder)| fs::write(folder.join("cgroup.kill"), "1").is_ok())
    }

    fn signal(&self) {
        for pid in self.processes() {
            let _ = crate::process::kill(pid, libc::SIGKILL); // it may no longer exist
        }
    }

    fn wait_until_empty(&self, longest: Duration) {
        let began = Instant::now();
        while began.elapsed() < longest && !self.processes().is_empty() {
            thread::sleep(PAUSE);
        }
    }

    /// Freezes the cgroup. Processes that are still running afterwards are killed while they run.
    fn freeze(&self) {
        let Some((folder, file, frozen, _)) = self.freezer() else { return };
        if fs::write(folder.join(file), frozen).is_err() || self.unified {
            return; // in version 2 SIGKILL also kills frozen processes
        }
        let began = Instant::now();
        let state = || fs::read_to_string(folder.join(file)).unwrap_or_default();
        while state().trim() == "FREEZING" && began.elapsed() < LONGEST_FREEZE {
            thread::sleep(PAUSE);
        }
    }

    /// Thaws the cgroup and its descendants, which may have been frozen on their own.
    fn thaw(&self) {
        let Some((folder, file, _, thawed)) = self.freezer() else { return };
        for group in with_descendants(&folder) {
            let _ = fs::write(group.join(file), thawed); // it may no longer exist
        }
    }

    fn freezer(&self) -> Option<(PathBuf, &Path, &str, &str)> {
        let folder = self.controller_dir("freezer")?.clone();
        Some(if self.unified {
            (folder, Path::new("cgroup.freeze"), "1", "0")
        } else {
            (folder, Path::new("freezer.state"), "FROZEN", "THAWED")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::cgroup::Hierarchies;

    /// New cgroups, with and without the hierarchy that has `cgroup.kill`.
    fn groups(name: &str) -> Vec<Cgroup> {
        let detected = Hierarchies::detect().expect("cgroups");
        let mut all = vec![detected.clone()];
        if let Hierarchies::V1 { controllers, beside: Some(_) } = detected {
            all.push(Hierarchies::V1 { controllers, beside: None });
        }
        let path = |n: usize| format!("/sys-{name}-{n}-{}", std::process::id());
        all.iter().enumerate().map(|(n, one)| one.group(&path(n)).expect("a path")).collect()
    }

    #[expect(clippy::format_collect, reason = "a line for each folder")]
    fn run(group: &Cgroup, below: &str, script: &str) -> Child {
        let folders = group.dirs.iter().map(|(_, folder)| folder.join(below));
        let joins: String = folders
            .map(|folder| {
                fs::create_dir_all(&folder).expect("a group");
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    if let Ok(all) = fs::read_to_string(group_root(&folder).join(file)) {
                        let parents: Vec<_> = folder.ancestors().take(3).collect();
                        for parent in parents.iter().rev() {
                            let _ = fs::write(parent.join(file), all.trim());
                        }
                    }
                }
                format!("echo $$ > {}/cgroup.procs; ", folder.display())
            })
            .collect();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{joins} echo ready; {script}")]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let mut ready = [0; 6];
        let out = child.stdout.as_mut().expect("piped");
        io::Read::read_exact(out, &mut ready).expect("it says so");
        child
    }

    /// The mount point of a version 1 hierarchy.
    fn group_root(folder: &Path) -> PathBuf {
        folder.ancestors().find(|at| at.join("release_agent").exists()).unwrap_or(folder).to_owned()
    }

    #[test]
    fn a_fork_bomb_in_groups_below_ends() {
        for group in groups("bomb") {
            group.create().expect("made");
            let script = "bomb() { sleep 0.01; bomb & bomb & wait; }; \
                          for i in 1 2 3 4; do bomb & done; wait";
            let mut child = run(&group, "a/b", script);
            thread::sleep(Duration::from_millis(300));
            assert!(group.processes().len() > 4, "{:?}", group.processes());
            group.kill_all().expect("killed");
            assert!(group.processes().is_empty());
            child.wait().expect("its end");
            group.remove().expect("removed");
            assert!(!group.exists());
        }
    }

    #[test]
    fn frozen_processes_end() {
        for group in groups("frozen") {
            group.create().expect("made");
            let mut children = ["", "a", "a/b"].map(|below| run(&group, below, "sleep 1000"));
            for (_, folder) in &group.dirs {
                for below in ["", "a", "a/b"] {
                    let _ = fs::write(folder.join(below).join("freezer.state"), "FROZEN");
                    let _ = fs::write(folder.join(below).join("cgroup.freeze"), "1");
                }
            }
            assert!(group.processes().len() >= 3);
            group.kill_all().expect("killed");
            for child in &mut children {
                child.wait().expect("its end");
            }
            group.remove().expect("removed");
        }
    }
}
