//! One run of a plugin: environment and standard input in, JSON out.

use crate::{Error, Result, about};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

const LARGEST: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Add,
    Del,
    Check,
    Status,
    Gc,
}

/// What a plugin is told.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) command: Command,
    pub(super) id: String,
    pub(super) netns: Option<PathBuf>,
    pub(super) arguments: String,
    pub(super) path: Vec<PathBuf>,
    pub(super) input: String,
    pub(super) deadline: Duration,
}

/// Runs a plugin and gives its result, null where it said nothing.
pub(super) async fn run(program: &Path, request: &Request) -> Result<Value> {
    let plugin = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let late = |_| Error::Plugin {
        plugin: plugin.clone(),
        code: 0,
        message: format!("no answer within {} s", request.deadline.as_secs()),
        details: String::new(),
    };
    let (success, output, errors) =
        tokio::time::timeout(request.deadline, exchange(program, request))
            .await
            .map_err(late)??;
    let answer: Option<Value> = serde_json::from_slice(&output).ok();
    if success {
        if answer.is_none() && request.command == Command::Add {
            return Err(Error::Plugin {
                plugin,
                code: 0,
                message: "its result is not JSON".to_owned(),
                details: String::new(),
            });
        }
        return Ok(answer.unwrap_or(Value::Null));
    }
    let answer = answer.unwrap_or(Value::Null);
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    Err(Error::Plugin {
        plugin,
        code: answer["code"].as_u64().and_then(|code| u32::try_from(code).ok()).unwrap_or(0),
        message: text("msg").unwrap_or_else(|| "failed without a message".to_owned()),
        details: text("details")
            .unwrap_or_else(|| String::from_utf8_lossy(&errors).trim().to_owned()),
    })
}

async fn exchange(program: &Path, request: &Request) -> Result<(bool, Vec<u8>, Vec<u8>)> {
    let say = program.display().to_string();
    let mut command = tokio::process::Command::new(program);
    command
        .env("CNI_COMMAND", request.command.name())
        .env("CNI_PATH", join(&request.path))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if !request.id.is_empty() {
        let netns = request.netns.as_deref().unwrap_or(Path::new(""));
        command
            .env("CNI_CONTAINERID", &request.id)
            .env("CNI_IFNAME", crate::interface::INSIDE)
            .env("CNI_ARGS", &request.arguments)
            .env("CNI_NETNS", netns);
    }
    let mut child = command.spawn().map_err(about(&say))?;
    let mut stdin = child.stdin.take().expect("piped");
    let stdout = child.stdout.take().expect("piped");
    let stderr = child.stderr.take().expect("piped");
    // A plugin may end without reading its input: its answer counts, not the pipe.
    let feed = async {
        let _ = stdin.write_all(request.input.as_bytes()).await;
        drop(stdin);
    };
    let (output, errors, ()) = tokio::join!(read(stdout), read(stderr), feed);
    let status = child.wait().await.map_err(about(&say))?;
    Ok((status.success(), output.map_err(about(&say))?, errors.map_err(about(&say))?))
}

async fn read(from: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST).read_to_end(&mut bytes).await?;
    Ok(bytes)
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
