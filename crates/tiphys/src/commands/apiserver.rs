//! `kube-apiserver`.

use std::{ffi::OsString, process::ExitCode};

use apiserver::{Config, Flags, start};
use clap::Parser;
use tracing::info;

use super::{asked_to_stop, parse, run_async};

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let Arguments { flags } = match parse("kube-apiserver", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    crate::logging::start_at(flags.whole.log_level());
    run_async("kube-apiserver", async {
        let running = start(Config::new(flags)?).await?;
        info!(port = running.port, "serving");
        asked_to_stop().await?;
        running.stop().await;
        Ok(())
    })
}
