//! The pause process of a pod: it holds the namespaces and reaps children.

use std::{
    fs,
    io::{self, Read},
    os::unix::net::UnixStream,
    path::Path,
};

use sys::{
    capability::{self, CapabilitySet},
    descriptor, keyring, mount, namespace, process,
};

use super::{
    process::{adjust_oom_score, join_cgroup},
    root::ErrorContext,
};
use crate::spec::SandboxSpec;

/// Starts the pause process; returns its pid when it is set up.
pub(super) fn start(spec: &SandboxSpec) -> Result<i32, String> {
    let kinds = [
        (spec.new_network_namespace, namespace::NETWORK),
        (spec.own_ipc, namespace::IPC),
        (spec.own_pid, namespace::PID),
        (spec.own_uts, namespace::UTS),
        (spec.id_maps.is_some(), namespace::USER),
    ];
    let new = kinds.iter().filter(|(own, _)| *own).fold(0, |all, (_, kind)| all | kind);
    let (mut ours, theirs) = UnixStream::pair().doing(|| "make a report".into())?;
    let pid = process::fork(new, || {
        use std::io::Write;
        if spec.id_maps.is_some() && (&theirs).read_exact(&mut [0]).is_err() {
            return 1;
        }
        match set_up(spec) {
            Ok(()) => {
                let _ = (&theirs).write_all(b"\0"); // a parent that is gone needs no report
                process::set_name(c"tiphys-pause");
                match process::close_fds_except(&[]) {
                    Ok(()) => match process::reap_forever() {},
                    Err(_) => 1,
                }
            }
            Err(error) => {
                let _ = (&theirs).write_all(error.as_bytes());
                1
            }
        }
    })
    .doing(|| "fork the sandbox".into())?;
    drop(theirs);
    if let Some(maps) = &spec.id_maps {
        use std::io::Write;
        super::users::write_id_maps(pid, maps).doing(|| "write the user maps".into())?;
        ours.write_all(b"\0").doing(|| "wake the sandbox".into())?;
    }
    // the process reports a zero byte when it is set up, or an error message
    let mut report = Vec::new();
    ours.take(4096).read_to_end(&mut report).doing(|| "start the sandbox".into())?;
    if report == b"\0" {
        return Ok(pid);
    }
    let _ = process::wait(pid); // it has reported its error and exits
    Err(format!("sandbox: {}", String::from_utf8_lossy(&report)))
}

fn set_up(spec: &SandboxSpec) -> Result<(), String> {
    process::die_with_parent(9).doing(|| "follow the shim".into())?;
    let warnings = &mut Vec::new();
    adjust_oom_score(Some(spec.oom_score_adj).filter(|score| *score != 0), warnings);
    join_cgroup(&spec.cgroup_procs)?;
    process::new_session();
    if spec.own_uts && !spec.hostname.is_empty() {
        namespace::set_hostname(&spec.hostname).doing(|| "set the host name".into())?;
    }
    if spec.new_network_namespace {
        namespace::loopback_up().doing(|| "bring up loopback".into())?;
    }
    for (name, value) in &spec.sysctls {
        sysctl(name, value)?;
    }
    if spec.own_pid {
        leave_host().doing(|| "leave the host's files".into())?;
    }
    process::set_non_dumpable().doing(|| "forbid inspection".into())
}

/// Leaves the host's file system. Containers that share the PID namespace see this process, and through /proc the root
/// of its mount namespace, which is therefore empty.
fn leave_host() -> io::Result<()> {
    keyring::new_session()?;
    namespace::unshare(namespace::MOUNT)?;
    let host = descriptor::open_path(Path::new("/"))?;
    mount::set_propagation(&host, mount::Propagation::Private, true)?;
    let limits = mount::READ_ONLY | mount::NO_SUID | mount::NO_DEV | mount::NO_EXEC;
    let empty =
        mount::new_filesystem("tmpfs", &[("size", Some("0")), ("mode", Some("555"))], limits)?;
    mount::attach_tree(&empty, &host)?;
    rustix::process::fchdir(&empty)?;
    mount::pivot_root()?;
    // It only needs to receive signals and reap; as the first process of the PID namespace it needs no capabilities for
    // that.
    capability::limit_bounding_set(CapabilitySet::default())?;
    capability::set(
        CapabilitySet::default(),
        CapabilitySet::default(),
        CapabilitySet::default(),
        CapabilitySet::default(),
    )
}

/// Sets a sysctl; the name may be written `net.ipv4.ip_forward` or `net/ipv4/ip_forward`.
fn sysctl(name: &str, value: &str) -> Result<(), String> {
    let path = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    if path.split('/').any(|part| part == ".." || part.is_empty()) {
        return Err(format!("sysctl {name:?} is no name"));
    }
    fs::write(format!("/proc/sys/{path}"), value)
        .doing(|| format!("set sysctl {name} to {value:?}"))
}
