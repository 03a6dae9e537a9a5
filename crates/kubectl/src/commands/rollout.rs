//! `rollout`: watches, undoes, restarts and pauses rollouts of workloads.

mod history;
mod status;

use object::{Time, Value, quote::quote};

use super::{ALL, Command, DRY_RUN, DryRun, FIELD_MANAGER, FILES, SELECTOR};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    print::{self, OutputFormat},
    select::{BuilderOptions, Info},
    server::PatchType,
};

const REVISION: &[Flag] = &[Flag::new("revision", FlagType::Int64)];

pub(crate) const COMMAND: Command = Command::group(
    "rollout",
    &[
        Command::new(
            "status",
            &[
                FILES,
                SELECTOR,
                REVISION,
                &[
                    Flag::bool("watch").short('w').default("true"),
                    Flag::new("timeout", FlagType::Duration),
                ],
            ],
            status::run,
        ),
        Command::new("history", &[FILES, SELECTOR, REVISION, print::FLAGS], history::run),
        Command::new(
            "undo",
            &[FILES, SELECTOR, DRY_RUN, print::FLAGS, &[Flag::new("to-revision", FlagType::Int64)]],
            history::undo,
        ),
        Command::new("restart", &[FILES, SELECTOR, ALL, FIELD_MANAGER, print::FLAGS], restart),
        Command::new("pause", &[FILES, SELECTOR, FIELD_MANAGER, print::FLAGS], |call| {
            pause(call, true)
        }),
        Command::new("resume", &[FILES, SELECTOR, FIELD_MANAGER, print::FLAGS], |call| {
            pause(call, false)
        }),
    ],
);

/// The workloads that the arguments select, in their current state.
fn workloads(call: &Invocation<'_>) -> Result<(Vec<Info>, Vec<CommandError>)> {
    if call.args().is_empty() && !call.has_files() {
        return Err(CommandError::error("required resource not specified"));
    }
    call.select(
        call.args(),
        BuilderOptions {
            fetch: true,
            default_namespace: true,
            all_by_default: true,
            ..BuilderOptions::default()
        },
    )
}

fn qualified(info: &Info) -> String {
    format!("{} {}", info.resource.qualified(), quote(&info.name))
}

fn restart(call: &Invocation<'_>) -> Result {
    let output = OutputFormat::of(call, false)?;
    let (infos, mut fails) = workloads(call)?;
    if infos.is_empty() && fails.is_empty() {
        call.print_err(&format!("No resources found in {} namespace.", call.namespace()?));
    }
    for info in infos {
        if let Err(fail) = info.resource.require_type() {
            fails.push(fail);
            continue;
        }
        let known = info.resource.group == "apps"
            && matches!(info.resource.kind.as_str(), "Deployment" | "DaemonSet" | "StatefulSet");
        if !known {
            fails.push(CommandError::error(format!(
                "{} restarting is not supported",
                qualified(&info)
            )));
            continue;
        }
        if info.object["spec"]["paused"].as_bool() == Some(true) {
            fails.push(CommandError::error(format!(
                "{} can't restart paused deployment (run rollout resume first)",
                qualified(&info)
            )));
            continue;
        }
        let mut patch = Value::object();
        let now = Time::format(call.now());
        patch["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] =
            now.into();
        match call.server()?.patch(
            &(info.path() + "?fieldManager=kubectl-rollout"),
            PatchType::Strategic,
            &patch,
        ) {
            Ok(object) => output.print(call, &object, "restarted")?,
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

fn pause(call: &Invocation<'_>, pause: bool) -> Result {
    let output = OutputFormat::of(call, false)?;
    let (infos, mut fails) = workloads(call)?;
    if infos.is_empty() && fails.is_empty() {
        call.print_err(&format!("No resources found in {} namespace.", call.namespace()?));
    }
    let (doing, done) = if pause { ("pausing", "paused") } else { ("resuming", "resumed") };
    for info in infos {
        if let Err(fail) = info.resource.require_type() {
            fails.push(fail);
            continue;
        }
        if info.resource.kind != "Deployment" {
            fails.push(CommandError::error(format!(
                "{} {doing} is not supported",
                qualified(&info)
            )));
            continue;
        }
        let paused = info.object["spec"]["paused"].as_bool() == Some(true);
        if paused == pause {
            let how = if pause { "already paused" } else { "not paused" };
            fails.push(CommandError::error(format!("{} is {how}", qualified(&info))));
            continue;
        }
        let mut patch = Value::object();
        *patch["spec"].get_mut("paused") = if pause { true.into() } else { Value::Null };
        match call.server()?.patch(
            &(info.path() + "?fieldManager=kubectl-rollout"),
            PatchType::Strategic,
            &patch,
        ) {
            Ok(object) => output.print(call, &object, done)?,
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

/// The dry-run mode and output format for `undo`.
fn dry_run(call: &Invocation<'_>) -> Result<(DryRun, OutputFormat)> {
    Ok((DryRun::of(call)?, OutputFormat::of(call, false)?))
}
