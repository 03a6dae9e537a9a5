//! rbac/v1: ClusterRoleBinding.

use macros::api;
use object::{List, ObjectMeta};
use schema::{Column, Errors, Kind, NameRule, Names, Path, Scope, Storage, names};

use super::{RoleRef, Subject};

#[api]
pub struct ClusterRoleBinding {
    /// Name, labels and the like.
    #[api(tag = 1)]
    metadata: ObjectMeta,
    /// Who gets the role.
    #[api(tag = 2)]
    subjects: List<Subject>,
    /// The role.
    #[api(tag = 3, required, always)]
    role_ref: RoleRef,
}

impl Kind for ClusterRoleBinding {
    const NAMES: Names = Names {
        group: "rbac.authorization.k8s.io",
        version: "v1",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        short: &[],
        categories: &[],
    };
    const SCOPE: Scope = Scope::Cluster;
    const STORAGE: Storage = Storage::new("clusterrolebindings", "v1");
    const CREATED_BY_UPDATE: bool = true;
    const NAME: NameRule = names::path_segment;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::NAME,
        Column::new("Role", "string", |binding, _| binding.role_ref().cell()),
        Column::AGE,
        Column::new("Users", "string", |binding: &Self, _| {
            Subject::cell(binding.subjects(), "User")
        })
        .wide(),
        Column::new("Groups", "string", |binding: &Self, _| {
            Subject::cell(binding.subjects(), "Group")
        })
        .wide(),
        Column::new("ServiceAccounts", "string", |binding: &Self, _| {
            Subject::cell(binding.subjects(), "ServiceAccount")
        })
        .wide(),
    ];

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn validate(&self, errs: &mut Errors) {
        self.role_ref().check(&["ClusterRole"], &Path::Root.field("roleRef"), errs);
        for (i, subject) in self.subjects().iter().enumerate() {
            subject.check(false, &Path::Root.field("subjects").index(i), errs);
        }
    }

    fn validate_update(&self, old: &Self, errs: &mut Errors) {
        self.validate(errs);
        if self.role_ref() != old.role_ref() {
            let shown = self.role_ref().shown();
            errs.invalid_shown(&Path::Root.field("roleRef"), shown, "field is immutable");
        }
    }

    fn default_fields(&mut self) {
        Subject::default_groups(self.subjects_mut());
    }
}
