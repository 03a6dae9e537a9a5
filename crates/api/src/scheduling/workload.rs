//! scheduling/v1beta1 and v1alpha3: Workload.

use std::collections::BTreeSet;

use macros::api;
use object::{List, ObjectMeta, Value};
use schema::{Column, Errors, Kind, Names, Path, Storage};

use crate::shown::shown_all;

#[api]
pub struct Workload {
    #[api(tag = 1)]
    metadata: ObjectMeta,
    #[api(tag = 2, required, always)]
    spec: WorkloadSpec,
}

#[api]
pub struct WorkloadSpec {
    #[api(tag = 1, checks(Immutable))]
    controller_ref: Option<TypedLocalObjectReference>,
    #[api(
        tag = 2,
        keys("name"),
        always,
        checks(OneOf, MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name"))
    )]
    pod_group_templates: List<PodGroupTemplate>,
    #[api(
        tag = 3,
        keys("name"),
        gate = "CompositePodGroup",
        checks(OneOf, MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name"))
    )]
    composite_pod_group_templates: List<CompositePodGroupTemplate>,
}

#[api]
pub struct TypedLocalObjectReference {
    #[api(tag = 1, checks(Format("long-name")))]
    api_group: String,
    #[api(tag = 2, required, always, checks(Filled, Format("path-segment-name")))]
    kind: String,
    #[api(tag = 3, required, always, checks(Filled, Format("path-segment-name")))]
    name: String,
}

#[api]
pub struct PodGroupTemplate {
    #[api(tag = 1, required, always, checks(Filled, Format("short-name")))]
    name: String,
    #[api(tag = 2, required, always)]
    scheduling_policy: PodGroupSchedulingPolicy,
    #[api(tag = 3, always, gate = "TopologyAwareWorkloadScheduling", checks(Immutable))]
    scheduling_constraints: Option<PodGroupSchedulingConstraints>,
    #[api(
        tag = 4,
        keys("name"),
        merge,
        retain_keys,
        merge_key = "name",
        gate = "DRAWorkloadResourceClaims",
        checks(MaxItems(4), Immutable, UniqueBy("name"))
    )]
    resource_claims: List<PodGroupResourceClaim>,
    #[api(tag = 5, checks(Immutable))]
    disruption_mode: Option<DisruptionMode>,
    #[api(tag = 6, checks(Format("long-name"), Immutable))]
    priority_class_name: String,
    #[api(tag = 7, checks(Max(1000000000), Immutable))]
    priority: Option<i32>,
    #[api(
        tag = 8,
        go = "$.PreemptionPolicy",
        gate = "PodGroupPreemptionPolicy",
        checks(Immutable, Values("Never", "PreemptLowerPriority"))
    )]
    preemption_policy: Option<String>,
}

#[api]
pub struct PodGroupSchedulingPolicy {
    #[api(tag = 1, checks(OneOf, Immutable))]
    basic: Option<BasicSchedulingPolicy>,
    #[api(tag = 2, checks(OneOf, NoSet, NoUnset))]
    gang: Option<GangSchedulingPolicy>,
}

#[api]
pub struct BasicSchedulingPolicy {}

#[api]
pub struct GangSchedulingPolicy {
    #[api(tag = 1, required, always, checks(Filled, Min(1)))]
    min_count: i32,
}

#[api]
pub struct PodGroupResourceClaim {
    #[api(tag = 1, required, always, checks(Filled, Format("short-name")))]
    name: String,
    #[api(tag = 2, checks(OneOf, Format("long-name")))]
    resource_claim_name: Option<String>,
    #[api(tag = 3, checks(OneOf, Format("long-name")))]
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct DisruptionMode {
    #[api(tag = 1, checks(OneOf))]
    single: Option<SingleDisruptionMode>,
    #[api(tag = 2, checks(OneOf))]
    all: Option<AllDisruptionMode>,
}

#[api]
pub struct SingleDisruptionMode {}

#[api]
pub struct AllDisruptionMode {}

#[api]
pub struct PodGroupSchedulingConstraints {
    #[api(tag = 1, checks(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct TopologyConstraint {
    #[api(tag = 1, required, always, checks(Filled, Format("label-key")))]
    key: String,
}

#[api]
pub struct CompositePodGroupTemplate {
    #[api(tag = 1, required, always, checks(Filled, Format("short-name")))]
    name: String,
    #[api(tag = 2, required, always)]
    scheduling_policy: CompositePodGroupSchedulingPolicy,
    #[api(tag = 3, checks(Immutable))]
    scheduling_constraints: Option<CompositePodGroupSchedulingConstraints>,
    #[api(tag = 4, checks(Immutable))]
    disruption_mode: Option<CompositeDisruptionMode>,
    #[api(tag = 5, checks(Format("long-name"), Immutable))]
    priority_class_name: String,
    #[api(tag = 6, checks(Max(1000000000), Immutable))]
    priority: Option<i32>,
    #[api(
        tag = 7,
        go = "$.PreemptionPolicy",
        gate = "PodGroupPreemptionPolicy",
        checks(Immutable, Values("Never", "PreemptLowerPriority"))
    )]
    preemption_policy: Option<String>,
    #[api(tag = 8, keys("name"), checks(MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name")))]
    pod_group_templates: List<PodGroupTemplate>,
    #[api(tag = 9, keys("name"), checks(MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name")))]
    composite_pod_group_templates: List<CompositePodGroupTemplate>,
}

#[api]
pub struct CompositePodGroupSchedulingPolicy {
    #[api(tag = 1, checks(Immutable, OneOf))]
    basic: Option<CompositeBasicSchedulingPolicy>,
    #[api(tag = 2, checks(OneOf, NoSet, NoUnset))]
    gang: Option<CompositeGangSchedulingPolicy>,
}

#[api]
pub struct CompositeBasicSchedulingPolicy {}

#[api]
pub struct CompositeGangSchedulingPolicy {
    #[api(tag = 1, required, always, checks(Filled, Min(1)))]
    min_group_count: i32,
}

#[api]
pub struct CompositeDisruptionMode {
    #[api(tag = 1, checks(OneOf))]
    single: Option<SingleCompositeDisruptionMode>,
    #[api(tag = 2, checks(OneOf))]
    all: Option<AllCompositeDisruptionMode>,
}

#[api]
pub struct SingleCompositeDisruptionMode {}

#[api]
pub struct AllCompositeDisruptionMode {}

#[api]
pub struct CompositePodGroupSchedulingConstraints {
    #[api(tag = 1, checks(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

impl Kind for Workload {
    const NAMES: Names = Names {
        group: "scheduling.k8s.io",
        version: "v1beta1",
        kind: "Workload",
        plural: "workloads",
        singular: "workload",
        short: &[],
        categories: &[],
    };
    const STORAGE: Storage = Storage::new("workloads", "v1beta1");
    const BLIND_UPDATES: bool = false;
    const GATE: Option<&str> = Some("GenericWorkload");
    const DEFAULT_ON: bool = false;

    const COLUMNS: &'static [Column<Self>] = &[Column::NAME, Column::AGE];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        self.spec().check(&Path::Root.field("spec"), errs);
    }

    fn validate_update(&self, _: &Self, errs: &mut Errors) {
        self.validate(errs);
    }
}

/// How deep templates may be nested.
const DEPTH: usize = 4;

impl WorkloadSpec {
    fn check(&self, at: &Path, errs: &mut Errors) {
        let mut names: BTreeSet<_> =
            self.pod_group_templates().iter().map(PodGroupTemplate::name).collect();
        let composite = self.composite_pod_group_templates();
        check_names(composite, at, &mut names, errs);
        for (i, template) in composite.iter().enumerate() {
            let at = at.field("compositePodGroupTemplates");
            if template.depth() > DEPTH - 1 {
                let why = format!("maximum template hierarchy depth is {DEPTH}");
                let shown = shown_all(template.composite_pod_group_templates());
                errs.invalid_shown(&at.index(i), shown, why);
            }
        }
        self.check_priorities(at, errs);
        for (i, template) in composite.iter().enumerate() {
            template.check_children(&at.field("compositePodGroupTemplates").index(i), errs);
        }
    }

    /// All templates have one priority.
    fn check_priorities(&self, at: &Path, errs: &mut Errors) {
        let plain = self.pod_group_templates().iter().map(PodGroupTemplate::rank);
        let mut plain = plain.collect::<Vec<_>>().into_iter();
        let first = plain.next();
        if plain.any(|rank| Some(rank) != first) {
            return errs.invalid(at, Value::Null, "detected multiple priority configurations");
        }
        let mut nested = Vec::new();
        for template in self.composite_pod_group_templates().iter() {
            template.ranks(&mut nested);
        }
        let first = first.or(nested.first().copied());
        if nested.into_iter().any(|rank| Some(rank) != first) {
            let why = "all priority and priorityClassName values must be identical, detected \
                       multiple values";
            errs.invalid(at, Value::Null, why);
        }
    }
}

/// What decides how important pods are.
type Rank<'a> = (&'a str, Option<i32>);

impl PodGroupTemplate {
    fn rank(&self) -> Rank<'_> {
        (self.priority_class_name(), self.priority())
    }
}

impl CompositePodGroupTemplate {
    fn ranks<'a>(&'a self, all: &mut Vec<Rank<'a>>) {
        all.push((self.priority_class_name(), self.priority()));
        for template in self.composite_pod_group_templates().iter() {
            template.ranks(all);
        }
        all.extend(self.pod_group_templates().iter().map(PodGroupTemplate::rank));
    }

    fn depth(&self) -> usize {
        1 + self.composite_pod_group_templates().iter().map(Self::depth).max().unwrap_or_default()
    }

    fn check_children(&self, at: &Path, errs: &mut Errors) {
        let composite = self.composite_pod_group_templates();
        if self.pod_group_templates().is_empty() && composite.is_empty() {
            let why = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate";
            errs.invalid(at, self.name(), why);
        }
        for (i, template) in composite.iter().enumerate() {
            template.check_children(&at.field("compositePodGroupTemplates").index(i), errs);
        }
    }
}

/// No two templates have one name, however deep they are nested.
fn check_names<'a>(
    templates: &'a List<CompositePodGroupTemplate>,
    at: &Path,
    names: &mut BTreeSet<&'a str>,
    errs: &mut Errors,
) {
    let here = at.field("compositePodGroupTemplates");
    for (i, template) in templates.iter().enumerate() {
        if names.contains(template.name()) {
            errs.duplicate(&here.index(i).field("name"), template.name());
        }
    }
    names.extend(templates.iter().map(CompositePodGroupTemplate::name));
    for (i, template) in templates.iter().enumerate() {
        let at = here.index(i);
        let children = template.pod_group_templates();
        for (j, child) in children.iter().enumerate() {
            if names.contains(child.name()) {
                let at = at.field("podGroupTemplates");
                errs.duplicate(&at.index(j).field("name"), child.name());
            }
        }
        names.extend(children.iter().map(PodGroupTemplate::name));
        check_names(template.composite_pod_group_templates(), &at, names, errs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{complaints, created};

    #[test]
    fn names_are_told_apart_however_deep() {
        let workload: Workload = created(
            r#"{"spec":{"compositePodGroupTemplates":[{"name":"a","podGroupTemplates":[
                {"name":"a","schedulingPolicy":{"basic":{}}}],
                "schedulingPolicy":{"basic":{}}}]}}"#,
        );
        let at = "spec.compositePodGroupTemplates[0].podGroupTemplates[0].name";
        assert_eq!(complaints(&workload), [format!("{at}: Duplicate value: \"a\"")]);
    }
}
