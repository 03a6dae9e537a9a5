//! Resource metrics of pods and the node, with upstream's names: `/metrics`, `/metrics/resource` and
//! `/metrics/cadvisor`.

use std::collections::HashMap;

use http::StatusCode;

use super::{
    HttpResponse,
    exposition::{Exposition, seconds},
    text,
};
use crate::{KubeletContext, node::machine, usage};

/// A metric of a container: name, type, help, and how to compute its value.
type MetricColumn =
    (&'static str, &'static str, &'static str, fn(&usage::ContainerResourceUsage) -> String);

const RESOURCE: [MetricColumn; 4] = [
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
        |one| seconds(one.cpu.usage_core_nanoseconds),
    ),
    (
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
        |one| one.memory.working_set.to_string(),
    ),
    (
        "container_swap_usage_bytes",
        "gauge",
        "Current amount of the container swap usage in bytes. Reported only on non-windows systems",
        |_| "0".into(),
    ),
    (
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds",
        |_| String::new(),
    ),
];

const CADVISOR: [MetricColumn; 9] = [
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed in seconds.",
        |one| seconds(one.cpu.usage_core_nanoseconds),
    ),
    (
        "container_memory_usage_bytes",
        "gauge",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        |one| one.memory.usage.to_string(),
    ),
    ("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", |one| {
        one.memory.working_set.to_string()
    }),
    ("container_memory_rss", "gauge", "Size of RSS in bytes.", |one| one.memory.rss.to_string()),
    ("container_memory_cache", "gauge", "Number of bytes of page cache memory.", |one| {
        one.memory.usage.saturating_sub(one.memory.rss).to_string()
    }),
    (
        "container_fs_usage_bytes",
        "gauge",
        "Number of bytes that are consumed by the container on this filesystem.",
        |one| one.layer_bytes.to_string(),
    ),
    ("container_fs_inodes_total", "gauge", "Number of Inodes", |one| one.layer_inodes.to_string()),
    (
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds.",
        |_| String::new(),
    ),
    ("container_last_seen", "gauge", "Last time a container was seen by the exporter", |one| {
        (one.cpu.time / 1_000_000_000).to_string()
    }),
];

/// The metric whose value is the start time, which comes from the container list instead of the usage.
const START: &str = "container_start_time_seconds";

/// Answers `/metrics`.
pub(crate) async fn metrics(host: &KubeletContext) -> HttpResponse {
    let mut out = Exposition::default();
    let node = &*host.config.node_name;
    out.family("kubelet_node_name", "gauge", "The node's name. The count is always 1.").put(
        &[("node", node)],
        1,
        None,
    );
    let all = host.pods.all();
    out.family("kubelet_active_pods", "gauge", "The number of pods the kubelet considers active.")
        .put(
            &[("static", ""), ("mirror", "")],
            all.iter().filter(|desired| desired.is_active()).count(),
            None,
        );
    out.family(
        "kubelet_desired_pods",
        "gauge",
        "The number of pods the kubelet is being instructed to run.",
    )
    .put(&[], all.len(), None);
    running(host, &mut out).await;
    host.counters.show(&mut out);
    let mut said = out.finish();
    panics::report(&mut said);
    text(StatusCode::OK, &said)
}

/// The numbers of running pods and containers; omitted if the runtime does not answer.
async fn running(host: &KubeletContext, out: &mut Exposition) {
    use container::cri::{ContainerState, PodSandboxState};
    if let Ok(sandboxes) = host.runtime.sandboxes(HashMap::new()).await {
        let ready =
            |one: &&container::cri::PodSandbox| one.state() == PodSandboxState::SandboxReady;
        let help = "Number of pods that have a running pod sandbox";
        let number = sandboxes.iter().filter(ready).count();
        out.family("kubelet_running_pods", "gauge", help).put(&[], number, None);
    }
    if let Ok(containers) = host.runtime.containers(HashMap::new()).await {
        let help = "Number of containers currently running";
        let mut family = out.family("kubelet_running_containers", "gauge", help);
        for (state, name) in [
            (ContainerState::ContainerCreated, "created"),
            (ContainerState::ContainerExited, "exited"),
            (ContainerState::ContainerRunning, "running"),
            (ContainerState::ContainerUnknown, "unknown"),
        ] {
            let number = containers.iter().filter(|one| one.state() == state).count();
            family.put(&[("container_state", name)], number, None);
        }
    }
}

/// Answers `/metrics/resource`.
pub(crate) async fn resource(host: &KubeletContext) -> HttpResponse {
    let mut out = Exposition::default();
    let pods = usage::pods(host).await;
    let failed = u8::from(pods.is_err());
    let pods = pods.unwrap_or_default();
    let starts = starts(host).await;
    of_containers(&mut out, &RESOURCE, &pods, &starts, |pod, one, _| {
        let labels = [("container", &one.name), ("namespace", &pod.namespace), ("pod", &pod.name)];
        labels.map(|(name, value)| (name, value.clone())).into()
    });
    for (name, kind, help, of) in [
        (
            "pod_cpu_usage_seconds_total",
            "counter",
            "Cumulative cpu time consumed by the pod in core-seconds",
            (|pod| seconds(pod.cpu.usage_core_nanoseconds))
                as fn(&usage::PodResourceUsage) -> String,
        ),
        (
            "pod_memory_working_set_bytes",
            "gauge",
            "Current working set of the pod in bytes",
            |pod| pod.memory.working_set.to_string(),
        ),
    ] {
        let mut family = out.family(name, kind, help);
        for pod in &pods {
            let labels = [("namespace", &*pod.namespace), ("pod", &pod.name)];
            family.put(&labels, of(pod), Some(pod.cpu.time));
        }
    }
    let (cpu, memory) = node();
    let now = Some(host.nanos());
    out.family(
        "node_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
    )
    .put(&[], seconds(cpu), now);
    out.family(
        "node_memory_working_set_bytes",
        "gauge",
        "Current working set of the node in bytes",
    )
    .put(&[], memory, now);
    let help = "1 if there was an error while getting container metrics, 0 otherwise";
    for name in ["resource_scrape_error", "scrape_error"] {
        out.family(name, "gauge", help).put(&[], failed, None);
    }
    text(StatusCode::OK, &out.finish())
}

/// Answers `/metrics/cadvisor`.
pub(crate) async fn cadvisor(host: &KubeletContext) -> HttpResponse {
    let pods = match usage::pods(host).await {
        Ok(pods) => pods,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &error),
    };
    let starts = starts(host).await;
    let mut out = Exposition::default();
    of_containers(&mut out, &CADVISOR, &pods, &starts, |pod, one, image| {
        vec![
            ("container", one.name.clone()),
            ("id", format!("/kubepods/pod{}/{}", pod.uid, one.id)),
            ("image", image.to_owned()),
            ("name", one.id.clone()),
            ("namespace", pod.namespace.clone()),
            ("pod", pod.name.clone()),
        ]
    });
    let mut family = out.family(
        "container_memory_failures_total",
        "counter",
        "Cumulative count of memory allocation failures.",
    );
    for (pod, one) in containers(&pods) {
        let faults = [("pgfault", one.memory.faults), ("pgmajfault", one.memory.major_faults)];
        for (kind, number) in faults {
            let labels = [
                ("container", &*one.name),
                ("failure_type", kind),
                ("name", &one.id),
                ("namespace", &pod.namespace),
                ("pod", &pod.name),
                ("scope", "container"),
            ];
            family.put(&labels, number, Some(one.cpu.time));
        }
    }
    network(&mut out, &pods);
    let machine = &host.machine;
    out.family("machine_cpu_cores", "gauge", "Number of logical CPU cores.").put(
        &[("machine_id", &*machine.machine_id)],
        machine.cpus,
        None,
    );
    out.family("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.").put(
        &[("machine_id", &*machine.machine_id)],
        machine.memory,
        None,
    );
    text(StatusCode::OK, &out.finish())
}

/// Answers `/metrics/probes`.
pub(crate) fn probes(host: &KubeletContext) -> HttpResponse {
    text(StatusCode::OK, &host.probe_metrics.render())
}

/// CPU usage of the whole host in nanoseconds, and its working set in bytes.
pub(super) fn node() -> (u64, u64) {
    let table = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = table.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let busy = ticks.iter().enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, n)| n);
    let free = machine::memory("MemFree:") + machine::memory("Inactive(file):");
    let used = machine::memory("MemTotal:") - free;
    // a tick is a hundredth of a second
    (busy.sum::<u64>() * 10_000_000, used.max(0).unsigned_abs())
}

fn containers(
    pods: &[usage::PodResourceUsage],
) -> impl Iterator<Item = (&usage::PodResourceUsage, &usage::ContainerResourceUsage)> {
    pods.iter().flat_map(|pod| pod.containers.iter().map(move |one| (pod, one)))
}

/// Labels of a container's metrics; the last argument is its image.
type Labels = fn(
    &usage::PodResourceUsage,
    &usage::ContainerResourceUsage,
    &str,
) -> Vec<(&'static str, String)>;

fn of_containers(
    out: &mut Exposition,
    columns: &[MetricColumn],
    pods: &[usage::PodResourceUsage],
    starts: &HashMap<String, Start>,
    labels: Labels,
) {
    for (name, kind, help, of) in columns {
        let mut family = out.family(name, kind, help);
        for (pod, one) in containers(pods) {
            let start = starts.get(&one.id);
            let labels = labels(pod, one, start.map(|start| &*start.image).unwrap_or_default());
            let labels: Vec<_> =
                labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            match start.filter(|_| *name == START) {
                Some(start) => family.put(&labels, start, None),
                None => family.put(&labels, of(one), Some(one.cpu.time)),
            }
        }
    }
}

fn network(out: &mut Exposition, pods: &[usage::PodResourceUsage]) {
    type Of = fn(&container::cri::NetworkInterfaceUsage) -> Option<u64>;
    let columns: [(&str, &str, Of); 4] = [
        ("container_network_receive_bytes_total", "Cumulative count of bytes received", |one| {
            one.rx_bytes.map(|n| n.value)
        }),
        (
            "container_network_receive_errors_total",
            "Cumulative count of errors encountered while receiving",
            |one| one.rx_errors.map(|n| n.value),
        ),
        (
            "container_network_transmit_bytes_total",
            "Cumulative count of bytes transmitted",
            |one| one.tx_bytes.map(|n| n.value),
        ),
        (
            "container_network_transmit_errors_total",
            "Cumulative count of errors encountered while transmitting",
            |one| one.tx_errors.map(|n| n.value),
        ),
    ];
    for (name, help, of) in columns {
        let mut family = out.family(name, "counter", help);
        for pod in pods {
            let Some(network) = &pod.network else { continue };
            for one in &network.interfaces {
                let labels =
                    [("interface", &*one.name), ("namespace", &pod.namespace), ("pod", &pod.name)];
                family.put(&labels, of(one).unwrap_or_default(), Some(network.timestamp));
            }
        }
    }
}

/// When a container was created, and its image.
struct Start {
    nanos: i64,
    image: String,
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&seconds(self.nanos.max(0).unsigned_abs()))
    }
}

/// Creation times and images, by container id.
async fn starts(host: &KubeletContext) -> HashMap<String, Start> {
    let listed = host.runtime.containers(HashMap::new()).await.unwrap_or_default();
    let all = listed.into_iter().map(|one| {
        let image = one.image.map(|image| image.user_specified_image).unwrap_or_default();
        (one.id, Start { nanos: one.created_at, image })
    });
    all.collect()
}
