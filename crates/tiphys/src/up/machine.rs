//! Properties of the host: its name, its IP address, and the CIDRs, ports and user ids that are free on it.

use std::{
    fmt, fs,
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

use anyhow::{Context as _, Result, bail};

/// Rejects names for a further node that are names of the API server: the certificate of its kubelet would also be
/// valid for the API server.
pub(crate) fn refuse_reserved(node: &str) -> Result<()> {
    anyhow::ensure!(
        object::names::dns1123_subdomain(node).is_empty(),
        "--node {node:?}: a node's name has lower case letters, digits, '-' and '.', and begins and \
         ends with a letter or digit"
    );
    let is_server =
        |name: &str| name == "localhost" || name.split('.').next() == Some("kubernetes");
    if is_server(node) || node == "127.0.0.1" {
        bail!("a node cannot be called {node:?}: the API server is");
    }
    Ok(())
}

/// An IPv4 CIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv4Cidr {
    base: u32,
    bits: u8,
}

impl Ipv4Cidr {
    fn new(base: Ipv4Addr, bits: u8) -> Self {
        let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
        Self { base: u32::from(base) & mask, bits }
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (base, bits) = text.split_once('/').with_context(|| {
            format!("{text:?}: a range is written ADDRESS/BITS, such as 10.244.0.0/16")
        })?;
        let (base, bits) = (base.parse()?, bits.parse()?);
        anyhow::ensure!(bits <= 28, "{text} has too few addresses");
        Ok(Self::new(base, bits))
    }

    /// The address at this offset.
    pub(crate) fn nth(&self, n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(self.base + n))
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let bits = self.bits.min(other.bits);
        let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
        self.base & mask == other.base & mask
    }
}

impl fmt::Display for Ipv4Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.bits)
    }
}

/// Chooses CIDRs for pods and services that the host has no route to and no other cluster uses.
pub(crate) fn choose_cidrs(
    pods: Option<&str>,
    services: Option<&str>,
    others: &[Ipv4Cidr],
) -> Result<(Ipv4Cidr, Ipv4Cidr)> {
    let mut taken = routes(&fs::read_to_string("/proc/net/route").unwrap_or_default());
    taken.extend(others);
    let services_first = Ipv4Cidr::new(Ipv4Addr::new(10, 96, 0, 0), 16);
    let pods_first = Ipv4Cidr::new(Ipv4Addr::new(10, 244, 0, 0), 16);
    let pods = match pods {
        Some(text) => Ipv4Cidr::parse(text).context("--cluster-cidr")?,
        None => first_free(pods_first, &taken)?,
    };
    let services = match services {
        Some(text) => Ipv4Cidr::parse(text).context("--service-cluster-ip-range")?,
        None => first_free(services_first, &[&taken[..], &[pods]].concat())?,
    };
    if pods.overlaps(&services) {
        bail!("the ranges of pods ({pods}) and services ({services}) overlap");
    }
    Ok((pods, services))
}

/// The wanted CIDR if it is free, otherwise the first free one of 10/8, then of 172.16/12.
fn first_free(wanted: Ipv4Cidr, taken: &[Ipv4Cidr]) -> Result<Ipv4Cidr> {
    let tens = (0..=255).map(|n| Ipv4Cidr::new(Ipv4Addr::new(10, n, 0, 0), 16));
    let others = (16..32).map(|n| Ipv4Cidr::new(Ipv4Addr::new(172, n, 0, 0), 16));
    let mut all = std::iter::once(wanted).chain(tens).chain(others);
    let free = all.find(|range| !taken.iter().any(|other| other.overlaps(range)));
    free.with_context(|| {
        let routes: Vec<_> = taken.iter().map(ToString::to_string).collect();
        format!("no range is free beside the machine's routes: {}", routes.join(", "))
    })
}

/// The destinations of `/proc/net/route`, without the default route.
fn routes(table: &str) -> Vec<Ipv4Cidr> {
    let hex = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let route = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (base, mask) = (hex(columns.get(1)?)?, hex(columns.get(7)?)?);
        let bits = u8::try_from(mask.leading_ones()).ok()?;
        (bits > 0).then(|| Ipv4Cidr::new(Ipv4Addr::from(base), bits))
    };
    table.lines().skip(1).filter_map(route).collect()
}

/// The IP address of this host: the source address of the default route, otherwise the first address that is
/// reachable from outside.
pub(crate) fn address() -> Option<IpAddr> {
    by_route().or_else(|| {
        let mut socket = sys::netlink::Socket::open(sys::netlink::NetlinkFamily::Route).ok()?;
        let all = sys::netlink::addresses(&mut socket).ok()?;
        first_global(all.into_iter().map(|address| address.ip))
    })
}

fn first_global(mut all: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    all.find(|ip| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(_) => false, // Services have IPv4 addresses only
    })
}

fn by_route() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?; // sends no packet: only looks up the route
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

pub(crate) fn host_name() -> Result<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").context("no host name")?;
    let name = name.trim().to_lowercase().replace('_', "-");
    anyhow::ensure!(
        object::names::dns1123_subdomain(&name).is_empty(),
        "the host name {name:?} is no name for a node: give one with --node-name"
    );
    Ok(name)
}

/// Whether no process listens on a port.
pub(crate) fn port_is_free(port: u16) -> bool {
    TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port))).is_ok()
}

/// Fails, with a hint at `--port`, if a process listens on the port.
pub(crate) fn require_free_port(port: u16) -> Result<()> {
    match TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], port))) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            bail!("port {port} is taken by another program: choose one with --port")
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on port {port}")),
        Ok(_) => Ok(()),
    }
}

/// The user that `control` runs as: the user `tiphys`, otherwise a numeric uid that no user has.
pub(crate) fn control_plane_uid() -> u32 {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let users: Vec<(&str, u32)> = passwd
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            Some((fields.next()?, fields.nth(1)?.parse().ok()?))
        })
        .collect();
    if let Some((_, id)) = users.iter().find(|(name, _)| *name == "tiphys") {
        return *id;
    }
    (61_184..=65_519).find(|id| !users.iter().any(|(_, taken)| taken == id)).unwrap_or(61_184)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_default_route_has_an_address() {
        let all = ["127.0.0.1", "::1", "169.254.3.4", "192.0.2.7", "192.0.2.8"];
        let all = all.map(|ip| ip.parse().unwrap());
        assert_eq!(first_global(all.into_iter()), Some(IpAddr::from([192, 0, 2, 7])));
        assert_eq!(first_global(all.into_iter().take(3)), None);
    }

    #[test]
    fn ranges_avoid_the_machines_routes() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                     eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n\
                     eth0\t0000F40A\t00000000\t0001\t0\t0\t0\t0000FFFF\n";
        let taken = routes(table);
        assert_eq!(taken.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.244.0.0/16"]);
        let wanted = Ipv4Cidr::parse("10.244.0.0/16").unwrap();
        assert_eq!(first_free(wanted, &taken).unwrap().to_string(), "10.0.0.0/16");
        assert_eq!(first_free(wanted, &[]).unwrap(), wanted);
        assert_eq!(wanted.nth(10), IpAddr::from([10, 244, 0, 10]));
    }
}
