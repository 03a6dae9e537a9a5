//! Seccomp profiles: the runtime's default, and profile files.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::Deserialize;
use sys::{
    capability::CapabilitySet,
    seccomp::{Action, Compare, Condition, Rule, compile, names, number},
};

const PERMISSION: u32 = 1;
const NO_SUCH_CALL: u32 = 38;

/// This host's architecture in profiles.
const NATIVE: &str =
    if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };

/// Compiled seccomp filters, in loading order.
pub(crate) type Filters = Vec<Vec<u64>>;

/// The runtime's default seccomp filter (`RuntimeDefault`). It allows all known system calls except those that can harm
/// the host or need a capability that the container lacks.
pub(crate) fn default(capabilities: CapabilitySet) -> io::Result<Filters> {
    let held =
        |name: &str| CapabilitySet::from_name(name).is_some_and(|one| capabilities.contains(one));
    let needs: BTreeMap<&str, &[&str]> = CAPABILITY_SYSCALLS
        .iter()
        .flat_map(|(calls, capabilities)| calls.iter().map(|call| (*call, *capabilities)))
        .collect();
    let judged = ["clone", "clone3", "socket", "personality"];
    let free = names().filter(|name| {
        let allowed = needs.get(name).is_none_or(|any| any.iter().any(|one| held(one)));
        allowed && !DENIED_SYSCALLS.contains(name) && !judged.contains(name)
    });
    let mut rules = vec![rule(free, &[], Action::Allow)];
    let on = |argument, compare, value| Condition { argument, compare, value };
    // AF_VSOCK sockets, which reach the hypervisor, stay blocked.
    rules.push(rule(["socket"], &[on(0, Compare::NotEqual, 40)], Action::Allow));
    for value in [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff] {
        rules.push(rule(["personality"], &[on(0, Compare::Equal, value)], Action::Allow));
    }
    if held("SYS_ADMIN") {
        rules.push(rule(["clone", "clone3"], &[], Action::Allow));
    } else {
        let namespaces = 0x7e02_0000;
        rules.push(rule(["clone"], &[on(0, Compare::Masked(namespaces), 0)], Action::Allow));
        // A filter cannot see the flags of clone3; with ENOSYS, C libraries fall back to clone.
        rules.push(rule(["clone3"], &[], Action::Errno(NO_SUCH_CALL)));
    }
    compile(Action::Errno(PERMISSION), &rules)
}

/// Compiles a profile file in the OCI format.
pub(crate) fn from_file(path: &Path) -> io::Result<Filters> {
    let wrong = |error: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("profile {}: {error}", path.display()))
    };
    let profile: Profile =
        serde_json::from_slice(&fs::read(path)?).map_err(|error| wrong(error.to_string()))?;
    profile.filters().map_err(|error| wrong(error.to_string()))
}

fn rule<'a>(
    calls: impl IntoIterator<Item = &'a str>,
    conditions: &[Condition],
    action: Action,
) -> Rule {
    let numbers = calls.into_iter().filter_map(number).collect();
    Rule { syscalls: numbers, conditions: conditions.to_vec(), action }
}

/// A seccomp profile. Unknown fields are an error, because they request something that is not implemented.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Profile {
    default_action: String,
    default_errno_ret: Option<u32>,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    syscalls: Vec<ProfileSyscall>,
}

/// System calls with a common action and common conditions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProfileSyscall {
    #[serde(default, rename = "comment")]
    _comment: String,
    #[serde(default)]
    names: Vec<String>,
    action: String,
    errno_ret: Option<u32>,
    #[serde(default)]
    args: Option<Vec<Argument>>,
}

/// A condition on an argument.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Argument {
    index: u8,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

impl Profile {
    fn filters(&self) -> io::Result<Filters> {
        // Filters handle system calls of the native architecture; calls of any other one kill the process.
        if !self.architectures.is_empty() && !self.architectures.iter().any(|one| one == NATIVE) {
            return Err(io::Error::other(format!("architectures without {NATIVE}")));
        }
        let default = action(&self.default_action, self.default_errno_ret)?;
        let mut rules = Vec::new();
        for calls in &self.syscalls {
            let conditions =
                calls.args.iter().flatten().map(condition).collect::<io::Result<Vec<_>>>()?;
            // A name that is not in this kernel's table is skipped: it cannot be called by that name either.
            let numbers = calls.names.iter().filter_map(|name| number(name)).collect();
            rules.push(Rule {
                syscalls: numbers,
                conditions,
                action: action(&calls.action, calls.errno_ret)?,
            });
        }
        compile(default, &rules)
    }
}

fn action(name: &str, errno: Option<u32>) -> io::Result<Action> {
    Ok(match name {
        "SCMP_ACT_ALLOW" => Action::Allow,
        "SCMP_ACT_ERRNO" => Action::Errno(errno.unwrap_or(PERMISSION)),
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_TRACE" => Action::Trace(errno.unwrap_or(PERMISSION)),
        "SCMP_ACT_TRAP" => Action::Trap,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_KILL_PROCESS" => Action::KillProcess,
        other => return Err(io::Error::other(format!("action {other:?} is not supported"))),
    })
}

fn condition(from: &Argument) -> io::Result<Condition> {
    let (compare, value) = match from.op.as_str() {
        "SCMP_CMP_EQ" => (Compare::Equal, from.value),
        "SCMP_CMP_NE" => (Compare::NotEqual, from.value),
        "SCMP_CMP_LT" => (Compare::Less, from.value),
        "SCMP_CMP_LE" => (Compare::LessOrEqual, from.value),
        "SCMP_CMP_GT" => (Compare::Greater, from.value),
        "SCMP_CMP_GE" => (Compare::GreaterOrEqual, from.value),
        "SCMP_CMP_MASKED_EQ" => (Compare::Masked(from.value), from.value_two),
        other => return Err(io::Error::other(format!("comparison {other:?} is not supported"))),
    };
    Ok(Condition { argument: from.index, compare, value })
}

/// System calls that need one of the capabilities.
const CAPABILITY_SYSCALLS: &[(&[&str], &[&str])] = &[
    (
        &[
            "fanotify_init",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "lookup_dcookie",
            "mount",
            "mount_setattr",
            "move_mount",
            "open_tree",
            "quotactl",
            "quotactl_fd",
            "setdomainname",
            "sethostname",
            "setns",
            "umount2",
            "unshare",
        ],
        &["SYS_ADMIN"],
    ),
    (&["bpf"], &["SYS_ADMIN", "BPF"]),
    (&["perf_event_open"], &["SYS_ADMIN", "PERFMON"]),
    (&["syslog"], &["SYS_ADMIN", "SYSLOG"]),
    (&["open_by_handle_at"], &["DAC_READ_SEARCH"]),
    (&["reboot"], &["SYS_BOOT"]),
    (&["chroot"], &["SYS_CHROOT"]),
    (&["delete_module", "init_module", "finit_module"], &["SYS_MODULE"]),
    (&["acct"], &["SYS_PACCT"]),
    (
        &["kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev"],
        &["SYS_PTRACE"],
    ),
    (&["iopl", "ioperm"], &["SYS_RAWIO"]),
    (&["settimeofday", "clock_settime"], &["SYS_TIME"]),
    (&["vhangup"], &["SYS_TTY_CONFIG"]),
    (&["get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"], &["SYS_NICE"]),
];

/// System calls that no container needs: kernel keyrings, kexec, io_uring, and obsolete ones.
const DENIED_SYSCALLS: &[&str] = &[
    "_sysctl",
    "add_key",
    "afs_syscall",
    "create_module",
    "epoll_ctl_old",
    "epoll_wait_old",
    "get_kernel_syms",
    "getpmsg",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "migrate_pages",
    "move_pages",
    "nfsservctl",
    "pivot_root",
    "putpmsg",
    "query_module",
    "request_key",
    "security",
    "swapoff",
    "swapon",
    "sysfs",
    "tuxcall",
    "uselib",
    "userfaultfd",
    "ustat",
    "vserver",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_compiles_with_and_without_rights() {
        // An allow list, and one program for the calls that fail with ENOSYS.
        assert_eq!(default(CapabilitySet(0)).expect("compiles").len(), 2);
        assert_eq!(default(CapabilitySet::ALL).expect("compiles").len(), 1);
    }

    #[test]
    fn profiles_of_files() {
        let text = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["sethostname", "no_such"], "action": "SCMP_ACT_ERRNO"}]}"#;
        let profile: Profile = serde_json::from_str(text).expect("a profile");
        assert_eq!(profile.filters().expect("compiles").len(), 1);
        assert!(action("SCMP_ACT_NOTIFY", None).is_err());
    }

    #[test]
    fn what_a_profile_wants_beyond_us_is_refused() {
        let judge = |rest: &str| {
            let text = format!(r#"{{"defaultAction": "SCMP_ACT_ALLOW", {rest}}}"#);
            let profile = serde_json::from_str::<Profile>(&text).map_err(io::Error::other)?;
            profile.filters().map(drop)
        };
        judge(&format!(r#""architectures": ["{NATIVE}", "SCMP_ARCH_X32"]"#)).expect("native");
        judge(r#""architectures": ["SCMP_ARCH_S390X"]"#).expect_err("foreign");
        judge(r#""flags": ["SECCOMP_FILTER_FLAG_TSYNC"]"#).expect_err("flags");
        judge(r#""listenerPath": "/run/x""#).expect_err("a listener");
        judge(r#""syscalls": [{"names": [], "action": "SCMP_ACT_LOG", "includes": {"caps": []}}]"#)
            .expect_err("conditions on the container");
    }
}
