//! Parses `--enforce-node-allocatable`: which resource reservations are enforced, and on which cgroups.

use anyhow::{Result, ensure};
use kubelet::reserved::{Reserved, ReservedGroup};

/// Parses `--enforce-node-allocatable`: whether pods are limited to what is allocatable, and which cgroups are limited
/// to their reservation.
pub(super) fn parse_enforcement(
    enforced: &[String],
    groups: [(&str, &String, &Reserved); 2],
) -> Result<(bool, Vec<ReservedGroup>)> {
    const FLAG: &str = "enforceNodeAllocatable (--enforce-node-allocatable)";
    let has = |key: &str| enforced.iter().any(|one| one == key);
    ensure!(
        !has("none") || enforced.len() == 1,
        "invalid configuration: {FLAG} may not contain additional enforcements when \"none\" is specified"
    );
    let mut found = Vec::new();
    for (name, path, reserved) in groups {
        let compressible = format!("{name}-compressible");
        ensure!(
            !has(name) || !has(&compressible),
            "invalid configuration: both {name:?} and {compressible:?} cannot be specified together in {FLAG}"
        );
        if !has(name) && !has(&compressible) {
            continue;
        }
        ensure!(
            !path.is_empty(),
            "invalid configuration: --{name}-cgroup must be specified when {name:?} or {compressible:?} included in {FLAG}"
        );
        let compressible_only = !has(name);
        let (path, reserved) = (path.clone(), reserved.clone());
        let name = name.replace('-', " ");
        found.push(ReservedGroup { name, path, reserved, compressible_only });
    }
    for one in enforced.iter().filter(|one| !one.is_empty()) {
        let plain = one.strip_suffix("-compressible").unwrap_or(one);
        let known = groups.iter().any(|(name, ..)| *name == plain)
            || ["pods", "none"].contains(&one.as_str());
        ensure!(known, "invalid configuration: option {one:?} specified for {FLAG}");
    }
    Ok((has("pods"), found))
}
