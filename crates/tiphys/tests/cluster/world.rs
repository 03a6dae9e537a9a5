//! A simulated host for one test: a network namespace whose default route ends in its own veth peer, and a data
//! directory. The real host is unchanged afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Timeout of a wait; reached only by a failing test.
const PATIENCE: Duration = Duration::from_mins(2);

/// A simulated host, with the data directory of a cluster.
pub(crate) struct World {
    namespace: String,
    /// The parent of the data directory, which only root may enter.
    _folder: TempDir,
    data: PathBuf,
    machine: String,
    links: String,
}

impl World {
    /// A host whose only network interface is connected to itself.
    pub(crate) fn new(name: &str) -> Self {
        let machine = machine();
        let namespace = namespace(name);
        ip(&format!("-n {namespace} link add out type veth peer name end"));
        ip(&format!("-n {namespace} link set end up"));
        Self::with_address(namespace, machine, 2)
    }

    /// Two hosts whose network interfaces are connected to each other.
    pub(crate) fn pair(name: &str) -> (Self, Self) {
        let machine = machine();
        let (one, other) = (namespace(name), namespace(&format!("{name}-2")));
        ip(&format!("-n {one} link add out type veth peer name out netns {other}"));
        let one = Self::with_address(one, machine.clone(), 2);
        (one, Self::with_address(other, machine, 3))
    }

    fn with_address(namespace: String, machine: String, last: u8) -> Self {
        ip(&format!("-n {namespace} address add 192.0.2.{last}/24 dev out"));
        ip(&format!("-n {namespace} link set out up"));
        ip(&format!("-n {namespace} route add default via 192.0.2.1"));
        let folder = tempfile::Builder::new().prefix("tiphys").tempdir().expect("a folder");
        let links = ip(&format!("-n {namespace} -o link"));
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        Self { namespace, _folder: folder, data, machine, links: names(&links) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.data
    }

    /// The cgroup of that name below the cluster's own, which `down` removes.
    pub(crate) fn group(&self, name: &str) -> String {
        let path = self.path().to_str().expect("text");
        let sum = run(Command::new("sh").args(["-c", "printf %s \"$0\" | sha256sum", path]));
        format!("/tiphys-{}/{name}", &sum[..8])
    }

    /// Writes a file into the data directory; returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path().join(name);
        fs::write(&path, content).expect("a test has room for a file");
        path.to_str().expect("text").to_owned()
    }

    /// Flags for a separate kubelet: its serving certificate and the key.
    pub(crate) fn serving_flags(&self, node: &str) -> [String; 2] {
        let given = self.tiphys(&["kubeconfig", "--node", node]);
        let given: serde_json::Value = serde_json::from_str(&given).expect("json");
        let own = &given["clusters"][0]["cluster"]["extensions"][0]["extension"];
        let file = |name: &str| {
            let content = own[name].as_str().expect("a node is given a certificate");
            self.file(&format!("{node}-{name}"), content)
        };
        let (certificate, key) = (file("servingCertificate"), file("servingKey"));
        [format!("--tls-cert-file={certificate}"), format!("--tls-private-key-file={key}")]
    }

    /// The built executable, in this network namespace.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        // Measurements use a release build.
        match std::env::var_os("TIPHYS_EXECUTABLE").as_ref().and_then(|given| given.to_str()) {
            Some(given) => self.inside(given, args),
            None => self.inside(env!("CARGO_BIN_EXE_tiphys"), args),
        }
    }

    /// A program of the real host, in this network namespace.
    pub(crate) fn inside(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg(program).args(args);
        command
    }

    fn with(&self, args: &[&str], flag: &str, below: &str) -> Command {
        let mut command = self.command(args);
        command.arg(flag).arg(self.path().join(below));
        command
    }

    /// Runs `tiphys` with this data directory, and returns its output.
    pub(crate) fn tiphys(&self, args: &[&str]) -> String {
        run(&mut self.with(args, "--data-dir", ""))
    }

    /// Like `tiphys`, with another flag that names a file below the data directory.
    pub(crate) fn tiphys_at(&self, args: &[&str], flag: &str, below: &str) -> String {
        run(&mut self.with(args, flag, below))
    }

    /// Like `tiphys`, but may fail; returns standard output and standard error.
    pub(crate) fn try_tiphys(&self, args: &[&str]) -> String {
        said(&output(&mut self.with(args, "--data-dir", "")))
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        run(&mut self.kubectl_command(args))
    }

    /// The standard output of kubectl, which may fail.
    pub(crate) fn try_kubectl(&self, args: &[&str]) -> String {
        let out = output(&mut self.kubectl_command(args));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The standard error of kubectl, which must fail.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let out = output(&mut self.kubectl_command(args));
        assert!(!out.status.success(), "kubectl {args:?}: {}", said(&out));
        String::from_utf8_lossy(&out.stderr).into_owned()
    }

    pub(crate) fn kubectl_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(&["kubectl", "--kubeconfig"]);
        command.arg(self.path().join("kubeconfig/admin")).args(args);
        command
    }

    pub(crate) fn fetch(&self, url: &str) -> String {
        let out = output(&mut self.command(&["hello", "--fetch", url]));
        assert!(out.status.success(), "{url}: {}\n{}", said(&out), self.logs());
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// The pid, on the real host, of a pod that runs `hello`.
    pub(crate) fn process(&self, pod: &str) -> String {
        let uid = "jsonpath={.metadata.uid} {.metadata.annotations.kubernetes\\.io/config\\.hash}";
        let uids = self.kubectl(&["get", "pod", pod, "-o", uid]);
        let uid = uids.split_whitespace().last().expect("a pod has a uid");
        let all = run(Command::new("pgrep").args(["-f", "^/tiphys hello"]));
        let of_pod = |pid: &&str| {
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            groups.contains(uid)
        };
        all.lines().find(of_pod).expect("the container runs").to_owned()
    }

    /// Kills one of the cluster's processes with SIGKILL.
    pub(crate) fn kill(&self, part: &str) {
        let pid = self.pid(part).expect("a pid");
        let out = output(Command::new("kill").arg("-9").arg(&pid));
        assert!(out.status.success(), "{part}: {}\n{}", said(&out), self.logs());
        // a large process takes a while to end
        self.until("the killed process has ended", || !is_alive(&pid));
    }

    pub(crate) fn runs(&self, part: &str) -> bool {
        self.pid(part).is_some_and(|pid| is_alive(&pid))
    }

    pub(crate) fn pid(&self, part: &str) -> Option<String> {
        let pid = fs::read_to_string(self.path().join(format!("run/{part}.pid"))).ok()?;
        Some(pid.trim().to_owned())
    }

    pub(crate) fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        self.within(PATIENCE, what, holds);
    }

    /// Waits until `holds` returns true; panics after `patience`.
    pub(crate) fn within(&self, patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < patience, "{what}: not within {patience:?}\n{}", self.logs());
            sleep(Duration::from_millis(200));
        }
    }

    fn logs(&self) -> String {
        said(&output(&mut self.with(&["logs"], "--data-dir", "")))
    }

    /// Requires that no process, mount, cgroup, interface or nftables table of the cluster is left.
    pub(crate) fn assert_nothing_left(&self) {
        let folder = self.path().to_str().expect("text");
        let processes = output(Command::new("pgrep").args(["-f", "-a", &format!("{folder}/bin")]));
        assert_eq!(said(&processes), "");
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        assert!(!mounts.contains(folder), "{mounts}");
        let groups = sys::cgroup::Hierarchies::detect().expect("groups");
        let group = self.group("");
        assert!(!groups.group(&group).expect("a path").exists(), "{group} remains");
        assert_eq!(run(&mut self.inside("nft", &["list", "tables"])), "");
        assert_eq!(names(&run(&mut self.inside("ip", &["-o", "link"]))), self.links);
        assert_eq!(self.machine, machine(), "the machine itself has changed");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = output(&mut self.with(&["down", "--now", "--wipe"], "--data-dir", ""));
        let _ = output(Command::new("ip").args(["netns", "delete", &self.namespace]));
    }
}

/// A process that is stopped with the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("the executable starts"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        for _ in 0..50 {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process runs. A zombie still exists, but has no root.
fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).join("root").exists()
}

/// The network configuration of the real host, which a test must not change.
fn machine() -> String {
    let links = names(&ip("-o link"));
    let routes = ip("route");
    let tables = run(Command::new("nft").args(["list", "tables"]));
    format!("{links}\n{routes}\n{tables}")
}

fn namespace(name: &str) -> String {
    let namespace = format!("tiphys-{name}-{}", std::process::id());
    ip(&format!("netns add {namespace}"));
    ip(&format!("-n {namespace} link set lo up"));
    namespace
}

fn names(links: &str) -> String {
    let names: Vec<&str> = links.lines().filter_map(|line| line.split(':').nth(1)).collect();
    names.concat()
}

fn ip(args: &str) -> String {
    run(Command::new("ip").args(args.split(' ')))
}

/// Runs a command and returns its output, whatever its exit status is.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command, which must succeed, and returns its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let out = output(command);
    assert!(out.status.success(), "{command:?}: {}", said(&out));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Standard output and standard error of a command.
pub(crate) fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}
