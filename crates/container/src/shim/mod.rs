//! The shim: one small process per pod, which owns the output and exit codes of its containers and outlives the server.
//!
//! It has one thread with one event loop: exited children, output, and requests on a socket in the pod's directory.

mod bind;
mod log;
pub(crate) mod log_rate;
mod oci_runtime;
mod process;
pub(crate) mod protocol;
mod root;
mod running;
mod sandbox;
mod spawn;
mod starting;
mod user;
mod users;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::{
    log::Log,
    oci_runtime::{BuiltinRuntime, Existing, OciRuntime, PodNamespaces},
    process::Stdio,
    protocol::{Exit, Reply, Request, VERSION, receive, send},
    running::{Pipes, RunningContainer, answer},
    spawn::Birth,
    starting::{NewContainer, Pending, What},
};
use crate::spec::{ContainerSpec, PidNamespace, Process, SandboxSpec};

/// Files in the pod's directory: the sandbox specification, and the socket.
pub(crate) const SPEC: &str = "sandbox.json";
pub(crate) const SOCKET: &str = "shim.sock";
/// How long the shim waits for a request on a new connection.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// Maximum number of processes that are being started at a time; some may be stuck.
const MOST_PENDING: usize = 64;
/// How long the pod's processes may take to exit on shutdown.
const LONGEST_SHUTDOWN: Duration = Duration::from_secs(20);

/// Runs a pod's shim until it is shut down. Must be called before any thread exists. The only argument is the pod's
/// directory. A line on stdout reports that the sandbox is ready, or the error.
pub fn main(args: &[OsString]) -> ExitCode {
    let [folder] = args else {
        eprintln!("usage: shim FOLDER");
        return ExitCode::from(2);
    };
    let mut shim = match Shim::start(Path::new(folder)) {
        Ok(shim) => shim,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("ready {}", shim.sandbox);
    detach_stdio(1);
    match shim.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// State of the shim.
struct Shim {
    spec: SandboxSpec,
    sandbox: i32,
    sandbox_waiters: Vec<UnixStream>,
    listener: UnixListener,
    signals: OwnedFd,
    containers: BTreeMap<String, RunningContainer>,
    /// Running execs: the connection that waits for the exit, by pid.
    execs: BTreeMap<i32, UnixStream>,
    /// Processes that are being started.
    pending: Vec<Pending>,
    runtime: Box<dyn OciRuntime>,
    /// Whether the server has recorded the pod. Until then the shim's standard input is its lifeline: when it closes,
    /// the server has died or given up, and nobody else knows the pod.
    recorded: bool,
    ended: bool,
}

/// Why the event loop woke up.
struct Woken {
    child_ended: bool,
    request: bool,
    lifeline: bool,
}

impl Shim {
    fn start(folder: &Path) -> Result<Self, String> {
        let text = fs::read(folder.join(SPEC)).map_err(|error| format!("read {SPEC}: {error}"))?;
        let spec: SandboxSpec =
            serde_json::from_slice(&text).map_err(|error| format!("read {SPEC}: {error}"))?;
        sys::process::new_session();
        sys::process::set_name(c"tiphys-shim");
        let begin = || -> io::Result<_> {
            sys::process::set_non_dumpable()?;
            sys::process::become_subreaper()?;
            sys::keyring::new_session()?; // so that no container ever has the node's
            rustix::process::chdir("/")?;
            Ok((listen(folder)?, sys::process::signalfd(&[17])?))
        };
        let (listener, signals) = begin().map_err(|error| format!("shim: {error}"))?;
        process::join_cgroup(&spec.shim_cgroup)?;
        if lifeline_is_cut() {
            return Err("shim: the server has gone".into());
        }
        let sandbox = sandbox::start(&spec)?;
        Ok(Self {
            spec,
            sandbox,
            sandbox_waiters: Vec::new(),
            listener,
            signals,
            containers: BTreeMap::new(),
            execs: BTreeMap::new(),
            pending: Vec::new(),
            runtime: Box::new(BuiltinRuntime),
            recorded: false,
            ended: false,
        })
    }

    /// Runs the event loop. A panic only affects the request or output in which it happens; the pod goes on.
    fn run(&mut self) -> io::Result<()> {
        while !self.ended {
            let woken = self.wait()?;
            if woken.lifeline {
                self.read_lifeline();
            }
            if woken.child_ended {
                let _ = rustix::io::read(&self.signals, &mut [0; 512]); // drains the signalfd
                let _ = panics::catch("shim", || self.reap());
            }
            for container in self.containers.values_mut() {
                for at in (0..container.outputs.len()).rev() {
                    let _ = panics::catch("shim", || container.forward_output(at));
                }
            }
            self.follow_pending();
            if woken.request {
                let _ = panics::catch("shim", || self.accept());
            }
        }
        Ok(())
    }

    /// Waits until something happens.
    fn wait(&self) -> io::Result<Woken> {
        let mut fds = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        let lifeline = io::stdin();
        if !self.recorded {
            fds.push(PollFd::new(&lifeline, PollFlags::IN));
        }
        // One time for both uses: a container whose output is not polled must contribute to the timeout.
        let now = Instant::now();
        let paused = |container: &&RunningContainer| container.pause(now).is_some();
        let followed = self.containers.values().filter(|container| !paused(container));
        for output in followed.flat_map(|container| &container.outputs) {
            let behind = output.attached.iter().filter(|one| one.has_pending());
            let before = fds.len();
            fds.extend(behind.map(|one| PollFd::new(&one.file, PollFlags::OUT)));
            if fds.len() == before {
                fds.push(PollFd::new(&output.source, PollFlags::IN));
            }
        }
        let pending = || self.pending.iter().filter(|one| !one.is_aborted());
        fds.extend(pending().map(|one| one.birth.poll()));
        let pauses = self.containers.values().filter(|one| !one.outputs.is_empty());
        let pauses = pauses.filter_map(|one| one.pause(now));
        let limit = pending().map(|one| one.birth.left()).chain(pauses).min();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) => {
                let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
                let lifeline = !self.recorded && is_ready(2);
                Ok(Woken { child_ended: is_ready(0), request: is_ready(1), lifeline })
            }
            Err(rustix::io::Errno::INTR) => {
                Ok(Woken { child_ended: false, request: false, lifeline: false })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the lifeline: a byte means that the pod is recorded, the end of file that it never will be.
    fn read_lifeline(&mut self) {
        match rustix::io::read(io::stdin(), &mut [0; 1]) {
            Ok(1) => {
                self.recorded = true;
                detach_stdio(0);
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            _ => self.shut_down(),
        }
    }

    /// Reaps exited children.
    fn reap(&mut self) {
        while let Some((pid, ending)) = sys::process::reap() {
            let mut exit = Exit { code: ending.code(), at: now(), out_of_memory: false };
            self.hear_pending(); // all reports of an exited process have arrived
            if pid == self.sandbox {
                self.sandbox = 0;
                for waiter in self.sandbox_waiters.drain(..) {
                    answer(&waiter, &Reply::Exited(exit));
                }
            } else if let Some(waiter) = self.execs.remove(&pid) {
                answer(&waiter, &Reply::Exited(exit));
            } else if let Some(container) =
                self.containers.values_mut().find(|one| one.pid == pid && one.exit.is_none())
            {
                exit.out_of_memory = clean_up_after_exit(&container.spec);
                container.end(exit);
            } else {
                self.pending.iter_mut().any(|one| one.birth.ended(pid, exit));
            }
        }
    }

    fn accept(&mut self) {
        let Ok((peer, _)) = self.listener.accept() else { return };
        // Only the server connects; if it dies in the middle of a request, the pod goes on. On a busy node seconds pass
        // between its connect and its first byte.
        let _ = peer.set_read_timeout(Some(LONGEST_REQUEST));
        let _ = peer.set_write_timeout(Some(Duration::from_secs(2)));
        let mut passed = Vec::new();
        match receive::<Request>(&peer, &mut passed) {
            Ok(Some(request)) => self.handle_request(peer, request, passed),
            Ok(None) => {}
            Err(error) => answer(&peer, &Reply::Failed(format!("request: {error}"))),
        }
    }

    fn handle_request(&mut self, peer: UnixStream, request: Request, passed: Vec<OwnedFd>) {
        let done = match request {
            Request::State => Ok(self.state()),
            Request::Start { id, spec } => return self.start_container(peer, id, &spec),
            Request::Wait { id } => return self.wait_for(&id, peer),
            Request::Signal { id, signal } => self.signal(&id, signal),
            Request::Exec { id, process } => return self.exec(peer, &id, &process, passed),
            Request::KillExec { pid } => self.kill_exec(pid),
            Request::Attach { id, stdin } => return self.attach(&peer, &id, stdin, passed),
            Request::ReopenLog { id } => self.container(&id).and_then(|container| {
                container.reopen_log().map(|()| Reply::Done).map_err(|error| error.to_string())
            }),
            Request::Delete { id } => {
                self.abort_pending(Some(&id));
                self.containers.remove(&id);
                Ok(Reply::Done)
            }
            Request::Shutdown => {
                self.shut_down();
                Ok(Reply::Done)
            }
        };
        answer(&peer, &done.unwrap_or_else(Reply::Failed));
    }

    fn state(&self) -> Reply {
        let containers =
            self.containers.iter().map(|(id, one)| (id.clone(), one.status())).collect();
        let pending = self.pending.iter().filter(|one| one.is_container()).count();
        Reply::State { version: VERSION, sandbox: self.sandbox, containers, pending }
    }

    fn start_container(&mut self, peer: UnixStream, id: String, spec: &Path) {
        match self.begin_container(id, spec) {
            Ok((birth, what)) => self.pending.push(Pending { birth, peer, what }),
            Err(error) => answer(&peer, &Reply::Failed(error)),
        }
    }

    fn begin_container(&self, id: String, spec: &Path) -> Result<(Birth, What), String> {
        if self.sandbox == 0 {
            return Err("the sandbox has ended".into());
        }
        if self.containers.contains_key(&id) || self.pending.iter().any(|one| one.is_start_of(&id))
        {
            return Err(format!("container {id} was started before"));
        }
        let text = fs::read(spec).map_err(|error| format!("read the specification: {error}"))?;
        let spec: ContainerSpec =
            serde_json::from_slice(&text).map_err(|error| format!("specification: {error}"))?;
        let log = spec.log.clone().map(Log::open).transpose();
        let log = log.map_err(|error| format!("open the log: {error}"))?;
        let (pipes, stdio) = if spec.process.terminal {
            (Pipes::default(), None)
        } else {
            let (pipes, stdio) =
                Pipes::open(spec.stdin).map_err(|error| format!("make pipes: {error}"))?;
            (pipes, Some(stdio))
        };
        let pod = PodNamespaces {
            sandbox: self.sandbox,
            has_user_namespace: self.spec.id_maps.is_some(),
            target: self.target(&spec)?,
        };
        let birth = self.runtime.start(&pod, &spec, stdio)?;
        // The process specification, which may contain secrets, is not kept in memory.
        let spec = ContainerSpec { process: Process::default(), ..spec };
        Ok((birth, What::Container(Box::new(NewContainer { id, spec, pipes, log }))))
    }

    fn target(&self, spec: &ContainerSpec) -> Result<Option<i32>, String> {
        let PidNamespace::Target(id) = &spec.pid else { return Ok(None) };
        let found = self.containers.get(id).filter(|one| one.exit.is_none());
        found.map(|one| Some(one.pid)).ok_or_else(|| format!("target container {id} does not run"))
    }

    fn wait_for(&mut self, id: &str, peer: UnixStream) {
        if id.is_empty() && self.sandbox != 0 {
            return self.sandbox_waiters.push(peer);
        }
        match self.container(id) {
            Ok(container) => container.wait(peer),
            Err(error) => answer(&peer, &Reply::Failed(error)),
        }
    }

    fn signal(&mut self, id: &str, signal: i32) -> Result<Reply, String> {
        let container = self.container(id)?;
        if container.exit.is_none() {
            sys::process::kill(container.pid, signal).map_err(|error| format!("kill: {error}"))?;
        }
        Ok(Reply::Done)
    }

    fn exec(&mut self, peer: UnixStream, id: &str, process: &Process, passed: Vec<OwnedFd>) {
        match self.begin_exec(id, process, passed) {
            Ok(birth) => self.pending.push(Pending { birth, peer, what: What::Exec }),
            Err(error) => answer(&peer, &Reply::Failed(error)),
        }
    }

    fn begin_exec(
        &mut self,
        id: &str,
        process: &Process,
        passed: Vec<OwnedFd>,
    ) -> Result<Birth, String> {
        let stdio = if process.terminal {
            None
        } else {
            let fds: [OwnedFd; 3] =
                passed.try_into().map_err(|_| "exec needs three descriptors".to_owned())?;
            let [stdin, stdout, stderr] = fds;
            Some(Stdio { stdin, stdout, stderr })
        };
        if self.pending.len() >= MOST_PENDING {
            return Err("too many processes are being started in the pod".into());
        }
        let container = self.containers.get(id).filter(|one| one.exit.is_none());
        let container = container.ok_or_else(|| format!("container {id} is not running"))?;
        let own_user = self.spec.id_maps.is_some();
        let existing = Existing { spec: &container.spec, init: container.pid, own_user };
        self.runtime.exec(&existing, process, stdio)
    }

    fn kill_exec(&mut self, pid: i32) -> Result<Reply, String> {
        if self.execs.contains_key(&pid) {
            sys::process::kill(pid, 9).map_err(|error| format!("kill: {error}"))?;
        }
        Ok(Reply::Done)
    }

    fn attach(&mut self, peer: &UnixStream, id: &str, stdin: bool, passed: Vec<OwnedFd>) {
        let attached = self.container(id).and_then(|container| {
            container.attach(stdin, passed).map_err(|error| error.to_string())
        });
        match attached {
            Ok(input) => {
                let passed: Vec<_> = input.iter().map(AsFd::as_fd).collect();
                let _ = send(peer, &Reply::Done, &passed); // fails if the peer has disconnected
            }
            Err(error) => answer(peer, &Reply::Failed(error)),
        }
    }

    /// Kills all processes of the pod. Those that do not exit in time are left to the server, which kills the pod's
    /// cgroups.
    fn shut_down(&mut self) {
        self.abort_pending(None);
        for container in self.containers.values().filter(|one| one.exit.is_none()) {
            let _ = sys::process::kill(container.pid, 9); // it may already have exited
            end_group(&container.spec);
        }
        if self.sandbox != 0 {
            let _ = sys::process::kill(self.sandbox, 9); // it may already have exited
        }
        let began = Instant::now();
        let step = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        while (self.sandbox != 0 || self.containers.values().any(|one| one.exit.is_none()))
            && began.elapsed() < LONGEST_SHUTDOWN
        {
            let mut fds = [PollFd::new(&self.signals, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&step)); // on EINTR the loop continues
            let _ = rustix::io::read(&self.signals, &mut [0; 512]); // drains the signalfd
            self.reap();
        }
        self.ended = true;
    }

    fn container(&mut self, id: &str) -> Result<&mut RunningContainer, String> {
        self.containers.get_mut(id).ok_or_else(|| format!("container {id} was never started"))
    }
}

/// Cleans up after the first process: kills remaining processes, which without a PID namespace of their own survive it.
/// Returns whether the kernel's OOM killer struck.
fn clean_up_after_exit(spec: &ContainerSpec) -> bool {
    if spec.pid != PidNamespace::Own {
        end_group(spec);
    }
    group(spec).is_ok_and(|group| group.oom_kills() > 0)
}

fn end_group(spec: &ContainerSpec) {
    if let Err(error) = group(spec).and_then(|group| group.kill_all()) {
        eprintln!("end the container's group: {error}");
    }
}

fn group(spec: &ContainerSpec) -> io::Result<sys::cgroup::Cgroup> {
    sys::cgroup::Hierarchies::detect()?.group(&spec.cgroup_path)
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let (seconds, nanos) = sys::descriptor::now();
    seconds * 1_000_000_000 + i64::from(nanos)
}

/// Binds the socket. A path over 107 bytes does not fit into a socket address, so it goes through the descriptor of its
/// directory.
fn listen(folder: &Path) -> io::Result<UnixListener> {
    let place = sys::descriptor::open_path(folder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", place.as_raw_fd());
    let _ = fs::remove_file(&path); // left by an earlier shim
    let listener = UnixListener::bind(&path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether the server closed its end of the lifeline before it recorded the pod.
fn lifeline_is_cut() -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let lifeline = io::stdin();
    let mut fds = [PollFd::new(&lifeline, PollFlags::IN)];
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Replaces a standard descriptor whose other end is closed by /dev/null.
fn detach_stdio(standard: i32) {
    if let Ok(null) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = sys::process::redirect_standard_fd(null.as_fd(), standard); // on failure it stays open
    }
}
