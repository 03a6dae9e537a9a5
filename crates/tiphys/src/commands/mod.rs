//! Every command, in one list. A command is a name, a sentence and a function.

mod apiserver;
mod cluster;
mod controller_manager;
mod cri;
mod dns;
mod election;
mod encryption;
mod etcd;
pub(crate) mod hello;
mod image;
mod kubeconfig;
mod kubelet;
mod manifest;
mod proxy;
mod scheduler;
mod serving;
mod snapshot;
mod transcode;
mod why;

use std::{ffi::OsString, pin::Pin, process::ExitCode, time::Duration};

use clap::Parser;

/// One thing that the executable can do.
pub(crate) struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(Vec<OsString>) -> ExitCode,
}

/// Those without a sentence are for ourselves.
const COMMANDS: &[Command] = &[
    new("up", "start a cluster on this machine", cluster::up),
    new("down", "end it; --wipe deletes its data", cluster::down),
    new("status", "what runs", cluster::status),
    new("logs", "what the processes said", cluster::logs),
    new("check", "what this machine lacks", cluster::check),
    new("why", "why an object is as it is: the chain of causes", why::why),
    new("history", "what was written to an object, by whom and why", why::history),
    new("snapshot", "save, restore and look at everything that is stored", snapshot::run),
    new("encryption", "rotate: a new key for what is stored encrypted", encryption::run),
    new("image", "import, export, list, pull and remove images", image::run),
    new("join", "make this machine a further node of a cluster", cluster::join),
    new("kubeconfig", "sign a kubeconfig for a person or a node", kubeconfig::run),
    new("manifest", "print what runs the name server or the proxy", manifest::run),
    new(
        "transcode",
        "an object from one form to another: JSON, YAML, KYAML, protobuf",
        transcode::run,
    ),
    new("version", "the versions of Tiphys and of Kubernetes", version),
    new("kubectl", "the command line client", kubectl::main),
    new("kube-apiserver", "the API server", apiserver::run),
    new("kube-controller-manager", "the controllers", controller_manager::run),
    new("kube-scheduler", "the scheduler", scheduler::run),
    new("kubelet", "the node agent", kubelet::run),
    new("kube-proxy", "services on a node", proxy::run),
    new("cri", "the container runtime, for any kubelet", cri::run),
    new("etcd", "the store with etcd's interface, a single member", etcd::run),
    new("dns", "the cluster's name server", dns::run),
    new("hello", "a small web application", hello::run),
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
    Command { name, about, run }
}

impl Command {
    pub(crate) fn run(&self, args: Vec<OsString>) -> ExitCode {
        (self.run)(args)
    }
}

pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

pub(crate) fn help() -> String {
    let mut text = "Tiphys is a complete Kubernetes in one executable.\n\nCommands:\n".to_owned();
    for command in COMMANDS.iter().filter(|command| !command.about.is_empty()) {
        text.push_str(&format!("  {:<26} {}\n", command.name, command.about));
    }
    text
}

pub(crate) fn version(_: Vec<OsString>) -> ExitCode {
    println!("tiphys {} (Kubernetes {})", env!("CARGO_PKG_VERSION"), server::VERSION);
    ExitCode::SUCCESS
}

/// The keeper of a pod's processes. It must be the only thread there is.
#[expect(clippy::needless_pass_by_value, reason = "as every command")]
fn shim(args: Vec<OsString>) -> ExitCode {
    container::shim::main(&args)
}

/// Reads flags; tells what is wrong with them, or what there are.
fn parse<T: Parser>(name: &'static str, args: Vec<OsString>) -> Result<T, ExitCode> {
    let command = T::command().name(name).no_binary_name(true);
    let parsed = command.try_get_matches_from(args).and_then(|found| T::from_arg_matches(&found));
    parsed.map_err(|error| {
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
    })
}

/// Runs a component to its end, and says why it ended if it failed.
fn run_async(name: &str, task: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    run_boxed(name, Box::pin(task))
}

/// All are of one type, or what runs them would be compiled for each.
fn run_boxed(name: &str, task: Pin<Box<dyn Future<Output = anyhow::Result<()>> + '_>>) -> ExitCode {
    crate::logging::start();
    crate::memory::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(task));
    exit(name, ended)
}

/// Says what went wrong, if something did.
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

/// Returns when somebody asks the process to end.
pub(crate) async fn asked_to_stop() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Who this process is among others that want to lead.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let unique = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    format!("{}_{}", host.trim(), unique.trim())
}

/// A length of time as Go writes it.
fn duration(text: &str) -> Result<Duration, String> {
    let nanos = object::Duration::nanos(text)?;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| "must not be negative".to_owned())
}

/// How a pod reaches the API server.
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

    use clap::CommandFactory;

    use super::*;

    /// A flag must stand in a test that shows what it changes; that a wrong value is refused does not count.
    #[test]
    fn every_flag_has_a_test() {
        let mut tests = String::new();
        for part in ["tests/cluster", "tests/security", "src/commands", "src/commands/serving"] {
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
