//! The kubelet: runs the pods that the API server binds to this node, and reports their status.
//!
//! ```text
//!  source::{api, file, url} ─► Pods: a worker each ─observe─► plan ─► steps ─► CRI, volume
//!                            ▲                             │
//!  events (CRI), probes ─────┘                             └─► Statuses ─► API
//!  node: registration, status, lease      server: logs, exec, metrics
//! ```

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod admission;
pub mod certificates;
mod cgroup;
mod config;
pub mod dns;
pub mod env;
mod events;
pub mod eviction;
pub mod image_gc;
mod images;
mod node;
mod objects;
mod orphans;
pub mod pod;
mod pod_logs;
pub mod probe;
pub mod reserved;
mod resize;
pub mod rotate;
mod runtime;
mod server;
mod source;
mod status_size;
mod statuses;
pub mod sysctl;
mod usage;
mod volumes;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ::runtime::{Cache, CachedApi, Context, EventRecorder, EventType, InvolvedObject};
use api::core::{Node, Pod, Service};
use client::Selectors;
use object::{Clock, NamespacedName, SteadyClock, SystemClock, Text};
use tokio::{
    sync::{Notify, OnceCell, watch},
    time::{Instant, sleep},
};

use self::{
    admission::AdmissionContext,
    cgroup::qos_groups::Tiers,
    eviction::Pressure,
    node::machine::Machine,
    pod::{PodWorkers, plan::Failure},
    pod_logs::PodLogs,
    probe::ProbeMetrics,
    runtime::RuntimeClient,
    server::counters::Counters,
    statuses::StatusManager,
    volumes::Allocatable,
};
pub use self::{
    config::{Config, Serving},
    pod_logs::remove_all as remove_pod_logs,
    server::serving_leaf,
};

/// Why the kubelet cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the container runtime at {socket} does not respond: {why}")]
    Runtime { socket: String, why: String },
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    #[error(transparent)]
    Pki(#[from] pki::Error),
}

/// A running kubelet. It stops when its context is stopped.
#[derive(Debug)]
pub struct Kubelet {
    pub address: SocketAddr,
    host: Arc<KubeletContext>,
}

impl Kubelet {
    /// Terminates all pods of this node in parallel, with preStop hooks, SIGTERM and grace periods. Their records and
    /// API objects stay, and no container starts again before the kubelet is restarted. Returns at once; the runtime
    /// shows the progress.
    pub fn end_pods(&self) {
        self.host.halting.store(true, Ordering::SeqCst);
        self.host.pods.wake_all();
    }
}

/// State that all components of the kubelet share.
#[derive(Debug)]
pub(crate) struct KubeletContext {
    pub(crate) cx: Context,
    pub(crate) config: Config,
    pub(crate) runtime: RuntimeClient,
    pub(crate) machine: Machine,
    pub(crate) api_reader: objects::ApiReader,
    pub(crate) pods: PodWorkers,
    pub(crate) statuses: StatusManager,
    /// The pods of this node; `None` without an API server.
    pub(crate) api_pods: Option<CachedApi<Pod>>,
    services: Option<Arc<Cache<Service>>>,
    nodes: Option<Arc<Cache<Node>>>,
    recorder: Option<EventRecorder>,
    /// Notified when static pods or their mirror pods change.
    pub(crate) mirror_pods_changed: Notify,
    sources_ready: watch::Sender<bool>,
    /// Notified when the Node object has changed, or its status must be updated.
    node_changed: Notify,
    pub(crate) images: image_gc::ImageRecords,
    /// Probe results, counted for `/metrics/probes`.
    pub(crate) probe_metrics: Arc<ProbeMetrics>,
    pub(crate) pod_files: volumes::PodFiles,
    pub(crate) log_readers: container::streaming::Seats,
    pub(crate) counters: Counters,
    /// Current pressure conditions of the node.
    pressure: Mutex<Vec<Pressure>>,
    image_folder: OnceCell<PathBuf>,
    /// The port that the kubelet listens on.
    pub(crate) port: OnceLock<u16>,
    pub(crate) tiers: Tiers,
    /// The node is shutting down: pods are terminated and no container starts.
    halting: AtomicBool,
    steady: SteadyClock,
}

/// How long to wait at start for the runtime to become available.
const RUNTIME_TIMEOUT: Duration = Duration::from_mins(1);

/// Starts the kubelet. The context's client authenticates as the node.
pub async fn start(cx: &Context, mut config: Config) -> Result<Kubelet, Error> {
    config.manifest_url.as_deref().map(source::url::check).transpose()?;
    let runtime = connect(&config).await?;
    if config.node_ips.is_empty() {
        config.node_ips.extend(node::machine::address());
    }
    let pods = config.root_dir.join("pods");
    // other users of the host must not read the pods' volumes
    std::fs::create_dir_all(&pods)
        .and_then(|()| std::fs::set_permissions(&pods, std::fs::Permissions::from_mode(0o750)))
        .map_err(|error| Error::Io { what: config.root_dir.display().to_string(), error })?;
    let own = Selectors::fields(format!("spec.nodeName={}", config.node_name));
    let node = Selectors::fields(format!("metadata.name={}", config.node_name));
    let with_api = !config.standalone;
    let machine = Machine::read(&config.root_dir);
    let tiers = Tiers::create(&config)
        .map_err(|error| Error::Io { what: "the groups of pods".into(), error })?;
    let host = Arc::new(KubeletContext {
        runtime,
        pod_files: volumes::PodFiles::new(machine.memory),
        log_readers: server::logs::readers(),
        machine,
        api_reader: objects::ApiReader::new(with_api.then(|| cx.client().clone())),
        pods: PodWorkers::default(),
        statuses: StatusManager::default(),
        api_pods: with_api.then(|| cx.cached_api_selected::<Pod>(&own)),
        services: with_api.then(|| cx.cache::<Service>()),
        nodes: with_api.then(|| cx.cache_selected::<Node>(&node)),
        recorder: with_api.then(|| EventRecorder::start(cx, "kubelet", &config.node_name)),
        mirror_pods_changed: Notify::new(),
        sources_ready: watch::channel(false).0,
        node_changed: Notify::new(),
        images: image_gc::ImageRecords::default(),
        probe_metrics: Arc::default(),
        counters: Counters::default(),
        pressure: Mutex::default(),
        image_folder: OnceCell::new(),
        port: OnceLock::new(),
        tiers,
        halting: AtomicBool::new(false),
        steady: SteadyClock::new(),
        cx: cx.clone(),
        config,
    });
    if let Some(nodes) = &host.nodes {
        let weak = Arc::downgrade(&host);
        nodes.on_change(move |old, new| {
            let watched = |node: Option<&Node>| {
                let spec = node?.spec();
                Some((spec.pod_cidr().to_owned(), spec.unschedulable()))
            };
            if let Some(host) = weak.upgrade().filter(|_| watched(old) != watched(new)) {
                host.node_changed.notify_one();
            }
        });
    }
    cgroup::qos_groups::start(&host)?;
    let address = server::start(&host).await?;
    host.port.get_or_init(|| address.port());
    node::start(&host, address.port());
    StatusManager::start(&host);
    events::start(&host);
    source::api::start(&host);
    let (mut files, mut pages) = (source::file::start(&host), source::url::start(&host));
    source::mirror::start(&host);
    let waiting = host.clone();
    cx.spawn("sources", async move {
        let files = files.wait_for(|read| *read).await.is_ok();
        if files && pages.wait_for(|read| *read).await.is_ok() {
            waiting.sources_ready.send_replace(true);
        }
    });
    orphans::adopt(&host).await;
    eviction::start(&host);
    image_gc::start(&host);
    rotate::start(&host);
    Ok(Kubelet { address, host })
}

async fn connect(config: &Config) -> Result<RuntimeClient, Error> {
    let until = Instant::now() + RUNTIME_TIMEOUT;
    loop {
        match RuntimeClient::connect(&config.runtime_socket).await {
            Ok(runtime) => return Ok(runtime),
            Err(why) if Instant::now() > until => {
                let socket = config.runtime_socket.display().to_string();
                return Err(Error::Runtime { socket, why });
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

impl KubeletContext {
    pub(crate) fn is_halting(&self) -> bool {
        self.halting.load(Ordering::SeqCst)
    }

    /// Seconds since 1970.
    #[expect(clippy::unused_self, reason = "the clock is the host's")]
    pub(crate) fn now(&self) -> i64 {
        SystemClock.now()
    }

    /// Seconds by a clock that does not jump when the time of day is set, for what the kubelet itself counts.
    pub(crate) fn steady_seconds(&self) -> i64 {
        self.steady.now()
    }

    /// Nanoseconds since 1970, the unit of CRI timestamps.
    #[expect(clippy::unused_self, reason = "the clock is the host's")]
    pub(crate) fn nanos(&self) -> i64 {
        SystemClock.now_micros() * 1000
    }

    pub(crate) fn host_ips(&self) -> Vec<String> {
        self.config.node_ips.iter().map(ToString::to_string).collect()
    }

    /// Allocatable resources of the node: capacity minus reservations and hard eviction thresholds.
    pub(crate) fn allocatable(&self) -> Allocatable {
        let whole = self.machine.resources().into_iter();
        let settings = &self.config.eviction;
        whole
            .map(|(name, amount)| {
                let left = self.config.kube_reserved.subtract_from(&name, &amount);
                let left = self.config.system_reserved.subtract_from(&name, &left);
                let kept = eviction::kept(settings, &name, &amount);
                (name, eviction::without(&left, kept))
            })
            .collect()
    }

    /// Runs kubelet admission for a pod, beside the pods in `others`.
    pub(crate) fn admit(&self, pod: &Pod, is_static: bool, others: &[Pod]) -> Result<(), Failure> {
        let pressure = self.pressure();
        let admitted = self.with_admission_context(others, &pressure, |place| {
            admission::admit(pod, is_static, place)
        });
        admitted.map_err(|(reason, message)| Failure {
            reason,
            message: format!("Pod was rejected: {message}"),
            rejected: true,
            ..Failure::default()
        })
    }

    /// Whether the resized pod fits on the node, beside the pods in `others`.
    pub(crate) fn check_resize(
        &self,
        pod: &Pod,
        others: &[Pod],
    ) -> Result<(), resize::PendingReason> {
        self.with_admission_context(others, &[], |place| resize::check_fit(pod, place))
    }

    /// Calls `judge` with the state of the node. Uses the kubelet's own data while the API server has no Node object
    /// yet.
    fn with_admission_context<T>(
        &self,
        others: &[Pod],
        pressure: &[Pressure],
        judge: impl FnOnce(&AdmissionContext<'_>) -> T,
    ) -> T {
        let mut allocatable = self.allocatable();
        let pods =
            object::Quantity::new(self.config.max_pods.into(), object::quantity::Format::DecimalSi);
        allocatable.insert("pods".into(), pods);
        let node = self.node().unwrap_or_else(|| node::initial_node(&self.config));
        for (name, amount) in node.status().allocatable().iter() {
            allocatable.insert(name.to_owned(), amount);
        }
        let sysctls = &self.config.sysctls;
        let (node, allocatable) = (&node, &allocatable);
        judge(&AdmissionContext { node, allocatable, admitted_pods: others, pressure, sysctls })
    }

    pub(crate) fn pressure(&self) -> Vec<Pressure> {
        self.pressure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the pressure conditions; a change updates the node status at once.
    pub(crate) fn set_pressure(&self, now: &[Pressure]) {
        let mut known = self.pressure.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != now {
            now.clone_into(&mut known);
            self.node_changed.notify_one();
        }
    }

    /// The directory of the runtime's images. Falls back to the kubelet's root directory while the runtime does not
    /// report it.
    pub(crate) async fn image_folder(&self) -> PathBuf {
        let asked = self.image_folder.get_or_try_init(|| async {
            let told = self.runtime.image_folder().await?;
            Ok::<_, tonic::Status>(told.map_or_else(|| self.config.root_dir.clone(), PathBuf::from))
        });
        asked.await.unwrap_or(&self.config.root_dir).clone()
    }

    /// Records an event about the node.
    pub(crate) fn record_node_event(&self, severity: EventType, reason: &str, message: String) {
        tracing::debug!(reason, message);
        if let Some(recorder) = &self.recorder {
            let node = self.node().unwrap_or_else(|| node::initial_node(&self.config));
            let node =
                InvolvedObject { resource_version: Text::default(), ..InvolvedObject::of(&node) };
            recorder.record(node, severity, reason, message);
        }
    }

    pub(crate) fn node(&self) -> Option<Node> {
        self.nodes.as_ref()?.get(&NamespacedName::new("", &self.config.node_name))
    }

    pub(crate) fn node_changes(&self) -> Option<&Notify> {
        self.nodes.is_some().then_some(&self.node_changed)
    }

    /// Whether static pod files and URLs have been read once.
    pub(crate) fn sources_read(&self) -> watch::Receiver<bool> {
        self.sources_ready.subscribe()
    }

    /// The environment variables of services for the pod's containers; with `enableServiceLinks: false` only those of
    /// `kubernetes`.
    pub(crate) fn service_links(&self, pod: &Pod) -> BTreeMap<String, String> {
        let Some(services) = &self.services else { return BTreeMap::new() };
        let all = services.all();
        let namespace = pod.metadata().namespace();
        let links = pod.spec().enable_service_links() != Some(false);
        env::service_env(all.iter().filter(|service| {
            let meta = service.metadata();
            let master = meta.namespace() == "default" && meta.name() == "kubernetes";
            master || links && meta.namespace() == namespace
        }))
    }

    /// Whether the pod still exists in the API server and is not terminating; true if that cannot be determined.
    pub(crate) async fn is_wanted(&self, pod: &Pod) -> bool {
        if self.api_pods.is_none() {
            return true;
        }
        let meta = pod.metadata();
        match client::Api::<Pod>::new(self.cx.client()).get(&NamespacedName::from_meta(meta)).await
        {
            Ok(found) => {
                let found = found.metadata();
                found.uid() == meta.uid() && !found.is_terminating()
            }
            Err(error) => !error.is_not_found(),
        }
    }

    /// Records an event about a pod or one of its containers.
    #[expect(clippy::too_many_arguments, reason = "an event is these five")]
    pub(crate) fn record_event(
        &self,
        pod: &Pod,
        container: &str,
        severity: EventType,
        reason: &str,
        message: String,
    ) {
        tracing::debug!(pod = pod.metadata().name(), container, reason, message);
        let Some(recorder) = &self.recorder else { return };
        let mut about = InvolvedObject::of(pod);
        if !container.is_empty() {
            let spec = pod.spec();
            let list = if spec.init_containers().iter().any(|one| one.name() == container) {
                "initContainers"
            } else if spec.containers().iter().any(|one| one.name() == container) {
                "containers"
            } else {
                "ephemeralContainers"
            };
            about = about.with_field_path(&format!("spec.{list}{{{container}}}"));
        }
        recorder.record(about, severity, reason, message);
    }

    /// Removes the volumes, cgroup and logs of a pod.
    pub(crate) async fn clean_up_pod(&self, pod: &Pod) -> Result<(), String> {
        let meta = pod.metadata();
        let (uid, group) = (meta.uid().to_owned(), self.config.cgroup_root.clone());
        let folder = self.config.pod_folder(&uid);
        let logs = PodLogs::of(&self.config, pod);
        blocking(move || {
            volume::unmount_and_remove(&folder).map_err(|error| error.to_string())?;
            cgroup::remove(&group, &uid);
            logs.remove().map_err(|error| format!("{}: {error}", logs.folder().display()))
        })
        .await
    }
}

/// Runs blocking file operations on a thread of the blocking pool: containers can make them take arbitrarily long.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let work: Box<dyn FnOnce() -> Result<T, String> + Send> = Box::new(work);
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}
