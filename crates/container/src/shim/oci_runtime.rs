//! The built-in OCI runtime: creates containers by system calls, without another program.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{fs::Mode, process::umask};
use sys::{descriptor, keyring, namespace, process};

use super::{
    process::{Stdio, adjust_oom_score, join_cgroup, limit_resources, prepare, read_filters},
    root::{self, ErrorContext, Processes},
    spawn::{Birth, Reporter},
    user::Accounts,
};
use crate::spec::{ContainerSpec, PidNamespace, Process};

/// Starts the processes of a pod's containers.
pub(super) trait OciRuntime {
    /// Begins to start a container's first process. Without `stdio` it gets a terminal, whose other end is returned.
    fn start(
        &self,
        pod: &PodNamespaces,
        spec: &ContainerSpec,
        stdio: Option<Stdio>,
    ) -> Result<Birth, String>;

    /// Begins to start a further process in a running container.
    fn exec(
        &self,
        container: &Existing<'_>,
        process: &Process,
        stdio: Option<Stdio>,
    ) -> Result<Birth, String>;
}

/// What a container shares with its pod. The processes are unreaped children of the shim, so their pids are not reused.
#[derive(Debug)]
pub(super) struct PodNamespaces {
    /// The process that holds the namespaces.
    pub(super) sandbox: i32,
    pub(super) has_user_namespace: bool,
    /// The process whose PID namespace to join, for a target container.
    pub(super) target: Option<i32>,
}

/// A running container.
#[derive(Debug)]
pub(super) struct Existing<'a> {
    pub(super) spec: &'a ContainerSpec,
    /// Its first process, not yet reaped.
    pub(super) init: i32,
    pub(super) own_user: bool,
}

/// The only implementation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BuiltinRuntime;

impl OciRuntime for BuiltinRuntime {
    fn start(
        &self,
        pod: &PodNamespaces,
        spec: &ContainerSpec,
        stdio: Option<Stdio>,
    ) -> Result<Birth, String> {
        let joined = match &spec.pid {
            PidNamespace::Own | PidNamespace::Host => None,
            PidNamespace::Pod => Some(pod.sandbox),
            PidNamespace::Target(_) => pod.target,
        };
        // Opened here, where the pids cannot have been reused yet.
        let opened = || -> io::Result<_> {
            let pids =
                joined.map(|pid| namespace::open(format!("/proc/{pid}/ns/pid"))).transpose()?;
            let users = format!("/proc/{}/ns/user", pod.sandbox);
            let users = pod.has_user_namespace.then(|| namespace::open(users)).transpose()?;
            Ok((process::pidfd(pod.sandbox)?, pids, users))
        };
        let (sandbox, pids, users) = opened().doing(|| "open the pod's namespaces".into())?;
        let new = if spec.pid == PidNamespace::Own { namespace::PID } else { 0 };
        Birth::begin(new, pids.is_some(), |report| {
            let namespaces =
                Namespaces { sandbox: &sandbox, pids: pids.as_ref(), users: users.as_ref() };
            namespaces.start(spec, stdio, report).unwrap_or_else(|error| error)
        })
    }

    fn exec(
        &self,
        container: &Existing<'_>,
        process: &Process,
        stdio: Option<Stdio>,
    ) -> Result<Birth, String> {
        let opened = || -> io::Result<_> {
            let root = descriptor::open_path(Path::new(&format!("/proc/{}/root", container.init)))?;
            Ok((process::pidfd(container.init)?, root))
        };
        let (init, root) = opened().doing(|| "open the container's namespaces".into())?;
        let shares_pids = container.spec.pid == PidNamespace::Host;
        Birth::begin(0, !shares_pids, |report| {
            enter_container_namespaces(container, (&init, &root), (process, stdio), report)
                .unwrap_or_else(|error| error)
        })
    }
}

/// The namespaces that a new container joins.
struct Namespaces<'a> {
    /// A process in the pod's namespaces.
    sandbox: &'a OwnedFd,
    pids: Option<&'a File>,
    users: Option<&'a File>,
}

impl Namespaces<'_> {
    /// Sets up a container and executes its program in this process. Returns only on failure, with the error.
    fn start(
        &self,
        spec: &ContainerSpec,
        stdio: Option<Stdio>,
        report: &Reporter,
    ) -> Result<String, String> {
        let mut kept = vec![self.sandbox.as_fd()];
        kept.extend(self.pids.iter().chain(&self.users).map(|file| file.as_fd()));
        isolate(&kept, stdio.as_ref(), report)?;
        let mut warnings = Vec::new();
        join_cgroup(&spec.cgroup_procs)?;
        adjust_oom_score(spec.process.oom_score_adj, &mut warnings);
        let filters = read_filters(&spec.process)?;
        let processes = self.pids.map(root::processes_of).transpose()?;
        let processes = processes.map_or(Processes::Own, Processes::Other);
        let prepared = root::prepare(spec, self.users, processes)?;
        namespace::unshare(namespace::MOUNT | namespace::CGROUP).doing(|| "unshare".into())?;
        namespace::setns(self.sandbox, namespace::NETWORK | namespace::IPC | namespace::UTS)
            .doing(|| "enter the pod".into())?;
        let accounts = prepared.build(spec)?;
        if let Some(pids) = self.pids {
            namespace::setns(pids, namespace::PID).doing(|| "enter the pid namespace".into())?;
        }
        if let Some(users) = self.users {
            enter_user_namespace(users)?;
        }
        let (ready, started, terminal) = prepare(&spec.process, &filters, stdio, &accounts)?;
        report.ready(started.with(warnings), terminal.as_ref()).doing(|| "report".into())?;
        drop(terminal);
        Ok(match self.pids {
            Some(_) => ready.run_in_namespace(report),
            None => ready.run(),
        })
    }
}

/// Enters a container and executes a program in this process. Returns only on failure, with the error.
fn enter_container_namespaces(
    container: &Existing<'_>,
    (init, root): (&OwnedFd, &OwnedFd),
    (process, stdio): (&Process, Option<Stdio>),
    report: &Reporter,
) -> Result<String, String> {
    isolate(&[init.as_fd(), root.as_fd()], stdio.as_ref(), report)?;
    let mut warnings = Vec::new();
    join_cgroup(&container.spec.cgroup_procs)?;
    adjust_oom_score(process.oom_score_adj, &mut warnings);
    let filters = read_filters(process)?;
    let accounts = Accounts::read(root);
    let shares_pids = container.spec.pid == PidNamespace::Host;
    let kinds = namespace::CGROUP
        | namespace::NETWORK
        | namespace::IPC
        | namespace::UTS
        | namespace::MOUNT
        | if shares_pids { 0 } else { namespace::PID };
    namespace::setns(init, kinds).doing(|| "enter the container".into())?;
    if container.own_user {
        enter_user_namespace(init)?;
    }
    let (ready, started, terminal) = prepare(process, &filters, stdio, &accounts)?;
    report.ready(started.with(warnings), terminal.as_ref()).doing(|| "report".into())?;
    drop(terminal);
    Ok(if shares_pids { ready.run() } else { ready.run_in_namespace(report) })
}

/// First steps of a new process: closes all descriptors of the shim except `kept`, forbids inspection, and resets
/// keyring, umask, scheduling and resource limits.
fn isolate(
    kept: &[BorrowedFd<'_>],
    stdio: Option<&Stdio>,
    report: &Reporter,
) -> Result<(), String> {
    let isolated = || -> io::Result<()> {
        process::set_non_dumpable()?;
        let mut kept = kept.to_vec();
        kept.push(report.as_fd());
        kept.extend(stdio.iter().flat_map(|stdio| stdio.all()));
        process::close_fds_except(&kept)?;
        keyring::new_session()?;
        umask(Mode::from_raw_mode(0o022));
        process::reset_scheduling();
        limit_resources()
    };
    isolated().doing(|| "leave the shim".into())
}

/// Enters the user namespace. Done last, because inside it the process has no rights over the host's files.
fn enter_user_namespace(users: impl AsFd) -> Result<(), String> {
    namespace::setns(users, namespace::USER).doing(|| "enter the user namespace".into())?;
    process::become_user(0, 0, &[]).doing(|| "become root of the user namespace".into())
}
