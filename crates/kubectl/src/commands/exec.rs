//! `exec`: executes a command in a container, connected to our stdin, stdout and stderr.

use std::io::IsTerminal as _;

use object::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{Command, FILES};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    resources::escape,
    select::go_io_error,
    stdio::{Blocking, DetachKeys, Input, RawTerminal},
    streams::{Sizes, container_of, exchange, open, pod_of},
};

pub(super) const FLAGS: &[Flag] = &[
    Flag::text("container").short('c'),
    Flag::bool("stdin").short('i'),
    Flag::bool("tty").short('t'),
    Flag::bool("quiet").short('q'),
    Flag::new("pod-running-timeout", FlagType::Duration).default("1m0s"),
];

pub(crate) const COMMAND: Command = Command::new("exec", &[FILES, FLAGS], exec);

fn exec(call: &Invocation<'_>) -> Result {
    let dash = call.flags.args_len_at_dash.unwrap_or(call.args().len());
    let (words, command) = call.args().split_at(dash.min(call.args().len()));
    let Some(word) = words.first() else {
        return Err(CommandError::error("pod, type/name or --filename must be specified"));
    };
    if words.len() > 1 {
        return Err(CommandError::error(
            "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead\nSee 'kubectl exec -h' for help and examples",
        ));
    }
    if command.is_empty() {
        return Err(CommandError::error("you must specify at least one command for the container"));
    }
    let pod = pod_of(call, word)?;
    check_phase(&pod, "exec into")?;
    let container =
        container_of(call, &pod, call.flags.text("container"), call.flags.is_true("quiet"))?;
    let tty = wants_terminal(call, call.flags.is_true("tty"));
    Session { pod: &pod, container: &container, tty }.exec(call, command)
}

/// Fails if the pod has completed.
pub(super) fn check_phase(pod: &Value, doing: &str) -> Result {
    match pod["status"]["phase"].as_str() {
        Some(phase @ ("Succeeded" | "Failed")) => Err(CommandError::error(format!(
            "cannot {doing} a container in a completed pod; current phase is {phase}"
        ))),
        _ => Ok(()),
    }
}

/// Whether stdin is a terminal that is to be set to raw mode for the remote process.
pub(crate) fn wants_terminal(call: &Invocation<'_>, tty: bool) -> bool {
    if !tty || !call.flags.is_true("stdin") {
        return false;
    }
    let terminal = std::io::stdin().is_terminal();
    if !terminal && !call.flags.is_true("quiet") {
        call.print_err("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    terminal
}

/// A session with a container.
pub(crate) struct Session<'a> {
    pub(crate) pod: &'a Value,
    pub(crate) container: &'a str,
    /// Whether the process gets a terminal.
    pub(crate) tty: bool,
}

impl Session<'_> {
    fn exec(&self, call: &Invocation<'_>, command: &[String]) -> Result {
        let words = command.iter().map(|word| format!("&command={}", escape(word)));
        let path = self.path(call, "exec") + &words.collect::<String>();
        self.carry(call, &path, None, Sizes::Follow)
    }

    /// Attaches to the running process. `detach`: keys that detach from the session.
    pub(super) fn attach(&self, call: &Invocation<'_>, detach: Option<DetachKeys>) -> Result {
        self.carry(call, &self.path(call, "attach"), detach, Sizes::Redraw)
    }

    fn path(&self, call: &Invocation<'_>, verb: &str) -> String {
        let text = |field: &str| self.pod["metadata"][field].as_str().unwrap_or_default();
        format!(
            "/api/v1/namespaces/{}/pods/{}/{verb}?container={}&stdout=true&stdin={}&stderr={}&tty={}",
            text("namespace"),
            text("name"),
            escape(self.container),
            call.flags.is_true("stdin"),
            !self.tty,
            self.tty
        )
    }

    /// Forwards our streams until the process, the connection or a signal ends the session, then restores the
    /// terminal.
    fn carry(
        &self,
        call: &Invocation<'_>,
        path: &str,
        detach: Option<DetachKeys>,
        sizes: Sizes,
    ) -> Result {
        let failed = |error: std::io::Error| CommandError::error(go_io_error(&error));
        let (server, stdin) = (call.server()?, call.flags.is_true("stdin"));
        server.wait(async {
            let socket = open(call, path).await?;
            let restored = stdin && std::io::stdin().is_terminal();
            let ended = ended_by_signal(restored).map_err(failed)?;
            let terminal = if self.tty { RawTerminal::new() } else { None };
            let input = if stdin { Some(Input::new(detach).map_err(failed)?) } else { None };
            let (out, err) = (Blocking(std::io::stdout()), Blocking(std::io::stderr()));
            let sizes = if self.tty { sizes } else { Sizes::None };
            let result = tokio::select! {
                result = exchange(socket, input, out, err, sizes) => result,
                () = ended => Err(CommandError::Code(1)),
            };
            drop(terminal);
            result
        })
    }
}

/// Completes when a signal tells this process to end. If no terminal needs to be restored, signals keep their default
/// action.
fn ended_by_signal(restored: bool) -> std::io::Result<impl Future<Output = ()>> {
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::quit(),
    ];
    let mut signals = Vec::new();
    for kind in kinds.into_iter().filter(|_| restored) {
        signals.push(signal(kind)?);
    }
    Ok(async move {
        if signals.is_empty() {
            return std::future::pending().await;
        }
        let received = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures_util::future::select_all(received).await;
    })
}
