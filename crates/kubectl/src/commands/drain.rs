//! `cordon`, `uncordon` and `drain`: make nodes unschedulable and schedulable, and evict their pods.

mod pod_filter;
mod remove;

use object::{Value, quote::quote, selector::Selector};

use super::{Command, DRY_RUN, DryRun, SELECTOR};
use crate::{
    error::{CommandError, Result},
    flags::{Flag, FlagType},
    invocation::Invocation,
    select::{BuilderOptions, Info},
    server::PatchType,
};

pub(crate) const CORDON: Command =
    Command::new("cordon", &[DRY_RUN, SELECTOR], |call| cordon(call, true));
pub(crate) const UNCORDON: Command =
    Command::new("uncordon", &[DRY_RUN, SELECTOR], |call| cordon(call, false));
pub(crate) const DRAIN: Command = Command::new(
    "drain",
    &[
        DRY_RUN,
        SELECTOR,
        &[
            Flag::bool("force"),
            Flag::bool("ignore-daemonsets"),
            Flag::bool("delete-emptydir-data"),
            Flag::bool("disable-eviction"),
            Flag::new("grace-period", FlagType::Int64).default("-1"),
            Flag::new("timeout", FlagType::Duration),
            Flag::text("pod-selector"),
            Flag::new("skip-wait-for-delete-timeout", FlagType::Int64),
            Flag::new("chunk-size", FlagType::Int64).default("500"),
        ],
    ],
    drain,
);

fn nodes(call: &Invocation<'_>) -> Result<(Vec<Info>, Vec<CommandError>)> {
    let selecting = !call.flags.text("selector").is_empty();
    if call.args().is_empty() && !selecting {
        return Err(call.usage(format!("USAGE: {} NODE [flags]", call.command)));
    }
    if selecting && !call.args().is_empty() {
        return Err(call.usage("cannot specify both a node name and a --selector option"));
    }
    let mut words = vec!["nodes".to_owned()];
    words.extend(call.args().iter().map(|word| {
        word.strip_prefix("node/").or(word.strip_prefix("nodes/")).unwrap_or(word).to_owned()
    }));
    if call.args().iter().any(|word| word.contains('/')) {
        // Every word names its type.
        let of_type = |word: &String| {
            if word.contains('/') { word.clone() } else { format!("nodes/{word}") }
        };
        words = call.args().iter().map(of_type).collect();
    }
    let (infos, fails) =
        call.select(&words, BuilderOptions { fetch: true, ..BuilderOptions::default() })?;
    Ok((infos, fails))
}

fn cordon(call: &Invocation<'_>, on: bool) -> Result {
    let dry_run = DryRun::of(call)?;
    let (infos, fails) = nodes(call)?;
    CommandError::collect(fails)?;
    for info in infos {
        mark(call, &info, on, dry_run)?;
    }
    Ok(())
}

fn mark(call: &Invocation<'_>, info: &Info, on: bool, dry_run: DryRun) -> Result {
    let done = if on { "cordoned" } else { "uncordoned" };
    if (info.object["spec"]["unschedulable"].as_bool() == Some(true)) == on {
        call.print(&format!("node/{} already {done}{}\n", info.name, dry_run.suffix()));
        return Ok(());
    }
    if dry_run != DryRun::Client {
        let mut patch = Value::object();
        *patch["spec"].get_mut("unschedulable") = if on { true.into() } else { Value::Null };
        let query = if dry_run == DryRun::Server { "?dryRun=All" } else { "" };
        call.server()?.patch(&(info.path() + query), PatchType::Strategic, &patch)?;
    }
    call.print(&format!("node/{} {done}{}\n", info.name, dry_run.suffix()));
    Ok(())
}

fn drain(call: &Invocation<'_>) -> Result {
    let selector = Selector::parse(call.flags.text("pod-selector")).map_err(|_| {
        CommandError::error("--pod-selector=<pod_selector> must be a valid label selector")
    })?;
    let dry_run = DryRun::of(call)?;
    let (infos, fails) = nodes(call)?;
    CommandError::collect(fails)?;
    for info in &infos {
        mark(call, info, true, dry_run)?;
    }
    let (mut pending, mut fails) = (String::new(), Vec::new());
    for info in &infos {
        match drain_node(call, &info.name, &selector, dry_run) {
            Ok(()) => call.print(&format!("node/{} drained{}\n", info.name, dry_run.suffix())),
            Err(fail) => {
                call.print_err(&format!(
                    "error: unable to drain node {} due to error: {}, continuing command...",
                    quote(&info.name),
                    fail.message()
                ));
                pending += &format!("\n {}", info.name);
                fails.push(fail);
            }
        }
    }
    if !pending.is_empty() {
        call.print_err(&format!("There are pending nodes to be drained:{pending}"));
    }
    if fails.is_empty() {
        return Ok(());
    }
    // The errors of a node are an aggregate, even if there is only one: they are printed without `error: `.
    Err(CommandError::Aggregate(fails.into_iter().flat_map(CommandError::flatten).collect()))
}

/// Evicts or deletes the pods of a node.
fn drain_node(call: &Invocation<'_>, node: &str, selector: &Selector, dry_run: DryRun) -> Result {
    let pods = pod_filter::pods(call, node, selector)?;
    if let Some(warnings) = pods.warnings() {
        call.print_err(&format!("Warning: {warnings}"));
    }
    if dry_run == DryRun::Client {
        for pod in &pods.chosen {
            call.print(&format!("evicting pod {} (dry run)\n", full_name(pod)));
        }
        return Ok(());
    }
    remove::pods(call, &pods.chosen, dry_run).inspect_err(|fail| {
        let left =
            pod_filter::pods(call, node, selector).map(|left| left.chosen).unwrap_or_default();
        if !left.is_empty() {
            let names = left.iter().map(|pod| {
                format!("\npod/{}", pod["metadata"]["name"].as_str().unwrap_or_default())
            });
            call.print_err(&format!(
                "There are pending pods in node {} when an error occurred: {}{}",
                quote(node),
                fail.message(),
                names.collect::<String>()
            ));
        }
    })
}

fn full_name(pod: &Value) -> String {
    let (namespace, name) = names(pod);
    format!("{namespace}/{name}")
}

fn names(pod: &Value) -> (&str, &str) {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

/// Whether `--skip-wait-for-delete-timeout` says not to wait for the pod's deletion any longer.
fn is_skipped(call: &Invocation<'_>, pod: &Value) -> bool {
    let limit = call.flags.int("skip-wait-for-delete-timeout");
    let deleted = pod["metadata"]["deletionTimestamp"].as_str();
    let deleted = deleted.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    limit > 0 && deleted.is_some_and(|deleted| call.now() - deleted.as_second() > limit)
}
