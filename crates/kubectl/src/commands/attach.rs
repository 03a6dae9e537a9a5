//! `attach`: connects our stdin, stdout and stderr to a running process in a container. Also used by `run` and
//! `debug`.

use object::Value;

use super::{
    Command,
    exec::{FLAGS, Session, check_phase, wants_terminal},
};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    stdio::DetachKeys,
    streams::{container_of, pod_of},
};

pub(crate) const COMMAND: Command = Command::new("attach", &[FLAGS, DETACH], run);

/// The flag with the keys that detach from a session.
pub(super) const DETACH: &[Flag] = &[Flag::text("detach-keys").default(DETACH_KEYS)];
const DETACH_KEYS: &str = "ctrl-p,ctrl-q";

fn run(call: &Invocation<'_>) -> Result {
    let word = match call.args() {
        [word] => word.clone(),
        [kind, name] => format!("{kind}/{name}"),
        [] => return Err(CommandError::error("at least 1 argument is required for attach")),
        words => {
            return Err(CommandError::error(format!(
                "expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw {}: [{}]",
                words.len(),
                words.join(" ")
            )));
        }
    };
    if call.flags.duration("pod-running-timeout") <= 0 {
        return Err(call.usage("--pod-running-timeout must be higher than zero"));
    }
    let pod = pod_of(call, &word)?;
    check_phase(&pod, "attach")?;
    let container =
        container_of(call, &pod, call.flags.text("container"), call.flags.is_true("quiet"))
            .map_err(|fail| {
                CommandError::error(format!("cannot attach to the container: {}", fail.message()))
            })?;
    attach(call, &pod, &container, true)
}

/// Attaches to a running container. `announce`: prints that the session is recorded in the container's log.
pub(super) fn attach(
    call: &Invocation<'_>,
    pod: &Value,
    container: &str,
    announce: bool,
) -> Result {
    let (quiet, stdin) = (call.flags.is_true("quiet"), call.flags.is_true("stdin"));
    let (place, spec) = find(pod, container);
    let has_terminal = spec["tty"].as_bool() == Some(true);
    if call.flags.is_true("tty") && !has_terminal && !quiet {
        call.print_err(&format!(
            "error: Unable to use a TTY - container {container} did not allocate one"
        ));
    }
    let tty = wants_terminal(call, has_terminal);
    let keys = match call.flags.text("detach-keys") {
        "" => DETACH_KEYS,
        given => given,
    };
    let keys = (tty && stdin).then(|| DetachKeys::parse(keys)).transpose();
    let keys =
        keys.map_err(|why| CommandError::error(format!("could not bind detach keys: {why}")))?;
    if announce && !quiet {
        call.print_err("All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.");
        call.print_err("If you don't see a command prompt, try pressing enter.");
    }
    Session { pod, container, tty }.attach(call, keys)?;
    if !quiet && stdin && tty {
        call.print(&(resume(pod, container, place) + "\n"));
    }
    Ok(())
}

/// The field of the pod's spec that contains the container, and the container.
fn find<'a>(pod: &'a Value, container: &str) -> (&'static str, &'a Value) {
    const NONE: &Value = &Value::Null;
    let found = ["containers", "initContainers", "ephemeralContainers"].iter().find_map(|list| {
        let all = pod["spec"][*list].items();
        let found = all.iter().find(|spec| spec["name"].as_str() == Some(container));
        found.map(|spec| (*list, spec))
    });
    found.unwrap_or(("containers", NONE))
}

/// The message that says how to resume a session that was detached from.
fn resume(pod: &Value, container: &str, place: &str) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let again =
        format!("'kubectl attach {} -c {container} -n {} -i -t'", text("name"), text("namespace"));
    match place {
        "ephemeralContainers" => format!(
            "Session ended, the ephemeral container will not be restarted but may be reattached using {again} if it is still running"
        ),
        _ => format!("Session ended, resume using {again} command"),
    }
}

/// Attaches to a container; if that fails, prints its log except for the first `printed` bytes, which were printed
/// before.
pub(super) fn attach_or_print_log(
    call: &Invocation<'_>,
    pod: &Value,
    container: &str,
    announce: bool,
    printed: usize,
) -> Result {
    match attach(call, pod, container, announce) {
        Err(fail) if !matches!(fail, CommandError::Code(_)) => {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            call.print_err(&format!(
                "warning: couldn't attach to pod/{name}, falling back to streaming logs: {}",
                fail.message()
            ));
            print_log(call, pod, container, printed).map(drop)
        }
        other => other,
    }
}

/// Prints the log of a container without its first `skip` bytes. Returns the length of the whole log.
pub(super) fn print_log(
    call: &Invocation<'_>,
    pod: &Value,
    container: &str,
    skip: usize,
) -> Result<usize> {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/log?container={}",
        text("namespace"),
        text("name"),
        crate::resources::escape(container)
    );
    let mut seen: usize = 0;
    call.server()?.stream(&path, |bytes| {
        let known = skip.saturating_sub(seen).min(bytes.len());
        seen += bytes.len();
        call.out_bytes(&bytes[known..]);
        Ok(true)
    })?;
    Ok(seen)
}
