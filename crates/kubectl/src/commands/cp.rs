//! `cp`: copies files to and from containers, as archives through `tar` in the container.

mod resume;
mod tar;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path, PathBuf},
};

use object::{Value, quote::quote};
use tokio::io::{AsyncWrite, DuplexStream};

use self::tar::Kind;
use super::{Command, exec::check_phase};
use crate::{
    error::{CommandError, Result},
    flags::{self, Flag},
    invocation::Invocation,
    resources::escape,
    select::go_io_error,
    stdio::Blocking,
    streams::{Sizes, container_of, exchange, open},
};

pub(crate) const COMMAND: Command = Command::new(
    "cp",
    &[&[
        Flag::text("container").short('c'),
        Flag::bool("no-preserve"),
        Flag::new("retries", flags::FlagType::Int32),
    ]],
    run,
);

/// Size in bytes of the buffer between the archive and the connection.
const PIPE: usize = 256 << 10;

const FORMAT: &str = "filespec must match the canonical format: [[namespace/]pod:]file/path";

/// A local file, or a file in a container.
#[derive(Clone, Debug, PartialEq)]
struct FileSpec {
    namespace: String,
    pod: String,
    file: String,
}

fn run(call: &Invocation<'_>) -> Result {
    let [from, to] = call.args() else {
        return Err(CommandError::error("source and destination are required"));
    };
    let (from, to) = (parse_file_spec(from)?, parse_file_spec(to)?);
    if !from.pod.is_empty() && !to.pod.is_empty() {
        return Err(CommandError::error("one of src or dest must be a local file specification"));
    }
    if from.file.is_empty() || to.file.is_empty() {
        return Err(CommandError::error("filepath can not be empty"));
    }
    if !from.pod.is_empty() {
        from_pod(call, &from, &to)
    } else if !to.pod.is_empty() {
        to_pod(call, &from, &to)
    } else {
        Err(CommandError::error("one of src or dest must be a remote file specification"))
    }
}

fn parse_file_spec(word: &str) -> Result<FileSpec> {
    let Some((pod, file)) = word.split_once(':') else {
        return Ok(FileSpec {
            namespace: String::new(),
            pod: String::new(),
            file: word.to_owned(),
        });
    };
    let parts: Vec<&str> = pod.split('/').collect();
    let (namespace, pod) = match parts[..] {
        [pod] if !pod.is_empty() => ("", pod),
        [namespace, pod] => (namespace, pod),
        _ => return Err(CommandError::error(FORMAT)),
    };
    Ok(FileSpec { namespace: namespace.to_owned(), pod: pod.to_owned(), file: file.to_owned() })
}

/// Normalizes a path: resolves `.` and `..`, never above its root.
fn clean(path: &str) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => clean.push(part),
            Component::ParentDir => drop(clean.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// The URL path that executes a command in the container.
fn command_path(
    call: &Invocation<'_>,
    place: &FileSpec,
    words: &[&str],
    stdin: bool,
) -> Result<String> {
    let namespace =
        if place.namespace.is_empty() { call.namespace()? } else { place.namespace.clone() };
    let path = format!("/api/v1/namespaces/{}/pods/{}", escape(&namespace), escape(&place.pod));
    let pod: Value = call.server()?.get(&path)?;
    check_phase(&pod, "exec into")?;
    let container = container_of(call, &pod, call.flags.text("container"), false)?;
    let query = format!("container={}&stdin={stdin}&stdout=true&stderr=true", escape(&container));
    Ok(with_command(&format!("{path}/exec?{query}"), words))
}

fn with_command(path: &str, words: &[impl AsRef<str>]) -> String {
    let command = words.iter().map(|word| format!("&command={}", escape(word.as_ref())));
    command.fold(path.to_owned(), |path, word| path + &word)
}

/// Executes a command with these streams.
async fn execute(
    call: &Invocation<'_>,
    path: &str,
    input: Option<DuplexStream>,
    out: impl AsyncWrite + Unpin,
    err: impl AsyncWrite + Unpin,
) -> Result {
    let socket = open(call, path).await?;
    exchange(socket, input, out, err, Sizes::None).await
}

fn to_pod(call: &Invocation<'_>, from: &FileSpec, to: &FileSpec) -> Result {
    let source = Path::new(&from.file);
    if fs::metadata(source).is_err() {
        return Err(CommandError::error(format!(
            "{} doesn't exist in local filesystem",
            from.file
        )));
    }
    let full =
        fs::canonicalize(source).map_err(|error| CommandError::error(go_io_error(&error)))?;
    let mut target = to.file.trim_end_matches('/').to_owned();
    let test = command_path(call, to, &["test", "-d", &to.file], false);
    let folder = test.and_then(|path| {
        call.server()?.wait(execute(call, &path, None, tokio::io::sink(), tokio::io::sink()))
    });
    if folder.is_ok() {
        let name = source.file_name().or(full.file_name()).unwrap_or_default();
        target = format!("{target}/{}", name.to_string_lossy());
    }
    let (folder, name) = match target.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => ("", target.as_str()),
    };
    let mut words = vec!["tar"];
    if call.flags.is_true("no-preserve") {
        words.extend(["--no-same-permissions", "--no-same-owner"]);
    }
    words.extend(["-xmf", "-"]);
    if !folder.is_empty() {
        words.extend(["-C", folder]);
    }
    let path = command_path(call, to, &words, true)?;
    call.server()?.wait(async {
        let (mut writer, reader) = tokio::io::duplex(PIPE);
        let feed = async {
            tar::write_tree(&mut writer, source, name).await?;
            tar::finish(&mut writer).await?;
            drop(writer);
            std::io::Result::Ok(())
        };
        let (out, err) = (Blocking(std::io::stdout()), Blocking(std::io::stderr()));
        let (fed, done) = tokio::join!(feed, execute(call, &path, Some(reader), out, err));
        done?;
        fed.map_err(|error| CommandError::error(go_io_error(&error)))
    })
}

fn from_pod(call: &Invocation<'_>, from: &FileSpec, to: &FileSpec) -> Result {
    let path = command_path(call, from, &[], false)?;
    call.server()?.wait(async {
        let (writer, reader) = tokio::io::duplex(PIPE);
        let unpack = async {
            let mut archive = tar::Reader::new(reader);
            let done = unpack(call, &mut archive, from, to).await;
            // Bytes after the end of the archive are read too, so that the other side can finish.
            while done.is_ok() && matches!(archive.next().await, Ok(Some(_))) {}
            done
        };
        let (unpacked, done) = tokio::join!(unpack, receive(call, &path, &from.file, writer));
        done?;
        unpacked
    })
}

/// Receives the archive of a file, in as many connections as `--retries` allows.
async fn receive(call: &Invocation<'_>, path: &str, file: &str, writer: DuplexStream) -> Result {
    let retries = call.flags.int("retries");
    let mut counter = resume::Counter::new(writer);
    let mut done = 0;
    loop {
        let command = resume::command(file, retries, counter.bytes);
        let err = Blocking(std::io::stderr());
        let ended = execute(call, &with_command(path, &command), None, &mut counter, err).await;
        if !resume::resumes(&ended, retries, done) {
            if ended.is_err() && retries != 0 {
                call.print(&format!("Dropping out copy after {done} retries\n"));
            }
            return ended;
        }
        done += 1;
        call.print(&format!("Resuming copy at {} bytes, retry {done}/{retries}\n", counter.bytes));
    }
}

async fn unpack(
    call: &Invocation<'_>,
    archive: &mut tar::Reader<DuplexStream>,
    from: &FileSpec,
    to: &FileSpec,
) -> Result {
    let failed = |error: std::io::Error| CommandError::error(go_io_error(&error));
    let prefix = clean(&from.file);
    let target = Path::new(&to.file);
    let mut warned = false;
    while let Some(entry) = archive.next().await.map_err(failed)? {
        let name = clean(&entry.name);
        let Ok(below) = name.strip_prefix(&prefix) else {
            return Err(CommandError::error("tar contents corrupted"));
        };
        let path =
            if below.as_os_str().is_empty() { target.to_path_buf() } else { target.join(below) };
        let shown = quote(&path.display().to_string());
        // A symlink on the way could lead anywhere.
        if crosses_symlink(target, below) {
            call.print_err(&format!(
                "warning: file {shown} is outside target destination, skipping"
            ));
            continue;
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        match entry.kind {
            Kind::Directory => fs::create_dir_all(&path).map_err(failed)?,
            Kind::Link => {
                let hint = if warned {
                    String::new()
                } else {
                    let namespace = match from.namespace.as_str() {
                        "" => call.namespace()?,
                        given => given.to_owned(),
                    };
                    format!(
                        " (consider using \"kubectl exec -n {} {} -- tar cf - {} | tar xf -\")",
                        quote(&namespace),
                        quote(&from.pod),
                        quote(&from.file)
                    )
                };
                warned = true;
                call.print_err(&format!(
                    "warning: skipping symlink: {shown} -> {}{hint}",
                    quote(&entry.link)
                ));
            }
            Kind::File => {
                let mut options = fs::OpenOptions::new();
                let options = options.write(true).create(true).truncate(true);
                let mut file = options.mode(entry.mode & 0o777).open(&path).map_err(failed)?;
                let mut buffer = vec![0; 64 << 10];
                loop {
                    match archive.piece(&mut buffer).await.map_err(failed)? {
                        0 => break,
                        length => file.write_all(&buffer[..length]).map_err(failed)?,
                    }
                }
            }
            Kind::Other => {}
        }
    }
    Ok(())
}

/// Whether a directory on the way below `target` is a symlink.
fn crosses_symlink(target: &Path, below: &Path) -> bool {
    let mut path = target.to_path_buf();
    let parts: Vec<Component<'_>> = below.components().collect();
    parts.iter().any(|part| {
        path.push(part);
        fs::symlink_metadata(&path).is_ok_and(|about| about.is_symlink())
    })
}

#[test]
fn places_are_read() {
    let read = |word: &str| {
        parse_file_spec(word).map(|place| (place.namespace, place.pod, place.file)).ok()
    };
    let text = |a: &str, b: &str, c: &str| Some((a.to_owned(), b.to_owned(), c.to_owned()));
    assert_eq!(read("a/b:/c"), text("a", "b", "/c"));
    assert_eq!(read("b:c:d"), text("", "b", "c:d"));
    assert_eq!(read("file"), text("", "", "file"));
    assert_eq!((read(":x"), read("a/b/c:d")), (None, None));
    assert_eq!(clean("/a/../../b/./c"), PathBuf::from("b/c"));
}
