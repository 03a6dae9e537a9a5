//! `dns`: the cluster DNS server, as it runs in its pod.

use std::{
    ffi::OsString,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::ExitCode,
};

use clap::Parser;
use client::Client;
use runtime::Context;

use super::{parse, run_async, wait_for_shutdown_signal};

#[derive(Parser)]
pub(super) struct Arguments {
    /// Where to listen, over UDP and TCP.
    #[arg(long, default_value = "0.0.0.0:53")]
    listen: Vec<SocketAddr>,
    /// The cluster's domain.
    #[arg(long, default_value = "cluster.local")]
    domain: String,
    /// Who is asked about other names; without it, those of /etc/resolv.conf.
    #[arg(long)]
    upstream: Vec<SocketAddr>,
    /// The port for /health, /ready and /metrics.
    #[arg(long, default_value_t = 8181)]
    http_port: u16,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("dns", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async("dns", async move {
        let client = Client::new(super::in_cluster()?.manager("dns").user_agent("dns"));
        let cx = Context::new(&client);
        let upstreams = if flags.upstream.is_empty() {
            dns::name_servers(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
        } else {
            flags.upstream
        };
        let config = dns::Config {
            listen: flags.listen,
            domain: flags.domain,
            upstreams,
            http_listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), flags.http_port),
        };
        tokio::select! {
            served = dns::run(&cx, config) => served?,
            stopped = wait_for_shutdown_signal() => stopped?,
        }
        cx.stop().await;
        Ok(())
    })
}
