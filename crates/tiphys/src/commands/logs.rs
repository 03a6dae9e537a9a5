//! `logs`: prints the logs of a cluster's processes, all or those of one component.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::ExitCode,
    thread::sleep,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};

use super::{exit, parse};
use crate::up::Place;

/// How often `--follow` polls the log files.
const LOOK: Duration = Duration::from_millis(200);
/// Maximum length of a line in bytes; a longer line is printed in pieces.
const LONGEST_LINE: u64 = 1 << 20;

#[derive(Parser)]
pub(super) struct Arguments {
    /// Whose: a process or a component; all without it.
    component: Option<Component>,
    #[command(flatten)]
    place: Place,
    /// Go on with what is said from now on.
    #[arg(short, long)]
    follow: bool,
    /// Only so many lines of each process.
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Component {
    Supervisor,
    Control,
    Node,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubelet,
    KubeProxy,
    Runtime,
    Network,
}

impl Component {
    /// The process that the component runs in, and the crates whose log lines belong to it; empty: all lines.
    fn place(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Supervisor => ("supervisor", &[]),
            Self::Control => ("control", &[]),
            Self::Node => ("node", &[]),
            Self::KubeApiserver => ("control", &["apiserver", "server", "store"]),
            Self::KubeControllerManager => ("control", &["controllers"]),
            Self::KubeScheduler => ("control", &["scheduler"]),
            Self::Kubelet => ("node", &["kubelet", "volume"]),
            Self::KubeProxy => ("node", &["proxy"]),
            Self::Runtime => ("node", &["container"]),
            Self::Network => ("node", &["network"]),
        }
    }
}

pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let arguments = match parse::<Arguments>("logs", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    exit("logs", show(&arguments))
}

fn show(arguments: &Arguments) -> Result<()> {
    let layout = arguments.place.existing()?;
    let (parts, crates): (&[&str], _) = match arguments.component.map(Component::place) {
        Some((part, crates)) => (&[part], crates),
        None => (&["supervisor", "control", "node"], &[][..]),
    };
    let mut logs = Vec::new();
    for part in parts {
        let path = layout.path("log").join(format!("{part}.log"));
        // a node that has joined has no `control`
        if path.exists() || arguments.component.is_some() {
            logs.push(Log::open(part, path, crates)?);
        }
    }
    for log in &mut logs {
        log.skip_to_tail(arguments.tail)?;
        log.print()?;
    }
    if !arguments.follow {
        return Ok(());
    }
    loop {
        sleep(LOOK);
        for log in &mut logs {
            log.print()?;
        }
    }
}

/// The log file of one process, read up to a position.
struct Log {
    part: String,
    path: PathBuf,
    reader: BufReader<File>,
    crates: &'static [&'static str],
}

impl Log {
    fn open(part: &str, path: PathBuf, crates: &'static [&'static str]) -> Result<Self> {
        let reader = BufReader::new(opened(&path)?);
        Ok(Self { part: part.to_owned(), path, reader, crates })
    }

    /// Seeks to the first of the last `lines` lines.
    fn skip_to_tail(&mut self, lines: Option<usize>) -> Result<()> {
        let Some(lines) = lines else { return Ok(()) };
        let mut starts = std::collections::VecDeque::new();
        let mut at = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if self.is_own(&line) {
                starts.push_back(at);
                if starts.len() > lines {
                    starts.pop_front();
                }
            }
            at += line.len() as u64;
        }
        let start = starts.front().copied().unwrap_or(at);
        self.reader
            .seek(SeekFrom::Start(start))
            .with_context(|| self.path.display().to_string())?;
        Ok(())
    }

    /// Prints the lines that were appended since the last call.
    fn print(&mut self) -> Result<()> {
        self.reopen_if_shorter()?;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(());
            }
            if self.is_own(&line) {
                let text = String::from_utf8_lossy(&line);
                println!("{}: {}", self.part, text.trim_end_matches('\n'));
            }
        }
    }

    /// Starts at the beginning of the file again after the log was rotated.
    fn reopen_if_shorter(&mut self) -> Result<()> {
        let at = self.reader.stream_position()?;
        let length = self.path.metadata().map_or(at, |about| about.len());
        if length < at {
            self.reader = BufReader::new(opened(&self.path)?);
        }
        Ok(())
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        use std::io::Read;
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        read.with_context(|| self.path.display().to_string())?;
        Ok(line)
    }

    fn is_own(&self, line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        self.crates.is_empty() || self.crates.iter().any(|own| is_of(&text, own))
    }
}

fn opened(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Whether a crate wrote a log line: `TIME LEVEL [SPAN: ]CRATE[::MODULE]: TEXT`.
fn is_of(line: &str, name: &str) -> bool {
    let said = |word: &str| {
        let Some(target) = word.strip_suffix(':') else { return false };
        target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    line.split_whitespace().skip(2).take(4).any(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_by_their_crate() {
        let line = "2026-01-01T00:00:00Z  INFO task{name=\"static pods\"}: kubelet::source: a pod";
        assert!(is_of(line, "kubelet") && !is_of(line, "proxy"));
        assert!(is_of("2026 WARN proxy: x", "proxy"));
        assert!(!is_of("2026 WARN proxy: kubelet said", "kubelet"));
    }
}
