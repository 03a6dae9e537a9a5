//! `cordon`, `uncordon` and `drain`: take nodes out of service and back.

use std::time::{Duration, Instant};

use object::{Value, selector::Selector};

use super::{Command, DRY_RUN, DryRun, SELECTOR, create::tree};
use crate::{
    call::Call,
    fail::{Fail, Result},
    flags::{Flag, Kind},
    resources::escape,
    select::{How, Info},
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
            Flag::new("grace-period", Kind::Int64).default("-1"),
            Flag::new("timeout", Kind::Duration),
            Flag::text("pod-selector"),
            Flag::new("skip-wait-for-delete-timeout", Kind::Int64),
            Flag::new("chunk-size", Kind::Int64).default("500"),
        ],
    ],
    drain,
);

fn nodes(call: &Call<'_>) -> Result<(Vec<Info>, Vec<Fail>)> {
    let selecting = !call.flags.text("selector").is_empty();
    if call.words().is_empty() && !selecting {
        return Err(call.usage(format!("USAGE: {} NODE [flags]", call.command)));
    }
    if selecting && !call.words().is_empty() {
        return Err(call.usage("cannot specify both a node name and a --selector option"));
    }
    let mut words = vec!["nodes".to_owned()];
    words.extend(call.words().iter().map(|word| {
        word.strip_prefix("node/").or(word.strip_prefix("nodes/")).unwrap_or(word).to_owned()
    }));
    let (infos, fails) = call.select(&words, How { fetch: true, ..How::default() })?;
    if infos.is_empty() && fails.is_empty() {
        return Err(Fail::error("No resources found"));
    }
    Ok((infos, fails))
}

fn cordon(call: &Call<'_>, on: bool) -> Result {
    let dry_run = DryRun::of(call)?;
    let (infos, fails) = nodes(call)?;
    Fail::collect(fails)?;
    for info in infos {
        mark(call, &info, on, dry_run)?;
    }
    Ok(())
}

fn mark(call: &Call<'_>, info: &Info, on: bool, dry_run: DryRun) -> Result {
    let done = if on { "cordoned" } else { "uncordoned" };
    if (info.object["spec"]["unschedulable"].as_bool() == Some(true)) == on {
        call.out(&format!("node/{} already {done}{}\n", info.name, dry_run.suffix()));
        return Ok(());
    }
    if dry_run != DryRun::Client {
        let mut patch = Value::object();
        *patch["spec"].get_mut("unschedulable") = if on { true.into() } else { Value::Null };
        let query = if dry_run == DryRun::Server { "?dryRun=All" } else { "" };
        call.server()?.patch(&(info.path() + query), PatchType::Strategic, &patch)?;
    }
    call.out(&format!("node/{} {done}{}\n", info.name, dry_run.suffix()));
    Ok(())
}

fn drain(call: &Call<'_>) -> Result {
    let selector = Selector::parse(call.flags.text("pod-selector"))
        .map_err(|_| Fail::error("--pod-selector=<pod_selector> must be a valid label selector"))?;
    let dry_run = DryRun::of(call)?;
    let (infos, fails) = nodes(call)?;
    Fail::collect(fails)?;
    for info in &infos {
        mark(call, info, true, dry_run)?;
    }
    let mut fails = Vec::new();
    for info in &infos {
        match empty(call, info, &selector, dry_run) {
            Ok(()) => call.out(&format!("node/{} drained{}\n", info.name, dry_run.suffix())),
            Err(fail) => {
                let words = fail.words();
                call.say(&format!("There are pending nodes to be drained:\n {}", info.name));
                fails.push(Fail::error(format!(
                    "unable to drain node {} due to error: {words}, continuing command...",
                    object::quote::quote(&info.name)
                )));
            }
        }
    }
    Fail::collect(fails)
}

/// What a pod's state means for a drain.
enum Fate {
    Evict,
    Leave,
    Warn(&'static str),
    Refuse(&'static str),
}

fn empty(call: &Call<'_>, node: &Info, selector: &Selector, dry_run: DryRun) -> Result {
    let mut path =
        format!("/api/v1/pods?fieldSelector={}", escape(&format!("spec.nodeName={}", node.name)));
    if !selector.is_empty() {
        path += &format!("&labelSelector={}", escape(&selector.to_string()));
    }
    let list = call.server()?.get(&path)?;
    let (mut evict, mut warnings, mut errors) =
        (Vec::new(), Vec::<(&str, Vec<String>)>::new(), Vec::<(&str, Vec<String>)>::new());
    for pod in list["items"].items() {
        let name = full_name(pod);
        let note = |all: &mut Vec<(&'static str, Vec<String>)>, text: &'static str| match all
            .iter_mut()
            .find(|(other, _)| *other == text)
        {
            Some((_, names)) => names.push(name.clone()),
            None => all.push((text, vec![name.clone()])),
        };
        for fate in fates(call, pod) {
            match fate {
                Fate::Warn(text) => note(&mut warnings, text),
                Fate::Refuse(text) => note(&mut errors, text),
                Fate::Evict => evict.push(pod.clone()),
                Fate::Leave => {}
            }
        }
    }
    if !errors.is_empty() {
        errors.sort_by(|a, b| a.0.cmp(b.0));
        let texts: Vec<String> = errors
            .iter()
            .map(|(text, names)| format!("cannot delete {text}: {}", names.join(", ")))
            .collect();
        return Err(Fail::error(if texts.len() == 1 {
            texts[0].clone()
        } else {
            format!("[{}]", texts.join(", "))
        }));
    }
    if !warnings.is_empty() {
        warnings.sort_by(|a, b| a.0.cmp(b.0));
        let texts: Vec<String> =
            warnings.iter().map(|(text, names)| format!("{text}: {}", names.join(", "))).collect();
        call.say(&format!("Warning: {}", texts.join("; ")));
    }
    for pod in &evict {
        remove(call, pod, dry_run)?;
    }
    if dry_run == DryRun::No {
        for pod in &evict {
            await_end(call, pod)?;
        }
    }
    Ok(())
}

fn full_name(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

fn fates(call: &Call<'_>, pod: &Value) -> Vec<Fate> {
    let over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let owner = pod["metadata"]["ownerReferences"]
        .items()
        .iter()
        .find(|owner| owner["controller"].as_bool() == Some(true));
    if !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
        return vec![Fate::Leave];
    }
    let mut fates = Vec::new();
    if owner.is_some_and(|owner| owner["kind"].as_str() == Some("DaemonSet")) && !over {
        return vec![if call.flags.on("ignore-daemonsets") {
            Fate::Warn("ignoring DaemonSet-managed Pods")
        } else {
            Fate::Refuse("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
        }];
    }
    let local = pod["spec"]["volumes"].items().iter().any(|volume| !volume["emptyDir"].is_null());
    if local && !over && !call.flags.on("delete-emptydir-data") {
        return vec![Fate::Refuse(
            "Pods with local storage (use --delete-emptydir-data to override)",
        )];
    }
    if owner.is_none() && !over {
        if !call.flags.on("force") {
            return vec![Fate::Refuse("Pods that declare no controller (use --force to override)")];
        }
        fates.push(Fate::Warn("deleting Pods that declare no controller"));
    }
    fates.push(Fate::Evict);
    fates
}

fn remove(call: &Call<'_>, pod: &Value, dry_run: DryRun) -> Result {
    let name = full_name(pod);
    let (namespace, short) = name.split_once('/').unwrap_or_default();
    let doing = if call.flags.on("disable-eviction") { "deleting" } else { "evicting" };
    call.out(&format!("{doing} pod {name}{}\n", dry_run.suffix()));
    if dry_run == DryRun::Client {
        return Ok(());
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods/{short}");
    let mut options = tree("{apiVersion: v1, kind: DeleteOptions}");
    if call.flags.int("grace-period") >= 0 {
        options["gracePeriodSeconds"] = call.flags.int("grace-period").into();
    }
    if dry_run == DryRun::Server {
        options["dryRun"] = tree("[All]");
    }
    let until = deadline(call);
    loop {
        let sent = if call.flags.on("disable-eviction") {
            call.server()?.delete(&path, &options)
        } else {
            let mut eviction = tree("{apiVersion: policy/v1, kind: Eviction, metadata: {}}");
            eviction["metadata"]["name"] = short.into();
            eviction["metadata"]["namespace"] = namespace.into();
            eviction["deleteOptions"] = options.clone();
            call.server()?.post(&format!("{path}/eviction"), &eviction)
        };
        match sent {
            Ok(_) => return Ok(()),
            Err(fail) if fail.is_not_found() => return Ok(()),
            Err(Fail::Server { status, .. })
                if status.code() == 429 && until.is_none_or(|until| Instant::now() < until) =>
            {
                call.say(&format!(
                    "error when evicting pods/{} -n {} (will retry after 5s): {}",
                    object::quote::quote(short),
                    object::quote::quote(namespace),
                    status.message()
                ));
                std::thread::sleep(Duration::from_secs(5));
            }
            Err(fail) => {
                return Err(Fail::error(format!(
                    "error when {doing} pods/{} -n {}: {}",
                    object::quote::quote(short),
                    object::quote::quote(namespace),
                    fail.words()
                )));
            }
        }
    }
}

fn deadline(call: &Call<'_>) -> Option<Instant> {
    let timeout = call.flags.duration("timeout");
    (timeout > 0).then(|| Instant::now() + Duration::from_nanos(timeout.unsigned_abs()))
}

fn await_end(call: &Call<'_>, pod: &Value) -> Result {
    let name = full_name(pod);
    let (namespace, short) = name.split_once('/').unwrap_or_default();
    let until = deadline(call);
    loop {
        match call.server()?.get(&format!("/api/v1/namespaces/{namespace}/pods/{short}")) {
            Err(fail) if fail.is_not_found() => break,
            Err(fail) => return Err(fail),
            Ok(now) if now["metadata"]["uid"] != pod["metadata"]["uid"] => break,
            Ok(_) if until.is_some_and(|until| Instant::now() >= until) => {
                return Err(Fail::error(format!(
                    "drain did not complete within {}",
                    call.flags.text("timeout")
                )));
            }
            Ok(_) => std::thread::sleep(Duration::from_secs(1)),
        }
    }
    let done = if call.flags.on("disable-eviction") { "deleted" } else { "evicted" };
    call.out(&format!("pod/{short} {done}\n"));
    Ok(())
}
