//! The supervisor: starts `control` and `node`, restarts each of them when it exits, and stops both.

use std::{
    ffi::OsString,
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    pin::pin,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use super::{
    ClusterConfig, DataDir, failures, layout::write_private, node_reserve,
    sockets::InheritedSockets, status,
};

const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(3);
/// A process that ran this long has started successfully: its restart back-off is reset.
const STABLE_AFTER: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(15);
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs until it is told to stop. On SIGHUP, restarts both processes with the current settings.
pub(crate) async fn run(layout: &DataDir) -> Result<()> {
    let lock = lock(layout).await?;
    node_reserve::protect(layout);
    write_private(&layout.path("run/supervisor.pid"), std::process::id().to_string().as_bytes())?;
    let mut stop = pin!(crate::commands::wait_for_shutdown_signal());
    let mut reload = signal(SignalKind::hangup())?;
    let mut sockets: Option<InheritedSockets> = None;
    loop {
        let settings = ClusterConfig::load(&layout.path("config.yaml"))?;
        stop_all(layout).await;
        failures::clear(layout);
        drop(sockets.take()); // otherwise the open listeners would occupy the ports
        if !settings.is_joined() {
            let open = InheritedSockets::open(layout.dir(), &settings)?;
            open.ports()?.keep(layout)?;
            sockets = Some(open);
        }
        let control = ManagedProcess {
            name: "control",
            layout,
            user: Some(settings.control_plane_uid),
            sockets: sockets.as_ref(),
        };
        let node = ManagedProcess { name: "node", layout, user: None, sockets: None };
        tokio::select! {
            () = control.run_forever(), if !settings.is_joined() => {}
            () = node.run_forever() => {}
            stopped = &mut stop => break stopped?,
            _ = reload.recv() => info!("restarting control and node with the current settings"),
        }
    }
    info!("stopping");
    stop_all(layout).await;
    let _ = fs::remove_file(layout.path("run/supervisor.pid"));
    drop(lock);
    Ok(())
}

/// Acquires the lock that a supervisor holds while it runs, so that a second one on the same data fails. A process
/// that a dead supervisor was just starting may still hold it for a moment, hence the timeout.
async fn lock(layout: &DataDir) -> Result<OwnedFd> {
    let path = layout.path("run/lock");
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot make {}", path.display()))?;
    let began = Instant::now();
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if began.elapsed() > HANDOVER_TIMEOUT {
            bail!("a cluster already runs on {}: see `tiphys status`", layout.dir().display());
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(file.into())
}

/// A process that the supervisor manages.
struct ManagedProcess<'a> {
    name: &'static str,
    layout: &'a DataDir,
    user: Option<u32>,
    sockets: Option<&'a InheritedSockets>,
}

impl ManagedProcess<'_> {
    /// Starts the process, and restarts it with back-off whenever it exits.
    async fn run_forever(&self) {
        let (mut retry, mut in_a_row) = (INITIAL_BACKOFF, 0);
        loop {
            let began = Instant::now();
            let log = self.layout.path("log").join(format!("{}.log", self.name));
            let from = fs::metadata(&log).map_or(0, |about| about.len());
            let why = match self.start() {
                Ok(mut child) => {
                    let ended = child.wait().await;
                    warn!(part = self.name, ?ended, "exited; restarting it");
                    failures::last_line(&log, from).unwrap_or_else(|| match ended {
                        Ok(status) => format!("it exited with {status} and logged nothing"),
                        Err(error) => error.to_string(),
                    })
                }
                Err(error) => {
                    warn!(part = self.name, error = format!("{error:#}"), "cannot start");
                    format!("{error:#}")
                }
            };
            let stable = began.elapsed() > STABLE_AFTER;
            in_a_row = if stable { 1 } else { in_a_row + 1 };
            failures::note(self.layout, self.name, in_a_row, &why);
            retry = if stable { INITIAL_BACKOFF } else { (retry * 2).min(MAX_BACKOFF) };
            sleep(retry).await;
        }
    }

    fn start(&self) -> Result<Child> {
        let executable = std::env::current_exe()?;
        let program = fs::File::open("/proc/self/exe").context("our own executable")?;
        let log = log(&self.layout.path("log").join(format!("{}.log", self.name)))?;
        let config = self.layout.path("config.yaml");
        let mut passed =
            self.sockets.map(|all| all.copies(&config)).transpose()?.unwrap_or_default();
        passed.push(program.into());
        // by its descriptor: an unprivileged user may not enter the directories above the data directory
        let mut command = Command::new(format!("/proc/self/fd/{}", 2 + passed.len()));
        command
            .arg0(executable.with_file_name(process_name(self.name)))
            .current_dir("/")
            .arg(self.name)
            .arg("--data-dir")
            .arg(self.layout.dir());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        // in a build of tests/coverage/run, a child writes its counters to its parent's file
        if option_env!("TIPHYS_COVERAGE").is_some()
            && let Some(file) = std::env::var_os("LLVM_PROFILE_FILE")
        {
            command.env("LLVM_PROFILE_FILE", file);
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        sys::spawn::pass_fds(&mut command, passed);
        let child = tokio::process::Command::from(command).spawn()?;
        let pid = child.id().unwrap_or_default();
        node_reserve::place(self.layout, self.name, pid);
        write_private(&pid_file(self.layout, self.name), pid.to_string().as_bytes())?;
        info!(part = self.name, pid, "started");
        Ok(child)
    }
}

/// The process name of a part. `node` has the kubelet's name, so that `pidof kubelet` and monitoring by process name
/// find it.
fn process_name(part: &str) -> &'static str {
    if part == "node" { "kubelet" } else { "tiphys" }
}

/// Whether a supervisor started this process as a part of the cluster. It executes a descriptor, whose number would
/// otherwise be the process name.
pub(crate) fn is_part(called: &str, args: &[OsString]) -> bool {
    let part = args.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    ["control", "node"].contains(&part) && called == process_name(part)
}

/// Stops both processes, also those that a dead supervisor left. Pods keep running.
pub(super) async fn stop_all(layout: &DataDir) {
    stop_process(layout, "node").await;
    stop_process(layout, "control").await;
}

/// Sends SIGTERM to a process and waits; kills it when the grace period is over.
async fn stop_process(layout: &DataDir, name: &str) {
    for pid in status::processes(layout, name) {
        let _ = sys::process::kill(pid, 15);
        let gone = async {
            while status::lives(pid) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(GRACE, gone).await.is_err() {
            warn!(part = name, "does not stop; killing it");
            let _ = sys::process::kill(pid, 9);
            while status::lives(pid) {
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
    let _ = fs::remove_file(pid_file(layout, name));
}

fn pid_file(layout: &DataDir, name: &str) -> PathBuf {
    layout.path("run").join(format!("{name}.pid"))
}

/// Opens a log file for appending, readable by root only.
pub(super) fn log(path: &Path) -> Result<fs::File> {
    let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}
