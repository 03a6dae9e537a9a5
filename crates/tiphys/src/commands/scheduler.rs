//! `kube-scheduler`: reads its flags and runs it.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use apiserver::GivenFlags;
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
    /// First, because the others remove their values.
    #[command(flatten)]
    as_given: GivenFlags,
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
    /// The leader election among several schedulers; `None` if `--leader-elect` is off.
    pub(crate) fn election(&self) -> Option<LeaderElector> {
        self.election.election(NAME)
    }

    #[expect(clippy::unused_self, reason = "no flag changes how pods are placed yet")]
    pub(crate) fn config(&self) -> Config {
        Config::default()
    }

    /// The settings as a KubeSchedulerConfiguration, for `/configz`.
    fn configuration(&self) -> Value {
        let config = self.config();
        let mut own = Value::object();
        own["apiVersion"] = "kubescheduler.config.k8s.io/v1".into();
        own["kind"] = "KubeSchedulerConfiguration".into();
        own["clientConnection"]["kubeconfig"] = (&*self.kubeconfig.to_string_lossy()).into();
        own["leaderElection"] = self.election.configuration(NAME);
        own["percentageOfNodesToScore"] = i64::from(config.percentage_of_nodes_to_score).into();
        let (initial, max) = scheduler::backoff();
        let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        own["podInitialBackoffSeconds"] = seconds(initial).into();
        own["podMaxBackoffSeconds"] = seconds(max).into();
        let plugins = scheduler::PLUGINS.iter().map(|plugin| {
            let mut one = Value::object();
            one["name"] = plugin.name().into();
            one["weight"] = plugin.weight().into();
            one
        });
        let mut profile = Value::object();
        profile["schedulerName"] = (&*config.scheduler_name).into();
        profile["plugins"]["multiPoint"]["enabled"] = plugins.collect();
        own["profiles"] = [profile].into_iter().collect();
        own
    }
}

impl ServingComponent for Arguments {
    fn serving_flags(&self) -> &ServingFlags {
        &self.serving
    }

    fn component(&self) -> ServedComponent {
        let mut configuration = Value::object();
        configuration["componentconfig"] = self.configuration();
        ServedComponent {
            name: NAME,
            port: 10_259,
            tolerate_lookup_failure: true,
            configuration,
            flags: self.as_given.all::<Self>(),
        }
    }
}
