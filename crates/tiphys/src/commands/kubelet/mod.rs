//! `kubelet`.

use std::{ffi::OsString, fs, net::IpAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Parser;
use client::{Client, Kubeconfig};
use kubelet::{
    Config, eviction, image_gc,
    reserved::{Reserved, ReservedGroup},
    rotate,
};
use object::Quantity;
use runtime::Context;

use super::{asked_to_stop, parse, run_async};

#[derive(Parser)]
pub(super) struct Arguments {
    /// How to reach the API server, and as whom; without it, static pods only.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The name of this node.
    #[arg(long)]
    hostname_override: Option<String>,
    /// The address of this node.
    #[arg(long)]
    node_ip: Option<IpAddr>,
    /// The socket of the container runtime.
    #[arg(long, default_value = "unix:///run/containerd/containerd.sock")]
    container_runtime_endpoint: String,
    /// Where pods' files are kept.
    #[arg(long, default_value = "/var/lib/kubelet")]
    root_dir: PathBuf,
    /// Where containers' logs are kept.
    #[arg(long, default_value = "/var/log/pods")]
    pod_logs_dir: PathBuf,
    /// A folder of pods to run whatever the API says.
    #[arg(long, value_name = "DIR")]
    pod_manifest_path: Option<PathBuf>,
    /// An address to get such pods from.
    #[arg(long, value_name = "URL")]
    manifest_url: Option<String>,
    /// Whose client certificates are believed.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// The certificate that the kubelet's port shows, read again when it changes; without it, one
    /// that the kubelet signs itself.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Whether containers without a seccomp profile get the runtime's instead of none.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    seccomp_default: bool,
    /// How long a stream into a container may carry nothing; 0s: for ever.
    #[arg(long, default_value = "4h0m0s")]
    streaming_connection_idle_timeout: String,
    /// The addresses of the cluster's name servers.
    #[arg(long, value_delimiter = ',')]
    cluster_dns: Vec<IpAddr>,
    /// The cluster's domain.
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
    /// The group below which pods' groups are made.
    #[arg(long, default_value = "")]
    cgroup_root: String,
    /// What Kubernetes itself needs of the machine: cpu, memory, ephemeral-storage, pid; NAME=AMOUNT,…
    #[arg(long, default_value = "")]
    kube_reserved: String,
    /// What other programs need of the machine, in the same way.
    #[arg(long, default_value = "")]
    system_reserved: String,
    /// Who is kept to his part: pods, kube-reserved, system-reserved, the last two also with
    /// -compressible for CPUs only, or none.
    #[arg(long, default_value = "pods", value_delimiter = ',')]
    enforce_node_allocatable: Vec<String>,
    /// The group of Kubernetes' own processes.
    #[arg(long, default_value = "")]
    kube_reserved_cgroup: String,
    /// The group of other programs.
    #[arg(long, default_value = "")]
    system_reserved_cgroup: String,
    /// The most processes of a pod; -1: as many as all pods may have.
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    pod_max_pids: i64,
    /// The kubelet's own oom_score_adj, where it may be set.
    #[arg(long, default_value_t = -999, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1000..=1000))]
    oom_score_adj: i32,
    /// The address to serve on; 0.0.0.0 or ::: all addresses of the node.
    #[arg(long, default_value = "0.0.0.0")]
    address: IpAddr,
    /// The port to serve on.
    #[arg(long, default_value_t = 10250)]
    port: u16,
    /// How many pods run here at the most.
    #[arg(long, default_value_t = 110)]
    max_pods: u32,
    /// When pods must go at once: SIGNAL<AMOUNT,…
    #[arg(long, default_value = eviction::USUAL)]
    eviction_hard: String,
    /// When pods must go if it lasts: SIGNAL<AMOUNT,…
    #[arg(long, default_value = "")]
    eviction_soft: String,
    /// How long it may last: SIGNAL=DURATION,…
    #[arg(long, default_value = "")]
    eviction_soft_grace_period: String,
    /// How much must be won besides: SIGNAL=AMOUNT,…
    #[arg(long, default_value = "")]
    eviction_minimum_reclaim: String,
    /// For how long the node still says that it is short when it no longer is.
    #[arg(long, default_value = "5m")]
    eviction_pressure_transition_period: String,
    /// The most seconds that a pod gets which goes for a soft threshold.
    #[arg(long, default_value_t = 0)]
    eviction_max_pod_grace_period: i64,
    /// Hundredths of the disk in use from which on unused images go; 100: never.
    #[arg(long, default_value_t = 85)]
    image_gc_high_threshold: u8,
    /// Hundredths of the disk in use down to which they go.
    #[arg(long, default_value_t = 80)]
    image_gc_low_threshold: u8,
    /// How large a container's log becomes before it is put aside.
    #[arg(long, default_value = "10Mi")]
    container_log_max_size: Quantity,
    /// How many logs of a container are kept, the current one among them.
    #[arg(long, default_value_t = 5)]
    container_log_max_files: usize,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("kubelet", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async("kubelet", async move {
        let client = match &flags.kubeconfig {
            Some(path) => Client::new(
                Kubeconfig::read(path)?.config(None)?.manager("kubelet").user_agent("kubelet"),
            ),
            None => Client::new(client::Config::unix(std::path::Path::new("/nonexistent"))),
        };
        let cx = Context::new(&client);
        if let Err(error) = fs::write("/proc/self/oom_score_adj", flags.oom_score_adj.to_string()) {
            tracing::info!(%error, "--oom-score-adj {} is not allowed here", flags.oom_score_adj);
        }
        kubelet::start(&cx, config(flags)?).await?;
        asked_to_stop().await?;
        cx.stop().await;
        Ok(())
    })
}

/// The configuration of flags.
pub(crate) fn config_of(words: Vec<OsString>) -> Result<Config> {
    config(super::read_flags(words)?)
}

fn config(flags: Arguments) -> Result<Config> {
    let name = match flags.hostname_override {
        Some(name) => name,
        None => fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_lowercase(),
    };
    let socket = &flags.container_runtime_endpoint;
    let socket = socket.strip_prefix("unix://").unwrap_or(socket);
    let clients = match &flags.client_ca_file {
        Some(path) => {
            let pem =
                fs::read(path).with_context(|| format!("--client-ca-file {}", path.display()))?;
            Some(pki::Trust::new(&pki::certificates(&pem)?)?)
        }
        None => None,
    };
    let serving = match (flags.tls_cert_file, flags.tls_private_key_file) {
        (Some(certificate), Some(key)) => Some(kubelet::Serving::Files { certificate, key }),
        _ => None,
    };
    let streaming_idle = object::Duration::nanos(&flags.streaming_connection_idle_timeout);
    let streaming_idle = streaming_idle.map_err(anyhow::Error::msg)?;
    let streaming_idle = Duration::from_nanos(u64::try_from(streaming_idle)?);
    let transition = object::Duration::nanos(&flags.eviction_pressure_transition_period);
    let transition = transition.map_err(anyhow::Error::msg)? / 1_000_000_000;
    let thresholds = eviction::thresholds(
        &flags.eviction_hard,
        &flags.eviction_soft,
        &flags.eviction_soft_grace_period,
        &flags.eviction_minimum_reclaim,
    );
    let thresholds = thresholds.map_err(anyhow::Error::msg)?;
    let (high, low) = (flags.image_gc_high_threshold, flags.image_gc_low_threshold);
    ensure!(
        high <= 100 && low < high,
        "--image-gc-low-threshold {low} is not below --image-gc-high-threshold {high}, or that is above 100"
    );
    let size = u64::try_from(flags.container_log_max_size.value()).unwrap_or_default();
    let files = flags.container_log_max_files;
    ensure!(files >= 2, "--container-log-max-files {files}: at least 2 are needed");
    ensure!(size > 0, "--container-log-max-size must be more than nothing");
    let (kube, system): (Reserved, Reserved) = (
        flags.kube_reserved.parse().map_err(|why| anyhow!("--kube-reserved: {why}"))?,
        flags.system_reserved.parse().map_err(|why| anyhow!("--system-reserved: {why}"))?,
    );
    let groups = [
        ("kube-reserved", &flags.kube_reserved_cgroup, &kube),
        ("system-reserved", &flags.system_reserved_cgroup, &system),
    ];
    let (enforce_pods, reserved_groups) = enforcement(&flags.enforce_node_allocatable, groups)?;
    Ok(Config {
        kube_reserved: kube,
        system_reserved: system,
        enforce_pods,
        reserved_groups,
        pod_max_pids: flags.pod_max_pids,
        eviction: eviction::Settings {
            thresholds,
            transition,
            most_grace: flags.eviction_max_pod_grace_period,
        },
        image_gc: image_gc::Limits { high, low, ..image_gc::Limits::default() },
        log_limits: rotate::Limits { size, files },
        node_ips: flags.node_ip.into_iter().collect(),
        root: flags.root_dir,
        logs: flags.pod_logs_dir,
        static_pods: flags.pod_manifest_path,
        manifest_url: flags.manifest_url,
        cluster_dns: flags.cluster_dns,
        cluster_domain: flags.cluster_domain,
        cgroup_root: flags.cgroup_root,
        clients,
        serving,
        seccomp_default: flags.seccomp_default,
        streaming_idle,
        address: flags.address,
        port: flags.port,
        max_pods: flags.max_pods,
        standalone: flags.kubeconfig.is_none(),
        ..Config::new(&name, socket)
    })
}

/// Whether pods are kept to their part, and which groups are: `--enforce-node-allocatable`.
fn enforcement(
    asked: &[String],
    groups: [(&str, &String, &Reserved); 2],
) -> Result<(bool, Vec<ReservedGroup>)> {
    const FLAG: &str = "enforceNodeAllocatable (--enforce-node-allocatable)";
    let has = |key: &str| asked.iter().any(|one| one == key);
    ensure!(
        !has("none") || asked.len() == 1,
        "invalid configuration: {FLAG} may not contain additional enforcements when \"none\" is specified"
    );
    let mut found = Vec::new();
    for (name, path, reserved) in groups {
        let compressible = format!("{name}-compressible");
        ensure!(
            !has(name) || !has(&compressible),
            "invalid configuration: both {name:?} and {compressible:?} cannot be specified together in {FLAG}"
        );
        if !has(name) && !has(&compressible) {
            continue;
        }
        ensure!(
            !path.is_empty(),
            "invalid configuration: --{name}-cgroup must be specified when {name:?} or {compressible:?} included in {FLAG}"
        );
        let compressible_only = !has(name);
        let (path, reserved) = (path.clone(), reserved.clone());
        found.push(ReservedGroup { path, reserved, compressible_only });
    }
    for one in asked.iter().filter(|one| !one.is_empty()) {
        let plain = one.strip_suffix("-compressible").unwrap_or(one);
        let known = groups.iter().any(|(name, ..)| *name == plain)
            || ["pods", "none"].contains(&one.as_str());
        ensure!(known, "invalid configuration: option {one:?} specified for {FLAG}");
    }
    Ok((has("pods"), found))
}

#[cfg(test)]
mod tests {
    use eviction::{Left, Pressure, Signal, State};

    use super::*;

    fn read(words: &[&str]) -> Result<Config> {
        let words = [&["--hostname-override=n"], words].concat();
        let words = words.iter().map(OsString::from).collect();
        config(parse::<Arguments>("kubelet", words).map_err(|_| anyhow::anyhow!("refused"))?)
    }

    fn refused(words: &[&str]) -> bool {
        read(words).is_err()
    }

    /// What is short, and since when, with these flags: (seconds, memory left) one after the other.
    fn short(words: &[&str], seen: &[(i64, i64)]) -> (bool, Vec<Pressure>) {
        let settings = read(words).expect("good flags").eviction;
        let (mut state, mut acts) = (State::default(), false);
        for (now, available) in seen {
            let left = Left { capacity: 1 << 40, available: *available };
            let memory = [(Signal::Memory, left)].into();
            acts = state.observe(&settings, &memory, *now).is_some();
        }
        (acts, state.pressure())
    }

    #[test]
    fn one_address_may_be_served_alone() {
        assert!(read(&[]).unwrap().address.is_unspecified());
        let one = read(&["--address=192.0.2.7"]).unwrap();
        assert_eq!(one.address.to_string(), "192.0.2.7");
        assert!(refused(&["--address=everywhere"]));
    }

    #[test]
    fn soft_thresholds_wait_for_their_grace_period() {
        let soft = "--eviction-soft=memory.available<1Gi";
        let flags = [soft, "--eviction-soft-grace-period=memory.available=30s"];
        assert_eq!(short(&flags, &[(0, 1 << 29), (29, 1 << 29)]), (false, vec![Pressure::Memory]));
        assert!(!short(&["--eviction-hard=nodefs.available<1%"], &[(0, 1000), (30, 1000)]).0);
        assert!(short(&flags, &[(0, 1 << 29), (30, 1 << 29)]).0);
        let longer = [soft, "--eviction-soft-grace-period=memory.available=1m"];
        assert!(!short(&longer, &[(0, 1 << 29), (30, 1 << 29)]).0);
        assert!(refused(&[soft]), "a soft threshold without a grace period");
        assert!(refused(&["--eviction-soft-grace-period=memory.available=never"]));
    }

    #[test]
    fn more_than_the_threshold_must_be_won_back() {
        let hard = "--eviction-hard=memory.available<1Gi";
        let seen = [(0, 1 << 29), (10, 3 << 29)];
        assert!(!short(&[hard], &seen).0);
        assert!(short(&[hard, "--eviction-minimum-reclaim=memory.available=1Gi"], &seen).0);
        assert!(refused(&["--eviction-minimum-reclaim=memory.available=much"]));
        assert!(refused(&["--eviction-hard=disk<1"]));
    }

    #[test]
    fn pressure_lasts_for_the_transition_period() {
        let seen = [(0, 1000), (100, 1 << 39)];
        assert_eq!(short(&[], &seen).1, [Pressure::Memory], "five minutes by default");
        let shorter = ["--eviction-pressure-transition-period=30s"];
        assert_eq!(short(&shorter, &seen).1, []);
        assert!(refused(&["--eviction-pressure-transition-period=soon"]));
    }

    #[test]
    fn the_grace_of_pods_is_bounded() {
        let flags = [
            "--eviction-soft=memory.available<1Gi",
            "--eviction-soft-grace-period=memory.available=30s",
            "--eviction-max-pod-grace-period=7",
        ];
        for (flags, seconds) in [(&flags[..], 7), (&flags[..2], 0)] {
            let settings = read(flags).expect("good flags").eviction;
            let soft = settings.thresholds.iter().find(|one| one.grace.is_some());
            assert_eq!(settings.grace(soft.expect("one"), 20), seconds);
        }
    }

    #[test]
    fn images_and_logs_have_their_limits() {
        let limits = |words: &[&str]| read(words).expect("good flags").image_gc;
        assert_eq!(limits(&[]).excess(1000, 200), None);
        let flags = ["--image-gc-high-threshold=70", "--image-gc-low-threshold=60"];
        assert_eq!(limits(&flags).excess(1000, 200), Some(200));
        assert!(refused(&["--image-gc-low-threshold=90"]));

        let folder = tempfile::TempDir::new().unwrap();
        let log = folder.path().join("0.log");
        for number in 1..=3 {
            fs::write(folder.path().join(format!("0.log.2026010{number}-000000")), "").unwrap();
        }
        let left = |files: &str| {
            read(&[files]).expect("good flags").log_limits.tidy(&log).unwrap();
            fs::read_dir(folder.path()).unwrap().count()
        };
        assert_eq!(left("--container-log-max-files=5"), 3);
        assert_eq!(left("--container-log-max-files=3"), 1);
        let size = read(&["--container-log-max-size=1Ki"]).expect("good flags").log_limits.size;
        assert_eq!(size, 1024);
        assert!(refused(&["--container-log-max-files=1"]));
        assert!(refused(&["--container-log-max-size=0"]));
    }

    #[test]
    fn what_is_reserved_is_kept_from_pods() {
        let flags = ["--kube-reserved=cpu=100m,memory=1Gi", "--system-reserved=pid=100"];
        let config = read(&flags).expect("good flags");
        assert_eq!(config.kube_reserved.get("memory").map(Quantity::value), Some(1 << 30));
        assert_eq!(config.system_reserved.get("pid").map(Quantity::value), Some(100));
        assert!(config.enforce_pods && config.reserved_groups.is_empty());
        assert!(refused(&["--kube-reserved=gpu=1"]));
        assert!(!read(&["--enforce-node-allocatable=none"]).expect("good").enforce_pods);
        let flags = [
            "--enforce-node-allocatable=pods,kube-reserved-compressible",
            "--kube-reserved-cgroup=/kube",
            "--kube-reserved=cpu=1",
        ];
        let [group] = &read(&flags).expect("good flags").reserved_groups[..] else {
            panic!("one group");
        };
        assert!(group.path == "/kube" && group.compressible_only);
        let system = [
            "--enforce-node-allocatable=pods,system-reserved",
            "--system-reserved-cgroup=/others",
            "--system-reserved=memory=1Gi",
        ];
        let [group] = &read(&system).expect("good flags").reserved_groups[..] else {
            panic!("one group");
        };
        assert!(group.path == "/others" && !group.compressible_only);
        assert!(refused(&flags[..1]), "a group without a path");
        assert!(refused(&["--enforce-node-allocatable=none,pods"]));
        assert!(refused(&["--enforce-node-allocatable=everything"]));
        assert_eq!(read(&["--pod-max-pids=7"]).expect("good").pod_max_pids, 7);
        assert!(refused(&["--oom-score-adj=1001"]));
    }

    #[test]
    fn what_the_port_shows_and_how_containers_are_confined() {
        let config = read(&[]).expect("good flags");
        assert!(config.serving.is_none() && !config.seccomp_default);
        assert_eq!(config.streaming_idle, Duration::from_hours(4));
        let flags = ["--tls-cert-file=/a", "--tls-private-key-file=/b", "--seccomp-default"];
        let config = read(&flags).expect("good flags");
        assert!(matches!(config.serving, Some(kubelet::Serving::Files { .. })));
        assert!(config.seccomp_default);
        let idle = read(&["--streaming-connection-idle-timeout=5m"]).expect("good");
        assert_eq!(idle.streaming_idle, Duration::from_mins(5));
        assert!(
            refused(&["--tls-cert-file=/a"])
                && refused(&["--streaming-connection-idle-timeout=-1s"])
        );
    }
}
