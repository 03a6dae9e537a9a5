//! The registry of the clusters on this host, so that a new cluster uses none of their CIDRs, ports and names.
//!
//! Each cluster has a file in `/run/tiphys` with the network namespace it was started in and its data directory. The
//! files are only a hint: without them, the host's routes and sockets are still checked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{ClusterConfig, DataDir, layout::write_private, node::cgroup_root};

const NOTES: &str = "/run/tiphys";
/// Maximum size in bytes of a registry file, which contains a namespace and a path.
const LARGEST_NOTE: u64 = 8192;

/// Registers a cluster.
pub(super) fn note(layout: &DataDir) {
    let text = format!("{}\n{}", namespace(), layout.dir().display());
    if fs::create_dir_all(NOTES).is_ok() {
        let _ = write_private(&path(layout), text.as_bytes());
    }
}

/// Removes a cluster from the registry, and the directory of the registry if it is empty.
pub(super) fn forget(layout: &DataDir) {
    let _ = fs::remove_file(path(layout));
    let _ = fs::remove_dir(NOTES); // fails if other clusters are registered
}

/// The data directories of all clusters in this network namespace.
pub(super) fn all() -> Vec<PathBuf> {
    let own = namespace();
    let notes = fs::read_dir(NOTES).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = Vec::new();
    for note in notes {
        let Ok(Some(bytes)) = sys::durable_record::read(&note.path(), LARGEST_NOTE) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((network, dir)) = text.split_once('\n') else { continue };
        let dir = PathBuf::from(dir);
        if !dir.join("config.yaml").exists() {
            let _ = fs::remove_file(note.path()); // its data was deleted
        } else if network == own {
            found.push(dir);
        }
    }
    found.sort_unstable();
    found
}

/// The settings of all other clusters.
pub(super) fn others(layout: &DataDir) -> Vec<ClusterConfig> {
    let others = all().into_iter().filter(|dir| dir != layout.dir());
    others.filter_map(|dir| ClusterConfig::load(&dir.join("config.yaml")).ok()).collect()
}

/// A name for the nftables table of kube-proxy that no other cluster uses.
pub(super) fn free_table(layout: &DataDir) -> String {
    match others(layout).iter().any(|other| other.proxy_table == proxy::TABLE) {
        true => format!("{}{}", proxy::TABLE, cgroup_root(layout).replace("/tiphys", "")),
        false => proxy::TABLE.to_owned(),
    }
}

fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    link.display().to_string()
}

fn path(layout: &DataDir) -> PathBuf {
    Path::new(NOTES).join(cgroup_root(layout).trim_matches('/'))
}
