//! RBAC escalation check: a user may only grant permissions that they have, unless they have the
//! verb `escalate` on the role or `bind` on the referenced role.

use api::rbac::{PolicyRule, RoleRef};
use object::{List, Status, Value, View};
use server::{
    AdmissionAttributes, AdmissionFuture, AdmissionPlugin, Attributes, Authorizer, Decision,
    Operation,
};

use crate::authz::{Rbac, go_quoted_list, uncovered_rules};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Runs as the last mutating plugin, so that escalation is checked before the role is validated.
#[derive(Debug)]
pub(super) struct EscalationCheck {
    pub(super) rbac: Rbac,
}

impl AdmissionPlugin for EscalationCheck {
    fn name(&self) -> &'static str {
        "RBACEscalation"
    }

    fn mutate<'a>(&'a self, admission: &'a mut AdmissionAttributes<'_>) -> AdmissionFuture<'a> {
        Box::pin(async move {
            let names = &admission.served.definition.names;
            if names.group != GROUP
                || !matches!(admission.operation, Operation::Create | Operation::Update)
                || admission.user.in_group("system:masters")
                || admission.old.is_some_and(|old| changes_only_finalizers(old, &admission.object))
            {
                return Ok(());
            }
            match names.plural {
                "roles" | "clusterroles" => self.role(admission).await,
                "rolebindings" | "clusterrolebindings" => self.binding(admission).await,
                _ => Ok(()),
            }
        })
    }
}

impl EscalationCheck {
    async fn role(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let name = if admission.old.is_some() { &*admission.name } else { "" };
        let resource = admission.served.definition.names.plural;
        if self.may(admission, "escalate", (resource, name)).await {
            return Ok(());
        }
        let rules = List::<PolicyRule>::view(admission.object.get("rules"));
        self.check(admission, &rules.iter().cloned().collect::<Vec<_>>())?;
        let gathers = |object: &Value| !object.get("aggregationRule").is_null();
        if gathers(&admission.object) || admission.old.is_some_and(gathers) {
            // An aggregated role may collect any rule.
            let all = ["*"];
            let rules = [
                PolicyRule::new().with_verbs(all).with_api_groups(all).with_resources(all),
                PolicyRule::new().with_verbs(all).with_non_resource_urls(all),
            ];
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.check(admission, &rules).map_err(|_| admission.forbidden(why))?;
        }
        Ok(())
    }

    async fn binding(&self, admission: &AdmissionAttributes<'_>) -> Result<(), Status> {
        let reference = RoleRef::view(admission.object.get("roleRef"));
        let (kind, namespace) = (reference.kind(), &*admission.namespace);
        let resource = if kind == "Role" { "roles" } else { "clusterroles" };
        if self.may(admission, "bind", (resource, reference.name())).await {
            return Ok(());
        }
        if !matches!(kind, "Role" | "ClusterRole") {
            let why = format!("unsupported role reference kind: {kind:?}");
            return Err(Status::failure(500, "", why));
        } else if kind == "Role" && namespace.is_empty() {
            return Err(Status::bad_request("Namespace parameter required."));
        }
        let none = || Status::not_found(admission.served.subject(reference.name()));
        let rules = self.rbac.rules_of(reference, namespace).ok_or_else(none)?;
        self.check(admission, &rules)
    }

    /// Whether RBAC allows the user the verb `escalate` or `bind` on the role.
    async fn may(&self, admission: &AdmissionAttributes<'_>, verb: &str, of: (&str, &str)) -> bool {
        let wanted = Attributes {
            verb: verb.into(),
            group: GROUP.into(),
            version: "*".into(),
            resource: of.0.into(),
            namespace: admission.namespace.clone(),
            name: of.1.into(),
            is_resource: true,
            ..Attributes::default()
        };
        matches!(self.rbac.authorize(admission.user, &wanted).await, Decision::Allow(_))
    }

    fn check(
        &self,
        admission: &AdmissionAttributes<'_>,
        rules: &[PolicyRule],
    ) -> Result<(), Status> {
        let held = self.rbac.rules(admission.user, &admission.namespace);
        let lacking =
            uncovered_rules(&held, rules).map_err(|why| admission.forbidden(&why.to_string()))?;
        if lacking.is_empty() {
            return Ok(());
        }
        Err(admission.forbidden(&format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            admission.user.name,
            go_quoted_list(&admission.user.groups),
            lacking.join("\n")
        )))
    }
}

/// Whether an update changes only finalizers and owner references.
fn changes_only_finalizers(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            object["metadata"].remove(field);
        }
        object
    };
    rest(old) == rest(new)
}
