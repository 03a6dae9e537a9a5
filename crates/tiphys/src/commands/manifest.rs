//! `manifest`: what `up --disable` leaves out, to change and apply by hand.

use std::{ffi::OsString, net::IpAddr, process::ExitCode};

use clap::Parser;

use super::parse;
use crate::up;

#[derive(Parser)]
struct Arguments {
    /// What to print: dns.
    #[arg(value_parser = ["dns"])]
    what: String,
    /// The address of the name server.
    #[arg(long, default_value = "10.96.0.10")]
    cluster_dns: IpAddr,
    /// The domain of the cluster.
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("manifest", args) {
        Ok(Arguments { cluster_dns, cluster_domain, .. }) => {
            print!("{}", dns::manifest(up::IMAGE, cluster_dns, &cluster_domain));
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}
