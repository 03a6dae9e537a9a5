//! rbac/v1: Role.

use macros::api;
use object::{List, ObjectMeta, Value};
use schema::{ErrorList, FieldPath, Kind, ResourceNames, ValidateName, name_validation};

/// A set of permissions within one namespace.
#[api]
pub struct Role {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Permissions of the role.
    #[api(no_omitempty)]
    rules: List<PolicyRule>,
}

#[api]
pub struct PolicyRule {
    /// Verbs that are allowed, such as get, list, watch, create, update, patch, delete, or *.
    verbs: Must<List<String>>,
    /// API groups of the resources: "" is the core group, * is all.
    api_groups: List<String>,
    /// Resources, such as pods or pods/log, or *.
    resources: List<String>,
    /// Names of the objects. If empty, all.
    resource_names: List<String>,
    /// URL paths that are no resources, such as /healthz or /metrics/*. Only in ClusterRoles.
    #[api(name = "nonResourceURLs")]
    non_resource_urls: List<String>,
}

impl Kind for Role {
    const NAMES: ResourceNames =
        ResourceNames::new("rbac.authorization.k8s.io", "v1", "Role", "roles");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1beta1"];
    const CREATED_BY_UPDATE: bool = true;
    const NAME: ValidateName = name_validation::path_segment;

    fn validate(&self, errs: &mut ErrorList) {
        FieldPath::Root
            .field("rules")
            .for_each_item(self.rules().iter(), |rule, at| rule.check(true, at, errs));
    }
}

impl PolicyRule {
    pub(super) fn check(&self, namespaced: bool, at: &FieldPath, errs: &mut ErrorList) {
        if self.verbs().is_empty() {
            errs.required(&at.field("verbs"), "");
        }
        let paths = self.non_resource_urls();
        let some_resource = !(self.api_groups().is_empty()
            && self.resources().is_empty()
            && self.resource_names().is_empty());
        if !paths.is_empty() {
            let at = at.field("nonResourceURLs");
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errs.invalid(&at, Value::from(paths.clone()), why);
            }
            if some_resource {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                errs.invalid(&at, Value::from(paths.clone()), why);
            }
            return;
        }
        if self.api_groups().is_empty() {
            let why = "resource rules must supply at least one api group";
            errs.required(&at.field("apiGroups"), why);
        }
        if self.resources().is_empty() {
            let why = "resource rules must supply at least one resource";
            errs.required(&at.field("resources"), why);
        }
    }
}
