//! Numbers: what pods and the node use.

use std::{collections::BTreeMap, fmt::Write};

use container::cri::{ContainerStats, ListContainerStatsRequest};
use http::StatusCode;
use object::{Time, Value};

use super::{Answer, json, text};
use crate::{
    Host,
    node::machine,
    runtime::{labels, within},
};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// What one container uses.
struct Usage {
    container: String,
    pod: String,
    namespace: String,
    uid: String,
    /// Nanoseconds of a core since it started.
    cpu: u64,
    cores: u64,
    memory: u64,
    rss: u64,
    time: i64,
}

pub(crate) fn metrics(host: &Host) -> Answer {
    let all = host.pods.all();
    let mut out = String::new();
    let node = &host.config.node_name;
    let _ = write!(
        out,
        "# HELP kubelet_node_name The name of the node. The count is always 1.\n\
         # TYPE kubelet_node_name gauge\nkubelet_node_name{{node=\"{node}\"}} 1\n\
         # HELP kubelet_working_pods Number of pods the kubelet is working on.\n\
         # TYPE kubelet_working_pods gauge\nkubelet_working_pods {}\n",
        all.len()
    );
    text(StatusCode::OK, &out)
}

pub(crate) async fn resource(host: &Host) -> Answer {
    let all = match usages(host).await {
        Ok(all) => all,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &error),
    };
    let mut out = String::new();
    head(
        &mut out,
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    );
    for one in &all {
        line(&mut out, "container_cpu_usage_seconds_total", one, &seconds(one.cpu));
    }
    head(
        &mut out,
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
    );
    for one in &all {
        line(&mut out, "container_memory_working_set_bytes", one, &one.memory.to_string());
    }
    let mut pods: BTreeMap<(&str, &str), (u64, u64, i64)> = BTreeMap::new();
    for one in &all {
        let sum = pods.entry((&one.namespace, &one.pod)).or_default();
        *sum = (sum.0 + one.cpu, sum.1 + one.memory, one.time);
    }
    head(
        &mut out,
        "pod_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
    );
    for ((namespace, pod), (cpu, _, time)) in &pods {
        let _ = writeln!(
            out,
            "pod_cpu_usage_seconds_total{{namespace=\"{namespace}\",pod=\"{pod}\"}} {} {}",
            seconds(*cpu),
            time / 1_000_000
        );
    }
    head(
        &mut out,
        "pod_memory_working_set_bytes",
        "gauge",
        "Current working set of the pod in bytes",
    );
    for ((namespace, pod), (_, memory, time)) in &pods {
        let _ = writeln!(
            out,
            "pod_memory_working_set_bytes{{namespace=\"{namespace}\",pod=\"{pod}\"}} {memory} {}",
            time / 1_000_000
        );
    }
    let (cpu, memory) = node();
    head(
        &mut out,
        "node_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
    );
    let _ = writeln!(out, "node_cpu_usage_seconds_total {}", seconds(cpu));
    head(
        &mut out,
        "node_memory_working_set_bytes",
        "gauge",
        "Current working set of the node in bytes",
    );
    let _ = writeln!(out, "node_memory_working_set_bytes {memory}");
    text(StatusCode::OK, &out)
}

pub(crate) async fn cadvisor(host: &Host) -> Answer {
    let all = match usages(host).await {
        Ok(all) => all,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &error),
    };
    let mut out = String::new();
    head(
        &mut out,
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed in seconds.",
    );
    for one in &all {
        line(&mut out, "container_cpu_usage_seconds_total", one, &seconds(one.cpu));
    }
    for (name, help, of) in [
        (
            "container_memory_working_set_bytes",
            "Current working set in bytes.",
            (|one| one.memory) as fn(&Usage) -> u64,
        ),
        ("container_memory_rss", "Size of RSS in bytes.", |one| one.rss),
    ] {
        head(&mut out, name, "gauge", help);
        for one in &all {
            line(&mut out, name, one, &of(one).to_string());
        }
    }
    text(StatusCode::OK, &out)
}

pub(crate) async fn summary(host: &Host) -> Answer {
    let all = match usages(host).await {
        Ok(all) => all,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &error),
    };
    let now = Time::text(host.now());
    let fill = |out: &mut Value, cpu: u64, cores: u64, memory: u64, rss: u64| {
        out["cpu"]["time"] = now.clone().into();
        out["cpu"]["usageNanoCores"] = cores.into();
        out["cpu"]["usageCoreNanoSeconds"] = cpu.into();
        out["memory"]["time"] = now.clone().into();
        out["memory"]["workingSetBytes"] = memory.into();
        out["memory"]["usageBytes"] = memory.into();
        out["memory"]["rssBytes"] = rss.into();
    };
    let mut pods: BTreeMap<&str, Vec<&Usage>> = BTreeMap::new();
    for one in &all {
        pods.entry(&one.uid).or_default().push(one);
    }
    let mut out = Value::object();
    out["node"]["nodeName"] = (&*host.config.node_name).into();
    let (cpu, memory) = node();
    fill(&mut out["node"], cpu, 0, memory, 0);
    out["node"]["memory"]["availableBytes"] = machine::memory("MemAvailable:").into();
    let (size, free) = machine::disk(&host.config.root);
    (out["node"]["fs"]["capacityBytes"], out["node"]["fs"]["availableBytes"]) =
        (size.into(), free.into());
    out["node"]["fs"]["usedBytes"] = (size - free).into();
    out["pods"] = pods
        .iter()
        .map(|(uid, containers)| {
            let mut pod = Value::object();
            let about = &mut pod["podRef"];
            about["name"] = (&*containers[0].pod).into();
            about["namespace"] = (&*containers[0].namespace).into();
            about["uid"] = (*uid).into();
            let sum = |of: fn(&Usage) -> u64| containers.iter().map(|one| of(one)).sum();
            fill(&mut pod, sum(|o| o.cpu), sum(|o| o.cores), sum(|o| o.memory), sum(|o| o.rss));
            pod["containers"] = containers
                .iter()
                .map(|one| {
                    let mut entry = Value::object();
                    entry["name"] = (&*one.container).into();
                    fill(&mut entry, one.cpu, one.cores, one.memory, one.rss);
                    entry
                })
                .collect();
            pod
        })
        .collect();
    json(&out)
}

async fn usages(host: &Host) -> Result<Vec<Usage>, String> {
    let mut cri = host.runtime.cri();
    let asked = cri.runtime.list_container_stats(ListContainerStatsRequest { filter: None });
    let answer = within(PATIENCE, asked).await.map_err(|error| error.message().to_owned())?;
    Ok(answer.stats.into_iter().filter_map(usage).collect())
}

fn usage(stats: ContainerStats) -> Option<Usage> {
    let attributes = stats.attributes?;
    let label = |name: &str| attributes.labels.get(name).cloned();
    let value = |value: Option<container::cri::UInt64Value>| value.map_or(0, |value| value.value);
    let (cpu, memory) = (stats.cpu.unwrap_or_default(), stats.memory.unwrap_or_default());
    Some(Usage {
        container: label(labels::CONTAINER)?,
        pod: label(labels::NAME)?,
        namespace: label(labels::NAMESPACE)?,
        uid: label(labels::UID)?,
        cpu: value(cpu.usage_core_nano_seconds),
        cores: value(cpu.usage_nano_cores),
        memory: value(memory.working_set_bytes),
        rss: value(memory.rss_bytes),
        time: cpu.timestamp,
    })
}

/// Of the whole machine: nanoseconds of cores, bytes.
fn node() -> (u64, u64) {
    let table = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = table.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let busy = ticks.iter().enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, n)| n);
    let used = machine::memory("MemTotal:") - machine::memory("MemAvailable:");
    // a tick is a hundredth of a second
    (busy.sum::<u64>() * 10_000_000, used.max(0).unsigned_abs())
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(out: &mut String, name: &str, one: &Usage, value: &str) {
    let Usage { container, namespace, pod, time, .. } = one;
    let _ = writeln!(
        out,
        "{name}{{container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\"}} {value} {}",
        time / 1_000_000
    );
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}
