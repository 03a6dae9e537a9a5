//! The real etcd programs: given by environment variables, found on the path, or built once with Go. Tests that need them
//! are ignored unless they are named (`cargo test -p store --test it -- --ignored real_etcd`), and then fail where there are none.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// A real etcd member, which is killed on drop.
pub(crate) struct Real {
    pub(crate) url: String,
    process: Child,
    folder: Option<TempDir>,
}

impl Real {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut this = Self::start_in(&folder.path().join("data"), &free_url());
        this.folder = Some(folder);
        this
    }

    /// Like `start`, in a directory that may exist already and was created for that member URL.
    pub(crate) fn start_in(data: &Path, peer: &str) -> Self {
        let (program, url) = (etcd(), free_url());
        let process = Command::new(program)
            .arg("--data-dir")
            .arg(data)
            .args(["--log-level", "error"])
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .spawn()
            .expect("it can be started");
        let this = Self { url, process, folder: None };
        let begun = Instant::now();
        while std::net::TcpStream::connect(&this.url["http://".len()..]).is_err() {
            assert!(begun.elapsed() < Duration::from_mins(2), "etcd does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        this
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A URL with a free port.
pub(crate) fn free_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("bound"))
}

/// The path of the etcd program.
pub(crate) fn etcd() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| program("etcd", "ETCD")).clone()
}

/// The path of `etcdutl`, which restores a snapshot to a data directory.
pub(crate) fn etcdutl() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| program("etcdutl", "ETCDUTL")).clone()
}

fn program(name: &str, variable: &str) -> PathBuf {
    if let Some(given) = env::var_os(variable) {
        return given.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        let built = Command::new("../../tests/program").arg(name).stderr(Stdio::inherit()).output();
        let built = built.expect("tests/program can be started");
        assert!(built.status.success(), "{name} is neither on the path nor can it be built");
        String::from_utf8(built.stdout).expect("a path").trim().into()
    })
}
