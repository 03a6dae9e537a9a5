//! Resource limits of a process (`setrlimit`).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// No limit.
pub const UNLIMITED: Option<u64> = None;

/// Sets the soft and the hard limit of a resource. Without the privilege to raise limits, neither is set above the
/// current hard limit.
pub fn set(resource: Resource, soft: Option<u64>, hard: Option<u64>) -> io::Result<()> {
    if setrlimit(resource, Rlimit { current: soft, maximum: hard }).is_ok() {
        return Ok(());
    }
    let held = getrlimit(resource).maximum;
    let limits = Rlimit { current: lower(lower(soft, hard), held), maximum: lower(hard, held) };
    Ok(setrlimit(resource, limits)?)
}

/// The lower of two limits.
fn lower(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_limit_counts() {
        assert_eq!(lower(Some(5), UNLIMITED), Some(5));
        assert_eq!(lower(UNLIMITED, Some(5)), Some(5));
        assert_eq!(lower(Some(4), Some(5)), Some(4));
        assert_eq!(lower(UNLIMITED, UNLIMITED), UNLIMITED);
    }
}
