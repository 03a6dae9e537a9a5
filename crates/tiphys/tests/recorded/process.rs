//! Runs kubectl as a process, with its own directory and environment.

use std::{
    env,
    io::Write as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Timeout of a command.
const LIMIT: Duration = Duration::from_mins(2);

/// Environment variables of every command.
pub(crate) const VARIABLES: [(&str, &str); 4] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("TZ", "UTC"),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
];

/// The output and exit code of a command; the code is -1 if it was killed after the timeout.
pub(crate) struct Finished {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i64,
}

/// Runs a program to its end, or kills it after the timeout.
pub(crate) fn run(
    program: &Path,
    args: &[String],
    folder: &Path,
    variables: &[(String, String)],
    stdin: Option<&str>,
) -> Finished {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).process_group(0);
    command.env_clear().envs(VARIABLES);
    for (name, value) in variables {
        match value.as_str() {
            "${unset}" => command.env_remove(name),
            _ => command.env(name, value),
        };
    }
    // Where coverage is measured, children are measured too.
    if let Some(file) = env::var_os("LLVM_PROFILE_FILE") {
        command.env("LLVM_PROFILE_FILE", file);
    }
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl starts");
    let group = Pid::from_child(&child);
    let pipe = child.stdin.take();
    let (send, receive) = channel();
    let waiting = thread::spawn(move || {
        send.send(child.wait_with_output().expect("our own child")).expect("the receiver waits");
    });
    if let (Some(mut pipe), Some(text)) = (pipe, stdin) {
        // A command that does not read its input is no failure.
        let _ = pipe.write_all(text.as_bytes());
    }
    let (output, in_time) = match receive.recv_timeout(LIMIT) {
        Ok(output) => (output, true),
        Err(RecvTimeoutError::Timeout) => {
            // It may have exited just now.
            let _ = kill_process_group(group, Signal::KILL);
            (receive.recv().expect("a killed process ends"), false)
        }
        Err(error) => panic!("{error}"),
    };
    waiting.join().expect("the thread ends");
    Finished::new(&output, in_time)
}

impl Finished {
    fn new(output: &Output, in_time: bool) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut stderr, status) = (text(&output.stderr), output.status);
        let mut code = status.code().unwrap_or_else(|| -status.signal().unwrap_or_default());
        if !in_time {
            stderr.push_str("<timeout>");
            code = -1;
        }
        Self { stdout: text(&output.stdout), stderr, code: code.into() }
    }
}
