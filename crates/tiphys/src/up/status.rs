//! `status`: prints the processes and a summary of the cluster.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

use anyhow::Result;

use super::{ClusterConfig, DataDir, summary};
use crate::commands::human_size;

/// Prints the state of the cluster. Returns whether all of its processes run and the API server responds.
pub(crate) async fn print(layout: &DataDir) -> Result<bool> {
    let mut out = format!("cluster on {}\n", layout.dir().display());
    let settings = ClusterConfig::load(&layout.path("config.yaml"))?;
    let mut all = true;
    for name in ["supervisor", "control", "node"] {
        if name == "control" && settings.is_joined() {
            continue;
        }
        let line = if let Some(pid) = pid(&layout.path("run").join(format!("{name}.pid"))) {
            format!("running (pid {pid}, {})", human_size(memory(pid) * 1024))
        } else {
            all = false;
            "not running".to_owned()
        };
        let _ = writeln!(out, "  {name:<12} {line}");
    }
    let glance = summary::look(layout, &settings).await;
    all &= glance.answers;
    for (name, text) in glance.lines {
        let _ = writeln!(out, "  {name:<12} {text}");
    }
    for part in settings.lacking().filter(|_| !settings.is_joined()) {
        let _ = writeln!(out, "  {:<19} not implemented: {}", part.name, part.lacking);
    }
    print!("{out}");
    Ok(all)
}

/// The process that a pid file names, if it runs and is one of ours.
pub(crate) fn pid(path: &Path) -> Option<i32> {
    let pid: i32 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    let name = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let ours = name.to_string_lossy().contains("tiphys");
    (ours && !is_zombie(pid)).then_some(pid)
}

/// The processes that are this part of the cluster, whether a pid file names them or not: a supervisor may die before
/// it has written the file.
pub(super) fn processes(layout: &DataDir, part: &str) -> Vec<i32> {
    let Ok(data) = fs::metadata(layout.dir()) else { return Vec::new() };
    let is_part = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1).map(OsStr::from_bytes);
        if words.next() != Some(part.as_ref()) || words.next() != Some("--data-dir".as_ref()) {
            return false;
        }
        // a container may run another cluster at the same path
        let Some(dir) = words.next().and_then(|dir| Path::new(dir).strip_prefix("/").ok()) else {
            return false;
        };
        let theirs = fs::metadata(Path::new(&format!("/proc/{pid}/root")).join(dir));
        theirs.is_ok_and(|theirs| (theirs.dev(), theirs.ino()) == (data.dev(), data.ino()))
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_part).collect()
}

/// Whether any process of the cluster runs.
pub(crate) fn is_running(layout: &DataDir) -> bool {
    pid(&layout.path("run/supervisor.pid")).is_some()
        || ["supervise", "control", "node"].iter().any(|part| !processes(layout, part).is_empty())
}

/// Whether a supervisor runs in the process of `up --foreground` or `join --foreground`.
pub(super) fn in_foreground(pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) != Some(b"supervise")
}

/// Whether a process exists and is not a zombie.
pub(super) fn lives(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid)
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Proportional set size of a process in KiB.
fn memory(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
