//! The rules for pods: new ones, and what may change in old ones.

use std::collections::{HashMap, HashSet};

use object::{List, Map, names};
use schema::{ErrorList, FieldPath, validate_annotations, validate_labels};

use super::{Pod, PodSpec, annotations};
use crate::{
    core::{Container, NodeAffinity, NodeSelectorTerm, PodTemplateSpec, Toleration},
    rules::ValidateField,
    shown::{format_go, format_go_list},
};

const ANNOTATIONS: FieldPath = FieldPath::METADATA.field("annotations");
const MAX_SECONDS: i64 = i32::MAX as i64;
/// What an update of a pod may change, as messages say it.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn check_new(pod: &Pod, errs: &mut ErrorList) {
    check_pod(pod, errs);
    let spec = pod.spec();
    if !spec.ephemeral_containers().is_empty() {
        errs.forbidden(&FieldPath::SPEC.field("ephemeralContainers"), "cannot be set on create");
    }
    if pod.is_scheduled() && !spec.scheduling_gates().is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errs.forbidden(&FieldPath::SPEC.field("nodeName"), why);
    }
    annotations::check_profiles(pod.metadata().annotations(), spec, &FieldPath::SPEC, errs);
}

pub(super) fn check_changed(pod: &Pod, old: &Pod, errs: &mut ErrorList) {
    check_pod(pod, errs);
    let (new_notes, old_notes) = (pod.metadata().annotations(), old.metadata().annotations());
    annotations::check_changed(new_notes, old_notes, &ANNOTATIONS, errs);
    let (spec, old) = (pod.spec(), old.spec());
    for (name, new, old) in [
        ("containers", spec.containers(), old.containers()),
        ("initContainers", spec.init_containers(), old.init_containers()),
    ] {
        if !check_images(new, old, &FieldPath::SPEC.field(name), errs) {
            return;
        }
    }
    if !check_deadline(spec, old, &FieldPath::SPEC.field("activeDeadlineSeconds"), errs) {
        return;
    }
    check_tolerations(spec.tolerations(), old.tolerations(), errs);
    check_gates(spec, old, errs);
    validate_other_fields_immutable(spec, old, errs);
}

impl PodTemplateSpec {
    pub(crate) fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let (meta, spec) = (self.metadata(), at.field("spec"));
        validate_labels(meta.labels(), &at.field("labels"), errs);
        validate_annotations(meta.annotations(), &at.field("annotations"), errs);
        annotations::check(meta.annotations(), self.spec(), &at.field("annotations"), errs);
        self.spec().check("", &spec, errs);
        annotations::check_profiles(meta.annotations(), self.spec(), &spec, errs);
        if !self.spec().ephemeral_containers().is_empty() {
            let why = "ephemeral containers not allowed in pod template";
            errs.forbidden(&spec.field("ephemeralContainers"), why);
        }
    }
}

/// What holds for pods, old and new.
pub(super) fn check_pod(pod: &Pod, errs: &mut ErrorList) {
    let (meta, spec) = (pod.metadata(), pod.spec());
    annotations::check(meta.annotations(), spec, &ANNOTATIONS, errs);
    spec.check(meta.name(), &FieldPath::SPEC, errs);
    if spec.service_account_name().is_empty() {
        forbid_tokens(spec, errs);
    }
    let grace = FieldPath::SPEC.field("terminationGracePeriodSeconds");
    errs.non_negative(&grace, spec.termination_grace_period_seconds());
    for (name, list) in
        [("containers", spec.containers()), ("initContainers", spec.init_containers())]
    {
        FieldPath::SPEC
            .field(name)
            .for_each_item(list.iter(), |container, at| container.check_image(at, errs));
    }
}

fn forbid_tokens(spec: &PodSpec, errs: &mut ErrorList) {
    for (i, volume) in spec.volumes().iter().enumerate() {
        let Some(projected) = volume.volume_source().projected() else { continue };
        for (j, source) in projected.sources().iter().enumerate() {
            if source.service_account_token().is_some() {
                let at = FieldPath::SPEC.field("volumes");
                let at = at.index(i);
                let at = at.field("projected");
                let why = "must not be specified when serviceAccountName is not set";
                errs.forbidden(&at.field("sources").index(j).field("serviceAccountToken"), why);
            }
        }
    }
}

/// Says whether the rest can be compared.
fn check_images(
    new: &List<Container>,
    old: &List<Container>,
    at: &FieldPath,
    errs: &mut ErrorList,
) -> bool {
    if new.len() != old.len() {
        errs.forbidden(at, "pod updates may not add or remove containers");
        return false;
    }
    for (i, container) in new.iter().enumerate() {
        errs.required_field(&at.index(i), "image", container.image());
        container.check_image(&at.index(i), errs);
    }
    true
}

/// A deadline can come nearer, and never go away. Says whether to go on.
fn check_deadline(spec: &PodSpec, old: &PodSpec, at: &FieldPath, errs: &mut ErrorList) -> bool {
    match (spec.active_deadline_seconds(), old.active_deadline_seconds()) {
        (Some(new), _) if !(0..=MAX_SECONDS).contains(&new) => {
            for wrong in names::in_range(new, 0, MAX_SECONDS) {
                errs.invalid(at, new, wrong);
            }
            false
        }
        (Some(new), Some(old)) if old < new => {
            errs.invalid(at, new, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            errs.invalid(at, object::Value::Null, why);
            true
        }
        _ => true,
    }
}

fn check_tolerations(new: &List<Toleration>, old: &List<Toleration>, errs: &mut ErrorList) {
    let bare = |toleration: &Toleration| {
        let mut bare = toleration.clone();
        bare.clear_toleration_seconds();
        bare
    };
    let now: HashSet<object::Value> = new.iter().map(|new| bare(new).into()).collect();
    let at = FieldPath::SPEC.field("tolerations");
    if !old.iter().all(|old| now.contains(&bare(old).into())) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        return errs.forbidden(&at, why);
    }
    crate::core::toleration::check_tolerations(new, &at, errs);
}

fn check_gates(spec: &PodSpec, old: &PodSpec, errs: &mut ErrorList) {
    let gates = spec.scheduling_gates();
    let before = old.scheduling_gates().by_key(|gate| gate.name());
    let last: HashMap<_, _> = gates.iter().enumerate().map(|(i, gate)| (gate.name(), i)).collect();
    for (i, gate) in gates.iter().enumerate() {
        let is_last = last.get(gate.name()) == Some(&i);
        if is_last && !before.contains_key(gate.name()) {
            let why = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                gate.name()
            );
            errs.forbidden(&FieldPath::SPEC.field("schedulingGates").index(i).field("name"), why);
        }
    }
}

/// Nothing else may differ: with what may change put back, both are the same.
fn validate_other_fields_immutable(spec: &PodSpec, old: &PodSpec, errs: &mut ErrorList) {
    let mut back = spec.clone();
    restore_images(&mut back, old);
    match old.active_deadline_seconds() {
        Some(seconds) => back.set_active_deadline_seconds(seconds),
        None => back.clear_active_deadline_seconds(),
    }
    back.set_scheduling_gates(old.scheduling_gates().clone());
    back.set_tolerations(old.tolerations().clone());
    if old.termination_grace_period_seconds() < 0 && back.termination_grace_period_seconds() == 1 {
        back.set_termination_grace_period_seconds(old.termination_grace_period_seconds());
    }
    if !old.scheduling_gates().is_empty() {
        check_gated(&mut back, old, errs);
    }
    if !back.same_tree(old) {
        let why = format!("pod updates may not change fields other than {CHANGEABLE}\n");
        errs.forbidden(&FieldPath::SPEC, why + &super::diff::diff(old, &back));
    }
}

fn restore_images(back: &mut PodSpec, old: &PodSpec) {
    let restore = |new: &mut List<Container>, old: &List<Container>| {
        for (new, old) in new.iter_mut().zip(old.iter()) {
            new.set_image(old.image());
        }
    };
    if !old.containers().is_empty() {
        restore(back.containers_mut(), old.containers());
    }
    if !old.init_containers().is_empty() {
        restore(back.init_containers_mut(), old.init_containers());
    }
}

/// While a pod has scheduling gates, its scheduling directives may be made stricter.
fn check_gated(back: &mut PodSpec, old: &PodSpec, errs: &mut ErrorList) {
    let kept = |new: &Map<String>, old: &Map<String>| {
        old.iter().all(|(name, value)| new.get(name) == Some(value))
    };
    if !kept(back.node_selector(), old.node_selector()) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        let new = object::Value::from(back.node_selector().clone());
        errs.invalid(&FieldPath::SPEC.field("nodeSelector"), new, why);
    }
    back.set_node_selector(old.node_selector().clone());
    let of = |spec: &PodSpec| spec.affinity().and_then(|it| it.node_affinity()).cloned();
    let (new, before) = (of(back), of(old));
    if new == before {
        return;
    }
    check_node_affinity(new.as_ref(), before.as_ref(), errs);
    if let Some(before) = before {
        back.affinity_mut().set_node_affinity(before);
    } else {
        back.affinity_mut().clear_node_affinity();
        let empty = *back.affinity_mut() == crate::core::Affinity::new();
        if empty && old.affinity().is_none() {
            back.clear_affinity();
        }
    }
}

fn check_node_affinity(
    new: Option<&NodeAffinity>,
    old: Option<&NodeAffinity>,
    errs: &mut ErrorList,
) {
    let required = |affinity: Option<&NodeAffinity>| {
        let selector =
            affinity.and_then(NodeAffinity::required_during_scheduling_ignored_during_execution);
        selector.map(|selector| selector.node_selector_terms().clone()).unwrap_or_default()
    };
    let at = FieldPath::SPEC.field("affinity");
    let at = at.field("nodeAffinity");
    let at = at.field("requiredDuringSchedulingIgnoredDuringExecution");
    let at = at.field("nodeSelectorTerms");
    let (new, old) = (required(new), required(old));
    if old.is_empty() {
        return;
    }
    if old.len() != new.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let all = if new.is_empty() { "null".to_owned() } else { format_go_list(&new) };
        return errs.invalid_formatted(&at, all, why);
    }
    for (i, (new, old)) in new.iter().zip(old.iter()).enumerate() {
        if !only_adds(new, old) {
            let why = "only additions are allowed (no mutations or deletions)";
            errs.invalid_formatted(&at.index(i), format_go(new), why);
        }
    }
}

fn only_adds(new: &NodeSelectorTerm, old: &NodeSelectorTerm) -> bool {
    let starts = |new: &List<_>, old: &List<_>| {
        new.len() >= old.len()
            && new.iter().zip(old.iter()).all(
                |(a, b): (
                    &crate::core::NodeSelectorRequirement,
                    &crate::core::NodeSelectorRequirement,
                )| a == b,
            )
    };
    let nothing = old.match_expressions().is_empty() && old.match_fields().is_empty();
    let something = !new.match_expressions().is_empty() || !new.match_fields().is_empty();
    !(nothing && something)
        && starts(new.match_expressions(), old.match_expressions())
        && starts(new.match_fields(), old.match_fields())
}
