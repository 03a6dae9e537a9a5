//! The API server without the rest of the executable, to try changes of kinds and rules:
//! `cargo run -p apiserver --example alone -- FLAG…`.

use apiserver::{Config, Flags, start};
use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let running = start(Config::new(Arguments::parse().flags)?).await?;
    tokio::signal::ctrl_c().await?;
    running.stop().await;
    Ok(())
}
