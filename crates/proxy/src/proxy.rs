//! The shell: keeps both families' tables in the kernel as services change.

use crate::{Node, Result, Service, ServiceName, Tracker, stale};
use std::net::IpAddr;
use sys::netlink::{NetworkNamespace, within};
use sys::nft::{self, Batch, Family, Table, difference};

/// The proxy of one node. It owns the table that the node names, of both families.
#[derive(Debug)]
pub struct Proxy {
    trackers: Vec<Tracker>,
    home: NetworkNamespace,
    node_port_ips: Vec<IpAddr>,
    table: String,
    /// The kernel holds what the trackers say.
    in_step: bool,
}

impl Proxy {
    /// Works in the calling thread's network namespace, for the families that the
    /// node has addresses of. Writes nothing yet.
    pub fn new(node: &Node) -> Result<Self> {
        let families = [Family::Ip, Family::Ip6];
        let trackers = families
            .into_iter()
            .filter(|family| node.ips.iter().any(|ip| Family::of(*ip) == *family))
            .map(|family| Tracker::new(node.clone(), family))
            .collect();
        Ok(Self {
            trackers,
            home: NetworkNamespace::current()?,
            node_port_ips: node.node_port_ips.clone(),
            table: node.table.clone(),
            in_step: false,
        })
    }

    /// Takes in what changed (`None`: gone) and writes it: the first time, and
    /// after a failure, everything; otherwise the difference. Always one
    /// transaction, so that no packet sees half of it. Gives the number of
    /// elements, rules, chains and sets that were touched.
    pub fn update(&mut self, changed: &[(ServiceName, Option<Service>)]) -> Result<usize> {
        let mut step = Batch::new();
        for tracker in &mut self.trackers {
            step.append(tracker.update(changed.iter().map(|(name, s)| (name, s.as_ref()))));
        }
        if self.in_step {
            match self.commit(&step) {
                Ok(()) => return Ok(step.touched()),
                Err(error) => {
                    tracing::warn!(%error, "the table is not what it was; writing it whole");
                    self.in_step = false;
                }
            }
        }
        let mut whole = Batch::new();
        for tracker in &self.trackers {
            whole.append(difference(None, &tracker.table()));
        }
        self.commit(&whole)?;
        self.in_step = true;
        Ok(whole.touched())
    }

    /// Writes everything again if somebody else has changed the tables. `known`: the generation
    /// that was looked at last; gives the one that was looked at now, and whether it wrote.
    pub fn repair(&mut self, known: Option<u32>) -> Result<(u32, bool)> {
        let generation = within(&self.home, nft::generation)??;
        if known == Some(generation) || !self.in_step {
            return Ok((generation, false));
        }
        let tables: Vec<Table> = self.trackers.iter().map(Tracker::table).collect();
        let intact = within(&self.home, || -> Result<bool> {
            for table in &tables {
                if !nft::is_intact(table)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })??;
        if !intact {
            tracing::warn!("somebody changed the tables of services; writing them again");
            self.in_step = false;
            self.update(&[])?;
        }
        Ok((generation, !intact))
    }

    /// The families that it serves.
    pub fn families(&self) -> Vec<Family> {
        self.trackers.iter().map(Tracker::family).collect()
    }

    /// Whether the next update writes only what differs.
    pub fn is_in_step(&self) -> bool {
        self.in_step
    }

    /// Removes the tables.
    pub fn down(&mut self) -> Result<()> {
        self.in_step = false;
        self.commit(&removal(&self.table))
    }

    /// Forgets the UDP flows of these services that lead where nobody serves them
    /// any more. Gives their number.
    pub fn forget_stale(&self, changed: &[(ServiceName, Option<Service>)]) -> Result<usize> {
        let services = changed.iter().filter_map(|(_, service)| service.as_ref());
        let places = stale::places(services, &self.node_port_ips);
        if places.is_empty() {
            return Ok(0);
        }
        within(&self.home, || stale::forget(&places))?
    }

    fn commit(&self, batch: &Batch) -> Result<()> {
        within(&self.home, || batch.commit())?
    }
}

/// Removes the tables of this name from the calling thread's network namespace.
pub fn cleanup(table: &str) -> Result<()> {
    removal(table).commit()
}

fn removal(table: &str) -> Batch {
    let mut batch = Batch::remove_table(Family::Ip, table);
    batch.append(Batch::remove_table(Family::Ip6, table));
    batch
}
