//! The objects that remain in a terminating namespace, and the conditions that report them.

use std::collections::BTreeMap;

use api::core::{Namespace, NamespaceCondition, Pod};
use client::ApiResource;
use object::{List, View};
use runtime::DynamicObject;

use super::{age, is_pods};
use crate::conditions::Conditions;

/// What remains after all objects were deleted.
#[derive(Debug, Default)]
pub(super) struct RemainingContent {
    /// Number of objects by resource.
    pub(super) objects: BTreeMap<String, usize>,
    /// Number of objects by the finalizer that they have.
    finalizers: BTreeMap<String, usize>,
    pub(super) failures: Vec<String>,
    /// Why discovery failed, so that unknown resources may have objects.
    pub(super) undiscovered: Option<String>,
}

impl RemainingContent {
    /// Whether the namespace is empty, as far as is known.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failures.is_empty() && self.undiscovered.is_none()
    }

    /// Adds the objects of a resource that remain.
    pub(super) fn add(
        &mut self,
        namespace: &Namespace,
        resource: &ApiResource,
        objects: &[DynamicObject],
        now: i64,
    ) {
        if objects.is_empty() {
            return;
        }
        let ApiResource { group, version, plural, .. } = resource;
        self.objects.insert(format!("{plural}.{group}"), objects.len());
        let finalizers = objects.iter().flat_map(|object| object.metadata().finalizers().iter());
        let mut held = false;
        for finalizer in finalizers {
            held = true;
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
        if !held && !may_take_longer(namespace, resource, objects, now) {
            let name = namespace.metadata().name();
            self.failures.push(format!(
                "unexpected items still remain in namespace: {name} for gvr: {group}/{version}, \
                 Resource={plural}"
            ));
        }
    }
}

/// A condition of a terminating namespace, with upstream's texts.
struct DeletionCondition {
    name: &'static str,
    /// Reason and message while the condition is True.
    bad: (&'static str, Option<String>),
    good: (&'static str, &'static str),
}

impl RemainingContent {
    fn obstacles(&self) -> [DeletionCondition; 5] {
        let listed = |what: &BTreeMap<String, usize>, word: &str, head: &str| {
            let each = what.iter().map(|(name, n)| format!("{name} {word} {n} resource instances"));
            let each: Vec<_> = each.collect();
            (!each.is_empty()).then(|| format!("{head}: {}", each.join(", ")))
        };
        let held = "Some content in the namespace has finalizers remaining";
        let mut failures = self.failures.clone();
        failures.sort();
        let (count, failures) = (failures.len(), failures.join(", "));
        let failed = (count > 0)
            .then(|| format!("Failed to delete all resource types, {count} remaining: {failures}"));
        let obstacle = |name, bad, good| DeletionCondition { name, bad, good };
        [
            obstacle(
                "NamespaceDeletionDiscoveryFailure",
                ("DiscoveryFailed", self.undiscovered.clone()),
                ("ResourcesDiscovered", "All resources successfully discovered"),
            ),
            obstacle(
                "NamespaceDeletionGroupVersionParsingFailure",
                ("GroupVersionParsingFailed", None), // discovery has parsed them
                ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ),
            obstacle(
                "NamespaceDeletionContentFailure",
                ("ContentDeletionFailed", failed),
                (
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization",
                ),
            ),
            obstacle(
                "NamespaceContentRemaining",
                (
                    "SomeResourcesRemain",
                    listed(&self.objects, "has", "Some resources are remaining"),
                ),
                ("ContentRemoved", "All content successfully removed"),
            ),
            obstacle(
                "NamespaceFinalizersRemaining",
                ("SomeFinalizersRemain", listed(&self.finalizers, "in", held)),
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ),
        ]
    }
}

/// The namespace's conditions, updated from what remains.
pub(super) fn conditions(
    namespace: &Namespace,
    left: &RemainingContent,
    now: i64,
) -> List<NamespaceCondition> {
    let mut all = namespace.status().conditions().clone();
    for DeletionCondition { name, bad, good } in left.obstacles() {
        let (status, reason, message) = match bad {
            (reason, Some(message)) => ("True", reason, message),
            _ => ("False", good.0, good.1.to_owned()),
        };
        let condition = NamespaceCondition::new()
            .with_type(name)
            .with_status(status)
            .with_reason(reason)
            .with_message(message);
        all.set_condition(condition, now);
    }
    all
}

/// Whether the remaining objects are pods within their termination grace period.
fn may_take_longer(
    namespace: &Namespace,
    resource: &ApiResource,
    all: &[DynamicObject],
    now: i64,
) -> bool {
    if !is_pods(resource) {
        return false;
    }
    let pods = all.iter().map(|pod| Pod::view(pod.tree()));
    let grace = pods
        .filter(|pod| !pod.is_finished())
        .map(|pod| pod.spec().termination_grace_period_seconds())
        .max();
    age(namespace, now) <= grace.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use object::{Time, Value};

    use super::{
        super::tests::{deleted_at, resource},
        *,
    };

    fn pod(grace: i64) -> DynamicObject {
        let mut pod = Pod::new();
        pod.spec_mut().set_termination_grace_period_seconds(grace);
        DynamicObject::from(Value::from(pod))
    }

    #[test]
    fn what_remains_is_told() {
        let mut held = DynamicObject::default().tree().clone();
        held["metadata"]["finalizers"] = List::<String>::from(["x.io/hold"]).into();
        let cases: [(_, _, &[&str]); 3] = [
            (
                resource("", "pods"),
                vec![pod(30), pod(10)],
                &["Some resources are remaining: pods. has 2 resource instances"],
            ),
            (
                resource("x.io", "things"),
                vec![DynamicObject::from(held)],
                &[
                    "Some resources are remaining: things.x.io has 1 resource instances",
                    "Some content in the namespace has finalizers remaining: x.io/hold in 1 resource \
                 instances",
                ],
            ),
            (
                resource("apps", "deployments"),
                vec![DynamicObject::default()],
                &[
                    "Failed to delete all resource types, 1 remaining: unexpected items still remain \
                 in namespace: a for gvr: apps/v1, Resource=deployments",
                    "Some resources are remaining: deployments.apps has 1 resource instances",
                ],
            ),
        ];
        for (resource, objects, told) in cases {
            let (namespace, mut left) = (deleted_at(100), RemainingContent::default());
            left.add(&namespace, &resource, &objects, 120);
            let all = conditions(&namespace, &left, 120);
            let bad = all.iter().filter(|c| c.status() == "True").map(NamespaceCondition::message);
            assert_eq!(bad.collect::<Vec<_>>(), told, "{}", resource.plural);
            assert_eq!(all.len(), 5);
        }
        let mut left = RemainingContent::default();
        left.add(&deleted_at(100), &resource("", "pods"), &[pod(30)], 131);
        assert_eq!(left.failures.len(), 1, "longer than its grace");
    }

    #[test]
    fn conditions_keep_the_time_of_their_last_change() {
        let undiscovered =
            RemainingContent { undiscovered: Some("no".into()), ..RemainingContent::default() };
        let mut namespace = deleted_at(100);
        let before = conditions(&namespace, &undiscovered, 110);
        namespace.status_mut().set_conditions(before);
        let again = conditions(&namespace, &undiscovered, 120);
        assert_eq!(again, *namespace.status().conditions());
        let found = conditions(&namespace, &RemainingContent::default(), 120);
        let times: Vec<_> =
            found.iter().take(2).map(NamespaceCondition::last_transition_time).collect();
        assert_eq!(times, [Time::format(120), Time::format(110)]);
    }
}
