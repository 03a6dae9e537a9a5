//! The cluster that all these tests share, and kubectl commands with their input and output.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
    thread,
};

use crate::{
    image,
    world::{World, output, said},
};

/// The cluster of the tests of kubectl.
pub(crate) struct Cluster(World);

/// A pod with an idle shell.
pub(crate) const POD: &str = "shell";

impl Cluster {
    pub(crate) fn start() -> Self {
        let world = World::new("kubectl");
        world.tiphys(&["up", "--node-name", "n1", "--disable", "dns"]);
        image::import(&world);
        let this = Self(world);
        this.create(&pod(POD, "sleep 100000", ""));
        this.until_running(POD);
        this
    }

    pub(crate) fn world(&self) -> &World {
        &self.0
    }

    pub(crate) fn create(&self, yaml: &str) {
        let out = self.with_input(&["create", "-f", "-"], yaml.as_bytes());
        assert!(out.status.success(), "{}", said(&out));
    }

    pub(crate) fn until_running(&self, pod: &str) {
        let ready = ["wait", "--for=condition=Ready", "--timeout=120s", &format!("pod/{pod}")];
        self.0.kubectl(&ready);
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.0.kubectl_command(args)
    }

    /// Runs kubectl to its end, without input.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Output {
        output(self.command(args).stdin(Stdio::null()))
    }

    /// Runs kubectl with this input.
    pub(crate) fn with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the executable starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        thread::scope(|scope| {
            // a command that does not read all of its input is no failure
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().expect("it ends")
        })
    }

    /// Runs a script with the host's bash, in which `kubectl` is ours.
    pub(crate) fn bash(&self, script: &str) -> Output {
        let config = self.0.path().join("kubeconfig/admin");
        let tiphys = env!("CARGO_BIN_EXE_tiphys");
        let script = format!("kubectl() {{ \"{tiphys}\" kubectl \"$@\"; }}\n{script}");
        let mut command = self.0.inside("bash", &["-c", &script]);
        let command = command.env("KUBECONFIG", config).env("TIPHYS", tiphys);
        output(command.env("TIPHYS_DATA_DIR", self.0.path()).stdin(Stdio::null()))
    }
}

/// The exit code, or 128 plus the signal.
pub(crate) fn code(out: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    out.status.code().unwrap_or_else(|| 128 + out.status.signal().unwrap_or_default())
}

pub(crate) fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

pub(crate) fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// A pod that runs a script; `container` has further lines of its container, each with its indentation.
pub(crate) fn pod(name: &str, script: &str, container: &str) -> String {
    let script = serde_json::to_string(script).expect("text");
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: {}
    imagePullPolicy: Never
    command: [/bin/sh, -c, {script}]
{container}
",
        image::SHELL
    )
}
