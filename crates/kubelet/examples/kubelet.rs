//! A kubelet alone: `kubelet NODE CRI-SOCKET FOLDER [KUBECONFIG CA]`. Without a
//! kubeconfig it runs the static pods of FOLDER/manifests.

use std::{path::Path, sync::Arc};

use client::{Client, Kubeconfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [node, socket, folder, rest @ ..] = args.as_slice() else {
        return Err("kubelet NODE CRI-SOCKET FOLDER [KUBECONFIG CA]".into());
    };
    let folder = Path::new(folder);
    let mut config = kubelet::Config::new(node, socket);
    config.root = folder.join("kubelet");
    config.logs = folder.join("logs");
    config.static_pods = Some(folder.join("manifests"));
    config.port = 0;
    config.cgroup_root = format!("kubelet-{node}");
    let client = if let [file, authority] = rest {
        let authority = pki::certificates(&std::fs::read(authority)?)?;
        config.clients = Some(pki::Trust::new(&authority)?);
        Client::new(Kubeconfig::read(Path::new(file))?.config(None)?)
    } else {
        config.standalone = true;
        Client::new(client::Config::new(Arc::new(client::Unix(folder.join("none")))))
    };
    let cx = runtime::Context::new(&client);
    let kubelet = kubelet::start(&cx, config).await?;
    println!("serving at {}", kubelet.address);
    tokio::signal::ctrl_c().await?;
    cx.stop().await;
    Ok(())
}
