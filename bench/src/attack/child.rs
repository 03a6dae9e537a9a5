//! The process under attack. It reads commands from standard input and writes a report for each to standard output, a
//! line of JSON. When it dies, the parent knows what was sent to it.

use std::{
    backtrace::Backtrace,
    collections::BTreeSet,
    io::{self, BufRead as _, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use server::UserInfo;

use super::{
    canary, clean,
    judge::{self, Fault},
    kinds::{self, Kind},
    readable,
    request::{Caller, Request, Sequence},
    rest, scaling,
    send::{self, Answer},
    world::{self, World, cpu, isolate},
};

/// A command for the child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Command {
    /// Sends these sequences concurrently; `check`: reads written objects back.
    Send { sequences: Vec<Sequence>, check: bool },
    /// Waits this many milliseconds for controllers, then reads everything back.
    Settle(u64),
    /// Deletes what the attack has created.
    Clean,
    /// Marks these edges as known.
    Known(Vec<u32>),
}

/// The report of a command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Status codes of the responses, for each sequence.
    pub(crate) codes: Vec<Vec<u16>>,
    pub(crate) faults: Vec<Fault>,
    /// Whether several sequences together took more CPU time than one request may.
    pub(crate) suspect: bool,
    /// Edges that were reached for the first time.
    pub(crate) edges: Vec<u32>,
    /// Total number of edges.
    pub(crate) total: usize,
    /// Allocated bytes.
    pub(crate) live: usize,
}

/// The settings of the child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Maximum CPU time of a request in seconds.
    pub(crate) patience: u64,
    /// Whether all alpha and beta features are enabled.
    pub(crate) everything: bool,
}

/// Panics and other faults that were found outside of a request's own check.
static PANICS: Mutex<Vec<Fault>> = Mutex::new(Vec::new());

/// Runs the process under attack until its standard input ends.
pub(crate) fn run(settings: Settings) -> Result<()> {
    // Otherwise the process would outlive its parent, and a request may run for ever.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Installed first, because the product's own hook does not call an earlier one.
    panics::install();
    let counted = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        counted(panic);
        let at =
            panic.location().map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line()));
        let text = format!("{panic}\n{}", own_frames(&Backtrace::force_capture().to_string()));
        eprintln!("{text}");
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        if panics.len() < 100 {
            panics.push(Fault::new(format!("panic at {at}"), text));
        }
    }));
    let isolated = isolate();
    let sink = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(io::sink);
    sink.init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let world = Arc::new(runtime.block_on(world::start(isolated, settings.everything))?);
    let within = runtime.enter();
    let pinging = ping(&world, settings);
    drop(within);
    let kinds = kinds::all()?;
    let mut seen = Vec::new();
    let mut lines = io::stdin().lock().lines();
    say(&Report { total: sys::coverage::edges(), ..Report::default() })?;
    while let Some(line) = lines.next().transpose()? {
        let command: Command = serde_json::from_str(&line)?;
        let mut report =
            runtime.block_on(obey(&world, &kinds, command, &mut seen, (settings, &pinging)))?;
        sys::coverage::note_new(&mut seen, &mut report.edges);
        report.faults.append(&mut PANICS.lock().unwrap_or_else(PoisonError::into_inner));
        report.live = sys::allocated_bytes();
        say(&report)?;
    }
    runtime.shutdown_background();
    Ok(())
}

fn say(report: &Report) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}

async fn obey(
    world: &World,
    kinds: &[Kind],
    command: Command,
    seen: &mut Vec<u8>,
    (settings, pinging): (Settings, &AtomicBool),
) -> Result<Report> {
    let mut report = Report::default();
    match command {
        Command::Send { sequences, check } => {
            let before = cpu();
            let alone = sequences.len() == 1;
            let sent =
                join_all(sequences.iter().map(|one| send_all(world, one, settings, alone))).await;
            let spent = cpu().saturating_sub(before);
            report.suspect = !alone && spent > Duration::from_secs(settings.patience);
            let mut written = BTreeSet::new();
            for sent in sent {
                let sent = sent?;
                report.codes.push(sent.codes);
                report.faults.extend(sent.faults);
                written.extend(sent.written);
            }
            for path in written.iter().filter(|_| check) {
                if let Some(kind) = kinds::of_path(kinds, path) {
                    report.faults.extend(readable::check_object(world, kind, path).await?);
                }
            }
        }
        Command::Settle(millis) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            for kind in kinds {
                report.faults.extend(readable::check(world, kind).await?);
            }
        }
        Command::Clean => {
            for kind in kinds {
                report.faults.extend(readable::check(world, kind).await?);
            }
            pinging.store(false, Ordering::Relaxed);
            // An object that keeps its controller busy must be there.
            report.faults.extend(rest::comes_to_rest(world).await);
            clean::clean(world, kinds).await?;
            world.furnish().await?;
            report.faults.extend(canary::check(world).await?);
            report.faults.extend(rest::comes_to_rest(world).await);
            report.faults.extend(world.rejected.check(world).await?);
            pinging.store(true, Ordering::Relaxed);
        }
        Command::Known(edges) => {
            seen.resize(sys::coverage::edges(), 0);
            for edge in edges {
                if let Some(place) = seen.get_mut(edge as usize) {
                    *place = 1;
                }
            }
        }
    }
    Ok(report)
}

/// The results of a sequence.
#[derive(Debug, Default)]
struct Sent {
    codes: Vec<u16>,
    faults: Vec<Fault>,
    /// The paths of the objects that were written.
    written: Vec<String>,
}

impl Sent {
    fn note(&mut self, world: &World, request: &Request, answer: &Answer) {
        world.rejected.note(request, answer);
        self.written.extend(answer.object.clone().filter(|_| request.method != "GET"));
        self.codes.push(answer.code);
        self.faults.extend(judge::judge(request, answer));
    }
}

/// Sends the requests of a sequence. CPU time per request can be measured only if the sequence is `alone`.
async fn send_all(
    world: &World,
    sequence: &Sequence,
    settings: Settings,
    alone: bool,
) -> Result<Sent> {
    let mut sent = Sent::default();
    let patience = Duration::from_secs(settings.patience * 10);
    if sequence.at_once {
        let answers = join_all(sequence.requests.iter().map(|one| world.send(one, patience))).await;
        for (request, answer) in sequence.requests.iter().zip(answers) {
            sent.note(world, request, &answer?);
        }
        return Ok(sent);
    }
    for request in &sequence.requests {
        if alone
            && let Some((answer, fault)) =
                scaling::probe(world, request, Duration::from_secs(settings.patience)).await?
        {
            sent.note(world, request, &answer);
            sent.faults.extend(fault);
            continue;
        }
        let before = cpu();
        let answer = world.send(request, patience).await?;
        let spent = cpu().saturating_sub(before);
        sent.note(world, request, &answer);
        if alone && spent > Duration::from_secs(settings.patience) {
            let (method, path) = (&request.method, request.bare_path());
            sent.faults.push(Fault::new(
                format!(
                    "slow: {method} {}",
                    path.rsplit('/').nth(usize::from(method != "POST")).unwrap_or_default()
                ),
                format!("{method} {path}: {spent:?} of processor time in {:?}", answer.took),
            ));
        }
    }
    Ok(sent)
}

/// Sends small requests all the time as another user, whom no FlowSchema of the attack affects. If these get no
/// response while the process is busy, another user's request is blocking them.
fn ping(world: &Arc<World>, settings: Settings) -> Arc<AtomicBool> {
    let going = Arc::new(AtomicBool::new(true));
    let (pipe, go) = (
        world
            .cluster
            .running
            .pipe(UserInfo::new("ping", &["system:masters", "system:authenticated"])),
        going.clone(),
    );
    let patience = Duration::from_secs(settings.patience);
    thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        let request = Request::new(Caller::Tenant, "GET", "/api/v1/namespaces/ping/configmaps");
        let bytes = send::bytes(&request, &super::expand::Nothing);
        loop {
            thread::sleep(Duration::from_millis(50));
            if !go.load(Ordering::Relaxed) {
                continue;
            }
            let (began, before) = (Instant::now(), cpu());
            let answer = runtime.block_on(send::exchange(&pipe, &bytes, false, patience * 20));
            let (took, spent) = (began.elapsed(), cpu().saturating_sub(before));
            let code = answer.map(|answer| answer.code).unwrap_or_default();
            // While other processes use the CPU, this process is not to blame.
            if took > patience && spent > took / 2 || code >= 500 {
                let text = format!(
                    "another user waited {took:?} for {code} while {spent:?} of processor time were spent"
                );
                PANICS
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Fault::new("another user was held up", text));
            }
        }
    });
    going
}

/// The frames of a backtrace that belong to this project.
fn own_frames(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    let mut out = String::new();
    for two in lines.windows(2) {
        if two[1].contains("/crates/") && !two[0].contains("own_frames") {
            out.push_str(&format!("{} {}\n", two[0].trim(), two[1].trim()));
        }
    }
    out.lines().take(12).map(|line| format!("  {line}\n")).collect()
}
