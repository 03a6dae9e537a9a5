//! The pods of a Job: finalizer, completion index and failure counts, and how to read them.

use api::{
    batch::Job,
    core::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use client::Patch;
use object::Value;

use super::policy::{FailureAction, failure};
use crate::template;

/// Keeps a pod from being deleted until it has been counted.
pub(super) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Maximum length of `generateName`; the API server appends five characters.
const LONGEST_PREFIX: usize = 58;

/// Whether the pod has the tracking finalizer.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata().finalizers().iter().any(|finalizer| finalizer == TRACKING_FINALIZER)
}

/// The completion index of the pod, if it is below the Job's completions.
pub(super) fn index(pod: &Pod, job: &Job) -> Option<i32> {
    let index: i32 = pod.metadata().annotations().get(INDEX)?.parse().ok()?;
    (0..job.spec().completions().unwrap_or_default()).contains(&index).then_some(index)
}

/// How often pods of the index failed before this one: all failures, and those that count.
pub(super) fn failures_before(pod: &Pod) -> (i32, i32) {
    let note = |name: &str| {
        let text = pod.metadata().annotations().get(name);
        text.and_then(|text| text.parse::<i32>().ok()).filter(|n| *n >= 0).unwrap_or_default()
    };
    (note(FAILURES).saturating_add(note(IGNORED)), note(FAILURES))
}

/// Whether the pod counts as failed. A terminating pod does, unless `podReplacementPolicy` is
/// Failed.
pub(super) fn has_failed(pod: &Pod, job: &Job) -> bool {
    let lost = pod.metadata().is_terminating() && pod.status().phase() != "Succeeded";
    pod.status().phase() == "Failed" || lost && !replaces_only_failed(job)
}

/// Whether terminating pods are replaced only after they have failed (`podReplacementPolicy`
/// Failed).
pub(super) fn replaces_only_failed(job: &Job) -> bool {
    job.spec().pod_replacement_policy() == Some("Failed")
}

/// The patch that removes the tracking finalizer.
pub(super) fn release() -> Patch {
    let mut patch = Value::object();
    let list = Value::List([Value::from(TRACKING_FINALIZER)].into_iter().collect());
    patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = list;
    Patch::Strategic(patch)
}

/// Builds a pod for the Job; `replaced` is the last failed pod of the same index.
pub(super) fn new_pod(job: &Job, index: Option<i32>, replaced: Option<&Pod>) -> Pod {
    let mut pod = template::new_pod(job, job.spec().template());
    if !is_tracked(&pod) {
        pod.metadata_mut().finalizers_mut().push(TRACKING_FINALIZER);
    }
    let Some(index) = index else { return pod };
    let (name, number) = (job.metadata().name(), index.to_string());
    let suffix = format!("-{number}-");
    let mut prefix = name.to_owned();
    prefix.truncate(LONGEST_PREFIX - suffix.len());
    pod.metadata_mut().set_generate_name(prefix + &suffix);
    pod.metadata_mut().labels_mut().insert(INDEX, number.clone());
    pod.metadata_mut().annotations_mut().insert(INDEX, number);
    if job.spec().backoff_limit_per_index().is_some() {
        note_failures(&mut pod, job, replaced);
    }
    pod.spec_mut().set_hostname(format!("{name}-{index}"));
    let spec = pod.spec_mut();
    spec.containers_mut().iter_mut().for_each(name_index);
    if !spec.init_containers().is_empty() {
        spec.init_containers_mut().iter_mut().for_each(name_index);
    }
    pod
}

fn note_failures(pod: &mut Pod, job: &Job, replaced: Option<&Pod>) {
    let (mut counted, mut ignored) = (0_i32, 0_i32);
    if let Some(replaced) = replaced {
        let (all, before) = failures_before(replaced);
        (counted, ignored) = (before, all.saturating_sub(before));
        match failure(job, replaced) {
            FailureAction::Ignored => ignored = ignored.saturating_add(1),
            _ => counted = counted.saturating_add(1),
        }
    }
    let notes = pod.metadata_mut().annotations_mut();
    notes.insert(FAILURES, counted.to_string());
    if ignored > 0 {
        notes.insert(IGNORED, ignored.to_string());
    }
}

/// Adds the environment variable with the completion index.
fn name_index(container: &mut api::core::Container) {
    if container.env().find(|variable| variable.name() == VARIABLE).is_some() {
        return;
    }
    let field = ObjectFieldSelector::new().with_field_path(format!("metadata.labels['{INDEX}']"));
    let source = EnvVarSource::new().with_field_ref(field);
    container.env_mut().push(EnvVar::new().with_name(VARIABLE).with_value_from(source));
}
