//! Health checks of the server and of its start, with upstream's names (`poststarthook/…`): each
//! startup step reports when it is done.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use server::{HealthCheck, ProbeScope, Registry};

/// Steps of the start, in upstream's order. Upstream's steps that do not exist here have no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartupStep {
    Admission,
    FlowControl,
    CustomKinds,
    Namespaces,
    Authentication,
    Identity,
    Collector,
    Storage,
    TokenTracking,
    AddressRepair,
    Roles,
    PriorityClasses,
    FlowObjects,
    Service,
    ServiceRanges,
    ProxyCertificate,
    LocalServices,
    RemoteServices,
}

const PARTS: &[(StartupStep, &str)] = &[
    (StartupStep::Admission, "poststarthook/start-apiserver-admission-initializer"),
    (StartupStep::Storage, "poststarthook/generic-apiserver-start-informers"),
    (StartupStep::FlowControl, "poststarthook/priority-and-fairness-config-consumer"),
    (StartupStep::FlowControl, "poststarthook/priority-and-fairness-filter"),
    (StartupStep::Storage, "poststarthook/storage-object-count-tracker-hook"),
    (StartupStep::CustomKinds, "poststarthook/start-apiextensions-informers"),
    (StartupStep::CustomKinds, "poststarthook/start-apiextensions-controllers"),
    (StartupStep::CustomKinds, "poststarthook/crd-informer-synced"),
    (StartupStep::Namespaces, "poststarthook/start-system-namespaces-controller"),
    (StartupStep::Service, "poststarthook/peer-endpoint-reconciler-controller"),
    (StartupStep::Authentication, "poststarthook/start-cluster-authentication-info-controller"),
    (StartupStep::Identity, "poststarthook/start-kube-apiserver-identity-lease-controller"),
    (StartupStep::Collector, "poststarthook/start-kube-apiserver-identity-lease-garbage-collector"),
    (StartupStep::Storage, "poststarthook/storage-readiness"),
    (StartupStep::TokenTracking, "poststarthook/start-legacy-token-tracking-controller"),
    (StartupStep::AddressRepair, "poststarthook/start-service-ip-repair-controllers"),
    (StartupStep::Roles, "poststarthook/rbac/bootstrap-roles"),
    (StartupStep::PriorityClasses, "poststarthook/scheduling/bootstrap-system-priority-classes"),
    (StartupStep::FlowObjects, "poststarthook/priority-and-fairness-config-producer"),
    (StartupStep::Service, "poststarthook/bootstrap-controller"),
    (StartupStep::ServiceRanges, "poststarthook/start-kubernetes-service-cidr-controller"),
    (StartupStep::ProxyCertificate, "poststarthook/aggregator-reload-proxy-client-cert"),
    (StartupStep::LocalServices, "poststarthook/start-kube-aggregator-informers"),
    (StartupStep::LocalServices, "poststarthook/apiservice-status-local-available-controller"),
    (StartupStep::RemoteServices, "poststarthook/apiservice-status-remote-available-controller"),
    (StartupStep::LocalServices, "poststarthook/apiservice-registration-controller"),
    (StartupStep::RemoteServices, "poststarthook/apiservice-discovery-controller"),
    (StartupStep::LocalServices, "poststarthook/kube-apiserver-autoregistration"),
    (StartupStep::LocalServices, "autoregister-completion"),
    (StartupStep::RemoteServices, "poststarthook/apiservice-openapi-controller"),
    (StartupStep::RemoteServices, "poststarthook/apiservice-openapiv3-controller"),
];

/// The startup steps that are done.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartupProgress(Arc<AtomicU64>);

impl StartupProgress {
    /// Marks startup steps as done.
    pub(crate) fn done(&self, parts: &[StartupStep]) {
        let bits = parts.iter().fold(0, |bits, part| bits | 1 << *part as u64);
        self.0.fetch_or(bits, Ordering::Release);
    }

    fn is_done(&self, part: StartupStep) -> bool {
        self.0.load(Ordering::Acquire) & 1 << part as u64 != 0
    }

    /// All health checks. `expiry` checks the serving certificate; `proxied` is whether there is a
    /// configured client certificate for aggregated servers, which has a check of its own.
    pub(crate) fn checks(
        &self,
        registry: &Arc<Registry>,
        expiry: impl Fn() -> Result<(), String> + Send + Sync + 'static,
        proxied: bool,
    ) -> Vec<HealthCheck> {
        let engine = registry.engine().clone();
        let health = move || engine.health().map_err(|error| error.to_string());
        let engine = registry.engine().clone();
        let again = move || engine.readiness().map_err(|error| error.to_string());
        let mut all = vec![
            HealthCheck::new("ping", ProbeScope::All, || Ok(())),
            HealthCheck::new("log", ProbeScope::All, || Ok(())),
            HealthCheck::new("loopback-serving-certificate", ProbeScope::Livez, expiry),
            HealthCheck::new("etcd", ProbeScope::All, health),
            HealthCheck::new("etcd-readiness", ProbeScope::Readyz, again),
        ];
        let synced = self.clone();
        all.push(HealthCheck::new("informer-sync", ProbeScope::Readyz, move || {
            if synced.is_done(StartupStep::Storage) {
                Ok(())
            } else {
                Err("not yet read".to_owned())
            }
        }));
        let own = |part: &StartupStep| proxied || *part != StartupStep::ProxyCertificate;
        for (part, name) in PARTS.iter().filter(|(part, _)| own(part)) {
            let (progress, part) = (self.clone(), *part);
            all.push(HealthCheck::new(name, ProbeScope::All, move || {
                if progress.is_done(part) { Ok(()) } else { Err("not finished".to_owned()) }
            }));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_told_apart() {
        let progress = StartupProgress::default();
        assert!(!progress.is_done(StartupStep::Admission));
        progress.done(&[StartupStep::Admission, StartupStep::RemoteServices]);
        assert!(
            progress.is_done(StartupStep::Admission)
                && progress.is_done(StartupStep::RemoteServices)
        );
        assert!(!progress.is_done(StartupStep::Roles));
    }
}
