//! `ps` and `inspect`: show the containers and pods of this node, as the container runtime reports them over CRI.

use std::{ffi::OsString, process::ExitCode};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Parser;
use container::{CriClient, cri};
use object::{Clock as _, SystemClock, Value};

use super::{parse, run_async};
use crate::up::Place;

/// Number of characters of a container id that `ps` prints.
const SHORT: usize = 13;

#[derive(Parser)]
pub(super) struct PsArguments {
    #[command(flatten)]
    place: Place,
    /// Containers that have ended too.
    #[arg(short, long)]
    all: bool,
}

#[derive(Parser)]
pub(super) struct InspectArguments {
    /// The beginning of the id of a container or pod.
    id: String,
    #[command(flatten)]
    place: Place,
}

pub(super) fn ps(args: Vec<OsString>) -> ExitCode {
    match parse::<PsArguments>("ps", args) {
        Ok(arguments) => run_async("ps", async move {
            print!("{}", list(&mut connect(&arguments.place).await?, arguments.all).await?);
            Ok(())
        }),
        Err(code) => code,
    }
}

pub(super) fn inspect(args: Vec<OsString>) -> ExitCode {
    match parse::<InspectArguments>("inspect", args) {
        Ok(arguments) => run_async("inspect", async move {
            let found = find(&mut connect(&arguments.place).await?, &arguments.id).await?;
            print!("{}", object::yaml::to_yaml(&found));
            Ok(())
        }),
        Err(code) => code,
    }
}

async fn connect(place: &Place) -> Result<CriClient> {
    let socket = place.existing()?.path("run/cri.sock");
    CriClient::connect(&socket).await.context("no node runs here: see `tiphys status`")
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn message(status: tonic::Status) -> anyhow::Error {
    anyhow!("{}", status.message().to_owned())
}

async fn list(cri: &mut CriClient, all: bool) -> Result<String> {
    let request = cri::ListContainersRequest::default();
    let found = cri.runtime.list_containers(request).await.map_err(message)?.into_inner();
    let mut rows = vec![
        ["CONTAINER", "STATE", "AGE", "NAME", "RESTARTS", "NAMESPACE", "POD"].map(str::to_owned),
    ];
    let label = |container: &cri::Container, name: &str| {
        container.labels.get(&format!("io.kubernetes.{name}")).cloned().unwrap_or_default()
    };
    let running =
        |container: &cri::Container| container.state() == cri::ContainerState::ContainerRunning;
    for container in found.containers.iter().filter(|one| all || running(one)) {
        let metadata = container.metadata.clone().unwrap_or_default();
        rows.push([
            container.id.chars().take(SHORT).collect(),
            state(container.state()).to_owned(),
            age(container.created_at),
            metadata.name,
            metadata.attempt.to_string(),
            label(container, "pod.namespace"),
            label(container, "pod.name"),
        ]);
    }
    Ok(super::columns(&rows))
}

fn state(state: cri::ContainerState) -> &'static str {
    match state {
        cri::ContainerState::ContainerCreated => "Created",
        cri::ContainerState::ContainerRunning => "Running",
        cri::ContainerState::ContainerExited => "Exited",
        cri::ContainerState::ContainerUnknown => "Unknown",
    }
}

fn age(nanos: i64) -> String {
    let seconds = (SystemClock.now() - nanos / 1_000_000_000).max(0);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The status of the one container or pod with this id prefix, as the runtime reports it.
async fn find(cri: &mut CriClient, id: &str) -> Result<Value> {
    let containers = cri.runtime.list_containers(cri::ListContainersRequest::default()).await;
    let containers = containers.map_err(message)?.into_inner().containers;
    let pods = cri.runtime.list_pod_sandbox(cri::ListPodSandboxRequest::default()).await;
    let pods = pods.map_err(message)?.into_inner().items;
    let is_wanted = |own: &&String| own.starts_with(id);
    let containers: Vec<&String> = containers.iter().map(|one| &one.id).filter(is_wanted).collect();
    let pods: Vec<&String> = pods.iter().map(|one| &one.id).filter(is_wanted).collect();
    match (&containers[..], &pods[..]) {
        ([id], []) => container(cri, id).await,
        ([], [id]) => pod(cri, id).await,
        ([], []) => {
            bail!("no container or pod has an id that begins with {id:?}: see `tiphys ps -a`")
        }
        _ => bail!("{} ids begin with {id:?}: give more of it", containers.len() + pods.len()),
    }
}

async fn container(cri: &mut CriClient, id: &str) -> Result<Value> {
    let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    let answer = cri.runtime.container_status(request).await.map_err(message)?.into_inner();
    let status = answer.status.context("the runtime does not report it")?;
    let mut tree = Value::object();
    let metadata = status.metadata.clone().unwrap_or_default();
    tree["id"] = status.id.as_str().into();
    tree["name"] = metadata.name.as_str().into();
    tree["attempt"] = i64::from(metadata.attempt).into();
    tree["state"] = state(status.state()).into();
    tree["image"] = status.image.clone().unwrap_or_default().image.into();
    tree["imageID"] = status.image_ref.as_str().into();
    for (key, nanos) in [
        ("createdAt", status.created_at),
        ("startedAt", status.started_at),
        ("finishedAt", status.finished_at),
    ] {
        if nanos != 0 {
            tree[key] = object::Time::format(nanos / 1_000_000_000).to_string().into();
        }
    }
    tree["exitCode"] = i64::from(status.exit_code).into();
    tree["reason"] = status.reason.as_str().into();
    tree["message"] = status.message.as_str().into();
    tree["logPath"] = status.log_path.as_str().into();
    tree["labels"] = texts(status.labels.iter());
    tree["annotations"] = texts(status.annotations.iter());
    let mounts = status.mounts.iter().map(|mount| {
        let mut own = Value::object();
        own["containerPath"] = mount.container_path.as_str().into();
        own["hostPath"] = mount.host_path.as_str().into();
        own["readonly"] = mount.readonly.into();
        own
    });
    tree["mounts"] = mounts.collect();
    tree["info"] = texts(answer.info.iter());
    Ok(tree)
}

async fn pod(cri: &mut CriClient, id: &str) -> Result<Value> {
    let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: true };
    let answer = cri.runtime.pod_sandbox_status(request).await.map_err(message)?.into_inner();
    let status = answer.status.context("the runtime does not report it")?;
    let mut tree = Value::object();
    let metadata = status.metadata.clone().unwrap_or_default();
    tree["id"] = status.id.as_str().into();
    tree["name"] = metadata.name.as_str().into();
    tree["namespace"] = metadata.namespace.as_str().into();
    tree["uid"] = metadata.uid.as_str().into();
    tree["attempt"] = i64::from(metadata.attempt).into();
    let ready = status.state() == cri::PodSandboxState::SandboxReady;
    tree["state"] = if ready { "Ready" } else { "NotReady" }.into();
    tree["createdAt"] = object::Time::format(status.created_at / 1_000_000_000).to_string().into();
    let network = status.network.clone().unwrap_or_default();
    let further = network.additional_ips.iter().map(|one| one.ip.as_str());
    tree["ips"] =
        std::iter::once(&*network.ip).chain(further).filter(|ip| !ip.is_empty()).collect();
    tree["labels"] = texts(status.labels.iter());
    tree["annotations"] = texts(status.annotations.iter());
    tree["info"] = texts(answer.info.iter());
    Ok(tree)
}

/// An object of strings, sorted by key.
fn texts<'a>(entries: impl Iterator<Item = (&'a String, &'a String)>) -> Value {
    let sorted: std::collections::BTreeMap<_, _> = entries.collect();
    let mut tree = Value::object();
    for (name, text) in sorted {
        tree[&**name] = text.as_str().into();
    }
    tree
}
