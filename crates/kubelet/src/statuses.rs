//! Status manager: writes pod statuses to the API server when they change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use api::core::Pod;
use client::{DeleteParams, Error, Patch};
use object::{Lens, NamespacedName, Text, Value};
use runtime::{CachedApi, WorkQueue};
use schema::Kind;
use tracing::warn;

use crate::{
    KubeletContext,
    pod::{KUBELET_CONDITIONS, TERMINATION_BY_KUBELET},
    source::mirror,
    status_size::{without_containers, without_details},
};

const STATUS_WORKERS: usize = 8;
/// Fields of a pod status that the kubelet owns: they are removed when the new status lacks them.
const OWNED_FIELDS: [&str; 12] = [
    "phase",
    "reason",
    "message",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "qosClass",
    "startTime",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
];

/// The latest status of every pod, and the queue of those to write.
#[derive(Debug, Default)]
pub(crate) struct StatusManager {
    pending: Mutex<HashMap<String, VersionedStatus>>,
    queue: WorkQueue<Text>,
}

/// The latest status of a pod, and the last one that was written.
#[derive(Clone, Debug)]
struct VersionedStatus {
    key: NamespacedName,
    is_static: bool,
    status: Value,
    /// The status that this kubelet last wrote to the API server.
    written: Option<Value>,
    ended: bool,
}

impl StatusManager {
    /// Queues a status for writing, unless it has not changed.
    pub(crate) fn report(&self, pod: &Pod, is_static: bool, status: Value) {
        let meta = pod.metadata();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pending.entry(meta.uid().into()).or_insert_with(|| VersionedStatus {
            key: NamespacedName::from_meta(meta),
            is_static,
            status: Value::Null,
            written: None,
            ended: false,
        });
        if known.status == status && known.written.is_some() {
            return;
        }
        known.status = status;
        self.queue.add(meta.uid().into());
    }

    /// Marks a pod as terminated: once its last status is written, its API object is removed if it is being deleted.
    pub(crate) fn mark_terminated(&self, uid: &str) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pending.get_mut(uid) {
            known.ended = true;
        }
        self.queue.add(uid.into());
    }

    /// The latest status, which may not be written yet.
    pub(crate) fn get(&self, uid: &str) -> Option<Value> {
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(uid)
            .map(|known| known.status.clone())
    }

    /// Queues a pod again, in case another client has overwritten its status.
    pub(crate) fn requeue(&self, uid: &str) {
        let known = self.pending.lock().unwrap_or_else(PoisonError::into_inner).contains_key(uid);
        if known {
            self.queue.add(uid.into());
        }
    }

    /// Starts the workers.
    pub(crate) fn start(host: &Arc<KubeletContext>) {
        for _ in 0..STATUS_WORKERS {
            let host = host.clone();
            let cx = host.cx.clone();
            cx.spawn("pod status", async move {
                loop {
                    let uid = host.statuses.queue.next().await;
                    let done = panics::contain("pod status", sync_pod(&host, &uid)).await;
                    let done = done.unwrap_or_else(|why| Err(Error::Invalid(why.to_string())));
                    if let Err(error) = &done
                        && !error.is_conflict()
                    {
                        warn!(%uid, %error, "cannot update the status of a pod; will retry");
                    }
                    host.statuses.queue.done(uid, done.is_ok());
                }
            });
        }
    }
}

/// Writes the status of a pod; deletes the object of a terminated pod that is being deleted.
async fn sync_pod(host: &Arc<KubeletContext>, uid: &str) -> Result<(), Error> {
    let known =
        host.statuses.pending.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned();
    let Some(known) = known else { return Ok(()) };
    let Some(objects) = &host.api_pods else {
        mark_written(host, uid, &known);
        return Ok(());
    };
    let found = objects.get(&known.key).filter(|pod| {
        if known.is_static { mirror::is_mirror_of(pod, uid) } else { pod.metadata().uid() == uid }
    });
    let Some(pod) = found else {
        if known.ended {
            host.statuses.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        }
        return Ok(());
    };
    let is_over = known.ended && !known.is_static && pod.metadata().is_terminating();
    match write(objects, &pod, &known).await {
        Err(error) if is_over && (error.is_too_large() || error.is_invalid()) => {
            warn!(%uid, %error, "a pod is deleted without its last status");
        }
        written => written?,
    }
    mark_written(host, uid, &known);
    if is_over {
        let delete = DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
        let objects = objects.with_cause(&pod.write_cause("all containers have terminated"));
        match objects.delete_with(&pod, delete).await {
            Err(error) if !error.is_conflict() => return Err(error),
            _ => {
                host.statuses.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
            }
        }
    }
    Ok(())
}

/// Writes a status. How long it is depends on images and specifications: one that the API server finds too large is
/// written without its details.
async fn write(objects: &CachedApi<Pod>, pod: &Pod, known: &VersionedStatus) -> Result<(), Error> {
    let status = merge_pod_status(pod, &known.status);
    let because = pod.write_cause(&change_summary(pod.status().tree(), &known.status));
    let objects = objects.with_cause(&because);
    let forms: [fn(&Pod, &Value) -> Value; 3] =
        [|_, status| status.clone(), without_details, without_containers];
    let mut written = Ok(());
    for form in forms {
        let Some(patch) = difference(pod, &form(pod, &status)) else { return Ok(()) };
        match objects.patch_status(&known.key, &Patch::Merge(patch)).await {
            Err(error) if error.is_too_large() => written = Err(error),
            Err(error) if error.is_not_found() => return Ok(()),
            // on a conflict another client wrote first, and its changes must be kept: retry with the new object
            done => return done.map(drop),
        }
    }
    written
}

fn mark_written(host: &KubeletContext, uid: &str, known: &VersionedStatus) {
    let mut pending = host.statuses.pending.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = pending.get_mut(uid) {
        entry.written = Some(known.status.clone());
    }
    if known.ended && host.api_pods.is_none() {
        pending.remove(uid);
    }
}

/// The status with the conditions that other components have written meanwhile. Conditions whose status has not changed
/// keep the `lastTransitionTime` of the API object.
fn merge_pod_status(pod: &Pod, status: &Value) -> Value {
    // the status contains others' conditions too, but outdated ones
    let own = status["conditions"].items().iter().filter(|one| {
        let name = one["type"].as_str().unwrap_or_default();
        KUBELET_CONDITIONS.contains(&name) || one["reason"].as_str() == Some(TERMINATION_BY_KUBELET)
    });
    let is_ours = |name: &str| {
        KUBELET_CONDITIONS.contains(&name)
            || own.clone().any(|one| one["type"].as_str() == Some(name))
    };
    let all = pod.status().conditions().iter();
    let others = all.filter(|one| !is_ours(one.type_())).map(|one| one.tree().clone());
    let others: Vec<Value> = others.collect();
    let own = own.map(|one| {
        let mut one = one.clone();
        let known = pod.status().condition(one["type"].as_str().unwrap_or_default());
        let same = known.filter(|known| one["status"].as_str() == Some(known.status()));
        if let Some(since) = same.map(|known| &known.tree()["lastTransitionTime"]) {
            one["lastTransitionTime"] = since.clone();
        }
        one
    });
    let mut status = status.clone();
    status["conditions"] = own.chain(others).collect();
    status
}

/// The patch that gives the API object this status. It contains the resourceVersion, so it fails if another client
/// writes first.
fn difference(pod: &Pod, status: &Value) -> Option<Value> {
    let old = pod.status().tree();
    let mut change = Value::object();
    let mut any = false;
    for (name, value) in status.entries() {
        if old.get(name) != value && !same(old.get(name), value) {
            change[name] = value.clone();
            any = true;
        }
    }
    for name in OWNED_FIELDS {
        if status.get(name).is_null() && !old.get(name).is_null() {
            change[name] = Value::Null;
            any = true;
        }
    }
    if !any {
        return None;
    }
    let mut patch = Value::object();
    patch["metadata"]["uid"] = pod.metadata().uid().into();
    patch["metadata"]["resourceVersion"] = pod.metadata().resource_version().into();
    patch["status"] = change;
    Some(patch)
}

/// Summary of the change between two statuses, recorded as the cause of the write.
fn change_summary(old: &Value, new: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(reason) = new["reason"].as_str().filter(|_| new["reason"] != old["reason"]) {
        return format!("the pod has failed: {reason}");
    }
    let find = |list: &Value, name: &str, of: &str| -> Value {
        let found = list.items().iter().find(|one| one[of].as_str() == Some(name));
        found.cloned().unwrap_or_default()
    };
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in new[list].items() {
            let name = text(&container["name"]);
            let before = find(&old[list], &name, "name");
            let state = |status: &Value| {
                let states = ["running", "terminated", "waiting"].into_iter();
                let state = states.into_iter().find(|state| !status["state"][*state].is_null());
                let state = state.unwrap_or("waiting");
                (state, text(&status["state"][state]["reason"]))
            };
            let (now, reason) = state(container);
            if (now, &reason) != (state(&before).0, &state(&before).1) {
                return match (now, &*reason) {
                    ("running", _) => format!("container {name} runs"),
                    ("terminated", reason) => format!("container {name} has ended: {reason}"),
                    (_, "") => format!("container {name} waits"),
                    (_, reason) => format!("container {name} waits: {reason}"),
                };
            }
        }
    }
    for condition in new["conditions"].items() {
        let name = text(&condition["type"]);
        let before = find(&old["conditions"], &name, "type");
        if before["status"] != condition["status"] {
            return format!("{name} has become {}", text(&condition["status"]));
        }
    }
    "its status has changed".to_owned()
}

#[test]
fn a_status_is_written_because_something_happened() {
    let status = |text: &str| object::yaml::from_yaml(text).unwrap();
    let of = |state: &str, ready: &str| {
        status(&format!(
            "{{containerStatuses: [{{name: a, state: {{{state}}}}}], conditions: [{{type: Ready, status: '{ready}'}}]}}"
        ))
    };
    let waiting = of("waiting: {reason: ContainerCreating}", "False");
    let running = of("running: {}", "False");
    let running = status(&String::from_utf8_lossy(&object::to_json(&running)));
    let cases = [
        (&waiting, of("running: {startedAt: x}", "False"), "container a runs"),
        (&running, of("terminated: {reason: Error}", "False"), "container a has ended: Error"),
        (
            &waiting,
            of("waiting: {reason: ErrImagePull}", "False"),
            "container a waits: ErrImagePull",
        ),
        (&waiting, of("waiting: {reason: ContainerCreating}", "True"), "Ready has become True"),
        (&waiting, status("{reason: Evicted}"), "the pod has failed: Evicted"),
    ];
    for (old, new, want) in cases {
        assert_eq!(change_summary(old, &new), want);
    }
}

/// Whether two values are equal when null and empty values count as absent.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        _ if a.is_object() && b.is_object() => {
            let covers =
                |a: &Value, b: &Value| a.entries().all(|(name, value)| same(value, b.get(name)));
            covers(a, b) && covers(b, a)
        }
        (Value::Null, other) | (other, Value::Null) => other.is_zero(),
        _ => a == b,
    }
}

#[test]
fn only_what_differs_is_written() {
    let tree = object::yaml::from_yaml(
        "{metadata: {uid: u, resourceVersion: '7'}, status: {phase: Pending, podIP: 1.2.3.4, conditions: [{type: Ready, status: 'False', lastProbeTime: null}]}}",
    );
    let pod = Pod::from(tree.unwrap());
    let status = |text: &str| object::yaml::from_yaml(text).unwrap();
    let same = "{phase: Pending, podIP: 1.2.3.4, conditions: [{type: Ready, status: 'False'}]}";
    assert_eq!(difference(&pod, &status(same)), None);
    let patch = difference(&pod, &status("{phase: Running}")).unwrap();
    let want = status("{metadata: {uid: u, resourceVersion: '7'}, status: {phase: Running}}");
    assert_eq!(patch, want.also_null("podIP"));
}

#[test]
fn what_others_say_of_a_pod_stays() {
    let tree = |text: &str| object::yaml::from_yaml(text).unwrap();
    let pod = Pod::from(tree(
        "{status: {conditions: [{type: Ready, status: 'True'}, {type: Initialized, status: 'True', lastTransitionTime: then}, {type: PodResizePending, status: 'True'}, {type: DisruptionTarget, status: 'True'}]}}",
    ));
    let ours = tree(
        "{phase: Failed, conditions: [{type: Ready, status: 'False', lastTransitionTime: now}, {type: Initialized, status: 'True', lastTransitionTime: now}]}",
    );
    let want = "{phase: Failed, conditions: [{type: Ready, status: 'False', lastTransitionTime: now}, {type: Initialized, status: 'True', lastTransitionTime: then}, {type: DisruptionTarget, status: 'True'}]}";
    assert_eq!(merge_pod_status(&pod, &ours), tree(want));
}

/// A condition that another component has changed since the status was computed is not reverted.
#[test]
fn what_others_said_before_is_not_written_again() {
    let tree = |gate: &str| {
        let text = format!(
            "{{conditions: [{{type: Ready, status: 'True', lastTransitionTime: then}}, {{type: gate, status: '{gate}'}}]}}"
        );
        object::yaml::from_yaml(&text).unwrap()
    };
    let mut pod = Value::object();
    pod["status"] = tree("False");
    assert_eq!(merge_pod_status(&Pod::from(pod), &tree("True")), tree("False"));
}

#[cfg(test)]
trait AlsoNull {
    fn also_null(self, name: &str) -> Self;
}

#[cfg(test)]
impl AlsoNull for Value {
    fn also_null(mut self, name: &str) -> Self {
        self["status"][name] = Value::Null;
        self
    }
}
