//! Nobody gives rights that they do not have, unless they may `escalate` or `bind`.

use api::rbac::{PolicyRule, RoleRef};
use object::{List, Status, View};
use server::{Admission, Admit, Admitting, Attributes, Authorize, Decision, Operation};

use crate::authz::{Rbac, covers};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug)]
pub(super) struct Escalation {
    pub(super) rbac: Rbac,
}

impl Admit for Escalation {
    fn name(&self) -> &'static str {
        "RBACEscalation"
    }

    fn validate<'a>(&'a self, admission: &'a Admission<'_>) -> Admitting<'a> {
        Box::pin(async move {
            let names = &admission.served.definition.names;
            if names.group != GROUP
                || !matches!(admission.operation, Operation::Create | Operation::Update)
                || admission.user.is_in("system:masters")
            {
                return Ok(());
            }
            let same = |field: &str| {
                admission.old.is_some_and(|old| old.get(field) == admission.object.get(field))
            };
            match names.plural {
                "roles" | "clusterroles" if !same("rules") => {
                    let rules = List::<PolicyRule>::view(admission.object.get("rules"));
                    self.check(admission, "escalate", rules.iter().cloned().collect()).await
                }
                "rolebindings" | "clusterrolebindings"
                    if !(same("roleRef") && same("subjects")) =>
                {
                    let reference = RoleRef::view(admission.object.get("roleRef"));
                    let rules = self.rbac.rules_of(reference, &admission.namespace);
                    self.check(admission, "bind", rules).await
                }
                _ => Ok(()),
            }
        })
    }
}

impl Escalation {
    async fn check(
        &self,
        admission: &Admission<'_>,
        verb: &str,
        rules: Vec<PolicyRule>,
    ) -> Result<(), Status> {
        let (resource, name) = match verb {
            "bind" => {
                let reference = RoleRef::view(admission.object.get("roleRef"));
                let plural = if reference.kind() == "Role" { "roles" } else { "clusterroles" };
                (plural, reference.name())
            }
            _ => (admission.served.definition.names.plural, &*admission.name),
        };
        let wanted = Attributes {
            verb: verb.into(),
            group: GROUP.into(),
            version: "v1".into(),
            resource: resource.into(),
            namespace: admission.namespace.clone(),
            name: name.into(),
            is_resource: true,
            ..Attributes::default()
        };
        if let Decision::Allow(_) = self.rbac.authorize(admission.user, &wanted).await {
            return Ok(());
        }
        let held = self.rbac.rules(admission.user, &admission.namespace);
        let lacks = rules.iter().find(|rule| !covers(&held, rule));
        let Some(lacks) = lacks else { return Ok(()) };
        let rule =
            String::from_utf8_lossy(&object::to_json(object::Lens::tree(lacks))).into_owned();
        Err(admission.forbid(&format!(
            "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:\n{rule}",
            admission.user.name, admission.user.groups
        )))
    }
}
