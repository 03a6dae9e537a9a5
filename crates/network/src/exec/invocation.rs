//! Execution of one plugin: environment and standard input in, JSON out.

use super::processes::PluginProcesses;
use crate::{Error, Result, io_error};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// Maximum sizes in bytes: of a result, of the retained stderr, and of one text in an error.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;
const LARGEST_ERRORS: usize = 64 * 1024;
const LONGEST_TEXT: usize = 1024;
/// How long to wait for remaining output after a plugin has exited.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A CNI command (`CNI_COMMAND`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Add,
    Del,
    Check,
    Status,
    Gc,
}

/// The parameters of an execution.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) command: Command,
    pub(super) id: String,
    pub(super) netns: Option<PathBuf>,
    pub(super) cni_args: String,
    pub(super) cni_path: Vec<PathBuf>,
    pub(super) stdin: String,
    pub(super) deadline: Duration,
    /// The cgroup below which the plugin runs.
    pub(super) parent_cgroup: String,
}

/// Runs a plugin and gives its result, null where it said nothing. When this returns, no process
/// that the plugin has started runs any more.
pub(super) async fn run(program: &Path, request: &Invocation) -> Result<Value> {
    let plugin = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed = |message: String| Error::Plugin {
        plugin: plugin.clone(),
        code: 0,
        message,
        details: String::new(),
    };
    let mut command = command(program, request);
    let mut processes = PluginProcesses::contain(command.as_std_mut(), &request.parent_cgroup);
    let running = run_process(&mut command, &mut processes, (program, request));
    let ran = tokio::time::timeout(request.deadline, running).await;
    processes.kill().await;
    let late = |_| failed(format!("no answer within {} s", request.deadline.as_secs()));
    let Ran { success, output, errors } = ran.map_err(late)??;
    if output.len() > MAX_OUTPUT_BYTES {
        return Err(failed(format!("it wrote more than {MAX_OUTPUT_BYTES} bytes")));
    }
    let answer: Option<Value> = serde_json::from_slice(&output).ok();
    if success {
        if answer.is_none() && request.command == Command::Add {
            return Err(failed("its result is not JSON".to_owned()));
        }
        return Ok(answer.unwrap_or(Value::Null));
    }
    let answer = answer.unwrap_or(Value::Null);
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(shortened);
    Err(Error::Plugin {
        code: answer
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| u32::try_from(code).ok())
            .unwrap_or(0),
        message: text("msg").unwrap_or_else(|| "failed without a message".to_owned()),
        details: text("details").unwrap_or_else(|| shortened(&String::from_utf8_lossy(&errors))),
        plugin,
    })
}

/// The exit status and output of a plugin.
struct Ran {
    success: bool,
    /// Longer than `MAX_OUTPUT_BYTES` if it was too much.
    output: Vec<u8>,
    errors: Vec<u8>,
}

async fn run_process(
    command: &mut tokio::process::Command,
    processes: &mut PluginProcesses,
    (program, request): (&Path, &Invocation),
) -> Result<Ran> {
    let say = program.display().to_string();
    let mut child = command.spawn().map_err(io_error(&say))?;
    processes.set_leader(child.id());
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io_error(&say)(std::io::ErrorKind::BrokenPipe.into()));
    };
    // A plugin may exit without reading its input; only its output counts.
    let feed = async {
        let _ = stdin.write_all(request.stdin.as_bytes()).await;
        drop(stdin);
        Ok(())
    };
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let status = {
        let talk = async {
            let (out, err) = (read(stdout, &mut output), drain(stderr, &mut errors));
            tokio::try_join!(out, err, feed)
        };
        tokio::pin!(talk);
        tokio::select! {
            talked = &mut talk => match talked {
                Ok(_) => child.wait().await.map(Some),
                Err(TooMuch) => Ok(None),
            },
            status = child.wait() => {
                processes.kill().await; // what its children hold open is not waited for
                let _ = tokio::time::timeout(LAST_WORDS, &mut talk).await;
                status.map(Some)
            }
        }
    };
    let success = status.map_err(io_error(&say))?.is_some_and(|status| status.success());
    Ok(Ran { success, output, errors })
}

/// The output exceeds the limit.
struct TooMuch;

async fn read(mut from: impl AsyncRead + Unpin, into: &mut Vec<u8>) -> Result<(), TooMuch> {
    while from.read_buf(into).await.is_ok_and(|read| read > 0) {
        if into.len() > MAX_OUTPUT_BYTES {
            return Err(TooMuch);
        }
    }
    Ok(())
}

/// Keeps the beginning and discards the rest, so that the plugin does not block on a full pipe.
async fn drain(mut from: impl AsyncRead + Unpin, into: &mut Vec<u8>) -> Result<(), TooMuch> {
    let mut part = vec![0; 4096];
    while let Ok(read @ 1..) = from.read(&mut part).await {
        let room = LARGEST_ERRORS.saturating_sub(into.len());
        into.extend_from_slice(part.get(..read.min(room)).unwrap_or_default());
    }
    Ok(())
}

/// A plugin's message, shortened and without control characters: it ends up in events and gRPC headers.
fn shortened(text: &str) -> String {
    let text = text.trim();
    let (text, _) = text.split_at(text.floor_char_boundary(LONGEST_TEXT));
    text.replace(char::is_control, " ")
}

fn command(program: &Path, request: &Invocation) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command
        .env("CNI_COMMAND", request.command.name())
        .env("CNI_PATH", join(&request.cni_path))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if !request.id.is_empty() {
        let netns = request.netns.as_deref().unwrap_or(Path::new(""));
        command
            .env("CNI_CONTAINERID", &request.id)
            .env("CNI_IFNAME", crate::interface::POD_INTERFACE)
            .env("CNI_ARGS", &request.cni_args)
            .env("CNI_NETNS", netns);
    }
    command
}

fn join(folders: &[PathBuf]) -> std::ffi::OsString {
    let mut all = std::ffi::OsString::new();
    for folder in folders {
        if !all.is_empty() {
            all.push(":");
        }
        all.push(folder);
    }
    all
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Status => "STATUS",
            Self::Gc => "GC",
        }
    }
}
