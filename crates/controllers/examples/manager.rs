//! Runs the controllers against any API server, as the user of a
//! kubeconfig: `cargo run -p controllers --example manager -- KUBECONFIG [CA.pem]`.

use anyhow::Context as _;
use client::{Client, Kubeconfig};
use runtime::Context;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut words = std::env::args().skip(1);
    let path = words.next().context("which kubeconfig?")?;
    let root_ca = words.next().map(std::fs::read_to_string).transpose()?.unwrap_or_default();
    let config = Kubeconfig::read(path.as_ref())?.config(None)?;
    let client = Client::new(config).with_user_agent("tiphys-manager");
    let cx = Context::new(&client);
    let config = controllers::Config {
        cluster_cidr: "10.244.0.0/16".into(),
        service_cidr: "10.96.0.0/12".into(),
        root_ca,
        ..controllers::Config::default()
    };
    controllers::start(&cx, &config, &|name| client.with_user_agent(name));
    tokio::signal::ctrl_c().await?;
    cx.stop().await;
    Ok(())
}
