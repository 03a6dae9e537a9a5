//! `exec` and `attach`: a process in a container, as if it were here.

use std::io::IsTerminal as _;

use object::Value;

use super::{Command, FILES};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    resources::escape,
    streams::{PROTOCOLS, RawTerminal, carry, container_of, pod_of},
};

const FLAGS: &[Flag] = &[
    Flag::text("container").short('c'),
    Flag::bool("stdin").short('i'),
    Flag::bool("tty").short('t'),
    Flag::bool("quiet").short('q'),
    Flag::new("pod-running-timeout", Kind::Duration).default("1m0s"),
];

pub(crate) const EXEC: Command = Command::new("exec", &[FILES, FLAGS], exec);
pub(crate) const ATTACH: Command = Command::new("attach", &[FLAGS], attach);

fn exec(call: &Call<'_>) -> Result {
    let dash = call.flags.dash.unwrap_or(call.words().len());
    let (words, command) = call.words().split_at(dash.min(call.words().len()));
    let Some(word) = words.first() else {
        return Err(Fail::error("pod, type/name or --filename must be specified"));
    };
    if words.len() > 1 {
        return Err(Fail::error(
            "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead\nSee 'kubectl exec -h' for help and examples",
        ));
    }
    if command.is_empty() {
        return Err(Fail::error("you must specify at least one command for the container"));
    }
    let pod = pod_of(call, word)?;
    check_phase(&pod, "exec into")?;
    let container = container_of(call, &pod, call.flags.text("container"), call.flags.on("quiet"))?;
    let command: Vec<String> =
        command.iter().map(|word| format!("command={}", escape(word))).collect();
    stream(call, &pod, "exec", &container, &command.join("&"))
}

fn attach(call: &Call<'_>) -> Result {
    let [word] = call.words() else {
        return Err(Fail::error(match call.words().len() {
            0 => "at least 1 argument is required for attach".to_owned(),
            n => format!(
                "expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw {n}: {:?}",
                call.words()
            ),
        }));
    };
    let pod = pod_of(call, word)?;
    check_phase(&pod, "attach")?;
    let container = container_of(call, &pod, call.flags.text("container"), call.flags.on("quiet"))
        .map_err(|fail| Fail::error(format!("cannot attach to the container: {}", fail.words())))?;
    if !call.flags.on("quiet") {
        call.say("All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.");
        call.say("If you don't see a command prompt, try pressing enter.");
    }
    stream(call, &pod, "attach", &container, "")
}

pub(super) fn check_phase(pod: &Value, doing: &str) -> Result {
    match pod["status"]["phase"].as_str() {
        Some(phase @ ("Succeeded" | "Failed")) => Err(Fail::error(format!(
            "cannot {doing} a container in a completed pod; current phase is {phase}"
        ))),
        _ => Ok(()),
    }
}

/// Opens the streams of a container and carries them.
pub(crate) fn stream(
    call: &Call<'_>,
    pod: &Value,
    what: &str,
    container: &str,
    command: &str,
) -> Result {
    let stdin = call.flags.on("stdin");
    let mut tty = call.flags.on("tty");
    if tty && !(stdin && std::io::stdin().is_terminal()) {
        if stdin {
            call.say("Unable to use a TTY - input is not a terminal or the right kind of file");
        }
        tty &= stdin && std::io::stdin().is_terminal();
    }
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let mut query = vec![format!("container={container}"), "stdout=true".to_owned()];
    query.push(format!("stdin={stdin}"));
    query.push(format!("stderr={}", !tty));
    query.push(format!("tty={tty}"));
    if !command.is_empty() {
        query.push(command.to_owned());
    }
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/{what}?{}",
        text("namespace"),
        text("name"),
        query.join("&")
    );
    let server = call.server()?;
    server.wait(async {
        let socket = server.websocket(&path, PROTOCOLS).await.map_err(|fail| match fail {
            Fail::Server { status, .. } => {
                Fail::error(format!("unable to upgrade connection: {}", status.message()))
            }
            other => other,
        })?;
        let terminal = if tty { RawTerminal::new() } else { None };
        let ended = carry(socket, stdin, tty).await;
        drop(terminal);
        ended
    })
}
