//! The interface of a pod: a veth pair, with a route to the pod on the host side and a default route through the
//! gateway on the pod side. Packets between pods are routed, not bridged, so that they always pass the host's netfilter
//! rules, whatever modules the kernel has. Neighbour entries are static: the first packet does not wait for ARP.

use crate::addresses::Allocation;
use crate::names::{Names, macs};
use crate::{Result, io_error};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use sys::netlink::{
    self, Address, Cidr, Neighbour, NetlinkFamily, NetworkNamespace, Route, Socket, Veth,
    run_in_netns,
};

/// The name of the interface in the pod.
pub(crate) const POD_INTERFACE: &str = "eth0";
/// The protocol number of our routes, which no routing daemon uses.
pub(crate) const ROUTE_PROTOCOL: u8 = 0xd7;

/// Settings shared by all pods of the node.
#[derive(Debug)]
pub(crate) struct VethConfig {
    pub(crate) names: Names,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: u32,
}

impl VethConfig {
    /// Creates the veth pair with the addresses and routes of both ends. The calling thread must be in the host's
    /// network namespace.
    pub(crate) fn connect(&self, record: &Allocation, pod: &NetworkNamespace) -> Result<()> {
        let mut socket = Socket::open(NetlinkFamily::Route)?;
        let name = self.host_interface_name(record);
        let (peer_mac, mac) = macs(record.primary());
        let veth = Veth {
            name: &name,
            mac,
            peer_name: POD_INTERFACE,
            peer_mac,
            peer_namespace: pod,
            mtu: self.mtu,
        };
        match netlink::add_veth(&mut socket, &veth) {
            Err(error) if error.is_already_exists() => {
                // Left by an interrupted attempt: the address is ours, and so is the name.
                remove(&mut socket, &name)?;
                netlink::add_veth(&mut socket, &veth)?;
            }
            done => done?,
        }
        self.configure_host_end(&mut socket, record, &name, peer_mac)?;
        run_in_netns(pod, || self.configure_pod_end(record, mac))?
    }

    /// Removes the host end, and with it the pod end.
    pub(crate) fn disconnect(&self, record: &Allocation) -> Result<()> {
        remove(&mut Socket::open(NetlinkFamily::Route)?, &self.host_interface_name(record))
    }

    /// The first difference between the pod's interface and what `connect` configured; `None` if there is none. Used by
    /// CNI CHECK.
    pub(crate) fn find_mismatch(
        &self,
        record: &Allocation,
        pod: &NetworkNamespace,
    ) -> Result<Option<String>> {
        let mut socket = Socket::open(NetlinkFamily::Route)?;
        let name = self.host_interface_name(record);
        let outside = match netlink::link(&mut socket, &name) {
            Ok(link) => link,
            Err(error) if error.is_not_found() => return Ok(Some(format!("no interface {name}"))),
            Err(error) => return Err(error.into()),
        };
        let routes = netlink::routes(&mut socket)?;
        for ip in &record.ips {
            let to_pod = |r: &Route| {
                r.destination == Cidr::host(*ip) && r.interface_index == Some(outside.index)
            };
            if !routes.iter().any(to_pod) {
                return Ok(Some(format!("no route to {ip}")));
            }
        }
        let found = run_in_netns(pod, || -> Result<Vec<Address>> {
            Ok(netlink::addresses(&mut Socket::open(NetlinkFamily::Route)?)?)
        })??;
        let missing = record.ips.iter().find(|ip| !found.iter().any(|a| a.ip == **ip));
        Ok(missing.map(|ip| format!("the pod lost its address {ip}")))
    }

    pub(crate) fn host_interface_name(&self, record: &Allocation) -> String {
        self.names.interface(record.primary())
    }

    fn configure_host_end(
        &self,
        socket: &mut Socket,
        record: &Allocation,
        name: &str,
        peer_mac: [u8; 6],
    ) -> Result<()> {
        let index = netlink::link(socket, name)?.index;
        for (ip, gateway) in self.addresses_with_gateways(record) {
            netlink::set_route(
                socket,
                &Route {
                    destination: Cidr::host(ip),
                    gateway: None,
                    interface_index: Some(index),
                    source: Some(gateway),
                    protocol: ROUTE_PROTOCOL,
                    on_link: false,
                },
            )?;
            netlink::set_neighbour(socket, Neighbour { index, ip, mac: peer_mac })?;
        }
        // A pod may send from its own address only, and the host accepts no routes from it.
        sysctl(&format!("ipv4/conf/{name}/rp_filter"), "1")?;
        for setting in ["accept_redirects", "secure_redirects", "send_redirects"] {
            sysctl(&format!("ipv4/conf/{name}/{setting}"), "0")?;
        }
        for setting in ["accept_ra", "accept_redirects", "autoconf"] {
            let setting = format!("ipv6/conf/{name}/{setting}");
            if Path::new("/proc/sys/net").join(&setting).exists() {
                sysctl(&setting, "0")?; // otherwise the kernel has no IPv6
            }
        }
        if record
            .port_mappings
            .iter()
            .any(|port| port.host_ip.is_none_or(|ip| ip.is_loopback() || ip.is_unspecified()))
        {
            sysctl(&format!("ipv4/conf/{name}/route_localnet"), "1")?;
        }
        Ok(())
    }

    fn configure_pod_end(&self, record: &Allocation, gateway_mac: [u8; 6]) -> Result<()> {
        let mut socket = Socket::open(NetlinkFamily::Route)?;
        let loopback = netlink::link(&mut socket, "lo")?;
        if !loopback.up {
            netlink::set_up(&mut socket, loopback.index)?;
        }
        let index = netlink::link(&mut socket, POD_INTERFACE)?.index;
        for ip in &record.ips {
            let prefix = Cidr::host(*ip).prefix;
            netlink::add_address(&mut socket, Address { index, ip: *ip, prefix })?;
        }
        netlink::set_up(&mut socket, index)?;
        for (ip, gateway) in self.addresses_with_gateways(record) {
            let neighbour = Neighbour { index, ip: gateway, mac: gateway_mac };
            netlink::set_neighbour(&mut socket, neighbour)?;
            let to_gateway = Route {
                destination: Cidr::host(gateway),
                gateway: None,
                interface_index: Some(index),
                source: Some(ip),
                protocol: ROUTE_PROTOCOL,
                on_link: false,
            };
            netlink::set_route(&mut socket, &to_gateway)?;
            let to = Cidr::any_of_family(gateway);
            netlink::set_route(
                &mut socket,
                &Route { destination: to, gateway: Some(gateway), ..to_gateway },
            )?;
        }
        Ok(())
    }

    /// Each address with the gateway of its family.
    fn addresses_with_gateways(&self, record: &Allocation) -> Vec<(IpAddr, IpAddr)> {
        let gateway = |ip: &IpAddr| self.gateways.iter().find(|g| g.is_ipv4() == ip.is_ipv4());
        record.ips.iter().filter_map(|ip| Some((*ip, *gateway(ip)?))).collect()
    }
}

/// Removes an interface if it exists.
pub(crate) fn remove(socket: &mut Socket, name: &str) -> Result<()> {
    match netlink::remove_link(socket, name) {
        Err(error) if error.is_not_found() => Ok(()),
        done => Ok(done?),
    }
}

/// Writes a sysctl below net/ in the calling thread's namespace, unless it has that value already (the file may be
/// read-only).
pub(crate) fn sysctl(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/net/{name}");
    if fs::read_to_string(&path).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    fs::write(&path, value).map_err(io_error(path))
}
