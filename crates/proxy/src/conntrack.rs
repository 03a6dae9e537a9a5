//! Conntrack limits and timeouts, set as upstream's kube-proxy does.

use std::{fs, io, path::Path, thread::available_parallelism};

use tracing::{debug, warn};

/// Maximum conntrack entries per CPU core, and the minimum of the total.
const PER_CORE: usize = 32_768;
const LEAST: usize = 131_072;
/// Timeouts in seconds of established and of half-closed (CLOSE_WAIT) TCP connections.
const ESTABLISHED: usize = 24 * 60 * 60;
const CLOSE_WAIT: usize = 60 * 60;

/// Sets the sysctls that differ. Where the host does not permit it, they are left as they are.
pub(crate) fn set_up() {
    let cores = available_parallelism().map_or(1, usize::from);
    let most = cores.saturating_mul(PER_CORE).max(LEAST);
    let settings = [
        ("nf_conntrack_max", most, true),
        ("nf_conntrack_tcp_timeout_established", ESTABLISHED, false),
        ("nf_conntrack_tcp_timeout_close_wait", CLOSE_WAIT, false),
    ];
    for (name, value, or_more) in settings {
        if let Err(error) = set(name, value, or_more) {
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) {
                debug!(name, %error, "the kernel does not permit a conntrack setting");
            } else {
                warn!(name, %error, "cannot apply a conntrack setting");
            }
        }
    }
}

/// Sets a sysctl; with `or_more` a larger value is kept.
fn set(name: &str, value: usize, or_more: bool) -> io::Result<()> {
    let path = Path::new("/proc/sys/net/netfilter").join(name);
    let now = fs::read_to_string(&path)?;
    let now: Option<usize> = now.trim().parse().ok();
    if now.is_some_and(|now| now == value || or_more && now > value) {
        return Ok(());
    }
    fs::write(&path, value.to_string())
}
