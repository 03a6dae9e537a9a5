//! `describe`: prints details of objects, with their events.

use super::{ALL_NAMESPACES, CHUNKS, Command, FILES, SELECTOR};
use crate::{
    describe,
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    select::{BuilderOptions, Target, target},
};

pub(crate) const COMMAND: Command = Command::new(
    "describe",
    &[FILES, SELECTOR, ALL_NAMESPACES, CHUNKS, &[Flag::bool("show-events").default("true")]],
    run,
);

fn run(call: &Invocation<'_>) -> Result {
    if call.args().is_empty() && !call.has_files() {
        return Err(CommandError::error(
            "You must specify the type of resource to describe. Use \"kubectl api-resources\" for a complete list of supported resources.",
        ));
    }
    let how = BuilderOptions {
        fetch: true,
        default_namespace: true,
        all_by_default: true,
        aggregates_unread: true,
        ..BuilderOptions::default()
    };
    let (infos, mut fails) = call.select(call.args(), how)?;
    if infos.is_empty() && fails.len() == 1 && fails[0].is_not_found() {
        // A name that does not exist may be a prefix of names.
        let found = by_prefix(call)?;
        if !found.is_empty() {
            // Each ends with an empty line, and events are printed only if the flag is given.
            let events = call.flags.is_true("show-events") && call.flags.is_set("show-events");
            for info in &found {
                call.print(&(describe::describe(call, info, events)? + "\n"));
            }
            return Ok(());
        }
    }
    // Events of several objects are printed only if the flag is given.
    let alone = infos.len() == 1 && fails.is_empty();
    let events = call.flags.is_true("show-events") && (alone || call.flags.is_set("show-events"));
    for (at, info) in infos.iter().enumerate() {
        match describe::describe(call, info, events) {
            Ok(text) if at == 0 => call.print(&text),
            Ok(text) => call.print(&format!("\n\n{text}")),
            Err(fail) => fails.push(fail),
        }
    }
    if infos.is_empty() && fails.is_empty() {
        if call.flags.is_true("all-namespaces") {
            call.print_err("No resources found");
        } else {
            call.print_err(&format!("No resources found in {} namespace.", call.namespace()?));
        }
    }
    CommandError::collect(fails)
}

fn by_prefix(call: &Invocation<'_>) -> Result<Vec<crate::select::Info>> {
    if call.has_files() {
        return Ok(Vec::new());
    }
    let Target::Named(named) = target(call.args())? else { return Ok(Vec::new()) };
    let [(word, prefix)] = &named[..] else { return Ok(Vec::new()) };
    let resource = call.resources()?.find(word)?.clone();
    let list = call.list(&resource)?;
    let kind = list["kind"].as_str().unwrap_or_default();
    let kind = kind.strip_suffix("List").unwrap_or(kind);
    let infos = list["items"].items().iter().map(|item| {
        let mut item = item.clone();
        item["kind"] = kind.into();
        item["apiVersion"] = list["apiVersion"].clone();
        crate::select::Info::of(&resource, item)
    });
    Ok(infos.filter(|info| info.name.starts_with(prefix.as_str())).collect())
}
