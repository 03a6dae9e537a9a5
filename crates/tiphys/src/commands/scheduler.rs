//! `kube-scheduler`.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::Parser;
use client::{Client, Kubeconfig};
use object::Value;
use runtime::{Context, LeaderElector};
use scheduler::Config;

use super::{
    election::{LeaderElectionFlags, start_when_elected},
    parse, run_async,
    serving::{ServedComponent, ServingComponent, ServingFlags, serve},
    wait_for_shutdown_signal,
};

const NAME: &str = "kube-scheduler";

#[derive(Parser)]
pub(crate) struct Arguments {
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    #[command(flatten)]
    election: LeaderElectionFlags,
    #[command(flatten)]
    serving: ServingFlags,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>(NAME, args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async(NAME, async move {
        let kubeconfig = Kubeconfig::read(&flags.kubeconfig)?;
        let client = Client::new(kubeconfig.config(None)?.manager(NAME).user_agent(NAME));
        let (cx, config) = (Context::new(&client), flags.config());
        serve(&cx, &flags.serving, flags.component()).await?;
        start_when_elected(&cx, flags.election(), move |part| {
            scheduler::start(part, config.clone());
        });
        wait_for_shutdown_signal().await?;
        cx.stop().await;
        Ok(())
    })
}

impl Arguments {
    /// The election of a leader among several schedulers; none: this one runs alone.
    pub(crate) fn election(&self) -> Option<LeaderElector> {
        self.election.election(NAME)
    }

    #[expect(clippy::unused_self, reason = "no flag changes how pods are placed yet")]
    pub(crate) fn config(&self) -> Config {
        Config::default()
    }
}

impl ServingComponent for Arguments {
    fn serving_flags(&self) -> &ServingFlags {
        &self.serving
    }

    fn component(&self) -> ServedComponent {
        let mut configuration = Value::object();
        let own = &mut configuration["kubescheduler.config.k8s.io"];
        own["LeaderElection"] = self.election.configuration(NAME);
        ServedComponent { name: NAME, port: 10_259, tolerate_lookup_failure: true, configuration }
    }
}
