//! Admission: one ordered list, each plugin in a file of its own.

mod custom_resources;
mod default_toleration_seconds;
mod device_admin_access;
mod namespace_lifecycle;
mod node_restriction;
mod pod_group_protection;
mod policy;
mod priority;
mod rbac_escalation;
mod service_account;

use std::sync::Arc;

use server::{Admit, Authorize};

use crate::{allocate::Services, authz::Rbac};

/// What somebody may do, as the whole server sees it.
#[derive(Clone, Debug)]
pub(crate) struct Rights(pub(crate) Vec<Arc<dyn Authorize>>);

/// The plugins in the order in which they run, by upstream's names.
pub(crate) fn plugins(
    rbac: Rbac,
    rights: Rights,
    services: Services,
    disabled: &[String],
) -> Vec<Arc<dyn Admit>> {
    let all: Vec<Arc<dyn Admit>> = vec![
        Arc::new(namespace_lifecycle::NamespaceLifecycle),
        Arc::new(custom_resources::CustomResources),
        Arc::new(service_account::ServiceAccount),
        Arc::new(node_restriction::NodeRestriction),
        Arc::new(priority::Priority),
        Arc::new(pod_group_protection::PodGroupProtection),
        Arc::new(default_toleration_seconds::DefaultTolerationSeconds),
        Arc::new(policy::Mutating::new(rights.clone())),
        Arc::new(policy::Validating::new(rights)),
        Arc::new(rbac_escalation::Escalation { rbac }),
        Arc::new(device_admin_access::DeviceAdminAccess),
        Arc::new(services),
    ];
    all.into_iter().filter(|plugin| !disabled.iter().any(|name| name == plugin.name())).collect()
}

/// The names that `--enable-admission-plugins` and its opposite may say.
pub(crate) const NAMES: &[&str] = &[
    "NamespaceLifecycle",
    "ServiceAccount",
    "NodeRestriction",
    "Priority",
    "PodGroupProtection",
    "DefaultTolerationSeconds",
    "MutatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
];
