//! A separate API server in its own network namespace, with the flags of the recorded one, and an administrator's
//! kubeconfig.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use pki::{CertificateAuthority, CertificateSpec, Dir};
use sys::namespace;
use tempfile::TempDir;

/// Port of the server; not 6443, which occurs in some of the recorded texts.
pub(crate) const PORT: u16 = 17443;

/// Timeout of a wait; reached only by a failing test.
const PATIENCE: Duration = Duration::from_mins(3);

/// Flags of the recorded server, except certificates.
const FLAGS: [&str; 9] = [
    "--bind-address=127.0.0.1",
    "--advertise-address=192.0.2.10",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged=true",
    "--service-cluster-ip-range=10.96.0.0/16",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    "--kubelet-preferred-address-types=InternalIP,Hostname",
    "--secure-port=17443",
];

/// An API server that is stopped with the test.
pub(crate) struct Server {
    process: Child,
    folder: TempDir,
}

impl Server {
    /// Moves this thread into a new network namespace and starts a server in it. No address but those of loopback is
    /// reachable there.
    pub(crate) fn start() -> Self {
        namespace::unshare(namespace::NETWORK).expect("a new network namespace");
        namespace::loopback_up().expect("loopback comes up");
        let route = Command::new("ip").args(["route", "add", "unreachable", "default"]).status();
        assert!(route.expect("ip is there").success(), "a default route");

        let folder =
            tempfile::Builder::new().prefix("tiphys-recorded").tempdir().expect("a folder");
        let pki = folder.path().join("data/pki");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&pki).expect("a folder");
        let [certificate, key] = ["proxy.crt", "proxy.key"].map(|name| folder.path().join(name));
        write_kubeconfig(&folder.path().join("kubeconfig"), &pki, [&certificate, &key]);
        let log = fs::File::create(folder.path().join("log")).expect("a new file");
        let process = Command::new(env!("CARGO_BIN_EXE_tiphys"))
            .args(["kube-apiserver", "--data-dir"])
            .arg(folder.path().join("data"))
            .args(FLAGS)
            .arg("--proxy-client-cert-file")
            .arg(certificate)
            .arg("--proxy-client-key-file")
            .arg(key)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log)
            .spawn()
            .expect("the executable starts");
        let mut server = Self { process, folder };
        server.wait();
        server
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfig")
    }

    /// Waits until the server is ready.
    fn wait(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut ready = Command::new(env!("CARGO_BIN_EXE_tiphys"));
            ready
                .args(["kubectl", "get", "--raw", "/readyz", "--kubeconfig"])
                .arg(self.kubeconfig());
            if ready.output().expect("the executable starts").status.success() {
                return;
            }
            let ended = self.process.try_wait().expect("our own child");
            if ended.is_some() || Instant::now() > end {
                let log = fs::read_to_string(self.folder().join("log")).unwrap_or_default();
                panic!("the server is not ready ({ended:?}): {log}");
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes a kubeconfig for the user `admin`, with a certificate for `kubernetes-admin` in `system:masters`. The
/// server uses the CA that is created here, and presents to aggregated API servers a certificate of its own
/// (`proxy`).
fn write_kubeconfig(path: &Path, pki: &Path, proxy: [&Path; 2]) {
    let now = Timestamp::now().as_second();
    let authority =
        CertificateAuthority::load_or_create(&Dir::open(pki).expect("the folder"), "ca", now)
            .expect("keys");
    let pair = authority
        .issue(&CertificateSpec::client("front-proxy-client", &[]), now)
        .expect("a certificate");
    for (path, pem) in proxy.iter().zip([pair.certificate_pem(), pair.key_pem()]) {
        fs::write(path, pem).expect("a new file");
    }
    let leaf = CertificateSpec::client("kubernetes-admin", &["system:masters"]);
    let pair = authority.issue(&leaf, now).expect("a certificate");
    let [ca, certificate, key] =
        [authority.certificate_pem(), pair.certificate_pem(), pair.key_pem()]
            .map(|pem| STANDARD.encode(pem));
    let text = format!(
        r#"apiVersion: v1
kind: Config
clusters: [{{name: recorded, cluster: {{server: "https://127.0.0.1:{PORT}", certificate-authority-data: {ca}}}}}]
users: [{{name: admin, user: {{client-certificate-data: {certificate}, client-key-data: {key}}}}}]
contexts: [{{name: recorded, context: {{cluster: recorded, user: admin}}}}]
current-context: recorded
"#
    );
    fs::write(path, text).expect("a new file");
}
