//! The ReplicaSet of a template, and the revision numbers in annotations.

use api::apps::{Deployment, ReplicaSet, ReplicaSetSpec};
use object::{LabelSelector, Map, ObjectMeta, Text};
use schema::Kind;

use crate::template;

pub(super) const HASH: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a ReplicaSet does not copy from its Deployment.
const SKIPPED_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX_REPLICAS_ANNOTATION,
    "deprecated.deployment.rollback.to",
];
/// Maximum length of the revision history annotation, in bytes.
const LONGEST_HISTORY: usize = 2000;

/// Whether the ReplicaSet has the Deployment's template, ignoring the hash label.
pub(super) fn same_template(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let (ours, theirs) = (deployment.spec().template(), set.spec().template());
    let labels = |meta: &ObjectMeta| {
        let all = meta.labels().iter().filter(|(name, _)| *name != HASH);
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
    };
    ours.spec() == theirs.spec()
        && labels(ours.metadata()) == labels(theirs.metadata())
        && ours.metadata().annotations().iter().eq(theirs.metadata().annotations().iter())
}

/// The revision number in the annotations; 0 if there is none.
pub(super) fn revision(meta: &ObjectMeta) -> i64 {
    meta.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The Deployment's replicas when the ReplicaSet was last scaled.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    set.metadata().annotations().get(DESIRED)?.parse().ok()
}

/// The Deployment's replicas plus surge when the ReplicaSet was last scaled.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    set.metadata().annotations().get(MAX_REPLICAS_ANNOTATION)?.parse().ok()
}

/// Sets the annotations with the Deployment's size. Returns whether they changed.
pub(super) fn set_replicas_annotations(set: &mut ReplicaSet, desired: i32, most: i32) -> bool {
    let notes = set.metadata().annotations();
    let (desired, most) = (desired.to_string(), most.to_string());
    if notes.get(DESIRED) == Some(&*desired) && notes.get(MAX_REPLICAS_ANNOTATION) == Some(&*most) {
        return false;
    }
    let notes = set.metadata_mut().annotations_mut();
    notes.insert(DESIRED, desired);
    notes.insert(MAX_REPLICAS_ANNOTATION, most);
    true
}

/// Builds the ReplicaSet for the Deployment's template.
pub(super) fn new_set(
    deployment: &Deployment,
    replicas: i32,
    most: i32,
    number: i64,
) -> ReplicaSet {
    let spec = deployment.spec();
    let hash = template::hash(spec.template(), deployment.status().collision_count());
    let mut template = spec.template().clone();
    template.metadata_mut().labels_mut().insert(HASH, hash.clone());
    let mut selector = spec.selector().cloned().unwrap_or_else(LabelSelector::new);
    selector.match_labels_mut().insert(HASH, hash.clone());
    let metadata = ObjectMeta::new()
        .with_name(format!("{}-{hash}", deployment.metadata().name()))
        .with_namespace(deployment.metadata().namespace())
        .with_labels(template.metadata().labels().clone())
        .with_owner_references([deployment.controller_ref()]);
    let mut set = ReplicaSet::new().with_metadata(metadata).with_spec(
        ReplicaSetSpec::new()
            .with_replicas(replicas)
            .with_min_ready_seconds(spec.min_ready_seconds())
            .with_selector(selector)
            .with_template(template),
    );
    take_annotations(&mut set, deployment);
    set.metadata_mut().annotations_mut().insert(REVISION, number.to_string());
    set_replicas_annotations(&mut set, spec.replicas(), most);
    set
}

/// The current ReplicaSet with up-to-date annotations; `None` if they are. It gets the newest
/// revision number, even if it is an old ReplicaSet that a rollback made current.
pub(super) fn with_current_annotations(
    set: &ReplicaSet,
    deployment: &Deployment,
    number: i64,
) -> Option<ReplicaSet> {
    let mut new = set.clone();
    take_annotations(&mut new, deployment);
    let before = revision(set.metadata());
    if before < number {
        let notes = new.metadata_mut().annotations_mut();
        notes.insert(REVISION, number.to_string());
        if before > 0 {
            let past = set.metadata().annotations().get(HISTORY).unwrap_or_default();
            notes.insert(HISTORY, remember(past, before));
        }
    }
    new.spec_mut().set_min_ready_seconds(deployment.spec().min_ready_seconds());
    (new != *set).then_some(new)
}

/// The Deployment's annotations with this revision; `None` if it has it.
pub(super) fn numbered(deployment: &Deployment, number: Option<&str>) -> Option<Map<String>> {
    let mut notes = deployment.metadata().annotations().clone();
    let number = number.filter(|number| notes.get(REVISION) != Some(number))?;
    notes.insert(REVISION, number);
    Some(notes)
}

fn take_annotations(set: &mut ReplicaSet, deployment: &Deployment) {
    for (name, value) in deployment.metadata().annotations().iter() {
        let known = set.metadata().annotations().get(name) == Some(value);
        if !SKIPPED_ANNOTATIONS.contains(&name) && !known {
            set.metadata_mut().annotations_mut().insert(name, value);
        }
    }
}

fn remember(past: &str, number: i64) -> Text {
    let mut all: Vec<&str> = past.split(',').filter(|one| !one.is_empty()).collect();
    let number = number.to_string();
    all.push(&number);
    while all.iter().map(|one| one.len() + 1).sum::<usize>() > LONGEST_HISTORY {
        all.remove(0);
    }
    all.join(",").into()
}
