//! Writes the nftables tables of both IP families as services change.

use crate::{NodeConfig, Result, Service, ServiceName, TableTracker, stale_conntrack};
use std::net::IpAddr;
use sys::netlink::{NetworkNamespace, run_in_netns};
use sys::nft::{self, Batch, Family, Table, diff};

/// The proxy of one node. It owns the configured table in both IP families.
#[derive(Debug)]
pub struct Proxier {
    trackers: Vec<TableTracker>,
    netns: NetworkNamespace,
    node_port_ips: Vec<IpAddr>,
    table: String,
    /// Whether the kernel has what the trackers contain.
    in_sync: bool,
}

impl Proxier {
    /// Creates a proxy for the calling thread's network namespace and the IP families of the node.
    /// Does not write anything yet.
    pub fn new(node: &NodeConfig) -> Result<Self> {
        let families = [Family::Ip, Family::Ip6];
        let trackers = families
            .into_iter()
            .filter(|family| node.ips.iter().any(|ip| Family::of(*ip) == *family))
            .map(|family| TableTracker::new(node.clone(), family))
            .collect();
        Ok(Self {
            trackers,
            netns: NetworkNamespace::current()?,
            node_port_ips: node.node_port_ips.clone(),
            table: node.table.clone(),
            in_sync: false,
        })
    }

    /// Applies changed services (`None`: deleted). The first time, and after a failure, it writes
    /// the whole tables; otherwise the differences. It is always one transaction, so that no packet
    /// sees an intermediate state. Returns the number of elements, rules, chains and sets that were
    /// changed.
    pub fn update(&mut self, changed: &[(ServiceName, Option<Service>)]) -> Result<usize> {
        let mut step = Batch::new();
        for tracker in &mut self.trackers {
            step.append(tracker.update(changed.iter().map(|(name, s)| (name, s.as_ref()))));
        }
        if self.in_sync {
            match self.commit(&step) {
                Ok(()) => return Ok(step.change_count()),
                Err(error) => {
                    tracing::warn!(%error, "the nftables table was changed by another program; rewriting it");
                    self.in_sync = false;
                }
            }
        }
        let mut whole = Batch::new();
        for tracker in &self.trackers {
            whole.append(diff(None, &tracker.table()));
        }
        self.commit(&whole)?;
        self.in_sync = true;
        Ok(whole.change_count())
    }

    /// Writes the tables again if another process has changed them. `known` is the ruleset
    /// generation at the last check; returns the current one, and whether it wrote.
    pub fn repair(&mut self, known: Option<u32>) -> Result<(u32, bool)> {
        let generation = run_in_netns(&self.netns, nft::generation)??;
        if known == Some(generation) || !self.in_sync {
            return Ok((generation, false));
        }
        let tables: Vec<Table> = self.trackers.iter().map(TableTracker::table).collect();
        let intact = run_in_netns(&self.netns, || -> Result<bool> {
            for table in &tables {
                if !nft::is_intact(table)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })??;
        if !intact {
            tracing::warn!("the nftables tables were changed by another program; rewriting them");
            self.in_sync = false;
            self.update(&[])?;
        }
        Ok((generation, !intact))
    }

    /// The IP families that are served.
    pub fn families(&self) -> Vec<Family> {
        self.trackers.iter().map(TableTracker::family).collect()
    }

    /// Whether the next update writes only differences.
    pub fn is_in_step(&self) -> bool {
        self.in_sync
    }

    /// Removes the tables.
    pub fn remove_tables(&mut self) -> Result<()> {
        self.in_sync = false;
        self.commit(&removal_batch(&self.table))
    }

    /// Deletes the conntrack entries of UDP flows of these services whose endpoint no longer
    /// serves. Returns their number.
    pub fn delete_stale_conntrack(
        &self,
        changed: &[(ServiceName, Option<Service>)],
    ) -> Result<usize> {
        let services = changed.iter().filter_map(|(_, service)| service.as_ref());
        let places = stale_conntrack::udp_services(services, &self.node_port_ips);
        if places.is_empty() {
            return Ok(0);
        }
        run_in_netns(&self.netns, || stale_conntrack::delete_stale_entries(&places))?
    }

    fn commit(&self, batch: &Batch) -> Result<()> {
        run_in_netns(&self.netns, || batch.commit())?
    }
}

/// Removes the tables of this name from the calling thread's network namespace.
pub fn cleanup(table: &str) -> Result<()> {
    removal_batch(table).commit()
}

fn removal_batch(table: &str) -> Batch {
    let mut batch = Batch::remove_table(Family::Ip, table);
    batch.append(Batch::remove_table(Family::Ip6, table));
    batch
}
