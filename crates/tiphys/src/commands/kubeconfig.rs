//! `kubeconfig`: signs a client certificate for a user, or the credentials of a further node.

use std::{ffi::OsString, fs, net::SocketAddr, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;
use object::{Clock, SystemClock};
use pki::{CertificateAuthority, CertificateSpec};

use super::{exit, parse};
use crate::up::{self, ClusterConfig, Place, membership};

#[derive(Parser)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The user's name.
    #[arg(long, required_unless_present = "node")]
    user: Option<String>,
    /// A group that the user is in.
    #[arg(long, conflicts_with = "node")]
    group: Vec<String>,
    /// The name of a further node: prints what `tiphys join` wants there.
    #[arg(long, conflicts_with = "user")]
    node: Option<String>,
    /// How the user reaches the API server: https://HOST:PORT.
    #[arg(long)]
    server: Option<String>,
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let arguments = match parse::<Arguments>("kubeconfig", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    exit("kubeconfig", sign(&arguments).map(|text| print!("{text}")))
}

fn sign(arguments: &Arguments) -> Result<String> {
    let layout = arguments.place.layout()?;
    let read = |name: &str| {
        let path = layout.path("pki").join(name);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let authority = CertificateAuthority::from_pem(&read("ca.crt")?, &read("ca.key")?)?;
    let issue = |user: &str, groups: &[&str]| {
        authority.issue(&CertificateSpec::client(user, groups), SystemClock.now())
    };
    let settings = ClusterConfig::load(&layout.path("config.yaml"));
    let server = match (&arguments.server, &settings) {
        (Some(server), _) => server.clone(),
        (None, Ok(own)) => format!("https://{}", SocketAddr::new(own.node_ip, own.port)),
        (None, Err(_)) => "https://127.0.0.1:6443".to_owned(),
    };
    let Some(name) = &arguments.node else {
        let user = arguments.user.as_deref().unwrap_or_default();
        let groups: Vec<&str> = arguments.group.iter().map(String::as_str).collect();
        return Ok(issue(user, &groups)?.kubeconfig(&server, &authority)?);
    };
    up::refuse_reserved(name)?;
    let kubelet = issue(&format!("system:node:{name}"), &["system:nodes"])?;
    let proxy = issue("system:kube-proxy", &["system:node-proxier"])?;
    let both = [kubelet, proxy].map(|pair| pair.kubeconfig(&server, &authority));
    let [kubelet, proxy] = both;
    let serving = authority.issue(&kubelet::serving_leaf(name, &[]), SystemClock.now())?;
    membership::write(&settings?, (&kubelet?, &proxy?), &serving)
}
