//! rbac/v1: RoleBinding.

use macros::api;
use object::{List, ObjectMeta, Value};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, TableColumn, ValidateName, name_validation,
};

use crate::rules::{ValidateField, format_go_fields};

/// The API group of roles, users and groups.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// Grants the permissions of a Role or ClusterRole within one namespace.
#[api]
pub struct RoleBinding {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Users, groups and service accounts that get the role.
    subjects: List<Subject>,
    /// Role or ClusterRole that is granted. Cannot be changed.
    role_ref: Must<RoleRef>,
}

#[api(atomic)]
pub struct Subject {
    /// Kind of the subject: User, Group or ServiceAccount.
    kind: Must<String>,
    /// API group of the kind; empty for ServiceAccount.
    api_group: String,
    /// Name of the subject.
    name: Must<String>,
    /// Namespace of a ServiceAccount.
    namespace: String,
}

#[api(atomic)]
pub struct RoleRef {
    /// API group of the role: rbac.authorization.k8s.io.
    #[api(no_omitempty, default = "rbac.authorization.k8s.io", unpublished_default)]
    api_group: String,
    /// Role or ClusterRole.
    kind: Must<String>,
    /// Name of the role.
    name: Must<String>,
}

impl Kind for RoleBinding {
    const NAMES: ResourceNames =
        ResourceNames::new("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1beta1"];
    const CREATED_BY_UPDATE: bool = true;
    const NAME: ValidateName = name_validation::path_segment;
    const COLUMNS: &'static [TableColumn<Self>] = &[
        TableColumn::NAME,
        TableColumn::text("Role", |binding, _| binding.role_ref().cell()),
        TableColumn::AGE,
        TableColumn::wide_text("Users", |it, _| Subject::cell(it.subjects(), "User")),
        TableColumn::wide_text("Groups", |it, _| Subject::cell(it.subjects(), "Group")),
        TableColumn::wide_text("ServiceAccounts", |binding, _| {
            Subject::cell(binding.subjects(), "ServiceAccount")
        }),
    ];

    fn validate(&self, errs: &mut ErrorList) {
        self.role_ref().check(&["Role", "ClusterRole"], &FieldPath::Root.field("roleRef"), errs);
        for (i, subject) in self.subjects().iter().enumerate() {
            subject.check(true, &FieldPath::Root.field("subjects").index(i), errs);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut ErrorList) {
        self.validate(errs);
        let both = (self.role_ref(), old.role_ref());
        errs.immutable_formatted(&FieldPath::Root.field("roleRef"), both, RoleRef::shown);
    }

    fn default_fields(&mut self) {
        Subject::default_groups(self.subjects_mut());
    }
}

impl RoleRef {
    pub(super) fn check(&self, kinds: &[&str], at: &FieldPath, errs: &mut ErrorList) {
        errs.one_of(&at.field("apiGroup"), self.api_group(), &[GROUP]);
        errs.one_of(&at.field("kind"), self.kind(), kinds);
        errs.required_format(&at.field("name"), self.name(), object::names::path_segment_name);
    }

    /// As Go prints it.
    pub(super) fn shown(&self) -> String {
        format_go_fields(&[
            ("APIGroup", self.api_group().into()),
            ("Kind", self.kind().into()),
            ("Name", self.name().into()),
        ])
    }

    pub(super) fn cell(&self) -> Value {
        format!("{}/{}", self.kind(), self.name()).into()
    }
}

impl Subject {
    pub(super) fn check(&self, namespaced: bool, at: &FieldPath, errs: &mut ErrorList) {
        errs.required_field(at, "name", self.name());
        match self.kind() {
            "ServiceAccount" => {
                errs.optional_format(
                    &at.field("name"),
                    self.name(),
                    object::names::dns1123_subdomain,
                );
                errs.one_of(&at.field("apiGroup"), self.api_group(), &[""]);
                if !namespaced {
                    errs.required_field(at, "namespace", self.namespace());
                }
            }
            "User" | "Group" => errs.one_of(&at.field("apiGroup"), self.api_group(), &[GROUP]),
            other => {
                let known = ["ServiceAccount", "User", "Group"];
                errs.not_supported(&at.field("kind"), other, &known);
            }
        }
    }

    /// The names of the subjects of one kind.
    pub(super) fn cell(subjects: &List<Self>, kind: &str) -> Value {
        let name = |subject: &Self| match kind {
            "ServiceAccount" => format!("{}/{}", subject.namespace(), subject.name()),
            _ => subject.name().to_owned(),
        };
        let of_kind = subjects.iter().filter(|subject| subject.kind() == kind);
        of_kind.map(name).collect::<Vec<_>>().join(", ").into()
    }

    /// Users and groups are of this API group, unless another is named.
    pub(super) fn default_groups(subjects: &mut List<Self>) {
        if subjects.is_empty() {
            return;
        }
        for subject in subjects.iter_mut() {
            if subject.api_group().is_empty() && matches!(subject.kind(), "User" | "Group") {
                subject.set_api_group(GROUP);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create_errors, created_from_json};

    #[test]
    fn an_empty_group_is_the_usual_one() {
        let binding: RoleBinding = created_from_json(
            r#"{"metadata":{"name":"b"},"roleRef":{"apiGroup":"","kind":"Role","name":"r"}}"#,
        );
        assert_eq!(binding.role_ref().api_group(), GROUP);
        assert!(create_errors(&binding).is_empty());
    }
}
