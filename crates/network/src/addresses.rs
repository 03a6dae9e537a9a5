//! IP address management (IPAM): one small file per allocated address, named after it. A restart finds all allocations,
//! and `collect` finds everything that a crash may leave behind.

use crate::{Attachment, Cidr, Error, PortMapping, Result, io_error};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use sys::durable_record::{self, Durability};

/// The first address is that of the network, the second that of the gateway.
const FIRST_POD_OFFSET: u32 = 2;
/// Maximum number of addresses that are used of a range.
const MAX_ADDRESSES: u32 = 1 << 20;
/// Maximum size of a record in bytes: names, addresses and the host ports of a pod.
const LARGEST_RECORD: u64 = 16 << 20;

/// The addresses and host ports of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocation {
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) ips: Vec<IpAddr>,
    #[serde(default)]
    pub(crate) port_mappings: Vec<PortMapping>,
}

impl Allocation {
    /// The first address, which names the record and the interface.
    #[expect(
        clippy::expect_used,
        reason = "`allocate` and `read` make no record without an address"
    )]
    pub(crate) fn primary(&self) -> IpAddr {
        *self.ips.first().expect("a record has an address")
    }
}

/// The allocations of the node's podCIDRs. In dual stack a pod has the same offset in both ranges, so one file covers
/// both.
#[derive(Debug)]
pub(crate) struct Ipam {
    directory: PathBuf,
    ranges: Vec<Cidr>,
    records: BTreeMap<String, Allocation>,
    used: BTreeSet<IpAddr>,
    /// The offset where the search continues, so that an address is not reused at once.
    next_offset: u32,
}

impl Ipam {
    /// Reads the records on disk. An unreadable record is moved aside, unless its address `is_used`: then the address
    /// stays allocated.
    pub(crate) fn open(
        directory: PathBuf,
        ranges: Vec<Cidr>,
        is_used: impl Fn(IpAddr) -> bool,
    ) -> Result<Self> {
        let say = directory.display().to_string();
        if !directory.is_dir() && fs::symlink_metadata(&directory).is_ok() {
            tracing::error!(path = say, "the IPAM path is not a directory; moving it aside");
            durable_record::put_aside(&directory).map_err(io_error(&say))?;
        }
        fs::create_dir_all(&directory).map_err(io_error(&say))?;
        let mut ledger = Self {
            directory,
            ranges,
            records: BTreeMap::new(),
            used: BTreeSet::new(),
            next_offset: FIRST_POD_OFFSET,
        };
        for entry in fs::read_dir(&ledger.directory).map_err(io_error(&say))? {
            let path = entry.map_err(io_error(&say))?.path();
            if durable_record::is_new(&path) {
                durable_record::remove_new(&path);
                continue;
            }
            if durable_record::is_aside(&path) {
                continue;
            }
            match read(&path) {
                Ok(record) => ledger.insert(record),
                Err(why) => ledger.unreadable(&path, &why, &is_used),
            }
        }
        Ok(ledger)
    }

    /// Handles an unreadable record: only the address is known.
    fn unreadable(&mut self, path: &Path, why: &str, is_used: impl Fn(IpAddr) -> bool) {
        let path_text = path.display();
        if let Some(ip) = address(path).filter(|ip| is_used(*ip)) {
            tracing::error!(path = %path_text, why, "cannot read the record of an address in use; keeping the address allocated");
            self.used.insert(ip);
            return;
        }
        tracing::error!(path = %path_text, why, "cannot read the record of an address; moving it aside");
        if let Err(error) = durable_record::put_aside(path) {
            tracing::error!(path = %path_text, %error, "cannot move the record aside");
            self.used.extend(address(path));
        }
    }

    /// The allocation of a sandbox; a new sandbox gets the next free address.
    pub(crate) fn allocate(&mut self, attachment: &Attachment) -> Result<Allocation> {
        if let Some(record) = self.records.get(&attachment.sandbox_id) {
            return Ok(record.clone());
        }
        let no_range = || Error::Configuration("there is no range of pod addresses".to_owned());
        let primary = *self.ranges.first().ok_or_else(no_range)?;
        let size = primary.size().min(MAX_ADDRESSES);
        // The last address of an IPv4 range is the broadcast address.
        let end = if primary.ip.is_ipv4() { size - 1 } else { size };
        let search = (self.next_offset..end).chain(FIRST_POD_OFFSET..self.next_offset.min(end));
        let (at, ips) = search
            .map(|at| (at, self.ranges.iter().filter_map(|r| r.nth(at)).collect::<Vec<_>>()))
            .find(|(_, ips)| {
                ips.len() == self.ranges.len() && !ips.iter().any(|ip| self.used.contains(ip))
            })
            .ok_or(Error::Exhausted(primary))?;
        let record = Allocation {
            id: attachment.sandbox_id.clone(),
            namespace: attachment.namespace.clone(),
            name: attachment.name.clone(),
            ips,
            port_mappings: attachment.port_mappings.clone(),
        };
        self.write(&record)?;
        self.next_offset = at + 1;
        self.insert(record.clone());
        Ok(record)
    }

    /// Releases the allocation of a sandbox and returns it.
    pub(crate) fn release(&mut self, id: &str) -> Result<Option<Allocation>> {
        let Some(record) = self.records.get(id).cloned() else { return Ok(None) };
        let path = self.path(&record);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io_error(path.display().to_string())(error));
            }
            _ => {}
        }
        self.records.remove(id);
        for ip in &record.ips {
            self.used.remove(ip);
        }
        Ok(Some(record))
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Allocation> {
        self.records.get(id)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Allocation> {
        self.records.values()
    }

    fn insert(&mut self, record: Allocation) {
        self.used.extend(&record.ips);
        self.records.insert(record.id.clone(), record);
    }

    /// Not synced: after a power failure no pod has the address any more.
    fn write(&self, record: &Allocation) -> Result<()> {
        let path = self.path(record);
        let say = path.display().to_string();
        let bytes = serde_json::to_vec(record).map_err(|error| io_error(&say)(error.into()))?;
        durable_record::write(&path, &bytes, Durability::None).map_err(io_error(&say))
    }

    fn path(&self, record: &Allocation) -> PathBuf {
        self.directory.join(record.primary().to_string())
    }
}

/// Reads a record and checks that its file name matches.
fn read(path: &Path) -> Result<Allocation, String> {
    let bytes = durable_record::read(path, LARGEST_RECORD).map_err(|error| error.to_string())?;
    let record: Allocation =
        serde_json::from_slice(&bytes.unwrap_or_default()).map_err(|error| error.to_string())?;
    if record.ips.is_empty() || record.ips.first().copied() != address(path) {
        return Err("it is the record of another address".to_owned());
    }
    Ok(record)
}

/// The address that a record's file is named after.
fn address(path: &Path) -> Option<IpAddr> {
    path.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(id: &str) -> Attachment {
        Attachment { sandbox_id: id.to_owned(), ..Attachment::default() }
    }

    fn open(directory: &Path, range: &str) -> Ipam {
        let ranges = vec![range.parse().expect("a range"), "fd00::/64".parse().expect("a range")];
        Ipam::open(directory.to_owned(), ranges, |_| false).expect("opened")
    }

    #[test]
    fn a_restart_keeps_addresses_and_a_full_range_says_so() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = open(directory.path(), "10.244.1.0/29");
        let first = ledger.allocate(&attachment("a")).expect("free");
        assert_eq!(first.ips[0], IpAddr::from([10, 244, 1, 2]));
        assert_eq!(first.ips[1], "fd00::2".parse::<IpAddr>().expect("an address"));
        let mut ledger = open(directory.path(), "10.244.1.0/29");
        assert_eq!(ledger.allocate(&attachment("a")).expect("kept"), first);
        for id in ["b", "c", "d", "e"] {
            assert_ne!(ledger.allocate(&attachment(id)).expect("free").ips, first.ips);
        }
        assert!(matches!(ledger.allocate(&attachment("f")), Err(Error::Exhausted(_))));
        ledger.release("c").expect("released").expect("was there");
        assert_eq!(
            ledger.allocate(&attachment("f")).expect("freed").ips[0].to_string(),
            "10.244.1.4"
        );
    }

    #[test]
    fn an_address_rests_before_it_is_used_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = open(directory.path(), "10.244.1.0/24");
        let first = ledger.allocate(&attachment("a")).expect("free");
        ledger.release("a").expect("released");
        assert_ne!(ledger.allocate(&attachment("b")).expect("free").ips, first.ips);
    }

    #[test]
    fn anything_may_stand_in_the_place_of_a_record() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |ip: &str| directory.path().join(ip);
        fs::write(at("10.244.1.2"), "").expect("written");
        fs::create_dir_all(at("10.244.1.3").join("below")).expect("a folder");
        let fifo = std::process::Command::new("mkfifo").arg(at("10.244.1.4")).status();
        assert!(fifo.expect("mkfifo").success());
        fs::File::create(at("10.244.1.5")).and_then(|f| f.set_len(1 << 40)).expect("sparse");
        fs::write(at("not an address"), "{}").expect("written");
        let ranges = vec!["10.244.1.0/24".parse().expect("a range")];
        let used = |ip: IpAddr| ip == IpAddr::from([10, 244, 1, 4]);
        for _ in 0..2 {
            let mut ledger =
                Ipam::open(directory.path().to_owned(), ranges.clone(), used).expect("opened");
            let given = ["a", "b", "c"]
                .map(|id| ledger.allocate(&attachment(id)).expect("free").ips[0].to_string());
            assert_eq!(given, ["10.244.1.2", "10.244.1.3", "10.244.1.5"], "one is in use");
        }
        fs::remove_dir_all(directory.path().join("10.244.1.3")).ok();
        fs::write(at("other"), "").expect("written");
        Ipam::open(at("other"), ranges, used).expect("a file in the place of the folder");
    }

    #[test]
    fn cut_files_are_put_aside() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("10.244.1.2"), b"{\"id\":").expect("written");
        let mut ledger = open(directory.path(), "10.244.1.0/24");
        assert_eq!(ledger.records().count(), 0);
        assert_eq!(
            ledger.allocate(&attachment("a")).expect("free").ips[0].to_string(),
            "10.244.1.2"
        );
    }
}
