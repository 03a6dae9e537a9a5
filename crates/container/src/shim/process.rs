//! The last steps of a process on its way to be a container's: who it is, what it may, what it runs.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use sys::{
    capability::{self, Set},
    process, seccomp,
};

use super::{
    protocol::Started,
    root::Doing,
    user::{self, Ids},
};
use crate::spec::Process;

/// Where input comes from and output goes; a terminal is opened in the container instead.
#[derive(Debug)]
pub(super) struct Stdio {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Enters the groups. The first step, so that all that follows is accounted for.
pub(super) fn join(cgroup: &[std::path::PathBuf]) -> Result<(), String> {
    for file in cgroup {
        fs::write(file, "0").doing(|| format!("join {}", file.display()))?;
    }
    Ok(())
}

/// Machines may forbid to lower it; that is no reason not to run.
pub(super) fn adjust_oom_score(wanted: Option<i32>, warnings: &mut Vec<String>) {
    let Some(wanted) = wanted else { return };
    if let Err(error) = fs::write("/proc/self/oom_score_adj", wanted.to_string()) {
        warnings.push(format!("oom_score_adj {wanted} is not allowed here: {error}"));
    }
}

/// Compiled filters, read while the host's files are still there.
pub(super) fn read_filters(process: &Process) -> Result<Vec<Vec<u64>>, String> {
    let Some(path) = &process.seccomp else { return Ok(Vec::new()) };
    let bytes = fs::read(path).doing(|| "read the seccomp filter".into())?;
    serde_json::from_slice(&bytes).doing(|| "read the seccomp filter".into())
}

/// Becomes the process, tells `ready` just before, and runs the program. Returns only what went wrong.
pub(super) fn become_process(
    process: &Process,
    filters: &[Vec<u64>],
    stdio: Option<Stdio>,
    ready: impl FnOnce(Started, Option<&OwnedFd>) -> io::Result<()>,
) -> String {
    match prepare(process, filters, stdio, ready) {
        Ok((path, args, env)) => {
            let error = process::exec(&path, &args, &env);
            format!("exec {:?}: {error}", process.args[0])
        }
        Err(error) => error,
    }
}

type Program = (CString, Vec<CString>, Vec<CString>);

fn prepare(
    process: &Process,
    filters: &[Vec<u64>],
    stdio: Option<Stdio>,
    ready: impl FnOnce(Started, Option<&OwnedFd>) -> io::Result<()>,
) -> Result<Program, String> {
    let ids = user::look_up(&process.user)?;
    let terminal = connect(stdio, &ids).doing(|| "connect stdio".into())?;
    rustix::process::chdir(&process.cwd).doing(|| format!("chdir to {}", process.cwd.display()))?;
    let env = environment(process, &ids);
    let program = program(process, &env)?;
    if !process.no_new_privileges {
        seccomp::load(filters).doing(|| "load the seccomp filter".into())?;
    }
    let bounding = Set(process.capabilities.bounding);
    capability::limit(bounding).doing(|| "limit capabilities".into())?;
    process::become_user(ids.uid, ids.gid, &ids.groups)
        .doing(|| format!("become user {}:{}", ids.uid, ids.gid))?;
    let (inheritable, ambient) =
        (Set(process.capabilities.inheritable), Set(process.capabilities.ambient));
    capability::set(bounding, bounding, inheritable, ambient)
        .doing(|| "set capabilities".into())?;
    if process.no_new_privileges {
        process::no_new_privileges().doing(|| "forbid new privileges".into())?;
    }
    process::reset_signals();
    process::close_others_on_exec().doing(|| "close descriptors".into())?;
    let started =
        Started { uid: ids.uid, gid: ids.gid, groups: ids.groups.clone(), ..Started::default() };
    ready(started, terminal.as_ref()).doing(|| "report".into())?;
    if process.no_new_privileges {
        seccomp::load(filters).doing(|| "load the seccomp filter".into())?;
    }
    Ok(program)
}

/// Connects the standard descriptors; gives back our end of the terminal, if there is one.
fn connect(stdio: Option<Stdio>, ids: &Ids) -> io::Result<Option<OwnedFd>> {
    let Some(stdio) = stdio else {
        let (ours, theirs) = sys::descriptor::terminal()?;
        process::take_terminal(theirs.as_fd())?;
        own(&theirs, ids);
        for standard in 0..3 {
            process::set_standard(theirs.as_fd(), standard)?;
        }
        return Ok(Some(ours));
    };
    process::new_session();
    for (standard, fd) in [(0, stdio.stdin), (1, stdio.stdout), (2, stdio.stderr)] {
        own(&fd, ids);
        process::set_standard(fd.as_fd(), standard)?;
    }
    Ok(None)
}

/// So that programs can open /dev/stdout again. Devices such as /dev/null keep their owner.
fn own(fd: &OwnedFd, ids: &Ids) {
    use rustix::fs::{FileType, Gid, Uid, fchown, fstat};
    let Ok(stat) = fstat(fd) else { return };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let terminal = rustix::termios::isatty(fd);
    if kind != FileType::CharacterDevice || terminal {
        let gid = (!terminal).then(|| Gid::from_raw(ids.gid));
        let _ = fchown(fd, Some(Uid::from_raw(ids.uid)), gid); // a comfort, not a condition
    }
}

fn environment(process: &Process, ids: &Ids) -> Vec<String> {
    let mut env = process.env.clone();
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

fn program(process: &Process, env: &[String]) -> Result<Program, String> {
    let text = |text: &str| CString::new(text).map_err(|_| format!("nul byte in {text:?}"));
    let name =
        process.args.first().filter(|name| !name.is_empty()).ok_or("no command specified")?;
    let path = if name.contains('/') { name.clone() } else { find(name, env)? };
    let args = process.args.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?;
    let env = env.iter().map(|one| text(one)).collect::<Result<_, _>>()?;
    Ok((text(&path)?, args, env))
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
