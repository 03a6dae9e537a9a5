//! The list of all commands. A command is a name, a summary and a function.

pub(crate) mod apiserver;
mod cluster;
mod completion;
mod containers;
pub(crate) mod controller_manager;
mod cri;
mod dns;
mod election;
mod encryption;
mod etcd;
pub(crate) mod hello;
mod hollow;
mod image;
mod kubeconfig;
pub(crate) mod kubelet;
mod logs;
mod man;
mod manifest;
pub(crate) mod proxy;
pub(crate) mod scheduler;
mod serving;
#[cfg(test)]
mod settings_page;
mod snapshot;
mod systemd;
mod token;
mod transcode;
mod why;

use std::{ffi::OsString, pin::Pin, process::ExitCode, sync::OnceLock, time::Duration};

use clap::{CommandFactory as _, Parser};

pub(crate) use self::{election::start_when_elected, serving::ServingComponent};

/// A command of the executable.
pub(crate) struct Command {
    name: &'static str,
    summary: &'static str,
    run: fn(Vec<OsString>) -> ExitCode,
    /// The flags, for completion and man pages; `None` for a command that parses its arguments itself.
    flags: Option<fn() -> clap::Command>,
}

/// All commands. A command without a summary is internal and not listed.
const COMMANDS: &[Command] = &[
    new("up", "start a cluster on this machine", cluster::up).with(cluster::UpArguments::command),
    new("down", "stop the cluster; --wipe deletes its data", cluster::down)
        .with(cluster::DownArguments::command),
    new("status", "show the state of the cluster", cluster::status).with(cluster::Cluster::command),
    new("logs", "show the logs of the components", logs::run).with(logs::Arguments::command),
    new("ps", "list the containers of this node", containers::ps)
        .with(containers::PsArguments::command),
    new("inspect", "show all details of a container or pod", containers::inspect)
        .with(containers::InspectArguments::command),
    new("check", "check whether this machine has what a node needs", cluster::check)
        .with(cluster::Nothing::command),
    new("why", "show why an object is as it is: the chain of causes", why::why)
        .with(why::Arguments::command),
    new("history", "show every write to an object, by whom and why", why::history)
        .with(why::Arguments::command),
    new("snapshot", "save, restore and inspect backups of the store", snapshot::run)
        .with(snapshot::Arguments::command),
    new("encryption", "rotate the key of encryption at rest", encryption::run)
        .with(encryption::Arguments::command),
    new("image", "import, export, list, pull and remove images", image::run)
        .with(image::Arguments::command),
    new("join", "add this machine to a cluster as a node", cluster::join)
        .with(cluster::JoinArguments::command),
    new("token", "make, list and delete tokens with which machines join", token::run)
        .with(token::Arguments::command),
    new("kubeconfig", "sign a kubeconfig for a user or a node", kubeconfig::run)
        .with(kubeconfig::Arguments::command),
    new("manifest", "print the manifest of the DNS server or the proxy", manifest::run)
        .with(manifest::Arguments::command),
    new("transcode", "convert an object between JSON, YAML, KYAML and protobuf", transcode::run)
        .with(transcode::Arguments::command),
    new("systemd-unit", "print a systemd unit for `up` or `join`", systemd::run)
        .with(systemd::Arguments::command),
    new("completion", "print shell completions for bash, zsh or fish", completion::run)
        .with(completion::Arguments::command),
    new("man", "write the man pages to a folder", man::run).with(man::Arguments::command),
    new("version", "show the versions of Tiphys and Kubernetes", version),
    new("kubectl", "the command line client", kubectl::main),
    new("kube-apiserver", "the API server", apiserver::run).with(apiserver::Arguments::command),
    new("kube-controller-manager", "the controllers", controller_manager::run)
        .with(controller_manager::Arguments::command),
    new("kube-scheduler", "the scheduler", scheduler::run).with(scheduler::Arguments::command),
    new("kubelet", "the node agent", kubelet::run).with(kubelet::Arguments::command),
    new("kube-proxy", "the service proxy of a node", proxy::run).with(proxy::Arguments::command),
    new("cri", "the container runtime, for any kubelet", cri::run).with(cri::Arguments::command),
    new("etcd", "the store with etcd's interface, a single member", etcd::run)
        .with(etcd::Arguments::command),
    new("dns", "the DNS server of the cluster", dns::run).with(dns::Arguments::command),
    new("hello", "a small web application", hello::run).with(hello::Arguments::command),
    new("hollow", "nodes that only pretend, for trying schedulers and large clusters", hollow::run)
        .with(hollow::Arguments::command),
    new("shim", "", shim),
    new("supervise", "", cluster::supervise),
    new("control", "", cluster::control),
    new("node", "", cluster::node),
];

const fn new(
    name: &'static str,
    about: &'static str,
    run: fn(Vec<OsString>) -> ExitCode,
) -> Command {
    Command { name, summary: about, run, flags: None }
}

impl Command {
    const fn with(mut self, flags: fn() -> clap::Command) -> Self {
        self.flags = Some(flags);
        self
    }

    /// Runs the command, called as `tiphys NAME` or by the component's own name.
    pub(crate) fn run(&self, args: Vec<OsString>, by_own_name: bool) -> ExitCode {
        let _ = BY_OWN_NAME.set(by_own_name);
        (self.run)(args)
    }

    /// The flags, under the name that users call the command by.
    fn declared(&self) -> Option<clap::Command> {
        let declared = self.flags?().name(self.name).about(self.summary);
        Some(declared.bin_name(format!("tiphys {}", self.name)))
    }
}

/// Whether the executable was called by a component's name, such as `kube-apiserver`.
static BY_OWN_NAME: OnceLock<bool> = OnceLock::new();

/// The name under which the user called a command: `NAME` or `tiphys NAME`.
fn called(name: &str) -> String {
    match BY_OWN_NAME.get() {
        Some(true) => name.to_owned(),
        _ => format!("tiphys {name}"),
    }
}

/// The commands that `tiphys help` lists.
fn for_users() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|command| !command.summary.is_empty())
}

/// The error for an unknown command.
pub(crate) fn unknown(name: &str) -> String {
    let hint = match nearest(name, for_users().map(|command| command.name)) {
        Some(near) => format!("did you mean `tiphys {near}`?"),
        None => "`tiphys help` lists the commands".to_owned(),
    };
    format!("tiphys: unknown command {name:?}; {hint}")
}

pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

pub(crate) fn help() -> String {
    let mut text = "Tiphys is a complete Kubernetes in one executable.\n\nUsage: tiphys COMMAND [FLAGS]\n\nCommands:\n".to_owned();
    for command in for_users() {
        text.push_str(&format!("  {:<26} {}\n", command.name, command.summary));
    }
    text.push_str("\n`tiphys COMMAND --help` says more.\n");
    text
}

pub(crate) fn print_help() {
    print!("{}", help());
}

pub(crate) fn version(_: Vec<OsString>) -> ExitCode {
    println!("tiphys {} (Kubernetes {})", env!("CARGO_PKG_VERSION"), server::VERSION);
    ExitCode::SUCCESS
}

/// The shim: the parent of a pod's processes. It must run single-threaded.
#[expect(clippy::needless_pass_by_value, reason = "as every command")]
fn shim(args: Vec<OsString>) -> ExitCode {
    container::shim::main(&args)
}

/// Parses flags. On failure prints the error, or the help, and returns the exit code.
fn parse<T: Parser>(name: &'static str, args: Vec<OsString>) -> Result<T, ExitCode> {
    let command = T::command().name(name).bin_name(called(name)).no_binary_name(true);
    let parsed = command.try_get_matches_from(args).and_then(|found| T::from_arg_matches(&found));
    parsed.map_err(|error| {
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
    })
}

/// Parses flags; on failure returns an error of one line.
pub(crate) fn read_flags<T: Parser>(args: Vec<OsString>) -> anyhow::Result<T> {
    let command = T::command().no_binary_name(true);
    let parsed = command.try_get_matches_from(args).and_then(|found| T::from_arg_matches(&found));
    parsed.map_err(|error| {
        let text = error.to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        let first = first.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>();
        anyhow::Error::msg(first.join(" "))
    })
}

/// The name that was probably meant: the one with the smallest edit distance, if it is small enough.
pub(crate) fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = |text: &str| text.to_lowercase();
    let distances = all.map(|own| (distance(&lower(name), &lower(own)), own));
    distances.min().filter(|(far, own)| *far <= 1 + own.len() / 4).map(|(_, own)| own)
}

/// Edit distance: how many characters must be added, removed or replaced to turn one text into the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in (1..).zip(one.chars()) {
        let mut corner = std::mem::replace(&mut row[0], at);
        for (column, own) in (1..).zip(&other) {
            let replaced = corner + usize::from(*own != letter);
            corner = row[column];
            row[column] = replaced.min(row[column] + 1).min(row[column - 1] + 1);
        }
    }
    row[other.len()]
}

/// Formats a table whose columns are as wide as their longest cell.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Formats a number of bytes for people, such as `1.5 MiB`.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        (amount, unit) = (amount / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{amount:.1} {}", UNITS[unit]) }
}

/// Runs a component until it ends, and prints the error if it fails.
fn run_async(name: &str, task: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    run_boxed(name, Box::pin(task))
}

/// Number of task polls after which a Tokio worker polls sockets and timers. The default is 61: while requests that
/// take milliseconds keep all workers busy, new events would wait for that many of them.
const EVENT_INTERVAL: u32 = 8;

/// Like `run_async`, for a boxed future: boxing makes all of them one type, so that the runtime is compiled only
/// once.
fn run_boxed(name: &str, task: Pin<Box<dyn Future<Output = anyhow::Result<()>> + '_>>) -> ExitCode {
    crate::logging::start();
    crate::memory::start();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().event_interval(EVENT_INTERVAL).build();
    let ended = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(task));
    exit(name, ended)
}

/// Converts the result of a command to an exit code, and prints the error if there is one.
fn exit(name: &str, ended: anyhow::Result<()>) -> ExitCode {
    crate::logging::flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn wait_for_shutdown_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// The identity of this process in leader election: host name and a random UUID, as upstream.
fn election_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let unique = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    format!("{}_{}", host.trim(), unique.trim())
}

/// Parses a non-negative duration in Go's format.
fn duration(text: &str) -> Result<Duration, String> {
    let nanos = object::Duration::parse_nanos(text)?;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| "must not be negative".to_owned())
}

/// The in-cluster client configuration: the API server's address and the service account of the pod.
#[expect(clippy::disallowed_methods, reason = "a pod's configuration is in its environment")]
fn in_cluster() -> anyhow::Result<client::Config> {
    use anyhow::Context as _;
    let host = std::env::var("KUBERNETES_SERVICE_HOST").context("not in a pod")?;
    let port = std::env::var("KUBERNETES_SERVICE_PORT").context("not in a pod")?;
    Ok(client::Config::in_cluster(&host, port.parse()?)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_commands_declare_makes_sense() {
        COMMANDS.iter().filter_map(Command::declared).for_each(clap::Command::debug_assert);
    }

    #[test]
    fn the_nearest_command_is_suggested() {
        assert!(unknown("stauts").ends_with("did you mean `tiphys status`?"));
        assert!(unknown("snapshots").ends_with("did you mean `tiphys snapshot`?"));
        assert!(unknown("zzz").ends_with("`tiphys help` lists the commands"));
    }

    #[test]
    fn what_components_need_is_said_in_one_line() {
        let error = read_flags::<scheduler::Arguments>(vec!["--nonsense".into()]);
        let error = error.err().expect("refused").to_string();
        assert!(error.contains("unexpected argument '--nonsense'") && !error.contains('\n'));
    }

    /// Requires that every flag occurs in a test that shows its effect; a test that an invalid value is rejected does
    /// not count.
    #[test]
    fn every_flag_has_a_test() {
        let mut tests = String::new();
        let commands = ["src/commands", "src/commands/kubelet", "src/commands/serving"];
        for part in ["tests/cluster", "tests/security"].into_iter().chain(commands) {
            let files = fs::read_dir(part).unwrap().map(|file| file.unwrap().path());
            for file in files.filter(|file| file.is_file()) {
                let text = fs::read_to_string(&file).unwrap();
                let whole = part.starts_with("tests/") || file.ends_with("tests.rs");
                let begin = if whole { Some(0) } else { text.find("#[cfg(test)]") };
                let lines = text[begin.unwrap_or(text.len())..].lines();
                tests.extend(lines.filter(|line| !line.contains("refused(")));
            }
        }
        let components = [
            cluster::UpArguments::command(),
            cluster::DownArguments::command(),
            cluster::JoinArguments::command(),
            logs::Arguments::command(),
            containers::PsArguments::command(),
            snapshot::Arguments::command(),
            controller_manager::Arguments::command(),
            scheduler::Arguments::command(),
            kubelet::Arguments::command(),
            proxy::Arguments::command(),
            etcd::Arguments::command(),
        ];
        let flags = components.iter().flat_map(clap::Command::get_arguments);
        let flags = flags.filter_map(|flag| flag.get_long().map(|name| format!("\"--{name}")));
        let shown =
            |flag: &str| ["\"", "="].iter().any(|end| tests.contains(&format!("{flag}{end}")));
        let missing: Vec<_> = flags.filter(|flag| !shown(flag)).collect();
        assert_eq!(missing, Vec::<String>::new());
    }
}
