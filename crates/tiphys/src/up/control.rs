//! `control`: the API server, the controllers and the scheduler in one process of an unprivileged user. They
//! communicate only through the API, each with its own identity.

use std::{os::fd::AsFd, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use apiserver::{RunningServer, start_on};
use client::Client;
use runtime::Context;
use rustix::fs::{Mode, OFlags, open};
use server::UserInfo;
use sys::landlock::{self, Access};
use tracing::info;

use super::{ClusterConfig, components, control_plane_role, sockets::InheritedSockets};
use crate::commands::{ServingComponent as _, start_when_elected};

/// Path of the data directory as an inherited descriptor: the process may not be permitted to reach it by its real
/// path.
const DATA_DIR_FD: &str = "/proc/self/fd/3";

/// Drops privileges that the process never needs: sets no_new_privs and a Landlock ruleset. Both apply to one thread,
/// so they must be set before a second thread starts.
pub(crate) fn restrict_process() -> Result<()> {
    sys::process::no_new_privileges()?;
    // files that this process creates are readable by its user only
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let folder = |path: &str| open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let (data, names, processes) = (folder(DATA_DIR_FD)?, folder("/etc")?, folder("/proc")?);
    let read = Access::Read;
    let mut kept =
        vec![(data.as_fd(), Access::All), (names.as_fd(), read), (processes.as_fd(), read)];
    // the memory limit of its own group, from which follows how many answers it holds at a time
    let groups = folder("/sys/fs/cgroup").ok();
    kept.extend(groups.as_ref().map(|groups| (groups.as_fd(), read)));
    if !landlock::restrict_self(&kept)? {
        eprintln!("this kernel has no landlock: only file modes keep control in its folders");
    }
    Ok(())
}

/// Runs the control plane until it is stopped.
pub(crate) async fn run() -> Result<()> {
    let sockets = InheritedSockets::passed()?;
    let data = Path::new(DATA_DIR_FD);
    let settings = ClusterConfig::parse(&InheritedSockets::passed_settings()?)?;
    settings.profile.write_policies(data)?;
    let mut config = components::api_server(&settings, data, None)?;
    let ports = sockets.ports()?;
    config.component_ports = Some((ports.scheduler, ports.controller_manager));
    let listener = tokio::net::TcpListener::from_std(sockets.tls)?;
    let running = Arc::new(start_on(config, Some(listener)).await?);
    let node = format!("system:node:{}", settings.node_name);
    let node = UserInfo::new(&node, &["system:nodes", "system:authenticated"]);
    running.socket(tokio::net::UnixListener::from_std(sockets.node)?, node, 0);
    let proxy =
        UserInfo::new("system:kube-proxy", &["system:node-proxier", "system:authenticated"]);
    running.socket(tokio::net::UnixListener::from_std(sockets.proxy)?, proxy, 0);
    info!(port = settings.port, "the API server is ready");
    let mut parts = Vec::new();
    if let Some(listener) = sockets.controller_manager {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        parts.push(controllers(&running, &settings, listener).await?);
    }
    if let Some(listener) = sockets.scheduler {
        let flags = components::scheduler(&settings, data, None)?;
        let client = component_client(&running, "system:kube-scheduler");
        let cx = Context::new(&client);
        let listener = tokio::net::TcpListener::from_std(listener)?;
        flags.serve_on(listener, &cx, &client).await.context("the scheduler's port")?;
        let config = flags.config();
        start_when_elected(&cx, flags.election(), move |part| {
            scheduler::start(part, config.clone());
        });
        parts.push(cx);
    }
    if !settings.is_disabled("kubelet") {
        let administrator =
            UserInfo::new("system:admin", &["system:masters", "system:authenticated"]);
        let client = client::Config::pipe(running.pipe(administrator));
        let client = Client::new(client.manager("tiphys").user_agent("tiphys"));
        parts.push(control_plane_role::start(&client, &settings.node_name));
    }
    crate::commands::wait_for_shutdown_signal().await?;
    for part in parts {
        part.stop().await;
    }
    running.stop().await;
    Ok(())
}

/// Starts the controllers. They share informers that read as the controller manager; each controller writes as its
/// own service account.
async fn controllers(
    running: &Arc<RunningServer>,
    settings: &ClusterConfig,
    listener: tokio::net::TcpListener,
) -> Result<Context> {
    let client = component_client(running, "system:kube-controller-manager");
    let cx = Context::new(&client);
    let (ca, tokens) = (&running.cluster.ca, &running.cluster.service_accounts);
    let authority = pki::CertificateAuthority::from_pem(
        ca.certificate_pem().as_bytes(),
        ca.key_pem().as_bytes(),
    )?;
    let key = pki::PrivateKey::from_pem(tokens.to_pem().as_bytes())?;
    let flags = components::controller_manager(settings, Path::new(DATA_DIR_FD), None)?;
    flags.serve_on(listener, &cx, &client).await.context("the controller manager's port")?;
    let longest = flags.cluster_signing_duration;
    let given = flags.config()?;
    let signing =
        controllers::SigningConfig { authority: Arc::new(authority), max_duration: longest };
    let signer = Arc::new(pki::TokenSigner::new(key, String::new()));
    let root_ca = running.cluster.ca.certificate_pem();
    let config = controllers::Config {
        signing: given.signing.or(Some(signing)),
        token_signer: given.token_signer.or(Some(signer)),
        root_ca: if given.root_ca.is_empty() { root_ca } else { given.root_ca },
        ..given
    };
    let (running, own) = (running.clone(), flags.use_service_account_credentials);
    start_when_elected(&cx, flags.election(), move |part| {
        controllers::start(part, &config, &|name| match own {
            true => service_account_client(&running, name),
            false => client.with_field_manager(name),
        });
    });
    Ok(cx)
}

fn component_client(running: &RunningServer, name: &str) -> Client {
    let user = UserInfo::new(name, &["system:authenticated"]);
    let manager = name.rsplit(':').next().unwrap_or(name);
    Client::new(client::Config::pipe(running.pipe(user)).manager(manager).user_agent(manager))
}

fn service_account_client(running: &RunningServer, name: &str) -> Client {
    let user = UserInfo::new(
        &format!("system:serviceaccount:kube-system:{name}"),
        &["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
    );
    Client::new(client::Config::pipe(running.pipe(user)).manager(name).user_agent(name))
}
