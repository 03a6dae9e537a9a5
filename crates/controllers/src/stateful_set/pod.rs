//! The pods of a StatefulSet: each has an ordinal, which determines its name and its claims.

use api::{
    apps::{StatefulSet, StatefulSetOrdinals},
    core::{
        PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
    },
};
use object::List;

use crate::{history, template};

const NAME: &str = "statefulset.kubernetes.io/pod-name";
const INDEX: &str = "apps.kubernetes.io/pod-index";

/// The ordinal of a pod, if its name is one of the set's.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let (parent, number) = pod.metadata().name().rsplit_once('-')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits && parent == set.metadata().name())
}

/// The ordinals of the set.
pub(super) fn range(set: &StatefulSet) -> std::ops::Range<i32> {
    let start = set.spec().ordinals().map_or(0, StatefulSetOrdinals::start);
    start..start.saturating_add(set.spec().replicas())
}

/// The name of the revision that a pod was created from.
pub(super) fn revision(pod: &Pod) -> &str {
    pod.metadata().labels().get(history::HASH).unwrap_or_default()
}

/// Builds the pod with this ordinal.
pub(super) fn new_pod(
    set: &StatefulSet,
    template: &PodTemplateSpec,
    revision: &str,
    number: i32,
) -> Pod {
    let mut pod = template::new_pod(set, template);
    pod.metadata_mut().set_generate_name("");
    pod.metadata_mut().labels_mut().insert(history::HASH, revision);
    set_identity(&mut pod, set, number);
    let name = pod.metadata().name().to_owned();
    pod.spec_mut().set_hostname(name);
    pod.spec_mut().set_subdomain(set.spec().service_name());
    set_storage(&mut pod, set, number);
    pod
}

/// The pod with its labels and volumes corrected; `None` if they are right.
pub(super) fn with_identity_and_storage(set: &StatefulSet, pod: &Pod, number: i32) -> Option<Pod> {
    let mut new = pod.clone();
    if pod.metadata().labels().get(NAME) != Some(pod.metadata().name()) {
        set_identity(&mut new, set, number);
    }
    let attached = set.spec().volume_claim_templates().iter().all(|template| {
        let volume =
            pod.spec().volumes().find(|volume| volume.name() == template.metadata().name());
        let claim = volume.and_then(|volume| volume.volume_source().persistent_volume_claim());
        claim.is_some_and(|claim| claim.claim_name() == claim_name(set, template, number))
    });
    if !attached {
        set_storage(&mut new, set, number);
    }
    (new != *pod).then_some(new)
}

/// The claims of the pod with this ordinal.
pub(super) fn claims(set: &StatefulSet, number: i32) -> Vec<PersistentVolumeClaim> {
    let claim = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        let labels = set.spec().selector().map(object::LabelSelector::match_labels);
        let meta = claim.metadata_mut();
        meta.set_name(claim_name(set, template, number));
        meta.set_namespace(set.metadata().namespace());
        for (name, value) in labels.into_iter().flat_map(object::Map::iter) {
            meta.labels_mut().insert(name, value);
        }
        claim
    };
    set.spec().volume_claim_templates().iter().map(claim).collect()
}

fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, number: i32) -> String {
    format!("{}-{}-{number}", template.metadata().name(), set.metadata().name())
}

fn set_identity(pod: &mut Pod, set: &StatefulSet, number: i32) {
    let name = format!("{}-{number}", set.metadata().name());
    let meta = pod.metadata_mut();
    meta.labels_mut().insert(NAME, &*name);
    meta.labels_mut().insert(INDEX, number.to_string());
    meta.set_name(name);
}

fn set_storage(pod: &mut Pod, set: &StatefulSet, number: i32) {
    let templates = set.spec().volume_claim_templates();
    if templates.is_empty() {
        return;
    }
    let own = templates.iter().map(|template| {
        let source = PersistentVolumeClaimVolumeSource::new()
            .with_claim_name(claim_name(set, template, number));
        let mut volume = Volume::new().with_name(template.metadata().name());
        volume.volume_source_mut().set_persistent_volume_claim(source);
        volume
    });
    let is_own =
        |volume: &&Volume| templates.find(|one| one.metadata().name() == volume.name()).is_some();
    let others = pod.spec().volumes().iter().filter(|volume| !is_own(volume)).cloned();
    let all: List<Volume> = own.chain(others).collect();
    pod.spec_mut().set_volumes(all);
}
