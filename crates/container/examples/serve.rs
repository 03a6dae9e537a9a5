//! The runtime alone, for other programs' suites: `serve ROOT SOCKET SHIM [REGISTRY]`.
//!
//! Pods have loopback only. REGISTRY is asked for the images of every registry.

use std::{path::PathBuf, sync::Arc};

use container::{
    Config, Server,
    cni::Loopback,
    image::{Registries, Store},
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [root, socket, shim, registry @ ..] = &args[..] else {
        return Err("usage: serve ROOT SOCKET SHIM [REGISTRY]".into());
    };
    let root = PathBuf::from(root);
    let mut registries = Registries::default();
    if let [registry] = registry {
        registries.endpoints.insert("*".into(), vec![registry.clone()]);
    }
    std::fs::create_dir_all(&root)?;
    let store = Store::open(&root.join("images"), registries)?;
    let config = Config {
        root: root.join("runtime"),
        cgroup_root: String::new(),
        shim: PathBuf::from(shim),
        shim_args: Vec::new(),
        streaming: ([127, 0, 0, 1], 0).into(),
    };
    let server = Server::build(config, Arc::new(Loopback), store).await?;
    let _ = std::fs::remove_file(socket); // of an earlier server
    let listener = tokio::net::UnixListener::bind(socket)?;
    let stop = CancellationToken::new();
    let serving = server.serve(listener, stop.clone());
    tokio::pin!(serving);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        done = &mut serving => return Ok(done?),
        _ = terminate.recv() => stop.cancel(),
    }
    Ok(serving.await?)
}
