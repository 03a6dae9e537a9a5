//! Configuration of the kubelet.

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

/// Where the serving certificate of the kubelet's port comes from.
#[derive(Clone, Debug)]
pub enum Serving {
    /// From files, which are reloaded while the kubelet runs.
    Files { certificate: PathBuf, key: PathBuf },
    /// Signed by this CA, whose certificate and key are in these files; renewed before it expires.
    Authority { certificate: PathBuf, key: PathBuf },
}

/// Configuration of the kubelet, gathered once at start.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Config {
    pub node_name: String,
    /// Node IPs; the first is the primary one. Empty: detected from the host's routes.
    pub node_ips: Vec<IpAddr>,
    /// CRI socket of the container runtime: ours or another one (`--container-runtime-endpoint`).
    pub runtime_socket: PathBuf,
    /// Directory of the pods' volumes and files.
    pub root_dir: PathBuf,
    /// Directory of the container logs, with a subdirectory per pod. If it is called `pods`, symlinks for log
    /// collectors are kept in the directory `containers` beside it.
    pub pod_logs_dir: PathBuf,
    /// Directory that `/logs/` on the kubelet's port serves.
    pub node_logs: PathBuf,
    /// `--pod-manifest-path`.
    pub static_pod_path: Option<PathBuf>,
    /// `--manifest-url`; plain HTTP.
    pub manifest_url: Option<String>,
    /// Empty: `spec.podCIDR` of the Node object is used.
    pub pod_cidr: String,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// The resolv.conf of pods with `dnsPolicy: Default`.
    pub resolv_conf: PathBuf,
    /// Parent cgroup of `kubepods`; empty: the root of the hierarchies.
    pub cgroup_root: String,
    /// Resources reserved for Kubernetes' own components, and for other processes of the host.
    pub kube_reserved: Reserved,
    pub system_reserved: Reserved,
    /// Whether the `kubepods` cgroup is limited to what is not reserved.
    pub enforce_pods: bool,
    /// Cgroups that are limited to what is reserved for them.
    pub reserved_groups: Vec<ReservedGroup>,
    /// Maximum number of processes of a pod; not positive: only the limit of all pods applies.
    pub pod_max_pids: i64,
    /// Serving certificate of the kubelet's port. `None`: issued by a CA that the kubelet creates itself.
    pub serving_cert: Option<Serving>,
    /// CA of client certificates.
    pub client_ca: Option<pki::ClientCaVerifier>,
    /// Address that the kubelet listens on; unspecified: all addresses of the node.
    pub address: IpAddr,
    /// 0: any free port.
    pub port: u16,
    /// Whether the kubelet takes another free port if this one is in use, because several clusters share a host.
    pub port_may_differ: bool,
    pub max_pods: u32,
    pub labels: BTreeMap<String, String>,
    /// As in `spec.taints` of a Node.
    pub taints: Vec<Value>,
    /// Whether the kubelet creates its Node object.
    pub register_node: bool,
    /// Without an API server: runs static pods only.
    pub standalone: bool,
    /// Eviction thresholds and grace periods.
    pub eviction: eviction::EvictionConfig,
    pub image_gc: image_gc::ImageGcPolicy,
    pub log_limits: rotate::LogRotationPolicy,
    /// Sysctls that pods may set.
    pub sysctls: Allowlist,
    /// Whether containers without a seccomp profile get the runtime's default profile instead of none.
    pub seccomp_default: bool,
    /// Idle timeout of exec, attach and port-forward streams; zero: none.
    pub streaming_idle: Duration,
    /// Reported as `nodeInfo.kubeletVersion`.
    pub version: String,
}

/// Parses the eviction thresholds of this crate.
#[expect(clippy::expect_used, reason = "the thresholds are constants, and tests parse them")]
fn thresholds(text: &str) -> eviction::EvictionConfig {
    eviction::EvictionConfig::new(text).expect("tested to be good")
}

impl Config {
    /// A node with default settings.
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
            eviction: thresholds(eviction::DEFAULT_HARD_THRESHOLDS),
            image_gc: image_gc::ImageGcPolicy::default(),
            log_limits: rotate::LogRotationPolicy::default(),
            sysctls: Allowlist::default(),
            seccomp_default: false,
            streaming_idle: Duration::from_hours(4),
            version: "v1.37.1".into(),
        }
    }

    /// Relaxes the disk thresholds for a host that also does other work: how full its disk is does not matter as long
    /// as some space is left.
    #[must_use]
    pub fn with_relaxed_thresholds(self) -> Self {
        let eviction = thresholds(eviction::RELAXED_HARD_THRESHOLDS);
        let image_gc = image_gc::ImageGcPolicy { high_threshold_percent: 100, ..self.image_gc };
        Self { eviction, image_gc, ..self }
    }

    /// The primary IP address of the node.
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
