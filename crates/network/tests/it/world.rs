//! A node and its pods, as network namespaces that live as long as the test.

use network::{Attachment, BuiltinConfig, BuiltinNetwork, Cni, NetworkNamespace};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;
use sys::netlink::{self, NetlinkFamily, Socket, run_in_netns};

pub(crate) struct World {
    pub(crate) node: NetworkNamespace,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) network: BuiltinNetwork,
}

pub(crate) struct Pod {
    pub(crate) namespace: NetworkNamespace,
    pub(crate) attachment: Attachment,
    pub(crate) ip: IpAddr,
}

impl World {
    pub(crate) fn new() -> Self {
        let node = NetworkNamespace::create().expect("a namespace");
        run_in_netns(&node, || {
            let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
            let lo = netlink::link(&mut socket, "lo").expect("lo").index;
            netlink::set_up(&mut socket, lo).expect("up");
        })
        .expect("inside");
        let directory = tempfile::tempdir().expect("a directory");
        let network = start(&node, directory.path());
        Self { node, directory, network }
    }

    /// Restarts the network with the same directory and namespace.
    pub(crate) fn restart(&mut self) {
        self.network = start(&self.node, self.directory.path());
    }

    pub(crate) async fn pod(&self, id: &str) -> Pod {
        self.pod_with(Attachment { sandbox_id: id.to_owned(), ..Attachment::default() }).await
    }

    pub(crate) async fn pod_with(&self, mut attachment: Attachment) -> Pod {
        let namespace = NetworkNamespace::create().expect("a namespace");
        attachment.netns = path(&namespace);
        let addresses = self.network.add(&attachment).await.expect("added");
        Pod { namespace, attachment, ip: addresses.ips[0] }
    }

    pub(crate) fn links(&self) -> Vec<String> {
        run_in_netns(&self.node, || {
            let mut socket = Socket::open(NetlinkFamily::Route).expect("a socket");
            let links = netlink::links(&mut socket).expect("links");
            links.into_iter().map(|link| link.name).collect()
        })
        .expect("inside")
    }

    pub(crate) fn files(&self) -> usize {
        let folder = self.directory.path().join("addresses");
        std::fs::read_dir(folder).expect("the folder").count()
    }
}

pub(crate) fn path(namespace: &NetworkNamespace) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd()).into()
}

/// Listens in a namespace and answers each connection with the client's address.
pub(crate) fn serve(namespace: &NetworkNamespace, address: impl Into<SocketAddr>) {
    let address = address.into();
    let listener =
        run_in_netns(namespace, || TcpListener::bind(address)).expect("inside").expect("bound");
    std::thread::spawn(move || {
        while let Ok((mut stream, peer)) = listener.accept() {
            let _ = write!(stream, "{}", peer.ip());
        }
    });
}

/// Connects from a namespace and returns the address that the server saw.
pub(crate) fn ask(
    namespace: &NetworkNamespace,
    address: impl Into<SocketAddr>,
) -> std::io::Result<IpAddr> {
    let address = address.into();
    run_in_netns(namespace, || {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.parse().expect("an address"))
    })
    .expect("inside")
}

fn start(node: &NetworkNamespace, directory: &std::path::Path) -> BuiltinNetwork {
    let config = BuiltinConfig {
        directory: directory.to_owned(),
        pod_cidrs: vec![
            "10.244.7.0/24".parse().expect("a range"),
            "fd07::/64".parse().expect("a range"),
        ],
        cluster_cidrs: vec![
            "10.244.0.0/16".parse().expect("a range"),
            "fd00::/8".parse().expect("a range"),
        ],
        mtu: 1500,
    };
    run_in_netns(node, || BuiltinNetwork::start(config)).expect("inside").expect("started")
}
