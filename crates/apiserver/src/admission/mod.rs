//! Admission plugins: one ordered list, and each plugin in its own file.

mod always_admit;
mod always_pull_images;
mod certificates;
mod config;
mod custom_resources;
mod default_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod device_admin_access;
mod event_rate_limit;
mod extended_resource_toleration;
mod image_policy_webhook;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod manifests;
mod matching;
mod namespace_existence;
mod namespace_lifecycle;
mod node_declared_features;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod_group_protection;
mod pod_node_selector;
mod pod_references;
mod pod_resize;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policy;
mod priority;
mod rbac_escalation;
mod reserved_names;
mod resource_claim_status;
mod resource_quota;
mod review;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod tolerations;
mod webhook;

use std::sync::Arc;

use anyhow::Result;
use object::{Status, Value};
use schema::FeatureGates;
use server::{
    AdmissionAttributes, AdmissionPlugin, Attributes, Authorizer, Decision, ListOptions, Selection,
    UserInfo,
};
use store::Version;

pub(crate) use self::{
    config::PluginConfigs,
    manifests::ManifestSources,
    pod_security::PodSecurityMetrics as PodSecurityTally,
    policy::{PolicyTally, WebhookMatchConditions},
    webhook::{ReviewResult, ReviewVersion, WebhookMetrics as HookTally},
};
use crate::{authz::Rbac, egress::EgressSelector, features::CLAIM_STATUS_RIGHTS};

/// The dependencies that plugins are constructed with.
#[derive(Clone, Debug)]
pub(crate) struct PluginDependencies {
    /// Metrics of admission webhooks.
    pub(crate) hooks: Arc<HookTally>,
    pub(crate) policies: Arc<PolicyTally>,
    pub(crate) pod_security: Arc<PodSecurityTally>,
    /// Default toleration seconds for not-ready and for unreachable nodes.
    pub(crate) tolerations: [i64; 2],
    pub(crate) rbac: Rbac,
    pub(crate) authorizer: AuthorizerChain,
    pub(crate) configs: PluginConfigs,
    pub(crate) conditions: Arc<WebhookMatchConditions>,
    pub(crate) manifests: Arc<ManifestSources>,
    pub(crate) gates: FeatureGates,
    pub(crate) egress: EgressSelector,
}

/// All authorizers of the server, in order; the first one with an opinion decides.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizerChain(pub(crate) Vec<Arc<dyn Authorizer>>);

impl AuthorizerChain {
    async fn is_allowed(&self, user: &UserInfo, attributes: &Attributes) -> bool {
        for way in &self.0 {
            match way.authorize(user, attributes).await {
                Decision::Allow(_) => return true,
                Decision::Deny(_) => return false,
                Decision::NoOpinion(_) => {}
            }
        }
        false
    }
}

/// An entry of the plugin list: name, whether the plugin is enabled by default, and constructor.
struct PluginRegistration {
    name: &'static str,
    on: bool,
    make: fn(&PluginDependencies) -> Result<Arc<dyn AdmissionPlugin>>,
}

const fn on(
    name: &'static str,
    make: fn(&PluginDependencies) -> Result<Arc<dyn AdmissionPlugin>>,
) -> PluginRegistration {
    PluginRegistration { name, on: true, make }
}

const fn off(
    name: &'static str,
    make: fn(&PluginDependencies) -> Result<Arc<dyn AdmissionPlugin>>,
) -> PluginRegistration {
    PluginRegistration { name, on: false, make }
}

/// All plugins in the order in which they run, with upstream's names.
const PLUGINS: &[PluginRegistration] = &[
    off("AlwaysAdmit", |_| Ok(Arc::new(always_admit::AlwaysAdmit))),
    off("NamespaceAutoProvision", |_| Ok(Arc::new(namespace_existence::NamespaceAutoProvision))),
    on("NamespaceLifecycle", |_| Ok(Arc::new(namespace_lifecycle::NamespaceLifecycle))),
    off("NamespaceExists", |_| Ok(Arc::new(namespace_existence::NamespaceExists))),
    off("LimitPodHardAntiAffinityTopology", |_| {
        Ok(Arc::new(limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology))
    }),
    on("LimitRanger", |_| Ok(Arc::new(limit_ranger::LimitRanger))),
    on("ServiceAccount", |_| Ok(Arc::new(service_account::ServiceAccount))),
    // Upstream disables it by default; every cluster with kubelets needs it.
    on("NodeRestriction", |tools| {
        let (gates, rights) = (tools.gates.clone(), tools.authorizer.clone());
        Ok(Arc::new(node_restriction::NodeRestriction { gates, rights }))
    }),
    on("TaintNodesByCondition", |_| Ok(Arc::new(taint_nodes_by_condition::TaintNodesByCondition))),
    off("AlwaysPullImages", |_| Ok(Arc::new(always_pull_images::AlwaysPullImages))),
    off("ImagePolicyWebhook", |tools| {
        let config = tools.configs.get("ImagePolicyWebhook");
        let lines = tools.egress.pool.clone();
        Ok(Arc::new(image_policy_webhook::ImagePolicyWebhook::new(&config, lines)?))
    }),
    on("PodSecurity", |tools| {
        let config = tools.configs.get("PodSecurity");
        Ok(Arc::new(pod_security::PodSecurity::new(&config, tools.pod_security.clone())?))
    }),
    off("PodNodeSelector", |tools| {
        let config = tools.configs.get("PodNodeSelector");
        Ok(Arc::new(pod_node_selector::PodNodeSelector::new(&config)))
    }),
    on("Priority", |tools| Ok(Arc::new(priority::Priority { gates: tools.gates.clone() }))),
    on("DefaultTolerationSeconds", |tools| {
        Ok(Arc::new(default_toleration_seconds::DefaultTolerationSeconds(tools.tolerations)))
    }),
    off("PodTolerationRestriction", |tools| {
        let config = tools.configs.get("PodTolerationRestriction");
        Ok(Arc::new(pod_toleration_restriction::PodTolerationRestriction::new(&config)?))
    }),
    off("EventRateLimit", |tools| {
        let config = tools.configs.get("EventRateLimit");
        Ok(Arc::new(event_rate_limit::EventRateLimit::new(&config)?))
    }),
    off("ExtendedResourceToleration", |_| {
        Ok(Arc::new(extended_resource_toleration::ExtendedResourceToleration))
    }),
    on("DefaultStorageClass", |_| Ok(Arc::new(default_class::STORAGE))),
    on("StorageObjectInUseProtection", |_| {
        Ok(Arc::new(storage_object_in_use_protection::StorageObjectInUseProtection))
    }),
    on("PodGroupProtection", |_| Ok(Arc::new(pod_group_protection::PodGroupProtection))),
    off("OwnerReferencesPermissionEnforcement", |tools| {
        let rights = tools.authorizer.clone();
        Ok(Arc::new(
            owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement {
                rights,
            },
        ))
    }),
    on("PersistentVolumeClaimResize", |_| {
        Ok(Arc::new(persistent_volume_claim_resize::PersistentVolumeClaimResize))
    }),
    on("RuntimeClass", |_| Ok(Arc::new(runtime_class::RuntimeClass))),
    on("CertificateApproval", |tools| {
        Ok(Arc::new(certificates::SignerAuthorization::approval(&tools.authorizer)))
    }),
    on("CertificateSigning", |tools| {
        Ok(Arc::new(certificates::SignerAuthorization::signing(&tools.authorizer)))
    }),
    on("ClusterTrustBundleAttest", |tools| {
        Ok(Arc::new(certificates::SignerAuthorization::attest(&tools.authorizer)))
    }),
    on("CertificateSubjectRestriction", |_| Ok(Arc::new(certificates::SubjectRestriction))),
    on("DefaultIngressClass", |_| Ok(Arc::new(default_class::INGRESS))),
    off("DenyServiceExternalIPs", |_| {
        Ok(Arc::new(deny_service_external_ips::DenyServiceExternalIps))
    }),
    on("PodTopologyLabels", |tools| {
        let gates = tools.gates.clone();
        Ok(Arc::new(pod_topology_labels::PodTopologyLabels { gates }))
    }),
    on("NodeDeclaredFeatureValidator", |_| {
        Ok(Arc::new(node_declared_features::NodeDeclaredFeatureValidator))
    }),
    on("PodResizeValidator", |_| Ok(Arc::new(pod_resize::PodResizeValidator))),
    on("MutatingAdmissionPolicy", |tools| {
        let manifests = tools.manifests.open("MutatingAdmissionPolicy")?;
        Ok(Arc::new(policy::Mutating::new(
            tools.authorizer.clone(),
            tools.policies.clone(),
            manifests,
        )))
    }),
    on("MutatingAdmissionWebhook", |tools| {
        Ok(Arc::new(webhook::Mutating(webhook::WebhookDispatcher::new(
            tools,
            "MutatingAdmissionWebhook",
        )?)))
    }),
    on("ValidatingAdmissionPolicy", |tools| {
        let manifests = tools.manifests.open("ValidatingAdmissionPolicy")?;
        Ok(Arc::new(policy::Validating::new(
            tools.authorizer.clone(),
            tools.policies.clone(),
            manifests,
        )))
    }),
    on("ValidatingAdmissionWebhook", |tools| {
        Ok(Arc::new(webhook::Validating(webhook::WebhookDispatcher::new(
            tools,
            "ValidatingAdmissionWebhook",
        )?)))
    }),
    on("ResourceQuota", |tools| {
        let config = tools.configs.get("ResourceQuota");
        Ok(Arc::new(resource_quota::ResourceQuota::new(&config)?))
    }),
    off("AlwaysDeny", |_| Ok(Arc::new(always_admit::AlwaysDeny))),
];

/// The enabled plugins in order: the defaults without `disabled`, plus `enabled`, plus the built-in
/// ones that are not configurable.
pub(crate) fn plugins(
    tools: &PluginDependencies,
    enabled: &[String],
    disabled: &[String],
) -> Result<Vec<Arc<dyn AdmissionPlugin>>> {
    let has = |list: &[String], name: &str| list.iter().any(|own| own == name);
    let mut all: Vec<Arc<dyn AdmissionPlugin>> = Vec::new();
    for entry in PLUGINS {
        let on = (entry.on && !has(disabled, entry.name)) || has(enabled, entry.name);
        if on {
            all.push((entry.make)(tools)?);
        }
    }
    all.insert(0, Arc::new(certificates::CertificateRequester));
    all.push(Arc::new(custom_resources::CustomResources));
    all.push(Arc::new(reserved_names::ReservedNames { gates: tools.gates.clone() }));
    all.push(Arc::new(device_admin_access::DeviceAdminAccess));
    all.push(Arc::new(rbac_escalation::EscalationCheck { rbac: tools.rbac.clone() }));
    if tools.gates.is_enabled(CLAIM_STATUS_RIGHTS) {
        let rights = tools.authorizer.clone();
        all.push(Arc::new(resource_claim_status::ResourceClaimStatus { rights }));
    }
    Ok(all)
}

/// The plugin names that `--enable-admission-plugins` and `--disable-admission-plugins` accept.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|entry| entry.name)
}

/// Whether the server itself makes this write, as `system:apiserver`. The objects it needs (roles,
/// namespaces, its lease and its Service) must not depend on webhooks and policies, which may hang
/// or reject everything.
fn is_own_write(admission: &AdmissionAttributes) -> bool {
    let UserInfo { name, groups, .. } = admission.user;
    name == "system:apiserver" && groups.iter().any(|group| group == "system:masters")
}

/// Lists the objects of a resource in one namespace, or in all if it is empty.
fn all(
    admission: &AdmissionAttributes,
    group: &str,
    plural: &str,
    namespace: &str,
) -> Result<Vec<Arc<Version<Value>>>, Status> {
    let kind = admission.registry.kind(group, plural)?;
    let list = admission.registry.list(
        &kind,
        &Selection::namespace(namespace),
        &ListOptions::default(),
    )?;
    Ok(list.items)
}

/// Joins the errors to one message, without duplicates; `None` if there are none.
fn aggregate(errors: Vec<String>) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for error in errors {
        if !all.contains(&error) {
            all.push(error);
        }
    }
    match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(format!("[{}]", all.join(", "))),
    }
}

/// The error that upstream's client returns for an invalid name, before it sends a request.
fn invalid_name_error(name: &str) -> Option<String> {
    let wrong = object::names::path_segment_name(name);
    match name {
        "" => Some("resource name may not be empty".to_owned()),
        _ if wrong.is_empty() => None,
        _ => Some(format!("invalid resource name {name:?}: [{}]", wrong.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_is_listed_once() {
        let mut all: Vec<_> = names().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn what_is_wrong_twice_is_told_once() {
        let told = |errors: &[&str]| aggregate(errors.iter().map(ToString::to_string).collect());
        assert_eq!(told(&[]), None);
        assert_eq!(told(&["a", "a"]).unwrap(), "a");
        assert_eq!(told(&["a", "b", "a"]).unwrap(), "[a, b]");
    }
}
