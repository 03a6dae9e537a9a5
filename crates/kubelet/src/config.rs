//! All a kubelet must know, gathered once.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use object::Value;

use crate::{
    eviction, image_gc, pod_logs,
    reserved::{Reserved, ReservedGroup},
    rotate,
    sysctl::Allowlist,
};

/// Where the certificate of the kubelet's port comes from.
#[derive(Clone, Debug)]
pub enum Serving {
    /// Files; read again while the kubelet runs.
    Files { certificate: PathBuf, key: PathBuf },
    /// Signed here by an authority whose files these are, and again before it ends.
    Authority { certificate: PathBuf, key: PathBuf },
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Config {
    pub node_name: String,
    /// The first is the node's address; empty: found by the machine's routes.
    pub node_ips: Vec<IpAddr>,
    /// The runtime's socket: ours, or another's (`--container-runtime-endpoint`).
    pub runtime_socket: PathBuf,
    /// Pods' volumes and files.
    pub root_dir: PathBuf,
    /// What containers write, a folder per pod. Where it is called `pods`, collectors find links in the folder
    /// `containers` beside it.
    pub pod_logs_dir: PathBuf,
    /// What `/logs/` of the kubelet's port shows.
    pub node_logs: PathBuf,
    /// `--pod-manifest-path`.
    pub static_pod_path: Option<PathBuf>,
    /// `--manifest-url`; plain HTTP.
    pub manifest_url: Option<String>,
    /// Empty: what the API server gives to the node.
    pub pod_cidr: String,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// What pods with `dnsPolicy: Default` resolve by.
    pub resolv_conf: PathBuf,
    /// The group above `kubepods`; empty: the hierarchies' root.
    pub cgroup_root: String,
    /// What of the machine Kubernetes itself needs, and what others need.
    pub kube_reserved: Reserved,
    pub system_reserved: Reserved,
    /// Whether pods together are kept from what is reserved.
    pub enforce_pods: bool,
    /// Groups that are kept to what is reserved for them.
    pub reserved_groups: Vec<ReservedGroup>,
    /// The most processes of a pod; not positive: as many as all pods may have.
    pub pod_max_pids: i64,
    /// What the kubelet's port shows. Absent: made and signed by the kubelet itself.
    pub serving_cert: Option<Serving>,
    /// Whose client certificates are believed.
    pub client_ca: Option<pki::ClientCaVerifier>,
    /// Where the kubelet's port is; unspecified: on all of the node's addresses.
    pub address: IpAddr,
    /// 0: any that is free.
    pub port: u16,
    /// Whether another free port is taken where somebody else has this one: several clusters may share a machine.
    pub port_may_differ: bool,
    pub max_pods: u32,
    pub labels: BTreeMap<String, String>,
    /// As in `spec.taints` of a Node.
    pub taints: Vec<Value>,
    /// Whether to make the Node.
    pub register_node: bool,
    /// Without any API server: static pods only.
    pub standalone: bool,
    /// When pods must go for want of something.
    pub eviction: eviction::EvictionConfig,
    pub image_gc: image_gc::ImageGcPolicy,
    pub log_limits: rotate::LogRotationPolicy,
    /// The kernel settings that pods may have.
    pub sysctls: Allowlist,
    /// Whether containers without a seccomp profile get the runtime's instead of none.
    pub seccomp_default: bool,
    /// How long a stream into a container may carry nothing before it is closed; zero: for ever.
    pub streaming_idle: Duration,
    /// What `nodeInfo.kubeletVersion` says.
    pub version: String,
}

impl Config {
    /// A node with the usual settings.
    pub fn new(node_name: &str, runtime_socket: impl Into<PathBuf>) -> Self {
        Self {
            node_name: node_name.into(),
            node_ips: Vec::new(),
            runtime_socket: runtime_socket.into(),
            root_dir: "/var/lib/kubelet".into(),
            pod_logs_dir: "/var/log/pods".into(),
            node_logs: "/var/log".into(),
            static_pod_path: None,
            manifest_url: None,
            pod_cidr: String::new(),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".into(),
            resolv_conf: "/etc/resolv.conf".into(),
            cgroup_root: String::new(),
            kube_reserved: Reserved::default(),
            system_reserved: Reserved::default(),
            enforce_pods: true,
            reserved_groups: Vec::new(),
            pod_max_pids: -1,
            serving_cert: None,
            client_ca: None,
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: 10250,
            port_may_differ: false,
            max_pods: 110,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            register_node: true,
            standalone: false,
            eviction: eviction::EvictionConfig::new(eviction::DEFAULT_HARD_THRESHOLDS)
                .expect("tested to be good"),
            image_gc: image_gc::ImageGcPolicy::default(),
            log_limits: rotate::LogRotationPolicy::default(),
            sysctls: Allowlist::default(),
            seccomp_default: false,
            streaming_idle: Duration::from_hours(4),
            version: "v1.37.1".into(),
        }
    }

    /// For a machine that does other work too: how full its disk is is its own affair, as
    /// long as something is left.
    #[must_use]
    pub fn with_relaxed_thresholds(self) -> Self {
        let eviction = eviction::EvictionConfig::new(eviction::RELAXED_HARD_THRESHOLDS)
            .expect("tested to be good");
        let image_gc = image_gc::ImageGcPolicy { high_threshold_percent: 100, ..self.image_gc };
        Self { eviction, image_gc, ..self }
    }

    pub fn node_ip(&self) -> IpAddr {
        self.node_ips.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into())
    }

    pub(crate) fn pod_folder(&self, uid: &str) -> PathBuf {
        self.root_dir.join("pods").join(uid)
    }

    pub(crate) fn log_folder(&self, namespace: &str, name: &str, uid: &str) -> PathBuf {
        self.pod_logs_dir.join(pod_logs::folder_name(namespace, name, uid))
    }
}
