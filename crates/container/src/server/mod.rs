//! The CRI server: state, start-up, recovery of running pods.

mod caller;
mod container;
mod cri_status;
mod devices;
mod events;
mod exec;
mod files;
mod garbage_collection;
mod images;
mod mounts;
mod panic_isolation;
mod records;
mod recover;
mod sandbox;
mod service;
mod sessions;
mod shim;
mod spec;
mod state;
mod stats;

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use ring::rand::{SecureRandom, SystemRandom};
use sys::cgroup::{Cgroup, Hierarchies};
use tokio::{net::UnixListener, sync::broadcast};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    panic_isolation::Contained,
    shim::{Program, ShimClient},
    state::State,
};
use crate::{
    Cni,
    cri::{
        ContainerEventResponse, image_service_server::ImageServiceServer,
        runtime_service_server::RuntimeServiceServer,
    },
    image::ImageStore,
    status::BoundedStatus,
    streaming,
};

/// Configuration of the runtime.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of the state of pods and containers, and of their writable layers.
    pub root: PathBuf,
    /// Parent cgroup of pods that have no `cgroup_parent`; empty for the root of the hierarchies.
    pub cgroup_root: String,
    /// Whether nobody else creates cgroups below `cgroup_root`; then the server removes those without a record.
    pub owns_cgroup_root: bool,
    /// The cgroup of the shims; empty for the server's own.
    pub shim_cgroup: String,
    /// Maximum number of processes of a container.
    pub pids_limit: Option<i64>,
    /// The shim program, and its arguments before the pod's directory.
    pub shim: PathBuf,
    pub shim_args: Vec<OsString>,
    /// Loopback address where exec, attach and port-forward are served.
    pub streaming: SocketAddr,
}

/// The runtime, ready to serve.
#[derive(Debug)]
pub struct Server {
    inner: Arc<Inner>,
}

/// State of the CRI server.
#[derive(Debug)]
pub(crate) struct Inner {
    config: Config,
    state: State,
    store: ImageStore,
    cni: Arc<dyn Cni>,
    cgroups: Hierarchies,
    program: Program,
    events: broadcast::Sender<ContainerEventResponse>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Compiled default seccomp filters by capability set: compiling one takes longer than starting a process.
    filters: Mutex<HashMap<u64, Arc<[u8]>>>,
    random: SystemRandom,
    /// Set right after construction, because its session handler refers back to this.
    streaming: OnceLock<streaming::Server>,
    /// Limits the number of port-forward connections.
    forwarded: streaming::Seats,
}

/// The name of the runtime, and of its only handler besides the default one.
const NAME: &str = "tiphys";
/// Name of an empty directory of the runtime.
const EMPTY: &str = "empty";
/// Maximum size of a request, which may contain many mounts and variables.
const LARGEST_MESSAGE: usize = 16 << 20;
/// Maximum size of a container specification; the same data takes more space as JSON.
const LARGEST_SPEC: u64 = 64 << 20;

impl Server {
    /// Loads the records and reconnects to the shims that still run.
    pub async fn build(config: Config, cni: Arc<dyn Cni>, store: ImageStore) -> io::Result<Self> {
        fs::create_dir_all(&config.root)?;
        let (state, leftovers) = State::load(&config.root)?;
        let inner = Arc::new(Inner {
            state,
            store,
            cni,
            cgroups: Hierarchies::detect()?,
            program: Program::open(&config.shim, &config.shim_args, &config.root.join(EMPTY))?,
            events: broadcast::Sender::new(1024),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            filters: Mutex::default(),
            random: SystemRandom::new(),
            streaming: OnceLock::new(),
            forwarded: streaming::Seats::of_forwarded_connections(),
            config,
        });
        let sessions = Arc::new(sessions::SessionHandler(Arc::downgrade(&inner)));
        let streaming = streaming::Server::bind(inner.config.streaming, sessions).await?;
        inner.streaming.set(streaming).expect("set nowhere else");
        inner.recover(leftovers).await;
        inner.collect_at_start().await;
        inner.keep_collecting();
        Ok(Self { inner })
    }

    /// Serves until `stop` is cancelled. Pods keep running.
    pub async fn serve(
        self,
        listener: UnixListener,
        stop: CancellationToken,
    ) -> Result<(), tonic::transport::Error> {
        let service = service::Service(self.inner.clone());
        let runtime =
            RuntimeServiceServer::new(service.clone()).max_decoding_message_size(LARGEST_MESSAGE);
        let images = ImageServiceServer::new(service).max_decoding_message_size(LARGEST_MESSAGE);
        let served = tonic::transport::Server::builder()
            .add_service(BoundedStatus(Contained(runtime)))
            .add_service(BoundedStatus(Contained(images)))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.cancelled_owned())
            .await;
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        served
    }
}

impl Inner {
    fn shim(&self, sandbox: &str) -> ShimClient {
        ShimClient::at(self.state.sandbox_folder(sandbox))
    }

    fn cgroup(&self, path: &str) -> io::Result<Cgroup> {
        self.cgroups.group(path)
    }

    fn new_id(&self) -> String {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes).expect("the kernel has randomness");
        bytes.map(|byte| format!("{byte:02x}")).concat()
    }

    /// The compiled default seccomp filter for a container with these capabilities.
    fn default_filter(&self, capabilities: u64) -> io::Result<Arc<[u8]>> {
        let mut known = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(filter) = known.get(&capabilities) {
            return Ok(filter.clone());
        }
        let compiled = crate::seccomp::default(sys::capability::CapabilitySet(capabilities))?;
        let filter: Arc<[u8]> = serde_json::to_vec(&compiled)?.into();
        if known.len() < 64 {
            known.insert(capabilities, filter.clone());
        }
        Ok(filter)
    }
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let (seconds, nanos) = sys::descriptor::now();
    seconds * 1_000_000_000 + i64::from(nanos)
}

/// Whether labels match a selector.
fn matches_labels(selector: &HashMap<String, String>, labels: &HashMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Runs blocking file operations on a separate thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, tonic::Status> + Send + 'static,
) -> Result<T, tonic::Status> {
    let done = crate::threads::run(|| panics::catch("cri", work)).await;
    let done = done.map_err(|error| tonic::Status::internal(error.to_string()))?;
    done.map_err(|panicked| tonic::Status::internal(panicked.to_string()))?
}

fn internal(doing: &str) -> impl FnOnce(io::Error) -> tonic::Status {
    let doing = doing.to_owned();
    move |error| tonic::Status::unknown(format!("{doing}: {error}"))
}
