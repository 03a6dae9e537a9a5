//! The container runtime of a node: its directories, its images and its socket.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use container::{
    Config, Server,
    image::{BuiltinImage, ImageStore, RegistryConfig},
};
use tokio::{net::UnixListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::DeferredPodNetwork;
use crate::up::{ClusterConfig, DataDir, layout::private, node_reserve};

/// The image that contains this executable; the cluster DNS runs from it.
pub(crate) const IMAGE: &str = concat!("tiphys.local/tiphys:", env!("CARGO_PKG_VERSION"));
const HELLO: &str = "tiphys.local/hello:1";

/// Serves CRI on `run/cri.sock` until `stop`; pods keep running afterwards.
pub(super) async fn serve(
    layout: &DataDir,
    network: Arc<DeferredPodNetwork>,
    stop: CancellationToken,
) -> Result<JoinHandle<()>> {
    let registries = ClusterConfig::load(&layout.path("config.yaml"))?.registries;
    let registries = RegistryConfig::parse(registries.iter().map(String::as_str))?;
    let store = open_images(layout, registries).await?;
    super::images::serve(layout, store.clone(), stop.clone())?;
    let server = Server::build(runtime_config(layout)?, network, store).await.context("runtime")?;
    let socket = layout.path("run/cri.sock");
    let _ = fs::remove_file(&socket);
    let listener =
        UnixListener::bind(&socket).with_context(|| format!("cannot make {}", socket.display()))?;
    private(&socket)?;
    Ok(tokio::runtime::Handle::current().spawn(async move {
        if let Err(error) = server.serve(listener, stop).await {
            error!(%error, "the runtime has stopped");
        }
    }))
}

fn runtime_config(layout: &DataDir) -> Result<Config> {
    Ok(Config {
        root: layout.path("node/runtime"),
        cgroup_root: cgroup_root(layout),
        owns_cgroup_root: true,
        shim_cgroup: node_reserve::shim_group(layout),
        pids_limit: Some(node_reserve::pod_max_pids()),
        shim: std::env::current_exe()?,
        shim_args: vec!["shim".into()],
        streaming: ([127, 0, 0, 1], 0).into(),
    })
}

/// The root cgroup of the cluster. Each data directory has its own, so that two clusters never see each other's
/// cgroups.
pub(in crate::up) fn cgroup_root(layout: &DataDir) -> String {
    let path = layout.dir().canonicalize().unwrap_or_else(|_| layout.dir().to_owned());
    let digest = ring::digest::digest(&ring::digest::SHA256, path.as_os_str().as_encoded_bytes());
    let hash: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("/tiphys-{hash}")
}

/// Opens the image store, and adds the images that are built into this executable.
async fn open_images(layout: &DataDir, from: RegistryConfig) -> Result<ImageStore> {
    let store = ImageStore::open(&layout.path("node/images"), from)?;
    let executable: PathBuf = std::env::current_exe()?;
    let image = |name: &str, cmd: Vec<String>| BuiltinImage {
        name: name.to_owned(),
        executable: executable.clone(),
        entrypoint: vec!["/tiphys".to_owned()],
        cmd,
    };
    store.register(image(IMAGE, Vec::new())).await?;
    store.register(image(HELLO, vec!["hello".to_owned()])).await?;
    Ok(store)
}
