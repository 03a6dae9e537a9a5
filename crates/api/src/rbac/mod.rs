//! rbac/v1.

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;

pub use self::{
    cluster_role::{AggregationRule, ClusterRole},
    cluster_role_binding::ClusterRoleBinding,
    role::{PolicyRule, Role},
    role_binding::{RoleBinding, RoleRef, Subject},
};
