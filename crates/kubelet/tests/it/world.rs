//! Test fixture: one node `n` with an API server, a kubelet and a scripted runtime. The kubelet uses directories and
//! cgroups of the test's own.

use std::{
    ops::Deref,
    sync::atomic::{AtomicU32, Ordering},
};

use ::runtime::Context;
use api::core::Pod;
use kubelet::Config;
use tempfile::TempDir;
use testkit::{Objects, TestCluster, until};
use tokio::{net::UnixListener, task::JoinHandle};

use crate::{runtime::Runtime, service};

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) folder: TempDir,
    cluster: TestCluster,
    objects: Objects,
    group: String,
    serving: JoinHandle<()>,
    /// `None` while the kubelet is stopped.
    kubelet: Option<Context>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(Runtime::new()).await
    }

    pub(crate) async fn start_with(runtime: Runtime) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("resolv.conf"), "nameserver 192.0.2.53\n").expect("room");
        let listener = UnixListener::bind(folder.path().join("cri.sock")).expect("a socket");
        #[expect(clippy::disallowed_methods, reason = "the test's own runtime")]
        let serving = tokio::spawn(service::serve(runtime.clone(), listener));
        let cluster = TestCluster::start().await;
        let objects = Objects::new(&cluster.admin_client());
        objects.create_default_account().await;
        let group = format!("/kubelet-it-{}-{nth}", std::process::id());
        let mut world = Self { runtime, folder, cluster, objects, group, serving, kubelet: None };
        world.start_kubelet().await;
        world.until::<api::core::Node>("n", "registered", |_| true).await;
        world
    }

    pub(crate) async fn start_kubelet(&mut self) {
        let folder = self.folder.path();
        let manifests = folder.join("manifests");
        std::fs::create_dir_all(&manifests).expect("room");
        let config = Config {
            root_dir: folder.join("root"),
            pod_logs_dir: folder.join("pods"),
            node_logs: folder.join("logs"),
            static_pod_path: Some(manifests),
            resolv_conf: folder.join("resolv.conf"),
            cgroup_root: self.group.clone(),
            node_ips: vec![[192, 0, 2, 7].into()],
            address: [127, 0, 0, 1].into(),
            port: 0,
            ..Config::new("n", folder.join("cri.sock")).with_relaxed_thresholds()
        };
        let cx = Context::new(&self.cluster.client_as("system:node:n", &["system:nodes"]));
        kubelet::start(&cx, config).await.expect("the kubelet starts");
        self.kubelet = Some(cx);
    }

    pub(crate) async fn stop_kubelet(&mut self) {
        self.kubelet.take().expect("it runs").stop().await;
    }

    /// Creates a pod bound to this node; `spec` is the rest of its spec.
    pub(crate) async fn pod(&self, name: &str, spec: &str) -> Pod {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"n",
            "automountServiceAccountToken":false,{spec}}}}}"#
        );
        self.create::<Pod>(&json).await
    }

    /// Waits until the recorded calls about a pod are exactly these.
    #[track_caller]
    pub(crate) fn until_calls(&self, pod: &str, expected: &[&str]) -> impl Future<Output = ()> {
        let (runtime, pod) = (self.runtime.clone(), pod.to_owned());
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        until(expected.clone(), async move || {
            let calls = runtime.calls(&pod);
            if calls == expected { Ok(()) } else { Err(calls) }
        })
    }

    /// Waits until this call about a pod was recorded.
    #[track_caller]
    pub(crate) fn until_call(&self, pod: &str, call: &str) -> impl Future<Output = ()> {
        let (runtime, pod, call) = (self.runtime.clone(), pod.to_owned(), call.to_owned());
        until(call.clone(), async move || {
            let calls = runtime.calls(&pod);
            if calls.contains(&call) { Ok(()) } else { Err(calls) }
        })
    }

    #[track_caller]
    pub(crate) fn until_phase(&self, pod: &str, phase: &str) -> impl Future<Output = Pod> {
        let expected = phase.to_owned();
        self.until::<Pod>(pod, phase.to_owned(), move |pod| pod.status().phase() == expected)
    }

    /// Waits until the only container of a pod is waiting for this reason; returns the message.
    #[track_caller]
    pub(crate) fn until_waiting(&self, pod: &str, reason: &str) -> impl Future<Output = String> {
        let expected = reason.to_owned();
        let found = self.until::<Pod>(pod, reason.to_owned(), move |pod| {
            waiting(pod).is_some_and(|(reason, _)| reason == expected)
        });
        async move { waiting(&found.await).unwrap_or_default().1 }
    }

    pub(crate) fn admin(&self) -> client::Client {
        self.cluster.admin_client()
    }

    pub(crate) async fn stop(mut self) {
        if self.kubelet.is_some() {
            self.stop_kubelet().await;
        }
        self.cluster.stop().await;
        self.serving.abort();
        let groups = sys::cgroup::Hierarchies::detect().expect("control groups");
        groups.group(&self.group).and_then(|group| group.remove()).expect("nothing runs in it");
    }
}

impl Deref for World {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

/// The waiting reason and message of the first container.
pub(crate) fn waiting(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status();
    let first = status.container_statuses().iter().next()?;
    let waiting = first.state().waiting()?;
    Some((waiting.reason().to_owned(), waiting.message().to_owned()))
}
