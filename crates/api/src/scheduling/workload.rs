//! scheduling/v1beta1 and v1alpha3: Workload.

use std::collections::BTreeSet;

use macros::api;
use object::{List, ObjectMeta, Value};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, TableColumn};

use crate::shown::format_go_list;

/// A plan for groups of pods that belong together.
#[api]
pub struct Workload {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// The groups.
    spec: Must<WorkloadSpec>,
}

#[api]
pub struct WorkloadSpec {
    /// Who the workload belongs to. It never changes.
    #[api(validations(Immutable))]
    controller_ref: Option<TypedLocalObjectReference>,
    /// Templates of groups of pods.
    #[api(keys("name"), no_omitempty)]
    #[api(validations(UnionMember, MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name")))]
    pod_group_templates: List<PodGroupTemplate>,
    /// Templates of groups of groups.
    #[api(keys("name"), feature_gate = "CompositePodGroup")]
    #[api(validations(UnionMember, MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name")))]
    composite_pod_group_templates: List<CompositePodGroupTemplate>,
}

#[api]
pub struct TypedLocalObjectReference {
    /// The group of its kind.
    #[api(validations(Format("long-name")))]
    api_group: String,
    /// Its kind.
    #[api(validations(Required, Format("path-segment-name")))]
    kind: Must<String>,
    /// Its name.
    #[api(validations(Required, Format("path-segment-name")))]
    name: Must<String>,
}

#[api]
pub struct PodGroupTemplate {
    /// The template's name.
    #[api(validations(Required, Format("short-name")))]
    name: Must<String>,
    /// How the pods are scheduled.
    scheduling_policy: Must<PodGroupSchedulingPolicy>,
    /// Where the pods must be, together.
    #[api(no_omitempty, feature_gate = "TopologyAwareWorkloadScheduling", validations(Immutable))]
    scheduling_constraints: Option<PodGroupSchedulingConstraints>,
    /// The devices that the pods share.
    #[api(
        keys("name"),
        merge,
        retain_keys,
        merge_key = "name",
        feature_gate = "DRAWorkloadResourceClaims"
    )]
    #[api(validations(MaxItems(4), Immutable, UniqueBy("name")))]
    resource_claims: List<PodGroupResourceClaim>,
    /// How much is lost when one pod is disrupted.
    #[api(validations(Immutable))]
    disruption_mode: Option<DisruptionMode>,
    /// The class of their priority.
    #[api(validations(Format("long-name"), Immutable))]
    priority_class_name: String,
    /// Their priority, as a number.
    #[api(validations(Max(1_000_000_000), Immutable))]
    priority: Option<i32>,
    /// Whether others make room: Never, PreemptLowerPriority.
    #[api(go_type = "$.PreemptionPolicy", feature_gate = "PodGroupPreemptionPolicy")]
    #[api(validations(Immutable, OneOfValues("Never", "PreemptLowerPriority")))]
    preemption_policy: Option<String>,
}

#[api]
pub struct PodGroupSchedulingPolicy {
    /// One by one.
    #[api(validations(UnionMember, Immutable))]
    basic: Option<BasicSchedulingPolicy>,
    /// All together, or not at all.
    #[api(validations(UnionMember, NoSetOnUpdate, NoUnset))]
    gang: Option<GangSchedulingPolicy>,
}

#[api]
pub struct BasicSchedulingPolicy {}

#[api]
pub struct GangSchedulingPolicy {
    /// How many pods there must be room for.
    #[api(validations(Required, Min(1)))]
    min_count: Must<i32>,
}

#[api]
pub struct PodGroupResourceClaim {
    /// What the claim is called here.
    #[api(validations(Required, Format("short-name")))]
    name: Must<String>,
    /// The claim.
    #[api(validations(UnionMember, Format("long-name")))]
    resource_claim_name: Option<String>,
    /// The template that the claim is made from.
    #[api(validations(UnionMember, Format("long-name")))]
    resource_claim_template_name: Option<String>,
}

#[api]
pub struct DisruptionMode {
    /// Only the one.
    #[api(validations(UnionMember))]
    single: Option<SingleDisruptionMode>,
    /// All of them.
    #[api(validations(UnionMember))]
    all: Option<AllDisruptionMode>,
}

#[api]
pub struct SingleDisruptionMode {}

#[api]
pub struct AllDisruptionMode {}

#[api]
pub struct PodGroupSchedulingConstraints {
    /// What all pods must have in common.
    #[api(validations(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

#[api]
pub struct TopologyConstraint {
    /// The label of nodes that must be the same.
    #[api(validations(Required, Format("label-key")))]
    key: Must<String>,
}

#[api]
pub struct CompositePodGroupTemplate {
    /// The template's name.
    #[api(validations(Required, Format("short-name")))]
    name: Must<String>,
    /// How the pods are scheduled.
    scheduling_policy: Must<CompositePodGroupSchedulingPolicy>,
    /// Where the pods must be, together.
    #[api(validations(Immutable))]
    scheduling_constraints: Option<CompositePodGroupSchedulingConstraints>,
    /// How much is lost when one pod is disrupted.
    #[api(validations(Immutable))]
    disruption_mode: Option<CompositeDisruptionMode>,
    /// The class of their priority.
    #[api(validations(Format("long-name"), Immutable))]
    priority_class_name: String,
    /// Their priority, as a number.
    #[api(validations(Max(1_000_000_000), Immutable))]
    priority: Option<i32>,
    /// Whether others make room: Never, PreemptLowerPriority.
    #[api(go_type = "$.PreemptionPolicy", feature_gate = "PodGroupPreemptionPolicy")]
    #[api(validations(Immutable, OneOfValues("Never", "PreemptLowerPriority")))]
    preemption_policy: Option<String>,
    /// Templates of groups of pods.
    #[api(keys("name"), validations(MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name")))]
    pod_group_templates: List<PodGroupTemplate>,
    /// Templates of groups of groups.
    #[api(keys("name"), validations(MaxItems(8), NoAddItem, NoRemoveItem, UniqueBy("name")))]
    composite_pod_group_templates: List<CompositePodGroupTemplate>,
}

#[api]
pub struct CompositePodGroupSchedulingPolicy {
    /// One by one.
    #[api(validations(Immutable, UnionMember))]
    basic: Option<CompositeBasicSchedulingPolicy>,
    /// All together, or not at all.
    #[api(validations(UnionMember, NoSetOnUpdate, NoUnset))]
    gang: Option<CompositeGangSchedulingPolicy>,
}

#[api]
pub struct CompositeBasicSchedulingPolicy {}

#[api]
pub struct CompositeGangSchedulingPolicy {
    /// How many groups there must be room for.
    #[api(validations(Required, Min(1)))]
    min_group_count: Must<i32>,
}

#[api]
pub struct CompositeDisruptionMode {
    /// Only the one.
    #[api(validations(UnionMember))]
    single: Option<SingleCompositeDisruptionMode>,
    /// All of them.
    #[api(validations(UnionMember))]
    all: Option<AllCompositeDisruptionMode>,
}

#[api]
pub struct SingleCompositeDisruptionMode {}

#[api]
pub struct AllCompositeDisruptionMode {}

#[api]
pub struct CompositePodGroupSchedulingConstraints {
    /// What all pods must have in common.
    #[api(validations(MaxItems(1)))]
    topology: List<TopologyConstraint>,
}

impl Kind for Workload {
    const NAMES: ResourceNames =
        ResourceNames::new("scheduling.k8s.io", "v1beta1", "Workload", "workloads");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"];
    const BLIND_UPDATES: bool = false;
    const GATE: Option<&str> = Some("GenericWorkload");
    const DEFAULT_ON: bool = false;

    const NEEDS: Option<&'static schema::Part> = Some(&crate::parts::WORKLOAD_SCHEDULING);
    const COLUMNS: &'static [TableColumn<Self>] = &[TableColumn::NAME, TableColumn::AGE];

    fn validate(&self, errs: &mut ErrorList) {
        self.spec().check(&FieldPath::SPEC, errs);
    }
}

/// How deep templates may be nested.
const DEPTH: usize = 4;

impl WorkloadSpec {
    fn check(&self, at: &FieldPath, errs: &mut ErrorList) {
        let mut names: BTreeSet<_> =
            self.pod_group_templates().iter().map(PodGroupTemplate::name).collect();
        let composite = self.composite_pod_group_templates();
        check_names(composite, at, &mut names, errs);
        at.field("compositePodGroupTemplates").for_each_item(composite.iter(), |template, at| {
            if template.depth() > DEPTH - 1 {
                let why = format!("maximum template hierarchy depth is {DEPTH}");
                let shown = format_go_list(template.composite_pod_group_templates());
                errs.invalid_formatted(at, shown, why);
            }
        });
        self.check_priorities(at, errs);
        for (i, template) in composite.iter().enumerate() {
            template.check_children(&at.field("compositePodGroupTemplates").index(i), errs);
        }
    }

    /// All templates have one priority.
    fn check_priorities(&self, at: &FieldPath, errs: &mut ErrorList) {
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

    fn check_children(&self, at: &FieldPath, errs: &mut ErrorList) {
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
    at: &FieldPath,
    names: &mut BTreeSet<&'a str>,
    errs: &mut ErrorList,
) {
    let here = at.field("compositePodGroupTemplates");
    for (i, template) in templates.iter().enumerate() {
        if names.contains(template.name()) {
            errs.duplicate(&here.index(i).field("name"), template.name());
        }
    }
    names.extend(templates.iter().map(CompositePodGroupTemplate::name));
    here.for_each_item(templates.iter(), |template, at| {
        let children = template.pod_group_templates();
        for (j, child) in children.iter().enumerate() {
            if names.contains(child.name()) {
                errs.duplicate(&at.field("podGroupTemplates").index(j).field("name"), child.name());
            }
        }
        names.extend(children.iter().map(PodGroupTemplate::name));
        check_names(template.composite_pod_group_templates(), at, names, errs);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn names_are_told_apart_however_deep() {
        let workload: Workload = created_from_json(
            r#"{"spec":{"compositePodGroupTemplates":[{"name":"a","podGroupTemplates":[
                {"name":"a","schedulingPolicy":{"basic":{}}}],
                "schedulingPolicy":{"basic":{}}}]}}"#,
        );
        let at = "spec.compositePodGroupTemplates[0].podGroupTemplates[0].name";
        assert_eq!(create_errors(&workload), [format!("{at}: Duplicate value: \"a\"")]);
    }
}
