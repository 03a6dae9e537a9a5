//! Flags of `kubelet`.

use std::{net::IpAddr, path::PathBuf};

use clap::Parser;
use kubelet::eviction;
use object::Quantity;

#[derive(Parser)]
pub(in crate::commands) struct Arguments {
    /// Kubeconfig of the API server; without it, only static pods run.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Name of this node; the host name by default.
    #[arg(long)]
    pub(super) hostname_override: Option<String>,
    /// IP address of this node.
    #[arg(long)]
    pub(super) node_ip: Option<IpAddr>,
    /// Endpoint of the container runtime's CRI service.
    #[arg(long, default_value = "unix:///run/containerd/containerd.sock")]
    pub(super) container_runtime_endpoint: String,
    /// Directory for volumes and other files of pods.
    #[arg(long, default_value = "/var/lib/kubelet")]
    pub(super) root_dir: PathBuf,
    /// Directory for container logs.
    #[arg(long, default_value = "/var/log/pods")]
    pub(super) pod_logs_dir: PathBuf,
    /// Directory with manifests of static pods.
    #[arg(long, value_name = "DIR")]
    pub(super) pod_manifest_path: Option<PathBuf>,
    /// URL to fetch manifests of static pods from.
    #[arg(long, value_name = "URL")]
    pub(super) manifest_url: Option<String>,
    /// File with the certificate authorities that client certificates are verified against.
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// File with the serving certificate, reloaded when it changes; without it, a self-signed one is
    /// generated.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// File with the private key of --tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// Use the RuntimeDefault seccomp profile for containers that have none.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(super) seccomp_default: bool,
    /// Sysctls beyond the safe ones that pods may set: names, or prefixes of names before a `*`.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(super) allowed_unsafe_sysctls: Vec<String>,
    /// How long an exec, attach or port-forward connection may be idle; 0s means no limit.
    #[arg(long, default_value = "4h0m0s")]
    pub(super) streaming_connection_idle_timeout: String,
    /// IP addresses of the cluster's DNS servers.
    #[arg(long, value_delimiter = ',')]
    pub(super) cluster_dns: Vec<IpAddr>,
    /// DNS domain of the cluster.
    #[arg(long, default_value = "cluster.local")]
    pub(super) cluster_domain: String,
    /// Parent cgroup of the pods' cgroups.
    #[arg(long, default_value = "")]
    pub(super) cgroup_root: String,
    /// Resources reserved for Kubernetes components: NAME=QUANTITY,… of cpu, memory, ephemeral-storage and pid.
    #[arg(long, default_value = "")]
    pub(super) kube_reserved: String,
    /// Resources reserved for other programs of the machine, in the same format.
    #[arg(long, default_value = "")]
    pub(super) system_reserved: String,
    /// Where reservations are enforced: pods, kube-reserved, system-reserved, the last two also with the
    /// suffix -compressible for CPU only; or none.
    #[arg(long, default_value = "pods", value_delimiter = ',')]
    pub(super) enforce_node_allocatable: Vec<String>,
    /// Cgroup of the Kubernetes components, which --kube-reserved limits.
    #[arg(long, default_value = "")]
    pub(super) kube_reserved_cgroup: String,
    /// Cgroup of other programs, which --system-reserved limits.
    #[arg(long, default_value = "")]
    pub(super) system_reserved_cgroup: String,
    /// Maximum number of processes in a pod; -1 means no limit but that of all pods together.
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    pub(super) pod_max_pids: i64,
    /// The oom_score_adj of the kubelet itself, if the machine allows it.
    #[arg(long, default_value_t = -999, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1000..=1000))]
    pub(super) oom_score_adj: i32,
    /// IP address to serve on; 0.0.0.0 or :: for all interfaces.
    #[arg(long, default_value = "0.0.0.0")]
    pub(super) address: IpAddr,
    /// Port to serve on.
    #[arg(long, default_value_t = 10250)]
    pub(super) port: u16,
    /// Maximum number of pods on this node.
    #[arg(long, default_value_t = 110)]
    pub(super) max_pods: u32,
    /// Thresholds at which pods are evicted immediately: SIGNAL<QUANTITY,…
    #[arg(long, default_value = eviction::DEFAULT_HARD_THRESHOLDS)]
    pub(super) eviction_hard: String,
    /// Thresholds at which pods are evicted after a grace period: SIGNAL<QUANTITY,…
    #[arg(long, default_value = "")]
    pub(super) eviction_soft: String,
    /// Grace periods of soft eviction thresholds: SIGNAL=DURATION,…
    #[arg(long, default_value = "")]
    pub(super) eviction_soft_grace_period: String,
    /// Minimum amount of a resource to reclaim in each eviction pass: SIGNAL=QUANTITY,…
    #[arg(long, default_value = "")]
    pub(super) eviction_minimum_reclaim: String,
    /// How long a pressure condition is kept after the pressure has ended.
    #[arg(long, default_value = "5m")]
    pub(super) eviction_pressure_transition_period: String,
    /// Maximum grace period in seconds of pods that are evicted for a soft threshold.
    #[arg(long, default_value_t = 0)]
    pub(super) eviction_max_pod_grace_period: i64,
    /// Disk usage in percent above which unused images are removed; 100 disables it.
    #[arg(long, default_value_t = 85)]
    pub(super) image_gc_high_threshold: u8,
    /// Disk usage in percent down to which unused images are removed.
    #[arg(long, default_value_t = 80)]
    pub(super) image_gc_low_threshold: u8,
    /// Size at which a container's log file is rotated.
    #[arg(long, default_value = "10Mi")]
    pub(super) container_log_max_size: Quantity,
    /// Maximum number of log files of a container, the current one included.
    #[arg(long, default_value_t = 5)]
    pub(super) container_log_max_files: usize,
}
