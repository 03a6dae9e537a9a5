//! What runs.

use std::{fs, path::Path, process::ExitCode};

use super::{Layout, Settings};

/// Prints the processes of the cluster. Fails if it does not run.
pub(crate) fn print(layout: &Layout) -> ExitCode {
    let mut all = true;
    println!("cluster on {}", layout.dir().display());
    let settings = Settings::load(&layout.path("config.yaml"));
    let wanted = |name: &str| settings.as_ref().is_ok_and(|own| !own.disables(name));
    let parts = [("supervisor", true), ("control", wanted("control")), ("node", true)];
    for (name, _) in parts.into_iter().filter(|(_, wanted)| *wanted) {
        if let Some(pid) = pid(&layout.path("run").join(format!("{name}.pid"))) {
            println!("  {name:<12} running (pid {pid}, {} kB)", memory(pid));
        } else {
            all = false;
            println!("  {name:<12} not running");
        }
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The process that a file names, if it runs and is one of ours.
pub(crate) fn pid(path: &Path) -> Option<i32> {
    let pid: i32 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    let name = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let ours = name.to_string_lossy().contains("tiphys");
    (ours && !is_zombie(pid)).then_some(pid)
}

pub(crate) fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Its proportional share of memory, in kB.
fn memory(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
