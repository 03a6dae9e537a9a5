//! The built-in OCI runtime: namespaces, mounts and rights by system calls, without another program.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use sys::{namespace, process};

use super::{
    process::{Stdio, adjust_oom_score, become_process, join, read_filters},
    protocol::{self, Started},
    root::{self, Doing},
};
use crate::spec::{Container, PidNamespace, Process};

/// How containers of a pod come to be.
pub(super) trait Oci {
    /// Starts a container's first process. Without `stdio` it gets a terminal, whose other end comes back.
    fn start(&self, pod: &Pod, spec: &Container, stdio: Option<Stdio>) -> Result<Born, String>;

    /// Starts a further process in the container whose first process is `init`.
    fn exec(
        &self,
        container: (&Container, i32),
        process: &Process,
        stdio: Option<Stdio>,
    ) -> Result<Born, String>;
}

/// What a container shares with its pod.
#[derive(Debug)]
pub(super) struct Pod {
    /// The holder of the namespaces.
    pub(super) sandbox: i32,
    pub(super) own_user: bool,
    /// The process whose pid namespace is to be entered, if another's.
    pub(super) target: Option<i32>,
}

#[derive(Debug)]
pub(super) struct Born {
    pub(super) started: Started,
    pub(super) terminal: Option<OwnedFd>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Native;

/// What a new process says before it becomes the program.
type Report = Result<Started, String>;

/// Mounts of a dead network file system may hang; then the container fails, not the pod.
const LONGEST_BIRTH: Duration = Duration::from_mins(1);

impl Oci for Native {
    fn start(&self, pod: &Pod, spec: &Container, stdio: Option<Stdio>) -> Result<Born, String> {
        let new = if spec.pid == PidNamespace::Own { namespace::PID } else { 0 };
        let joined = match &spec.pid {
            PidNamespace::Own | PidNamespace::Host => None,
            PidNamespace::Pod => Some(pod.sandbox),
            PidNamespace::Target(_) => pod.target,
        };
        let sandbox = pod.sandbox;
        let own_user = pod.own_user;
        birth(new, joined, |report| {
            let mut warnings = Vec::new();
            let entered = enter_new(spec, sandbox, own_user, &mut warnings);
            let (spec, filters) = match entered {
                Ok(filters) => (spec, filters),
                Err(error) => return error,
            };
            become_process(&spec.process, &filters, stdio, |started, terminal| {
                tell(report, &Ok(Started { warnings, ..started }), terminal)
            })
        })
    }

    fn exec(
        &self,
        (container, init): (&Container, i32),
        process: &Process,
        stdio: Option<Stdio>,
    ) -> Result<Born, String> {
        birth(0, Some(init), |report| {
            let mut warnings = Vec::new();
            let filters = match enter_existing(container, process, init, &mut warnings) {
                Ok(filters) => filters,
                Err(error) => return error,
            };
            become_process(process, &filters, stdio, |started, terminal| {
                tell(report, &Ok(Started { warnings, ..started }), terminal)
            })
        })
    }
}

fn enter_new(
    spec: &Container,
    sandbox: i32,
    own_user: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Vec<u64>>, String> {
    join(&spec.cgroup)?;
    adjust_oom_score(spec.process.oom_score_adj, warnings);
    let filters = read_filters(&spec.process)?;
    let open = |kind: &str| {
        namespace::open(format!("/proc/{sandbox}/ns/{kind}"))
            .doing(|| format!("open the pod's {kind}"))
    };
    let (network, ipc, uts) = (open("net")?, open("ipc")?, open("uts")?);
    let users = if own_user { Some(open("user")?) } else { None };
    let prepared = root::prepare(spec, users.as_ref())?;
    namespace::unshare(namespace::MOUNT | namespace::CGROUP).doing(|| "unshare".into())?;
    for (fd, kind) in
        [(&network, namespace::NETWORK), (&ipc, namespace::IPC), (&uts, namespace::UTS)]
    {
        namespace::enter(fd, kind).doing(|| "enter the pod".into())?;
    }
    prepared.build(spec)?;
    enter_users(users)?;
    Ok(filters)
}

fn enter_existing(
    container: &Container,
    process: &Process,
    init: i32,
    warnings: &mut Vec<String>,
) -> Result<Vec<Vec<u64>>, String> {
    join(&container.cgroup)?;
    adjust_oom_score(process.oom_score_adj, warnings);
    let filters = read_filters(process)?;
    let open = |kind: &str| {
        namespace::open(format!("/proc/{init}/ns/{kind}")).doing(|| "enter the container".into())
    };
    let users = open("user")?;
    let users = same(&users, "user").not_then(users);
    let all = [
        ("cgroup", namespace::CGROUP),
        ("net", namespace::NETWORK),
        ("ipc", namespace::IPC),
        ("uts", namespace::UTS),
        ("mnt", namespace::MOUNT),
    ];
    let files = all.map(|(name, kind)| open(name).map(|file| (file, kind)));
    for file in files {
        let (file, kind) = file?;
        namespace::enter(file, kind).doing(|| "enter the container".into())?;
    }
    enter_users(users)?;
    Ok(filters)
}

/// Last, because inside we have no rights over what belongs to the host.
fn enter_users(users: Option<File>) -> Result<(), String> {
    let Some(users) = users else { return Ok(()) };
    namespace::enter(users, namespace::USER).doing(|| "enter the user namespace".into())?;
    process::become_user(0, 0, &[]).doing(|| "become root of the user namespace".into())
}

/// Whether `file` is this process's own namespace: entering it again would be refused.
fn same(file: &File, kind: &str) -> Same {
    let own = namespace::open(format!("/proc/self/ns/{kind}")).and_then(|own| own.metadata());
    let equal = own.and_then(|own| {
        use std::os::unix::fs::MetadataExt;
        Ok(own.ino() == file.metadata()?.ino())
    });
    Same(equal.unwrap_or(false))
}

struct Same(bool);

impl Same {
    fn not_then<T>(self, value: T) -> Option<T> {
        (!self.0).then_some(value)
    }
}

/// A new process in new namespaces, and in the pid namespace of `joined`. `child` returns what went wrong.
fn birth(
    new: i32,
    joined: Option<i32>,
    child: impl FnOnce(&UnixStream) -> String,
) -> Result<Born, String> {
    let (ours, theirs) = UnixStream::pair().doing(|| "make a report".into())?;
    let pid = {
        let _inside = joined.map(PidScope::enter).transpose().doing(|| "enter pids".into())?;
        process::fork(new, || {
            let error = child(&theirs);
            let _ = tell(&theirs, &Err(error), None); // the parent then sees the end of the stream
            1
        })
        .doing(|| "fork".into())?
    };
    drop(theirs);
    let born = hear(&ours, pid);
    if born.is_err() {
        let _ = process::kill(pid, 9); // it has ended or must end
        let _ = process::wait(pid);
    }
    born
}

/// Two reports may come: that all is ready, and that the program could not be run after all.
fn hear(report: &UnixStream, pid: i32) -> Result<Born, String> {
    let (mut passed, mut last) = (Vec::new(), None);
    loop {
        let mut ready = [PollFd::new(report, PollFlags::IN)];
        let limit = rustix::event::Timespec::try_from(LONGEST_BIRTH).expect("small");
        if poll(&mut ready, Some(&limit)).doing(|| "wait".into())? == 0 {
            return Err("the container's set-up took too long".into());
        }
        match protocol::receive::<Report>(report, &mut passed).doing(|| "read a report".into())? {
            Some(Err(error)) => return Err(error),
            Some(Ok(started)) => last = Some(started),
            None => break,
        }
    }
    let started = last.ok_or("the process ended before it began")?;
    Ok(Born { started: Started { pid, ..started }, terminal: passed.pop() })
}

fn tell(report: &UnixStream, what: &Report, terminal: Option<&OwnedFd>) -> io::Result<()> {
    let passed: Vec<_> = terminal.iter().map(|fd| fd.as_fd()).collect();
    protocol::send(report, what, &passed)
}

/// While it lives, children are born into another pid namespace.
struct PidScope(File);

impl PidScope {
    fn enter(of: i32) -> io::Result<Self> {
        let own = namespace::open("/proc/self/ns/pid")?;
        namespace::enter(namespace::open(format!("/proc/{of}/ns/pid"))?, namespace::PID)?;
        Ok(Self(own))
    }
}

impl Drop for PidScope {
    fn drop(&mut self) {
        namespace::enter(&self.0, namespace::PID)
            .expect("our own pid namespace is always open to us");
    }
}
