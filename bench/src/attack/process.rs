//! The parent's side of the process under attack: starts it, communicates with it, and determines how it died.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{self, ChildStdin, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use tempfile::NamedTempFile;

use super::{
    child::{Command, Report, Settings},
    judge::Fault,
    request::Sequence,
};

/// The limits of the child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) settings: Settings,
    /// Maximum resident memory, in MiB.
    pub(crate) memory: u64,
}

/// A process under attack, killed on drop.
pub(crate) struct Process {
    child: process::Child,
    input: Option<ChildStdin>,
    reports: Receiver<String>,
    errors: NamedTempFile,
    limits: Limits,
    /// Number of edges of the program that are counted; 0 if none are.
    pub(crate) edges: usize,
}

impl Process {
    /// Starts a process, and passes the known edges to it.
    pub(crate) fn start(limits: Limits, known: &[u32]) -> Result<Self> {
        let errors = NamedTempFile::new()?;
        let mut command = process::Command::new(std::env::current_exe()?);
        command.args(["attack-child", "--patience", &limits.settings.patience.to_string()]);
        if limits.settings.everything {
            command.arg("--everything");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.reopen()?)
            .spawn()
            .context("the process under attack")?;
        let (input, output) = (child.stdin.take(), child.stdout.take().context("no output")?);
        let (tell, reports) = sync_channel(4);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        let mut process = Self { child, input, reports, errors, limits, edges: 0 };
        match process.receive(0) {
            Ok(report) => process.edges = report.total,
            Err(fault) => bail!("the process under attack did not start: {}", fault.text),
        }
        if !known.is_empty() {
            process
                .tell(&Command::Known(known.to_vec()))
                .map_err(|fault| anyhow::anyhow!(fault.text))?;
        }
        Ok(process)
    }

    /// Sends a sequence; if the server dies, the error names the sequence.
    pub(crate) fn send(&mut self, sequence: &Sequence, check: bool) -> Result<Report, Fault> {
        let told = self.send_at_once(std::slice::from_ref(sequence), check);
        told.map_err(|fault| match fault.key.as_str() {
            // a stack overflow has no location: what was nested distinguishes the deaths
            "stack overflow" => {
                Fault::new(format!("stack overflow: {}", sequence.nesting()), fault.text)
            }
            "killed" | "hang" => {
                let last = sequence.requests.last();
                let about = last.map_or_else(String::new, |last| {
                    format!("{} {}", last.method, collection(last.bare_path()))
                });
                Fault::new(format!("{}: {about}", fault.key), fault.text)
            }
            _ => fault,
        })
    }

    /// Sends several sequences concurrently.
    pub(crate) fn send_at_once(
        &mut self,
        sequences: &[Sequence],
        check: bool,
    ) -> Result<Report, Fault> {
        self.tell(&Command::Send { sequences: sequences.to_vec(), check })
    }

    /// Sends a command and waits for its report. The error is the way the process died.
    pub(crate) fn tell(&mut self, command: &Command) -> Result<Report, Fault> {
        let line =
            serde_json::to_string(command).map_err(|error| Fault::new("bug", error.to_string()))?;
        if let Some(input) = &mut self.input {
            // that the process has exited is detected below
            let _ = input
                .write_all(line.as_bytes())
                .and_then(|()| input.write_all(b"\n"))
                .and_then(|()| input.flush());
        }
        // A cleaning also waits for controllers.
        let longer = if matches!(command, Command::Clean) { 1800 } else { 0 };
        self.receive(longer)
    }

    /// Waits for the next report, up to `longer` seconds longer than usual.
    fn receive(&mut self, longer: u64) -> Result<Report, Fault> {
        let patience = Duration::from_secs(60 + self.limits.settings.patience * 30 + longer);
        let began = Instant::now();
        loop {
            match self.reports.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => {
                    return serde_json::from_str(&line)
                        .map_err(|error| Fault::new("bug", error.to_string()));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.death()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let resident = self.resident();
            if resident > self.limits.memory {
                let _ = self.child.kill();
                return Err(Fault::new(
                    "memory",
                    format!("{resident} MiB are resident, {} are allowed", self.limits.memory),
                ));
            }
            if began.elapsed() > patience {
                let _ = self.child.kill();
                return Err(Fault::new("hang", format!("nothing was answered for {patience:?}")));
            }
        }
    }

    /// Resident memory in MiB.
    pub(crate) fn resident(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or_default()
            / 1024
    }

    /// CPU time of the process in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        super::world::cpu_of(&self.child.id().to_string()).as_secs_f64()
    }

    /// The way the process died, according to its last output.
    fn death(&mut self) -> Fault {
        let status = self.child.wait().map(|status| (status.signal(), status.code()));
        let said = fs::read(self.errors.path()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(4000)..]).into_owned();
        let panic = said.lines().rev().find_map(|line| line.split("panicked at ").nth(1));
        let key = if said.contains("has overflowed its stack") {
            "stack overflow".to_owned()
        } else if let Some(line) = said.lines().find(|line| line.contains("memory allocation of")) {
            format!("memory: {}", super::judge::digest(line))
        } else if let Some(at) = panic {
            format!(
                "death by panic at {}",
                at.trim_end_matches(':').rsplit_once(':').map_or(at, |(place, _)| place)
            )
        } else {
            "killed".to_owned()
        };
        Fault::new(key, format!("the process died: {status:?}\n{}", said.trim()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let group = super::world::group(self.child.id());
        let _ = sys::cgroup::Hierarchies::detect().and_then(|all| all.group(&group)?.remove());
    }
}

/// The resource that a path names.
fn collection(path: &str) -> &str {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let at = parts.iter().position(|part| *part == "namespaces").map_or(2, |at| at + 2);
    let skip = usize::from(parts.first() == Some(&"apis") && !parts.contains(&"namespaces"));
    parts.get(at + skip).copied().unwrap_or("")
}
