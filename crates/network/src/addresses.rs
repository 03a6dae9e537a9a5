//! Who has which address: one small file per address, named after it, so that a
//! restart finds everything and a crash can leak nothing that `collect` does not
//! find.

use crate::{Attachment, Cidr, Error, PortMapping, Result, about};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The first address is the network's, the second the gateway's.
const FIRST: u32 = 2;
/// A range may be vast; a node never holds more pods than this.
const LARGEST: u32 = 1 << 20;

/// A sandbox's place in the ranges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) ips: Vec<IpAddr>,
    #[serde(default)]
    pub(crate) ports: Vec<PortMapping>,
}

/// The addresses of the node's ranges. With two families a pod has the same
/// distance from the start in both, so one file tells both.
#[derive(Debug)]
pub(crate) struct Ledger {
    directory: PathBuf,
    ranges: Vec<Cidr>,
    records: BTreeMap<String, Record>,
    used: BTreeSet<IpAddr>,
    /// Where the search goes on, so that an address rests before it is used again.
    next: u32,
}

impl Ledger {
    /// Reads what is on disk; a file that was cut by a crash is removed.
    pub(crate) fn open(directory: PathBuf, ranges: Vec<Cidr>) -> Result<Self> {
        let say = directory.display().to_string();
        fs::create_dir_all(&directory).map_err(about(&say))?;
        let mut ledger = Self {
            directory,
            ranges,
            records: BTreeMap::new(),
            used: BTreeSet::new(),
            next: FIRST,
        };
        for entry in fs::read_dir(&ledger.directory).map_err(about(&say))? {
            let path = entry.map_err(about(&say))?.path();
            match read(&path) {
                Some(record) => ledger.take_in(record),
                None => fs::remove_file(&path).map_err(about(path.display().to_string()))?,
            }
        }
        Ok(ledger)
    }

    /// The record of a sandbox; a new one gets the next free address.
    pub(crate) fn allocate(&mut self, attachment: &Attachment) -> Result<Record> {
        if let Some(record) = self.records.get(&attachment.id) {
            return Ok(record.clone());
        }
        let primary = *self.ranges.first().expect("the configuration names a range");
        let size = primary.size().min(LARGEST);
        // The last address of an IPv4 range is its broadcast address.
        let end = if primary.ip.is_ipv4() { size - 1 } else { size };
        let search = (self.next..end).chain(FIRST..self.next.min(end));
        let (at, ips) = search
            .map(|at| (at, self.ranges.iter().filter_map(|r| r.nth(at)).collect::<Vec<_>>()))
            .find(|(_, ips)| {
                ips.len() == self.ranges.len() && !ips.iter().any(|ip| self.used.contains(ip))
            })
            .ok_or(Error::Exhausted(primary))?;
        let record = Record {
            id: attachment.id.clone(),
            namespace: attachment.namespace.clone(),
            name: attachment.name.clone(),
            ips,
            ports: attachment.ports.clone(),
        };
        self.write(&record)?;
        self.next = at + 1;
        self.take_in(record.clone());
        Ok(record)
    }

    /// Forgets a sandbox and gives what it had.
    pub(crate) fn release(&mut self, id: &str) -> Result<Option<Record>> {
        let Some(record) = self.records.get(id) else { return Ok(None) };
        let path = self.path(record);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(about(path.display().to_string())(error));
            }
            _ => {}
        }
        let record = self.records.remove(id).expect("found above");
        for ip in &record.ips {
            self.used.remove(ip);
        }
        Ok(Some(record))
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Record> {
        self.records.get(id)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    fn take_in(&mut self, record: Record) {
        self.used.extend(&record.ips);
        self.records.insert(record.id.clone(), record);
    }

    /// Renamed into place: a reader sees a whole file or none.
    fn write(&self, record: &Record) -> Result<()> {
        let path = self.path(record);
        let partial = path.with_file_name(".partial");
        let bytes = serde_json::to_vec(record).expect("strings, numbers and addresses");
        let say = path.display().to_string();
        fs::write(&partial, bytes).map_err(about(&say))?;
        fs::rename(&partial, &path).map_err(about(&say))
    }

    fn path(&self, record: &Record) -> PathBuf {
        self.directory.join(record.ips.first().expect("a record has an address").to_string())
    }
}

/// A record that says what its file name says.
fn read(path: &Path) -> Option<Record> {
    let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let named: IpAddr = path.file_name()?.to_str()?.parse().ok()?;
    (record.ips.first() == Some(&named)).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(id: &str) -> Attachment {
        Attachment { id: id.to_owned(), ..Attachment::default() }
    }

    fn open(directory: &Path, range: &str) -> Ledger {
        let ranges = vec![range.parse().expect("a range"), "fd00::/64".parse().expect("a range")];
        Ledger::open(directory.to_owned(), ranges).expect("opened")
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
    fn cut_files_are_removed() {
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
