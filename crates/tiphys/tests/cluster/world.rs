//! A machine of its own for one test: a network namespace whose default route ends
//! in its own peer, and a data folder. The real machine is the same afterwards.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    namespace: String,
    folder: TempDir,
    machine: String,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let machine = machine();
        let namespace = format!("tiphys-{name}-{}", std::process::id());
        let ip = |args: &str| run(Command::new("ip").args(args.split(' ')));
        ip(&format!("netns add {namespace}"));
        ip(&format!("-n {namespace} link set lo up"));
        ip(&format!("-n {namespace} link add out type veth peer name end"));
        ip(&format!("-n {namespace} address add 192.0.2.2/24 dev out"));
        ip(&format!("-n {namespace} link set out up"));
        ip(&format!("-n {namespace} link set end up"));
        ip(&format!("-n {namespace} route add default via 192.0.2.1"));
        let folder = tempfile::Builder::new().prefix("tiphys").tempdir().expect("a folder");
        Self { namespace, folder, machine }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace));
        command.arg(env!("CARGO_BIN_EXE_tiphys")).args(args);
        command
    }

    fn with(&self, args: &[&str], flag: &str, below: &str) -> Command {
        let mut command = self.command(args);
        command.arg(flag).arg(self.path().join(below));
        command
    }

    /// Runs `tiphys` on this data, and gives what it said.
    pub(crate) fn tiphys(&self, args: &[&str]) -> String {
        run(&mut self.with(args, "--data-dir", ""))
    }

    /// The same with another flag that names a file of the data.
    pub(crate) fn tiphys_at(&self, args: &[&str], flag: &str, below: &str) -> String {
        run(&mut self.with(args, flag, below))
    }

    /// The same, whether it succeeds or not; both outputs.
    pub(crate) fn try_tiphys(&self, args: &[&str]) -> String {
        said(&output(&mut self.with(args, "--data-dir", "")))
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        run(&mut self.kubectl_command(args))
    }

    pub(crate) fn try_kubectl(&self, args: &[&str]) -> String {
        let out = output(&mut self.kubectl_command(args));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn kubectl_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(&["kubectl", "--kubeconfig"]);
        command.arg(self.path().join("kubeconfig/admin")).args(args);
        command
    }

    pub(crate) fn fetch(&self, url: &str) -> String {
        run(&mut self.command(&["hello", "--fetch", url]))
    }

    /// Ends one of our own processes, without a word.
    pub(crate) fn kill(&self, part: &str) {
        let pid = fs::read_to_string(self.path().join(format!("run/{part}.pid"))).expect("a pid");
        run(Command::new("kill").arg("-9").arg(pid.trim()));
    }

    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}\n{}", self.logs());
            sleep(Duration::from_millis(200));
        }
    }

    fn logs(&self) -> String {
        said(&output(&mut self.with(&["logs"], "--data-dir", "")))
    }

    /// No process, mount, group, interface or table of ours.
    pub(crate) fn assert_nothing_left(&self) {
        let folder = self.path().to_str().expect("text");
        let processes = output(Command::new("pgrep").args(["-f", "-a", &format!("{folder}/bin")]));
        assert_eq!(said(&processes), "");
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        assert!(!mounts.contains(folder), "{mounts}");
        let inside = |program: &str, args: &[&str]| {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net=/run/netns/{}", self.namespace)).arg(program).args(args);
            run(&mut command)
        };
        assert_eq!(inside("nft", &["list", "tables"]), "");
        let links = inside("ip", &["-o", "link"]);
        assert_eq!(links.lines().count(), 3, "lo and one pair: {links}");
        assert_eq!(self.machine, machine(), "the machine itself has changed");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = output(&mut self.with(&["down"], "--data-dir", ""));
        let _ = output(Command::new("ip").args(["netns", "delete", &self.namespace]));
    }
}

/// What a test must not touch.
fn machine() -> String {
    let links = run(Command::new("ip").args(["-o", "link"]));
    let names: Vec<&str> = links.lines().filter_map(|line| line.split(':').nth(1)).collect();
    let routes = run(Command::new("ip").arg("route"));
    let tables = run(Command::new("nft").args(["list", "tables"]));
    format!("{names:?}\n{routes}\n{tables}")
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn run(command: &mut Command) -> String {
    let out = output(command);
    assert!(out.status.success(), "{command:?}: {}", said(&out));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}
