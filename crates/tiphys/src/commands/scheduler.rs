//! `kube-scheduler`.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Parser;
use client::{Client, Kubeconfig};
use runtime::{Context, Election};
use scheduler::Config;

use super::{asked_to_stop, identity, parse, run_async};

#[derive(Parser)]
struct Arguments {
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Only one of several runs.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    leader_elect: bool,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("kube-scheduler", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async("kube-scheduler", async move {
        let kubeconfig = Kubeconfig::read(&flags.kubeconfig)?;
        let name = "kube-scheduler";
        let client = Client::new(kubeconfig.config(None)?.manager(name).user_agent(name));
        let cx = Context::new(&client);
        if flags.leader_elect {
            let election = Election::new("kube-system", name, &identity());
            let leading = cx.clone();
            cx.spawn("election", async move {
                election.lead(&leading, |part| scheduler::start(part, Config::default())).await;
            });
        } else {
            scheduler::start(&cx, Config::default());
        }
        asked_to_stop().await?;
        cx.stop().await;
        Ok(())
    })
}
