//! Streams to and from containers: finds the pod and the container, and runs the session that carries several streams
//! over one connection.

mod session;
mod spdy;

use std::time::{Duration, Instant};

use object::{Value, selector::Selector};

use crate::{
    error::{CommandError, Result},
    invocation::Invocation,
    resources::escape,
    select::{BuilderOptions, Info},
};

pub(crate) use self::session::{Sizes, exchange, open};

/// The pod that a word names: by its own name, or one of those that an object selects.
pub(crate) fn pod_of(call: &Invocation<'_>, word: &str) -> Result<Value> {
    let words = if word.contains('/') {
        vec![word.to_owned()]
    } else {
        vec!["pods".to_owned(), word.to_owned()]
    };
    let (infos, fails) =
        call.select(&words, BuilderOptions { fetch: true, ..BuilderOptions::default() })?;
    CommandError::collect(fails)?;
    let Some(info) = infos.into_iter().next() else {
        return Err(CommandError::error("no pod is meant"));
    };
    if info.resource.kind == "Pod" && info.resource.group.is_empty() {
        return Ok(info.object);
    }
    let selector = selector_of(&info)?;
    let path =
        format!("/api/v1/namespaces/{}/pods?labelSelector={}", info.namespace, escape(&selector));
    let until = Instant::now()
        + Duration::from_nanos(call.flags.duration("pod-running-timeout").unsigned_abs());
    loop {
        let list = call.server()?.get(&path)?;
        let mut pods = list["items"].items().to_vec();
        pods.sort_by_key(rank);
        let count = pods.len();
        if let Some(pod) = pods.into_iter().next() {
            if count > 1 && call.command == "logs" {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                call.print_err(&format!("Found {count} pods, using pod/{name}"));
            }
            return Ok(pod);
        }
        if Instant::now() >= until {
            return Err(CommandError::error("timed out waiting for the condition"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// All pods that an object selects.
pub(crate) fn pods_of(call: &Invocation<'_>, word: &str) -> Result<Vec<Value>> {
    let (infos, fails) = call
        .select(&[word.to_owned()], BuilderOptions { fetch: true, ..BuilderOptions::default() })?;
    CommandError::collect(fails)?;
    let Some(info) = infos.into_iter().next() else { return Ok(Vec::new()) };
    let path = format!(
        "/api/v1/namespaces/{}/pods?labelSelector={}",
        info.namespace,
        escape(&selector_of(&info)?)
    );
    Ok(call.server()?.get(&path)?["items"].items().to_vec())
}

/// Sort key of pods: running ones come first, and of them the one that has been ready longest.
fn rank(pod: &Value) -> (bool, bool, bool, String) {
    let ready =
        pod["status"]["conditions"].items().iter().find(|c| c["type"].as_str() == Some("Ready"));
    let is_ready = ready.is_some_and(|c| c["status"].as_str() == Some("True"));
    let since = ready.and_then(|c| c["lastTransitionTime"].as_str()).unwrap_or_default();
    let assigned = pod["spec"]["nodeName"].as_str().is_some();
    (!assigned, pod["status"]["phase"].as_str() != Some("Running"), !is_ready, since.to_owned())
}

fn selector_of(info: &Info) -> Result<String> {
    let spec = &info.object["spec"]["selector"];
    let labels = || {
        Selector::from_labels(
            spec.entries().map(|(name, value)| (name, value.as_str().unwrap_or_default())),
        )
    };
    match info.resource.kind.as_str() {
        "Service" if spec.is_null() => Err(CommandError::error(format!(
            "cannot attach to *v1.Service: invalid service '{}': Service is defined without a selector",
            info.name
        ))),
        "Service" | "ReplicationController" => Ok(labels().to_string()),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => {
            Selector::from_label_selector(spec)
                .map(|selector| selector.to_string())
                .map_err(|error| CommandError::error(error.to_string()))
        }
        kind => Err(CommandError::error(format!(
            "cannot attach to *v1.{kind}: selector for *v1.{kind} not implemented"
        ))),
    }
}

/// The container that was named; otherwise the one in the default-container annotation, or the first.
pub(crate) fn container_of(
    call: &Invocation<'_>,
    pod: &Value,
    named: &str,
    quiet: bool,
) -> Result<String> {
    let names = |list: &str, mark: &str| -> Vec<(String, String)> {
        let name = |c: &Value| c["name"].as_str().unwrap_or_default().to_owned();
        pod["spec"][list].items().iter().map(|c| (name(c), format!("{}{mark}", name(c)))).collect()
    };
    let mut all = names("containers", "");
    all.extend(names("initContainers", " (init)"));
    all.extend(names("ephemeralContainers", " (ephem)"));
    let shown: Vec<&str> = all.iter().map(|(_, shown)| shown.as_str()).collect();
    let shown = shown.join(", ");
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    if !named.is_empty() {
        return match all.iter().find(|(name, _)| name == named) {
            Some((name, _)) => Ok(name.clone()),
            None => Err(CommandError::error(format!(
                "container {named} is not valid for pod {pod_name} out of: {shown}"
            ))),
        };
    }
    let annotated =
        pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    if let Some(name) = annotated.filter(|name| all.iter().any(|(other, _)| other == name)) {
        return Ok(name.to_owned());
    }
    let first = all.first().map(|(name, _)| name.clone()).unwrap_or_default();
    if all.len() > 1 && !quiet {
        call.print_err(&format!(
            "Defaulted container {} out of: {shown}",
            object::quote::quote(&first)
        ));
    }
    Ok(first)
}

/// The error for a pod that was deleted while it was waited for.
pub(crate) fn no_such_pod() -> CommandError {
    let mut status = object::Status::default();
    status.set_reason("NotFound");
    status.set_message("pods \"\" not found");
    CommandError::Server { status, doing: String::new() }
}
