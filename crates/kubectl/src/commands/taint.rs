//! `taint`: sets and removes taints of nodes.

use object::{Value, names, quote::quote};

use super::{ALL, Command, DRY_RUN, DryRun, FIELD_MANAGER, SELECTOR, VALIDATE, write_query};
use crate::{
    error::{CommandError, Result},
    flags::Flag,
    invocation::Invocation,
    print::{self, OutputFormat},
    select::BuilderOptions,
    server::PatchType,
};

pub(crate) const COMMAND: Command = Command::new(
    "taint",
    &[SELECTOR, ALL, DRY_RUN, FIELD_MANAGER, VALIDATE, print::FLAGS, &[Flag::bool("overwrite")]],
    run,
);

/// A taint to set or remove.
#[derive(Clone, PartialEq)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

fn run(call: &Invocation<'_>) -> Result {
    let is_change = |word: &String| word.contains('=') || word.contains(':') || word.ends_with('-');
    let split = call.args().iter().position(is_change).unwrap_or(call.args().len());
    let (words, changes) = call.args().split_at(split);
    if let Some(word) = changes.iter().find(|word| !is_change(word)) {
        return Err(CommandError::error(format!(
            "all resources must be specified before taint changes: {word}"
        )));
    }
    if words.is_empty() {
        return Err(CommandError::error(
            "one or more resources must be specified as <resource> <name>",
        ));
    }
    if changes.is_empty() {
        return Err(CommandError::error("at least one taint update is required"));
    }
    let selecting = !call.flags.text("selector").is_empty() || call.flags.is_true("all");
    let (put, remove) = read(call, changes)?;
    if words.len() < 2 && !selecting {
        return Err(CommandError::error(
            "at least one resource name must be specified since 'all' parameter is not set",
        ));
    }
    for taint in &remove {
        if put.iter().any(|other| {
            other.key == taint.key && (taint.effect.is_empty() || other.effect == taint.effect)
        }) {
            let shown = if taint.effect.is_empty() {
                format!("{}=", taint.key)
            } else {
                format!("{}={}", taint.key, taint.effect)
            };
            return Err(CommandError::error(format!(
                "can not both modify and remove the following taint(s) in the same command: {shown}"
            )));
        }
    }
    let kind = words[0].as_str();
    let found = call.resources()?.find(kind).map_err(|fail| CommandError::Raw(fail.message()))?;
    if found.qualified() != "nodes" {
        return Err(CommandError::error(format!(
            "invalid resource type {kind}, only node types are supported"
        )));
    }
    // Names are not read if a selector or --all chooses the nodes.
    let words = if selecting { &words[..1] } else { words };
    let dry_run = DryRun::of(call)?;
    let output = OutputFormat::of(call, false)?;
    let query = write_query(call, dry_run, "kubectl-taint")?;
    let (infos, mut fails) =
        call.select(words, BuilderOptions { fetch: true, ..BuilderOptions::default() })?;
    for info in infos {
        match one(call, &info, &put, &remove, &query, dry_run) {
            Ok((object, done)) => output.print(call, &object, done)?,
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

fn read(call: &Invocation<'_>, changes: &[String]) -> Result<(Vec<Taint>, Vec<Taint>)> {
    let (mut put, mut remove): (Vec<Taint>, Vec<Taint>) = (Vec::new(), Vec::new());
    for spec in changes {
        let wrong = |why: String| call.usage(format!("invalid taint spec: {spec}, {why}"));
        let (body, dropped) =
            spec.strip_suffix('-').map_or((spec.as_str(), false), |body| (body, true));
        if body.matches(':').count() > 1 {
            return Err(call.usage(format!("invalid taint spec: {spec}")));
        }
        let (pair, effect) = match body.split_once(':') {
            Some((pair, effect)) => (pair, effect),
            None if dropped => (body, ""),
            // Without an effect, the whole is parsed as a key.
            None => {
                let bad = names::qualified_name(body);
                return Err(wrong(bad.join("; ")));
            }
        };
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if value.contains('=') {
            return Err(call.usage(format!("invalid taint spec: {spec}")));
        }
        let bad = names::qualified_name(key);
        if !bad.is_empty() {
            return Err(wrong(bad.join("; ")));
        }
        let bad = names::label_value(value);
        if !bad.is_empty() {
            return Err(wrong(bad.join("; ")));
        }
        let known = matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute");
        let any = dropped && effect.is_empty();
        if !known && !any {
            return Err(
                call.usage(format!("invalid taint effect: {effect}, unsupported taint effect"))
            );
        }
        let taint = Taint { key: key.into(), value: value.into(), effect: effect.into() };
        if dropped {
            remove.push(taint);
            continue;
        }
        if put.iter().any(|other| other.key == taint.key && other.effect == taint.effect) {
            return Err(call.usage(format!(
                "duplicated taints with the same key and effect: {{{key} {value} {effect} <nil>}}"
            )));
        }
        put.push(taint);
    }
    Ok((put, remove))
}

#[expect(clippy::too_many_arguments, reason = "the change, and how it is made")]
fn one(
    call: &Invocation<'_>,
    info: &crate::select::Info,
    put: &[Taint],
    remove: &[Taint],
    query: &str,
    dry_run: DryRun,
) -> Result<(Value, &'static str)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let same = |value: &Value, taint: &Taint| {
        text(&value["key"]) == taint.key
            && (taint.effect.is_empty() || text(&value["effect"]) == taint.effect)
    };
    let there = info.object["spec"]["taints"].items().to_vec();
    let mut taints = there.clone();
    for taint in remove {
        let before = taints.len();
        taints.retain(|value| !same(value, taint));
        if taints.len() == before {
            let shown = if taint.effect.is_empty() {
                taint.key.clone()
            } else {
                format!("{}:{}", taint.key, taint.effect)
            };
            return Err(CommandError::error(format!("taint {} not found", quote(&shown))));
        }
    }
    for (at, taint) in put.iter().enumerate() {
        let exists = taints.iter().any(|value| same(value, taint));
        if exists && !call.flags.is_true("overwrite") {
            return Err(CommandError::error(format!(
                "node {} already has {} taint(s) with same effect(s) and --overwrite is false",
                info.name, taint.key
            )));
        }
        taints.retain(|value| !same(value, taint));
        let mut made = Value::object();
        made["key"] = taint.key.as_str().into();
        made["effect"] = taint.effect.as_str().into();
        if !taint.value.is_empty() {
            made["value"] = taint.value.as_str().into();
        }
        taints.insert(at.min(taints.len()), made);
    }
    let done = match (put.is_empty(), remove.is_empty()) {
        (true, _) => "untainted",
        (false, true) if !call.flags.is_true("overwrite") => "tainted",
        _ => "modified",
    };
    let mut object = info.object.clone();
    let mut patch = Value::object();
    *patch["spec"].get_mut("taints") =
        if taints.is_empty() { Value::Null } else { Value::List(taints.into()) };
    if dry_run == DryRun::Client {
        object["spec"]["taints"] = patch["spec"]["taints"].clone();
    } else {
        object = call.server()?.patch(&(info.path() + query), PatchType::Merge, &patch)?;
    }
    Ok((object, done))
}
