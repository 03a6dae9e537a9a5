//! rbac/v1: ClusterRoleBinding.

use macros::api;
use object::{List, ObjectMeta};
use schema::{
    ErrorList, FieldPath, Kind, ResourceNames, Scope, TableColumn, ValidateName, name_validation,
};

use super::{RoleRef, Subject};
use crate::rules::ValidateField;

/// Grants the permissions of a ClusterRole in the whole cluster.
#[api]
pub struct ClusterRoleBinding {
    /// Standard object metadata: name, namespace, labels, annotations.
    metadata: ObjectMeta,
    /// Users, groups and service accounts that get the role.
    subjects: List<Subject>,
    /// ClusterRole that is granted. Cannot be changed.
    role_ref: Must<RoleRef>,
}

impl Kind for ClusterRoleBinding {
    const NAMES: ResourceNames = ResourceNames::new(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
    );
    const FORMER_API_VERSIONS: &'static [&'static str] =
        &["rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1beta1"];
    const SCOPE: Scope = Scope::Cluster;
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
        self.role_ref().check(&["ClusterRole"], &FieldPath::Root.field("roleRef"), errs);
        for (i, subject) in self.subjects().iter().enumerate() {
            subject.check(false, &FieldPath::Root.field("subjects").index(i), errs);
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
