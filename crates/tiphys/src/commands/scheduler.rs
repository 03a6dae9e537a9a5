//! `kube-scheduler`.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Parser;
use client::{Client, Kubeconfig};
use runtime::Context;
use scheduler::Config;

use super::{
    asked_to_stop,
    election::{ElectionFlags, lead},
    parse, run_async,
};

const NAME: &str = "kube-scheduler";

#[derive(Parser)]
pub(super) struct Arguments {
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    #[command(flatten)]
    election: ElectionFlags,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>(NAME, args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async(NAME, async move {
        let kubeconfig = Kubeconfig::read(&flags.kubeconfig)?;
        let client = Client::new(kubeconfig.config(None)?.manager(NAME).user_agent(NAME));
        let cx = Context::new(&client);
        lead(&cx, flags.election.election(NAME), |part| scheduler::start(part, Config::default()));
        asked_to_stop().await?;
        cx.stop().await;
        Ok(())
    })
}
