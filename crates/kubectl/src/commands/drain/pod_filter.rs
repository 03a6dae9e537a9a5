//! Selects the pods of a node that a drain removes.

use object::{Value, selector::Selector};

use super::{full_name, is_skipped, names};
use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    resources::escape,
};

/// Whether a drain removes a pod.
#[derive(Debug, PartialEq)]
enum Verdict {
    Remove,
    RemoveWithWarning(String),
    Leave,
    LeaveWithWarning(String),
    Refuse(String),
}

/// The pods to remove, and warnings.
#[derive(Debug, Default)]
pub(super) struct Pods {
    pub(super) chosen: Vec<Value>,
    /// Warnings, each with the names of its pods.
    warnings: Vec<(String, Vec<String>)>,
}

impl Pods {
    /// All warnings as one text; `None` if there are none.
    pub(super) fn warnings(&self) -> Option<String> {
        let texts =
            self.warnings.iter().map(|(text, names)| format!("{text}: {}", names.join(", ")));
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// The pods of a node that a drain removes; an error if there are pods that it must not remove.
pub(super) fn pods(call: &Invocation<'_>, node: &str, selector: &Selector) -> Result<Pods> {
    let mut query = format!("fieldSelector={}", escape(&format!("spec.nodeName={node}")));
    if !selector.is_empty() {
        query += &format!("&labelSelector={}", escape(&selector.to_string()));
    }
    if call.flags.int("chunk-size") > 0 {
        query += &format!("&limit={}", call.flags.int("chunk-size"));
    }
    let (mut pods, mut errors, mut next) = (Pods::default(), Vec::new(), String::new());
    loop {
        let list = call.server()?.get(&format!("/api/v1/pods?{query}{next}"))?;
        for pod in list["items"].items() {
            match verdict(call, pod)? {
                Verdict::Remove => pods.chosen.push(pod.clone()),
                Verdict::RemoveWithWarning(text) => {
                    note(&mut pods.warnings, text, pod);
                    pods.chosen.push(pod.clone());
                }
                Verdict::Leave => {}
                Verdict::LeaveWithWarning(text) => note(&mut pods.warnings, text, pod),
                Verdict::Refuse(text) => note(&mut errors, text, pod),
            }
        }
        match list["metadata"]["continue"].as_str() {
            Some(more) if !more.is_empty() => next = format!("&continue={}", escape(more)),
            _ => break,
        }
    }
    pods.warnings.sort();
    errors.sort();
    let refused = errors.iter().map(|(text, names)| {
        CommandError::error(format!("cannot delete {text}: {}", names.join(", ")))
    });
    CommandError::collect(refused.collect()).map(|()| pods)
}

fn note(all: &mut Vec<(String, Vec<String>)>, text: String, pod: &Value) {
    match all.iter_mut().find(|(other, _)| *other == text) {
        Some((_, names)) => names.push(full_name(pod)),
        None => all.push((text, vec![full_name(pod)])),
    }
}

fn verdict(call: &Invocation<'_>, pod: &Value) -> Result<Verdict> {
    if is_skipped(call, pod) {
        return Ok(Verdict::Leave);
    }
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let owner = pod["metadata"]["ownerReferences"]
        .items()
        .iter()
        .find(|owner| owner["controller"].as_bool() == Some(true));
    if let Some(owner) = owner
        && owner["kind"].as_str() == Some("DaemonSet")
        && owner["apiVersion"].as_str() == Some("apps/v1")
        && !is_over
        && let Some(verdict) = of_daemon_set(call, pod, owner)?
    {
        return Ok(verdict);
    }
    if !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
        return Ok(Verdict::Leave);
    }
    let is_local = |volume: &Value| !volume["emptyDir"].is_null();
    let is_local = pod["spec"]["volumes"].items().iter().any(is_local);
    Ok(if is_local && !is_over && !call.flags.is_true("delete-emptydir-data") {
        let text = "Pods with local storage (use --delete-emptydir-data to override)";
        Verdict::Refuse(text.to_owned())
    } else if owner.is_some() || is_over {
        Verdict::Remove
    } else if call.flags.is_true("force") {
        Verdict::RemoveWithWarning("deleting Pods that declare no controller".to_owned())
    } else {
        let text = "Pods that declare no controller (use --force to override)";
        Verdict::Refuse(text.to_owned())
    })
}

/// The verdict on a pod of a DaemonSet, which would recreate it at once. `None` if the DaemonSet does not exist any
/// more and `--force` is given.
fn of_daemon_set(call: &Invocation<'_>, pod: &Value, owner: &Value) -> Result<Option<Verdict>> {
    let name = owner["name"].as_str().unwrap_or_default();
    let path = format!("/apis/apps/v1/namespaces/{}/daemonsets/{name}", names(pod).0);
    Ok(Some(match call.server()?.get(&path) {
        Err(fail) if fail.is_not_found() && call.flags.is_true("force") => return Ok(None),
        Err(fail) => Verdict::Refuse(fail.message()),
        Ok(_) if call.flags.is_true("ignore-daemonsets") => {
            Verdict::LeaveWithWarning("ignoring DaemonSet-managed Pods".to_owned())
        }
        Ok(_) => {
            let text = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)";
            Verdict::Refuse(text.to_owned())
        }
    }))
}
