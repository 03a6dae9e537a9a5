//! Runs the scheduler against any API server, as the user of a kubeconfig:
//! `cargo run -p scheduler --example run -- KUBECONFIG`.

use anyhow::Context as _;
use client::{Client, Kubeconfig};
use runtime::Context;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let path = std::env::args().nth(1).context("which kubeconfig?")?;
    let config = Kubeconfig::read(path.as_ref())?.config(None)?;
    let cx = Context::new(&Client::new(config).with_user_agent("tiphys-scheduler"));
    scheduler::start(&cx, scheduler::Config::default());
    tokio::signal::ctrl_c().await?;
    cx.stop().await;
    Ok(())
}
