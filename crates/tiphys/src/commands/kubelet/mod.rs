//! `kubelet`: reads its flags and runs it.

mod flags;
mod node_allocatable;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, fs, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, anyhow, ensure};
use client::{Client, Kubeconfig};
use kubelet::{Config, eviction, image_gc, reserved::Reserved, rotate, sysctl::Allowlist};
use runtime::Context;

pub(super) use self::flags::Arguments;
use self::node_allocatable::parse_enforcement;
use super::{parse, run_async, wait_for_shutdown_signal};

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
        wait_for_shutdown_signal().await?;
        cx.stop().await;
        Ok(())
    })
}

/// Parses the flags of a kubelet into its configuration.
pub(crate) fn config_of(words: Vec<OsString>) -> Result<Config> {
    config(super::read_flags(words)?)
}

#[expect(clippy::too_many_lines, reason = "one field after the other")]
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
            Some(pki::ClientCaVerifier::new(&pki::certificates(&pem)?)?)
        }
        None => None,
    };
    let serving = match (flags.tls_cert_file, flags.tls_private_key_file) {
        (Some(certificate), Some(key)) => Some(kubelet::Serving::Files { certificate, key }),
        _ => None,
    };
    let streaming_idle = object::Duration::parse_nanos(&flags.streaming_connection_idle_timeout);
    let streaming_idle = streaming_idle.map_err(anyhow::Error::msg)?;
    let streaming_idle = Duration::from_nanos(u64::try_from(streaming_idle)?);
    let transition = object::Duration::parse_nanos(&flags.eviction_pressure_transition_period);
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
    let (enforce_pods, reserved_groups) =
        parse_enforcement(&flags.enforce_node_allocatable, groups)?;
    let sysctls = Allowlist::new(&flags.allowed_unsafe_sysctls)
        .map_err(|why| anyhow!("--allowed-unsafe-sysctls: {why}"))?;
    Ok(Config {
        sysctls,
        kube_reserved: kube,
        system_reserved: system,
        enforce_pods,
        reserved_groups,
        pod_max_pids: flags.pod_max_pids,
        eviction: eviction::EvictionConfig {
            thresholds,
            pressure_transition_period: transition,
            max_pod_grace_period: flags.eviction_max_pod_grace_period,
        },
        image_gc: image_gc::ImageGcPolicy {
            high_threshold_percent: high,
            low_threshold_percent: low,
            ..image_gc::ImageGcPolicy::default()
        },
        log_limits: rotate::LogRotationPolicy { size, files },
        node_ips: flags.node_ip.into_iter().collect(),
        root_dir: flags.root_dir,
        pod_logs_dir: flags.pod_logs_dir,
        static_pod_path: flags.pod_manifest_path,
        manifest_url: flags.manifest_url,
        cluster_dns: flags.cluster_dns,
        cluster_domain: flags.cluster_domain,
        cgroup_root: flags.cgroup_root,
        client_ca: clients,
        serving_cert: serving,
        seccomp_default: flags.seccomp_default,
        streaming_idle,
        address: flags.address,
        port: flags.port,
        max_pods: flags.max_pods,
        standalone: flags.kubeconfig.is_none(),
        ..Config::new(&name, socket)
    })
}
