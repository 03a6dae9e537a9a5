//! `kube-proxy`.

use std::{ffi::OsString, net::IpAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use client::{Client, Kubeconfig};
use runtime::Context;

use super::{asked_to_stop, parse, run_async};

#[derive(Parser)]
pub(crate) struct Arguments {
    /// How to reach the API server, and as whom.
    #[arg(long, value_name = "FILE", required_unless_present = "cleanup")]
    kubeconfig: Option<PathBuf>,
    /// The name of this node.
    #[arg(long, required_unless_present = "cleanup")]
    hostname_override: Option<String>,
    /// The address of this node; without it, the Node object says.
    #[arg(long)]
    bind_address: Option<IpAddr>,
    /// How services are made: nftables.
    #[arg(long, default_value = "nftables", value_parser = ["nftables"])]
    proxy_mode: String,
    /// The range of pods' addresses.
    #[arg(long)]
    cluster_cidr: Option<String>,
    /// Remove what an earlier run made, and end.
    #[arg(long)]
    cleanup: bool,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("kube-proxy", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async("kube-proxy", async move {
        let (Some(path), Some(name), false) =
            (flags.kubeconfig, flags.hostname_override, flags.cleanup)
        else {
            return Ok(proxy::cleanup(proxy::TABLE)?);
        };
        let kubeconfig = Kubeconfig::read(&path)?;
        let own = "kube-proxy";
        let client = Client::new(kubeconfig.config(None)?.manager(own).user_agent(own));
        let cx = Context::new(&client);
        let ips = flags.bind_address.into_iter().collect();
        let cluster = flags.cluster_cidr.into_iter().collect::<Vec<_>>();
        proxy::start(&cx, proxy::Config { node: crate::up::proxy_node(&name, ips, &cluster)? });
        asked_to_stop().await?;
        cx.stop().await;
        Ok(())
    })
}
