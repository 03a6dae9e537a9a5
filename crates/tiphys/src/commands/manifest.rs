//! `manifest`: prints the manifests of the components that `up --disable` leaves out, so that they can be edited and
//! applied manually.

use std::{ffi::OsString, net::IpAddr, process::ExitCode};

use clap::{Parser, Subcommand};

use super::parse;
use crate::up;

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: ManifestCommand,
}

#[derive(Subcommand)]
enum ManifestCommand {
    /// The name server.
    Dns {
        /// Its address.
        #[arg(long, default_value = "10.96.0.10")]
        cluster_dns: IpAddr,
        /// The domain of the cluster.
        #[arg(long, default_value = "cluster.local")]
        cluster_domain: String,
    },
    /// The proxy, on every node.
    KubeProxy {
        /// How nodes reach the API server: https://HOST:PORT.
        #[arg(long)]
        server: String,
        /// The range of pods' addresses.
        #[arg(long, default_value = "")]
        cluster_cidr: String,
    },
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    match parse::<Arguments>("manifest", args) {
        Ok(Arguments { what }) => {
            print!("{}", what.text());
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

impl ManifestCommand {
    fn text(&self) -> String {
        match self {
            Self::Dns { cluster_dns, cluster_domain } => {
                dns::manifest(up::IMAGE, *cluster_dns, cluster_domain)
            }
            Self::KubeProxy { server, cluster_cidr } => {
                proxy::manifest(up::IMAGE, server, cluster_cidr)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[&str]) -> String {
        let words = words.iter().map(OsString::from).collect();
        let Ok(arguments) = parse::<Arguments>("manifest", words) else { panic!("flags") };
        arguments.what.text()
    }

    #[test]
    fn flags_change_what_is_printed() {
        let dns = text(&["dns", "--cluster-dns", "10.0.0.10", "--cluster-domain=c.test"]);
        assert!(dns.contains("10.0.0.10") && dns.contains("--domain=c.test"));
        let server = "--server=https://192.0.2.7:6443";
        let proxy = text(&["kube-proxy", server, "--cluster-cidr=10.1.0.0/16"]);
        assert!(proxy.contains("https://192.0.2.7:6443") && proxy.contains("=10.1.0.0/16"));
        assert!(proxy.contains(up::IMAGE) && !proxy.contains("kube-dns"));
    }
}
