//! `kube-controller-manager`.

use std::{ffi::OsString, fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Parser;
use client::{Client, Kubeconfig};
use controllers::Config;
use runtime::{Context, Election};

use super::{asked_to_stop, identity, parse, run_async};

#[derive(Parser)]
struct Arguments {
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Which controllers run: `*`, `name`, `-name`.
    #[arg(long, default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// The range of pods' addresses.
    #[arg(long, default_value = "")]
    cluster_cidr: String,
    /// How many bits of it a node's range has.
    #[arg(long, default_value_t = 24)]
    node_cidr_mask_size: u8,
    /// The range of services' addresses.
    #[arg(long, default_value = "")]
    service_cluster_ip_range: String,
    /// The certificates that pods trust the API server by.
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// Only one of several runs.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    leader_elect: bool,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("kube-controller-manager", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async("kube-controller-manager", async move {
        let kubeconfig = Kubeconfig::read(&flags.kubeconfig)?;
        let name = "kube-controller-manager";
        let client = Client::new(kubeconfig.config(None)?.manager(name).user_agent(name));
        let root_ca = match &flags.root_ca_file {
            Some(path) => fs::read_to_string(path)
                .with_context(|| format!("--root-ca-file {}", path.display()))?,
            None => String::new(),
        };
        let config = Config {
            controllers: flags.controllers,
            cluster_cidr: flags.cluster_cidr,
            node_cidr_mask: flags.node_cidr_mask_size,
            service_cidr: flags.service_cluster_ip_range,
            root_ca,
            ..Config::default()
        };
        let start = move |cx: &Context, client: &Client| {
            controllers::start(cx, &config, &|account| client.manager(account));
        };
        let cx = Context::new(&client);
        if flags.leader_elect {
            let election = Election::new("kube-system", name, &identity());
            let (leading, client) = (cx.clone(), client.clone());
            cx.spawn("election", async move {
                election.lead(&leading, |part| start(part, &client)).await;
            });
        } else {
            start(&cx, &client);
        }
        asked_to_stop().await?;
        cx.stop().await;
        Ok(())
    })
}
