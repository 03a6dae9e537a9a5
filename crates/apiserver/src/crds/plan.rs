//! Computes the status of a CustomResourceDefinition and the next step for it.

use api::apiextensions::{
    CLEANUP_FINALIZER, CrdConditionUpdate, CustomResourceDefinition, NamesResult, schemas,
};
use object::Lens;
use schema::{ErrorList, FieldPath, custom::validate_structural};

/// The next step for a CRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Done,
    /// The status must be written.
    Status,
    /// The custom resources must be deleted.
    DeleteInstances,
}

/// The CRD with the status that it should have, given its accepted names.
pub(super) fn plan(
    crd: &CustomResourceDefinition,
    accepted: NamesResult,
    now: i64,
) -> (CustomResourceDefinition, NextStep) {
    let mut planned = crd.clone();
    if crd.metadata().is_terminating() {
        if !crd.metadata().finalizers().iter().any(|name| name == CLEANUP_FINALIZER) {
            return (planned, NextStep::Done);
        }
        let condition = terminating(
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        );
        planned.set_condition(condition, now);
        let next = if same(&planned, crd) { NextStep::DeleteInstances } else { NextStep::Status };
        return (planned, next);
    }
    name(&mut planned, accepted, now);
    structure(&mut planned, now);
    approval(&mut planned, now);
    let next = if same(&planned, crd) { NextStep::Done } else { NextStep::Status };
    (planned, next)
}

/// The CRD after its custom resources are deleted: without the cleanup finalizer.
pub(super) fn after_instance_deletion(
    crd: &CustomResourceDefinition,
    now: i64,
) -> CustomResourceDefinition {
    let mut crd = crd.clone();
    let condition = match crd.is_true("Established") {
        true => terminating("False", "InstanceDeletionCompleted", "removed all instances"),
        false => terminating("False", "NeverEstablished", "resource was never established"),
    };
    crd.set_condition(condition, now);
    let left: object::List<String> = crd
        .metadata()
        .finalizers()
        .iter()
        .filter(|name| *name != CLEANUP_FINALIZER)
        .map(object::Text::from)
        .collect();
    crd.metadata_mut().set_finalizers(left);
    crd
}

fn same(a: &CustomResourceDefinition, b: &CustomResourceDefinition) -> bool {
    a.status().tree() == b.status().tree()
}

fn terminating<'a>(status: &'a str, reason: &'a str, message: &'a str) -> CrdConditionUpdate<'a> {
    CrdConditionUpdate { ty: "Terminating", status, reason, message }
}

fn name(crd: &mut CustomResourceDefinition, accepted: NamesResult, now: i64) {
    let NamesResult { names, conflict: refused } = accepted;
    crd.status_mut().set_accepted_names(names);
    let established = crd.is_true("Established");
    let (ty, good) = ("NamesAccepted", refused.is_none());
    let condition = match &refused {
        None => CrdConditionUpdate {
            ty,
            status: "True",
            reason: "NoConflicts",
            message: "no conflicts found",
        },
        Some((reason, message)) => CrdConditionUpdate { ty, status: "False", reason, message },
    };
    crd.set_condition(condition, now);
    if established {
        return; // once established, it stays so
    }
    let ty = "Established";
    let condition = match good {
        true => CrdConditionUpdate {
            ty,
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        },
        false => CrdConditionUpdate {
            ty,
            status: "False",
            reason: "NotAccepted",
            message: "not all names are accepted",
        },
    };
    crd.set_condition(condition, now);
}

/// Sets or removes NonStructuralSchema, for schemas from before structural schemas were required.
fn structure(crd: &mut CustomResourceDefinition, now: i64) {
    let mut errs = ErrorList::default();
    for (at, schema, _) in schemas(crd) {
        validate_structural(schema, &FieldPath::Root.field(&at), &mut errs);
    }
    if errs.is_empty() {
        let ty = "NonStructuralSchema";
        if crd.condition(ty).is_some() {
            let left: object::List<_> =
                crd.status().conditions().iter().filter(|own| own.type_() != ty).cloned().collect();
            crd.status_mut().set_conditions(left);
        }
        return;
    }
    let all: Vec<_> = errs.0.iter().map(ToString::to_string).collect();
    let message = all.join(", ");
    let condition = CrdConditionUpdate {
        ty: "NonStructuralSchema",
        status: "True",
        reason: "Violations",
        message: &message,
    };
    crd.set_condition(condition, now);
}

/// Sets KubernetesAPIApprovalPolicyConformant for groups in k8s.io and kubernetes.io, by the
/// approval annotation.
fn approval(crd: &mut CustomResourceDefinition, now: i64) {
    let group = crd.spec().group();
    let within = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if !within("k8s.io") && !within("kubernetes.io") {
        return;
    }
    let said = crd
        .metadata()
        .annotations()
        .get("api-approved.kubernetes.io")
        .unwrap_or_default()
        .to_owned();
    let ty = "KubernetesAPIApprovalPolicyConformant";
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let (status, reason, message) = match &*said {
        "" => (
            "False",
            "MissingAnnotation",
            format!(
                "protected groups must have approval annotation \"api-approved.kubernetes.io\", {see}"
            ),
        ),
        said if said.starts_with("unapproved") => {
            ("False", "UnapprovedAnnotation", format!("not approved: {said:?}"))
        }
        said => ("True", "ApprovedAnnotation", format!("approved in {said}")),
    };
    crd.set_condition(CrdConditionUpdate { ty, status, reason, message: &message }, now);
}

#[cfg(test)]
mod tests {
    use api::apiextensions::accept_names;
    use object::from_json;

    use super::*;

    fn crd() -> CustomResourceDefinition {
        let text = br#"{"metadata":{"name":"things.example.com","finalizers":["x/y"]},"spec":{"group":"example.com",
            "scope":"Cluster","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
            "versions":[{"name":"v1","served":true,"storage":true}]},"status":{"storedVersions":["v1"]}}"#;
        from_json(text).expect("written in a test").into()
    }

    #[test]
    fn a_definition_gets_its_names_and_is_established() {
        let (planned, next) = plan(&crd(), accept_names(&crd(), std::iter::empty()), 5);
        assert_eq!(next, NextStep::Status);
        assert!(planned.is_true("NamesAccepted") && planned.is_true("Established"));
        assert_eq!(planned.status().accepted_names().kind(), "Thing");
        let again = plan(&planned, accept_names(&planned, std::iter::empty()), 9);
        assert_eq!(again, (planned, NextStep::Done));
    }

    #[test]
    fn two_of_one_kind_wait_for_each_other() {
        let first = plan(&crd(), accept_names(&crd(), std::iter::empty()), 5).0;
        let mut second = crd();
        second.spec_mut().names_mut().set_plural("objects");
        let (planned, _) = plan(&second, accept_names(&second, std::iter::once(&first)), 5);
        assert!(!planned.is_true("Established"));
        let accepted = planned.condition("NamesAccepted").expect("it is said");
        assert_eq!(accepted.status(), "False");
    }

    #[test]
    fn what_goes_is_emptied_first() {
        let mut crd = crd();
        crd.metadata_mut().set_deletion_timestamp("2026-01-01T00:00:00Z");
        crd.metadata_mut().finalizers_mut().push(CLEANUP_FINALIZER);
        let accepted = accept_names(&crd, std::iter::empty());
        let (planned, next) = plan(&crd, accepted.clone(), 5);
        assert_eq!(next, NextStep::Status);
        assert_eq!(plan(&planned, accepted, 6).1, NextStep::DeleteInstances);
        let last = after_instance_deletion(&planned, 7);
        assert_eq!(last.metadata().finalizers().iter().collect::<Vec<_>>(), ["x/y"]);
    }
}
