//! The CRI configuration of a pod sandbox: metadata, DNS, namespaces, ports and cgroup parent.

use std::collections::HashMap;

use api::core::Pod;
use container::cri::{
    DnsConfig, Int64Value, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode,
    NamespaceOption, PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol, SecurityProfile,
    security_profile::ProfileType,
};

use crate::{Config, cgroup, dns, pod_logs::PodLogs, runtime::labels};

/// The CRI configuration of a pod's sandbox.
pub(crate) fn config(config: &Config, pod: &Pod, attempt: u32) -> Result<PodSandboxConfig, String> {
    let (meta, spec) = (pod.metadata(), pod.spec());
    if spec.host_users() == Some(false) {
        return Err("user namespaces (hostUsers: false) are not supported".into());
    }
    let logs = PodLogs::of(config, pod).folder();
    let resolver = dns::config(config, pod)?;
    let sysctls = spec.security_context().map(|context| {
        let all = context.sysctls().iter();
        all.map(|one| (one.name().to_owned(), one.value().to_owned())).collect()
    });
    Ok(PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: meta.name().into(),
            uid: meta.uid().into(),
            namespace: meta.namespace().into(),
            attempt,
        }),
        hostname: if spec.host_network() { String::new() } else { dns::hostname(config, pod) },
        log_directory: logs.to_string_lossy().into_owned(),
        dns_config: Some(DnsConfig {
            servers: resolver.servers,
            searches: resolver.searches,
            options: resolver.options,
        }),
        port_mappings: if spec.host_network() { Vec::new() } else { ports(pod) },
        labels: pod_labels(pod),
        annotations: smallest_first(meta.annotations().iter()),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: cgroup::pod_cgroup_path(&config.cgroup_root, pod),
            security_context: Some(security(pod)),
            sysctls: sysctls.unwrap_or_default(),
            ..LinuxPodSandboxConfig::default()
        }),
        windows: None,
    })
}

/// Maximum size in bytes of the pod's labels that are passed to the runtime, and of its annotations. The runtime
/// returns them for all pods in every list, and a pod may have a megabyte of them.
const MOST_METADATA: usize = 16 << 10;

fn pod_labels(pod: &Pod) -> HashMap<String, String> {
    let mut all = smallest_first(pod.metadata().labels().iter());
    all.extend(identity(pod));
    all
}

/// The labels that identify the pod of a sandbox or container.
pub(crate) fn identity(pod: &Pod) -> HashMap<String, String> {
    let meta = pod.metadata();
    let all = [
        (labels::NAME, meta.name()),
        (labels::NAMESPACE, meta.namespace()),
        (labels::UID, meta.uid()),
    ];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Annotations that CNI plugins use. They are kept first, so that others cannot displace them.
const OF_NETWORKS: [&str; 2] =
    ["kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"];

/// As many entries as fit into the limit, the smallest first.
fn smallest_first<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> HashMap<String, String> {
    let mut all: Vec<_> = all.collect();
    let is_other = |name: &str| !OF_NETWORKS.contains(&name);
    all.sort_by_key(|(name, value)| (is_other(name), name.len() + value.len(), *name));
    let mut bytes = 0;
    let fitting = all.into_iter().take_while(|(name, value)| {
        bytes += name.len() + value.len();
        bytes <= MOST_METADATA
    });
    fitting.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The CRI namespace options of a pod: host, pod or container.
pub(crate) fn namespaces(pod: &Pod) -> NamespaceOption {
    let spec = pod.spec();
    let mode = |host: bool, otherwise: NamespaceMode| -> i32 {
        if host { NamespaceMode::Node.into() } else { otherwise.into() }
    };
    let shared = spec.share_process_namespace() == Some(true);
    let pid = if shared { NamespaceMode::Pod } else { NamespaceMode::Container };
    NamespaceOption {
        network: mode(spec.host_network(), NamespaceMode::Pod),
        pid: mode(spec.host_pid(), pid),
        ipc: mode(spec.host_ipc(), NamespaceMode::Pod),
        ..NamespaceOption::default()
    }
}

fn security(pod: &Pod) -> LinuxSandboxSecurityContext {
    let mut out = LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        seccomp: Some(SecurityProfile {
            profile_type: ProfileType::RuntimeDefault.into(),
            localhost_ref: String::new(),
        }),
        privileged: pod.spec().all_containers().any(|one| {
            one.security_context().and_then(api::core::SecurityContext::privileged) == Some(true)
        }),
        ..LinuxSandboxSecurityContext::default()
    };
    if let Some(context) = pod.spec().security_context() {
        let id = |id: Option<i64>| id.map(|value| Int64Value { value });
        out.run_as_user = id(context.run_as_user());
        out.run_as_group = id(context.run_as_group()).filter(|_| out.run_as_user.is_some());
        out.supplemental_groups = context.supplemental_groups().iter().collect();
        out.supplemental_groups.extend(context.fs_group());
    }
    out
}

fn ports(pod: &Pod) -> Vec<PortMapping> {
    let containers = pod.spec().containers().iter().chain(pod.spec().sidecars());
    let ports = containers.flat_map(|one| one.ports().iter());
    ports
        .filter(|port| port.host_port() != 0)
        .map(|port| PortMapping {
            protocol: match port.protocol() {
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                _ => Protocol::Tcp,
            }
            .into(),
            container_port: port.container_port(),
            host_port: port.host_port(),
            host_ip: port.host_ip().into(),
        })
        .collect()
}

#[test]
fn the_runtime_is_given_little_of_a_lot() {
    let many = |count: usize| {
        let one = |at: usize| format!("l{at:05}: {}", "v".repeat(60));
        (0..count).map(one).collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "metadata: {{name: p, namespace: ns, uid: u, labels: {{{many}, a: b, io.kubernetes.pod.uid: other}}, annotations: {{{many}, a: b, kubernetes.io/egress-bandwidth: {rate}}}}}",
        rate = "1".repeat(200),
        many = many(10_000)
    );
    let pod = Pod::from(object::yaml::from_yaml(&text).unwrap());
    let given = config(&Config::new("n", "/nowhere"), &pod, 0).unwrap();
    for map in [&given.labels, &given.annotations] {
        let bytes: usize = map.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes < MOST_METADATA + 100, "{bytes}");
        assert_eq!(map["a"], "b");
    }
    assert_eq!(given.labels[labels::UID], "u");
    assert!(given.annotations.contains_key(OF_NETWORKS[1]));
    assert_eq!(identity(&pod).len(), 3);
}
