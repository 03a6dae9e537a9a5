//! `/stats/summary`: resource usage of the node and its pods as JSON.

use std::{collections::HashMap, path::Path, sync::Arc};

use http::StatusCode;
use object::{Time, Value};

use super::{HttpResponse, json, resource_metrics, text};
use crate::{KubeletContext, blocking, node::machine, usage};

/// Answers `/stats/summary`.
pub(crate) async fn answer(host: &Arc<KubeletContext>, only_cpu_and_memory: bool) -> HttpResponse {
    let pods = match usage::pods(host).await {
        Ok(pods) => pods,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &error),
    };
    let starts: HashMap<String, i64> = match host.runtime.containers(HashMap::new()).await {
        Ok(listed) => listed.into_iter().map(|one| (one.id, one.created_at)).collect(),
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.message()),
    };
    let images = host.image_folder().await;
    let writer = Writer { host: host.clone(), starts, short: only_cpu_and_memory, images };
    let written = blocking(move || {
        let mut out = Value::object();
        out["node"] = writer.node();
        out["pods"] = pods.iter().map(|pod| writer.pod(pod)).collect();
        Ok(out)
    });
    match written.await {
        Ok(out) => json(&out),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error),
    }
}

/// Builds the JSON of `/stats/summary`.
struct Writer {
    host: Arc<KubeletContext>,
    /// Creation times in nanoseconds, by container id.
    starts: HashMap<String, i64>,
    /// Only CPU and memory (`only_cpu_and_memory`).
    short: bool,
    images: std::path::PathBuf,
}

impl Writer {
    fn node(&self) -> Value {
        let mut out = Value::object();
        out["nodeName"] = (&*self.host.config.node_name).into();
        out["startTime"] = Time::format(started()).into();
        let now = Time::format(self.host.now());
        let (cpu, memory) = resource_metrics::node();
        (out["cpu"]["time"], out["memory"]["time"]) = (now.clone().into(), now.clone().into());
        out["cpu"]["usageCoreNanoSeconds"] = cpu.into();
        let whole = machine::memory("MemTotal:").max(0).unsigned_abs();
        out["memory"]["availableBytes"] = whole.saturating_sub(memory).into();
        out["memory"]["usageBytes"] =
            (machine::memory("MemTotal:") - machine::memory("MemFree:")).into();
        out["memory"]["workingSetBytes"] = memory.into();
        out["memory"]["rssBytes"] = machine::memory("AnonPages:").into();
        if self.short {
            return out;
        }
        out["fs"] = self.disk(&self.host.config.root_dir);
        out["runtime"]["imageFs"] = self.disk(&self.images);
        out["runtime"]["containerFs"] = self.disk(&self.images);
        let number =
            |path: &str| -> Option<i64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
        out["rlimit"]["time"] = now.into();
        out["rlimit"]["maxpid"] = number("/proc/sys/kernel/pid_max").unwrap_or_default().into();
        out["rlimit"]["curproc"] = crate::eviction::process_count().unwrap_or_default().into();
        out
    }

    fn pod(&self, pod: &usage::PodResourceUsage) -> Value {
        let mut out = Value::object();
        let about = &mut out["podRef"];
        (about["name"], about["namespace"]) = ((&*pod.name).into(), (&*pod.namespace).into());
        about["uid"] = (&*pod.uid).into();
        let desired = self.host.pods.find(&pod.namespace, &pod.name, &pod.uid);
        let start = desired.as_ref().and_then(|pod| pod.status().start_time().map(str::to_owned));
        out["startTime"] = start.map_or(Value::Null, |start| start.as_str().into());
        (out["cpu"], out["memory"]) = (cpu(&pod.cpu), memory(&pod.memory, pod.cpu.time));
        out["containers"] = pod.containers.iter().map(|one| self.container(one)).collect();
        if self.short {
            return out;
        }
        if let Some(network) = &pod.network {
            out["network"] = interfaces(network);
        }
        out["process_stats"]["process_count"] = pod.processes.into();
        let written =
            desired.map(|pod| usage::volumes(&self.host.config, &pod)).unwrap_or_default();
        let of = |one: &usage::ContainerResourceUsage| {
            one.layer_bytes + one.log_bytes + one.message_bytes
        };
        let mut sum = pod.containers.iter().map(of).sum::<u64>();
        sum += usage::shared_files(&self.host.config, &pod.uid);
        sum += written.iter().map(|volume| volume.bytes.unsigned_abs()).sum::<u64>();
        out["ephemeral-storage"] = self.disk(&self.host.config.root_dir);
        out["ephemeral-storage"]["usedBytes"] = sum.into();
        let volumes = written.into_iter().map(|volume| {
            let mut entry = self.disk(&self.host.config.root_dir);
            (entry["name"], entry["usedBytes"]) =
                (volume.name.as_str().into(), volume.bytes.into());
            entry["inodesUsed"] = volume.inodes.into();
            entry
        });
        let volumes: Value = volumes.collect();
        if !volumes.items().is_empty() {
            out["volume"] = volumes;
        }
        out
    }

    fn container(&self, one: &usage::ContainerResourceUsage) -> Value {
        let mut out = Value::object();
        out["name"] = (&*one.name).into();
        let start = self.starts.get(&one.id).map(|nanos| Time::format(nanos / 1_000_000_000));
        out["startTime"] = start.map_or(Value::Null, Into::into);
        (out["cpu"], out["memory"]) = (cpu(&one.cpu), memory(&one.memory, one.cpu.time));
        if !self.short {
            out["rootfs"] = self.disk(&self.images);
            out["rootfs"]["usedBytes"] = one.layer_bytes.into();
            out["rootfs"]["inodesUsed"] = one.layer_inodes.into();
            out["logs"] = self.disk(&self.host.config.pod_logs_dir);
            out["logs"]["usedBytes"] = one.log_bytes.into();
        }
        out
    }

    /// The file system that a directory is on.
    fn disk(&self, path: &Path) -> Value {
        let mut out = Value::object();
        out["time"] = Time::format(self.host.now()).into();
        let (size, free) = machine::disk(path);
        (out["capacityBytes"], out["availableBytes"]) = (size.into(), free.into());
        out["usedBytes"] = (size - free).into();
        if let Ok(stat) = rustix::fs::statvfs(path) {
            (out["inodes"], out["inodesFree"]) = (stat.f_files.into(), stat.f_ffree.into());
            out["inodesUsed"] = stat.f_files.saturating_sub(stat.f_ffree).into();
        }
        out
    }
}

fn cpu(told: &usage::Cpu) -> Value {
    let mut out = Value::object();
    out["time"] = Time::format(told.time / 1_000_000_000).into();
    if let Some(now) = told.usage_nano_cores {
        out["usageNanoCores"] = now.into();
    }
    out["usageCoreNanoSeconds"] = told.usage_core_nanoseconds.into();
    out
}

fn memory(told: &usage::Memory, nanos: i64) -> Value {
    let mut out = Value::object();
    out["time"] = Time::format(nanos / 1_000_000_000).into();
    if let Some(available) = told.available {
        out["availableBytes"] = available.into();
    }
    out["usageBytes"] = told.usage.into();
    out["workingSetBytes"] = told.working_set.into();
    out["rssBytes"] = told.rss.into();
    (out["pageFaults"], out["majorPageFaults"]) = (told.faults.into(), told.major_faults.into());
    out
}

fn interfaces(network: &container::cri::NetworkUsage) -> Value {
    let one = |told: &container::cri::NetworkInterfaceUsage| {
        let mut out = Value::object();
        out["name"] = (&*told.name).into();
        for (name, number) in [
            ("rxBytes", told.rx_bytes),
            ("rxErrors", told.rx_errors),
            ("txBytes", told.tx_bytes),
            ("txErrors", told.tx_errors),
        ] {
            out[name] = number.map_or(0, |number| number.value).into();
        }
        out
    };
    let mut out = network.default_interface.as_ref().map_or_else(Value::object, one);
    out["time"] = Time::format(network.timestamp / 1_000_000_000).into();
    out["interfaces"] = network.interfaces.iter().map(one).collect();
    out
}

/// Boot time of the host, in seconds since 1970.
fn started() -> i64 {
    let table = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = table.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}
