//! The built-in pod network: routed veth pairs, IPAM on disk, and one nftables table per address family.

use crate::addresses::{Allocation, Ipam};
use crate::interface::{self, POD_INTERFACE, VethConfig, sysctl};
use crate::names::Names;
use crate::rules::{conflicts, table};
use crate::{AddResult, Attachment, Cni, Error, Result, routes};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use sys::netlink::{self, Address, Cidr, NetlinkFamily, NetworkNamespace, Socket, run_in_netns};
use sys::nft::{self, Batch, Table, diff};

/// Interval at which the rules in the kernel are checked.
const REPAIR: Duration = Duration::from_secs(10);

/// Configuration of the network of a node.
#[derive(Debug, Clone)]
pub struct BuiltinConfig {
    /// Directory of the IPAM records. Interface and table names are derived from it.
    pub directory: PathBuf,
    /// The node's podCIDRs, at most one per address family, the primary one first.
    pub pod_cidrs: Vec<Cidr>,
    /// The cluster CIDRs: packets to other destinations are masqueraded.
    pub cluster_cidrs: Vec<Cidr>,
    pub mtu: u32,
}

/// The network of this node. Clones share it.
#[derive(Debug, Clone)]
pub struct BuiltinNetwork(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: BuiltinConfig,
    veth: VethConfig,
    /// The host's network namespace: that of the thread that started the network.
    host_netns: NetworkNamespace,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ipam: Ipam,
    /// The tables written to the kernel; `None` after a failed write.
    tables: Option<Vec<Table>>,
}

/// Removes everything of the network of this directory from the kernel: interfaces, routes and rules in the calling
/// thread's namespace. Also deletes the IPAM records. It writes nothing to disk, so it works when the disk is full and
/// when the network never started.
pub fn remove(directory: &Path, cluster: &[Cidr]) -> Result<()> {
    let names = Names::of(directory);
    let mut socket = Socket::open(NetlinkFamily::Route)?;
    for link in netlink::links(&mut socket)? {
        if link.name == names.gateway_bridge || names.is_interface(&link.name) {
            interface::remove(&mut socket, &link.name)?;
        }
    }
    routes::apply(cluster, &BTreeMap::new())?;
    for family in [sys::nft::Family::Ip, sys::nft::Family::Ip6] {
        Batch::remove_table(family, &names.nft_table).commit()?;
    }
    let addresses = directory.join(ADDRESSES);
    match std::fs::remove_dir_all(&addresses) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io(addresses.display().to_string(), error))
        }
        _ => Ok(()),
    }
}

/// Subdirectory of the IPAM records.
const ADDRESSES: &str = "addresses";

impl BuiltinNetwork {
    /// Sets up the network in the calling thread's namespace: gateway, sysctls and rules. Existing sandboxes stay
    /// connected.
    pub fn start(config: BuiltinConfig) -> Result<Self> {
        check(&config)?;
        let names = Names::of(&config.directory);
        let gateways: Vec<IpAddr> =
            config.pod_cidrs.iter().filter_map(|range| range.nth(1)).collect();
        create_gateway_bridge(&names, &gateways)?;
        for gateway in &gateways {
            let name =
                if gateway.is_ipv4() { "ipv4/ip_forward" } else { "ipv6/conf/all/forwarding" };
            sysctl(name, "1")?;
        }
        let links = netlink::links(&mut Socket::open(NetlinkFamily::Route)?)?;
        // an address with an interface is in use, whatever the disk contains
        let is_used = |ip: IpAddr| links.iter().any(|link| link.name == names.interface(ip));
        let directory = config.directory.join(ADDRESSES);
        let ledger = Ipam::open(directory, config.pod_cidrs.clone(), is_used)?;
        let node = Inner {
            veth: VethConfig { names, gateways, mtu: config.mtu },
            config,
            host_netns: NetworkNamespace::current()?,
            state: Mutex::new(State { ipam: ledger, tables: None }),
        };
        node.write_rules(&mut node.lock())?;
        let node = Arc::new(node);
        keep_rules(&node);
        Ok(Self(node))
    }

    /// The gateway addresses, one per address family: the node's addresses towards the pods.
    pub fn gateways(&self) -> &[IpAddr] {
        &self.0.veth.gateways
    }

    /// Sets the routes to all other nodes: their podCIDRs and node IPs.
    pub async fn set_routes(&self, peers: BTreeMap<Cidr, IpAddr>) -> Result<()> {
        self.run(move |node| {
            node.in_host_netns(|| routes::apply(&node.config.cluster_cidrs, &peers))
        })
        .await
    }

    /// Removes everything: interfaces, routes, rules and addresses.
    pub async fn tear_down(&self) -> Result<()> {
        self.run(Inner::down).await
    }

    /// Runs blocking kernel calls on a blocking thread.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let node = self.0.clone();
        tokio::task::spawn_blocking(move || work(&node))
            .await
            .map_err(|e| Error::Io("network task".to_owned(), std::io::Error::other(e)))?
    }
}

impl Cni for BuiltinNetwork {
    fn add<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<AddResult>> {
        let attachment = attachment.clone();
        self.run(move |node| node.add(&attachment)).boxed()
    }

    fn remove<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>> {
        let id = attachment.sandbox_id.clone();
        self.run(move |node| node.remove(&id)).boxed()
    }

    fn check<'a>(&'a self, attachment: &'a Attachment) -> BoxFuture<'a, Result<()>> {
        let attachment = attachment.clone();
        self.run(move |node| node.check(&attachment)).boxed()
    }

    fn status(&self) -> BoxFuture<'_, Result<()>> {
        self.run(Inner::status).boxed()
    }

    fn gc<'a>(&'a self, live: &'a BTreeSet<String>) -> BoxFuture<'a, Result<()>> {
        let live = live.clone();
        self.run(move |node| node.collect(&live)).boxed()
    }
}

impl Inner {
    fn add(&self, attachment: &Attachment) -> Result<AddResult> {
        if attachment.bandwidth.is_some() {
            return Err(Error::Unsupported("bandwidth limits of pods".to_owned()));
        }
        let pod = NetworkNamespace::open(&attachment.netns)?;
        let record = {
            let mut state = self.lock();
            check_host_port_conflicts(&state.ipam, attachment)?;
            state.ipam.allocate(attachment)?
        };
        let connected = self.in_host_netns(|| {
            self.veth.connect(&record, &pod)?;
            if record.port_mappings.is_empty() {
                Ok(())
            } else {
                self.write_rules(&mut self.lock())
            }
        });
        if let Err(error) = connected {
            // Undo a partial setup: the caller retries with a new sandbox.
            self.remove(&attachment.sandbox_id)?;
            return Err(error);
        }
        Ok(AddResult { ips: record.ips, interface: POD_INTERFACE.to_owned() })
    }

    /// Disconnects a sandbox. The address is released last, when it is really free.
    fn remove(&self, id: &str) -> Result<()> {
        let Some(record) = self.lock().ipam.get(id).cloned() else { return Ok(()) };
        self.in_host_netns(|| {
            self.veth.disconnect(&record)?;
            let mut state = self.lock();
            state.ipam.release(id)?;
            if record.port_mappings.is_empty() { Ok(()) } else { self.write_rules(&mut state) }
        })
    }

    fn check(&self, attachment: &Attachment) -> Result<()> {
        let not = |why: String| Error::NotConnected(attachment.sandbox_id.clone(), why);
        let record = self.lock().ipam.get(&attachment.sandbox_id).cloned();
        let record = record.ok_or_else(|| not("it has no address".to_owned()))?;
        let pod = NetworkNamespace::open(&attachment.netns)?;
        self.in_host_netns(|| self.veth.find_mismatch(&record, &pod))?
            .map_or(Ok(()), |fault| Err(not(fault)))
    }

    fn status(&self) -> Result<()> {
        self.in_host_netns(|| {
            netlink::link(
                &mut Socket::open(NetlinkFamily::Route)?,
                &self.veth.names.gateway_bridge,
            )?;
            Ok(())
        })
    }

    /// Removes the networks of dead sandboxes, then interfaces without an IPAM record.
    fn collect(&self, live: &BTreeSet<String>) -> Result<()> {
        let dead: Vec<String> = {
            let state = self.lock();
            state.ipam.records().map(|r| r.id.clone()).filter(|id| !live.contains(id)).collect()
        };
        for id in dead {
            tracing::info!(sandbox = id, "removing the network of a deleted sandbox");
            self.remove(&id)?;
        }
        self.in_host_netns(|| {
            let mut socket = Socket::open(NetlinkFamily::Route)?;
            for link in self.interfaces(&mut socket)? {
                // Under the lock: a sandbox that is being added has its record before its interface.
                let state = self.lock();
                let known = |record: &Allocation| self.veth.host_interface_name(record) == link;
                if !state.ipam.records().any(known) {
                    interface::remove(&mut socket, &link)?;
                }
            }
            Ok(())
        })
    }

    fn down(&self) -> Result<()> {
        self.in_host_netns(|| {
            let mut state = self.lock();
            let mut socket = Socket::open(NetlinkFamily::Route)?;
            for link in self.interfaces(&mut socket)? {
                interface::remove(&mut socket, &link)?;
            }
            routes::apply(&self.config.cluster_cidrs, &BTreeMap::new())?;
            interface::remove(&mut socket, &self.veth.names.gateway_bridge)?;
            for table in state.tables.take().unwrap_or_default() {
                Batch::remove_table(table.family, &table.name).commit()?;
            }
            let ids: Vec<String> = state.ipam.records().map(|r| r.id.clone()).collect();
            for id in ids {
                state.ipam.release(&id)?;
            }
            Ok(())
        })
    }

    /// Writes the tables that differ from the last write; all of them after a failed one.
    fn write_rules(&self, state: &mut State) -> Result<()> {
        let names = &self.veth.names;
        let wanted: Vec<Table> = self
            .config
            .pod_cidrs
            .iter()
            .map(|pods| table(names, *pods, &self.config.cluster_cidrs, state.ipam.records()))
            .collect();
        let current = state.tables.take();
        let mut batch = Batch::new();
        for (at, table) in wanted.iter().enumerate() {
            batch.append(diff(current.as_ref().and_then(|tables| tables.get(at)), table));
        }
        batch.commit()?;
        state.tables = Some(wanted);
        Ok(())
    }

    /// Restores rules that another process has changed or removed. `known` is the nftables generation checked last;
    /// returns the one checked now.
    fn repair_rules(&self, known: Option<u32>) -> Result<u32> {
        self.in_host_netns(|| {
            let mut state = self.lock();
            let generation = nft::generation()?;
            let Some(tables) = state.tables.as_ref().filter(|_| known != Some(generation)) else {
                return Ok(generation); // unchanged, or the next write writes everything
            };
            for table in tables {
                if !nft::is_intact(table)? {
                    tracing::warn!(
                        table = table.name,
                        "another process changed the pod network's nftables rules; restoring them"
                    );
                    state.tables = None;
                    self.write_rules(&mut state)?;
                    break;
                }
            }
            Ok(generation)
        })
    }

    /// The names of the host ends of our pods' interfaces.
    fn interfaces(&self, socket: &mut Socket) -> Result<Vec<String>> {
        let ours = |name: &String| self.veth.names.is_interface(name);
        Ok(netlink::links(socket)?.into_iter().map(|link| link.name).filter(ours).collect())
    }

    fn in_host_netns<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        run_in_netns(&self.host_netns, work)?
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The guarded state is on disk and in the kernel: it stays usable after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread that checks the rules for as long as the network exists.
fn keep_rules(node: &Arc<Inner>) {
    let weak = Arc::downgrade(node);
    let watch = move || {
        let mut known = None;
        loop {
            std::thread::sleep(REPAIR);
            let Some(node) = weak.upgrade() else { return };
            match node.repair_rules(known) {
                Ok(generation) => known = Some(generation),
                Err(error) => tracing::warn!(%error, "cannot check the nftables rules"),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("network-rules".into()).spawn(watch) {
        tracing::warn!(%error, "cannot start the thread that checks the pod network's nftables rules");
    }
}

/// Creates a bridge without ports, which holds the gateway addresses independently of the node's other interfaces.
fn create_gateway_bridge(names: &Names, gateways: &[IpAddr]) -> Result<()> {
    let mut socket = Socket::open(NetlinkFamily::Route)?;
    match netlink::add_bridge(&mut socket, &names.gateway_bridge, [0x0a, 0x57, 0, 0, 0, 1]) {
        Err(error) if error.is_already_exists() => {}
        done => done?,
    }
    let index = netlink::link(&mut socket, &names.gateway_bridge)?.index;
    for gateway in gateways {
        let prefix = Cidr::host(*gateway).prefix;
        netlink::add_address(&mut socket, Address { index, ip: *gateway, prefix })?;
    }
    Ok(())
}

fn check(config: &BuiltinConfig) -> Result<()> {
    let families = |v4| config.pod_cidrs.iter().filter(|range| range.ip.is_ipv4() == v4).count();
    if config.pod_cidrs.is_empty() || families(true) > 1 || families(false) > 1 {
        return Err(Error::Configuration(
            "one pod range a family is needed, and at least one".to_owned(),
        ));
    }
    match config.pod_cidrs.iter().find(|range| range.size() < 4) {
        Some(range) => Err(Error::Configuration(format!("{range} has no room for pods"))),
        None => Ok(()),
    }
}

/// Rejects a host port that another sandbox uses.
fn check_host_port_conflicts(ledger: &Ipam, attachment: &Attachment) -> Result<()> {
    for record in ledger.records().filter(|record| record.id != attachment.sandbox_id) {
        for port in &attachment.port_mappings {
            if record.port_mappings.iter().any(|taken| conflicts(taken, port)) {
                return Err(Error::PortTaken(port.to_string(), record.id.clone()));
            }
        }
    }
    Ok(())
}
