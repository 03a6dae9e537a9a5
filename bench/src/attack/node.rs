//! A real kubelet with a fake container runtime, which answers CRI from memory; the IP of every pod is that of the
//! hostile backend.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use bytes::Bytes;
use client::Client;
use container::cri;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use object::{Clock as _, SystemClock};
use prost::Message;
use runtime::Context;
use tokio::{net::UnixListener, task::JoinSet};

use super::hostile;

/// A kubelet named `n1` with all it needs, stopped on drop.
#[derive(Debug)]
pub(crate) struct Node {
    _cx: Context,
    _runtime: JoinSet<()>,
}

impl Node {
    /// Starts the kubelet in this directory, below this cgroup.
    pub(crate) async fn start(
        client: &Client,
        trust: pki::ClientCaVerifier,
        folder: &Path,
        group: &str,
    ) -> Result<Self> {
        let socket = folder.join("cri.sock");
        let listener = UnixListener::bind(&socket)?;
        let pretended = Arc::new(Pretended::default());
        let mut runtime = JoinSet::new();
        runtime.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let pretended = pretended.clone();
                open.spawn(async move {
                    let service = service_fn(move |request| answer(pretended.clone(), request));
                    let served = http2::Builder::new(TokioExecutor::new());
                    let _ = served.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let cx = Context::new(client);
        let config = kubelet::Config {
            node_ips: vec![hostile::ADDRESS.into()],
            root_dir: folder.join("kubelet"),
            pod_logs_dir: folder.join("logs"),
            cgroup_root: group.to_owned(),
            client_ca: Some(trust),
            labels: BTreeMap::from([("zone".into(), "z".into())]),
            max_pods: 1000,
            ..kubelet::Config::new("n1", socket).with_relaxed_thresholds()
        };
        kubelet::start(&cx, config).await?;
        Ok(Self { _cx: cx, _runtime: runtime })
    }
}

/// The fake runtime: sandboxes and containers that exist in memory only.
#[derive(Debug, Default)]
struct Pretended(Mutex<State>);

/// The state of the fake runtime.
#[derive(Debug, Default)]
struct State {
    next: u64,
    sandboxes: BTreeMap<String, cri::PodSandboxStatus>,
    containers: BTreeMap<String, (String, cri::ContainerStatus)>,
}

/// An encoded response, or a gRPC status code and message.
type Answered = Result<Vec<u8>, (u16, String)>;

/// Handles a gRPC call: five bytes of framing, the message, and the status in trailers.
async fn answer(
    pretended: Arc<Pretended>,
    request: Request<Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let read = request
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let (code, message, body) = match pretended.call(&method, read.get(5..).unwrap_or_default()) {
        Ok(message) => {
            let size = u32::try_from(message.len()).unwrap_or_default().to_be_bytes();
            (0, String::new(), [&[0][..], &size, &message].concat())
        }
        Err((code, message)) => (code, message, Vec::new()),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    trailers.extend(
        HeaderValue::from_str(&message)
            .ok()
            .map(|text| (http::HeaderName::from_static("grpc-message"), text)),
    );
    let body = Full::new(Bytes::from(body)).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

fn decoded<M: Message + Default>(bytes: &[u8]) -> Result<M, (u16, String)> {
    M::decode(bytes).map_err(|error| (3, error.to_string()))
}

fn gone() -> (u16, String) {
    (5, "not found".into())
}

impl Pretended {
    fn call(&self, method: &str, bytes: &[u8]) -> Answered {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match method {
            "Version" => {
                let (name, version) = ("pretended".to_owned(), "1".to_owned());
                let v1 = "v1".to_owned();
                Ok(cri::VersionResponse {
                    version: v1.clone(),
                    runtime_name: name,
                    runtime_version: version,
                    runtime_api_version: v1,
                }
                .encode_to_vec())
            }
            "Status" => {
                let ready = |ty: &str| cri::RuntimeCondition {
                    r#type: ty.into(),
                    status: true,
                    ..Default::default()
                };
                let conditions = vec![ready("RuntimeReady"), ready("NetworkReady")];
                Ok(cri::StatusResponse {
                    status: Some(cri::RuntimeStatus { conditions }),
                    ..Default::default()
                }
                .encode_to_vec())
            }
            "UpdateRuntimeConfig"
            | "UpdateContainerResources"
            | "ReopenContainerLog"
            | "RemoveImage" => Ok(Vec::new()),
            "ListImages" | "ImageFsInfo" | "ListContainerStats" | "ListPodSandboxStats" => {
                Ok(Vec::new())
            }
            "ImageStatus" => {
                let asked: cri::ImageStatusRequest = decoded(bytes)?;
                let name = asked.image.map(|image| image.image).unwrap_or_default();
                let image = cri::Image {
                    id: "sha256:0".into(),
                    repo_tags: vec![name],
                    size: 1,
                    ..Default::default()
                };
                Ok(cri::ImageStatusResponse { image: Some(image), ..Default::default() }
                    .encode_to_vec())
            }
            "PullImage" => {
                Ok(cri::PullImageResponse { image_ref: "sha256:0".into() }.encode_to_vec())
            }
            "ExecSync" => Ok(cri::ExecSyncResponse {
                stdout: vec![0xff; 5000],
                exit_code: 0,
                ..Default::default()
            }
            .encode_to_vec()),
            "Exec" | "Attach" | "PortForward" => {
                // all three responses are a URL in the same field
                let url = format!("http://{}:8080/status/101", hostile::ADDRESS);
                Ok(cri::ExecResponse { url }.encode_to_vec())
            }
            _ => state.call(method, bytes),
        }
    }
}

impl State {
    fn id(&mut self) -> String {
        self.next += 1;
        format!("{:064x}", self.next)
    }

    fn call(&mut self, method: &str, bytes: &[u8]) -> Answered {
        match method {
            "RunPodSandbox" => self.run(decoded(bytes)?),
            "StopPodSandbox" => {
                let asked: cri::StopPodSandboxRequest = decoded(bytes)?;
                let sandbox = self.sandboxes.get_mut(&asked.pod_sandbox_id).ok_or_else(gone)?;
                sandbox.state = cri::PodSandboxState::SandboxNotready.into();
                for (_, container) in
                    self.containers.values_mut().filter(|(of, _)| *of == asked.pod_sandbox_id)
                {
                    end(container, 137);
                }
                Ok(Vec::new())
            }
            "RemovePodSandbox" => {
                let asked: cri::RemovePodSandboxRequest = decoded(bytes)?;
                self.sandboxes.remove(&asked.pod_sandbox_id);
                self.containers.retain(|_, (of, _)| *of != asked.pod_sandbox_id);
                Ok(Vec::new())
            }
            "PodSandboxStatus" => {
                let asked: cri::PodSandboxStatusRequest = decoded(bytes)?;
                let status =
                    Some(self.sandboxes.get(&asked.pod_sandbox_id).ok_or_else(gone)?.clone());
                Ok(cri::PodSandboxStatusResponse { status, ..Default::default() }.encode_to_vec())
            }
            "ListPodSandbox" => {
                let asked: cri::ListPodSandboxRequest = decoded(bytes)?;
                let wanted = asked.filter.map(|filter| filter.label_selector).unwrap_or_default();
                let items = self.sandboxes.values().filter(|one| {
                    wanted.iter().all(|(key, value)| one.labels.get(key) == Some(value))
                });
                let item = |one: &cri::PodSandboxStatus| cri::PodSandbox {
                    id: one.id.clone(),
                    metadata: one.metadata.clone(),
                    state: one.state,
                    created_at: one.created_at,
                    labels: one.labels.clone(),
                    ..Default::default()
                };
                Ok(cri::ListPodSandboxResponse { items: items.map(item).collect() }.encode_to_vec())
            }
            _ => self.call_for_container(method, bytes),
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "all calls answer so")]
    fn run(&mut self, asked: cri::RunPodSandboxRequest) -> Answered {
        let id = self.id();
        let config = asked.config.unwrap_or_default();
        let ip = hostile::ADDRESS.to_string();
        let sandbox = cri::PodSandboxStatus {
            id: id.clone(),
            metadata: config.metadata,
            state: cri::PodSandboxState::SandboxReady.into(),
            created_at: now(),
            network: Some(cri::PodSandboxNetworkStatus { ip, ..Default::default() }),
            labels: config.labels,
            annotations: config.annotations,
            ..Default::default()
        };
        self.sandboxes.insert(id.clone(), sandbox);
        Ok(cri::RunPodSandboxResponse { pod_sandbox_id: id }.encode_to_vec())
    }

    fn call_for_container(&mut self, method: &str, bytes: &[u8]) -> Answered {
        match method {
            "CreateContainer" => {
                let asked: cri::CreateContainerRequest = decoded(bytes)?;
                let config = asked.config.unwrap_or_default();
                let id = self.id();
                let status = cri::ContainerStatus {
                    id: id.clone(),
                    metadata: config.metadata,
                    created_at: now(),
                    image: config.image,
                    image_ref: "sha256:0".into(),
                    labels: config.labels,
                    annotations: config.annotations,
                    ..Default::default()
                };
                self.containers.insert(id.clone(), (asked.pod_sandbox_id, status));
                Ok(cri::CreateContainerResponse { container_id: id }.encode_to_vec())
            }
            "StartContainer" => {
                let asked: cri::StartContainerRequest = decoded(bytes)?;
                let (_, container) =
                    self.containers.get_mut(&asked.container_id).ok_or_else(gone)?;
                container.state = cri::ContainerState::ContainerRunning.into();
                container.started_at = now();
                // `i` is the init container of the attack's pods and succeeds; every third of the others fails
                let name =
                    container.metadata.as_ref().map(|meta| meta.name.clone()).unwrap_or_default();
                match self.next % 3 {
                    _ if name == "i" => end(container, 0),
                    0 => end(container, 1),
                    _ => {}
                }
                Ok(Vec::new())
            }
            "StopContainer" => {
                let asked: cri::StopContainerRequest = decoded(bytes)?;
                let (_, container) =
                    self.containers.get_mut(&asked.container_id).ok_or_else(gone)?;
                end(container, 137);
                Ok(Vec::new())
            }
            "RemoveContainer" => {
                let asked: cri::RemoveContainerRequest = decoded(bytes)?;
                self.containers.remove(&asked.container_id);
                Ok(Vec::new())
            }
            "ContainerStatus" => {
                let asked: cri::ContainerStatusRequest = decoded(bytes)?;
                let status =
                    Some(self.containers.get(&asked.container_id).ok_or_else(gone)?.1.clone());
                Ok(cri::ContainerStatusResponse { status, ..Default::default() }.encode_to_vec())
            }
            "ListContainers" => {
                let asked: cri::ListContainersRequest = decoded(bytes)?;
                let wanted = asked.filter.map(|filter| filter.label_selector).unwrap_or_default();
                let all = self.containers.values();
                let chosen = all.filter(|(_, one)| {
                    wanted.iter().all(|(key, value)| one.labels.get(key) == Some(value))
                });
                let item = |(of, one): &(String, cri::ContainerStatus)| cri::Container {
                    id: one.id.clone(),
                    pod_sandbox_id: of.clone(),
                    metadata: one.metadata.clone(),
                    state: one.state,
                    created_at: one.created_at,
                    labels: one.labels.clone(),
                    ..Default::default()
                };
                Ok(cri::ListContainersResponse { containers: chosen.map(item).collect() }
                    .encode_to_vec())
            }
            _ => Err((12, "only pretended".into())),
        }
    }
}

fn end(container: &mut cri::ContainerStatus, code: i32) {
    if container.finished_at == 0 {
        container.state = cri::ContainerState::ContainerExited.into();
        container.finished_at = now();
        container.exit_code = code;
        container.reason = if code == 0 { "Completed" } else { "Error" }.into();
    }
}

fn now() -> i64 {
    SystemClock.now_micros() * 1000
}
