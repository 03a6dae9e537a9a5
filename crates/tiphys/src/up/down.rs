//! `down`: ends the cluster and removes what it made of the machine: processes,
//! mounts, interfaces, tables and groups. Objects and images stay, unless wiped.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use container::{Cri, cri, image::Registries};
use tokio::{
    net::UnixListener,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    Layout, Settings,
    node::{POD_LOGS, PodNetwork, cgroup_root, open_images, settings_of},
    status, supervise,
};

const GRACE: Duration = Duration::from_secs(30);

pub(crate) async fn run(layout: &Layout, wipe: bool) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "tiphys down needs root");
    let config = layout.path("config.yaml");
    ensure!(config.exists(), "there is no cluster in {}", layout.dir().display());
    stop_supervisor(layout).await?;
    supervise::end_all(layout).await; // where the supervisor has died
    let settings = Settings::load(&config)?;
    let network = std::sync::Arc::new(PodNetwork::new(layout, &settings)?);
    stop_pods(layout, network.clone()).await?;
    network.down().await?;
    proxy::cleanup()?;
    for mount in mounts(layout.dir()) {
        let _ = rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::DETACH);
    }
    sys::cgroup::Hierarchies::detect()?.group(&cgroup_root(layout))?.remove()?;
    if wipe {
        kubelet::remove_pod_logs(&layout.path("node/kubelet"), Path::new(POD_LOGS))
            .with_context(|| format!("cannot remove the logs in {POD_LOGS}"))?;
        sys::tree::remove(layout.dir())
            .with_context(|| format!("cannot remove {}", layout.dir().display()))?;
    }
    println!("the cluster is down");
    Ok(())
}

async fn stop_supervisor(layout: &Layout) -> Result<()> {
    let Some(pid) = status::pid(&layout.path("run/supervisor.pid")) else { return Ok(()) };
    sys::process::kill(pid, 15)?;
    let began = Instant::now();
    while status::lives(pid) {
        ensure!(began.elapsed() < GRACE, "the supervisor (pid {pid}) does not end");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Stops and removes every pod, through the runtime itself.
async fn stop_pods(layout: &Layout, network: std::sync::Arc<PodNetwork>) -> Result<()> {
    let store = open_images(layout, Registries::default()).await?;
    let server = container::Server::build(settings_of(layout)?, network, store).await?;
    let socket = layout.path("run/down.sock");
    let _ = fs::remove_file(&socket);
    let (listener, stop) = (UnixListener::bind(&socket)?, CancellationToken::new());
    let serving = tokio::runtime::Handle::current().spawn(server.serve(listener, stop.clone()));
    let mut cri = Cri::connect(&socket).await?;
    let request = cri::ListPodSandboxRequest::default();
    let pods = cri.runtime.list_pod_sandbox(request).await?.into_inner().items;
    for pod in pods {
        let id = pod.id;
        let stopped = cri::StopPodSandboxRequest { pod_sandbox_id: id.clone() };
        let _ = cri.runtime.stop_pod_sandbox(stopped).await;
        let removed = cri::RemovePodSandboxRequest { pod_sandbox_id: id.clone() };
        cri.runtime.remove_pod_sandbox(removed).await.with_context(|| format!("pod {id}"))?;
    }
    stop.cancel();
    serving.await??;
    let _ = fs::remove_file(&socket);
    Ok(())
}

/// What is mounted below a folder, the innermost first.
fn mounts(dir: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let inside = |path: &&str| Path::new(path).starts_with(dir);
    let paths = table.lines().filter_map(|line| line.split(' ').nth(1));
    let mut found: Vec<String> = paths.filter(inside).map(str::to_owned).collect();
    found.reverse();
    found
}
