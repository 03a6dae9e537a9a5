//! Facts about the host: capacity, ids, kernel and operating system.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    path::Path,
};

use object::{Quantity, quantity::Format};

/// Capacity and identity of the host, read once at start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) cpus: i64,
    /// Bytes.
    pub(crate) memory: i64,
    /// Size in bytes of the file system that holds the pods' volumes.
    pub(crate) disk: i64,
    pub(crate) machine_id: String,
    pub(crate) system_uuid: String,
    pub(crate) boot_id: String,
    pub(crate) kernel: String,
    pub(crate) os: String,
}

impl Machine {
    /// Reads the facts from `/proc`, `/sys` and `/etc`.
    pub(crate) fn read(root: &Path) -> Self {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let machine_id = line("/etc/machine-id");
        let system_uuid = match line("/sys/class/dmi/id/product_uuid") {
            uuid if uuid.is_empty() => machine_id.clone(),
            uuid => uuid,
        };
        let release = line("/etc/os-release");
        let os = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        Self {
            cpus: std::thread::available_parallelism()
                .map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
            memory: memory("MemTotal:"),
            disk: disk(root).0,
            machine_id,
            system_uuid,
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            kernel: line("/proc/sys/kernel/osrelease"),
            os: os.unwrap_or("Linux").trim_matches('"').to_owned(),
        }
    }

    /// Capacity of the node: cpu, memory and ephemeral-storage.
    pub(crate) fn resources(&self) -> BTreeMap<String, Quantity> {
        let bytes = |n: i64| Quantity::new(n, Format::BinarySi);
        [
            ("cpu".to_owned(), Quantity::new(self.cpus, Format::DecimalSi)),
            ("memory".to_owned(), bytes(self.memory / 1024 * 1024)),
            ("ephemeral-storage".to_owned(), bytes(self.disk / 1024 * 1024)),
        ]
        .into()
    }
}

/// A value of `/proc/meminfo`, in bytes.
pub(crate) fn memory(name: &str) -> i64 {
    let table = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// Size of a file system and its free space, in bytes.
pub(crate) fn disk(path: &Path) -> (i64, i64) {
    let Ok(stat) = rustix::fs::statvfs(path) else { return (0, 0) };
    let bytes = |blocks: u64| i64::try_from(blocks * stat.f_frsize).unwrap_or(i64::MAX);
    (bytes(stat.f_blocks), bytes(stat.f_bavail))
}

/// The source address of the host's default route. Sends no packet.
pub(crate) fn address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // an address reserved for documentation: connecting a UDP socket only looks up the route
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}
