//! `kube-proxy`: reads its flags and runs it.

use std::{
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use client::{Client, Kubeconfig};
use object::Value;
use runtime::Context;

use super::{parse, run_async, wait_for_shutdown_signal};

const HEALTHZ: &str = "0.0.0.0:10256";
const METRICS: &str = "127.0.0.1:10249";

/// The value of a bind address flag: an address to listen on, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(Option<SocketAddr>);

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
    /// Where health is served: ADDRESS or ADDRESS:PORT; empty: nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = HEALTHZ, value_parser = healthz_address)]
    healthz_bind_address: Address,
    /// Where metrics are served: ADDRESS or ADDRESS:PORT; empty: nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = METRICS, value_parser = metrics_address)]
    metrics_bind_address: Address,
    /// Remove what an earlier run made, and end.
    #[arg(long)]
    cleanup: bool,
}

impl Arguments {
    /// The addresses that the proxy listens on, and the configuration that it serves at `/configz`.
    pub(crate) fn listeners(&self, node: &str) -> proxy::Listeners {
        let (Address(healthz), Address(metrics)) =
            (self.healthz_bind_address, self.metrics_bind_address);
        let text = |at: Option<SocketAddr>| at.map(|at| at.to_string()).unwrap_or_default();
        let mut configuration = Value::object();
        configuration["kind"] = "KubeProxyConfiguration".into();
        configuration["apiVersion"] = "kubeproxy.config.k8s.io/v1alpha1".into();
        configuration["mode"] = "nftables".into();
        configuration["hostnameOverride"] = node.into();
        configuration["healthzBindAddress"] = text(healthz).into();
        configuration["metricsBindAddress"] = text(metrics).into();
        proxy::Listeners { healthz, metrics, or_any_port: false, configuration }
    }
}

fn healthz_address(text: &str) -> Result<Address, String> {
    address(text, 10256)
}

fn metrics_address(text: &str) -> Result<Address, String> {
    address(text, 10249)
}

/// Parses a bind address. As upstream, the port may be omitted.
fn address(text: &str, port: u16) -> Result<Address, String> {
    if text.is_empty() {
        return Ok(Address(None));
    }
    let whole = text.parse::<SocketAddr>().ok();
    let address = whole.or_else(|| Some(SocketAddr::new(text.parse().ok()?, port)));
    address.map(|at| Address(Some(at))).ok_or_else(|| "must be an IP address and a port".to_owned())
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let flags = match parse::<Arguments>("kube-proxy", args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    run_async("kube-proxy", async move {
        let (Some(path), Some(name), false) =
            (&flags.kubeconfig, &flags.hostname_override, flags.cleanup)
        else {
            return Ok(proxy::cleanup(proxy::TABLE)?);
        };
        let kubeconfig = Kubeconfig::read(path)?;
        let own = "kube-proxy";
        let client = Client::new(kubeconfig.config(None)?.manager(own).user_agent(own));
        let cx = Context::new(&client);
        let ips = flags.bind_address.into_iter().collect();
        let cluster = flags.cluster_cidr.iter().cloned().collect::<Vec<_>>();
        let listeners = flags.listeners(name);
        let node = crate::up::proxy_node(name, ips, &cluster)?;
        proxy::start(&cx, proxy::Config { node, listeners, set_conntrack: true });
        wait_for_shutdown_signal().await?;
        cx.stop().await;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listeners(words: &[&str]) -> Option<proxy::Listeners> {
        let words = [&["--kubeconfig=f", "--hostname-override=n"], words].concat();
        let words = words.iter().map(OsString::from).collect();
        Some(parse::<Arguments>("kube-proxy", words).ok()?.listeners("n"))
    }

    #[test]
    fn health_and_metrics_are_served_where_flags_say() {
        let usual = listeners(&[]).unwrap();
        assert_eq!(usual.healthz, Some("0.0.0.0:10256".parse().unwrap()));
        assert_eq!(usual.metrics, Some("127.0.0.1:10249".parse().unwrap()));
        let health = listeners(&["--healthz-bind-address=[::1]:7"]).unwrap();
        assert_eq!(health.healthz, Some("[::1]:7".parse().unwrap()));
        assert_eq!(health.configuration["healthzBindAddress"].as_str(), Some("[::1]:7"));
        let metrics = listeners(&["--metrics-bind-address=0.0.0.0"]).unwrap();
        assert_eq!(metrics.metrics, Some("0.0.0.0:10249".parse().unwrap()));
        assert_eq!(listeners(&["--metrics-bind-address="]).unwrap().metrics, None);
        assert!(listeners(&["--metrics-bind-address=here"]).is_none());
    }
}
