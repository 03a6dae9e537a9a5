//! The kernel's table of connections, sized and timed as upstream's proxy does.

use std::{fs, io, path::Path, thread::available_parallelism};

use tracing::{debug, warn};

/// Connections per processor, and at least so many together.
const PER_CORE: usize = 32_768;
const LEAST: usize = 131_072;
/// Seconds: a day for connections that say nothing, an hour for those that one side has closed.
const ESTABLISHED: usize = 24 * 60 * 60;
const CLOSE_WAIT: usize = 60 * 60;

/// Sets what is not so yet. A machine that does not allow it keeps its settings.
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
                debug!(name, %error, "the machine does not allow this setting");
            } else {
                warn!(name, %error, "a setting of the connection table cannot be made");
            }
        }
    }
}

/// `or_more`: a larger value stays.
fn set(name: &str, value: usize, or_more: bool) -> io::Result<()> {
    let path = Path::new("/proc/sys/net/netfilter").join(name);
    let now = fs::read_to_string(&path)?;
    let now: Option<usize> = now.trim().parse().ok();
    if now.is_some_and(|now| now == value || or_more && now > value) {
        return Ok(());
    }
    fs::write(&path, value.to_string())
}
