//! The requirements of a host, and `tiphys check`, which prints a line for each.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, bail, ensure};

/// A requirement of the host.
struct Requirement {
    what: &'static str,
    /// Why it is needed, or how to meet it.
    hint: &'static str,
    /// The kernel module to load if it is missing; empty if there is none.
    module: &'static str,
    check: fn() -> bool,
}

const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        what: "overlayfs",
        hint: "images are layers of it: the kernel needs CONFIG_OVERLAY_FS",
        module: "overlay",
        check: || filesystem("overlay"),
    },
    Requirement {
        what: "nf_tables",
        hint: "services and masquerading need it: CONFIG_NF_TABLES",
        module: "nf_tables",
        check: has_nf_tables,
    },
    Requirement {
        what: "cgroups",
        hint: "mount cgroup v2 or the v1 controllers cpu, memory and pids at /sys/fs/cgroup",
        module: "",
        check: || sys::cgroup::Hierarchies::detect().is_ok(),
    },
    Requirement {
        what: "namespaces",
        hint: "the kernel needs pid, net, ipc, uts and mount namespaces",
        module: "",
        check: || {
            ["pid", "net", "ipc", "uts", "mnt"]
                .iter()
                .all(|ns| Path::new(&format!("/proc/self/ns/{ns}")).exists())
        },
    },
];

/// Prints a line for each requirement. Fails unless all are met.
pub(crate) fn run() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "the checks need root: run `sudo tiphys check`");
    let mut all = true;
    for need in REQUIREMENTS {
        let met = is_met(need);
        all &= met;
        if met {
            println!("  ok       {}", need.what);
        } else {
            println!("  missing  {}: {}", need.what, need.hint);
        }
    }
    ensure!(all, "this machine does not meet the requirements above");
    Ok(())
}

/// Fails with the first requirement that is not met, before anything is started.
pub(super) fn require_all() -> Result<()> {
    for need in REQUIREMENTS {
        if !is_met(need) {
            bail!("this machine lacks {}: {}", need.what, need.hint);
        }
    }
    Ok(())
}

fn is_met(need: &Requirement) -> bool {
    if (need.check)() {
        return true;
    }
    if !need.module.is_empty() {
        let _ = Command::new("modprobe").arg(need.module).output();
    }
    (need.check)()
}

fn filesystem(name: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().last() == Some(name))
}

/// Whether the kernel supports nf_tables: tries to remove a table that does not exist.
fn has_nf_tables() -> bool {
    let nothing = sys::nft::Batch::remove_table(sys::nft::Family::Ip, "tiphys-check");
    match nothing.commit() {
        Ok(()) => true,
        Err(error) => error.is_not_found(),
    }
}
