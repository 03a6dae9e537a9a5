//! Test fixture: a runtime in a temporary directory, with one image.

use std::{
    ffi::OsString,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use container::{
    Config, CriClient, Server,
    cni::{Cni, Loopback},
    cri::{
        ContainerConfig, ContainerMetadata, CreateContainerRequest, ExecSyncRequest, ImageSpec,
        LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig,
        LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption, PodSandboxConfig,
        PodSandboxMetadata, RemovePodSandboxRequest, RunPodSandboxRequest, StartContainerRequest,
    },
    image::{ImageStore, RegistryConfig},
};
use tokio::{net::UnixListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::Status;

pub(crate) const IMAGE: &str = "example.test/busybox:1";
pub(crate) const SHIM: &str = env!("CARGO_BIN_EXE_container-shim");

pub(crate) struct Runtime {
    folder: tempfile::TempDir,
    pub(crate) cri: CriClient,
    store: ImageStore,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Runtime {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        store.import(std::io::Cursor::new(archive())).await.expect("import the image");
        Self::serve(folder, store).await
    }

    /// A runtime whose shims are started from another program.
    pub(crate) async fn start_with(shim: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        store.import(std::io::Cursor::new(archive())).await.expect("import the image");
        let args = args.iter().map(OsString::from).collect();
        Self::serve_with(folder, store, (shim.into(), args), Arc::new(Loopback)).await
    }

    /// A runtime with another pod network.
    pub(crate) async fn start_with_network(cni: Arc<dyn Cni>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        store.import(std::io::Cursor::new(archive())).await.expect("import the image");
        Self::serve_with(folder, store, (SHIM.into(), Vec::new()), cni).await
    }

    async fn serve(folder: tempfile::TempDir, store: ImageStore) -> Self {
        Self::serve_with(folder, store, (SHIM.into(), Vec::new()), Arc::new(Loopback)).await
    }

    async fn serve_with(
        folder: tempfile::TempDir,
        store: ImageStore,
        (shim, shim_args): (PathBuf, Vec<OsString>),
        cni: Arc<dyn Cni>,
    ) -> Self {
        let config = Config {
            root: folder.path().join("runtime"),
            cgroup_root: cgroup(folder.path()),
            owns_cgroup_root: true,
            shim_cgroup: String::new(),
            pids_limit: Some(1000),
            shim,
            shim_args,
            streaming: ([127, 0, 0, 1], 0).into(),
        };
        let built = Server::build(config, cni, store.clone()).await.expect("build");
        let socket = folder.path().join("cri.sock");
        let _ = fs::remove_file(&socket); // left by an earlier server
        let listener = UnixListener::bind(&socket).expect("bind");
        let stop = CancellationToken::new();
        let ended = stop.clone();
        #[expect(clippy::disallowed_methods, reason = "joined by restart and end")]
        let served =
            tokio::spawn(async move { built.serve(listener, ended).await.expect("serve") });
        let cri = CriClient::connect(&socket).await.expect("connect");
        Self { folder, cri, store, stop, served }
    }

    /// A new server on the same directory; pods keep running in between.
    pub(crate) async fn restart(self) -> Self {
        self.restart_after(|| ()).await
    }

    /// Restarts the server, and calls `meanwhile` when the old one has stopped and written everything.
    pub(crate) async fn restart_after(self, meanwhile: impl FnOnce()) -> Self {
        let Self { folder, cri, store: old, stop, served } = self;
        drop((cri, old));
        stop.cancel();
        served.await.expect("the old server ends");
        meanwhile();
        let store = store(folder.path());
        Self::serve(folder, store).await
    }

    /// Stops the runtime and checks that nothing is left.
    pub(crate) async fn end(self) {
        let Self { folder, cri, store, stop, served } = self;
        drop((cri, store));
        stop.cancel();
        served.await.expect("the server ends");
        let path = folder.path().to_string_lossy().into_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        assert!(!mounts.contains(&path), "mounts remain");
        for process in fs::read_dir("/proc").expect("processes").flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            assert!(
                !String::from_utf8_lossy(&line).contains(&path),
                "a process remains: {process:?}"
            );
        }
        let group = Path::new("/sys/fs/cgroup/pids").join(cgroup(folder.path()));
        if group.is_dir() {
            remove_empty(&group);
            assert!(!group.exists(), "cgroups remain");
        }
    }

    /// Imports an image of busybox and what `fill` adds, with this configuration.
    pub(crate) async fn import(
        &self,
        name: &str,
        config: &str,
        fill: impl FnOnce(&mut tar::Builder<Vec<u8>>),
    ) {
        let archive = archive_of(name, config, fill);
        self.store.import(std::io::Cursor::new(archive)).await.expect("import an image");
    }

    /// A file of a container's cgroup, such as `cgroup.procs`, in the hierarchy of `controller`.
    pub(crate) fn cgroup_file(&self, controller: &str, container: &str, file: &str) -> PathBuf {
        let top = Path::new("/sys/fs/cgroup");
        let top = Some(top.join(controller)).filter(|path| path.is_dir()).unwrap_or(top.into());
        top.join(cgroup(self.folder.path())).join("tiphys").join(container).join(file)
    }

    /// The host pid of a container's first process.
    pub(crate) fn init(&self, container: &str) -> i32 {
        let path = self.cgroup_file("pids", container, "cgroup.procs");
        let processes = fs::read_to_string(path).expect("a group");
        let numbers = processes.lines().filter_map(|line| line.parse().ok());
        numbers.min().expect("a process")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The directory of the server's records.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("runtime")
    }

    pub(crate) fn cgroup(&self) -> String {
        cgroup(self.folder.path())
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    pub(crate) fn sandbox_config(&self, name: &str) -> PodSandboxConfig {
        let namespaces =
            NamespaceOption { pid: NamespaceMode::Container.into(), ..NamespaceOption::default() };
        let security_context = LinuxSandboxSecurityContext {
            namespace_options: Some(namespaces),
            ..Default::default()
        };
        PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.into(),
                uid: "u".into(),
                namespace: "n".into(),
                attempt: 0,
            }),
            hostname: "harbour".into(),
            log_directory: self.logs().to_string_lossy().into_owned(),
            linux: Some(LinuxPodSandboxConfig {
                security_context: Some(security_context),
                ..Default::default()
            }),
            ..PodSandboxConfig::default()
        }
    }

    pub(crate) async fn sandbox(&mut self, name: &str) -> String {
        let config = self.sandbox_config(name);
        self.run_sandbox(config).await
    }

    /// A pod whose containers share a PID namespace.
    pub(crate) async fn sharing_sandbox(&mut self, name: &str) -> String {
        let mut config = self.sandbox_config(name);
        let security = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut());
        let options = security.and_then(|security| security.namespace_options.as_mut());
        options.expect("made above").pid = NamespaceMode::Pod.into();
        self.run_sandbox(config).await
    }

    pub(crate) async fn run_sandbox(&mut self, config: PodSandboxConfig) -> String {
        let config = Some(config);
        let request = RunPodSandboxRequest { config, runtime_handler: String::new() };
        self.cri
            .runtime
            .run_pod_sandbox(request)
            .await
            .expect("run a sandbox")
            .into_inner()
            .pod_sandbox_id
    }

    pub(crate) async fn container(&mut self, sandbox: &str, config: ContainerConfig) -> String {
        self.try_container(sandbox, config).await.expect("create and start")
    }

    pub(crate) async fn try_container(
        &mut self,
        sandbox: &str,
        config: ContainerConfig,
    ) -> Result<String, Status> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.into(),
            config: Some(config),
            sandbox_config: None,
        };
        let created = Box::pin(self.cri.runtime.create_container(request)).await;
        let id = created?.into_inner().container_id;
        let start = StartContainerRequest { container_id: id.clone() };
        self.cri.runtime.start_container(start).await?;
        Ok(id)
    }

    /// Runs a script in a container; returns its exit code and output.
    pub(crate) async fn exec(&mut self, id: &str, script: &str) -> Result<(i32, String), Status> {
        let request = ExecSyncRequest {
            container_id: id.into(),
            cmd: ["sh", "-c", script].map(str::to_owned).into(),
            timeout: 30,
        };
        let answer = self.cri.runtime.exec_sync(request).await?.into_inner();
        let said = [answer.stdout, answer.stderr].concat();
        Ok((answer.exit_code, String::from_utf8_lossy(&said).into_owned()))
    }

    pub(crate) async fn start_container(&mut self, id: &str) {
        let start = StartContainerRequest { container_id: id.into() };
        self.cri.runtime.start_container(start).await.expect("start");
    }

    pub(crate) async fn remove(&mut self, sandbox: &str) {
        let request = RemovePodSandboxRequest { pod_sandbox_id: sandbox.into() };
        self.cri.runtime.remove_pod_sandbox(request).await.expect("remove");
    }
}

/// The pid of a sandbox's shim: the process that was started with the sandbox's directory.
pub(crate) fn shim_of(sandbox: &str) -> i32 {
    let of_shim = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let parent = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own = format!("PPid:\t{}\n", std::process::id());
        String::from_utf8_lossy(&line).contains(sandbox) && parent.contains(&own)
    };
    let pids = fs::read_dir("/proc").expect("processes").flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(of_shim).expect("a shim")
}

/// A container that runs a shell script.
pub(crate) fn shell(name: &str, script: &str) -> ContainerConfig {
    let namespaces =
        NamespaceOption { pid: NamespaceMode::Container.into(), ..NamespaceOption::default() };
    let security =
        LinuxContainerSecurityContext { namespace_options: Some(namespaces), ..Default::default() };
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.into(), attempt: 0 }),
        image: Some(ImageSpec { image: IMAGE.into(), ..ImageSpec::default() }),
        command: vec!["/bin/sh".into(), "-c".into(), script.into()],
        log_path: format!("{name}.log"),
        linux: Some(LinuxContainerConfig {
            security_context: Some(security),
            ..Default::default()
        }),
        ..ContainerConfig::default()
    }
}

/// Waits until the file `path` contains `text`.
pub(crate) async fn wait_for(path: &Path, text: &str) -> String {
    let mut content = String::new();
    for _ in 0..3000 {
        content = fs::read_to_string(path).unwrap_or_default();
        if content.contains(text) {
            return content;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} lacks {text:?}: {content:?}", path.display());
}

fn store(folder: &Path) -> ImageStore {
    ImageStore::open(&folder.join("images"), RegistryConfig::default()).expect("open the store")
}

fn cgroup(folder: &Path) -> String {
    format!("container-test-{}", folder.file_name().expect("a name").to_string_lossy())
}

fn remove_empty(group: &Path) {
    let relative = group.strip_prefix("/sys/fs/cgroup/pids").expect("below");
    for controller in fs::read_dir("/sys/fs/cgroup").expect("controllers").flatten() {
        let top = controller.path().join(relative);
        let _ = fs::remove_dir(top.join("tiphys")); // ours while empty
        let _ = fs::remove_dir(top);
    }
}

/// Debian's static busybox as an OCI archive.
fn archive() -> Vec<u8> {
    archive_of(IMAGE, r#"{"Env":["PATH=/bin"]}"#, |layer| {
        for folder in ["etc/", "proc/", "sys/", "dev/"] {
            entry(layer, folder, tar::EntryType::Directory, "");
        }
        let users = b"root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000::/:/bin/sh\n";
        file(layer, "etc/passwd", users, 0o644);
        file(layer, "etc/group", b"root:x:0:\nextra:x:50000:web\n", 0o644);
    })
}

/// An entry without content: a directory, a symlink, a FIFO.
pub(crate) fn entry(
    layer: &mut tar::Builder<Vec<u8>>,
    path: &str,
    kind: tar::EntryType,
    link: &str,
) {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_size(0);
    if link.is_empty() {
        layer.append_data(&mut header, path, std::io::empty()).expect("an entry");
    } else {
        layer.append_link(&mut header, path, link).expect("a link");
    }
}

/// Busybox, its commands and what `fill` adds, as an OCI archive.
fn archive_of(name: &str, config: &str, fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let busybox =
        fs::read("/bin/busybox").expect("/bin/busybox: install the package busybox-static");
    let mut layer = tar::Builder::new(Vec::new());
    for folder in ["bin/", "tmp/"] {
        entry(&mut layer, folder, tar::EntryType::Directory, "");
    }
    file(&mut layer, "bin/busybox", &busybox, 0o755);
    for applet in [
        "sh", "cat", "echo", "sleep", "id", "hostname", "ls", "mount", "stty", "tty", "ps", "nc",
        "head", "grep", "chmod", "chown", "rm", "ln", "mkdir", "mkfifo", "mv", "readlink", "stat",
        "touch", "mknod", "true", "wc", "dd", "setsid", "kill",
    ] {
        entry(&mut layer, &format!("bin/{applet}"), tar::EntryType::Symlink, "busybox");
    }
    fill(&mut layer);
    let layer = layer.into_inner().expect("in memory");
    let diff = digest(&layer);
    let config = format!(
        r#"{{"architecture":"{}","os":"linux","config":{config},"rootfs":{{"type":"layers","diff_ids":["sha256:{diff}"]}}}}"#,
        if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
    );
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:{}","size":{}}},"layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:{diff}","size":{}}}]}}"#,
        digest(config.as_bytes()),
        config.len(),
        layer.len()
    );
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:{}","size":{},"annotations":{{"io.containerd.image.name":"{name}","org.opencontainers.image.ref.name":"{name}"}}}}]}}"#,
        digest(manifest.as_bytes()),
        manifest.len()
    );
    let mut archive = tar::Builder::new(Vec::new());
    file(&mut archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644);
    file(&mut archive, "index.json", index.as_bytes(), 0o644);
    for blob in [layer.as_slice(), config.as_bytes(), manifest.as_bytes()] {
        file(&mut archive, &format!("blobs/sha256/{}", digest(blob)), blob, 0o644);
    }
    archive.into_inner().expect("in memory")
}

pub(crate) fn file(tar: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8], mode: u32) {
    let mut header = tar::Header::new_ustar();
    header.set_mode(mode);
    header.set_size(content.len().try_into().expect("small"));
    tar.append_data(&mut header, path, content).expect("a file");
}

fn digest(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    for byte in ring::digest::digest(&ring::digest::SHA256, bytes).as_ref() {
        write!(text, "{byte:02x}").expect("in memory");
    }
    String::from_utf8(text).expect("hexadecimal")
}
