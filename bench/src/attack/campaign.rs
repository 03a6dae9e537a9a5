//! The fuzzing campaign: sends sequences of requests, watches the server, keeps sequences that reach new code, and
//! records each fault with the requests that reproduce it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{
    child::{Command, Settings},
    corpus::Corpus,
    generate::Generator,
    judge::{Fault, digest},
    minimize,
    process::{Limits, Process},
    request::{self, Sequence},
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// For how many minutes, whatever is found.
    #[arg(long)]
    minutes: Option<f64>,
    /// Until so many minutes have passed without a new edge or a new fault.
    #[arg(long)]
    until_quiet: Option<f64>,
    /// Until so many requests have been sent.
    #[arg(long)]
    requests: Option<u64>,
    /// The folder of sequences that led to new edges.
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// The folder that faults are written to.
    #[arg(long, default_value = "target/attack")]
    found: PathBuf,
    /// Another number, other requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sends the sequences of this file, and says what happens.
    #[arg(long)]
    repeat: Option<PathBuf>,
    /// How many seconds of processor time a request may take.
    #[arg(long, default_value_t = 3)]
    patience: u64,
    /// How many MiB of memory the server may have.
    #[arg(long, default_value_t = 2048)]
    memory: u64,
    /// Ends with the first fault.
    #[arg(long)]
    first: bool,
    /// Ends with the first fault that has this in its name or description. Fails if there is none.
    #[arg(long)]
    expect: Option<String>,
    /// How many seconds to look for the requests that matter, for each fault.
    #[arg(long, default_value_t = 60)]
    minimize: u64,
    /// With all alpha and beta features.
    #[arg(long)]
    everything: bool,
}

/// The cluster is cleaned after this many sequences; less often during the opening, to keep it short.
const CLEAN: usize = 400;
const CLEAN_OPENING: usize = 1600;
/// Number of sequences that are sent concurrently when their edges need not be told apart. On a busy host each
/// request waits long for its turn.
const AT_ONCE: usize = 12;
/// A new process is started after this many sequences.
const RENEW: usize = 20_000;
/// How far live memory after a cleaning may exceed that after the first cleanings, in bytes.
const GROWTH: usize = 256 << 20;

/// Runs a campaign, or replays a file with `--repeat`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let settings = Settings { patience: arguments.patience, everything: arguments.everything };
    let limits = Limits { settings, memory: arguments.memory };
    if let Some(file) = &arguments.repeat {
        let faults = minimize::replay(&request::read(file)?, limits)?;
        for fault in &faults {
            println!("{}\n{}", fault.key, fault.text);
        }
        if faults.is_empty() {
            println!("no fault");
            return Ok(());
        }
        bail!("{} faults", faults.len());
    }
    let mut campaign = Campaign::new(arguments.clone(), limits)?;
    campaign.attack()?;
    campaign.conclude()
}

/// A running campaign.
struct Campaign {
    arguments: Arguments,
    limits: Limits,
    generator: Generator,
    corpus: Corpus,
    process: Process,
    /// Everything that was sent to the current process.
    history: Vec<Sequence>,
    faults: BTreeMap<String, Found>,
    began: Instant,
    /// When a new edge or fault was found last.
    news: Instant,
    sent: u64,
    codes: BTreeMap<u16, u64>,
    /// Live memory in bytes after the first cleanings of this process.
    floor: usize,
    cleanings: usize,
    /// Number of sequences sent since the last cleaning.
    uncleaned: usize,
    /// Whether there was a cleaning in any process.
    looked: bool,
    /// Time after which the fault of `--expect` was found.
    expected: Option<Duration>,
}

/// A fault that was found.
struct Found {
    after: Duration,
    times: u64,
    text: String,
    file: PathBuf,
}

impl Campaign {
    fn new(arguments: Arguments, limits: Limits) -> Result<Self> {
        super::world::remove_stale_groups();
        let began = Instant::now();
        let generator = Generator::new(arguments.seed)?;
        let corpus = Corpus::open(arguments.corpus.clone())?;
        let process = Process::start(limits, &[])?;
        println!(
            "attack: {} kinds, {} fields, {} sequences to begin with, {}",
            generator.kinds.len(),
            generator.sweep.progress().1,
            corpus.sequences().len(),
            match process.edges {
                0 => "not guided by coverage (see tests/attack/README.md)".to_owned(),
                edges => format!("guided by {edges} edges"),
            }
        );
        Ok(Self {
            arguments,
            limits,
            generator,
            corpus,
            process,
            history: Vec::new(),
            faults: BTreeMap::new(),
            began,
            news: began,
            sent: 0,
            codes: BTreeMap::new(),
            floor: 0,
            cleanings: 0,
            uncleaned: 0,
            looked: false,
            expected: None,
        })
    }

    fn is_over(&self) -> bool {
        let minutes = |minutes: f64| Duration::from_secs_f64(minutes * 60.0);
        let quiet =
            self.arguments.until_quiet.is_some_and(|quiet| self.news.elapsed() > minutes(quiet));
        let Arguments { minutes: limit, until_quiet, requests, .. } = self.arguments;
        let limit = limit.or((until_quiet.is_none() && requests.is_none()).then_some(1.0));
        quiet
            || requests.is_some_and(|requests| self.sent >= requests)
            || limit.is_some_and(|limit| self.began.elapsed() > minutes(limit))
            || self.arguments.first && !self.faults.is_empty()
            || self.expected.is_some()
    }

    fn attack(&mut self) -> Result<()> {
        let mut told = Instant::now();
        for sequence in self.corpus.sequences().to_vec() {
            if self.is_over() {
                return Ok(());
            }
            self.send(&[sequence])?;
        }
        while !self.is_over() {
            let sequences = self.next();
            self.send(&sequences)?;
            let opening = self.generator.sweep.is_opening();
            // Long lists take long, so controllers that earlier requests have stopped are detected first.
            let before_lists = self.generator.sweep.is_list() && !self.looked;
            if before_lists || self.uncleaned >= if opening { CLEAN_OPENING } else { CLEAN } {
                self.looked = true;
                self.clean()?;
            }
            if self.history.len() >= RENEW {
                self.renew()?;
            }
            if told.elapsed() > Duration::from_secs(15) {
                told = Instant::now();
                self.tell();
            }
        }
        // The last requests may have stopped a controller.
        if self.expected.is_none() && !self.arguments.first { self.clean() } else { Ok(()) }
    }

    /// The next sequences to send.
    fn next(&mut self) -> Vec<Sequence> {
        let mut sequences = Vec::new();
        let alone = self.process.edges > 0 || self.generator.sweep.is_list();
        while sequences.len() < if alone { 1 } else { AT_ONCE } {
            let sequence = match self.generator.random.below(3) {
                0 if !self.generator.sweep.is_opening() => self.corpus.mutated(&mut self.generator),
                _ => None,
            };
            let sequence = sequence.unwrap_or_else(|| self.generator.next());
            if !self.is_known_to_kill(&sequence) {
                sequences.push(sequence);
            }
        }
        sequences
    }

    /// Whether similar sequences have killed the server before. They are then sent only rarely, so that other faults
    /// are found too.
    fn is_known_to_kill(&mut self, sequence: &Sequence) -> bool {
        let nested = sequence.nesting();
        let deaths = self.faults.iter().filter(|(key, _)| key.starts_with("stack overflow"));
        let deaths: u64 = deaths.map(|(_, found)| found.times).sum();
        deaths > 2 && !nested.is_empty() && !self.generator.random.one_in(50)
    }

    fn send(&mut self, sequences: &[Sequence]) -> Result<()> {
        let check = self.generator.sweep.is_opening() || self.generator.random.one_in(4);
        self.uncleaned += sequences.len();
        self.sent += sequences.iter().map(|one| one.requests.len() as u64).sum::<u64>();
        self.history.extend_from_slice(sequences);
        let sent = match sequences {
            [one] => self.process.send(one, check),
            all => self.process.send_at_once(all, check),
        };
        match sent {
            Ok(report) => {
                let guided = self.process.edges > 0;
                for (sequence, codes) in sequences.iter().zip(&report.codes) {
                    for code in codes {
                        *self.codes.entry(*code).or_default() += 1;
                    }
                    if self.corpus.note(sequence, &report.edges, codes, guided)? && guided {
                        self.news = Instant::now();
                    }
                }
                let slow = if report.suspect { self.slow(sequences) } else { Vec::new() };
                let mut faults = report.faults.into_iter().chain(slow);
                faults.try_for_each(|fault| self.found(fault))
            }
            Err(death) => {
                let history = std::mem::take(&mut self.history);
                self.renew()?;
                if self.send_apart(sequences)? {
                    return Ok(());
                }
                let later = std::mem::replace(&mut self.history, history);
                self.found(death)?;
                self.history = later;
                Ok(())
            }
        }
    }

    /// Sends sequences that have killed a process again, one request at a time, to find the request that kills it and
    /// the faults of the others. Returns whether one of them kills it.
    fn send_apart(&mut self, sequences: &[Sequence]) -> Result<bool> {
        let mut died = false;
        for request in sequences.iter().flat_map(|sequence| &sequence.requests) {
            if self.expected.is_some() {
                break;
            }
            let one = Sequence { requests: vec![request.clone()], at_once: false };
            self.history.push(one.clone());
            match self.process.send(&one, true) {
                Ok(report) => report.faults.into_iter().try_for_each(|fault| self.found(fault))?,
                Err(death) => {
                    died = true;
                    self.found(death)?;
                    self.renew()?;
                }
            }
        }
        Ok(died)
    }

    /// Finds which of several sequences takes too long, by sending each alone to a new process.
    fn slow(&mut self, sequences: &[Sequence]) -> Vec<Fault> {
        let Ok(mut process) = Process::start(self.limits, &[]) else { return Vec::new() };
        let mut faults = Vec::new();
        for sequence in sequences {
            match process.send(sequence, false) {
                Ok(report) => faults.extend(report.faults),
                Err(death) => return vec![death],
            }
        }
        faults.retain(|fault| fault.key.starts_with("slow"));
        faults
    }

    fn clean(&mut self) -> Result<()> {
        self.uncleaned = 0;
        match self.process.tell(&Command::Clean) {
            Err(death) => {
                self.found(death)?;
                self.renew()
            }
            Ok(report) => {
                self.cleanings += 1;
                // The first cleanings fill bounded structures: rings, caches, pools.
                if self.cleanings <= 5 {
                    self.floor = self.floor.max(report.live);
                } else if report.live > self.floor + GROWTH {
                    let text = format!(
                        "{} MiB are live after a cleaning, {} were before",
                        report.live >> 20,
                        self.floor >> 20
                    );
                    self.floor = report.live;
                    self.found(Fault::new("growth", text))?;
                }
                report.faults.into_iter().try_for_each(|fault| self.found(fault))
            }
        }
    }

    /// Starts a new process, and passes the known edges to it.
    fn renew(&mut self) -> Result<()> {
        let known: Vec<u32> = self.corpus.edges.iter().copied().collect();
        self.process = Process::start(self.limits, &known)?;
        self.history.clear();
        self.uncleaned = 0;
        (self.floor, self.cleanings) = (0, 0);
        Ok(())
    }

    /// Records a new fault, with the requests that reproduce it.
    fn found(&mut self, fault: Fault) -> Result<()> {
        if let Some(known) = self.faults.get_mut(&fault.key) {
            known.times += 1;
            return Ok(());
        }
        let after = self.began.elapsed();
        self.news = Instant::now();
        let expected = self.arguments.expect.as_ref();
        if expected.is_some_and(|it| fault.key.contains(it) || fault.text.contains(it)) {
            self.expected.get_or_insert(after);
        }
        println!("{:>8.1} s  {}\n{}", after.as_secs_f64(), fault.key, indented(&fault.text));
        let began = Instant::now();
        let time = Duration::from_secs(self.arguments.minimize);
        let least = if time.is_zero() {
            None
        } else {
            minimize::minimize(&self.history, &fault, self.limits, time)
        };
        let name: String = digest(&fault.key)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(80)
            .collect();
        let file = self.arguments.found.join(format!("{:03}-{name}.jsonl", self.faults.len()));
        #[expect(clippy::single_match_else, reason = "both are long")]
        let (comment, sequences) = match &least {
            Some(least) => (format!("{}\n{}", fault.key, fault.text), least.as_slice()),
            None => {
                let last = &self.history[self.history.len().saturating_sub(100)..];
                (
                    format!(
                        "{}\n{}\nnot brought about again by what was sent last",
                        fault.key, fault.text
                    ),
                    last,
                )
            }
        };
        request::write(&file, &comment, sequences)?;
        let how = least.map_or("not reproduced; last 100 sequences".to_owned(), |least| {
            format!("{} sequences", least.len())
        });
        println!(
            "            {}: {how} (looked for {:.0} s)",
            file.display(),
            began.elapsed().as_secs_f64()
        );
        // the search for the cause does not count as time of the attack
        self.began += began.elapsed();
        self.news = Instant::now();
        self.faults.insert(fault.key, Found { after, times: 1, text: fault.text, file });
        Ok(())
    }

    fn tell(&self) {
        let (swept, fields) = self.generator.sweep.progress();
        println!(
            "{:>8.1} s  {} requests ({}/s; {:.0} s of processor time), {swept} of {fields} fields swept, {} edges of {}, {} MiB, {} faults, quiet for {:.0} s",
            self.began.elapsed().as_secs_f64(),
            self.sent,
            self.sent / self.began.elapsed().as_secs().max(1),
            self.process.cpu(),
            self.corpus.edges.len(),
            self.process.edges,
            self.process.resident(),
            self.faults.len(),
            self.news.elapsed().as_secs_f64(),
        );
    }

    fn conclude(&self) -> Result<()> {
        self.tell();
        println!("codes: {:?}", self.codes);
        for (key, found) in &self.faults {
            let first = found.text.lines().next().unwrap_or_default();
            println!(
                "{:>8.1} s  {:>5} times  {key}: {first}\n            {}",
                found.after.as_secs_f64(),
                found.times,
                found.file.display()
            );
        }
        if let Some(expect) = &self.arguments.expect {
            let after = self.expected.with_context(|| format!("not found: {expect}"))?;
            println!("found after {:.1} s: {expect}", after.as_secs_f64());
            return Ok(());
        }
        if !self.faults.is_empty() {
            bail!("{} faults", self.faults.len());
        }
        println!("no fault");
        Ok(())
    }
}

fn indented(text: &str) -> String {
    text.lines()
        .take(14)
        .map(|line| format!("            {line}\n"))
        .collect::<String>()
        .trim_end()
        .to_owned()
}
