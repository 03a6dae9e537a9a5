//! rbac/v1: ClusterRoleBinding.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Column, Errors, Kind, NameRule, Names, Path, Scope, names};

use super::{RoleRef, Subject};
use crate::rules::Rules;

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
    const NAMES: Names =
        Names::new("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings");
    const SCOPE: Scope = Scope::Cluster;
    const CREATED_BY_UPDATE: bool = true;
    const NAME: NameRule = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::text("Role", |binding, _| binding.role_ref().cell()),
        Column::AGE,
        Column::wide_text("Users", |it, _| Subject::cell(it.subjects(), "User")),
        Column::wide_text("Groups", |it, _| Subject::cell(it.subjects(), "Group")),
        Column::wide_text("ServiceAccounts", |binding, _| {
            Subject::cell(binding.subjects(), "ServiceAccount")
        }),
    ];

    fn validate(&self, errs: &mut Errors) {
        self.role_ref().check(&["ClusterRole"], &Path::Root.field("roleRef"), errs);
        for (i, subject) in self.subjects().iter().enumerate() {
            subject.check(false, &Path::Root.field("subjects").index(i), errs);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.validate(errs);
        let both = (self.role_ref(), old.role_ref());
        errs.kept(&Path::Root.field("roleRef"), both, RoleRef::shown);
    }

    fn default_fields(&mut self) {
        Subject::default_groups(self.subjects_mut());
    }
}
