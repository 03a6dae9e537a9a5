//! Last steps of a container process before it executes its program: user, capabilities, seccomp, standard streams.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags},
    process::Resource,
};
use sys::{
    capability::{self, CapabilitySet},
    process,
    resource_limit::{self, UNLIMITED},
    seccomp,
    seccomp_exemption::Exemption,
};

use super::{
    protocol::Started,
    root::ErrorContext,
    spawn::Reporter,
    user::{Accounts, ResolvedUser},
};
use crate::spec::Process;

/// The standard streams of a process. A terminal is opened inside the container instead.
#[derive(Debug)]
pub(super) struct Stdio {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl Stdio {
    pub(super) fn all(&self) -> [BorrowedFd<'_>; 3] {
        [&self.stdin, &self.stdout, &self.stderr].map(AsFd::as_fd)
    }
}

/// Joins the cgroups. Done first, so that everything that follows is accounted.
pub(super) fn join_cgroup(cgroup: &[std::path::PathBuf]) -> Result<(), String> {
    for file in cgroup {
        fs::write(file, "0").doing(|| format!("join {}", file.display()))?;
    }
    Ok(())
}

/// Sets `oom_score_adj`. The host may forbid lowering it, which is only a warning.
pub(super) fn adjust_oom_score(wanted: Option<i32>, warnings: &mut Vec<String>) {
    let Some(wanted) = wanted else { return };
    if let Err(error) = fs::write("/proc/self/oom_score_adj", wanted.to_string()) {
        warnings.push(format!("oom_score_adj {wanted} is not allowed here: {error}"));
    }
}

/// Reads the compiled seccomp filters while the host's files are still reachable.
pub(super) fn read_filters(process: &Process) -> Result<Vec<Vec<u64>>, String> {
    let Some(path) = &process.seccomp else { return Ok(Vec::new()) };
    let bytes = fs::read(path).doing(|| "read the seccomp filter".into())?;
    serde_json::from_slice(&bytes).doing(|| "read the seccomp filter".into())
}

/// Sets the resource limits of a container process, independent of the node's own limits: processes are limited by the
/// cgroup, and core files must be enabled explicitly. Where the host allows less, the lower limit applies.
pub(super) fn limit_resources() -> io::Result<()> {
    const FILES: Option<u64> = Some(1 << 20);
    const STACK: Option<u64> = Some(8 << 20);
    const LOCKED: Option<u64> = Some(8 << 20);
    for (resource, soft, hard) in [
        (Resource::Nofile, FILES, FILES),
        (Resource::Core, Some(0), UNLIMITED),
        (Resource::Stack, STACK, UNLIMITED),
        (Resource::Memlock, LOCKED, LOCKED),
        (Resource::Nproc, UNLIMITED, UNLIMITED),
        (Resource::Cpu, UNLIMITED, UNLIMITED),
        (Resource::Fsize, UNLIMITED, UNLIMITED),
        (Resource::Data, UNLIMITED, UNLIMITED),
        (Resource::As, UNLIMITED, UNLIMITED),
        (Resource::Nice, Some(0), Some(0)),
        (Resource::Rtprio, Some(0), Some(0)),
    ] {
        resource_limit::set(resource, soft, hard)?;
    }
    Ok(())
}

/// A process with exactly the container's privileges, plus what loading the seccomp filter needs.
pub(super) struct Ready<'a> {
    process: &'a Process,
    filters: Vec<Vec<u64>>,
    exemption: Exemption,
    program: process::Program,
}

/// Sets user, capabilities and standard streams. Returns our end of the terminal, if it has one.
pub(super) fn prepare<'a>(
    process: &'a Process,
    filters: &[Vec<u64>],
    stdio: Option<Stdio>,
    accounts: &Accounts,
) -> Result<(Ready<'a>, Started, Option<OwnedFd>), String> {
    process::reset_affinity().doing(|| "reset the processors".into())?; // those of its group count
    let ids = accounts.look_up(&process.user)?;
    let terminal = connect(stdio, &ids).doing(|| "connect stdio".into())?;
    let in_folder = enter_folder(&process.cwd);
    let env = environment(process, &ids);
    let program = program(process, &env)?;
    let exempted = || {
        let exemption = Exemption::new()?;
        Ok::<_, io::Error>((seccomp::with_exemption(filters, &exemption)?, exemption))
    };
    let (filters, exemption) = exempted().doing(|| "load the seccomp filter".into())?;
    let bounding = CapabilitySet(process.capabilities.bounding);
    capability::limit_bounding_set(bounding).doing(|| "limit capabilities".into())?;
    process::become_user(ids.uid, ids.gid, &ids.groups)
        .doing(|| format!("become user {}:{}", ids.uid, ids.gid))?;
    let loads_as_root = !filters.is_empty() && !process.no_new_privileges;
    let admin = CapabilitySet::from_name("SYS_ADMIN").filter(|_| loads_as_root).unwrap_or_default();
    let held = bounding.union(admin);
    let (inheritable, ambient) = (
        CapabilitySet(process.capabilities.inheritable),
        CapabilitySet(process.capabilities.ambient),
    );
    capability::set(held, held, inheritable, ambient).doing(|| "set capabilities".into())?;
    if process.no_new_privileges {
        process::no_new_privileges().doing(|| "forbid new privileges".into())?;
    }
    process::set_non_dumpable().doing(|| "forbid inspection".into())?; // a new user allows it
    // A directory may be accessible to the user only, not even to root.
    in_folder
        .or_else(|_| enter_folder(&process.cwd))
        .doing(|| format!("chdir to {}", process.cwd.display()))?;
    let started = Started { uid: ids.uid, gid: ids.gid, groups: ids.groups, ..Started::default() };
    Ok((Ready { process, filters, exemption, program }, started, terminal))
}

impl Ready<'_> {
    /// Executes the program in this process. Returns only on failure.
    pub(super) fn run(&self) -> String {
        match self.confine() {
            Ok(()) => self.exec(),
            Err(error) => error,
        }
    }

    /// Executes the program in a new process that is a child of the shim. It appears in a PID namespace whose processes
    /// may trace it, so it has the container's seccomp filter and capabilities from the beginning. Returns the error,
    /// or ends this process.
    pub(super) fn run_in_namespace(&self, report: &Reporter) -> String {
        let hidden = report.process().hide_from_children().doing(|| "hide the report".into());
        let forked = hidden.and_then(|()| self.confine()).and_then(|()| {
            let child = || report.fail(self.exec());
            self.exemption.fork_sibling(report.process(), child).doing(|| "fork".into())
        });
        match forked {
            Ok(()) => process::end(0),
            Err(error) => error,
        }
    }

    /// Loads the seccomp filter and drops the privileges that this needed.
    fn confine(&self) -> Result<(), String> {
        process::reset_signals();
        process::set_cloexec_from_3().doing(|| "close descriptors".into())?;
        let load = || seccomp::load(&self.filters).doing(|| "load the seccomp filter".into());
        if !self.process.no_new_privileges {
            load()?;
        }
        let rights = &self.process.capabilities;
        self.exemption
            .set_capabilities(CapabilitySet(rights.bounding), CapabilitySet(rights.inheritable))
            .doing(|| "set capabilities".into())?;
        if self.process.no_new_privileges {
            load()?;
        }
        Ok(())
    }

    /// Steps that only the final process can do, then exec.
    fn exec(&self) -> String {
        self.exemption.new_session();
        if self.process.terminal
            && let Err(error) = self.exemption.take_terminal()
        {
            return format!("take the terminal: {error}");
        }
        let error = self.program.exec();
        format!("exec {:?}: {error}", self.process.args[0])
    }
}

/// Changes to a directory of the container. It is resolved inside the container's root, so that no magic link of /proc
/// leads out, and must be reachable from the root.
fn enter_folder(path: &Path) -> io::Result<()> {
    let root = sys::descriptor::open_path(Path::new("/"))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let folder = sys::descriptor::open_in(root, path, flags, Mode::empty())?;
    rustix::process::fchdir(folder)?;
    if rustix::process::getcwd(Vec::new())?.to_bytes().starts_with(b"/") {
        return Ok(());
    }
    Err(io::Error::other("the folder is outside of the container's root"))
}

/// Connects the standard descriptors; returns our end of the terminal, if there is one.
fn connect(stdio: Option<Stdio>, ids: &ResolvedUser) -> io::Result<Option<OwnedFd>> {
    let Some(stdio) = stdio else {
        let (ours, theirs) = sys::descriptor::open_pty()?;
        chown_stdio(&theirs, ids);
        for standard in 0..3 {
            process::redirect_standard_fd(theirs.as_fd(), standard)?;
        }
        return Ok(Some(ours));
    };
    for (standard, fd) in [(0, stdio.stdin), (1, stdio.stdout), (2, stdio.stderr)] {
        chown_stdio(&fd, ids);
        process::redirect_standard_fd(fd.as_fd(), standard)?;
    }
    Ok(None)
}

/// Changes the owner of a standard stream, so that programs can reopen /dev/stdout. Devices such as /dev/null keep
/// their owner.
fn chown_stdio(fd: &OwnedFd, ids: &ResolvedUser) {
    use rustix::fs::{FileType, Gid, Uid, fchown, fstat};
    let Ok(stat) = fstat(fd) else { return };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let terminal = rustix::termios::isatty(fd);
    if kind != FileType::CharacterDevice || terminal {
        let gid = (!terminal).then(|| Gid::from_raw(ids.gid));
        let _ = fchown(fd, Some(Uid::from_raw(ids.uid)), gid); // optional
    }
}

fn environment(process: &Process, ids: &ResolvedUser) -> Vec<String> {
    let mut env = process.env.clone();
    env.retain(|one| one != "HOME="); // empty counts as missing
    let has = |env: &[String], key: &str| {
        env.iter().any(|one| one.split_once('=').is_some_and(|(name, _)| name == key))
    };
    if !has(&env, "PATH") {
        env.push("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
    }
    if !has(&env, "HOME") {
        env.push(format!(
            "HOME={}",
            ids.home.as_deref().filter(|home| !home.is_empty()).unwrap_or("/")
        ));
    }
    if process.terminal && !has(&env, "TERM") {
        env.push("TERM=xterm".into());
    }
    env
}

fn program(process: &Process, env: &[String]) -> Result<process::Program, String> {
    let text = |text: &str| CString::new(text).map_err(|_| format!("nul byte in {text:?}"));
    let name =
        process.args.first().filter(|name| !name.is_empty()).ok_or("no command specified")?;
    let path = if name.contains('/') { name.clone() } else { find(name, env)? };
    let args = process.args.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?;
    let env = env.iter().map(|one| text(one)).collect::<Result<_, _>>()?;
    Ok(process::Program::new(text(&path)?, args, env))
}

fn find(name: &str, env: &[String]) -> Result<String, String> {
    let path = env.iter().rev().find_map(|one| one.strip_prefix("PATH=")).unwrap_or_default();
    let runnable = |folder: &str| {
        let candidate = Path::new(if folder.is_empty() { "." } else { folder }).join(name);
        let access = rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok();
        (access && candidate.is_file()).then(|| candidate.to_string_lossy().into_owned())
    };
    path.split(':')
        .find_map(runnable)
        .ok_or_else(|| format!("exec: {name:?}: executable file not found in $PATH"))
}
