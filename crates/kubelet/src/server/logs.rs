//! `/containerLogs`: serves and follows the logs of containers.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use container::streaming::{Seat, Seats};
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use object::{Lens, Time, Value};
use sys::container_file;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{HttpResponse, flag, query_value, text};
use crate::{
    KubeletContext,
    pod::observe::{ContainerRunState, RuntimeContainer, RuntimePodState},
    pod_logs::PodLogs,
};

const LAST: usize = 2048;
const LAST_LINES: usize = 80;
const CHUNK: usize = 64 << 10;
/// Maximum length of a line. Runtimes split output into lines of 16 KiB, so a longer line was not written by a runtime
/// and is skipped.
const LONGEST_LINE: usize = 256 << 10;
/// How often a follower polls for new output.
const FOLLOW: Duration = Duration::from_millis(100);
/// How often a follower checks whether the container has exited. Each check is a call to the runtime.
const ENDED: Duration = Duration::from_secs(1);
/// Maximum number of log readers per namespace; `MOST_READERS_OF_ALL` is the limit for all. Each holds a connection
/// even if it reads nothing.
const MOST_READERS: usize = 128;
const MOST_READERS_OF_ALL: usize = 640;

/// The limiter of concurrent log readers.
pub(crate) fn readers() -> Seats {
    Seats::new("readers of logs", MOST_READERS, MOST_READERS_OF_ALL)
}

/// Options of a log request (PodLogOptions).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) follow: bool,
    pub(crate) timestamps: bool,
    pub(crate) tail: Option<usize>,
    /// Seconds since 1970.
    pub(crate) since: Option<i64>,
    pub(crate) limit: Option<usize>,
    /// `Stdout` or `Stderr`; `None`: both.
    pub(crate) stream: Option<String>,
}

/// Answers a log request.
pub(crate) async fn answer(
    host: &Arc<KubeletContext>,
    namespace: &str,
    name: &str,
    container: &str,
    query: Option<&str>,
) -> HttpResponse {
    let Some(pod) = host.pods.find(namespace, name, "") else {
        return text(StatusCode::NOT_FOUND, &format!("pod \"{name}\" does not exist"));
    };
    let number = |name: &str| query_value(query, name).and_then(|value| value.parse::<i64>().ok());
    let options = Options {
        follow: flag(query, &["follow"]),
        timestamps: flag(query, &["timestamps"]),
        tail: number("tailLines").and_then(|lines| lines.try_into().ok()),
        since: number("sinceSeconds")
            .map(|seconds| host.now().saturating_sub(seconds))
            .or_else(|| Time::parse_seconds(&query_value(query, "sinceTime")?)),
        limit: number("limitBytes").and_then(|bytes| bytes.try_into().ok()),
        stream: query_value(query, "stream").filter(|stream| stream != "All" && !stream.is_empty()),
    };
    let uid = pod.metadata().uid().to_owned();
    let seen = match RuntimePodState::of(&host.runtime, &uid).await {
        Ok(seen) => seen,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.message()),
    };
    let known = host.statuses.get(&uid).unwrap_or_else(|| pod.status().tree().clone());
    let status = status_of(&known, container);
    let previous = flag(query, &["previous"]);
    let (id, path) = match choose(&seen, status, (name, container), previous) {
        Ok(Choice::Container(found)) => (found.id.clone(), PathBuf::from(&found.log)),
        // the runtime no longer has the container, but its log file may still exist
        Ok(Choice::Gone { restarts }) => {
            let folder = PodLogs::of(&host.config, &pod).folder();
            let path = folder.join(container).join(format!("{restarts}.log"));
            if !path.exists() {
                let why = format!("unable to retrieve container logs for {container}");
                return text(StatusCode::BAD_REQUEST, &why);
            }
            (String::new(), path)
        }
        Err(why) => return text(StatusCode::BAD_REQUEST, &why),
    };
    let seat = match host.log_readers.take(namespace) {
        Ok(seat) => seat,
        Err(error) => return text(StatusCode::TOO_MANY_REQUESTS, &error.to_string()),
    };
    let (frame_sender, frames) = mpsc::channel::<Result<Frame<Bytes>, io::Error>>(8);
    let reader = Reader { host: host.clone(), id, path, options, frame_sender, _seat: seat };
    let cx = host.cx.clone();
    cx.spawn("logs", async move { reader.run().await });
    let stream = futures_util::stream::unfold(frames, |mut frames| async move {
        frames.recv().await.map(|frame| (frame, frames))
    });
    let mut answer = Response::new(BodyExt::boxed(StreamBody::new(stream)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

/// The container whose logs are requested.
#[derive(Debug, PartialEq)]
enum Choice<'a> {
    Container(&'a RuntimeContainer),
    /// The runtime no longer has the container.
    Gone {
        restarts: i64,
    },
}

fn status_of<'a>(status: &'a Value, container: &str) -> &'a Value {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| status[*list].items());
    all.find(|one| one["name"].as_str() == Some(container)).unwrap_or(&Value::Null)
}

/// Chooses the container to read, from the runtime's containers and the pod's status; the error says why there is none.
fn choose<'a>(
    seen: &'a RuntimePodState,
    status: &Value,
    (pod, container): (&str, &str),
    previous: bool,
) -> Result<Choice<'a>, String> {
    let waiting = &status["state"]["waiting"];
    let has_ended = !status["lastState"]["terminated"].is_null();
    let mut ran = seen
        .containers
        .iter()
        .filter(|one| one.name == container && one.state != ContainerRunState::Created);
    let found = match ran.next() {
        // a container that waits for its restart is itself the last terminated one
        Some(newest)
            if previous && (waiting.is_null() || newest.state != ContainerRunState::Exited) =>
        {
            ran.next()
        }
        newest => newest,
    };
    if let Some(found) = found {
        return Ok(Choice::Container(found));
    }
    let restarts = status["restartCount"].as_i64().unwrap_or_default();
    match waiting["reason"].as_str() {
        _ if previous && !has_ended => {
            Err(format!("previous terminated container \"{container}\" in pod \"{pod}\" not found"))
        }
        None if previous => Ok(Choice::Gone { restarts: restarts - 1 }),
        _ if has_ended || !status["state"]["terminated"].is_null() => Ok(Choice::Gone { restarts }),
        reason => {
            let why = match reason.unwrap_or("ContainerCreating") {
                "ErrImagePull" => "image can't be pulled",
                "ImagePullBackOff" => "trying and failing to pull image",
                reason => reason,
            };
            Err(format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {why}"))
        }
    }
}

/// Sends the log of one container to a client.
struct Reader {
    host: Arc<KubeletContext>,
    id: String,
    path: PathBuf,
    options: Options,
    frame_sender: mpsc::Sender<Result<Frame<Bytes>, io::Error>>,
    _seat: Seat,
}

impl Reader {
    async fn run(self) {
        if let Err(error) = self.read().await {
            // the send fails if the client has disconnected
            let _ = self.frame_sender.send(Err(error)).await;
        }
    }

    /// Whether the log was rotated: another file is now at its path.
    async fn was_put_aside(&self, file: &File) -> bool {
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        match (file.metadata().await, tokio::fs::symlink_metadata(&self.path).await) {
            (Ok(one), Ok(other)) => id(one) != id(other),
            _ => false,
        }
    }

    async fn read(&self) -> io::Result<()> {
        let mut file = open(&self.path).await?;
        let mut left = self.options.limit.unwrap_or(usize::MAX);
        if let Some(lines) = self.options.tail {
            let at = tail_offset(&mut file, lines).await?;
            file.seek(io::SeekFrom::Start(at)).await?;
        }
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        let (mut runs, mut checked) = (true, None);
        loop {
            let got = file.read(&mut chunk).await?;
            let mut out =
                format_lines(&lines.add(chunk.get(..got).unwrap_or_default()), &self.options);
            out.truncate(left);
            left -= out.len();
            if !out.is_empty() && self.frame_sender.send(Ok(Frame::data(out.into()))).await.is_err()
            {
                return Ok(());
            }
            if left == 0 {
                return Ok(());
            }
            if got == 0 {
                if !self.options.follow || self.frame_sender.is_closed() {
                    return Ok(());
                }
                if checked.is_none_or(|checked: Instant| checked.elapsed() >= ENDED) {
                    let status = self.host.runtime.container_status(&self.id).await;
                    runs = status.is_ok_and(|status| {
                        RuntimeContainer::from(status).state == ContainerRunState::Running
                    });
                    checked = Some(Instant::now());
                }
                sleep(FOLLOW).await;
                let more = file.metadata().await?.len() > file.stream_position().await?;
                if !more && self.was_put_aside(&file).await {
                    file = open(&self.path).await?;
                } else if !runs && !more {
                    return Ok(());
                }
            }
        }
    }
}

/// Opens a log. It is written by the runtime, but may be in a directory that a container can write to.
async fn open(path: &Path) -> io::Result<File> {
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || container_file::open(&path)).await;
    Ok(File::from_std(opened.map_err(io::Error::other)??))
}

/// Assembles complete lines from chunks.
#[derive(Debug, Default)]
struct Lines {
    /// The incomplete last line.
    waiting: Vec<u8>,
    /// Whether the rest of the current line is skipped because it is too long.
    is_left_out: bool,
}

impl Lines {
    /// Adds a chunk; returns the lines that are complete.
    fn add(&mut self, mut chunk: &[u8]) -> Vec<u8> {
        if self.is_left_out {
            let Some(rest) = chunk.splitn(2, |byte| *byte == b'\n').nth(1) else {
                return Vec::new();
            };
            chunk = rest;
            self.is_left_out = false;
        }
        self.waiting.extend_from_slice(chunk);
        let end = self.waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.waiting.split_off(end);
        let whole = std::mem::replace(&mut self.waiting, rest);
        if self.waiting.len() > LONGEST_LINE {
            self.waiting = Vec::new();
            self.is_left_out = true;
        }
        whole
    }
}

/// The offset at which the last `lines` lines begin.
async fn tail_offset(file: &mut File, lines: usize) -> io::Result<u64> {
    let mut at = file.metadata().await?.len();
    let mut found = 0;
    let mut chunk = vec![0; CHUNK];
    while at > 0 {
        let size = u64::try_from(CHUNK).unwrap_or(u64::MAX).min(at);
        at -= size;
        file.seek(io::SeekFrom::Start(at)).await?;
        let (part, _) = chunk.split_at_mut(usize::try_from(size).unwrap_or(CHUNK));
        file.read_exact(part).await?;
        for (offset, _) in part.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            found += 1;
            if found > lines {
                return Ok(at + u64::try_from(offset).unwrap_or_default() + 1);
            }
        }
    }
    Ok(0)
}

/// The text of complete log lines in CRI format: `TIME STREAM F|P TEXT`.
fn format_lines(lines: &[u8], options: &Options) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.len());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (Some(time), Some(stream), Some(tag), Some(text)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let moment = || Time::parse_seconds(std::str::from_utf8(time).unwrap_or_default());
        if options.since.is_some_and(|since| moment().is_some_and(|moment| moment < since)) {
            continue;
        }
        let other = |wanted: &String| !wanted.as_bytes().eq_ignore_ascii_case(stream);
        if options.stream.as_ref().is_some_and(other) {
            continue;
        }
        if options.timestamps {
            out.extend(time);
            out.push(b' ');
        }
        let part = tag.first() == Some(&b'P');
        out.extend(if part { text.strip_suffix(b"\n").unwrap_or(text) } else { text });
    }
    out
}

/// The end of a log, for the termination message.
pub(crate) fn tail_for_termination_message(path: &Path) -> Vec<u8> {
    let Ok(file) = container_file::open(path) else { return Vec::new() };
    let Ok(content) = container_file::read_tail(&file, CHUNK) else { return Vec::new() };
    let mut lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    if content.len() == CHUNK && !lines.is_empty() {
        lines.remove(0); // an incomplete first line
    }
    let from = lines.len().saturating_sub(LAST_LINES);
    let mut words =
        format_lines(&lines.get(from..).unwrap_or_default().concat(), &Options::default());
    let excess = words.len().saturating_sub(LAST);
    words.drain(..excess);
    words
}

#[test]
fn lines_lose_their_heads() {
    let log = b"2026-11-16T00:00:00.5Z stdout F one\n2026-11-16T00:00:01Z stderr P tw\n2026-11-16T00:00:01Z stderr F o\n";
    let show = |options: &Options| String::from_utf8(format_lines(log, options)).unwrap();
    assert_eq!(show(&Options::default()), "one\ntwo\n");
    let out = Options { stream: Some("Stdout".into()), timestamps: true, ..Options::default() };
    assert_eq!(show(&out), "2026-11-16T00:00:00.5Z one\n");
    let late = Options { since: Time::parse_seconds("2026-11-16T00:00:01Z"), ..Options::default() };
    assert_eq!(show(&late), "two\n");
}

#[test]
fn a_line_without_an_end_is_not_kept() {
    let mut lines = Lines::default();
    assert_eq!(lines.add(b"one\ntw"), b"one\n");
    assert_eq!(lines.add(b"o\nthree"), b"two\n");
    for _ in 0..1000 {
        assert_eq!(lines.add(&vec![b'x'; CHUNK]), b"");
        assert!(lines.waiting.capacity() <= 4 * LONGEST_LINE, "{}", lines.waiting.capacity());
    }
    assert_eq!(lines.add(b"end\nfour\nfi"), b"four\n");
    assert_eq!(lines.add(b"ve\n"), b"five\n");
}

#[test]
fn the_last_words_are_those_at_the_end_of_a_large_log() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut file = std::fs::File::create(&path).unwrap();
    file.set_len(8 << 40).unwrap();
    std::io::Seek::seek(&mut file, io::SeekFrom::End(0)).unwrap();
    let line = |text: &str| format!("\n2026-11-16T00:00:00Z stderr F {text}");
    for at in 0..200 {
        file.write_all(line(&at.to_string()).as_bytes()).unwrap();
    }
    file.write_all(b"\n").unwrap();
    let words = String::from_utf8(tail_for_termination_message(&path)).unwrap();
    assert!(words.starts_with("120\n") && words.ends_with("199\n"), "{words}");
}

#[test]
fn the_container_to_read_is_chosen_by_its_state() {
    let one = |id: &str, state| RuntimeContainer {
        id: id.into(),
        name: "a".into(),
        state,
        ..RuntimeContainer::default()
    };
    let choose = |containers: &[RuntimeContainer], status: &str, previous| {
        let seen =
            RuntimePodState { containers: containers.to_vec(), ..RuntimePodState::default() };
        let status = object::yaml::from_yaml(status).unwrap();
        let chosen = choose(&seen, &status, ("p", "a"), previous);
        chosen.map(|choice| match choice {
            Choice::Container(found) => found.id.clone(),
            Choice::Gone { restarts } => restarts.to_string(),
        })
    };
    let (running, ended) =
        (one("new", ContainerRunState::Running), one("old", ContainerRunState::Exited));
    let both = [running.clone(), ended.clone()];
    let runs = "{restartCount: 1, state: {running: {}}, lastState: {terminated: {}}}";
    assert_eq!(choose(&both, runs, false).as_deref(), Ok("new"));
    assert_eq!(choose(&both, runs, true).as_deref(), Ok("old"));
    assert_eq!(choose(&[running], runs, true).as_deref(), Ok("0"), "by its file");
    let waits = "{restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {}}}";
    for previous in [true, false] {
        assert_eq!(choose(std::slice::from_ref(&ended), waits, previous).as_deref(), Ok("old"));
    }
    let created = one("made", ContainerRunState::Created);
    for (reason, why) in [
        ("ErrImagePull", "image can't be pulled"),
        ("ImagePullBackOff", "trying and failing to pull image"),
        ("PodInitializing", "PodInitializing"),
    ] {
        let status = format!("{{state: {{waiting: {{reason: {reason}}}}}}}");
        let want = format!("container \"a\" in pod \"p\" is waiting to start: {why}");
        assert_eq!(choose(std::slice::from_ref(&created), &status, false), Err(want));
    }
    let none = "previous terminated container \"a\" in pod \"p\" not found";
    assert_eq!(choose(&[], "{state: {waiting: {reason: ErrImagePull}}}", true).unwrap_err(), none);
}
