//! `rollout history` and `rollout undo`: earlier revisions of workloads.

use object::{Value, quote::quote};

use super::{dry_run, workloads};
use crate::{
    commands::DryRun,
    describe::pod_template,
    error::{CommandError, Result},
    invocation::Invocation,
    merge::merge_patch,
    print::tabwriter::SHEET,
    resources::escape,
    select::Info,
    server::PatchType,
};

/// A revision of a workload: the ReplicaSet or ControllerRevision that stores it, and its pod template.
struct Revision {
    number: i64,
    object: Value,
    template: Value,
}

pub(super) fn run(call: &Invocation<'_>) -> Result {
    let wanted = call.flags.int("revision");
    let given = crate::print::OutputFormat::of(call, false)?;
    if wanted < 0 {
        return Err(CommandError::error(format!("revision must be a positive integer: {wanted}")));
    }
    let (infos, mut fails) = workloads(call)?;
    for info in infos {
        let all = match revisions(call, &info) {
            Ok(all) => all,
            Err(fail) => {
                fails.push(fail);
                continue;
            }
        };
        if !given.is_human() {
            let mut some = all.iter().filter(|r| wanted == 0 || r.number == wanted).peekable();
            if wanted > 0 && some.peek().is_none() {
                fails.push(CommandError::error("unable to find the specified revision"));
            }
            for revision in some {
                given.print_declared(call, &kept(&info, revision), "")?;
            }
            continue;
        }
        if wanted == 0 {
            call.print(&format!("{} \n{}\n", info.named(), table(&all)));
            continue;
        }
        if all.is_empty() {
            call.print(&format!(
                "{} with revision #{wanted}\nNo rollout history found.\n",
                info.named()
            ));
            continue;
        }
        let Some(revision) = all.iter().find(|revision| revision.number == wanted) else {
            fails.push(CommandError::error("unable to find the specified revision"));
            continue;
        };
        let mut template = revision.template.clone();
        let cause = &revision.object["metadata"]["annotations"]["kubernetes.io/change-cause"];
        if !cause.is_null() && info.resource.kind == "Deployment" {
            template["metadata"]["annotations"]["kubernetes.io/change-cause"] = cause.clone();
        }
        call.print(&format!(
            "{} with revision #{wanted}\n{}\n",
            info.named(),
            pod_template(&template)
        ));
    }
    CommandError::collect(fails)
}

/// The object that a revision is printed as: the ReplicaSet of a Deployment, or the workload as it was.
fn kept(info: &Info, revision: &Revision) -> Value {
    if info.resource.kind == "Deployment" {
        return revision.object.clone();
    }
    let mut object = info.object.clone();
    object["spec"]["template"] = revision.template.clone();
    crate::print::typed::fill_zero_values(&mut object);
    object
}

fn table(all: &[Revision]) -> String {
    if all.is_empty() {
        return "No rollout history found.".to_owned();
    }
    let mut text = "REVISION\tCHANGE-CAUSE\n".to_owned();
    for revision in all {
        let cause = revision.object["metadata"]["annotations"]["kubernetes.io/change-cause"]
            .as_str()
            .unwrap_or("<none>");
        text += &format!("{}\t{cause}\n", revision.number);
    }
    SHEET.align(&text)
}

/// Fails unless the kind keeps revisions, with the words for a known kind of workload or for any other kind.
fn visit(info: &Info, retrieved: &str, needed: &str) -> Result {
    info.resource.require_type()?;
    let (group, kind) = (info.resource.group.as_str(), info.resource.kind.as_str());
    let known = matches!(
        (group, kind),
        ("apps", "ReplicaSet")
            | ("batch", "Job" | "CronJob")
            | ("", "Pod" | "ReplicationController")
    );
    match (group, kind) {
        ("apps", "Deployment" | "DaemonSet" | "StatefulSet") => Ok(()),
        _ if known => Err(CommandError::error(format!(
            "no {needed} has been implemented for {}",
            quote(&info.resource.group_kind())
        ))),
        _ => Err(CommandError::error(format!(
            "error retrieving {retrieved} for {}, no visitor method exists for {{{group} {kind}}}",
            quote(&info.resource.group_kind())
        ))),
    }
}

/// All stored revisions, the oldest first.
fn revisions(call: &Invocation<'_>, info: &Info) -> Result<Vec<Revision>> {
    let kind = info.resource.kind.as_str();
    visit(info, "history", "history viewer")?;
    let plural = if kind == "Deployment" { "replicasets" } else { "controllerrevisions" };
    let selector =
        object::selector::Selector::from_label_selector(&info.object["spec"]["selector"])
            .map_err(|error| CommandError::error(error.to_string()))?;
    let path = format!(
        "/apis/apps/v1/namespaces/{}/{plural}?labelSelector={}",
        info.namespace,
        escape(&selector.to_string())
    );
    let list = call.server()?.get(&path)?;
    let uid = &info.object["metadata"]["uid"];
    let owned = |item: &&Value| {
        item["metadata"]["ownerReferences"]
            .items()
            .iter()
            .any(|o| o["uid"] == *uid && o["controller"].as_bool() == Some(true))
    };
    let mut all = Vec::new();
    for item in list["items"].items().iter().filter(owned) {
        let mut keeper = item.clone();
        if kind == "Deployment" {
            keeper["apiVersion"] = "apps/v1".into();
            keeper["kind"] = "ReplicaSet".into();
            let number = item["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
                .as_str()
                .unwrap_or_default();
            let number: i64 = number.parse().unwrap_or(0);
            let template = item["spec"]["template"].clone();
            all.push(Revision { number, object: keeper, template });
        } else {
            keeper["apiVersion"] = "apps/v1".into();
            keeper["kind"] = "ControllerRevision".into();
            let mut whole = info.object.clone();
            let data = &item["data"];
            if data["spec"]["template"]["$patch"].as_str() == Some("replace") {
                whole["spec"]["template"] = data["spec"]["template"].clone();
                whole["spec"]["template"].remove("$patch");
            } else {
                merge_patch(&mut whole, data);
            }
            all.push(Revision {
                number: item["revision"].as_i64().unwrap_or(0),
                object: keeper,
                template: whole["spec"]["template"].clone(),
            });
        }
    }
    all.sort_by_key(|revision| revision.number);
    Ok(all)
}

pub(super) fn undo(call: &Invocation<'_>) -> Result {
    let (dry_run, output) = dry_run(call)?;
    let to = call.flags.int("to-revision");
    let (infos, mut fails) = workloads(call)?;
    for info in infos {
        match undo_one(call, &info, to, dry_run) {
            Ok(Ok(object)) => {
                output.print(call, &object, &format!("rolled back{}", dry_run.suffix()))?;
            }
            Ok(Err(done)) => {
                output.print(call, &info.object, &format!("{done}{}", dry_run.suffix()))?;
            }
            Err(fail) => fails.push(fail),
        }
    }
    CommandError::collect(fails)
}

/// Rolls back one workload. Returns the patched object, or a message if nothing was written.
fn undo_one(
    call: &Invocation<'_>,
    info: &Info,
    to: i64,
    dry_run: DryRun,
) -> Result<std::result::Result<Value, String>> {
    let kind = info.resource.kind.as_str();
    let lower = kind.to_lowercase();
    visit(info, "rollbacker", "rollbacker")?;
    if to < 0 {
        return Err(CommandError::error(format!(
            "unable to find specified revision {to} in history"
        )));
    }
    let all = revisions(call, info)?;
    if kind == "Deployment" {
        if all.is_empty() || to == 0 && all.len() < 2 {
            return Err(CommandError::error(format!(
                "no rollout history found for {lower} {}",
                quote(&info.name)
            )));
        }
        if info.object["spec"]["paused"].as_bool() == Some(true) {
            return Err(CommandError::error(
                "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again",
            ));
        }
    } else if to == 0 && all.len() < 2 {
        return Err(CommandError::error("no last revision to roll back to"));
    }
    let chosen = if to == 0 {
        all.len().checked_sub(2).map(|at| &all[at])
    } else {
        all.iter().find(|r| r.number == to)
    };
    let Some(revision) = chosen else {
        return Err(CommandError::error(format!(
            "unable to find specified revision {to} in history"
        )));
    };
    if dry_run == DryRun::Client {
        let text = pod_template(&revision.template);
        let text = if kind == "Deployment" { text } else { format!("will roll back to {text}") };
        return Ok(Err(text));
    }
    let mut template = revision.template.clone();
    if kind == "Deployment" {
        template["metadata"]["labels"].remove("pod-template-hash");
    }
    if template == info.object["spec"]["template"] {
        let number = revision.number;
        return Ok(Err(format!(
            "skipped rollback (current template already matches revision {number})"
        )));
    }
    let mut change = Value::object();
    change["op"] = "replace".into();
    change["path"] = "/spec/template".into();
    change["value"] = template;
    let patch = Value::List([change].into_iter().collect());
    let query = if dry_run == DryRun::Server { "?dryRun=All" } else { "" };
    Ok(Ok(call.server()?.patch(&(info.path() + query), PatchType::Json, &patch)?))
}
